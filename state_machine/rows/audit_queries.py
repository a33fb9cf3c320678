"""Which audits count for a migration now: the last ones of a purpose, and those of dual-write.

In:   a session and the migration's row. Out: rows.
Elsewhere: writing them (audit_rows.py), what they mean (evidence.py, audit_schedule.py).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import Float, Integer, String, bindparam, select
from sqlalchemy.orm import Session

from state_machine.policy.phase_table import phases_where
from state_machine.policy.phases import Phase
from state_machine.rows.tables import AuditRun, Migration, PhaseEvent

_AUDITED: Final = phases_where(lambda row: row.audited)
LAST_AUDITS: Final = 10
CONFIRMATION: Final = "confirmation"
"""Purpose of a Spark audit of a rehearsal that the quick engine has judged already."""
SCHEDULE: Final = "schedule"
"""Purpose of an audit that the service began by itself in dual-write."""


# Written once: every round asks, and to build a statement takes SQLAlchemy as long as to run it.
_MIGRATION: Final = bindparam("migration", type_=Integer)
_LAST_FINISHED: Final = (
    select(AuditRun)
    .where(
        AuditRun.migration_id == _MIGRATION,
        AuditRun.purpose.in_(bindparam("purposes", expanding=True, type_=String)),
        AuditRun.finished_at.is_not(None),
    )
    .order_by(AuditRun.finished_at.desc())
    .limit(1)
)
_OF_DUAL_WRITE: Final = (
    (AuditRun.migration_id == _MIGRATION)
    & AuditRun.finished_at.is_not(None)
    & (
        (AuditRun.purpose == SCHEDULE)
        | ((AuditRun.purpose == "demand") & (AuditRun.asked_at >= bindparam("since", type_=Float)))
    )
)
"""Finished audits of dual-write: the schedule's, and those a person asked for since it began."""
_LAST_OF_DUAL_WRITE: Final = select(AuditRun).where(_OF_DUAL_WRITE).order_by(AuditRun.id.desc()).limit(LAST_AUDITS)
_LAST_PASSED: Final = (
    select(AuditRun.finished_at)
    .where(_OF_DUAL_WRITE, AuditRun.state == "done", AuditRun.same.is_(True))
    .order_by(AuditRun.id.desc())
    .limit(1)
)


_LAST_BROKERS_PASSED: Final = (
    select(AuditRun.id, AuditRun.asked_at, AuditRun.finished_at)
    .where(_OF_DUAL_WRITE, AuditRun.brokers_passed.is_(True))
    .order_by(AuditRun.id.desc())
    .limit(1)
)


class BrokersPassed(NamedTuple):
    """The last audit in which every broker was asked and said what the log says. Times by the wall clock."""

    id: int
    asked_at: float
    finished_at: float


def last_finished(session: Session, migration_id: int, *purposes: str) -> AuditRun | None:
    return session.scalar(_LAST_FINISHED, {"migration": migration_id, "purposes": purposes})


def dual_write_audits(session: Session, row: Migration) -> tuple[AuditRun, ...]:
    """The audits of dual-write, ordered by number: a clock that goes back must not make an old one the newest."""
    if row.phase not in _AUDITED:
        return ()
    return tuple(session.scalars(_LAST_OF_DUAL_WRITE, {"migration": row.id, "since": _since(session, row)}))


def audit_passed_at(session: Session, row: Migration) -> float | None:
    """An audit that read nothing wrong and left nothing out has `same` set."""
    if row.phase not in _AUDITED:
        return None
    return session.scalar(_LAST_PASSED, {"migration": row.id, "since": _since(session, row)})


def brokers_passed(session: Session, row: Migration) -> BrokersPassed | None:
    if row.phase not in _AUDITED:
        return None
    found = session.execute(_LAST_BROKERS_PASSED, {"migration": row.id, "since": _since(session, row)}).first()
    return None if found is None else BrokersPassed(found.id, found.asked_at, found.finished_at or found.asked_at)


def _since(session: Session, row: Migration) -> float:
    """Since when demanded audits count: this phase, or the soak while FINALIZING may still wait for its first stop."""
    if row.phase != Phase.FINALIZING:
        return row.since
    soaked = (PhaseEvent.migration_id == row.id, PhaseEvent.to_phase == Phase.SOAK)
    began = session.scalar(select(PhaseEvent.at).where(*soaked).order_by(PhaseEvent.version.desc()).limit(1))
    return row.since if began is None else began
