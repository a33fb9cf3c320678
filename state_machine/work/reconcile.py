"""The loop: observe every migration, write down what happened, carry out operations, do what the phase needs.

In:   the store, an observer, and what acts; a call of `wake` from any thread when an operation was recorded.
Out:  rows. What the cluster says beats what the rows say: every round begins with an observation.
Elsewhere: observing (observe.py), rows from a driver's history (driver_history.py), operations (operations.py), acts
(acts.py).
Rules: each migration has a task of its own, and one round at a time. Whatever goes wrong in a round becomes the named
reason why this migration waits; it ends neither its task nor any other one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from typing import Final, TypeVar

import msgspec
import structlog

from migrator.findings.finding import Occurrence
from migrator.findings.service import CLUSTER_DISAGREES
from state_machine.audits import audit_rows
from state_machine.audits.inspections import Inspections
from state_machine.clusters.observe import ClusterObserver, ControllerObservation, Observation
from state_machine.evidence.later_seen import before_later, later_seen
from state_machine.evidence.of_gates import evidence
from state_machine.policy.gates import Holder
from state_machine.policy.later import later_findings
from state_machine.policy.outcome import Blocked, Outcome, Waiting
from state_machine.policy.phase_table import PHASES, ROWS, PhaseStage
from state_machine.policy.phases import Phase
from state_machine.rows.documents import FILES, FilesDocument, document
from state_machine.rows.observations import (
    ReportedFinding,
    RoundObservation,
    record_observation,
    record_outcome,
)
from state_machine.rows.store import Before, Snapshot, Store
from state_machine.trouble import TroubleLog, is_foreseen, named
from state_machine.work.acts import Acts
from state_machine.work.driver_history import catch_up
from state_machine.work.operations import Operations
from state_machine.work.stock_acts import ActsByEngine

log = structlog.get_logger()
Result = TypeVar("Result")

WINDOW_PAUSE_S: Final = 0.1
"""While the cluster has no controller, somebody watches."""
LEAST_PAUSE_S: Final = 0.05
"""After a round that took as long as its time, the other migrations have their turn."""
RESTING_PAUSE_S: Final = 5.0
SUPERVISE_EVERY_S: Final = 1.0
"""How soon a new migration, or one whose task ended, has a task."""
EVERY_MIGRATION: Final = 0
"""The number under which trouble is kept that no single migration has."""
SAY_SAME_EVERY_S: Final = 5.0
"""An outcome that is the same as before is written down again after this time."""
ENDED_ZOOKEEPER_EVERY_S: Final = 60.0
"""In COMPLETED nothing of the cluster is in ZooKeeper: it is observed only to say whether it is still reachable."""
NOT_OURS: Final = "what answers here was started after this migration was over"


class Reconciler:
    """pause_s: from the begin of one round of a migration to the next, in an ordinary phase.

    operates: there are inventory files, so that the service may restart brokers before the takeover.
    troubles: what keeps a migration's round from its end now; also when the database cannot take it down.
    """

    def __init__(
        self,
        store: Store,
        observer: ClusterObserver,
        operations: Operations,
        acts: Acts | ActsByEngine,
        inspections: Inspections,
        *,
        pause_s: float,
        clock: Callable[[], float] = time.time,
        operates: bool = False,
    ) -> None:
        self._operates = operates
        self._store = store
        self._observer = observer
        self._operations = operations
        self._acts = acts
        self._inspections = inspections
        self._pause_s = pause_s
        self._clock = clock
        self._steady = time.monotonic
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._calls: dict[int, asyncio.Event] = {}
        self._locks: dict[int, asyncio.Lock] = {}
        self._recorded_reasons: dict[int, tuple[tuple[Outcome, Phase | None], float]] = {}
        self._led_back: set[int] = set()
        self._trouble_log = TroubleLog(time.monotonic)
        self.troubles: dict[int, Occurrence] = {}
        self.last_round_at: float | None = None

    def wake(self) -> None:
        """Begin the next round of every migration now; from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

    def alone_with(self, migration_id: int, work: Callable[[], Result]) -> Result:
        """Do blocking work between two rounds of one migration. Never call it on the loop's own thread."""
        if self._loop is None:
            return work()
        return asyncio.run_coroutine_threadsafe(self._alone(migration_id, work), self._loop).result()

    async def _alone(self, migration_id: int, work: Callable[[], Result]) -> Result:
        async with self._lock(migration_id):
            return await asyncio.to_thread(work)

    async def run(self) -> None:
        """For ever: a task for each migration; audits that an earlier life of the service left have no result."""
        self._loop = asyncio.get_running_loop()
        stopped = False
        try:
            while True:
                self._woken.clear()
                stopped = stopped or await self._stop_interrupted()
                if stopped:
                    await self._supervise()
                for call in self._calls.values():
                    call.set()
                await _until(self._woken, SUPERVISE_EVERY_S)
        finally:
            await _end(self._tasks.values())

    async def _stop_interrupted(self) -> bool:
        try:
            await self._store.away(audit_rows.stop_interrupted, self._store)
        except Exception as error:  # the database is tried again; until then nothing is looked at
            self._in_trouble(EVERY_MIGRATION, error)
            return False
        return True

    async def _supervise(self) -> None:
        """Every migration has a task that lives."""
        try:
            present = set(await asyncio.to_thread(self._store.numbers))
        except Exception as error:  # migrations that have a task go on
            self._in_trouble(EVERY_MIGRATION, error)
            return
        self._is_well(EVERY_MIGRATION)
        for gone in self._tasks.keys() - present:
            await self._forget(gone)
        for number in sorted(present):
            task = self._tasks.get(number)
            if task is None or task.done():
                call = self._calls[number] = asyncio.Event()
                self._tasks[number] = asyncio.create_task(self._watch(number, call), name=f"migration {number}")
        self.last_round_at = self._clock()

    async def _watch(self, migration_id: int, call: asyncio.Event) -> None:
        """Rounds of one migration, for as long as it exists."""
        while True:
            call.clear()
            begun = self._steady()
            every_s = await self.step(migration_id)
            await _until(call, max(every_s - (self._steady() - begun), LEAST_PAUSE_S))

    async def _forget(self, migration_id: int) -> None:
        """It was removed."""
        await _end([self._tasks.pop(migration_id)])
        await self._inspections.stop(migration_id)
        await self._observer.forget(migration_id)
        for known in (self._calls, self._locks, self._recorded_reasons, self.troubles):
            known.pop(migration_id, None)

    async def step(self, migration_id: int) -> float:
        """One round of one migration. Answers the seconds from its begin to the next one's.

        Whatever went wrong is in `troubles`.
        """
        async with self._lock(migration_id):
            try:
                outcome, phase = await self._step(migration_id)
                await self._record_reason(migration_id, outcome, phase)
            except Exception as error:  # named, shown, logged; this migration waits, nobody else does
                found = self._in_trouble(migration_id, error)
                await self._try_to_record_reason(migration_id, Waiting(f"{found.code} {found.text}", (found,)))
                return self._pause_s if is_foreseen(found) else RESTING_PAUSE_S
            self._is_well(migration_id)
            return self._pause_s if migration_id in self._led_back else self._pause(phase)

    async def _record_reason(self, migration_id: int, outcome: Outcome, phase: Phase | None = None) -> None:
        """phase: that it is about. A step writes a reason of its own, so that the same words are written again."""
        said, at = self._recorded_reasons.get(migration_id, (None, 0.0))
        if (outcome, phase) == said and self._clock() - at < SAY_SAME_EVERY_S:
            return
        await self._store.away(record_outcome, self._store, migration_id, outcome, at=self._clock())
        self._recorded_reasons[migration_id] = ((outcome, phase), self._clock())

    async def _try_to_record_reason(self, migration_id: int, outcome: Outcome) -> None:
        try:
            await self._record_reason(migration_id, outcome)
        except Exception as error:  # `troubles` shows the first one; the log has both
            self._trouble_log.say(migration_id, named(error, migration_id), error)

    def _in_trouble(self, migration_id: int, error: Exception) -> Occurrence:
        found = self.troubles[migration_id] = named(error, migration_id)
        self._trouble_log.say(migration_id, found, error)
        return found

    def _is_well(self, migration_id: int) -> None:
        if self.troubles.pop(migration_id, None) is not None:
            self._trouble_log.over(migration_id)

    def _lock(self, migration_id: int) -> asyncio.Lock:
        return self._locks.setdefault(migration_id, asyncio.Lock())

    async def _step(self, migration_id: int) -> tuple[Outcome, Phase]:
        outcome = await self._look_and_act(migration_id)
        faults = self._inspections.faults(migration_id)
        if faults:
            outcome = replace(outcome, problems=(*outcome.problems, *faults))
        return outcome, Phase(await self._store.away(self._store.phase, migration_id))

    async def _look_and_act(self, migration_id: int) -> Outcome:
        snapshot, disagrees = await self._look(migration_id)
        files = document(snapshot, FILES, FilesDocument)
        self._observer.min_isr[migration_id] = {} if files is None else dict(files.min_isr)
        (self._led_back.add if snapshot.led_back else self._led_back.discard)(migration_id)
        for number in [operation.id for operation in snapshot.operations]:
            operation = next((each for each in snapshot.operations if each.id == number), None)
            if operation is not None:  # else it was withdrawn meanwhile
                await self._operations.settle(snapshot, operation, evidence(snapshot, self._clock()))
                snapshot = await self._store.away(self._store.snapshot, migration_id)
        if disagrees is not None and disagrees.code == CLUSTER_DISAGREES.code:
            return Blocked(f"{disagrees.text}", (disagrees,))
        return await self._acts.act(snapshot, evidence(snapshot, self._clock()))

    async def _look(self, migration_id: int) -> tuple[Snapshot, Occurrence | None]:
        """Observe, keep it, and write down every step that the drivers took."""
        before = await self._store.away(self._store.before, migration_id)
        observed = await self._observer.look(
            before.inventory,
            before.observation,
            migration_id,
            with_log=needs_log(before),
            joining=self._operates and _joins(before),
            zookeeper_every_s=ENDED_ZOOKEEPER_EVERY_S if before.phase is Phase.COMPLETED else 0.0,
        )
        if before.phase is Phase.ROLLED_BACK:
            observed = without_foreign_controllers(observed, before.cursors)
        return await self._store.away(self._keep, before, observed)

    def _keep(self, before: Before, observed: Observation) -> tuple[Snapshot, Occurrence | None]:
        if self._is_another_ones(before, observed):
            observed = without_foreign_controllers(observed, before.cursors)
        record_observation(self._store, before.id, RoundObservation(observed, reported_findings(before, observed)))
        snapshot = self._store.snapshot(before.id)
        written, disagrees = catch_up(self._store, snapshot, evidence(snapshot, self._clock()), now=self._clock())
        return (self._store.snapshot(before.id) if written else snapshot), disagrees

    def _is_another_ones(self, before: Before, observed: Observation) -> bool:
        """It has started nothing, and the cluster is another migration's: so are the controllers at its addresses."""
        only_reads = PHASES[before.phase].stage is PhaseStage.READING
        started_nothing = only_reads or (before.phase is Phase.ROLLING_BACK and not before.cursors)
        return started_nothing and self._store.rival(before.id, cluster_of(observed)) is not None

    def _pause(self, phase: Phase) -> float:
        if PHASES[phase].moving:
            return min(self._pause_s, WINDOW_PAUSE_S)
        return RESTING_PAUSE_S if phase is Phase.ROLLED_BACK else self._pause_s


def _joins(before: Before) -> bool:
    """Brokers are restarted while the log has their registrations and ZooKeeper their partitions."""
    if before.inventory.has_stock:
        row = ROWS[before.inventory.engine][before.phase]
        return row.restarts_brokers and not row.audited and row.forward
    return before.phase is Phase.BROKERS_JOINING


def needs_log(before: Before) -> bool:
    """From dual-write on; on the way back for as long as our controllers have the claim. Of stock from its start on."""
    if before.phase is not Phase.ROLLING_BACK:
        row = ROWS[before.inventory.engine][before.phase]
        return row.reads_log or (before.inventory.has_stock and row.stage is not PhaseStage.READING)
    return before.observation is not None and before.observation.zookeeper.holder in (Holder.OURS, Holder.UNKNOWN)


async def _until(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


def cluster_of(observed: Observation) -> str | None:
    """The cluster's id; while ZooKeeper is away, as the controllers say it."""
    said = (each.status.cluster_id for each in observed.controllers if each.status is not None)
    return observed.zookeeper.cluster_id or next(said, None)


def without_foreign_controllers(observed: Observation, runs: Container[str]) -> Observation:
    """Once a migration is over, what answers at its addresses may belong to the next one: only its own runs count."""

    def own(each: ControllerObservation) -> ControllerObservation:
        known = each.status is None or each.status.run in runs
        return each if known else ControllerObservation(each.node_id, problem=NOT_OURS)

    return msgspec.structs.replace(observed, controllers=tuple(map(own, observed.controllers)))


def reported_findings(before: Before, observed: Observation) -> dict[str, list[ReportedFinding]]:
    """Findings that the drivers name, those of the log, and before the takeover those of the last check."""
    found = {
        "driver": [ReportedFinding.of_json(each) for controller in observed.controllers for each in controller.findings]
    }
    of_log = [*later_findings(later_seen(observed, before.phase)), *before_later(observed, before.phase)]
    found["log"] = [ReportedFinding.of(each) for each in of_log]
    if before.check is not None:
        faults = list(before.check["file_faults"].values())
        said = before.check["findings"] if PHASES[before.phase].before_takeover else ()
        found["check"] = [ReportedFinding.of_json(each) for each in [*said, *faults]]
    return found
