"""The act of the reconcile: ZooKeeper is read, compared with the log as images, and the difference is written.

In:   the claim, after a copy was committed or a log in migration was resumed, or after a write failed.
Out:  how the act ended; ZooKeeper equal to the log, and the mirror at work from there on.
Elsewhere: what is written (driver.mirror), the broker updates that follow (updating_brokers.py), dual-write
(dual_write.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from migrator.driver.chained import guarded
from migrator.driver.claim import Claim, ClaimObservation, still_ours
from migrator.driver.copy import foreign_since_commit, foreign_since_copy, nobody_is_updated
from migrator.driver.guard import is_deleted
from migrator.driver.machine import Happened
from migrator.driver.mirror import MirrorPlan, Shape, plan, state_creation
from migrator.driver.orders import Orders, plan_orders_removed
from migrator.driver.places import plan_places
from migrator.driver.tree import Tree, as_image, clear_broker_configs, missing_states
from migrator.driver.window import too_late
from migrator.findings.driver import ODD_ZNODES_LEFT, ONLY_IN_ZOOKEEPER, ORDERS_REMOVED, UPDATED_FIRST
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.zookeeper import MIRROR_BROKE, PATH_RECREATED
from migrator.model.diff import diff
from migrator.model.draft import Delta
from migrator.model.image import Image, Position
from migrator.model.values import Mark
from migrator.node.driver.act import (
    ActEnded,
    Concluded,
    ConfigsUnreadable,
    Found,
    HasParts,
    Reconciled,
    TreeRead,
)
from migrator.node.driver.claim_watch import ClaimWatch
from migrator.node.driver.mirror_node import Mirroring
from migrator.node.driver.propagator import Propagator
from migrator.node.driver.updating_brokers import UpdateActs
from migrator.node.leader.pending_appends import LeadershipLost
from migrator.node.zookeeper.amending import amended
from migrator.node.zookeeper.claims import refusal
from migrator.node.zookeeper.tree_reader import descendants, descendants_of, read_tree
from migrator.node.zookeeper.zookeeper_orders import read_orders
from migrator.wire.primitives import ZERO_UUID
from migrator.zk import paths
from migrator.zk.multi import Delete, Multi, MultiOutcome
from migrator.zk.passwords import PasswordEncoder
from migrator.zk.pipeline import UNLIMITED
from migrator.zk.znodes import parse_ordered_moves

log = structlog.get_logger()


@dataclass(kw_only=True)
class ReconcileActs(HasParts):
    """The act of one driver. updates: what brokers get while ZooKeeper cannot be reconciled."""

    claim_watch: ClaimWatch
    mirroring: Mirroring
    propagator: Propagator
    updates: UpdateActs
    _failed_in_a_row: int = field(default=0, init=False)
    _may_have_written: bool = field(default=False, init=False)
    """False until the first reconcile of a fresh copy: until then this process wrote its claim alone."""

    async def reconcile(self) -> ActEnded:
        """Read ZooKeeper, compare it with the log as images, write the differences; then mirror commit by commit.

        When that fails a second time, brokers are updated all the same: the log is the truth.
        """
        try:
            ended = await self._reconcile()
        except LeadershipLost:
            raise
        except Exception as error:
            self._failed_in_a_row += 1
            if self._failed_in_a_row > 1:
                await self.updates.update_first(error)
            raise
        self._failed_in_a_row = 0
        self.progress.alarm(UPDATED_FIRST.code, None)
        return ended

    async def _reconcile(self) -> ActEnded:
        await self.parts.hooks.before("reconcile")
        observed, session_id = await self._claim_in_one_session()
        claim = self.now.claim
        assert claim is not None
        if not still_ours(observed, claim):
            return ActEnded(self.claim_watch.touched(observed))
        late = too_late(self.now.window, self.now_ms(), self.now.trouble, fresh_copy=self.now.fresh_copy)
        if late is not None:
            return ActEnded(Happened.MUST_ROLL_BACK, (Concluded(late),))
        assert observed.migration is not None
        at = Position(observed.migration.kraft_metadata_epoch, observed.migration.kraft_metadata_offset)
        claim = replace(claim, migration_version=observed.migration_version, at=at)
        if not self.now.fresh_copy:  # the commit of the copy healed them
            await self._heal_leaders()
        orders = await asyncio.to_thread(read_orders, self.session)
        begun = await self._begin_ordered()
        target = self.controller.image
        self.mirroring.forget_commits()
        claimed_by = self.config.node_id if self.now.fresh_copy and not self._may_have_written else None
        self._may_have_written = True
        tree = await self._read(self.now.tree, claimed_by)
        foreign = await self._foreign(tree)
        if foreign is not None:
            return ActEnded(Happened.MUST_ROLL_BACK, (Concluded(foreign),))
        tree = await self._put_right(tree, target, claim)
        planned, unreadable = await self._write_difference(tree, target, claim)
        await self._take_orders_away(orders, claim, begun)
        self.progress.changed(Reconciled(planned.writes))
        log.info("zk.reconciled", writes=planned.writes, multis=len(planned.multis))
        return self._begin_mirror(planned, target, unreadable, session_id)

    def _begin_mirror(
        self, planned: MirrorPlan, target: Image, unreadable: frozenset[str], session_id: int
    ) -> ActEnded:
        shape = Shape(
            planned.configs, unreadable=unreadable, lagging=planned.lagging, jute_maxbuffer=self.config.jute_maxbuffer
        )
        self.mirroring.begin(planned.claim, target, shape, session_id, planned.unmirrored)
        if self.mirroring.mirror is None:
            raise MIRROR_BROKE.error(reason=self.now.broken)
        if self.propagator.broker_updates is None:
            return ActEnded(Happened.RECONCILED)
        self.propagator.mirrored(target.position)
        return ActEnded(Happened.RECONCILED if self.propagator.not_updated() else Happened.RECONCILED_AGAIN)

    # --- reading -------------------------------------------------------------------------------------------

    async def _read(self, before: Tree | None, claimed_by: int | None = None) -> Tree:
        tree = await asyncio.to_thread(read_tree, self.session, UNLIMITED, before, claimed_by=claimed_by)
        self.progress.changed(TreeRead(tree))
        return tree

    async def _claim_in_one_session(self) -> tuple[ClaimObservation, int]:
        """The claim, and the session in which it was observed."""
        while True:
            session_id = self.session.session_id
            observed = await self.claim_watch.observed()
            if session_id == self.session.session_id:
                return observed, session_id

    async def _foreign(self, tree: Tree) -> Occurrence | None:
        """Before the first broker update only this quorum may have changed what was copied; a successor knows from the
        log that no broker has one, and what was copied. (Where a snapshot has the copy already it does not know: then
        it deletes no topic that only ZooKeeper has, see below.)
        """
        if self.now.fresh_copy:
            copy = self.now.copy
            assert copy is not None
            return foreign_since_copy(copy, tree, self.controller.image)
        image = self.controller.image
        if not nobody_is_updated(image.marks.get(Mark.TAKEOVER)):
            return None
        copied = self.controller.copied
        if copied is None:
            log.warning("zk.not_compared_with_copy", reason="a snapshot has the copy and what came after it")
            return None
        return await asyncio.to_thread(foreign_since_commit, copied, tree, image, self.parts.passwords)

    # --- before the difference -----------------------------------------------------------------------------

    async def _heal_leaders(self) -> None:
        """The leader that committed the copy may have died before it healed partitions without an able leader."""
        if Mark.TAKEOVER in self.controller.image.marks:
            healed = await self.controller.heal()
            if healed:
                log.info("leaders.healed", partitions=healed)

    async def _begin_ordered(self) -> bool:
        """Before dual-write is entered, carry out what `/admin/reassign_partitions` orders. True when it was done.

        Later only a ZooKeeper controller reads that znode, after a rollback.
        """
        if Mark.TAKEOVER not in self.controller.image.marks:
            return False
        znode = await asyncio.to_thread(self.session.get, paths.REASSIGN_PARTITIONS)
        if znode is None:
            return False
        try:
            moves = parse_ordered_moves(paths.REASSIGN_PARTITIONS, znode.data)
        except FindingError as error:
            log.warning("moves.unreadable", code=error.code, reason=error.occurrence.text)
            return False
        begun = await self.controller.begin(moves)
        if begun:
            log.info("moves.begun", partitions=begun)
        return True

    async def _put_right(self, tree: Tree, target: Image, claim: Claim) -> Tree:
        """Create what the difference is written below, and amend what cannot be compared."""
        if tree.missing:  # deleted since the takeover
            await asyncio.to_thread(self._write, (plan_places(tree.missing, claim.epoch_version),))
        recreated = PATH_RECREATED.found(paths=", ".join(tree.missing)) if tree.missing else None
        self.progress.alarm(PATH_RECREATED.code, recreated)
        refuse, most = self._refuse_to_delete, self.config.jute_maxbuffer
        how = partial(amended, write=self._write, refuse=refuse, jute_maxbuffer=most)
        tree, left = await asyncio.to_thread(how, self.session, tree, target, claim)
        self.progress.alarm(ODD_ZNODES_LEFT.code, left)
        if await asyncio.to_thread(self._complete_creations, tree, target, claim):
            tree = await self._read(tree)
        return tree

    def _complete_creations(self, tree: Tree, target: Image, claim: Claim) -> bool:
        """On a thread: write state znodes that an interrupted creation in several multis left out. True: there were."""
        missing = missing_states(tree, target)
        if not missing:
            return False
        parents = sorted(
            {paths.partitions(name) for name, _ in missing} | {paths.partition(name, each.id) for name, each in missing}
        )
        znodes = self.session.get_many(parents)
        existing = {path for path, znode in zip(parents, znodes, strict=True) if znode is not None}
        log.warning("zk.creation_completed", partitions=len(missing), first=missing[0][0])
        self._write(state_creation(missing, existing, claim, self.config.jute_maxbuffer))
        return True

    # --- the difference ------------------------------------------------------------------------------------

    async def _write_difference(self, tree: Tree, target: Image, claim: Claim) -> tuple[MirrorPlan, frozenset[str]]:
        """What was written, and the brokers whose configuration was left alone because it cannot be read."""
        delta = await asyncio.to_thread(_difference, tree, target, self.parts.passwords)
        self._refuse_to_delete_what_only_zookeeper_has(delta)
        unreadable = await asyncio.to_thread(self._unreadable, tree)
        self.progress.changed(ConfigsUnreadable(unreadable))
        shape = await asyncio.to_thread(self._shape, tree, delta, frozenset(unreadable))
        planned = await asyncio.to_thread(plan, delta, claim, target.position, shape, self.parts.passwords)
        await asyncio.to_thread(self._write, planned.multis)
        return planned, shape.unreadable

    def _refuse_to_delete_what_only_zookeeper_has(self, delta: Delta) -> None:
        """A successor before dual-write was ever entered: a topic that only ZooKeeper has came after the copy."""
        gone = [topic_id for topic_id in delta.topics if topic_id not in delta.after.topics]
        self._refuse_to_delete({delta.before.topics[each].name: each for each in gone})

    def _refuse_to_delete(self, topics: Mapping[str, bytes]) -> None:
        """topics: names, with their ids in ZooKeeper. Also on a thread. Raises Z2K-2013.

        A topic that the log deleted goes; one that was made since under its name came after the copy.
        """
        if Mark.TAKEOVER not in self.controller.image.marks:
            return
        gone = self.controller.removals.topics
        foreign = sorted(
            name for name, known in topics.items() if known == ZERO_UUID or not is_deleted(gone, name, known)
        )
        if foreign:
            error = ONLY_IN_ZOOKEEPER.error(count=len(foreign), first=paths.topic(foreign[0]))
            self.progress.changed(Found(error.occurrence))
            raise error

    def _shape(self, tree: Tree, delta: Delta, unreadable: frozenset[str]) -> Shape:
        """On a thread. Which configuration znodes exist, which cannot be read, and what lies below topics that change.

        These are topics that go, or whose partitions come or go.
        """
        names = _names_to_look_below(delta)
        below = descendants_of(self.session, map(paths.topic, names))
        read = {name: below[paths.topic(name)] for name in names}
        existing = frozenset(tree.config_paths)
        return Shape(existing, read, unreadable, jute_maxbuffer=self.config.jute_maxbuffer)

    def _unreadable(self, tree: Tree) -> Mapping[str, Occurrence]:
        """Brokers whose passwords another program encrypted meanwhile: they are neither written nor forgotten."""
        found = clear_broker_configs(tree, self.parts.passwords)
        for each in found.problems:
            log.warning("zk.password_unreadable", code=each.code, reason=each.text)
        return found.unreadable

    async def _take_orders_away(self, orders: Orders, claim: Claim, begun: bool) -> None:
        """Moves that were begun are in the topics' znodes now; left here, the order would be carried out once more
        after a rollback. No program carries out the other orders. One that cannot be removed stays, and bars the
        rollback.
        """
        if not orders.given:
            return
        try:
            await asyncio.to_thread(self._write, plan_orders_removed(orders, claim, self.config.jute_maxbuffer))
        except FindingError as error:
            log.warning("orders.not_removed", code=error.code, reason=error.occurrence.text)
            return
        unheeded = [path for path in orders.given if not (begun and path == paths.REASSIGN_PARTITIONS)]
        if unheeded:
            removed = ORDERS_REMOVED.found(count=len(unheeded), first=unheeded[0])
            log.warning("orders.removed", code=removed.code, says=removed.text, orders=unheeded[:100])

    # --- writing -------------------------------------------------------------------------------------------

    def _write(self, multis: tuple[Multi, ...]) -> None:
        """On a thread: all in flight, each answer checked."""
        pending = [(multi, self.session.send(multi)) for multi in multis]
        for multi, each in pending:
            outcome = each.outcome()
            if not outcome.applied:
                self._clear_below(multi, outcome)
                raise FindingError(refusal(multi, outcome))

    def _clear_below(self, multi: Multi, outcome: MultiOutcome) -> None:
        """Foreign znodes below one that goes: they go first, and the difference is written at the next try."""
        if outcome.error == "not_empty":
            below = reversed(descendants(self.session, multi.operations[outcome.failed_at].path))
            claim = multi.operations[:1]
            for each in guarded(claim, map(Delete, below), self.config.jute_maxbuffer):
                self.session.apply(each)


def _difference(tree: Tree, target: Image, passwords: PasswordEncoder | None) -> Delta:
    return diff(as_image(tree, target, passwords=passwords), target)


def _names_to_look_below(delta: Delta) -> list[str]:
    found = []
    for topic_id in delta.topics:
        before, after = delta.before.topics.get(topic_id), delta.after.topics.get(topic_id)
        if before is not None and (after is None or len(before.partitions) != len(after.partitions)):
            found.append(before.name)
    return found
