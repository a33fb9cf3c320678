"""The acts that claim the controllership.

In:   an open gate, or a log that is in migration after a restart or a fail-over.
Out:  how the act ended; the claim, and the window open.
Elsewhere: the multis (driver.claim), whether the claim stays (claim_watch.py), making it persistent (persisting.py),
deleting it (rollback.py).
A first claim takes two steps where a ZooKeeper-mode broker is controller. It is displaced, and asked until it stepped
down; only then it is fenced (docs/decisions/0010-displace-before-fencing.md). The claim is ephemeral until it is
persisted. The time without a controller begins here and ends when every broker answered; inside it nothing waits for an
operator.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Final

import structlog

from migrator.driver.claim import (
    Claim,
    ClaimObservation,
    plan_claim,
    plan_displace,
    plan_raise,
    recognise,
    refuse_claim,
)
from migrator.driver.claim_table import (
    Answer,
    Brokers,
    Judged,
    Known,
    Stands,
    brokers_of,
    claimed_before,
    expected_text,
    found_text,
    judge,
    mirrored,
)
from migrator.driver.copy import takeover_mark
from migrator.driver.machine import Happened, TimeWithoutController
from migrator.driver.places import plan_places
from migrator.driver.way_back import left_migration
from migrator.findings.driver import CLAIM_CHANGED, CLAIM_NOT_POSSIBLE, MIRROR_STOPPED
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.preflight import PATH_WILL_BE_CREATED
from migrator.findings.zookeeper import WRITE_REFUSED, ZOOKEEPER_LOST
from migrator.model.image import NOWHERE
from migrator.model.values import Mark
from migrator.node.brokers.step_down import wait_stepped_down
from migrator.node.driver.act import (
    ActEnded,
    ClaimHeld,
    ClaimRefused,
    Concluded,
    CopyShared,
    Found,
    HasParts,
    WindowOpened,
)
from migrator.node.driver.claim_watch import ClaimWatch
from migrator.node.driver.divergence_watch import DivergenceWatch
from migrator.node.driver.ephemeral_claim import EphemeralClaim
from migrator.node.driver.event_queue import LOOK_S
from migrator.node.driver.persisting import refused
from migrator.node.driver.retiring import Retirement
from migrator.node.driver.window_guard import WindowGuard
from migrator.node.zookeeper.claims import read_claim, refusal
from migrator.zk import paths
from migrator.zk.multi import Multi, MultiOutcome
from migrator.zk.znodes import ClusterIdZnode, ControllerZnode, parse

log = structlog.get_logger()

STEP_DOWN_SHARE = 0.5
"""Of the window's limit: while the old controller still works, the cluster is not without one."""

_FOREIGN: Final = "another controller holds the claim"
_REASONS: Final = {
    Stands.ABSENT: "no higher epoch can be claimed",
    Stands.LATER_VOTER: "a voter of this quorum claimed in an epoch that this log does not know yet",
    Stands.ZOOKEEPER_BROKER: "a broker in ZooKeeper mode holds the claim",
    Stands.EARLIER_BROKER: "a broker in ZooKeeper mode holds the claim, from before the takeover",
    Stands.MIGRATION_GONE: "no higher epoch can be claimed",
    Stands.ANOTHER_MIGRATION: "no higher epoch can be claimed",
    Stands.EPOCH_MOVED: "no higher epoch can be claimed",
    Stands.LOG_BEHIND: "ZooKeeper has records that this log lacks",
    Stands.TREE_GONE: "its tree was wiped, or belongs to no or another cluster (/cluster/id)",
}


@dataclass(kw_only=True)
class ClaimActs(HasParts):
    """The acts of one driver. to_brokers: how brokers are reached."""

    divergence: DivergenceWatch
    claim_watch: ClaimWatch
    ephemeral: EphemeralClaim
    guard: WindowGuard
    retirement: Retirement

    # --- the first claim -----------------------------------------------------------------------------------

    async def take_over(self) -> ActEnded:
        """Latch, then claim. Every voter keeps the latch: no second attempt happens by itself."""
        self.progress.changed(Found(None))
        await self.parts.hooks.before("latch")
        await self.controller.mark(Mark.TAKEOVER, takeover_mark(self.now.epoch, time.time(), updating=False))
        try:
            observed = await asyncio.to_thread(read_claim, self.session)
        except FindingError as error:
            return await self._not_claimed(error.occurrence)
        barred = refuse_claim(observed, self.config.voter_ids, self.now.epoch)
        if barred is not None:
            return await self._not_claimed(barred)
        missing = [] if self.now.tree is None else self.now.tree.missing
        if missing:
            not_made = await refused(self.session, plan_places(missing, observed.epoch_version))
            if not_made is not None:
                return await self._not_claimed(not_made)
            log.warning("zk.paths_created", code=PATH_WILL_BE_CREATED.code, paths=missing)
        await self.parts.hooks.before("claim")
        window = TimeWithoutController(self.now_ms(), self.config.takeover_max_ms)
        self.progress.changed(WindowOpened(window))
        # Before the claim is sent: it may stand although its answer is lost.
        self.ephemeral.begin(window)
        held = observed.controller
        claim = await (
            self._claim_vacant(observed) if held is None or held.kraft_epoch > 0 else self._displace(observed, held)
        )
        if claim is None:
            return await self._not_claimed(self.now.trouble)
        self.progress.changed(ClaimHeld(claim))  # before it is watched
        self.claim_watch.look()
        self.guard.watch()
        return ActEnded(Happened.CLAIMED)

    async def _not_claimed(self, found: Occurrence | None) -> ActEnded:
        """Nothing of the claim stands in ZooKeeper, so nothing has to be deleted."""
        self.progress.changed(ClaimRefused(found))  # before the mark: the window's guard has nothing to end any more
        self.ephemeral.end()
        await self.controller.mark(Mark.TAKEOVER, "")
        return ActEnded(Happened.CLAIM_REFUSED)

    async def _claim_vacant(self, observed: ClaimObservation) -> Claim | None:
        """No ZooKeeper-mode broker is controller: one multi."""
        multi, claim = plan_claim(
            observed, node=self.config.node_id, kraft_epoch=self.now.epoch, now_ms=self.parts.wall_ms(), ephemeral=True
        )
        return claim if await self._claimed(multi, claim) else None

    async def _displace(self, observed: ClaimObservation, held: ControllerZnode) -> Claim | None:
        """Take the place of a ZooKeeper-mode controller, wait until it stepped down, then claim (K-27)."""
        broker = self.controller.image.brokers.get(held.brokerid)
        # It could not be asked whether it stepped down, so it must not be displaced.
        if broker is None:
            reason = f"broker {held.brokerid} is controller and not registered here"
            self.progress.trouble(CLAIM_NOT_POSSIBLE.found(reason=reason))
            log.warning("zk.takeover_refused", reason=reason)
            return None
        multi, displaced = plan_displace(
            observed, node=self.config.node_id, kraft_epoch=self.now.epoch, now_ms=self.parts.wall_ms()
        )
        started = self.now_ms()
        applied, reason = await self._applied(multi, displaced)
        if not applied:
            log.warning("zk.takeover_refused", reason=reason, took_ms=self.now_ms() - started)
            return None
        self.guard.watch()
        limit_s = self.config.takeover_max_ms * STEP_DOWN_SHARE / 1000
        whom = (broker, self.config.inter_broker_listener, self.config.node_id, self.parts.to_brokers)
        await wait_stepped_down(*whom, limit_s=limit_s)
        log.info("zk.controller_stepped_down", broker=held.brokerid, took_ms=self.now_ms() - started)
        await self.parts.hooks.before("raise epoch")
        multi, claim = plan_raise(displaced)
        if not await self._claimed(multi, claim):
            raise CLAIM_NOT_POSSIBLE.error(reason=f"it was changed while broker {held.brokerid} stepped down")
        return claim

    # --- after a restart -----------------------------------------------------------------------------------

    async def resume(self) -> ActEnded:
        """A log in MIGRATION goes on as the table of claims says (driver.claim_table, K-02, F-42).

        Where every broker runs in KRaft mode, this waits for as long as the claim cannot be made again: in this state
        brokers and administrators are served.
        """
        while True:
            observed = await self.claim_watch.observed()
            known, judged = await self._judged(observed)
            match judged.answer:
                case Answer.GO_ON | Answer.CLAIM_AGAIN:
                    reason = None if judged.answer is Answer.GO_ON else self._why_not_again()
                    if reason is None:
                        return await self._claim_again(observed, known, judged)
                    self._name_stopped(observed, judged, reason)
                case Answer.RETIRE:
                    return await self._retire(observed, judged)
                case Answer.SERVE:
                    self._name_stopped(observed, judged, _REASONS.get(judged.stands, _FOREIGN))
                case _:
                    assert judged.finding is not None
                    return ActEnded(Happened.CLAIM_TOUCHED, (Concluded(judged.finding),))
            await asyncio.sleep(LOOK_S)

    async def _judged(self, observed: ClaimObservation) -> tuple[Known, Judged]:
        image = self.controller.image
        born = image.marks.get(Mark.MIGRATION)
        known = Known(
            self.config.voter_ids,
            self.now.epoch,
            image.position,
            born=None if born is None else int(born),
            before=claimed_before(image.marks.get(Mark.CLAIM)),
        )
        brokers = brokers_of(image)
        judged = judge(observed, known, brokers)
        # Only then: it is one more read, and no other answer depends on whose tree this is.
        if judged.answer is Answer.CLAIM_AGAIN and not await self._of_this_cluster():
            judged = judge(observed, known, brokers, of_this_cluster=False)
        return known, judged

    async def _of_this_cluster(self) -> bool:
        """Whether `/cluster/id` names this cluster: a tree that was wiped, or is another's, is not filled unasked."""
        znode = await asyncio.to_thread(self.session.get, paths.CLUSTER_ID)
        if znode is None:
            return False
        try:
            return parse(ClusterIdZnode, paths.CLUSTER_ID, znode.data).id == self.controller.settings.cluster_id
        except FindingError:
            return False

    def _why_not_again(self) -> str | None:
        """A broker in KRaft mode that reports here is the fact by which this is the cluster's log, and no old one."""
        brokers = self.controller.image.brokers
        if brokers_of(self.controller.image) is not Brokers.KRAFT or self.controller.contacts.any_reported(brokers):
            return None
        return "no broker in KRaft mode has sent a heartbeat since this controller leads"

    def _name_stopped(self, observed: ClaimObservation, judged: Judged, reason: str) -> None:
        stopped = MIRROR_STOPPED.found(reason=reason, found=found_text(observed, judged.stands))
        self.progress.changed(Found(stopped))
        self.progress.alarm(MIRROR_STOPPED.code, stopped)
        self.progress.waiting(stopped.text)

    async def _retire(self, observed: ClaimObservation, judged: Judged) -> ActEnded:
        """Whatever comes later (another migration by nodes of the same ids), this log has no part in it."""
        assert judged.finding is not None
        self.progress.changed(Concluded(judged.finding))
        await self._clear(observed)
        await self.retirement.retire(json.dumps({"at": time.time(), "found": judged.finding.text}))
        return ActEnded(Happened.ROLLED_BACK)

    async def _claim_again(self, observed: ClaimObservation, known: Known, judged: Judged) -> ActEnded:
        at = self.controller.image.position
        noted = NOWHERE if observed.migration is None else min(mirrored(observed.migration), at)
        self.divergence.behind_by(noted.offset, self.controller.image)
        if judged.answer is Answer.CLAIM_AGAIN:
            changed = CLAIM_CHANGED.found(found=found_text(observed, judged.stands), expected=expected_text(known))
            self.progress.alarm(CLAIM_CHANGED.code, changed)
            log.warning("claim.made_again", found=changed.text)
        await self.parts.hooks.before("claim")
        multi, claim = plan_claim(
            observed,
            node=self.config.node_id,
            kraft_epoch=self.now.epoch,
            now_ms=self.parts.wall_ms(),
            ephemeral=False,
            at=at if noted.offset < 0 else noted,
            above=-1 if known.before is None else known.before.zk_epoch,
        )
        if judged.answer is Answer.GO_ON or brokers_of(self.controller.image) is not Brokers.KRAFT:  # else served
            self.progress.changed(WindowOpened(TimeWithoutController(self.now_ms(), self.config.takeover_max_ms)))
        if not await self._claimed(multi, claim):
            assert self.now.trouble is not None
            raise FindingError(self.now.trouble)
        self.ephemeral.end()
        self.progress.alarm(MIRROR_STOPPED.code, None)
        self.progress.changed(CopyShared(), ClaimHeld(claim))  # before it is watched
        self.claim_watch.look()
        return ActEnded(Happened.CLAIM_RESUMED, (Found(None),) if judged.answer is Answer.CLAIM_AGAIN else ())

    async def _clear(self, observed: ClaimObservation) -> None:
        """Before the log is retired: no later process of it looks at ZooKeeper again."""
        multi = left_migration(observed, self.config.voter_ids, self.now.epoch)
        if multi is None:
            return
        not_done = await refused(self.session, multi)
        if not_done is not None:
            log.warning("zk.migration_left", code=not_done.code, reason=not_done.text)

    # --- what both need ------------------------------------------------------------------------------------

    async def _claimed(self, multi: Multi, claim: Claim) -> bool:
        """Send the claim; when its answer is lost, what stands in ZooKeeper decides (K-01)."""
        started = self.now_ms()
        applied, reason = await self._applied(multi, claim)
        took = self.now_ms() - started
        if applied:
            log.info("zk.takeover", controller_epoch=claim.zk_epoch, zk_version=claim.epoch_version, took_ms=took)
        else:
            log.warning("zk.takeover_refused", reason=reason, took_ms=took)
        return applied

    async def _applied(self, multi: Multi, claim: Claim) -> tuple[bool, str]:
        """Whether the claim stands, and why not."""
        try:
            outcome = await asyncio.to_thread(self.session.apply, multi)
        except FindingError as error:
            if error.code != ZOOKEEPER_LOST.code:
                raise
            self.progress.trouble(error.occurrence)
            return recognise(await self.claim_watch.observed(), claim), "its answer was lost, and it was not applied"
        self.progress.trouble(None if outcome.applied else _not_possible(multi, outcome))
        return outcome.applied, outcome.error

    def close(self) -> None:
        self.guard.stop()


def _not_possible(multi: Multi, outcome: MultiOutcome) -> Occurrence:
    found = refusal(multi, outcome)
    if found.code != WRITE_REFUSED.code:
        return found
    error, path = found.values["error"], found.values["path"]
    return CLAIM_NOT_POSSIBLE.found(reason=f"ZooKeeper moved meanwhile ({error} on {path})")
