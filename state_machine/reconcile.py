"""The loop: look at every migration, write down what happened, do what was wished, do what the phase wants.

In:   the store, an observer, and what acts; a call of `wake` from any thread when a wish was recorded.
Out:  rows. What the cluster says beats what the rows say: every round begins by looking.
Elsewhere: looking (observe.py), rows from a driver's history (driver_history.py), wishes (wishes.py), acts (acts.py).
Rules: one round at a time for each migration. Expected trouble becomes the reason why a migration waits; anything
else ends the loop, and with it the service.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container
from typing import Final

import msgspec
import structlog

from migrator.errors import CLUSTER_DISAGREES, FindingError, Occurrence
from state_machine import audit_rows
from state_machine.acts import Acts
from state_machine.driver_history import catch_up
from state_machine.evidence import evidence
from state_machine.inspections import Inspections
from state_machine.looks import Look, Outcome, Told, record_look, record_outcome
from state_machine.observe import ClusterObserver, ControllerSeen, Observation
from state_machine.phases import WINDOW, Phase
from state_machine.store import Snapshot, Store
from state_machine.wishes import Wishes

log = structlog.get_logger()

WINDOW_PAUSE_S: Final = 0.1
"""While the cluster has no controller, somebody watches."""
RESTING_PAUSE_S: Final = 5.0
NOT_OURS: Final = "what answers here was started after this migration was over"


class Reconciler:
    """pause_s: between two rounds of a migration in an ordinary phase."""

    def __init__(
        self,
        store: Store,
        observer: ClusterObserver,
        wishes: Wishes,
        acts: Acts,
        inspections: Inspections,
        *,
        pause_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._observer = observer
        self._wishes = wishes
        self._acts = acts
        self._inspections = inspections
        self._pause_s = pause_s
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._next: dict[int, float] = {}
        self.last_round_at: float | None = None

    def wake(self) -> None:
        """Begin the next round now; from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

    async def run(self) -> None:
        """For ever; audits that an earlier life of the service left unfinished have no result."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(audit_rows.stop_interrupted, self._store)
        while True:
            woken = self._woken.is_set()
            self._woken.clear()
            await self.round(everything=woken)
            try:
                async with asyncio.timeout(self._until_next()):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def round(self, *, everything: bool = True) -> None:
        """One round of every migration whose time has come, or of all."""
        now = time.monotonic()
        rows = await asyncio.to_thread(self._store.migrations)
        due = [row.id for row in rows if everything or self._next.get(row.id, 0.0) <= now]
        await asyncio.gather(*(self.step(migration_id) for migration_id in due))
        self._inspections.reap()
        self.last_round_at = self._clock()

    def _until_next(self) -> float:
        """Seconds until some migration is due."""
        now = time.monotonic()
        return max(0.0, min(self._next.values(), default=now + self._pause_s) - now)

    async def step(self, migration_id: int) -> None:
        """One round of one migration."""
        try:
            outcome = await self._step(migration_id)
        except FindingError as error:
            log.warning("round.failed", migration=migration_id, reason=str(error))
            outcome = Outcome(f"waiting: {error}", (error.occurrence,))
        await asyncio.to_thread(record_outcome, self._store, migration_id, outcome, at=self._clock())
        phase = (await asyncio.to_thread(self._store.snapshot, migration_id)).phase
        self._next[migration_id] = time.monotonic() + self._pause(phase)

    async def _step(self, migration_id: int) -> Outcome:
        snapshot, disagrees = await self._look(migration_id)
        for number in [wish.id for wish in snapshot.wishes]:
            wish = next((each for each in snapshot.wishes if each.id == number), None)
            if wish is not None:  # else it was withdrawn meanwhile
                await self._wishes.settle(snapshot, wish, evidence(snapshot, self._clock()))
                snapshot = await asyncio.to_thread(self._store.snapshot, migration_id)
        if disagrees is not None and disagrees.code == CLUSTER_DISAGREES.code:
            return Outcome(f"blocked: {disagrees.text}", (disagrees,))
        return await self._acts.act(snapshot, evidence(snapshot, self._clock()))

    async def _look(self, migration_id: int) -> tuple[Snapshot, Occurrence | None]:
        """Observe, keep it, and write down every step that the drivers took."""
        before = await asyncio.to_thread(self._store.snapshot, migration_id)
        seen = await self._observer.look(before.inventory, before.observation)
        if before.phase is Phase.ROLLED_BACK:
            seen = without_strangers(seen, before.cursors)
        return await asyncio.to_thread(self._keep, before, seen)

    def _keep(self, before: Snapshot, seen: Observation) -> tuple[Snapshot, Occurrence | None]:
        record_look(self._store, before.id, Look(seen, told(before, seen)))
        snapshot = self._store.snapshot(before.id)
        written, disagrees = catch_up(self._store, snapshot, evidence(snapshot, self._clock()), now=self._clock())
        return (self._store.snapshot(before.id) if written else snapshot), disagrees

    def _pause(self, phase: Phase) -> float:
        if phase in (*WINDOW, Phase.ABORTING, Phase.ROLLING_BACK):
            return min(self._pause_s, WINDOW_PAUSE_S)
        return RESTING_PAUSE_S if phase is Phase.ROLLED_BACK else self._pause_s


def without_strangers(seen: Observation, runs: Container[str]) -> Observation:
    """Once a migration is over, what answers at its addresses may belong to the next one: only its own runs count."""

    def own(each: ControllerSeen) -> ControllerSeen:
        known = each.status is None or str(each.status["run"]) in runs
        return each if known else ControllerSeen(each.node_id, problem=NOT_OURS)

    return msgspec.structs.replace(seen, controllers=tuple(map(own, seen.controllers)))


def told(snapshot: Snapshot, seen: Observation) -> dict[str, list[Told]]:
    """Findings that the drivers and the last check name."""
    found = {"driver": [Told.of_json(each) for controller in seen.controllers for each in controller.findings]}
    if snapshot.check is not None:
        faults = list(snapshot.check["file_faults"].values())
        found["check"] = [Told.of_json(each) for each in [*snapshot.check["findings"], *faults]]
    return found
