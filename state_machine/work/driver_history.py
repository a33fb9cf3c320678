"""Turn a driver's history into rows: one per transition, with the driver's own time, whatever was missed or repeated.

In:   an observation, in which every controller tells the last moves of its driver, numbered within its run.
Out:  phase events, written one after the other; the cursor of each run says how far that went.
Elsewhere: writing one step (transition.py), asking a driver for something (operations.py).
The driver goes from the claim to dual-write in a fraction of a second, so polling cannot see each state; its history
can. What is missing even there (a run ended unseen) is walked along the shortest way of the table.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from migrator.control_api.states import COMMITTED_NOT_ENTERED, State
from migrator.findings.finding import Occurrence
from migrator.findings.service import CLUSTER_DISAGREES
from state_machine.clusters.observe import Observation
from state_machine.policy.gates import Evidence
from state_machine.policy.phase_table import PHASES, PhaseStage
from state_machine.policy.phases import Phase, Trigger, way
from state_machine.rows.store import Snapshot, Store
from state_machine.rows.tables import Operation, PhaseEvent
from state_machine.rows.transition import GateClosed, PhaseStep, StepSource, take


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One move of a driver. at: wall time in seconds, by the controller's clock."""

    run: str
    number: int
    at: float
    state: str
    reason: str


ASKED_BY: Final = {
    Trigger.TAKEOVER_BEGAN: Trigger.ADVANCE,
    Trigger.WINDOW_FAILED: Trigger.ABORT,
    Trigger.ROLLBACK_BEGAN: Trigger.ROLL_BACK,
}
"""Whose operation a driver's step fulfils."""

_ON_THE_WAY: Final = (*COMMITTED_NOT_ENTERED, State.RESUMING)
"""After the copy these belong to AUDIT until dual-write was entered; later they are repairs inside dual-write."""


def meaning(phase: Phase, state: str) -> Phase:
    """The phase of a migration in `phase` once its driver is in `state`; the same one when that changes nothing."""
    row = PHASES[phase]
    taking_over = row.stage is PhaseStage.TAKEOVER
    early = taking_over or row.stage is PhaseStage.STARTED
    match state:
        case State.TAKING_OVER:
            return Phase.TAKEOVER
        case State.COPYING:
            return Phase.COPY
        case State.AUDITING:
            return Phase.AUDIT
        case State.DUAL_WRITE:
            return phase if row.reads_log else Phase.DUAL_WRITE
        case State.ROLLING_BACK | State.ROLLING_BACK_EARLY:
            return Phase.ROLLING_BACK
        case State.RETIRED:
            return Phase.ROLLED_BACK
        case State.ABORTING:
            return Phase.ABORTING if taking_over else phase
        case State.ABORTED:
            return Phase.READY if early else phase
        case State.WAIT_QUORUM | State.WAIT_BROKERS:
            return Phase.READY if taking_over else phase
        case state if state in _ON_THE_WAY:
            return Phase.AUDIT if early else phase
        case _:
            return phase  # IDLE, FENCED, DONE, and what a later release may add


def unread(observation: Observation, cursors: Mapping[str, int]) -> list[HistoryEntry]:
    """Entries after the cursor of their run: each run in its own order, runs by the controllers' clocks."""
    runs = []
    for observed in observation.controllers:
        if observed.status is None or observed.driver is None:
            continue
        run = observed.status.run
        after = cursors.get(run, 0)
        moves = sorted(observed.driver.history, key=lambda move: move.number)
        runs.append(
            [HistoryEntry(run, each.number, each.at, each.to, each.reason) for each in moves if each.number > after]
        )
    return list(heapq.merge(*runs, key=lambda entry: entry.at))


def catch_up(
    store: Store, snapshot: Snapshot, evidence: Evidence, *, now: float
) -> tuple[list[PhaseEvent], Occurrence | None]:
    """Write down every step that the drivers took and that is not written yet.

    Returns the new events, and why an entry had to be left for later (it is read again at the next look).
    """
    if snapshot.observation is None:
        return [], None
    written: list[PhaseEvent] = []
    phase, version = snapshot.phase, snapshot.migration.version
    entries = unread(snapshot.observation, snapshot.cursors)
    for position, entry in enumerate(entries):
        # a rollback that the service leads ends when every broker has its file again, whatever the driver did before
        triggers = () if snapshot.led_back else way(phase, meaning(phase, entry.state))
        if triggers is None and phase is not Phase.ROLLING_BACK:  # there the undo deals with whatever the driver does
            return written, CLUSTER_DISAGREES.found(state=entry.state, phase=phase, reason=entry.reason)
        try:
            for step in _steps(entry, triggers or (), snapshot.operations):
                at_that_time = replace(evidence, driver_state=entry.state, driver_reason=entry.reason)
                event = take(store, snapshot.id, step, expected_version=version, evidence=at_that_time, now=now)
                written.append(event)
                phase, version = Phase(event.to_phase), event.version
        except GateClosed as closed:
            if not _leaves_dual_write(entries[position + 1 :]):
                return written, closed.occurrence
        if not triggers:
            store.set_cursor(snapshot.id, entry.run, entry.number)
    return written, None


def _steps(entry: HistoryEntry, triggers: Sequence[Trigger], operations: Sequence[Operation]) -> list[PhaseStep]:
    """Mostly one; several when what lay between was not seen."""
    steps = []
    for trigger in triggers:
        operation = _fulfilled(trigger, operations)
        last = trigger is triggers[-1]
        asked = f"{operation.reason}; " if operation is not None and operation.reason else ""
        steps.append(
            PhaseStep(
                trigger=trigger,
                source=StepSource(entry.run, entry.number, ends_entry=last),
                at=entry.at,
                who="driver" if operation is None else operation.who,
                reason=asked + (entry.reason if last else f"not seen at its time; later: {entry.reason}"),
                operation_id=None if operation is None else operation.id,
            )
        )
    return steps


def _fulfilled(trigger: Trigger, operations: Sequence[Operation]) -> Operation | None:
    return next(
        (
            operation
            for operation in operations
            if operation.state == "accepted" and operation.name == ASKED_BY.get(trigger)
        ),
        None,
    )


def _leaves_dual_write(later: Sequence[HistoryEntry]) -> bool:
    """Whether the driver went on to where the gate of dual-write does not matter any more."""
    return any(entry.state in (State.ROLLING_BACK, State.ROLLING_BACK_EARLY, State.RETIRED) for entry in later)
