"""Rolling restarts, carried out: one decision of one roll per round.

In:   a snapshot with its evidence, and which roll. Out: an `Outcome`; rows of the journal.
Elsewhere: what to do next (migrator.fleet.roll), acts (acts.py), looks at hosts (looks.py), racks (racks.py), what
differs between kinds of rolls (kind.py, table.py), which roll a phase wants
(work/acts_after_dual_write.py).
Rules: one act at a time and per migration, on a thread; the loop goes on meanwhile. It knows no kind of roll by name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.road import NO_FLEET, STEP_FAILED
from migrator.fleet.inventory import Inventory
from migrator.fleet.repeatable import Repeats
from migrator.fleet.roll import (
    UNDER_WAY,
    UNTOUCHED,
    Complete,
    Decision,
    Fail,
    NodeAct,
    Perform,
    Reached,
    RollEntry,
    RollNow,
    RollStep,
    Wait,
    decide,
    decide_each,
)
from migrator.model.verdict import Verdict
from state_machine.children.processes import Launcher
from state_machine.clusters.observe import ClusterObserver
from state_machine.nodes.calls import HostThreads
from state_machine.nodes.cluster_lock import ClusterLocks
from state_machine.nodes.fleet import Fleet, Fleets
from state_machine.nodes.replicas import ReplicasSeen, read_replicas
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.gates import Evidence
from state_machine.policy.outcome import Blocked, Outcome, Waiting, said_of_several
from state_machine.policy.rolls import ROLLS
from state_machine.rollback.left_out import left_out
from state_machine.rollback.stops import Quiet
from state_machine.rolling import journal
from state_machine.rolling.acts import NodeActs
from state_machine.rolling.looks import HostLooks, are_together
from state_machine.rolling.racks import Racks, naming_racks
from state_machine.rolling.registrations import incarnation
from state_machine.rolling.round import Means, RollWork, Round, log_of
from state_machine.rolling.table import KINDS
from state_machine.rows.store import Snapshot, Store
from state_machine.rows.tables import JournalRow
from state_machine.settings import ServiceSettings


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
        self._store = store
        self._fleets = fleets
        self._means = Means(launcher, settings, hosts or HostThreads(), replicas, clock, steady)
        self._acts = NodeActs(store, observer, self._means, locks)
        self._racks = Racks(store, self._acts, self._means)
        self._looks = HostLooks(self._means)
        self._work: dict[int, RollWork] = {}
        self.before_stop = self._acts.before_stop

    async def step(self, snapshot: Snapshot, evidence: Evidence, roll: Roll) -> Outcome | None:
        """One decision. None: every node is whole. An act of the roll before comes to its end first."""
        work = self._work_of(snapshot)
        work.quiet.note(log_of(snapshot))
        work.moved = False
        others_roll = [each for each in work.running.values() if each.roll is not roll]
        if others_roll:
            return said_of_several([await self._acts.follow(snapshot, work, each) for each in others_roll])
        try:
            fleet = await asyncio.to_thread(self._fleets.fleet, snapshot.migration.name)
        except FindingError as error:
            found = error.occurrence
            return Blocked(f"{found.code} {found.text}", (found,))
        fleet = fleet.of_cluster(snapshot.migration.cluster_id, has_stock=snapshot.inventory.has_stock)
        now = self._means.clock()
        out = left_out(snapshot, now) if ROLLS[roll].back else {}
        round = Round(snapshot, evidence, roll, fleet, work, self._means, now, out)
        begun = await self._begin(round)
        if begun is not None:
            return begun
        missing = [row.node_id for row in round.rows if fleet.node(row.role, row.node_id) is None]
        if missing:
            found = NO_FLEET.found(name=snapshot.migration.name, reason=f"it does not name nodes {missing} any more")
            return Blocked(f"{found.text}", (found,))
        if snapshot.migration.paused:
            work.one_by_one.clear()  # meanwhile somebody may give partitions more replicas
        return naming_racks(await self._decide(round), work, round.rows)

    async def release(self, snapshot: Snapshot) -> None:
        """Nothing is restarted any more."""
        await self._acts.release(snapshot)

    def is_acting(self, migration_id: int) -> bool:
        """Something is done on a host just now."""
        work = self._work.get(migration_id)
        return work is not None and bool(work.running)

    def _work_of(self, snapshot: Snapshot) -> RollWork:
        known = self._work.get(snapshot.id)
        if known is None:
            steady = self._means.steady
            known = self._work[snapshot.id] = RollWork(Repeats(steady), quiet=Quiet(steady))
        return known

    async def _begin(self, round: Round) -> Outcome | None:
        """Nodes that the journal lacks get their rows, while none is under way. None: it lacks none."""
        kind, rows = KINDS[round.roll], round.rows
        wanted = kind.nodes(round)
        going = any(row.step == RollStep.FAILED or RollStep(row.step) in UNDER_WAY for row in rows)
        if going or not {each.id for each in wanted} - {row.node_id for row in rows}:
            return None
        half_way = kind.half_way(round)
        if isinstance(half_way, Waiting):
            return half_way
        away = {each.id: incarnation(round.snapshot, each.role, each.id) for each in wanted if each.id in half_way}
        begin, at = journal.begin, self._means.clock()
        await self._store.away(begin, self._store, round.snapshot.id, round.roll, wanted, at=at, away=away)
        return Waiting(f"{round.roll} is prepared for {len(wanted)} nodes")

    async def _decide(self, round: Round) -> Outcome | None:
        work, kind = round.work, KINDS[round.roll]
        running = tuple(work.running.values())
        followed = None
        if running:
            followed = said_of_several([await self._acts.follow(round.snapshot, work, each) for each in running])
            if not _others_go_on(round):
                return followed
        for key in [each for each in work.looks if each[0] != round.roll]:
            del work.looks[key]
        kind.tend(round)
        rows = {row.node_id: row for row in kind.rows(round)}
        idle = [row for row in rows.values() if RollStep(row.step) in UNDER_WAY and row.node_id not in work.running]
        image = self._acts.image(round.snapshot)
        looked = await asyncio.gather(*(self._looks.node_now(round, kind, row, image) for row in idle))
        seen = {row.node_id: each for row, each in zip(idle, looked, strict=True) if each is not None}
        if idle and not seen:
            return Waiting(self._looks.waited_for(round, idle[0]))
        turns, ready = kind.turns(round.snapshot), kind.ready(round)
        entries = [journal.entry_of(row, round.now, turns.get(row.node_id, 0)) for row in rows.values()]
        look = RollNow(
            cluster=ready,
            nodes=seen,
            last=kind.last(round),
            paused=round.snapshot.migration.paused or self._outside(round.fleet),
            deadline_s=self._means.settings.node_deadline_s,
            around=kind.around(round.evidence),
            of_node={each: kind.ready_of(round, each, ready) for each in rows} if round.row.back else {},
        )
        if are_together(rows.values()):
            decisions = list(decide_each(entries, look).values())
            failed = [decide(entries, look)] if any(row.step == RollStep.FAILED for row in rows.values()) else []
            said = [await self._carry_out(round, each, rows, entries, look) for each in (*failed, *decisions)]
            return said_of_several([each for each in (*said, followed) if each is not None])
        return await self._carry_out(round, decide(entries, look), rows, entries, look)

    async def _carry_out(
        self,
        round: Round,
        decision: Decision,
        rows: Mapping[int, JournalRow],
        entries: Sequence[RollEntry],
        look: RollNow,
    ) -> Outcome | None:
        match decision:
            case Complete():
                return None
            case Wait(reason):
                failed = [row for row in rows.values() if row.step == RollStep.FAILED]
                return Blocked(reason, _problems(failed)) if failed else Waiting(reason)
            case Reached(node_id, _):
                return await self._acts.reached(round, rows[node_id], decision, look.nodes[node_id].whole)
            case Fail(node_id, cause):
                round.work.repeats.forget(round.roll, node_id)
                await self._acts.fail(round.snapshot, round.roll, rows[node_id], cause)
                return Blocked(f"{cause.text}", (cause,))
            case Perform(node_id, act):
                kind, row = KINDS[round.roll], rows[node_id]
                ready = kind.ready_of(round, node_id, look.cluster)
                if RollStep(row.step) in UNTOUCHED:
                    together = await self._racks.together(
                        round, act, rows, entries, ready, first=node_id, last=look.last
                    )
                    if together is not None:
                        return together
                if act is NodeAct.STOP and (RollStep(row.step) in UNTOUCHED or row.began_at is None):
                    taken = Verdict(kind.takes(round.evidence, node_id))
                    if not taken.holds:
                        return Waiting(f"before {row.role} {node_id}: {taken.reason()}")
                    ready = Verdict((*ready.conditions, *taken.conditions))
                return await self._acts.begin(round, row, act, ready)

    def _outside(self, fleet: Fleet) -> str | None:
        """No node is begun outside of the maintenance windows; one that was begun is ended."""
        inside = fleet.inventory.is_in_window(datetime.fromtimestamp(self._wall(), UTC))
        return None if inside else "outside of the maintenance windows of the inventory"


def _others_go_on(round: Round) -> bool:
    """Of a rack that is under way together: nobody waits for another one's act. A row that has just changed is read
    again in the next round.
    """
    rows, work = [row for row in round.rows if RollStep(row.step) in UNDER_WAY], round.work
    return len(rows) > 1 and len(work.running) < len(rows) and not work.moved


def _problems(failed: list[JournalRow]) -> tuple[Occurrence, ...]:
    """The cause as it was found, under the code of what stands."""
    return tuple(
        STEP_FAILED.found(act=row.failed_in, node=f"{row.role} {row.node_id}", reason=f"{row.code} {row.cause}")
        for row in failed
    )
