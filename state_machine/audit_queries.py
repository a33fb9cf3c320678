"""Which audits count for a migration now: the last ones of a purpose, and those of dual-write.

In:   a session and the migration's row. Out: rows.
Elsewhere: writing them (audit_rows.py), what they mean (evidence.py, audit_schedule.py).
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from state_machine.policy.phases import AUDITED
from state_machine.tables import AuditRun, Migration

LAST_AUDITS: Final = 10
CONFIRMATION: Final = "confirmation"
"""Purpose of a Spark audit of a rehearsal that the quick engine has judged already."""
SCHEDULE: Final = "schedule"
"""Purpose of an audit that the service began by itself in dual-write."""


def last_finished(session: Session, migration_id: int, *purposes: str) -> AuditRun | None:
    query = (
        select(AuditRun)
        .where(AuditRun.migration_id == migration_id, AuditRun.purpose.in_(purposes), AuditRun.finished_at.is_not(None))
        .order_by(AuditRun.finished_at.desc())
        .limit(1)
    )
    return session.scalar(query)


def _of_dual_write(row: Migration) -> ColumnElement[bool]:
    """Finished audits of dual-write: the schedule's, and those a person asked for since it began."""
    asked_here = (AuditRun.purpose == "demand") & (AuditRun.asked_at >= row.since)
    return (
        (AuditRun.migration_id == row.id)
        & AuditRun.finished_at.is_not(None)
        & ((AuditRun.purpose == SCHEDULE) | asked_here)
    )


def dual_write_audits(session: Session, row: Migration) -> tuple[AuditRun, ...]:
    """By number: a clock that goes back must not make an old one the newest."""
    query = select(AuditRun).where(_of_dual_write(row)).order_by(AuditRun.id.desc()).limit(LAST_AUDITS)
    return tuple(session.scalars(query)) if row.phase in AUDITED else ()


def audit_passed_at(session: Session, row: Migration) -> float | None:
    """An audit that read nothing wrong and left nothing out has `same` set."""
    if row.phase not in AUDITED:
        return None
    query = select(AuditRun.finished_at).where(_of_dual_write(row), AuditRun.state == "done", AuditRun.same.is_(True))
    return session.scalar(query.order_by(AuditRun.id.desc()).limit(1))
