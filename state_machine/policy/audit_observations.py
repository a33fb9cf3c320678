"""What the audits of dual-write say together, and the checks that gates make of it.

In:   nothing. Out: values, and `Condition`s.
Elsewhere: how they are put together from rows, and when the next one is due (audit_schedule.py).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from migrator.findings.service import AUDIT_OVERDUE, AUDITS_DIVERGED
from migrator.model.verdict import Condition

PASSED: Final = "passed"
DIVERGED: Final = "diverged"
INCOMPLETE: Final = "incomplete"
"""Results of an audit; incomplete: no difference, but not everything was read, or it has no result."""
LATE_INTERVALS: Final = 2
"""So many intervals without a pass are a finding."""


@dataclass(frozen=True, slots=True)
class AuditObservation:
    """One finished audit of dual-write. result: passed, diverged or incomplete."""

    id: int
    result: str
    different: int
    age_s: float
    said: str


@dataclass(frozen=True, slots=True)
class BrokersAudit:
    """What brokers said in one finished audit, beside the log.

    result: passed, diverged or incomplete, of the brokers that answered. silent: those that did not. left_out: those
    that the service was restarting. age_s: since it ended; asked_s: since it was requested.
    """

    id: int
    result: str
    silent: tuple[int, ...]
    left_out: tuple[int, ...]
    age_s: float
    asked_s: float
    said: str

    @property
    def missing(self) -> tuple[int, ...]:
        return (*self.silent, *self.left_out)

    def is_well(self, accepted: Container[int] = ()) -> bool:
        """Nothing is wrong with brokers. accepted: those that need not answer."""
        return self.result == PASSED and all(each in accepted for each in self.silent)


@dataclass(frozen=True, slots=True)
class ScheduledAudits:
    """What the audits of dual-write say together.

    every_s:  the interval; 0: they are off. next_s: seconds until the next one, at or below 0 when it is due.
    diverged: the last two that compared everything, newest first, when both diverged; else empty.
    passed_s: since the last pass, None when none passed yet.
    overdue_since: the last pass, or the begin of dual-write, when that is two intervals ago; else None.
    brokers:     of the last audits those that asked brokers, newest first. since: when dual-write began.
    restarted_s: since the service last led a restart; None: it led none.
    """

    every_s: float
    next_s: float | None = None
    last: AuditObservation | None = None
    diverged: tuple[int, ...] = ()
    passed_s: float | None = None
    overdue_since: float | None = None
    brokers: tuple[BrokersAudit, ...] = ()
    since: float = 0.0
    restarted_s: float | None = None

    @property
    def limit_s(self) -> float:
        """So old may the last pass be."""
        return LATE_INTERVALS * self.every_s

    @property
    def brokers_diverged(self) -> tuple[BrokersAudit, ...]:
        """The last two, newest first, when brokers contradicted the log in both; else empty."""
        compared = [each for each in self.brokers if each.result != INCOMPLETE][:2]
        return tuple(compared) if [each.result for each in compared] == [DIVERGED, DIVERGED] else ()

    def brokers_passed(self, accepted: Container[int] = ()) -> BrokersAudit | None:
        """The last one in which every broker said what the log says. accepted: those that need not answer."""
        whole = (each for each in self.brokers if all(broker in accepted for broker in each.left_out))
        return next((each for each in whole if each.is_well(accepted)), None)

    def why_no_brokers(self, passed: BrokersAudit | None) -> str:
        """Why this pass of brokers does not count now; empty: it does."""
        if passed is None:
            return "no audit has compared every broker yet"
        if passed.age_s > self.limit_s:
            return f"audit {passed.id}, the last one in which all of them passed, ended {passed.age_s:.0f} s ago"
        if self.restarted_s is not None and passed.asked_s > self.restarted_s:
            return f"the last restart was {self.restarted_s:.0f} s ago, audit {passed.id} {passed.asked_s:.0f} s ago"
        return ""


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
