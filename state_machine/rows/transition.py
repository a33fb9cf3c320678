"""The one function that changes the phase of a migration.

In:   a signal, the evidence of this moment, the version that the asker saw, and where the step comes from.
Out:  the history row. It, the new phase and why it is there are written in one transaction, or none of them is.
Elsewhere: the table (phases.py), the gates (gates.py), who sends signals (driver_history.py,
work/operations.py, work/acts.py).
Errors: Z2K-4003 (no such step), `GateClosed` (Z2K-4005 with the verdict), Z2K-4006 (the version moved, or this very
step is written down already). After any of them nothing was written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from sqlalchemy.orm.exc import StaleDataError

from migrator.findings.finding import FindingError
from migrator.findings.service import GATE_CLOSED, VERSION_MOVED
from migrator.model.verdict import Verdict
from state_machine.policy.gates import Evidence
from state_machine.policy.outcome import Moving
from state_machine.policy.phases import PEOPLE, Edge, Phase, Trigger, look_up
from state_machine.rows.store import Store, find_migration, move_cursor
from state_machine.rows.tables import Operation, PhaseEvent

log = structlog.get_logger()

SERVICE = "service"


class GateClosed(FindingError):
    """A step was refused; `verdict` has every condition with what was seen."""

    def __init__(self, operation: str, verdict: Verdict) -> None:
        super().__init__(GATE_CLOSED.found(operation=operation, reason=verdict.reason()))
        self.verdict = verdict


@dataclass(frozen=True, slots=True)
class StepSource:
    """Where a step comes from: an entry of a driver's history, or the service itself at a version.

    ends_entry: this is the last step of the entry, so that the cursor of the run moves with it.
    """

    run: str
    number: int
    ends_entry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStep:
    """at: when it happened; for a driver's step the driver's own time. operation_id: the operation that is settled by
    it.
    """

    trigger: Trigger
    source: StepSource
    at: float
    who: str
    reason: str
    operation_id: int | None = None


def take(
    store: Store,
    migration_id: int,
    step: PhaseStep,
    *,
    expected_version: int,
    evidence: Evidence,
    now: float,
    also: Callable[[Session, int, float], None] | None = None,
) -> PhaseEvent:
    """Take one step; see the head of this module. also: what changes with it, in the same transaction."""
    try:
        with store.writing() as session:
            event = _take(session, migration_id, step, expected_version, evidence, now)
            if also is not None:
                also(session, migration_id, now)
    except (StaleDataError, IntegrityError) as error:
        raise VERSION_MOVED.error(found="another one", expected=expected_version) from error
    log.info("migration.phase", **{"from": event.from_phase, "to": event.to_phase, "actor": event.who})
    return event


def ask_gate(edge: Edge, trigger: Trigger, evidence: Evidence) -> Verdict:
    """The verdict of an open gate. Raises `GateClosed` with that of a closed one."""
    verdict = edge.gate(evidence)
    if not verdict.holds:
        raise GateClosed(f"{PEOPLE.get(trigger, trigger.value)} to {edge.to}", verdict)
    return verdict


def _take(
    session: Session, migration_id: int, step: PhaseStep, expected_version: int, evidence: Evidence, now: float
) -> PhaseEvent:
    row = find_migration(session, migration_id)
    if row.version != expected_version:
        raise VERSION_MOVED.error(found=row.version, expected=expected_version)
    edge = look_up(Phase(row.phase), step.trigger, engine=row.engine)
    assert edge.asks is None, f"{step.trigger} asks the driver; its history will show the step"
    verdict = ask_gate(edge, step.trigger, evidence).as_json()
    operation = None if step.operation_id is None else session.get_one(Operation, step.operation_id)
    if operation is not None:
        verdict = operation.verdict or verdict
        operation.state, operation.ended_at, operation.answer = "succeeded", now, f"{row.phase} to {edge.to}"
    event = PhaseEvent(
        migration_id=migration_id,
        version=row.version + 1,
        from_phase=row.phase,
        to_phase=edge.to,
        trigger=step.trigger,
        who=step.who,
        reason=step.reason,
        at=step.at,
        recorded_at=now,
        source_run=step.source.run,
        source_number=step.source.number,
        operation_id=step.operation_id,
        verdict=verdict,
    )
    session.add(event)
    # a driver's own time may be ahead of this host's: what is made in this phase must not look older than it
    row.phase, row.since, row.version = edge.to, min(step.at, now), row.version + 1
    began = Moving(f"{edge.to}: {step.reason}")  # the reason of the phase before says nothing of this one
    row.waiting, row.outcome = began.words, began.kind
    if step.source.ends_entry:
        move_cursor(session, migration_id, step.source.run, step.source.number)
    return event
