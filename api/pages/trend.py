"""How the counts of each family went, from audit to audit.

In:   the last finished audits, oldest first. Out: a row for each family, with heights to draw.
Elsewhere: the counts themselves (api.models), the drawing (templates/audits.html).
Rules: an audit without a family, as one of another release, has a gap there, never a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from api.models import AuditView, FamilyView

HEIGHT: Final = 24.0
"""Of the highest column of a family; every family has a scale of its own."""
LEAST: Final = 2.0
"""One key of a million is still seen."""


class TrendColumn(NamedTuple):
    """One audit of a family. Heights, from the bottom: different, not read, expected."""

    audit: AuditView
    counts: FamilyView | None
    different: float
    not_read: float
    expected: float


class FamilyTrend(NamedTuple):
    """A family over all audits. most: keys in its highest column."""

    family: str
    columns: list[TrendColumn]
    most: int


def trends(audits: Sequence[AuditView]) -> list[FamilyTrend]:
    """One row for each family of any of the audits, in the order of the newest."""
    names = dict.fromkeys(each.family for audit in reversed(audits) for each in audit.families)
    return [_trend(name, audits) for name in names]


def _trend(name: str, audits: Sequence[AuditView]) -> FamilyTrend:
    found = [(audit, next((each for each in audit.families if each.family == name), None)) for audit in audits]
    most = max(each.different + each.not_read + each.expected if each else 0 for _, each in found)
    return FamilyTrend(name, [_column(audit, each, most) for audit, each in found], most)


def _column(audit: AuditView, counts: FamilyView | None, most: int) -> TrendColumn:
    if counts is None:
        return TrendColumn(audit, None, 0.0, 0.0, 0.0)
    keys = counts.different, counts.not_read, counts.expected
    return TrendColumn(audit, counts, *(max(LEAST, round(HEIGHT * each / most, 1)) if each else 0.0 for each in keys))
