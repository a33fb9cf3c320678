"""What a demo has shown, in figures: every key is always there, and what was not looked at is said.

In:   what the demo collected.
Out:  `DemoReport`, its problems, and its last table.
Elsewhere: collecting (demo/run.py), the service's own report of a migration (`zk2kraft report`).
"""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec

from migrator.lab.demo.changes import DemoChange
from migrator.lab.demo.pace import DemoPace, Stretch, why_slow, why_stalled
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.traffic.figures import Latency
from migrator.lab.traffic.proof import ReaderReport
from migrator.lab.traffic.status import TrafficStatus

AUDITS_IN_DUAL_WRITE: Final = 2
"""Right after the takeover, and before the rollback."""

CONFIRMATION: Final = "confirmation"
"""Purpose of Spark's audit of a rehearsal that the quick engine has judged."""

ONE_CONTROLLER: Final = "fail-over of the controller: the quorum has one voter (`--controllers 3` has three)"
LIMITS: Final = (
    "listeners with TLS or SASL, an authorizer, ACLs, quotas, SCRAM users, tokens: the demo has none of them",
    "brokers in KRaft mode, replacement by stock controllers, finalize: `zk2kraft demo --full` shows them",
    "clocks, disks and networks of more than one machine: everything ran on loopback",
)


class TakeoverFigures(msgspec.Struct, frozen=True):
    """From TAKING_OVER to DUAL_WRITE.

    without_controller_s: the longest time in which `/controller` did not name anybody, seen by a client of ZooKeeper.
    driver_ms:            how long the cluster had nobody who decides, by our controller's clock.
    acknowledgement:      of every record under way in it.
    """

    without_controller_s: float
    driver_ms: int
    takeover_s: float
    acknowledgement: Latency
    transaction_end: Latency
    longest_stall_ms: float
    zookeeper_unseen_s: float


class Stopped(msgspec.Struct, frozen=True):
    """One broker stopped and returned. isr_whole_s: from its start until every replica was in sync again."""

    broker: int
    stopped_s: float
    isr_whole_s: float
    acknowledged_meanwhile: int


class FailOver(msgspec.Struct, frozen=True):
    """kill -9 of the active controller. seconds: until another one was in dual-write, as the service saw it."""

    killed: int
    successor: int
    seconds: float


class Rollback(msgspec.Struct, frozen=True):
    """seconds: from the operation until a ZooKeeper-mode broker was controller. brokers_restarted by it: 0, or a
    defect.
    """

    seconds: float
    without_controller_s: float
    brokers_restarted: int


class DualWrite(msgspec.Struct, frozen=True):
    """lag_ms: the longest that the driver told of. in_zookeeper_s: the slowest change, seen from outside."""

    changes: list[DemoChange]
    lag_ms: float
    in_zookeeper_s: float
    reconciled_writes: int


class ClusterFigures(msgspec.Struct, frozen=True):
    brokers: int
    controllers: int
    topics: int
    partitions: int
    replication: int


class DemoReport(msgspec.Struct):
    """The document that `--report` names; a key that is missing would be a defect.

    problems: what makes the demo red.   notes: what was slow; nothing was lost by it.
    audit_page: of the last audit of all three sides, a file.
    """

    ok: bool
    problems: list[str]
    notes: list[str]
    versions: dict[str, str]
    machine: dict[str, Any]
    cluster: ClusterFigures
    seconds: float
    phases: list[dict[str, Any]]
    window: TakeoverFigures
    pace: DemoPace
    stretches: list[Stretch]
    traffic: TrafficStatus
    outside_reader: ReaderReport
    audits: list[dict[str, Any]]
    audit_page: str
    dual_write: DualWrite
    brokers_stopped: list[Stopped]
    fail_overs: list[FailOver]
    rollback: Rollback
    undo: dict[str, dict[str, Any]]
    not_verified: list[str]


def versions(artifacts: Artifacts) -> dict[str, str]:
    packages = ("zk2kraft", "pyspark", "kazoo", "confluent-kafka", "fastapi", "sqlalchemy")
    jars = sorted(artifacts.libs.glob("zookeeper-3*.jar"))
    return {
        "kafka": artifacts.version,
        "zookeeper": _version_of(jars[-1]) if jars else "unknown",
        "java": artifacts.java.text,
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


def machine() -> dict[str, Any]:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count() or 0,
        "memory_gib": round(pages * size / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
    }


def problems(report: DemoReport, *, acknowledged_least: int) -> list[str]:
    """Everything that is not as it must be; empty when the demo has shown what it promises."""
    found = [f"outside reader: {name}: {', '.join(first)}" for name, first in report.outside_reader.bad.items()]
    judged = [each for each in report.audits if not _not_waited_for(each)]
    found += [f"audit {each['id']} ({each['purpose']}) did not pass" for each in judged if not each["passed"]]
    in_dual_write = [each for each in judged if each["purpose"] == "demand"]
    found += [f"audit {each['id']}: brokers: {what_brokers_said(each)}" for each in in_dual_write if not agree(each)]
    if report.traffic.acknowledged < acknowledged_least:
        found.append(f"{report.traffic.acknowledged} of {acknowledged_least} records were acknowledged")
    if report.traffic.lost:
        found.append(f"{report.traffic.lost} records were given up by the producers")
    found += [stalled for each in report.stretches if (stalled := why_stalled(report.pace, each)) is not None]
    if report.rollback.brokers_restarted:
        found.append(f"{report.rollback.brokers_restarted} brokers were restarted by the rollback")
    return [*found, *_audits_left_out(report.audits)]


def agree(audit: dict[str, Any]) -> bool:
    """Every broker was asked, and said what the log says."""
    side = audit.get("brokers")
    return side is not None and side["result"] == "passed" and not side["not_asked"]


def what_brokers_said(audit: dict[str, Any]) -> str:
    side = audit.get("brokers")
    return "they were not asked" if side is None else f"{side['result']}, {side['said']}"


def notes(report: DemoReport) -> list[str]:
    """What was slow, by the pace of the same run."""
    found = [slow for each in report.stretches if (slow := why_slow(report.pace, each)) is not None]
    unconfirmed = [each for each in report.audits if _not_waited_for(each)]
    return [*found, *(f"Spark did not confirm the rehearsal: {each['problem']}" for each in unconfirmed)]


def _not_waited_for(audit: dict[str, Any]) -> bool:
    """Spark's second opinion on a rehearsal ends when the takeover begins; the audits of dual-write are not its."""
    return (audit["purpose"], audit["state"]) == (CONFIRMATION, "stopped")


def not_measured(window: TakeoverFigures) -> list[str]:
    """What the outside watcher could not know."""
    if not window.zookeeper_unseen_s:
        return []
    return [f"time without controller: for {window.zookeeper_unseen_s} s of it the watcher did not reach ZooKeeper"]


def _audits_left_out(audits: list[dict[str, Any]]) -> list[str]:
    made = [each["purpose"] for each in audits]
    found = [] if "rehearsal" in made else ["the rehearsal was not audited"]
    if (in_dual_write := made.count("demand")) < AUDITS_IN_DUAL_WRITE:
        found.append(f"{in_dual_write} of {AUDITS_IN_DUAL_WRITE} audits were made in dual-write")
    return found


def family_table(audit: dict[str, Any]) -> list[str]:
    """What the last audit compared, one line per kind of metadata."""
    keys = ("compared", "equal", "expected", "different", "not_read")
    lines = [f"{'':<18}" + "".join(f"{key.replace('_', ' '):>11}" for key in keys)]
    return [
        *lines,
        *(f"{each['family']:<18}" + "".join(f"{each[key]:>11,}" for key in keys) for each in audit["families"]),
    ]


def _version_of(jar: Path) -> str:
    return jar.stem.rpartition("-")[2]
