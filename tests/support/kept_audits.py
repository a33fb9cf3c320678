"""Reports of audits, and their directories as `--out` leaves them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from migrator.audit.compare import AuditReport, BrokersSide, Difference, DifferenceKind, KeyOutcome, no_counts
from migrator.audit.history.kept_runs import REPORT_FILE

CLUSTER_ID = "a-cluster-of-the-tests"
EQUAL = 10
"""Keys of each family that are equal."""


def a_report(
    differences: Iterable[Difference] = (),
    expected: Iterable[Difference] = (),
    *,
    engine: str = "spark",
    brokers: BrokersSide | None = None,
    left_off: dict[str, int] | None = None,
    cluster_id: str = CLUSTER_ID,
    ended_at: float = 0.0,
    equal: int = EQUAL,
) -> AuditReport:
    """A report with the counts that its differences have: one key for each."""
    counts = no_counts()
    for count in counts.values():
        count.count(KeyOutcome.EQUAL, equal)
    for each in differences:
        unread = each.kind == DifferenceKind.NOT_READ
        counts[each.family].count(KeyOutcome.NOT_READ if unread else KeyOutcome.DIFFERENT)
    for each in expected:
        counts[each.family].count(KeyOutcome.EXPECTED)
    same = not any(each.different or each.not_read for each in counts.values())
    return AuditReport(
        same=same and (brokers is None or brokers.same),
        families=list(counts.values()),
        differences=list(differences),
        expected=list(expected),
        seconds={"read": 0.4, "compare": 0.6, "total": 1.0},
        zk={"connect": "zk:2181", "cluster_id": cluster_id, "controller": 1, "controller_epoch": 7, "dual_write": True},
        kraft={"offset": 120, "epoch": 3},
        engine=engine,
        left_off=left_off or {},
        brokers=brokers,
        ended_at=ended_at,
    )


def keep(directory: Path, report: AuditReport | dict[str, Any]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / REPORT_FILE).write_bytes(msgspec.json.encode(report))
    return directory
