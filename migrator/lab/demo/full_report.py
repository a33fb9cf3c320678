"""The report of `zk2kraft demo --full` and `--rollback-from`, and what in it is not as it must be.

In:   what a demo has collected (full.py, rollback_from.py). Out: a document, and its problems in words.
Elsewhere: the report of the demo without `--full` (report.py).
"""

from __future__ import annotations

from typing import Any

import msgspec

from migrator.lab.demo.report import ClusterFigures, agree
from migrator.lab.demo.run import Options
from migrator.lab.traffic.proof import ReaderReport
from migrator.lab.traffic.status import TrafficStatus


class NodeRestart(msgspec.Struct, frozen=True):
    """seconds: from the order to stop until it was whole."""

    roll: str
    node: int
    seconds: float


class Stage(msgspec.Struct, frozen=True):
    """A stretch of the run as producers saw it."""

    name: str
    seconds: float
    longest_stall_ms: float


class RolledBack(msgspec.Struct, frozen=True):
    """A rollback before the migration of this report. point: from where. seconds: from the order to ROLLED_BACK.

    told: cost and loss, as the service told them before. phases, traffic: of the first migration.
    """

    point: str
    seconds: float
    longest_stall_ms: float
    restarts: list[NodeRestart]
    told: dict[str, Any]
    phases: list[dict[str, Any]]
    traffic: TrafficStatus
    outside_reader: ReaderReport


class FullReport(msgspec.Struct):
    """The document that `--report` names. most_down: nodes that were stopped by us at one time, at most."""

    ok: bool
    problems: list[str]
    shortened: list[str]
    not_verified: list[str]
    versions: dict[str, str]
    machine: dict[str, Any]
    cluster: ClusterFigures
    seconds: float
    phases: list[dict[str, Any]]
    stages: list[Stage]
    restarts: list[NodeRestart]
    most_down: int
    approval: dict[str, Any]
    intent: str
    topic_without_zookeeper_s: float
    later_kafka: str
    later_restarts: list[NodeRestart]
    metadata_version_raised: str
    audits: list[dict[str, Any]]
    audit_page: str
    traffic: TrafficStatus
    outside_reader: ReaderReport
    rolled_back: RolledBack | None = None


def full_problems(report: FullReport, options: Options) -> list[str]:
    """Everything that is not as it must be."""
    found = [f"outside reader: {name}: {', '.join(first)}" for name, first in report.outside_reader.bad.items()]
    if report.traffic.lost:
        found.append(f"{report.traffic.lost} records were given up by the producers")
    if report.traffic.acknowledged < options.acknowledged_least:
        found.append(f"{report.traffic.acknowledged} of {options.acknowledged_least} records were acknowledged")
    if report.most_down > 1:
        found.append(f"{report.most_down} nodes were down at one time")
    if report.rolled_back is not None:
        found += rollback_problems(report.rolled_back)
    audits = [each for each in report.audits if each["state"] == "done"]
    if audits and not any(each["passed"] for each in audits if each["purpose"] in ("schedule", "demand")):
        found.append("no audit of dual-write passed")
    if audits and not any(map(agree, audits)):
        found.append("no audit found every broker equal to the log")
    return found


def rollback_problems(rolled_back: RolledBack) -> list[str]:
    bad = rolled_back.outside_reader.bad
    found = [f"outside reader after the rollback: {name}: {', '.join(first)}" for name, first in bad.items()]
    if rolled_back.traffic.lost:
        found.append(f"{rolled_back.traffic.lost} records were given up by the producers before or in the rollback")
    return found
