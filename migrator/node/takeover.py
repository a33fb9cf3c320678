"""The acts from waiting to a committed copy, or to a claim resumed; one method per state of the driver.

In:   a `DriverNode` and the state it is in.
Out:  how the act ended (`Happened`); what it learned stays in `driver.now`.
Elsewhere: which act comes next (driver.machine), what follows (dual_write.py), the way back (hand_back.py).
The window without a controller begins with the claim and ends when every broker answered; inside it nothing waits for
a person. Reading, encoding, comparing and the like run on threads, the loop only waits for them.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path

import structlog

from migrator.audit.compare import Report
from migrator.audit.proofs import Proofs
from migrator.driver.claim import (
    Claim,
    Seen,
    left_controller,
    plan_claim,
    plan_displace,
    plan_raise,
    plan_settle,
    recognise,
    refuse_claim,
    refuse_resume,
)
from migrator.driver.claim import still_ours as claim_still_ours
from migrator.driver.copy import Copy, copied, make_copy, producer_id_margin, transaction_batches
from migrator.driver.gate import Evidence, content_findings, ibp_differs, takeover_verdict
from migrator.driver.guard import strays, without_ids
from migrator.driver.machine import Happened, Window
from migrator.driver.tell import reachable
from migrator.driver.tree import Tree, replicas_gone
from migrator.errors import (
    CLAIM_NOT_POSSIBLE,
    COPY_DIFFERS,
    HANDED_BACK,
    LATCHED,
    MOVED_WHILE_COPIED,
    ZOOKEEPER_LOST,
    FindingError,
    Occurrence,
    Severity,
)
from migrator.model.image import Position
from migrator.model.values import Mark
from migrator.node.claims import read_claim, refusal
from migrator.node.config import controller_settings
from migrator.node.driver_node import LOOK_S, DriverNode, wall_ms
from migrator.node.step_down import wait_stepped_down
from migrator.node.survey import ask_settings, survey_brokers
from migrator.node.tree_reader import moved_since, read_guards, read_tree
from migrator.node.window_guard import WindowGuard, live_brokers
from migrator.zk import paths
from migrator.zk.backup import export
from migrator.zk.multi import Multi, Outcome
from migrator.zk.pipeline import CONSIDERATE, UNLIMITED
from migrator.zk.session import ZkSession
from migrator.zk.znodes import ControllerZnode

log = structlog.get_logger()

READ_AGAIN_S = 1.0
"""Shortest pause between two readings of the tree while the gate is closed; large trees are read more rarely."""
READ_SHARE = 10
"""While waiting, at most a tenth of the time is spent reading ZooKeeper."""
EXPORT_FRESH_MS = 60 * 60 * 1_000
SETTLE_AGAIN_S = 0.2
STEP_DOWN_SHARE = 0.5
"""Of the window's limit: while the old controller still works, the cluster is not without one."""
SWEEPS_MAX = 3


class TakeoverActs:
    """The acts of one driver."""

    def __init__(self, driver: DriverNode) -> None:
        self.d = driver
        self._read_ms = 0
        self._encode_ms = 0
        self._exported_ms = 0
        self._look_ms = 0
        self._strays: set[str] = set()
        self._audit_session: ZkSession | None = None
        self._proofs = Proofs(driver.passwords)
        self._guard = WindowGuard(driver)

    # --- waiting -------------------------------------------------------------------------------------------

    async def wait_quorum(self) -> Happened:
        """Every voter is registered with the migration enabled."""
        while True:
            known = await self.d.voters_enabled()
            missing = [voter for voter in self.d.config.voter_ids if voter not in known]
            if not missing:
                return Happened.QUORUM_READY
            self.d.wait_because(f"controllers {missing} did not make themselves known yet")
            await self.d.changed(LOOK_S)

    async def wait_brokers(self) -> Happened:
        """Brokers come, the tree is read ahead, the gate is asked; then, unless held, the takeover may begin."""
        while True:
            if left_controller(await self.d.seen_claim(), self.d.config.voter_ids, self.d.epoch):
                return Happened.CLAIM_LEFT
            waiting = await self._missing_brokers()
            if waiting is not None:
                self.d.wait_because(waiting)
                await self.d.changed(LOOK_S)
                continue
            evidence = await self._evidence()
            self.d.now.trouble = None
            verdict = await asyncio.to_thread(takeover_verdict, evidence)  # it goes through every partition
            self.d.now.verdict = verdict
            if [check.name for check in verdict.failed] == ["a ZooKeeper export is taken"]:
                await self._export()
                continue
            if verdict.holds and (self.d.config.gates == "auto" or self.d.now.wish_takeover):
                self.d.now.wish_takeover = False
                return Happened.GATE_OPENED
            held = "the takeover is held (zk2kraft.gates=hold); `zk2kraft advance` lets it begin"
            self.d.wait_because(held if verdict.holds else verdict.reason())
            await self.d.changed(max(READ_AGAIN_S, READ_SHARE * self._look_ms / 1000))

    async def _missing_brokers(self) -> str | None:
        d = self.d
        wanted = await asyncio.to_thread(live_brokers, self.d.session)
        image = d.controller.image
        d.now.trouble = None
        ready = {broker.id for broker in image.brokers.values() if broker.migrating and not broker.fenced}
        missing = sorted(wanted - ready)
        if not wanted:
            return f"no broker is in {paths.BROKER_IDS}"
        if missing:
            d.now.trouble = ibp_differs(d.controller.kept_out(), image)
            if d.now.trouble is not None:
                return d.now.trouble.text
            return f"brokers {missing} are not registered and unfenced yet ({len(wanted & ready)}/{len(wanted)})"
        return None

    async def _evidence(self) -> Evidence:
        """Read, encode and ask everything that the gate wants to know."""
        d = self.d
        before = d.now.tree
        await asyncio.to_thread(self._read_ahead)
        assert d.now.tree is not None
        d.controller.removals.take_places(replicas_gone(before, d.now.tree))
        seen = await asyncio.to_thread(read_claim, d.session)
        brokers = reachable(d.controller.image)
        if d.now_ms() - self._exported_ms > EXPORT_FRESH_MS:
            d.now.exported = None  # what is kept from days ago is no way back from what is claimed today
        whom = (brokers, d.config.inter_broker_listener, str(d.config.node_id), d.to_brokers)
        d.now.surveys, failed = await survey_brokers(*whom)
        settings, silent = await ask_settings(*whom)
        return Evidence(
            tree=d.now.tree,
            seen=seen,
            image=d.controller.image,
            voters=d.config.voter_ids,
            foreign_voters=d.foreign_voters(),
            voters_enabled=await d.voters_enabled(),
            kraft_epoch=d.epoch,
            heartbeat_age_ms=d.controller.heartbeat_ages_ms(),
            estimated_ms=3 * self._read_ms + self._encode_ms,
            takeover_max_ms=d.config.takeover_max_ms,
            laboratory=d.laboratory,
            exported=d.now.exported,
            inter_broker_listener=d.config.inter_broker_listener,
            unasked=failed,
            unexplained=await asyncio.to_thread(self._unexplained, d.now.tree),
            cluster_id=d.controller.settings.cluster_id,
            waived=d.config.waived,
            ours=replace(controller_settings(d.config), level=d.controller.image.metadata_version),
            broker_settings=settings,
            settings_unread=silent,
            passwords=d.passwords,
        )

    def _unexplained(self, tree: Tree) -> list[Occurrence]:
        """On a thread: what the full send of this tree would take from the brokers, today as at the look before."""
        topics = {name: reading.topic for name, reading in tree.topics.items()}
        gone, surveys = self.d.controller.removals, list(self.d.now.surveys.values())
        seen = [found for each in surveys for found in strays(each, topics, gone.topics, gone.replicas)]
        before, self._strays = self._strays, {found.text for found in seen}
        lasting = [found for found in seen if found.text in before]
        return [found for each in surveys for found in without_ids(each, topics)] + lasting

    def _read_ahead(self) -> None:
        """On a thread: the tree, its records and the proof of both, reusing what did not move."""
        now = self.d.now
        limits = UNLIMITED if now.tree is not None else CONSIDERATE
        started = time.monotonic()
        tree = read_tree(self.d.session, limits, now.tree)
        read = time.monotonic()
        now.copy = make_copy(tree, now.copy, self.d.passwords)
        now.tree = tree
        self._read_ms = int((read - started) * 1000)
        self._encode_ms = max(self._encode_ms, int((time.monotonic() - read) * 1000))
        if self._audit_session is None:
            self._audit_session = self._open_audit_session()
        # What differs now was on its way; the audit that decides comes after the claim, and reads everything again.
        margin = producer_id_margin(len(tree.brokers))
        self._proofs.audit(self._audit_session, now.copy.by_topic(), now.copy.rest, margin, limits)
        self._look_ms = int((time.monotonic() - started) * 1000)
        read_guards(self.d.session, tree)

    async def _export(self) -> None:
        d = self.d
        directory = d.config.export_dir or d.config.metadata_log_dir / "zk2kraft-exports"
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        file = Path(directory) / f"zookeeper-{stamp}.jsonl.gz"
        d.wait_because(f"a ZooKeeper export is taken to {file}")
        info = await asyncio.to_thread(export, d.session, file, CONSIDERATE)
        log.info("zookeeper.exported", file=info.file, znodes=info.znodes, sha256=info.sha256)
        d.now.exported = info.file
        self._exported_ms = d.now_ms()

    # --- the claim -----------------------------------------------------------------------------------------

    async def take_over(self) -> Happened:
        """Latch, then claim. Every voter keeps the latch: no second attempt happens by itself, whoever leads then."""
        d = self.d
        d.now.finding = None
        await d.hooks.before("latch")
        await d.controller.mark(Mark.TAKEOVER, json.dumps({"epoch": d.epoch, "at": time.time()}))
        try:
            seen = await asyncio.to_thread(read_claim, d.session)
        except FindingError as error:
            return await self._not_claimed(error.occurrence)
        refused = refuse_claim(seen, d.config.voter_ids, d.epoch)
        if refused is not None:
            return await self._not_claimed(refused)
        await d.hooks.before("claim")
        d.now.window = Window(d.now_ms(), d.config.takeover_max_ms)
        held = seen.controller
        claim = await (self._claim_vacant(seen) if held is None or held.kraft_epoch > 0 else self._displace(seen, held))
        if claim is None:
            return await self._not_claimed(d.now.trouble)
        self._hold_claim(claim)
        self._guard.watch()
        return Happened.CLAIMED

    async def _not_claimed(self, found: Occurrence | None) -> Happened:
        """Nothing of it stands in ZooKeeper, so nothing has to be given back."""
        d = self.d
        d.now.window = None
        await d.controller.mark(Mark.TAKEOVER, "")
        d.now.finding = found
        return Happened.CLAIM_REFUSED

    async def _claim_vacant(self, seen: Seen) -> Claim | None:
        """No ZooKeeper-mode broker is controller: one multi."""
        d = self.d
        multi, claim = plan_claim(seen, node=d.config.node_id, kraft_epoch=d.epoch, now_ms=wall_ms(), ephemeral=True)
        return claim if await self._claimed(multi, claim) else None

    async def _displace(self, seen: Seen, held: ControllerZnode) -> Claim | None:
        """Take the place of a ZooKeeper-mode controller, wait until it stepped down, then claim (K-27)."""
        d = self.d
        broker = d.controller.image.brokers.get(held.brokerid)
        if broker is None:
            reason = f"broker {held.brokerid} is controller and not registered here"
            d.now.trouble = CLAIM_NOT_POSSIBLE.found(reason=reason)
            log.warning("zk.takeover_refused", reason=reason)
            return None
        multi, displaced = plan_displace(seen, node=d.config.node_id, kraft_epoch=d.epoch, now_ms=wall_ms())
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

    def _open_audit_session(self) -> ZkSession:
        assert self.d.config.zookeeper_connect is not None
        timeout = self.d.config.zookeeper_session_timeout_ms
        return ZkSession(self.d.config.zookeeper_connect, session_timeout_ms=timeout).start()

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
            return recognise(await self.d.seen_claim(), claim), "its answer was lost, and it was not applied"
        self.d.now.trouble = None if outcome.applied else _not_possible(multi, outcome)
        return outcome.applied, outcome.error

    def _hold_claim(self, claim: Claim) -> None:
        self.d.now.claim = claim
        self.d.look_at_claim()

    # --- copy, audit, commit -------------------------------------------------------------------------------

    async def copy(self) -> Happened:
        """Read again what moved, encode it, and make sure that nothing moves any more."""
        d = self.d
        started = d.now_ms()
        await d.hooks.before("read")
        tree = await asyncio.to_thread(read_tree, d.session, UNLIMITED, d.now.tree)
        for _ in range(SWEEPS_MAX):
            moved = await asyncio.to_thread(moved_since, d.session, tree)
            if not moved:
                break
            tree = await asyncio.to_thread(read_tree, d.session, UNLIMITED, tree)
        else:
            raise MOVED_WHILE_COPIED.error(count=len(moved), first=moved[0])
        found = await asyncio.to_thread(content_findings, tree, d.config.waived, d.passwords)
        blocking = [each for each in found if each.finding.severity is Severity.BLOCKS]
        if blocking:
            raise FindingError(blocking[0])
        read = d.now_ms()
        await d.hooks.before("encode")
        copy = await asyncio.to_thread(make_copy, tree, d.now.copy, d.passwords)
        d.controller.removals.take_places(replicas_gone(d.now.tree, tree))
        d.now.tree, d.now.copy = tree, copy
        log.info(
            "copy.finished",
            topics=len(tree.topics),
            partitions=tree.partition_count(),
            records=copy.record_count(),
            read_ms=read - started,
            encode_ms=d.now_ms() - read,
            total_ms=d.now_ms() - started,
        )
        return Happened.COPIED

    async def audit(self) -> Happened:
        """Compare what would be committed with ZooKeeper, read by another session after our epoch was seen there."""
        d = self.d
        await d.hooks.before("audit")
        copy, claim = d.now.copy, d.now.claim
        assert copy is not None
        assert claim is not None
        margin = producer_id_margin(len(copy.tree.brokers))
        report = await asyncio.to_thread(self._audit, copy, claim, margin)
        d.now.audit = report
        log.info("copy.audited", different=report.different, took_ms=int(report.seconds["total"] * 1000))
        if not report.same:
            first = report.differences[0]
            raise COPY_DIFFERS.error(different=len(report.differences), first=f"{first.family} {first.key}")
        return Happened.AUDIT_PASSED

    def _audit(self, copy: Copy, claim: Claim, margin: int) -> Report:
        session = self._audit_session
        assert session is not None
        session.sync()
        seen = read_claim(session)
        if not claim_still_ours(seen, claim):
            raise COPY_DIFFERS.error(different=1, first="the claim itself")
        return self._proofs.audit(session, copy.by_topic(), copy.rest, margin)

    async def commit(self) -> Happened:
        """Append the transaction in one run, wait for its commit, heal leaderships, make the claim last."""
        d = self.d
        copy = d.now.copy
        assert copy is not None
        await d.hooks.before("append")
        started = d.now_ms()
        batches = await asyncio.to_thread(lambda: list(transaction_batches(copy, wall_ms())))
        async with d.controller.paused():
            base = d.controller.newest
            last = Position(d.epoch, d.controller.next_offset() + sum(count for count, _ in batches) - 1)
            delta = await asyncio.to_thread(copied, copy, base, last)
            d.now.fresh_copy = True
            position = await d.controller.append_copy(batches, delta)
        log.info("copy.committed", offset=position.offset, epoch=position.epoch, took_ms=d.now_ms() - started)
        healed = d.controller.heal()
        if healed:
            log.info("leaders.healed", partitions=healed)
        await d.hooks.before("settle")
        return await self._settle(position)

    async def _settle(self, position: Position) -> Happened:
        """Again and again, while the claim is ours and the window has time: until then it ends with our session, and
        while that lives nobody else can be controller.
        """
        d = self.d
        claim = d.now.claim
        assert claim is not None
        while True:
            multi, settled = plan_settle(claim, position, wall_ms())
            refused = await self._refused(multi)
            if refused is None:
                break
            seen = await d.seen_claim()
            if not claim_still_ours(seen, claim):
                return d.claim_touched(seen)
            if seen.migration_version == settled.migration_version:
                break  # applied, and the answer lost
            d.now.trouble = refused
            d.wait_because(refused.text)
            if d.must_go_back():
                return d.too_late()
            await asyncio.sleep(SETTLE_AGAIN_S)
        d.now.claim = settled
        return Happened.COMMITTED

    async def _refused(self, multi: Multi) -> Occurrence | None:
        """Why it was not applied, or may not have been; None when it was."""
        try:
            outcome = await asyncio.to_thread(self.d.session.apply, multi)
        except FindingError as error:
            return error.occurrence
        return None if outcome.applied else refusal(multi, outcome)

    # --- after a restart -----------------------------------------------------------------------------------

    async def resume(self) -> Happened:
        """A log in MIGRATION goes on only while `/controller` still carries this quorum (K-02, F-42)."""
        d = self.d
        seen = await self.d.seen_claim()
        at = d.controller.image.position
        born = d.controller.image.marks.get(Mark.MIGRATION)
        refused = refuse_resume(seen, d.config.voter_ids, d.epoch, at, None if born is None else int(born))
        if refused is not None:
            d.now.finding = refused
            d.now.reason = refused.text
            if refused.code != HANDED_BACK.code:
                return Happened.CLAIM_TOUCHED
            # Whatever comes later (another migration by nodes of the same ids), this log has no part in it.
            await d.retire_log(json.dumps({"at": time.time(), "found": refused.text}))
            return Happened.HANDED_BACK
        assert seen.migration is not None
        mirrored = Position(seen.migration.kraft_metadata_epoch, seen.migration.kraft_metadata_offset)
        await d.hooks.before("claim")
        multi, claim = plan_claim(
            seen,
            node=d.config.node_id,
            kraft_epoch=d.epoch,
            now_ms=wall_ms(),
            ephemeral=False,
            at=at if mirrored.offset < 0 else mirrored,
        )
        d.now.window = Window(d.now_ms(), d.config.takeover_max_ms)
        if not await self._claimed(multi, claim):
            raise ZOOKEEPER_LOST.error(path=paths.CONTROLLER, reason="the claim was refused; reading again")
        d.now.fresh_copy = False
        self._hold_claim(claim)
        return Happened.CLAIM_RESUMED

    # --- after an abort ------------------------------------------------------------------------------------

    async def hold(self) -> Happened:
        """Nothing happens by itself here; a person allows another takeover."""
        d = self.d
        if d.now.finding is None:
            d.now.finding = LATCHED.found(mark=d.controller.newest.marks.get(Mark.TAKEOVER))
            d.now.reason = d.now.finding.text
        while True:
            if d.now.wish_takeover:
                await d.controller.mark(Mark.TAKEOVER, "")
                d.now.finding = None
                return Happened.UNLATCHED
            await d.changed(5.0)

    async def close(self) -> None:
        self._guard.stop()
        if self._audit_session is not None:
            await asyncio.to_thread(self._audit_session.close)


def _not_possible(multi: Multi, outcome: Outcome) -> Occurrence:
    found = refusal(multi, outcome)
    if found.code != ZOOKEEPER_LOST.code:
        return found
    return CLAIM_NOT_POSSIBLE.found(reason=f"ZooKeeper moved meanwhile ({outcome.error})")
