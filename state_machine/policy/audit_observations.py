"""What the audits of dual-write say together, and the checks that gates make of it.

In:   nothing. Out: values, and `Condition`s.
Elsewhere: how they are put together from rows, and when the next one is due (audit_schedule.py).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from migrator.findings.service import AUDIT_OVERDUE, AUDITS_DIVERGED, BROKERS_DIVERGED, BROKERS_NOT_COMPARED
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


LEFT_OUT: Final = "left out"
"""Of a broker that the service was restarting; the others are results."""


@dataclass(frozen=True, slots=True)
class BrokerSaid:
    """Of one broker in one audit. result: passed, diverged, incomplete (silent, or it did not tell all) or left out."""

    broker: int
    result: str

    @property
    def code(self) -> str:
        """Of the finding whose waiver accepts it."""
        return BROKERS_DIVERGED.code if self.result == DIVERGED else BROKERS_NOT_COMPARED.code


Accepted = Container[tuple[str, int]]
"""Codes of findings with the brokers for which somebody accepted them."""


@dataclass(frozen=True, slots=True)
class BrokersAudit:
    """What brokers said in one finished audit, beside the log. brokers: none where no broker could be read.

    age_s: since it ended; asked_s: since it was requested. said: in words.
    """

    id: int
    brokers: tuple[BrokerSaid, ...]
    age_s: float
    asked_s: float
    said: str

    def against(self, accepted: Accepted = ()) -> tuple[BrokerSaid, ...]:
        """Those that did not say what the log says."""
        return tuple(
            each for each in self.brokers if each.result != PASSED and (each.code, each.broker) not in accepted
        )

    def is_well(self, accepted: Accepted = (), *, left_out_too: bool = False) -> bool:
        """Every broker said what the log says. left_out_too: but those that were being restarted."""
        left = [each for each in self.against(accepted) if not (left_out_too and each.result == LEFT_OUT)]
        return bool(self.brokers) and not left


@dataclass(frozen=True, slots=True)
class ScheduledAudits:
    """What the audits of dual-write say together.

    every_s:  the interval; 0: they are off. next_s: seconds until the next one, at or below 0 when it is due.
    diverged: the last two that compared everything, newest first, when both diverged; else empty.
    passed_s: since the last pass, None when none passed yet.
    overdue_since: the last pass, or the begin of dual-write, when that is two intervals ago; else None.
    brokers:     of the last audits those that asked brokers, newest first. brokers_passed: the last one of all in which
                 every broker said what the log says.
    restarted_s: since the service last led a restart; None: it led none.
    """

    every_s: float
    next_s: float | None = None
    last: AuditObservation | None = None
    diverged: tuple[int, ...] = ()
    passed_s: float | None = None
    overdue_since: float | None = None
    brokers: tuple[BrokersAudit, ...] = ()
    brokers_passed: BrokersAudit | None = None
    restarted_s: float | None = None

    @property
    def limit_s(self) -> float:
        """So old may the last pass be."""
        return LATE_INTERVALS * self.every_s

    def brokers_diverged(self, accepted: Accepted = ()) -> tuple[BrokersAudit, ...]:
        """The last two that read brokers, newest first, when some contradicted the log in both; else empty."""
        last = [each for each in self.brokers if each.brokers][:2]
        both = [any(said.result == DIVERGED for said in each.against(accepted)) for each in last]
        return tuple(last) if both == [True, True] else ()

    def brokers_well(self, accepted: Accepted = (), *, left_out_too: bool = False) -> BrokersAudit | None:
        """The last one that is."""
        found = (each for each in self.brokers if each.is_well(accepted, left_out_too=left_out_too))
        return next(found, self.brokers_passed)


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
