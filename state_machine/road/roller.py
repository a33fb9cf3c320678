"""Rolling restarts, carried out: the journal, the acts on hosts, what is observed of nodes.

In:   a snapshot with its evidence, and which roll. Out: an `Outcome`; rows of the journal.
Elsewhere: what to do next (migrator.fleet.roll), hosts (migrator.fleet), which roll a phase wants (road_acts.py).
Rules: one act at a time and per migration, on a thread; the loop goes on meanwhile. A step is in the journal before its
act. After the death of the service the last act is repeated: each one may be.
"""

from __future__ import annotations

import asyncio
import posixpath
import time
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeAlias

import structlog

from migrator.driver.checks.replacing import brokers_with_passwords
from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.findings.road import CONTROLLER_NOT_LEFT, NO_FLEET, NODE_NOT_AS_JOURNAL, RACK_ONE_BY_ONE, STEP_FAILED
from migrator.findings.service import CONTROLLER_NOT_REACHED, STOPPED_ELSEWHERE
from migrator.fleet.actuator import Instruction, Performed, ProcessState
from migrator.fleet.asked_parser import KAFKA, kafka_says
from migrator.fleet.by_others import ByOthers
from migrator.fleet.connections.many import read_ahead
from migrator.fleet.files import Present, checksum_of, read_present, write_file
from migrator.fleet.guard import finalize_token
from migrator.fleet.inventory import Inventory
from migrator.fleet.render import FileKind, Rendered
from migrator.fleet.repeatable import Repeats
from migrator.fleet.roll import (
    REACHED_BY,
    RECORDED_BEFORE,
    UNDER_WAY,
    UNTOUCHED,
    Complete,
    Decision,
    Fail,
    NodeAct,
    NodeNow,
    Perform,
    Reached,
    RollEntry,
    RollNow,
    RollStep,
    Wait,
    decide,
    decide_each,
    of_one_rack,
)
from migrator.model.at_a_stop import lost_without
from migrator.model.image import EMPTY, Image
from migrator.model.verdict import Condition, Verdict
from state_machine.clusters.log_observer import LogObservation
from state_machine.clusters.observe import ClusterObserver
from state_machine.clusters.remote_ports import accepts
from state_machine.policy.gates import Evidence, Holder
from state_machine.policy.later import no_later_kafka
from state_machine.policy.outcome import Blocked, Outcome, Waiting
from state_machine.policy.road_conditions import (
    canary_is_well,
    claim_is_ours,
    guards_are_proven,
    log_is_observed,
    nothing_waits_for_restart,
    replicas_are_settled,
    replicas_are_whole,
    road_of,
    zookeeper_follows,
)
from state_machine.policy.road_observations import BROKERS, RoadEvidence, Roll
from state_machine.policy.step_conditions import When, conditions_of, zookeeper_answers
from state_machine.policy.taken import restarts_are_accepted, restarts_take
from state_machine.policy.way_back_gates import claim_is_gone, zookeeper_mode_is_possible
from state_machine.processes import Launcher, process_mark
from state_machine.road import controllers_back, joining, journal
from state_machine.road.broker_back import prepare_before, write_back, write_before
from state_machine.road.cluster_lock import ClusterLocks
from state_machine.road.disks import look_at_disks
from state_machine.road.emergency.left_out import in_turn, left_out, without_answer
from state_machine.road.emergency.repaired import whole_file
from state_machine.road.emergency.stops import (
    Quiet,
    broker_is_in_sync,
    broker_may_stop,
    controller_may_stop,
    host_answers,
    takes_nothing,
)
from state_machine.road.finalize import give_up
from state_machine.road.fleet import KIND_OF, ROLE_OF, Fleet, FleetNode, Fleets
from state_machine.road.hosts.calls import HostThreads
from state_machine.road.identity.hosts import confirm, not_ended
from state_machine.road.replicas import ReplicasSeen, ReplicasWatch, read_replicas
from state_machine.road.restart_evidence import file_change, ready_before, whole_since
from state_machine.road.unsent_registrations import UnsentRegistrations, before_its_second_stop
from state_machine.road.way_back import into_zookeeper_mode, kept_for, left_half_way, to_original_file, turns_of
from state_machine.settings import ServiceSettings
from state_machine.store import Snapshot, Store
from state_machine.tables import RoadNode

log = structlog.get_logger()

LOOK_AT_NODE_EVERY_S: Final = 1.0
LOCKED: Final = (NodeAct.PREPARE, NodeAct.STOP)
"""Acts that no service begins without the lock of the cluster."""
BeforeStop: TypeAlias = Callable[[Snapshot], Awaitable[Outcome | None]]
"""Asked between the lock and the journal of a stop. It answers why the node is not stopped."""
LOOK_PATIENCE_S: Final = 0.5
"""A round waits so long for the look at a host; after that it goes on, and the look with it."""
LOOK_BESIDE_S: Final = 0.05
LOOK_COUNTS_S: Final = 5.0
"""What a look found long before the round that comes for it, as after a hanging observation, is looked at again."""
BY_RACK: Final = (Roll.KRAFT,)
"""Rolls of brokers whose partitions are in the log, so that it can be judged what a whole rack takes away."""
SAID_OF_A_RACK: Final = 3
LEAVE_S: Final = 60.0
"""A controller of ours that is asked to stop ends within seconds."""


@dataclass(slots=True)
class _Running:
    """An act on its way."""

    roll: Roll
    node: int
    act: NodeAct
    task: asyncio.Task[dict[str, Any]]
    since: float


@dataclass(slots=True)
class _Look:
    """A look at a node's host on its way. row: what the journal had of the node when it began."""

    key: tuple[str, int]
    row: tuple[str, str]
    task: asyncio.Task[_Seen]
    since: float


@dataclass(slots=True)
class _Seen:
    """The last look at the node that is under way."""

    at: float
    process: ProcessState
    rendered: bool | None = None
    disks: Condition | None = None
    answered: bool | None = None


@dataclass(slots=True)
class _Work:
    """Of one migration, in this life of the service."""

    repeats: Repeats
    running: dict[int, _Running] = field(default_factory=dict)
    """By node; more than one only of a rack that is restarted together."""
    looks: dict[tuple[str, int], _Look] = field(default_factory=dict)
    one_by_one: dict[tuple[str, str], tuple[list[int], Occurrence]] = field(default_factory=dict)
    """By roll and rack: brokers that are not restarted together, and why."""
    seen: dict[tuple[str, int], _Seen] = field(default_factory=dict)
    replicas: ReplicasWatch | None = None
    unsent: UnsentRegistrations = field(default_factory=UnsentRegistrations)
    moved: bool = False
    """A row was changed by an act that ended in this round."""
    quiet: Quiet = field(kw_only=True)


class Roller:
    """Leads one roll on by one decision per round."""

    def __init__(
        self,
        store: Store,
        fleets: Fleets,
        observer: ClusterObserver,
        launcher: Launcher,
        settings: ServiceSettings,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        locks: ClusterLocks | None = None,
        replicas: Callable[[Inventory], ReplicasSeen] = read_replicas,
        hosts: HostThreads | None = None,
        wall: Callable[[], float] | None = None,
    ) -> None:
        """clock: of rows. wall: what maintenance windows are of, where that is another one."""
        self._wall = wall or clock
        self._hosts = hosts or HostThreads()
        self._locks = locks
        self._replicas = replicas
        self._store = store
        self._fleets = fleets
        self._observer = observer
        self._launcher = launcher
        self._settings = settings
        self._clock = clock
        self._steady = steady
        self._work: dict[int, _Work] = {}
        self.before_stop: dict[Roll, BeforeStop] = {}

    async def step(self, snapshot: Snapshot, evidence: Evidence, roll: Roll) -> Outcome | None:
        """One decision. None: every node is whole. An act of the roll before comes to its end first."""
        work = self._work_of(snapshot)
        work.quiet.note(_log_of(snapshot))
        work.moved = False
        others_roll = [each for each in work.running.values() if each.roll is not roll]
        if others_roll:
            return _said([await self._follow(snapshot, work, each) for each in others_roll])
        try:
            fleet = await asyncio.to_thread(self._fleets.fleet, snapshot.migration.name)
        except FindingError as error:
            found = error.occurrence
            return Blocked(f"{found.code} {found.text}", (found,))
        fleet = fleet.of_cluster(snapshot.migration.cluster_id)
        rows = snapshot.nodes_of(roll)
        wanted = _wanted(snapshot, fleet, roll, self._clock())
        going = any(row.step == RollStep.FAILED or RollStep(row.step) in UNDER_WAY for row in rows)
        if {each.id for each in wanted} - {row.node_id for row in rows} and not going:
            half_way = left_half_way(snapshot, roll) if roll in journal.WAYS_BACK else ()
            others = controllers_back.others_away(evidence, half_way) if roll is Roll.OURS else None
            if others is not None:
                return Waiting(f"{others}")
            later = {*without_answer(snapshot), *(_serving(evidence, half_way) if roll is not Roll.OURS else ())}
            half_way = tuple(each for each in half_way if each not in later)
            away = {each.id: _incarnation(snapshot, each) for each in wanted if each.id in half_way}
            await self._store.away(journal.begin, self._store, snapshot.id, roll, wanted, at=self._clock(), away=away)
            return Waiting(f"{roll} is prepared for {len(wanted)} nodes")
        missing = [row.node_id for row in rows if fleet.node(row.role, row.node_id) is None]
        if missing:
            found = NO_FLEET.found(name=snapshot.migration.name, reason=f"it does not name nodes {missing} any more")
            return Blocked(f"{found.text}", (found,))
        if snapshot.migration.paused:
            work.one_by_one.clear()  # meanwhile somebody may give partitions more replicas
        return _naming(await self._decide(snapshot, evidence, roll, fleet), work, rows)

    def is_acting(self, migration_id: int) -> bool:
        """Something is done on a host just now."""
        work = self._work.get(migration_id)
        return work is not None and bool(work.running)

    async def release(self, snapshot: Snapshot) -> None:
        """Nothing is restarted any more."""
        if self._locks is not None:
            await asyncio.to_thread(self._locks.release, snapshot.id)

    def _work_of(self, snapshot: Snapshot) -> _Work:
        known = self._work.get(snapshot.id)
        if known is None:
            known = self._work[snapshot.id] = _Work(Repeats(self._steady), quiet=Quiet(self._steady))
        return known

    async def _decide(self, snapshot: Snapshot, evidence: Evidence, roll: Roll, fleet: Fleet) -> Outcome | None:
        work = self._work_of(snapshot)
        followed = await self._followed(snapshot, roll, work)
        if followed is not None and not self._others_go_on(snapshot, roll, work):
            return followed
        for key in [each for each in work.looks if each[0] != roll]:
            del work.looks[key]
        now = self._clock()
        out = left_out(snapshot, now) if roll in journal.WAYS_BACK else {}
        if roll is Roll.ORIGINAL:
            self._tend_replicas(snapshot, fleet, work, out)
        kept = in_turn(snapshot.nodes_of(roll), out) if roll in journal.WAYS_BACK else snapshot.nodes_of(roll)
        rows = {row.node_id: row for row in kept}
        begun = [row for row in rows.values() if RollStep(row.step) in UNDER_WAY]
        idle = [row for row in begun if row.node_id not in work.running]
        looked = await asyncio.gather(*(self._node_now(snapshot, evidence, roll, fleet, row, work) for row in idle))
        seen = {row.node_id: each for row, each in zip(idle, looked, strict=True) if each is not None}
        if idle and not seen:
            return Waiting(f"{self._looking(roll, idle[0], work)}")
        turns = turns_of(snapshot, roll)
        entries = [journal.entry_of(row, now, turns.get(row.node_id, 0)) for row in rows.values()]
        ready = self._ready(evidence, roll, fleet, work, out)
        look = RollNow(
            cluster=ready,
            nodes=seen,
            last=self._last(snapshot, evidence, fleet, roll),
            paused=snapshot.migration.paused or self._outside(fleet),
            deadline_s=self._settings.node_deadline_s,
            around=around_of(evidence, roll),
            of_node={each: _ready_of(snapshot, evidence, roll, each, ready, work) for each in rows}
            if roll in journal.WAYS_BACK
            else {},
        )
        carried = partial(self._carry_out, snapshot, evidence, roll, fleet, rows, work, ready)
        if _are_together(rows.values()):
            each_of = decide_each(entries, look)
            failed = [decide(entries, look)] if any(row.step == RollStep.FAILED for row in rows.values()) else []
            said = [await carried(decision, look, entries) for decision in (*failed, *each_of.values())]
            return _said([each for each in (*said, followed) if each is not None])
        return await carried(decide(entries, look), look, entries)

    async def _followed(self, snapshot: Snapshot, roll: Roll, work: _Work) -> Outcome | None:
        """What is said of acts that are under way; None: there is none."""
        running = tuple(work.running.values())
        return _said([await self._follow(snapshot, work, each) for each in running]) if running else None

    def _others_go_on(self, snapshot: Snapshot, roll: Roll, work: _Work) -> bool:
        """Of a rack that is under way together: nobody waits for another one's act. A row that has just changed is read
        again in the next round.
        """
        rows = [row for row in snapshot.nodes_of(roll) if RollStep(row.step) in UNDER_WAY]
        return len(rows) > 1 and len(work.running) < len(rows) and not work.moved

    async def _carry_out(
        self,
        snapshot: Snapshot,
        evidence: Evidence,
        roll: Roll,
        fleet: Fleet,
        rows: Mapping[int, RoadNode],
        work: _Work,
        ready: Verdict,
        decision: Decision,
        look: RollNow,
        entries: Sequence[RollEntry],
    ) -> Outcome | None:
        now = self._clock()
        match decision:
            case Complete():
                return None
            case Wait(reason):
                failed = [row for row in rows.values() if row.step == RollStep.FAILED]
                return Blocked(reason, _problems(failed)) if failed else Waiting(reason)
            case Reached(node_id, step):
                found = whole_since(look.nodes[node_id].whole, now) if step in (RollStep.WHOLE, RollStep.BACK) else {}
                settled = {"step": step, "instruction": "", "cause": "", "code": ""}
                work.repeats.forget(roll, node_id)
                await self._record(snapshot, roll, node_id, **settled, evidence=found)
                log.info("roll.step", roll=roll, node=node_id, step=step)
                return Waiting(f"{rows[node_id].role} {node_id} is {step}")
            case Fail(node_id, cause):
                work.repeats.forget(roll, node_id)
                await self._fail(snapshot, roll, rows[node_id], cause)
                return Blocked(f"{cause.text}", (cause,))
            case Perform(node_id, act):
                ready = _ready_of(snapshot, evidence, roll, node_id, ready, work)
                row = rows[node_id]
                if RollStep(row.step) in UNTOUCHED and self._rack_at_once(fleet, roll):
                    group = of_one_rack(_with_racks(snapshot, entries), node_id, look.last)
                    together = await self._rack(snapshot, evidence, roll, fleet, rows, work, ready, act, group)
                    if together is not None:
                        return together
                if act is NodeAct.STOP and (RollStep(row.step) in UNTOUCHED or row.began_at is None):
                    taken = Verdict(what_it_takes(evidence, roll, node_id))
                    if not taken.holds:
                        return Waiting(f"before {row.role} {node_id}: {taken.reason()}")
                    ready = Verdict((*ready.conditions, *taken.conditions))
                return await self._begin(snapshot, roll, fleet, rows[node_id], act, work, ready)

    # --- a rack at a time ----------------------------------------------------------------------------------

    def _rack_at_once(self, fleet: Fleet, roll: Roll) -> bool:
        return fleet.inventory.at_once == "rack" and roll in BY_RACK

    async def _rack(
        self,
        snapshot: Snapshot,
        evidence: Evidence,
        roll: Roll,
        fleet: Fleet,
        rows: Mapping[int, RoadNode],
        work: _Work,
        ready: Verdict,
        act: NodeAct,
        group: Sequence[RollEntry],
    ) -> Outcome | None:
        """None: one node after the other, as without the option. All are prepared before the first one is stopped."""
        rack, ids = group[0].rack, [each.id for each in group]
        if len(group) < 2 or (roll, rack) in work.one_by_one:
            return None
        waiting = [each.id for each in group if each.step is RollStep.PENDING]
        if act is NodeAct.PREPARE or waiting:
            begun = [
                await self._begin(snapshot, roll, fleet, rows[each], NodeAct.PREPARE, work, ready) for each in waiting
            ]
            return _said(begun)
        closed = await self._locked(snapshot, rows[ids[0]])  # it may take its time: what is judged is judged after it
        if closed is not None:
            return closed
        against = await self._against_together(snapshot, evidence, roll, ids)
        if against:
            found = RACK_ONE_BY_ONE.found(rack=rack, reason=against)
            work.one_by_one[roll, rack] = ids, found
            log.warning("roll.rack_one_by_one", roll=roll, rack=rack, reason=against)
            return Waiting(f"{found.code} {found.text}", (found,))
        return await self._stop_together(snapshot, roll, fleet, [rows[each] for each in ids], work, ready)

    async def _against_together(self, snapshot: Snapshot, evidence: Evidence, roll: Roll, ids: Collection[int]) -> str:
        """Why these brokers are not stopped together, by the log as it is now; empty: nothing is against it."""
        road, image = road_of(evidence), self._image(snapshot)
        unknown = [each for each in ids if each not in image.brokers]
        if road.log_problem or unknown:
            return road.log_problem or f"brokers {unknown} are not registered in the log"
        lost = await asyncio.to_thread(lost_without, image, road.min_isr.value, ids)
        if lost.count:
            return f"{lost.count} partitions would be below their minimum ISR, such as {', '.join(lost.first)}"
        taken = Verdict(what_it_takes(evidence, roll, *ids))
        return "" if taken.holds else taken.reason()

    async def _stop_together(
        self, snapshot: Snapshot, roll: Roll, fleet: Fleet, rows: Sequence[RoadNode], work: _Work, ready: Verdict
    ) -> Outcome:
        """All of them are in the journal, in one transaction, before the first stop."""
        at, ids = self._clock(), [row.node_id for row in rows]
        said = f"brokers {ids} of rack {rows[0].rack}: every partition keeps its minimum ISR without them"
        verdict = Verdict((*ready.conditions, Condition("its rack is restarted together", True, said)))
        columns = {
            row.node_id: {
                "step": RollStep.STOPPING,
                "instruction": "",
                **_registered_now(snapshot, row),
                "began_at": at,
            }
            for row in rows
        }

        def write() -> None:
            journal.record_together(self._store, snapshot.id, roll, columns, ready_before(verdict, at), at)

        await self._store.away(write)
        log.info("roll.rack_together", roll=roll, nodes=ids)
        for row in rows:
            self._start_act(snapshot, roll, fleet, row, NodeAct.STOP, work)
        return Waiting(f"brokers {ids} are stopped together")

    def _ready(self, evidence: Evidence, roll: Roll, fleet: Fleet, work: _Work, out: Container[int]) -> Verdict:
        if roll is not Roll.ORIGINAL:
            return cluster_ready(evidence, roll)
        road = road_of(evidence)
        return Verdict(
            (
                *claim_is_gone(evidence).conditions,
                *self._whole_by_brokers(fleet, work, out),
                *canary_is_well(road),
                nothing_waits_for_restart(road),
            )
        )

    def _tend_replicas(self, snapshot: Snapshot, fleet: Fleet, work: _Work, out: Collection[int]) -> None:
        if work.replicas is None:
            away = partial(self._hosts.away, snapshot.id)
            work.replicas = ReplicasWatch(self._replicas, self._steady, away, self._clock)
        work.replicas.tend(fleet.inventory, {each.id for each in fleet.of(BROKERS) if each.id not in out}, out)

    def _whole_by_brokers(self, fleet: Fleet, work: _Work, out: Container[int]) -> tuple[Condition, ...]:
        assert work.replicas is not None, "it is tended in each round of this roll"
        wanted = {each.id for each in fleet.of(BROKERS) if each.id not in out}
        return work.replicas.conditions(wanted, self._settings.settle_s)

    def _outside(self, fleet: Fleet) -> str | None:
        """No node is begun outside of the maintenance windows; one that was begun is ended."""
        inside = fleet.inventory.is_in_window(datetime.fromtimestamp(self._wall(), UTC))
        return None if inside else "outside of the maintenance windows of the inventory"

    # --- acts ----------------------------------------------------------------------------------------------

    async def _begin(
        self,
        snapshot: Snapshot,
        roll: Roll,
        fleet: Fleet,
        row: RoadNode,
        act: NodeAct,
        work: _Work,
        ready: Verdict,
    ) -> Outcome:
        """The step is written down, then the act begins. A node that is away is brought back whoever has the lock."""
        if again := work.repeats.waits(roll, row.node_id, act):
            return Waiting(f"{row.role} {row.node_id}: {again}")
        closed = await self._locked(snapshot, row) if act in LOCKED else None
        if closed is not None:
            return closed
        if act is NodeAct.STOP and roll in self.before_stop and not give_up.is_put_back(row):
            closed = await self.before_stop[roll](snapshot)
            if closed is not None:
                return closed
        before = RECORDED_BEFORE[act]
        if before is not None and (row.step != before or row.began_at is None):
            at = self._clock()
            columns = {"step": before, "instruction": "", **_registered_now(snapshot, row)}
            if row.step == RollStep.STARTED:
                log.warning("roll.registration_not_sent", roll=roll, node=row.node_id)
                columns |= before_its_second_stop(row)
            else:
                columns |= {"began_at": at, "evidence": ready_before(ready, at)}
            await self._record(snapshot, roll, row.node_id, **columns)
        return self._start_act(snapshot, roll, fleet, row, act, work)

    async def _locked(self, snapshot: Snapshot, row: RoadNode) -> Outcome | None:
        """Why this service may not begin with this node now; None: it has the lock of the cluster."""
        if self._locks is None:
            return None
        try:
            await asyncio.to_thread(self._locks.hold, snapshot.id, snapshot.inventory.zookeeper)
        except FindingError as error:
            return Waiting(f"before {row.role} {row.node_id}: {_in_words(error)}", (error.occurrence,))
        return None

    def _start_act(
        self, snapshot: Snapshot, roll: Roll, fleet: Fleet, row: RoadNode, act: NodeAct, work: _Work
    ) -> Outcome:
        node = fleet.node(row.role, row.node_id)
        assert node is not None, "nodes that are missing were refused"
        log.info("roll.act", roll=roll, node=node.id, act=act)
        given = (snapshot, roll, fleet, node, row, act, self._image(snapshot))
        coroutine = self._hosts.away(snapshot.id, self._perform, *given)
        work.running[node.id] = _Running(roll, node.id, act, asyncio.create_task(coroutine), self._steady())
        work.seen.pop((roll, node.id), None)
        work.looks.pop((str(roll), node.id), None)
        return Waiting(f"{node.name}: {act} begins")

    async def _follow(self, snapshot: Snapshot, work: _Work, running: _Running) -> Outcome:
        roll = running.roll
        if not running.task.done():
            seconds = self._steady() - running.since
            return Waiting(f"{ROLE_OF[roll]} {running.node}: {running.act} ({seconds:.0f} s)")
        del work.running[running.node]
        work.moved = True
        row = next((each for each in snapshot.nodes_of(roll) if each.node_id == running.node), None)
        if row is None:  # a rollback or a finalize was given up while its file was read; no node was away
            running.task.exception()
            return Waiting(f"{ROLE_OF[roll]} {running.node} is left as it is")
        try:
            columns = running.task.result()
        except FindingError as error:
            again = work.repeats.after(roll, running.node, running.act, error, self._settings.node_deadline_s)
            if again is not None:
                return Waiting(f"{row.role} {running.node}: {again}", (error.occurrence,))
            cause = error.occurrence
            if running.act is not NodeAct.PREPARE:
                cause = STEP_FAILED.found(act=running.act, node=f"{row.role} {row.node_id}", reason=_in_words(error))
            await self._fail(snapshot, roll, row, cause)
            return Blocked(f"{cause.code} {cause.text}", (cause,))
        work.repeats.forget(roll, running.node)
        instruction = columns.get("instruction", "")
        if not instruction or running.act is NodeAct.START:
            columns.setdefault("step", REACHED_BY[running.act])
        await self._record(snapshot, roll, running.node, **{"instruction": "", **columns})
        log.info("roll.step", roll=roll, node=running.node, step=columns.get("step", row.step))
        shown = instruction or f"{running.act} is done"
        return Waiting(f"{row.role} {running.node}: {shown}")

    def _perform(
        self, snapshot: Snapshot, roll: Roll, fleet: Fleet, node: FleetNode, row: RoadNode, act: NodeAct, image: Image
    ) -> dict[str, Any]:
        """On a thread. Returns columns of the journal; raises the finding that stopped it."""
        match act:
            case NodeAct.PREPARE:
                said = confirm(node, snapshot.migration.cluster_id, snapshot.inventory.zookeeper)
                columns = self._prepare(snapshot, roll, fleet, node, image)
                return {**columns, "detail": f"{columns['detail']}; {said}"}
            case NodeAct.STOP:
                if roll in (Roll.STOCK, Roll.OURS):
                    self._stop_ours(snapshot, node)
                stopped = node.actuator.stop()
                if roll in (Roll.STOCK, Roll.OURS) and not isinstance(stopped, Instruction):
                    self._wait_until_left(snapshot, node)
                return _performed(stopped)
            case NodeAct.WRITE if roll is Roll.OURS and journal.is_sent_back(row):
                kept = (row.rendered_from, kept_for(snapshot, node.id, FileKind.BACK))
                return controllers_back.write_stock_again(fleet, node, kept)
            case NodeAct.WRITE if roll in journal.WAYS_BACK:
                kind = FileKind(row.kind)
                return write_before(fleet, node, kind, kept_for(snapshot, node.id, kind))
            case NodeAct.WRITE if roll is Roll.JOIN and row.kind == FileKind.BACK:
                return joining.write_before(node, row)
            case NodeAct.WRITE if give_up.is_put_back(row):
                return give_up.write_kept(node, row, "" if snapshot.approval is None else snapshot.approval.digest)
            case NodeAct.WRITE if row.kind == FileKind.BACK:
                return write_back(fleet, node, row)
            case NodeAct.WRITE:
                return _performed(self._write(snapshot, roll, fleet, node, row))
            case NodeAct.START:
                by_supervisor = roll is Roll.OURS and not journal.is_sent_back(row)  # once the journal has STARTED
                taken_over = self._taken_over(roll, fleet, node, row)
                columns = {} if by_supervisor else _performed(node.actuator.start())
                look = snapshot.observation
                return {**columns, **taken_over, "log_end": 0 if look is None else look.log.high_watermark}

    def _taken_over(self, roll: Roll, fleet: Fleet, node: FleetNode, row: RoadNode) -> dict[str, Any]:
        """A file that somebody corrected after a start with it failed is the one that is meant, if it is still what a
        node of this kind has. Not in FINAL: the guard of the host lets only the file start that was written.
        """
        kind = KIND_OF[roll]
        if kind is None or roll is Roll.FINAL or roll in journal.WAYS_BACK or row.kind != kind:
            return {}
        present = read_present(node.actuator, node.path)
        if present is None or present.checksum == row.checksum:
            return {}
        rendered = fleet.render(node, present, kind)
        if rendered.checksum != present.checksum:
            keys = ", ".join(sorted({each.key for each in rendered.changes}))
            reason = f"{node.path} was changed since it was written, and it is no {kind} file any more ({keys})"
            raise STEP_FAILED.error(act="start", node=node.name, reason=reason)
        log.info("roll.file_taken_over", roll=roll, node=node.id)
        said = "its file was changed after it was written, and is taken over"
        return {"checksum": present.checksum, "detail": f"{row.detail}; {said}"}

    def _prepare_before(
        self, snapshot: Snapshot, roll: Roll, fleet: Fleet, node: FleetNode, image: Image
    ) -> dict[str, Any]:
        """For the way back. After the claim is gone, the log says nothing of topic ids any more."""
        kind = KIND_OF[roll]
        assert kind is not None, "a way back has a previous file"
        columns = prepare_before(fleet, node, kind, kept_for(snapshot, node.id, kind), self._kafka_says)
        columns = {**columns, "kind": str(kind), "incarnation": _incarnation(snapshot, node)}
        if node.role != BROKERS:
            return columns
        disks = look_at_disks(node, image, with_ids=roll is Roll.BACK)
        if disks.trouble is not None:
            raise FindingError(disks.trouble)
        return {**columns, "detail": f"{columns['detail']}; {disks.said}"}

    def _kafka_says(self, rendered: Rendered) -> str:
        """Before the node is stopped. Raises Z2K-7035."""
        return kafka_says(rendered, None if self._settings.fleets is None else self._settings.fleets / KAFKA)

    def _prepare(self, snapshot: Snapshot, roll: Roll, fleet: Fleet, node: FleetNode, image: Image) -> dict[str, Any]:
        if roll in journal.WAYS_BACK:
            return self._prepare_before(snapshot, roll, fleet, node, image)
        present = read_present(node.actuator, node.path)
        whole = joining.found_whole(snapshot, fleet, node, present) if roll is Roll.JOIN else None
        if whole is not None:
            return whole
        if present is None:
            raise STEP_FAILED.error(act="prepare", node=node.name, reason=f"{node.path} cannot be read by its actuator")
        if roll is Roll.KRAFT and present.document.value("process.roles") is not None:
            found = f"{node.path} is a file of KRaft mode already"
            raise NODE_NOT_AS_JOURNAL.error(node=node.name, step="PENDING", found=found)
        kind = KIND_OF[roll]
        checksum, detail, shown = present.checksum, "its file stays", {}
        if kind is not None:
            rendered = fleet.render(node, present, kind, passwords_encoded=bool(brokers_with_passwords(image)))
            checksum, shown = rendered.checksum, file_change(rendered)
            changed = ", ".join(sorted({each.key for each in rendered.changes}))
            detail = f"{kind} file: {changed or 'nothing'} changes; {self._kafka_says(rendered)}"
        if node.role == BROKERS and roll is not Roll.JOIN:  # which moves no log aside
            disks = look_at_disks(node, image, with_ids=True)
            if disks.trouble is not None:
                raise FindingError(disks.trouble)
            detail = f"{detail}; {disks.said}"
        return {
            "kind": "" if kind is None else str(kind),
            "rendered_from": present.checksum,
            "checksum": checksum,
            "incarnation": _incarnation(snapshot, node),
            "detail": detail,
            "evidence": shown,
        }

    def _write(self, snapshot: Snapshot, roll: Roll, fleet: Fleet, node: FleetNode, row: RoadNode) -> Performed | None:
        """Rendered anew from what stands there, so that a cut between stop and start loses nothing."""
        kind = KIND_OF[roll]
        if kind is None:
            return None
        present = read_present(node.actuator, node.path)
        if present is None:
            raise STEP_FAILED.error(act="write", node=node.name, reason=f"{node.path} cannot be read by its actuator")
        if present.checksum == row.checksum:
            return self._allow(snapshot, node, present.content) if roll is Roll.FINAL else None
        base = whole_file(
            node, present, row.rendered_from, row.checksum, lambda kept: fleet.render(node, kept, kind).content
        )
        rendered = fleet.render(node, base, kind)
        if rendered.checksum != row.checksum:
            reason = f"{node.path}: the inventory means another file by now than before the stop"
            raise STEP_FAILED.error(act="write", node=node.name, reason=reason)
        allowed = self._allow(snapshot, node, rendered.content) if roll is Roll.FINAL else None
        written = write_file(node.actuator, node.id, node.path, rendered.content, Present(node.path, present.content))
        if not isinstance(written, Instruction):
            return allowed
        return written if allowed is None else Instruction(f"{allowed.text} Then: {written.text}", written.bundle)

    def _allow(self, snapshot: Snapshot, node: FleetNode, content: bytes) -> Instruction | None:
        """The guard of this host lets exactly this file start without the flag, from now on.

        The token is written while the controller is stopped and before its file, so that a file without the flag never
        stands where no plan allows it.
        """
        if node.node.guard is None:
            return None
        if snapshot.approval is None:
            reason = "no approval of FINALIZING is recorded, whose digest its guard wants"
            raise STEP_FAILED.error(act="write", node=node.name, reason=reason)
        plan = snapshot.approval.digest
        path, token = finalize_token(plan, node.id, content, posixpath.dirname(node.path))
        answer = node.actuator.write(path, token)
        return answer if isinstance(answer, Instruction) else None

    def _stop_ours(self, snapshot: Snapshot, node: FleetNode) -> None:
        """The process of ours in whose place stock will run; it leaves its quorum in order. Raises Z2K-4213."""
        entry = next((each for each in snapshot.inventory.controllers if each.node_id == node.id), None)
        pid = self._pid_of_ours(snapshot, node)
        if entry is None or pid is None:
            return
        mark = process_mark(pid) or ""
        if not self._launcher.ask_to_stop(pid, entry):
            return
        ends = time.monotonic() + LEAVE_S
        while self._launcher.runs(pid, mark):
            if time.monotonic() > ends:
                raise CONTROLLER_NOT_LEFT.error(node=node.id, pid=pid, seconds=f"{LEAVE_S:g}")
            time.sleep(0.1)

    def _wait_until_left(self, snapshot: Snapshot, node: FleetNode) -> None:
        """One of ours on another host, which its actuator has stopped: nothing accepts on its control port any more.

        Raises Z2K-4116, and Z2K-4119 where nobody can tell: a file of stock must not be written under a process of
        ours.
        """
        entry = next((each for each in snapshot.inventory.controllers if each.node_id == node.id), None)
        ends = time.monotonic() + LEAVE_S
        while entry is not None and entry.is_remote:
            try:
                if not accepts(entry.control):
                    return
                error = STOPPED_ELSEWHERE.error(nodes=[node.id])
            except OSError as unknown:
                error = CONTROLLER_NOT_REACHED.error(node=node.id, reason=words_of(unknown))
            if time.monotonic() > ends:
                raise error
            time.sleep(0.5)

    def _ours_runs(self, snapshot: Snapshot, node: FleetNode) -> bool:
        look = () if snapshot.observation is None else snapshot.observation.controllers
        elsewhere = {each.node_id for each in look if each.status is not None and each.pid is None}
        return node.id in elsewhere or self._pid_of_ours(snapshot, node) is not None

    def _pid_of_ours(self, snapshot: Snapshot, node: FleetNode) -> int | None:
        """The process of ours that was started for it, or that answers at its control port; None when there is none."""
        known, look = snapshot.processes.get(node.id), snapshot.observation
        if known is not None and known.pid is not None and self._launcher.runs(known.pid, known.process_mark or ""):
            return known.pid
        answering = {each.node_id: each for each in (() if look is None else look.controllers)}
        found = answering.get(node.id)
        return None if found is None or found.status is None else found.pid

    # --- what is observed ----------------------------------------------------------------------------------

    async def _node_now(
        self, snapshot: Snapshot, evidence: Evidence, roll: Roll, fleet: Fleet, row: RoadNode, work: _Work
    ) -> NodeNow | None:
        """None: its host has not answered yet."""
        node = fleet.node(row.role, row.node_id)
        assert node is not None, "nodes that are missing were refused"
        seen = work.seen.get((roll, node.id))
        if seen is None or self._steady() - seen.at >= LOOK_AT_NODE_EVERY_S:
            # while one that was started becomes whole, the look before counts until the next one has its answer
            stands = seen if row.step == RollStep.STARTED and seen is not None and self._is_young(seen) else None
            patience_s = LOOK_PATIENCE_S if stands is None else LOOK_BESIDE_S
            looked = await self._looked(snapshot, roll, node, row, work, patience_s)
            if looked is not None:
                self._with_ours(snapshot, roll, node, row, looked)
                work.seen[roll, node.id] = looked
            seen = looked or stands
            if seen is None:
                return None
        if roll is Roll.ORIGINAL:
            whole = self._original_whole(evidence, snapshot, node, seen, work)
            gone = _is_gone_in_zookeeper(snapshot, node)
            return NodeNow(
                seen.process,
                whole,
                gone=gone,
                file_is_rendered=seen.rendered,
                trouble=work.repeats.trouble(roll, node.id),
                not_ended=not_ended(node, seen.process, gone=gone),
                answered=seen.answered,
            )
        known = _log_of(snapshot)
        beside = _are_together(snapshot.nodes_of(roll)) and roll in BY_RACK
        looked_at = (known, seen.process, seen.rendered, seen.disks)
        whole = node_whole(evidence, roll, row, *looked_at, work.quiet, beside=beside)
        gone = joining.is_gone(snapshot, node.id) if roll is Roll.JOIN else _is_gone(snapshot, node)
        stock = roll in (Roll.STOCK, Roll.SOAK, Roll.FINAL)
        return NodeNow(
            seen.process,
            whole,
            gone=gone,
            file_is_rendered=seen.rendered,
            registered_anew=_registered_anew(snapshot, row),
            trouble=work.repeats.trouble(roll, node.id),
            not_ended=not_ended(node, seen.process, gone=gone),
            answered=seen.answered,
            registers_never=stock
            and seen.rendered is True
            and work.unsent.is_due(row, _log_of(snapshot), self._steady()),
        )

    def _original_whole(
        self, evidence: Evidence, snapshot: Snapshot, node: FleetNode, seen: _Seen, work: _Work
    ) -> Verdict:
        """We start it only after ZooKeeper had lost its registration of before. One that somebody else started earlier
        ends when it finds that registration.
        """
        there = not _is_gone_in_zookeeper(snapshot, node) and evidence.holder is not Holder.UNKNOWN
        fleet = self._fleets.fleet(snapshot.migration.name)
        own = own_process(seen.process, seen.rendered)
        registered = Condition(
            "it is registered in ZooKeeper", there, "it is" if there else "it is not in /brokers/ids"
        )
        disks = () if seen.disks is None else (seen.disks,)
        out = left_out(snapshot, self._clock())
        return Verdict((*own, registered, *self._whole_by_brokers(fleet, work, out), *disks))

    def _with_ours(self, snapshot: Snapshot, roll: Roll, node: FleetNode, row: RoadNode, seen: _Seen) -> None:
        """A controller of ours has its process elsewhere than the host's supervisor says."""
        answers = roll in (Roll.STOCK, Roll.OURS) and self._ours_runs(snapshot, node)
        if roll is Roll.OURS and row.step == RollStep.STARTED and not journal.is_sent_back(row):
            seen.process = controllers_back.process_of(snapshot, row, answers)
        elif answers:
            seen.process = ProcessState.RUNNING

    async def _looked(
        self, snapshot: Snapshot, roll: Roll, node: FleetNode, row: RoadNode, work: _Work, patience_s: float
    ) -> _Seen | None:
        """A look that began with this row. One that hangs holds no round: it goes on, and None is the answer."""
        key, now = (str(roll), node.id), (row.step, row.checksum)
        look = work.looks.get(key)
        if look is None or (look.task.done() and not self._counts(look, now)):
            coroutine = self._hosts.away(snapshot.id, self._look_at_node, node, row, self._image(snapshot))
            work.looks[key] = look = _Look(key, now, asyncio.create_task(coroutine), self._steady())
        await asyncio.wait({look.task}, timeout=patience_s)
        if not look.task.done() or look.row != now:
            return None
        work.looks.pop(key, None)
        return look.task.result()

    def _counts(self, look: _Look, row: tuple[str, str]) -> bool:
        """Of one that is over: the node is where it was, and that is not long ago."""
        failed = look.task.exception() is not None
        return look.row == row and (failed or self._is_young(look.task.result()))

    def _is_young(self, seen: _Seen) -> bool:
        return self._steady() - seen.at < LOOK_COUNTS_S

    def _looking(self, roll: Roll, row: RoadNode, work: _Work) -> str:
        look = work.looks.get((str(roll), row.node_id))
        seconds = 0.0 if look is None else self._steady() - look.since
        return f"{row.role} {row.node_id}: its host is looked at ({seconds:.0f} s)"

    def _look_at_node(self, node: FleetNode, row: RoadNode, image: Image) -> _Seen:
        """A host that does not answer is not known, and no reason to fail."""
        answered = False if isinstance(node.actuator, ByOthers) else None
        try:
            if isinstance(node.actuator, ByOthers):
                answered = node.actuator.answered()
            process = node.actuator.status().state
        except FindingError as error:
            log.warning("roll.status_not_read", node=node.id, reason=str(error))
            process = ProcessState.NOT_READ
        looks_at_disks = node.role == BROKERS and row.step == RollStep.STARTED and row.roll != Roll.JOIN
        directories = node.node.log_dirs if looks_at_disks else ()
        node = replace(node, actuator=read_ahead(node.actuator, [node.path, *directories]))
        try:
            content = node.actuator.read(node.path)
        except FindingError:
            content = None
        seen = _Seen(self._steady(), process, None if content is None else checksum_of(content) == row.checksum)
        seen.answered = answered
        if looks_at_disks:
            disks = look_at_disks(node, image, with_ids=False)
            codes = () if disks.trouble is None else (disks.trouble.code,)
            said = disks.said if disks.trouble is None else disks.trouble.text
            seen.disks = Condition("no directory of the broker is stray", disks.trouble is None, said, codes)
        return seen

    def _last(self, snapshot: Snapshot, evidence: Evidence, fleet: Fleet, roll: Roll) -> frozenset[int]:
        """The active controller; of brokers those on its machine. Before the takeover and after the claim is gone it is
        one of the brokers. The way back is the way there in reverse.
        """
        if roll is Roll.BACK:
            return frozenset(without_answer(snapshot))
        if roll is Roll.ORIGINAL:
            holds = evidence.holder is Holder.ZOOKEEPER_BROKER and evidence.holder_id is not None
            return frozenset({evidence.holder_id or 0}) if holds else frozenset()
        if roll is Roll.JOIN:
            look = snapshot.observation
            holder = None if look is None else look.zookeeper.holder_id
            return frozenset() if holder is None else frozenset({holder})
        leader = _log_of(snapshot).leader
        if leader is None:
            return frozenset()
        if ROLE_OF[roll] != BROKERS:
            return frozenset({leader})
        hosts = {each.node.host for each in fleet.of("controller") if each.id == leader}
        return frozenset(each.id for each in fleet.of(BROKERS) if each.node.host in hosts)

    def _image(self, snapshot: Snapshot) -> Image:
        observer = self._observer.log_of(snapshot.id)
        return EMPTY if observer is None else observer.image

    # --- the journal ---------------------------------------------------------------------------------------

    async def _record(self, snapshot: Snapshot, roll: Roll, node_id: int, **columns: Any) -> None:
        def write() -> None:
            journal.record(self._store, snapshot.id, roll, node_id, at=self._clock(), **columns)

        await self._store.away(write)

    async def _fail(self, snapshot: Snapshot, roll: Roll, row: RoadNode, cause: Occurrence) -> None:
        log.error("roll.failed", roll=roll, node=row.node_id, code=cause.code, reason=cause.text)
        await self._record(
            snapshot, roll, row.node_id, step=RollStep.FAILED, failed_in=row.step, cause=cause.text, code=cause.code
        )


# --- conditions -------------------------------------------------------------------------------------------


def cluster_ready(evidence: Evidence, roll: Roll) -> Verdict:
    """What has to hold before any node of this roll is stopped."""
    road = road_of(evidence)
    back = (no_later_kafka(evidence.later), log_is_observed(road), *canary_is_well(road), zookeeper_answers(evidence))
    match roll:
        case Roll.BACK:
            # a flag that is on lets the broker halt when a directory is offline
            way = (claim_is_ours(evidence), zookeeper_follows(road), *zookeeper_mode_is_possible(road, every=False))
            return Verdict((*back, *way))
        case Roll.ORIGINAL:
            return claim_is_gone(evidence)
        case Roll.OURS:
            follows = () if _ours_will_follow(road) else (zookeeper_follows(road),)
            guards = guards_are_proven(road, road.left_out)
            return Verdict((*back, claim_is_ours(evidence), *follows, *guards))
        case Roll.JOIN | Roll.KRAFT | Roll.STOCK | Roll.SOAK | Roll.FINAL:
            return Verdict(conditions_of(evidence, roll, When.STOP))


def _ready_of(snapshot: Snapshot, evidence: Evidence, roll: Roll, node: int, cluster: Verdict, work: _Work) -> Verdict:
    """Of one node of a way back: what its stop would make worse, and nothing else (stops.py)."""
    if roll not in journal.WAYS_BACK:
        return cluster
    road, silent = road_of(evidence), without_answer(snapshot)
    answers = host_answers(f"{ROLE_OF[roll]} {node}", silent.get(node))
    if roll is Roll.OURS:
        return Verdict((answers, *cluster.conditions, *controller_may_stop(road, node)))
    if roll is Roll.ORIGINAL:
        at_stake = 0 if work.replicas is None else work.replicas.at_stake(node)
        return Verdict((answers, *cluster.conditions, takes_nothing(road, node, at_stake)))
    own = broker_may_stop(road, node, _log_of(snapshot).broker(node), work.quiet)
    return Verdict((answers, *cluster.conditions, *own))


def what_it_takes(evidence: Evidence, roll: Roll, *nodes: int) -> tuple[Condition, ...]:
    """From partitions that are whole, by the stop of these nodes together. On a way back it is only said."""
    if ROLE_OF[roll] != BROKERS or roll is Roll.ORIGINAL:
        return ()
    road = road_of(evidence)
    return restarts_take(road, nodes) if roll in journal.WAYS_BACK else restarts_are_accepted(road, nodes)


def _ours_will_follow(road: RoadEvidence) -> bool:
    """Stock that finds configuration of clients' metrics in the log never comes to the end of its comparison with
    ZooKeeper. No broker reads ZooKeeper then; ours bring it up to date before one does (`ours_lead_again`).
    """
    return not road.zookeeper


def node_whole(
    evidence: Evidence,
    roll: Roll,
    row: RoadNode,
    observed: LogObservation,
    process: ProcessState,
    rendered: bool | None,
    disks: Condition | None,
    quiet: Quiet,
    *,
    beside: bool = False,
) -> Verdict:
    """What has to hold of the node that was started, before the next one. beside: others are restarted with it."""
    road = road_of(evidence)
    own = (*own_process(process, rendered), log_is_observed(road))
    if row.role == BROKERS:
        broker = _broker_whole(evidence, roll, row, observed, quiet, beside=beside)
        return Verdict((*own, *broker, *(() if disks is None else (disks,))))
    return Verdict((*own, *_controller_whole(evidence, roll, row, observed)))


def around_of(evidence: Evidence, roll: Roll) -> Verdict:
    """Until a node of a way forward counts as whole. On a way back what is broken elsewhere holds nobody."""
    return Verdict(() if roll in journal.WAYS_BACK else conditions_of(evidence, roll, When.WHOLE))


def own_process(process: ProcessState, rendered: bool | None) -> tuple[Condition, ...]:
    return (
        Condition("its process runs", process is not ProcessState.STOPPED, str(process)),
        Condition("its file is as rendered", rendered is not False, "it is not" if rendered is False else "it is"),
    )


def _broker_whole(
    evidence: Evidence, roll: Roll, row: RoadNode, observed: LogObservation, quiet: Quiet, *, beside: bool
) -> tuple[Condition, ...]:
    """beside: what others lack is no reason then; before the next stop, every partition of the cluster is whole."""
    road = road_of(evidence)
    broker = observed.broker(row.node_id)
    mode = "ZooKeeper" if roll is Roll.JOIN or row.kind == FileKind.BACK else "KRaft"
    live = (joining.presence(road.zookeeper_ids, row.node_id),) if roll is Roll.JOIN else ()
    if roll is Roll.JOIN and row.kind == FileKind.BACK:
        return (*live, *replicas_are_whole(road), replicas_are_settled(road))
    if broker is None:
        return (Condition("the broker is registered", False, "it is not"),)
    fresh = broker.incarnation != row.incarnation
    # in ZooKeeper mode a broker assigns no directory
    left = broker.unassigned_dirs if mode == "KRaft" else 0
    whole = (*replicas_are_whole(road), replicas_are_settled(road))
    if roll is Roll.BACK or beside:
        whole = broker_is_in_sync(road, row.node_id, broker, quiet)
    return (
        *live,
        Condition("the broker registered anew", fresh, f"incarnation {broker.incarnation}"),
        Condition(f"it registered in {mode} mode", broker.mode == mode, f"{broker.mode} mode"),
        Condition("it is unfenced", broker.ready, "it is" if broker.ready else "fenced or shutting down"),
        Condition("every directory of its replicas is assigned", not left, f"{left} are not"),
        Condition("every directory is online", not broker.offline_dirs, f"{broker.offline_dirs} are offline"),
        *whole,
    )


def _controller_whole(evidence: Evidence, roll: Roll, row: RoadNode, observed: LogObservation) -> tuple[Condition, ...]:
    controller, voter = observed.controller(row.node_id), observed.voter(row.node_id)
    flag = roll is not Roll.FINAL or give_up.is_put_back(row)
    fresh = controller is not None and controller.incarnation != row.incarnation
    ready = controller is not None and controller.zk_migration_ready is flag
    lag = None if voter is None else voter.lag
    claim = () if roll is Roll.FINAL else (claim_is_ours(evidence),)
    ours = roll is Roll.OURS and not journal.is_sent_back(row)
    return (
        *((controllers_back.answers_in_its_place(evidence, row),) if ours else ()),
        Condition(
            "the controller registered anew", fresh, "not registered" if controller is None else controller.incarnation
        ),
        Condition(
            f"it registered {'as ready for the migration' if flag else 'without the migration flag'}",
            fresh and ready,
            "not registered" if controller is None else f"zkMigrationReady is {controller.zk_migration_ready}",
        ),
        Condition(
            "it has what is committed",
            lag == 0,
            "its lag is not known" if lag is None else f"it is {lag} records behind",
        ),
        Condition(
            "a controller leads",
            observed.leader is not None,
            "no controller leads" if observed.leader is None else f"controller {observed.leader} leads",
        ),
        *claim,
    )


def _are_together(rows: Iterable[RoadNode]) -> bool:
    """Several nodes are away, or one beside a failed one: of a rack that was stopped together."""
    steps = [RollStep(row.step) for row in rows]
    begun = sum(each in UNDER_WAY for each in steps)
    return begun > 1 or (begun == 1 and RollStep.FAILED in steps)


def _with_racks(snapshot: Snapshot, entries: Sequence[RollEntry]) -> list[RollEntry]:
    """With the racks that brokers have registered; of the inventory where one registered none."""
    racks = {each.id: each.rack for each in _log_of(snapshot).brokers if each.rack}
    return [replace(each, rack=racks.get(each.id, each.rack)) for each in entries]


def _naming(found: Outcome | None, work: _Work, rows: Iterable[RoadNode]) -> Outcome | None:
    """With the racks that are restarted one broker after the other although a rack at a time is asked for."""
    left = {(row.roll, row.node_id) for row in rows if row.step != RollStep.WHOLE}
    named = [why for (roll, _), (ids, why) in work.one_by_one.items() if any((roll, each) in left for each in ids)]
    if found is None or not named:
        return found
    return replace(found, problems=(*found.problems, *(each for each in named if each not in found.problems)))


def _said(found: Sequence[Outcome]) -> Outcome:
    """Of several nodes at once, in their order. One that is blocked blocks: a person has to see to it."""
    kind = Blocked if any(isinstance(each, Blocked) for each in found) else Waiting
    said = [each.text if isinstance(each, kind) else each.words for each in found[:SAID_OF_A_RACK]]
    said += [f"and {len(found) - SAID_OF_A_RACK} more"] if len(found) > SAID_OF_A_RACK else []
    problems = dict.fromkeys(problem for each in found for problem in each.problems)
    return kind("; ".join(said), tuple(problems))


def _log_of(snapshot: Snapshot) -> LogObservation:
    return LogObservation() if snapshot.observation is None else snapshot.observation.log


def _incarnation(snapshot: Snapshot, node: FleetNode) -> str:
    """As registered now; empty when it is not."""
    observed = _log_of(snapshot)
    found: Any = observed.broker(node.id) if node.role == BROKERS else observed.controller(node.id)
    return "" if found is None else str(found.incarnation)


def _registered_now(snapshot: Snapshot, row: RoadNode) -> dict[str, Any]:
    """The incarnation that a restart has to change: since it was prepared, its host may have started it again."""
    observed = _log_of(snapshot)
    if not observed.known:
        return {}
    found: Any = observed.broker(row.node_id) if row.role == BROKERS else observed.controller(row.node_id)
    return {"incarnation": "" if found is None else str(found.incarnation)}


def _registered_anew(snapshot: Snapshot, row: RoadNode) -> bool:
    """Of a broker, since its stop was ordered."""
    observed = _log_of(snapshot)
    found = observed.broker(row.node_id) if observed.known and row.role == BROKERS else None
    return found is not None and row.incarnation not in ("", str(found.incarnation))


def _is_gone(snapshot: Snapshot, node: FleetNode) -> bool:
    """The cluster does not count it as present."""
    observed = _log_of(snapshot)
    if not observed.known:
        return False
    if node.role == BROKERS:
        broker = observed.broker(node.id)
        return broker is None or broker.fenced
    voter = observed.voter(node.id)
    return voter is None or voter.fetched_ms_ago is None or voter.fetched_ms_ago > 10_000


def _wanted(snapshot: Snapshot, fleet: Fleet, roll: Roll, now: float) -> tuple[FleetNode, ...]:
    """Of a way back only the nodes that need it, and that nobody left out by name."""
    nodes = fleet.of(ROLE_OF[roll])
    match roll:
        case Roll.OURS:
            needed = controllers_back.to_put_back(snapshot)
        case Roll.BACK:
            needed = into_zookeeper_mode(snapshot)
        case Roll.ORIGINAL:
            needed = to_original_file(snapshot)
        case _:
            return nodes
    out = left_out(snapshot, now)
    return tuple(each for each in nodes if each.id in needed and each.id not in out)


def _serving(evidence: Evidence, half_way: tuple[int, ...]) -> tuple[int, ...]:
    """Of brokers that another roll left half-way, those that serve while another one does not: they wait for their turn
    like any broker. All others are stopped first.
    """
    road = road_of(evidence)
    missing = set(road.not_ready) - set(half_way)
    if road.log_problem or not missing:
        return ()
    return tuple(each for each in half_way if each not in road.not_ready and each in (*road.kraft, *road.zookeeper))


def _is_gone_in_zookeeper(snapshot: Snapshot, node: FleetNode) -> bool:
    look = snapshot.observation
    if look is None or look.zookeeper.holder is Holder.UNKNOWN:
        return False
    return node.id not in look.zookeeper.brokers


def _performed(answer: Performed | None) -> dict[str, Any]:
    return {"instruction": answer.text} if isinstance(answer, Instruction) else {}


def _problems(failed: list[RoadNode]) -> tuple[Occurrence, ...]:
    """The cause as it was found, under the code of what stands."""
    return tuple(
        STEP_FAILED.found(act=row.failed_in, node=f"{row.role} {row.node_id}", reason=f"{row.code} {row.cause}")
        for row in failed
    )


def _in_words(error: FindingError) -> str:
    return f"{error.code} {error.occurrence.text}"
