"""The acts of dual-write: bring ZooKeeper up to the log, tell the brokers everything, then mirror commit by commit.

In:   a `DriverNode` that holds the claim, after a copy was committed or a log in migration was resumed.
Out:  how the act ended (`Happened`); the mirror and the teller at work.
Elsewhere: which act comes next (driver.machine), what is written and told (driver.mirror, driver.tell), the acts before
(claiming.py, copying.py) and of the way back (rollback.py), what a broker that refuses gets (propagator.py).
Nothing is sent to a broker that would destroy what it has; a broker that is silent holds up nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

import structlog

from migrator.driver.broker_updates import BrokerUpdates
from migrator.driver.chained import guarded
from migrator.driver.claim import Claim, ClaimObservation, still_ours
from migrator.driver.guard import Guarded, guard
from migrator.driver.machine import Happened
from migrator.driver.mirror import MirrorPlan, Shape, plan, state_creation
from migrator.driver.not_following import NotFollowing
from migrator.driver.orders import Orders, plan_orders_removed, standing
from migrator.driver.places import plan_places
from migrator.driver.replacing import against_stock
from migrator.driver.tree import Tree, as_image, changed_since, clear_broker_configs, missing_states
from migrator.driver.unmirrored import Unmirrored
from migrator.driver.update_requests import reachable
from migrator.findings.driver import (
    FULL_SEND_INCOMPLETE,
    ODD_ZNODES_LEFT,
    ONLY_IN_ZOOKEEPER,
    ORDERS_REMOVED,
    ORDERS_STAND,
    SURVEY_FAILED,
    UPDATED_FIRST,
    VERSIONS_LAG,
)
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.zookeeper import MIRROR_BROKE, PATH_RECREATED, ZOOKEEPER_LOST
from migrator.model.diff import diff
from migrator.model.draft import Delta
from migrator.model.image import Image, Position
from migrator.model.values import Mark
from migrator.node.brokers.survey import survey_brokers
from migrator.node.driver.driver_node import DriverNode
from migrator.node.driver.event_queue import LOOK_S
from migrator.node.driver.mirror_node import Mirror, versions_lag
from migrator.node.leader.pending_appends import LeadershipLost
from migrator.node.zookeeper.amending import amended
from migrator.node.zookeeper.claims import read_claim, refusal
from migrator.node.zookeeper.tree_reader import (
    descendants,
    descendants_of,
    missing_places,
    read_registrations,
    read_tree,
)
from migrator.node.zookeeper.zookeeper_orders import read_orders
from migrator.zk import paths
from migrator.zk.multi import Delete, Multi, Outcome
from migrator.zk.passwords import PasswordEncoder
from migrator.zk.pipeline import UNLIMITED
from migrator.zk.znodes import parse_ordered_moves

log = structlog.get_logger()

GUARD_TRIES = 3
NOT_UPDATED = (FULL_SEND_INCOMPLETE, SURVEY_FAILED)
"""Why a broker may get no full send."""
NOT_FOLLOWING_EVERY_MS = 5_000
ODD_REGISTRATIONS = "odd registrations"
"""Under this stands the alarm of the look in dual-write; the reconcile has one of its own, for all that it left."""


class DualWriteActs:
    """The acts of one driver."""

    def __init__(self, driver: DriverNode) -> None:
        self.d = driver
        self._failed_in_a_row = 0

    # --- reconcile -----------------------------------------------------------------------------------------

    async def reconcile(self) -> Happened:
        """Read ZooKeeper, compare it with the log as images, write the differences; then mirror commit by commit.

        When that fails a second time, brokers are told all the same: the log is the truth.
        """
        try:
            happened = await self._reconcile()
        except LeadershipLost:
            raise
        except Exception as error:
            self._failed_in_a_row += 1
            if self._failed_in_a_row > 1:
                await self._tell_first(error)
            raise
        self._failed_in_a_row = 0
        self.d.now.alarm(UPDATED_FIRST.code, None)
        return happened

    async def _reconcile(self) -> Happened:
        d = self.d
        await d.hooks.before("reconcile")
        observed, session_id = await self._claim_in_one_session()
        claim = d.now.claim
        assert claim is not None
        if not still_ours(observed, claim):
            return d.claim_watch.touched(observed)
        if d.must_go_back():
            return d.too_late()
        assert observed.migration is not None
        at = Position(observed.migration.kraft_metadata_epoch, observed.migration.kraft_metadata_offset)
        claim = replace(claim, migration_version=observed.migration_version, at=at)
        await self._heal_leaders()
        orders = await asyncio.to_thread(read_orders, d.session)
        begun = await self._begin_ordered()
        target = d.controller.image
        d.backlog.clear()
        tree = await asyncio.to_thread(read_tree, d.session, UNLIMITED, d.now.tree)
        d.now.tree = tree
        foreign = self._foreign_since_copy(tree)
        if foreign is not None:
            d.now.finding = foreign
            d.now.reason = foreign.text
            return Happened.MUST_ROLL_BACK
        if tree.missing:  # somebody deleted them since the takeover, and the rest is written below them
            await asyncio.to_thread(self._write, (plan_places(tree.missing, claim.epoch_version),))
        recreated = PATH_RECREATED.found(paths=", ".join(tree.missing)) if tree.missing else None
        d.now.alarm(PATH_RECREATED.code, recreated)
        refuse = self._refuse_to_delete
        how = partial(amended, write=self._write, refuse=refuse, jute_maxbuffer=d.config.jute_maxbuffer)
        tree, left = await asyncio.to_thread(how, d.session, tree, target, claim)
        d.now.alarm(ODD_ZNODES_LEFT.code, left)
        if await asyncio.to_thread(self._complete_creations, tree, target, claim):
            tree = await asyncio.to_thread(read_tree, d.session, UNLIMITED, tree)
            d.now.tree = tree
        planned, unreadable = await self._write_difference(tree, target, claim)
        await self._take_orders_away(orders, claim, begun)
        d.now.reconciled_writes = planned.writes
        d.on_unmirrored(planned.unmirrored)
        log.info("zk.reconciled", writes=planned.writes, multis=len(planned.multis))
        self._start_mirror(
            planned.claim,
            target,
            Shape(
                planned.configs,
                unreadable=unreadable,
                lagging=planned.lagging,
                jute_maxbuffer=self.d.config.jute_maxbuffer,
            ),
            session_id,
            planned.unmirrored,
        )
        if d.mirror is None:
            raise MIRROR_BROKE.error(reason=d.now.broken)
        if d.propagator.broker_updates is None:
            return Happened.RECONCILED
        d.propagator.mirrored(target.position)
        return Happened.RECONCILED if d.propagator.not_updated() else Happened.RECONCILED_AGAIN

    async def _write_difference(self, tree: Tree, target: Image, claim: Claim) -> tuple[MirrorPlan, frozenset[str]]:
        """What was written, and the brokers whose configuration was left alone because it cannot be read."""
        passwords = self.d.passwords
        delta = await asyncio.to_thread(_difference, tree, target, passwords)
        self._refuse_to_delete_what_nobody_told_of(delta)
        shape = await asyncio.to_thread(self._shape, tree, delta)
        planned = await asyncio.to_thread(plan, delta, claim, target.position, shape, passwords)
        await asyncio.to_thread(self._write, planned.multis)
        return planned, shape.unreadable

    async def _claim_in_one_session(self) -> tuple[ClaimObservation, int]:
        """The claim, and the session in which it was seen."""
        while True:
            session_id = self.d.session.session_id
            observed = await self.d.claim_watch.observed()
            if session_id == self.d.session.session_id:
                return observed, session_id

    async def _heal_leaders(self) -> None:
        """Whoever committed the copy may have died before it healed what nobody able leads."""
        d = self.d
        if Mark.TAKEOVER in d.controller.image.marks:
            healed = await d.controller.heal()
            if healed:
                log.info("leaders.healed", partitions=healed)

    async def _begin_ordered(self) -> bool:
        """Until dual-write is entered: what `/admin/reassign_partitions` orders is ours to do. True when it was heeded.

        Later nobody reads that znode but a ZooKeeper controller, after a rollback.
        """
        d = self.d
        if Mark.TAKEOVER not in d.controller.image.marks:
            return False
        znode = await asyncio.to_thread(d.session.get, paths.REASSIGN_PARTITIONS)
        if znode is None:
            return False
        try:
            moves = parse_ordered_moves(paths.REASSIGN_PARTITIONS, znode.data)
        except FindingError as error:
            log.warning("moves.unreadable", code=error.code, reason=error.occurrence.text)
            return False
        begun = await d.controller.begin(moves)
        if begun:
            log.info("moves.begun", partitions=begun)
        return True

    async def _take_orders_away(self, orders: Orders, claim: Claim, begun: bool) -> None:
        """Moves that were begun are in the topics' znodes now; left here, the order would be carried out once more
        after a rollback. All other orders are nobody's. One that cannot be removed stays, and bars the way back.
        """
        if not orders.given:
            return
        try:
            await asyncio.to_thread(self._write, plan_orders_removed(orders, claim, self.d.config.jute_maxbuffer))
        except FindingError as error:
            log.warning("orders.not_removed", code=error.code, reason=error.occurrence.text)
            return
        unheeded = [path for path in orders.given if not (begun and path == paths.REASSIGN_PARTITIONS)]
        if unheeded:
            removed = ORDERS_REMOVED.found(count=len(unheeded), first=unheeded[0])
            log.warning("orders.removed", code=removed.code, says=removed.text, orders=unheeded[:100])

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
        names = {delta.before.topics[topic_id].name for topic_id in delta.topics if topic_id not in delta.after.topics}
        self._refuse_to_delete(names)

    def _refuse_to_delete(self, topics: Iterable[str]) -> None:
        d = self.d
        if Mark.TAKEOVER not in d.controller.image.marks:
            return
        foreign = sorted(set(topics) - d.controller.removals.topics.keys())
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
        self._write(state_creation(missing, existing, claim, self.d.config.jute_maxbuffer))
        return True

    def _shape(self, tree: Tree, delta: Delta) -> Shape:
        """Which configuration znodes exist, which cannot be read, and what lies below topics that change their shape.

        Topics that go, or whose partitions come or go.
        """
        names = _names_to_look_below(delta)
        below = descendants_of(self.d.session, map(paths.topic, names))
        read = {name: below[paths.topic(name)] for name in names}
        existing, unreadable = frozenset(tree.config_paths), frozenset(self._unreadable(tree))
        return Shape(existing, read, unreadable, jute_maxbuffer=self.d.config.jute_maxbuffer)

    def _unreadable(self, tree: Tree) -> Mapping[str, Occurrence]:
        """Brokers whose passwords were encrypted by somebody else meanwhile: we neither write nor forget them."""
        found = clear_broker_configs(tree, self.d.passwords)
        self.d.now.unreadable = found.unreadable
        for each in found.problems:
            log.warning("zk.password_unreadable", code=each.code, reason=each.text)
        return found.unreadable

    def _write(self, multis: tuple[Multi, ...]) -> None:
        """On a thread: all in flight, each answer looked at."""
        pending = [(multi, self.d.session.send(multi)) for multi in multis]
        for multi, each in pending:
            outcome = each.outcome()
            if not outcome.applied:
                self._clear_below(multi, outcome)
                raise FindingError(refusal(multi, outcome))

    def _clear_below(self, multi: Multi, outcome: Outcome) -> None:
        """Somebody put znodes below one that goes: they go first, and the difference is written at the next try."""
        if outcome.error == "not_empty":
            below = reversed(descendants(self.d.session, multi.operations[outcome.failed_at].path))
            claim = multi.operations[:1]
            for each in guarded(claim, map(Delete, below), self.d.config.jute_maxbuffer):
                self.d.session.apply(each)

    def _start_mirror(
        self, claim: Claim, image: Image, shape: Shape, session_id: int, unmirrored: tuple[Unmirrored, ...]
    ) -> None:
        d = self.d
        d.now.claim = claim
        d.wrote(image.position)
        d.mirror = Mirror(
            d.session,
            claim,
            image,
            shape,
            session_id=session_id,
            passwords=d.passwords,
            on_applied=d.on_applied,
            on_broken=d.on_broken,
            on_claim=d.on_claim,
            on_unmirrored=d.on_unmirrored,
            unmirrored=unmirrored,
        )
        waiting, d.backlog = d.backlog, []
        for delta in waiting:
            if d.mirror is not None:
                d.mirror.publish(delta)

    # --- brokers -------------------------------------------------------------------------------------------

    async def update_brokers(self) -> Happened:
        """The full send, guarded.

        Right after a copy it leaves for all or for none; a broker that is silent is told once it answers. After a
        fail-over each broker is told as soon as it has said what it has (full_sends.py).
        """
        d = self.d
        started = d.now_ms()
        tries = 0
        broker_updates = d.propagator.broker_updates
        if broker_updates is not None:  # told before ZooKeeper had to be compared again
            return await self._updated(broker_updates, started)
        if not d.now.fresh_copy:
            return await self._updated(await self._begin_updating(), started)
        while True:
            silent = await self._survey_missing()
            if d.mirror is None:
                return Happened.MIRROR_BROKEN
            await d.hooks.before("update")
            d.propagator.forget_commits()
            claim = d.now.claim
            assert claim is not None
            broker_updates = BrokerUpdates(claim, d.config.inter_broker_listener, d.controller.image)
            guarded = await asyncio.to_thread(self._guarded, broker_updates, silent)
            findings = guarded.findings
            if not findings:
                if d.must_go_back():
                    return d.too_late()
                d.now.fresh_copy = False  # a broker may act on what we say now: the copy is not ours alone any more
                d.propagator.begin(broker_updates, guarded)
                return await self._updated(broker_updates, started)
            tries += 1
            log.error("brokers.not_updated", findings=[found.text for found in findings[:5]], tries=tries)
            d.now.finding = findings[0]
            d.now.wait_because(findings[0].text)
            if d.must_go_back() or tries >= GUARD_TRIES:
                return Happened.MUST_ROLL_BACK
            d.now.surveys.clear()
            await asyncio.sleep(LOOK_S)

    async def _begin_updating(self) -> BrokerUpdates:
        """Every broker waits for its own full send, and for nobody else's."""
        d = self.d
        await d.hooks.before("update")
        d.propagator.forget_commits()
        claim = d.now.claim
        assert claim is not None
        broker_updates = BrokerUpdates(claim, d.config.inter_broker_listener, d.controller.image)
        d.propagator.begin(
            broker_updates, Guarded(tuple(broker_updates.everything(withheld=d.controller.image.brokers)), ())
        )
        return broker_updates

    async def _tell_first(self, why: Exception) -> None:
        """ZooKeeper cannot be brought to what the log says: brokers need their leaders all the same.

        What waits for ZooKeeper waits on. A broker that its guard speaks against waits too (full_sends.py).
        """
        d = self.d
        if d.now.fresh_copy or d.now.claim is None or d.propagator.broker_updates is not None:
            return
        await self._begin_updating()
        d.now.alarm(UPDATED_FIRST.code, UPDATED_FIRST.found(reason=str(why)))

    async def _survey_missing(self) -> dict[int, str]:
        """Ask brokers that were not asked in their present life; returns who did not answer, and why."""
        d = self.d
        brokers = [broker for broker in reachable(d.controller.image) if broker.id not in d.now.surveys]
        surveys, failed = await survey_brokers(
            brokers, d.config.inter_broker_listener, str(d.config.node_id), d.to_brokers
        )
        d.now.surveys.update(surveys)
        return failed

    def _guarded(self, broker_updates: BrokerUpdates, silent: Collection[int]) -> Guarded:
        now, gone = self.d.now, self.d.controller.removals
        orders = self.d.hooks.full_updates(broker_updates.everything(withheld=silent))
        return guard(orders, now.surveys, gone.topics, gone.replicas, after_fail_over=not now.fresh_copy)

    async def _updated(self, broker_updates: BrokerUpdates, started: int) -> Happened:
        """The first takeover waits for every answer. Later the update has to be on its way to all who are heard of."""
        d = self.d
        while True:
            if d.mirror is None:
                return Happened.MIRROR_BROKEN
            is_first = Mark.TAKEOVER in d.controller.newest.marks
            waiting = d.propagator.not_updated() if is_first else d.propagator.not_sent()
            self._name_silent()
            if not waiting:
                partitions, told = d.controller.image.partition_count(), len(broker_updates.audience())
                log.info("brokers.updated", brokers=told, partitions=partitions, took_ms=d.now_ms() - started)
                return Happened.BROKERS_UPDATED
            named = [d.now.alarms.get(finding.code) for finding in NOT_UPDATED]
            first = next((each.text for each in named if each is not None), None)
            d.now.wait_because(first or f"brokers {waiting} have not answered the full send yet")
            await d.events.changed(LOOK_S)

    def _name_silent(self) -> None:
        """Brokers that get no full send until somebody looks at them."""
        d = self.d
        waits = d.propagator.full_sends.waits().values()
        named = {wait.finding.code: wait.finding for wait in waits if wait.finding is not None}
        for finding in NOT_UPDATED:
            d.now.alarm(finding.code, named.get(finding.code))
        if FULL_SEND_INCOMPLETE.code in named:
            d.now.finding = named[FULL_SEND_INCOMPLETE.code]

    async def dual_write(self) -> Happened:
        """Both worlds say the same; stays until somebody asks for more or something breaks."""
        d = self.d
        await d.hooks.before("enter dual-write")
        if Mark.TAKEOVER in d.controller.newest.marks:
            await d.controller.mark(Mark.TAKEOVER, "")
        d.now.fresh_copy = False
        d.now.finding = next(iter(d.now.unreadable.values()), None)
        foreign, looked_ms = NotFollowing(), 0
        while True:
            if d.mirror is None:  # it broke where nobody was listening, as during a rollback that was refused
                return Happened.MIRROR_BROKEN
            if d.operations.rollback:
                return Happened.ROLLBACK_REQUESTED
            came_or_went = is_away(d.now.trouble) == d.session.connected
            if d.now_ms() - looked_ms >= NOT_FOLLOWING_EVERY_MS or came_or_went:
                looked_ms = d.now_ms()
                d.now.trouble = await self._look_for(foreign)
                await self._look_for_places()
                await self._look_for_orders()
                await self._look_at_replacing()
                await self._look_for_odd_registrations()
                d.now.alarm(VERSIONS_LAG.code, versions_lag(d.mirror))
            self._name_silent()
            if d.mirror is not None and d.session.connected:
                d.mirror.raise_versions()
            silence = d.propagator.silence()
            behind = 0 if d.mirror is None else d.mirror.behind
            d.now.reason = (
                f"ZooKeeper has everything up to offset {d.now.dual_write_at.offset}"
                + (f", {behind} writes on their way" if behind else "")
                + (f"; versions of {_lagging(d.mirror)} partition states are behind" if _lagging(d.mirror) else "")
                + (f"; {d.now.trouble.text}" if is_away(d.now.trouble) and d.now.trouble is not None else "")
                + (f"; {silence}" if silence else "")
            )
            await d.events.changed(LOOK_S if is_away(d.now.trouble) or silence else 5.0)

    async def _look_for_orders(self) -> None:
        """Given through ZooKeeper since the reconcile: nobody carries them out, and they bar the way back."""
        now = self.d.now
        try:
            now.orders = await asyncio.to_thread(read_orders, self.d.session)
        except FindingError:
            return  # whatever keeps ZooKeeper from answering is told as `trouble`
        now.alarm(ORDERS_STAND.code, standing(now.orders))

    async def _look_at_replacing(self) -> None:
        """Whether stock controllers could take our places; not known while ZooKeeper does not answer."""
        now, image = self.d.now, self.d.controller.image
        try:
            observed = await asyncio.to_thread(read_claim, self.d.session)
        except FindingError:
            now.replacing = None
            return
        now.replacing = await asyncio.to_thread(against_stock, image, observed, now.claim, now.orders)

    async def _look_for_odd_registrations(self) -> None:
        """A broker that starts in ZooKeeper mode reads all registrations, and ends over one that it cannot read."""
        try:
            _, odd = await asyncio.to_thread(read_registrations, self.d.session)
        except FindingError:
            return
        found = ODD_ZNODES_LEFT.found(count=len(odd), first=odd[0].text) if odd else None
        self.d.now.alarm(ODD_REGISTRATIONS, found)

    async def _look_for(self, foreign: NotFollowing) -> Occurrence | None:
        """Brokers in ZooKeeper that do not follow us, or that it does not answer."""
        d = self.d
        try:
            names = await asyncio.to_thread(d.session.children, paths.BROKER_IDS)
        except FindingError as error:
            return error.occurrence
        live = {int(name) for name in names or () if name.isdecimal()}
        return foreign.look(live, d.controller.image, d.now_ms())

    async def _look_for_places(self) -> None:
        """A persistent znode that was deleted breaks the mirror: the comparison that follows creates it again."""
        d = self.d
        try:
            missing = await asyncio.to_thread(missing_places, d.session)
        except FindingError:
            return  # `_look_for` names it
        if missing and d.mirror is not None:
            d.mirror.break_off(f"{', '.join(missing)} does not exist any more")


def _lagging(mirror: Mirror | None) -> int:
    return 0 if mirror is None else mirror.lagging.partitions


def is_away(trouble: Occurrence | None) -> bool:
    """Whether it is that ZooKeeper does not answer."""
    return trouble is not None and trouble.code == ZOOKEEPER_LOST.code


def _difference(tree: Tree, target: Image, passwords: PasswordEncoder | None) -> Delta:
    return diff(as_image(tree, target, passwords=passwords), target)


def _names_to_look_below(delta: Delta) -> list[str]:
    found = []
    for topic_id in delta.topics:
        before, after = delta.before.topics.get(topic_id), delta.after.topics.get(topic_id)
        if before is not None and (after is None or len(before.partitions) != len(after.partitions)):
            found.append(before.name)
    return found
