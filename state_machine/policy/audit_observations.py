"""What the audits of dual-write say together, and the checks that gates make of it.

In:   nothing. Out: values, and `Condition`s.
Elsewhere: how they are put together from rows, and when the next one is due (audit_schedule.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from migrator.findings.service import AUDIT_OVERDUE, AUDITS_DIVERGED
from migrator.model.verdict import Condition

PASSED: Final = "passed"
DIVERGED: Final = "diverged"
INCOMPLETE: Final = "incomplete"
"""Results of an audit; incomplete: no difference, but not everything was read, or it has no result."""


@dataclass(frozen=True, slots=True)
class AuditObservation:
    """One finished audit of dual-write. result: passed, diverged or incomplete."""

    id: int
    result: str
    different: int
    age_s: float
    said: str


@dataclass(frozen=True, slots=True)
class ScheduledAudits:
    """What the audits of dual-write say together.

    every_s:  the interval; 0: they are off. next_s: seconds until the next one, at or below 0 when it is due.
    diverged: the last two that compared everything, newest first, when both diverged; else empty.
    passed_s: since the last pass, None when none passed yet.
    overdue_since: the last pass, or the begin of dual-write, when that is two intervals ago; else None.
    """

    every_s: float
    next_s: float | None = None
    last: AuditObservation | None = None
    diverged: tuple[int, ...] = ()
    passed_s: float | None = None
    overdue_since: float | None = None


def schedule_checks(audits: ScheduledAudits | None) -> tuple[Condition, ...]:
    if audits is None or not audits.every_s:
        return (Condition("audits run by a schedule", False, "off: `audit_every_s` is 0", (AUDIT_OVERDUE.code,)),)
    passed = "none passed yet" if audits.passed_s is None else f"the last one passed {audits.passed_s:.0f} s ago"
    on_time = audits.passed_s is not None and audits.overdue_since is None
    return (
        Condition("no two audits in a row diverged", not audits.diverged, last_audit(audits), (AUDITS_DIVERGED.code,)),
        Condition(
            f"an audit passed in the last two intervals of {audits.every_s:g} s", on_time, passed, (AUDIT_OVERDUE.code,)
        ),
    )


def last_audit(audits: ScheduledAudits | None) -> str:
    if audits is None or audits.last is None:
        return "none has finished yet"
    return f"{audits.last.said} ({audits.last.age_s:.0f} s ago)"
