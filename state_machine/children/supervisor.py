"""Keep controllers running, or stop them: one look at a time, never twice the same one.

In:   a snapshot: who answers, and which process was started for each controller.
Out:  processes started or told to stop; None when every controller answers, else why not yet.
Elsewhere: in which phases they have to run (work/acts.py), the processes themselves (processes.py).
A controller that answers is adopted, whoever started it. One that ended is started again, later each time; after
QUICK_ENDS_MAX ends in a row a person has to look at it. One that died between the mark of a rollback and its last
step is started for that step alone, after which it ends by itself: again and again, while the claim stands.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Final

import structlog

from migrator.findings.driver import LOG_RETIRED
from migrator.findings.finding import Occurrence
from migrator.findings.service import (
    CONTROLLER_DOES_NOT_STAY,
    CONTROLLER_NOT_REACHED,
    CONTROLLER_SILENT,
    PROCESS_NOT_KNOWN,
    STARTED_ELSEWHERE,
    STOPPED_ELSEWHERE,
)
from state_machine.children.processes import Launcher
from state_machine.clusters.bounds import Bounds
from state_machine.clusters.inventory import ControllerEntry, file_faults
from state_machine.policy.gates import Holder
from state_machine.policy.outcome import Blocked, Finished, Outcome, Waiting
from state_machine.policy.phases import driver_may_roll_back
from state_machine.rows.store import Snapshot, Store
from state_machine.rows.tables import ObservedNode

log = structlog.get_logger()

QUICK_END_S: Final = 15.0
"""A controller that ends sooner than this after its start has a cause that the next start will meet again."""
QUICK_ENDS_MAX: Final = 5
FINISH_PAUSE_S: Final = 5.0
"""From one start that finishes a rollback to the next: until then a look shows whether the claim is gone."""
START_PATIENCE_S: Final = 60.0
"""A large log is replayed within seconds; a controller that is silent for longer hangs."""


class Supervisor:
    """Looks after the controllers of every migration."""

    def __init__(
        self,
        store: Store,
        launcher: Launcher,
        bounds: Bounds | None = None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        *,
        starts: bool = True,
    ) -> None:
        """clock: wall time, kept in rows. steady: never goes back; what waiting is measured by.

        starts: False where controllers are units or containers of their own; those on other hosts always are.
        """
        self._starts = starts
        self._steady = steady
        self._first_seen: dict[tuple[int, int, float], tuple[float, float]] = {}
        self._bounds = bounds or Bounds()
        self._store = store
        self._launcher = launcher
        self._clock = clock

    async def keep_running(self, snapshot: Snapshot, *, without: Collection[int] = ()) -> Outcome | None:
        """Start what does not run. without: controllers that stock has replaced; they are left alone."""
        silent = {} if snapshot.observation is None else snapshot.observation.silent()
        waiting: list[Outcome] = []
        for entry in snapshot.inventory.controllers:
            node = snapshot.processes.get(entry.node_id)
            if entry.node_id in without:
                continue
            if entry.node_id in silent:
                waiting.append(await self._see_to(snapshot, entry, node))
            elif node is not None and node.quick_ends and not self._is_young(node):
                await self._record(snapshot, entry, quick_ends=0)
        return next((each for each in waiting if each.problems), waiting[0] if waiting else None)

    async def stop_all(self, snapshot: Snapshot) -> Outcome:
        """Tell every controller that runs to stop; it may take a few looks until none does."""
        looked_at = () if snapshot.observation is None else snapshot.observation.controllers
        answering = {each.node_id: each.pid for each in looked_at}
        elsewhere = [each.node_id for each in looked_at if each.status is not None and each.pid is None]
        stopping: list[int] = []
        unknown: list[int] = []
        for entry in snapshot.inventory.controllers:
            pid = answering.get(entry.node_id) or self._running_pid(snapshot.processes.get(entry.node_id))
            if pid is None:
                continue
            told = self._launcher.ask_to_stop(pid, entry)
            (stopping if told else unknown).append(entry.node_id)
        unreached = {} if snapshot.observation is None else snapshot.observation.unreached()
        for node_id, reason in unreached.items():
            problem = CONTROLLER_NOT_REACHED.found(node=node_id, reason=reason)
            return Waiting(f"{problem.text}", (problem,))
        if elsewhere:
            problem = STOPPED_ELSEWHERE.found(nodes=elsewhere)
            return Waiting(f"{problem.text}", (problem,))
        if unknown:
            problem = PROCESS_NOT_KNOWN.found(nodes=unknown)
            return Blocked(f"{problem.text}", (problem,))
        if stopping:
            return Waiting(f"controllers {stopping} are stopping")
        return Finished("none of our controllers runs")

    async def _see_to(self, snapshot: Snapshot, entry: ControllerEntry, node: ObservedNode | None) -> Outcome:
        """A controller that does not answer: starting, hanging, ended, or never started."""
        faults = await asyncio.to_thread(file_faults, snapshot.inventory, self._bounds.outside(snapshot.inventory))
        fault = faults.get(entry.node_id)
        finishes = _has_to_finish(snapshot, fault)
        if self._running_pid(node) is not None:
            assert node is not None
            return self._starting(entry, node, "finishes the rollback" if finishes else "is starting")
        if (not self._starts or entry.is_remote) and (finishes or fault is None):
            look = snapshot.observation
            silent, unreached = ({}, {}) if look is None else (look.silent(), look.unreached())
            finding = CONTROLLER_NOT_REACHED if entry.node_id in unreached else STARTED_ELSEWHERE
            elsewhere = finding.found(node=entry.node_id, reason=silent.get(entry.node_id, "nobody has looked yet"))
            return Waiting(f"{elsewhere.text}", (elsewhere,))
        if finishes:
            return await self._finish(snapshot, entry, node)
        quick_ends = 0 if node is None else node.quick_ends
        if node is not None and node.pid is not None:
            quick_ends = quick_ends + 1 if self._is_young(node) else 0
            await self._record(snapshot, entry, pid=None, quick_ends=quick_ends)
        if node is not None and quick_ends >= QUICK_ENDS_MAX:
            problem = CONTROLLER_DOES_NOT_STAY.found(
                node=entry.node_id, times=quick_ends, words=self._words(node), log=node.log
            )
            return Blocked(f"{problem.text}", (problem,))
        if node is not None and quick_ends and self._age(node) < 2.0**quick_ends:
            return Waiting(f"controller {entry.node_id} ended ({self._words(node)}) and is started again soon")
        if fault is not None:
            return Blocked(f"controller {entry.node_id} is not started: {fault.code} {fault.text}", (fault,))
        await self._launch(snapshot, entry, quick_ends)
        return Waiting(f"controller {entry.node_id} is starting (0 s)")

    async def _finish(self, snapshot: Snapshot, entry: ControllerEntry, node: ObservedNode | None) -> Outcome:
        """The end of such a process is what was wanted, so none is counted."""
        if node is not None and self._age(node) < FINISH_PAUSE_S:
            return Waiting(
                f"controller {entry.node_id} went to finish the rollback and ended ({self._words(node)}); it "
                "is started again if the claim still stands"
            )
        await self._launch(snapshot, entry, quick_ends=0)
        return Waiting(f"controller {entry.node_id} finishes the rollback (0 s)")

    def _starting(self, entry: ControllerEntry, node: ObservedNode, does: str) -> Outcome:
        age = self._age(node)
        if age < START_PATIENCE_S:
            return Waiting(f"controller {entry.node_id} {does} ({age:.0f} s)")
        problem = CONTROLLER_SILENT.found(node=entry.node_id, reason=f"process {node.pid} runs; its log is {node.log}")
        return Blocked(f"{problem.text}", (problem,))

    async def _launch(self, snapshot: Snapshot, entry: ControllerEntry, quick_ends: int) -> None:
        launched = self._launcher.launch(snapshot.migration.name, entry)
        started_at = self._clock()
        self._first_seen[snapshot.id, entry.node_id, started_at] = (self._steady(), 0.0)
        log.info("controller.launched", node=entry.node_id, pid=launched.pid, log=launched.log)
        await self._record(
            snapshot,
            entry,
            pid=launched.pid,
            process_mark=launched.mark,
            started_at=started_at,
            quick_ends=quick_ends,
            log=launched.log,
        )

    async def _record(self, snapshot: Snapshot, entry: ControllerEntry, **columns: object) -> None:
        await self._store.away(self._store.record_process, snapshot.id, entry.node_id, **columns)

    def _running_pid(self, node: ObservedNode | None) -> int | None:
        """The process that was started for it, if that one still runs."""
        if node is None or node.pid is None:
            return None
        return node.pid if self._launcher.runs(node.pid, node.process_mark or "") else None

    def _is_young(self, node: ObservedNode) -> bool:
        return self._age(node) < QUICK_END_S

    def _age(self, node: ObservedNode) -> float:
        """Seconds since its process was started, by the steady clock from when this service saw it first.

        Only a start before this life of the service is judged by wall time, and never by one that went back.
        """
        started = node.started_at or 0.0
        key = (node.migration_id, node.node_id, started)
        if key not in self._first_seen:
            self._first_seen = {known: at for known, at in self._first_seen.items() if known[:2] != key[:2]}
            self._first_seen[key] = (self._steady(), max(self._clock() - started, 0.0))
        seen_at, age_then = self._first_seen[key]
        return age_then + self._steady() - seen_at

    def _words(self, node: ObservedNode) -> str:
        return "no log" if node.log is None else self._launcher.words(node.log)


def _has_to_finish(snapshot: Snapshot, fault: Occurrence | None) -> bool:
    """Its log is rolled back and the claim still stands: a start deletes it, and does nothing else."""
    look = snapshot.observation
    stands = look is not None and look.zookeeper.holder is Holder.OURS
    return fault is not None and fault.code == LOG_RETIRED.code and stands and driver_may_roll_back(snapshot.phase)
