"""The acts from waiting to dual-write, one method per state of the driver.

In:   a `DriverNode` and the state it is in.
Out:  how the act ended (`Happened`); what it learned stays in `driver.now`.
Elsewhere: which act comes next (driver.machine), the way back (hand_back.py).
The window without a controller begins with the claim and ends when every broker answered; inside it nothing waits for
a person. Reading, encoding, comparing and the like run on threads, the loop only waits for them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import structlog

from migrator.audit.compare import Report
from migrator.audit.quick import audit_copy
from migrator.driver.claim import (
    Claim,
    Seen,
    left_controller,
    plan_claim,
    plan_settle,
    recognise,
    refuse_claim,
    refuse_resume,
)
from migrator.driver.claim import still_ours as claim_still_ours
from migrator.driver.copy import Copy, copied, make_copy, producer_id_margin, transaction_batches
from migrator.driver.gate import Evidence, content_findings, takeover_verdict
from migrator.driver.guard import check_full_send
from migrator.driver.machine import Happened, Window, may_abort
from migrator.driver.mirror import Shape, plan, state_creation
from migrator.driver.tell import Order, reachable
from migrator.driver.teller import Teller
from migrator.driver.tree import Tree, as_image, changed_since, missing_states
from migrator.errors import (
    BROKER_LOST_IN_WINDOW,
    COPY_DIFFERS,
    HANDED_BACK,
    LATCHED,
    MOVED_WHILE_COPIED,
    ONLY_IN_ZOOKEEPER,
    WINDOW_OVERDUE,
    ZOOKEEPER_LOST,
    FindingError,
    Occurrence,
    Severity,
)
from migrator.model.diff import diff
from migrator.model.draft import Delta
from migrator.model.image import Image, Position
from migrator.model.values import Mark
from migrator.node.claims import read_claim
from migrator.node.driver_node import DriverNode
from migrator.node.mirror_node import Mirror
from migrator.node.survey import survey_brokers
from migrator.node.tree_reader import descendants, moved_since, read_tree
from migrator.zk import paths
from migrator.zk.backup import export
from migrator.zk.multi import Multi
from migrator.zk.session import CONSIDERATE, UNLIMITED, ZkSession

log = structlog.get_logger()

LOOK_S = 0.5
"""Longest pause between two looks at something that nobody announces."""
READ_AGAIN_S = 1.0
"""Shortest pause between two readings of the tree while the gate is closed; large trees are read more rarely."""
READ_SHARE = 10
"""While waiting, at most a tenth of the time is spent reading ZooKeeper."""
EXPORT_FRESH_MS = 60 * 60 * 1_000
GUARD_LOOK_S = 0.1
SWEEPS_MAX = 3
GUARD_TRIES = 3
MISSED_HEARTBEATS = 2


class TakeoverActs:
    """The acts of one driver."""

    def __init__(self, driver: DriverNode) -> None:
        self.d = driver
        self._read_ms = 0
        self._encode_ms = 0
        self._exported_ms = 0
        self._audit_session: ZkSession | None = None
        self._guard_task: asyncio.Task[None] | None = None

    # --- waiting -------------------------------------------------------------------------------------------

    async def wait_quorum(self) -> Happened:
        """Every voter is registered with the migration enabled."""
        while True:
            known = self.d.controller.image.controllers
            missing = [voter for voter in self.d.config.voter_ids if voter not in known]
            if not missing:
                return Happened.QUORUM_READY
            self.d.wait_because(f"controllers {missing} are not registered yet")
            await self.d.changed(LOOK_S)

    async def wait_brokers(self) -> Happened:
        """Brokers come, the tree is read ahead, the gate is asked; then, unless held, the takeover may begin."""
        while True:
            if left_controller(await self._seen_again(), self.d.config.voter_ids, self.d.epoch):
                return Happened.CLAIM_LEFT
            waiting = await self._missing_brokers()
            if waiting is not None:
                self.d.wait_because(waiting)
                await self.d.changed(LOOK_S)
                continue
            evidence = await self._evidence()
            verdict = takeover_verdict(evidence)
            self.d.now.verdict = verdict
            if [check.name for check in verdict.failed] == ["a ZooKeeper export is taken"]:
                await self._export()
                continue
            if verdict.holds and (self.d.config.gates == "auto" or self.d.now.wish_takeover):
                self.d.now.wish_takeover = False
                return Happened.GATE_OPENED
            held = "the takeover is held (zk2kraft.gates=hold); `zk2kraft advance` lets it begin"
            self.d.wait_because(held if verdict.holds else verdict.reason())
            await self.d.changed(max(READ_AGAIN_S, READ_SHARE * self._read_ms / 1000))

    async def _missing_brokers(self) -> str | None:
        wanted = await self._live_brokers()
        image = self.d.controller.image
        ready = {broker.id for broker in image.brokers.values() if broker.migrating and not broker.fenced}
        missing = sorted(wanted - ready)
        if not wanted:
            return f"no broker is in {paths.BROKER_IDS}"
        if missing:
            return f"brokers {missing} are not registered and unfenced yet ({len(wanted & ready)}/{len(wanted)})"
        return None

    async def _live_brokers(self) -> set[int]:
        names = await asyncio.to_thread(lambda: self.d.session.children(paths.BROKER_IDS) or [])
        return {int(name) for name in names if name.isdecimal()}

    async def _evidence(self) -> Evidence:
        """Read, encode and ask everything that the gate wants to know."""
        d = self.d
        await asyncio.to_thread(self._read_ahead)
        assert d.now.tree is not None
        seen = await asyncio.to_thread(read_claim, d.session)
        brokers = reachable(d.controller.image)
        if d.now_ms() - self._exported_ms > EXPORT_FRESH_MS:
            d.now.exported = None  # what is kept from days ago is no way back from what is claimed today
        d.now.surveys, failed = await survey_brokers(
            brokers, d.config.inter_broker_listener, str(d.config.node_id), d.to_brokers
        )
        return Evidence(
            tree=d.now.tree,
            seen=seen,
            image=d.controller.image,
            voters=d.config.voter_ids,
            foreign_voters=d.foreign_voters(),
            kraft_epoch=d.epoch,
            heartbeat_age_ms=d.controller.heartbeat_ages_ms(),
            estimated_ms=3 * self._read_ms + self._encode_ms,
            takeover_max_ms=d.config.takeover_max_ms,
            laboratory=d.laboratory,
            exported=d.now.exported,
            inter_broker_listener=d.config.inter_broker_listener,
            unasked=failed,
            cluster_id=d.controller.settings.cluster_id,
            waived=d.config.waived,
        )

    def _read_ahead(self) -> None:
        """On a thread: the tree and its records, reusing what did not move."""
        now = self.d.now
        limits = UNLIMITED if now.tree is not None else CONSIDERATE
        started = time.monotonic()
        tree = read_tree(self.d.session, limits, now.tree)
        read = time.monotonic()
        now.copy = make_copy(tree, now.copy)
        now.tree = tree
        self._read_ms = int((read - started) * 1000)
        self._encode_ms = max(self._encode_ms, int((time.monotonic() - read) * 1000))

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
        await d.hooks.before("latch")
        if self._audit_session is None:
            self._audit_session = await asyncio.to_thread(self._open_audit_session)
        await d.controller.mark(Mark.TAKEOVER, json.dumps({"epoch": d.epoch, "at": time.time()}))
        seen = await asyncio.to_thread(read_claim, d.session)
        refused = refuse_claim(seen, d.config.voter_ids, d.epoch)
        if refused is not None:
            await d.controller.mark(Mark.TAKEOVER, "")
            d.now.finding = refused
            return Happened.CLAIM_REFUSED
        await d.hooks.before("claim")
        multi, claim = plan_claim(seen, node=d.config.node_id, kraft_epoch=d.epoch, now_ms=_wall_ms(), ephemeral=True)
        d.now.window = Window(d.now_ms(), d.config.takeover_max_ms)
        if not await self._claimed(multi, claim):
            d.now.window = None
            await d.controller.mark(Mark.TAKEOVER, "")
            return Happened.CLAIM_REFUSED
        self._hold_claim(claim)
        self._guard_task = asyncio.create_task(self._guard_window(), name="window-guard")
        return Happened.CLAIMED

    def _open_audit_session(self) -> ZkSession:
        assert self.d.config.zookeeper_connect is not None
        timeout = self.d.config.zookeeper_session_timeout_ms
        return ZkSession(self.d.config.zookeeper_connect, session_timeout_ms=timeout).start()

    async def _claimed(self, multi: Multi, claim: Claim) -> bool:
        """Send the claim; when its answer is lost, what stands in ZooKeeper decides (K-01)."""
        started = self.d.now_ms()
        try:
            outcome = await asyncio.to_thread(self.d.session.apply, multi)
            applied, refused = outcome.applied, outcome.error
        except FindingError as error:
            if error.code != ZOOKEEPER_LOST.code:
                raise
            seen = await self._seen_again()
            applied = recognise(seen, claim)
            refused = "its answer was lost, and it was not applied"
        took = self.d.now_ms() - started
        if applied:
            log.info("zk.takeover", controller_epoch=claim.zk_epoch, zk_version=claim.epoch_version, took_ms=took)
        else:
            log.warning("zk.takeover_refused", reason=refused, took_ms=took)
        return applied

    async def _seen_again(self) -> Seen:
        """Read the claim as soon as ZooKeeper answers again."""
        while True:
            try:
                return await asyncio.to_thread(self._read_claim_of_now)
            except FindingError as error:
                self.d.wait_because(f"ZooKeeper has to answer before the claim is known: {error}")
                await asyncio.sleep(LOOK_S)

    def _read_claim_of_now(self) -> Seen:
        """After `sync`: a server that lags behind would say that what it does not know yet never happened."""
        self.d.session.sync()
        return read_claim(self.d.session)

    def _hold_claim(self, claim: Claim) -> None:
        self.d.now.claim = claim
        self.d.look_at_claim()

    async def _guard_window(self) -> None:
        """Ends the window by itself: too long, a broker gone, a broker silent."""
        d = self.d
        limit_ms = (
            MISSED_HEARTBEATS * d.config.broker_heartbeat_interval_ms + d.config.broker_heartbeat_interval_ms // 2
        )
        before: set[int] | None = None
        look: asyncio.Task[set[int]] | None = None
        try:
            while d.now.window is not None and may_abort(d.now.state):
                found = self._trouble(limit_ms)
                if look is not None and look.done():  # a look may hang with ZooKeeper; the clock does not wait for it
                    live = before if look.exception() is not None else look.result()
                    gone = sorted((before or set()) - (live or set()))
                    before, look = before or live, None
                    if gone and found is None:
                        found = BROKER_LOST_IN_WINDOW.found(broker=gone[0], what=f"left {paths.BROKER_IDS}")
                if found is not None and may_abort(d.now.state):
                    d.fail_window(found.text, found)
                    return
                if look is None:
                    look = asyncio.create_task(self._live_brokers(), name="live-brokers")
                await asyncio.sleep(GUARD_LOOK_S)
        finally:
            if look is not None:
                look.cancel()
                await asyncio.gather(look, return_exceptions=True)

    def _trouble(self, limit_ms: int) -> Occurrence | None:
        d = self.d
        window = d.now.window
        if window is not None and window.overdue(d.now_ms()):
            return WINDOW_OVERDUE.found(limit_ms=window.limit_ms)
        for broker, age in d.controller.heartbeat_ages_ms().items():
            known = d.controller.image.brokers.get(broker)
            if known is not None and not known.fenced and age > limit_ms:
                return BROKER_LOST_IN_WINDOW.found(broker=broker, what=f"sent no heartbeat for {age} ms")
        return None

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
        blocking = [
            each for each in content_findings(tree, d.config.waived) if each.finding.severity is Severity.BLOCKS
        ]
        if blocking:
            raise FindingError(blocking[0])
        read = d.now_ms()
        await d.hooks.before("encode")
        copy = await asyncio.to_thread(make_copy, tree, d.now.copy)
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
        return audit_copy(session, copy.values(), margin)

    async def commit(self) -> Happened:
        """Append the transaction in one run, wait for its commit, heal leaderships, make the claim last."""
        d = self.d
        copy = d.now.copy
        assert copy is not None
        await d.hooks.before("append")
        started = d.now_ms()
        batches = await asyncio.to_thread(lambda: list(transaction_batches(copy, _wall_ms())))
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
        d = self.d
        claim = d.now.claim
        assert claim is not None
        multi, settled = plan_settle(claim, position, _wall_ms())
        try:
            outcome = await asyncio.to_thread(d.session.apply, multi)
            applied = outcome.applied
        except FindingError as error:
            if error.code != ZOOKEEPER_LOST.code:
                raise
            seen = await self._seen_again()
            applied = claim_still_ours(seen, settled) and seen.migration_version == settled.migration_version
        if not applied:
            d.claim_touched(await self._seen_again())
            return Happened.CLAIM_TOUCHED
        d.now.claim = settled
        return Happened.COMMITTED

    # --- after a restart -----------------------------------------------------------------------------------

    async def resume(self) -> Happened:
        """A log in MIGRATION goes on only while `/controller` still carries this quorum (K-02, F-42)."""
        d = self.d
        seen = await self._seen_again()
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
            now_ms=_wall_ms(),
            ephemeral=False,
            at=at if mirrored.offset < 0 else mirrored,
        )
        d.now.window = Window(d.now_ms(), d.config.takeover_max_ms)
        if not await self._claimed(multi, claim):
            raise ZOOKEEPER_LOST.error(path=paths.CONTROLLER, reason="the claim was refused; reading again")
        d.now.fresh_copy = False
        self._hold_claim(claim)
        return Happened.CLAIM_RESUMED

    # --- reconcile -----------------------------------------------------------------------------------------

    async def reconcile(self) -> Happened:
        """Read ZooKeeper, compare it with the log as images, write the differences; then mirror commit by commit."""
        d = self.d
        await d.hooks.before("reconcile")
        seen = await self._seen_again()
        claim = d.now.claim
        assert claim is not None
        if not claim_still_ours(seen, claim):
            d.claim_touched(seen)
            return Happened.CLAIM_TOUCHED
        claim = replace(claim, migration_version=seen.migration_version)
        target = d.controller.image
        d.backlog.clear()
        tree = await asyncio.to_thread(read_tree, d.session, UNLIMITED, d.now.tree)
        d.now.tree = tree
        foreign = self._foreign_since_copy(tree)
        if foreign is not None:
            d.now.finding = foreign
            d.now.reason = foreign.text
            return Happened.MUST_GO_BACK
        if await asyncio.to_thread(self._complete_creations, tree, target, claim):
            tree = await asyncio.to_thread(read_tree, d.session, UNLIMITED, tree)
            d.now.tree = tree
        if tree.problems:
            raise FindingError(tree.problems[0])
        delta = await asyncio.to_thread(_difference, tree, target)
        self._refuse_to_delete_what_nobody_told_of(delta)
        shape = await asyncio.to_thread(self._shape, tree, delta)
        planned = await asyncio.to_thread(plan, delta, claim, target.position, shape)
        await asyncio.to_thread(self._write, planned.multis)
        d.now.reconciled_writes = planned.writes
        log.info("zk.reconciled", writes=planned.writes, multis=len(planned.multis))
        self._start_mirror(planned.claim, target, Shape(planned.configs))
        if d.mirror is None:
            raise ZOOKEEPER_LOST.error(path=paths.TOPICS, reason="a write was refused; reading and comparing again")
        if d.teller is None:
            return Happened.RECONCILED
        d.send(d.teller.mirrored(target.position))
        return Happened.RECONCILED if self._untold(d.teller) else Happened.RECONCILED_AGAIN

    def _foreign_since_copy(self, tree: Tree) -> Occurrence | None:
        """Right after the commit nobody but us may have changed what was copied: no broker takes our word yet."""
        if not self.d.now.fresh_copy:
            return None
        if tree.problems:
            return tree.problems[0]
        copy = self.d.now.copy
        assert copy is not None
        moved = changed_since(copy.tree, tree, self.d.controller.image)
        return ONLY_IN_ZOOKEEPER.found(count=len(moved), first=moved[0]) if moved else None

    def _refuse_to_delete_what_nobody_told_of(self, delta: Delta) -> None:
        """A successor before dual-write was ever entered: a topic that only ZooKeeper has came after the copy."""
        d = self.d
        if Mark.TAKEOVER not in d.controller.image.marks:
            return
        names = {delta.before.topics[topic_id].name for topic_id in delta.topics if topic_id not in delta.after.topics}
        foreign = sorted(names - d.deleted_topics)
        if foreign:
            error = ONLY_IN_ZOOKEEPER.error(count=len(foreign), first=paths.topic(foreign[0]))
            d.now.finding = error.occurrence
            raise error

    def _complete_creations(self, tree: Tree, target: Image, claim: Claim) -> bool:
        """On a thread: write state znodes that a creation in several multis did not come to. True when there were."""
        missing = missing_states(tree, target)
        if not missing:
            return False
        parents = sorted(
            {paths.partitions(name) for name, _ in missing} | {paths.partition(name, each.id) for name, each in missing}
        )
        znodes = self.d.session.get_many(parents)
        existing = {path for path, znode in zip(parents, znodes, strict=True) if znode is not None}
        log.warning("zk.creation_completed", partitions=len(missing), first=missing[0][0])
        self._write(tuple(state_creation(missing, existing, claim)))
        return True

    def _shape(self, tree: Tree, delta: Delta) -> Shape:
        """Which configuration znodes exist, and what lies below topics that are to be deleted."""
        gone = [
            delta.before.topics[topic_id].name
            for topic_id in delta.topics
            if topic_id in delta.before.topics and topic_id not in delta.after.topics
        ]
        strays = {name: tuple(descendants(self.d.session, paths.partitions(name))) for name in gone}
        return Shape(frozenset(tree.config_paths), strays)

    def _write(self, multis: tuple[Multi, ...]) -> None:
        """On a thread: all in flight, each answer looked at."""
        pending = [(multi, self.d.session.send(multi)) for multi in multis]
        for multi, each in pending:
            outcome = each.outcome()
            if not outcome.applied:
                refused = multi.describe()[outcome.failed_at]
                raise ZOOKEEPER_LOST.error(path=refused[:200], reason=f"{outcome.error}; reading and comparing again")

    def _start_mirror(self, claim: Claim, image: Image, shape: Shape) -> None:
        d = self.d
        d.now.claim = claim
        d.now.dual_write_at = image.position
        d.mirror = Mirror(
            d.session,
            claim,
            image,
            shape,
            on_applied=d.on_applied,
            on_broken=d.on_broken,
            on_claim=d.on_claim,
        )
        waiting, d.backlog = d.backlog, []
        for delta in waiting:
            if d.mirror is not None:
                d.mirror.publish(delta)

    # --- brokers -------------------------------------------------------------------------------------------

    async def tell_brokers(self) -> Happened:
        """The full send, guarded; done when every unfenced broker answered it without an error.

        A broker that does not say what it has holds up nobody else: it is told once it answers, or when it is back.
        """
        d = self.d
        started = d.now_ms()
        tries = 0
        if d.teller is not None:  # told before ZooKeeper had to be compared again; whoever did not answer is waited for
            return await self._told(d.teller, started)
        suspects: dict[int, str] = {}
        while True:
            silent = await self._survey_missing() | suspects
            if d.mirror is None:
                return Happened.MIRROR_BROKEN
            await d.hooks.before("tell")
            d.untold.clear()
            claim = d.now.claim
            assert claim is not None
            teller = Teller(claim, d.config.inter_broker_listener, d.controller.image)
            orders, findings = await asyncio.to_thread(self._guarded_orders, teller, silent)
            if not findings:
                self._tell(teller, orders)
                return await self._told(teller, started)
            tries += 1
            log.error("brokers.not_told", findings=[found.text for found in findings[:5]], tries=tries)
            d.now.finding = findings[0]
            d.wait_because(findings[0].text)
            if d.must_go_back() or (d.now.fresh_copy and tries >= GUARD_TRIES):
                return Happened.MUST_GO_BACK
            if not d.now.fresh_copy and tries >= GUARD_TRIES:  # after a restart: the others need their controller
                suspects = {int(found.values["broker"]): found.text for found in findings}
            d.now.surveys.clear()
            await asyncio.sleep(LOOK_S)

    async def _survey_missing(self) -> dict[int, str]:
        """Ask brokers that were not asked in their present life; returns who did not answer, and why."""
        d = self.d
        brokers = [broker for broker in reachable(d.controller.image) if broker.id not in d.now.surveys]
        surveys, failed = await survey_brokers(
            brokers, d.config.inter_broker_listener, str(d.config.node_id), d.to_brokers
        )
        d.now.surveys.update(surveys)
        return failed

    def _guarded_orders(self, teller: Teller, silent: Collection[int]) -> tuple[list[Order], list[Occurrence]]:
        orders = self.d.hooks.full_orders(teller.everything(withheld=silent))
        return orders, self._guard(orders)

    def _guard(self, orders: list[Order]) -> list[Occurrence]:
        now = self.d.now
        return check_full_send(orders, now.surveys, self.d.deleted_topics, after_fail_over=not now.fresh_copy)

    def _tell(self, teller: Teller, orders: list[Order]) -> None:
        """From here on commits go to the teller; those that came while the full send was encoded go first."""
        d = self.d
        d.now.fresh_copy = False  # from here on a broker may act on what we say: the copy is not ours alone any more
        d.channels.follow(reachable(d.controller.image))
        d.teller = teller
        d.send(orders)
        untold, d.untold = d.untold, []
        for delta in untold:
            d.channels.follow(reachable(delta.after))
            d.send(teller.published(delta))

    async def _told(self, teller: Teller, started: int) -> Happened:
        d = self.d
        while True:
            if d.mirror is None:
                return Happened.MIRROR_BROKEN
            suspicion = await self._admit_withheld(teller)
            waiting = self._untold(teller)
            if not waiting:
                partitions, told = d.controller.image.partition_count(), len(teller.audience())
                log.info("brokers.told", brokers=told, partitions=partitions, took_ms=d.now_ms() - started)
                return Happened.BROKERS_TOLD
            d.wait_because(suspicion or f"brokers {waiting} have not answered the full send yet")
            await (asyncio.sleep(LOOK_S) if suspicion else d.changed(LOOK_S))

    def _untold(self, teller: Teller) -> list[int]:
        """Brokers that were not told everything, or did not answer yet."""
        told = teller.audience()
        return [
            broker.id
            for broker in reachable(self.d.controller.image)
            if told.get(broker.id) != broker.epoch or self.d.unanswered_full.get(broker.id, 0) > 0
        ]

    async def _admit_withheld(self, teller: Teller) -> str | None:
        """Brokers that were silent before: asked again, guarded, told. Returns why one of them may not be told yet."""
        d = self.d
        suspicion = None
        if not teller.withheld:
            return None
        silent = await self._survey_missing()
        for broker in teller.withheld - set(silent):
            findings = self._guard(teller.preview(broker))
            if findings:
                d.now.finding = findings[0]
                suspicion = findings[0].text
                d.now.surveys.pop(broker, None)  # asked again at the next look
            else:
                d.send(teller.admit(broker))
        return suspicion

    async def dual_write(self) -> Happened:
        """Both worlds say the same; stays until somebody asks for more or something breaks."""
        d = self.d
        await d.hooks.before("enter dual-write")
        if Mark.TAKEOVER in d.controller.newest.marks:
            await d.controller.mark(Mark.TAKEOVER, "")
        d.now.fresh_copy = False
        d.now.finding = None
        while True:
            if d.mirror is None:  # it broke where nobody was listening, as during a hand-back that was refused
                return Happened.MIRROR_BROKEN
            if d.now.wish_hand_back:
                return Happened.HAND_BACK_ASKED
            behind = d.mirror.behind
            d.now.reason = f"ZooKeeper has everything up to offset {d.now.dual_write_at.offset}" + (
                f", {behind} writes on their way" if behind else ""
            )
            await d.changed(5.0)

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
        if self._guard_task is not None:
            self._guard_task.cancel()
        if self._audit_session is not None:
            await asyncio.to_thread(self._audit_session.close)


def _wall_ms() -> int:
    return int(time.time() * 1000)


def _difference(tree: Tree, target: Image) -> Delta:
    return diff(as_image(tree, target), target)
