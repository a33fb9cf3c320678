"""The acts that claim the controllership, and what makes the claim last once the copy is committed.

In:   a `DriverNode` whose gate opened, or whose log is in migration after a restart or a fail-over.
Out:  how the act ended (`Happened`); the claim in `driver.now`, and the window open.
Elsewhere: the multis (driver.claim), whether it stays ours (claim_watch.py), giving it back (rollback.py).
A first claim takes two steps where a ZooKeeper-mode broker is controller: it is displaced and asked until it stepped
down, and only then fenced (docs/decisions/0010-displace-before-fencing.md). The claim ends with our session until
`settle`. The window without a controller begins here and ends when every broker answered; inside it nothing waits for a
person.
"""

from __future__ import annotations

import asyncio
import json
import time

import structlog

from migrator.driver.claim import (
    Claim,
    ClaimObservation,
    plan_claim,
    plan_displace,
    plan_persist,
    plan_raise,
    recognise,
    refuse_claim,
    refuse_resume,
    still_ours,
)
from migrator.driver.machine import Happened, Window
from migrator.driver.places import plan_places
from migrator.findings.driver import CLAIM_NOT_POSSIBLE, LOG_RETIRED
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.preflight import PATH_WILL_BE_CREATED
from migrator.findings.zookeeper import WRITE_REFUSED, ZOOKEEPER_LOST
from migrator.model.image import Position
from migrator.model.values import Mark
from migrator.node.brokers.step_down import wait_stepped_down
from migrator.node.driver.driver_node import DriverNode
from migrator.node.driver.rollback import retire_log
from migrator.node.driver.window_guard import WindowGuard
from migrator.node.zookeeper.claims import read_claim, refusal
from migrator.zk.multi import Multi, Outcome
from migrator.zk.znodes import ControllerZnode

log = structlog.get_logger()

SETTLE_AGAIN_S = 0.2
STEP_DOWN_SHARE = 0.5
"""Of the window's limit: while the old controller still works, the cluster is not without one."""


class ClaimActs:
    """The acts of one driver."""

    def __init__(self, driver: DriverNode) -> None:
        self.d = driver
        self._guard = WindowGuard(driver)

    # --- the first claim -----------------------------------------------------------------------------------

    async def take_over(self) -> Happened:
        """Latch, then claim. Every voter keeps the latch: no second attempt happens by itself, whoever leads then."""
        d = self.d
        d.now.finding = None
        await d.hooks.before("latch")
        await d.controller.mark(Mark.TAKEOVER, json.dumps({"epoch": d.epoch, "at": time.time()}))
        try:
            observed = await asyncio.to_thread(read_claim, d.session)
        except FindingError as error:
            return await self._not_claimed(error.occurrence)
        refused = refuse_claim(observed, d.config.voter_ids, d.epoch)
        if refused is not None:
            return await self._not_claimed(refused)
        missing = [] if d.now.tree is None else d.now.tree.missing
        if missing:
            refused = await _refused(d, plan_places(missing, observed.epoch_version))
            if refused is not None:
                return await self._not_claimed(refused)
            log.warning("zk.paths_created", code=PATH_WILL_BE_CREATED.code, paths=missing)
        await d.hooks.before("claim")
        d.now.window = Window(d.now_ms(), d.config.takeover_max_ms)
        d.ephemeral.begin(d.now.window)
        held = observed.controller
        claim = await (
            self._claim_vacant(observed) if held is None or held.kraft_epoch > 0 else self._displace(observed, held)
        )
        if claim is None:
            return await self._not_claimed(d.now.trouble)
        self._hold_claim(claim)
        self._guard.watch()
        return Happened.CLAIMED

    async def _not_claimed(self, found: Occurrence | None) -> Happened:
        """Nothing of it stands in ZooKeeper, so nothing has to be given back."""
        d = self.d
        d.now.window = None
        d.ephemeral.end()
        await d.controller.mark(Mark.TAKEOVER, "")
        d.now.finding = found
        return Happened.CLAIM_REFUSED

    async def _claim_vacant(self, observed: ClaimObservation) -> Claim | None:
        """No ZooKeeper-mode broker is controller: one multi."""
        d = self.d
        multi, claim = plan_claim(
            observed, node=d.config.node_id, kraft_epoch=d.epoch, now_ms=d.wall_ms(), ephemeral=True
        )
        return claim if await self._claimed(multi, claim) else None

    async def _displace(self, observed: ClaimObservation, held: ControllerZnode) -> Claim | None:
        """Take the place of a ZooKeeper-mode controller, wait until it stepped down, then claim (K-27)."""
        d = self.d
        broker = d.controller.image.brokers.get(held.brokerid)
        if broker is None:
            reason = f"broker {held.brokerid} is controller and not registered here"
            d.now.trouble = CLAIM_NOT_POSSIBLE.found(reason=reason)
            log.warning("zk.takeover_refused", reason=reason)
            return None
        multi, displaced = plan_displace(observed, node=d.config.node_id, kraft_epoch=d.epoch, now_ms=d.wall_ms())
        started = d.now_ms()
        applied, refused = await self._applied(multi, displaced)
        if not applied:
            log.warning("zk.takeover_refused", reason=refused, took_ms=d.now_ms() - started)
            return None
        self._guard.watch()
        limit_s = d.config.takeover_max_ms * STEP_DOWN_SHARE / 1000
        whom = (broker, d.config.inter_broker_listener, d.config.node_id, d.to_brokers)
        await wait_stepped_down(*whom, limit_s=limit_s)
        log.info("zk.controller_stepped_down", broker=held.brokerid, took_ms=d.now_ms() - started)
        await d.hooks.before("raise epoch")
        multi, claim = plan_raise(displaced)
        if not await self._claimed(multi, claim):
            raise CLAIM_NOT_POSSIBLE.error(reason=f"it was changed while broker {held.brokerid} stepped down")
        return claim

    # --- after a restart -----------------------------------------------------------------------------------

    async def resume(self) -> Happened:
        """A log in MIGRATION goes on only while `/controller` still carries this quorum (K-02, F-42)."""
        d = self.d
        observed = await d.claim_watch.observed()
        at = d.controller.image.position
        born = d.controller.image.marks.get(Mark.MIGRATION)
        refused = refuse_resume(observed, d.config.voter_ids, d.epoch, at, None if born is None else int(born))
        if refused is not None:
            d.now.finding = refused
            d.now.reason = refused.text
            if refused.code != LOG_RETIRED.code:
                return Happened.CLAIM_TOUCHED
            # Whatever comes later (another migration by nodes of the same ids), this log has no part in it.
            await retire_log(d, json.dumps({"at": time.time(), "found": refused.text}))
            return Happened.ROLLED_BACK
        assert observed.migration is not None
        mirrored = Position(observed.migration.kraft_metadata_epoch, observed.migration.kraft_metadata_offset)
        d.divergence.behind_by(mirrored.offset)
        await d.hooks.before("claim")
        multi, claim = plan_claim(
            observed,
            node=d.config.node_id,
            kraft_epoch=d.epoch,
            now_ms=d.wall_ms(),
            ephemeral=False,
            at=at if mirrored.offset < 0 else mirrored,
        )
        d.now.window = Window(d.now_ms(), d.config.takeover_max_ms)
        if not await self._claimed(multi, claim):
            assert d.now.trouble is not None
            raise FindingError(d.now.trouble)
        d.now.fresh_copy = False
        d.ephemeral.end()
        self._hold_claim(claim)
        return Happened.CLAIM_RESUMED

    # --- what both need ------------------------------------------------------------------------------------

    async def _claimed(self, multi: Multi, claim: Claim) -> bool:
        """Send the claim; when its answer is lost, what stands in ZooKeeper decides (K-01)."""
        started = self.d.now_ms()
        applied, refused = await self._applied(multi, claim)
        took = self.d.now_ms() - started
        if applied:
            log.info("zk.takeover", controller_epoch=claim.zk_epoch, zk_version=claim.epoch_version, took_ms=took)
        else:
            log.warning("zk.takeover_refused", reason=refused, took_ms=took)
        return applied

    async def _applied(self, multi: Multi, claim: Claim) -> tuple[bool, str]:
        """Whether it stands, and why not."""
        try:
            outcome = await asyncio.to_thread(self.d.session.apply, multi)
        except FindingError as error:
            if error.code != ZOOKEEPER_LOST.code:
                raise
            self.d.now.trouble = error.occurrence
            return recognise(await self.d.claim_watch.observed(), claim), "its answer was lost, and it was not applied"
        self.d.now.trouble = None if outcome.applied else _not_possible(multi, outcome)
        return outcome.applied, outcome.error

    def _hold_claim(self, claim: Claim) -> None:
        self.d.now.claim = claim
        self.d.claim_watch.look()

    def close(self) -> None:
        self._guard.stop()


async def settle(driver: DriverNode, position: Position) -> Happened:
    """Make the claim outlive our session: again and again, while it is ours and the window has time. Until then it ends
    with our session, and while that lives nobody else can be controller.
    """
    claim = driver.now.claim
    assert claim is not None
    while True:
        multi, settled = plan_persist(claim, position, driver.wall_ms())
        refused = await _refused(driver, multi)
        if refused is None:
            break
        observed = await driver.claim_watch.observed()
        if not still_ours(observed, claim):
            return driver.claim_watch.touched(observed)
        if observed.migration_version == settled.migration_version:
            break  # applied, and the answer lost
        driver.now.trouble = refused
        driver.now.wait_because(refused.text)
        if driver.must_go_back():
            return driver.too_late()
        await asyncio.sleep(SETTLE_AGAIN_S)
    driver.now.claim = settled
    driver.ephemeral.end()
    return Happened.COMMITTED


async def _refused(driver: DriverNode, multi: Multi) -> Occurrence | None:
    """Why it was not applied, or may not have been; None when it was."""
    try:
        outcome = await asyncio.to_thread(driver.session.apply, multi)
    except FindingError as error:
        return error.occurrence
    return None if outcome.applied else refusal(multi, outcome)


def _not_possible(multi: Multi, outcome: Outcome) -> Occurrence:
    found = refusal(multi, outcome)
    if found.code != WRITE_REFUSED.code:
        return found
    error, path = found.values["error"], found.values["path"]
    return CLAIM_NOT_POSSIBLE.found(reason=f"ZooKeeper moved meanwhile ({error} on {path})")
