"""Three voters, ours or Kafka's, on one cluster: who rules, what they have committed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from migrator.findings.finding import FindingError
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController, start_ready_to_migrate
from migrator.lab.servers.controller import StockController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.lab.servers.tools import dump_metadata_log
from tests.e2e.support import HANGS_AFTER_S, LONG_WINDOW, wait_for

TOPICS = [f"topic-{number}" for number in range(3)]
PATIENT: Final[dict[str, Value]] = {"controller.quorum.fetch.timeout.ms": 6_000}
"""For tests that do not ask how fast a fail-over is: on a busy machine a leader that stays may be silent for 2 s."""

Voter = OurController | StockController


@contextmanager
def three_controllers(
    laboratory: Laboratory, extra: dict[str, Value] | None = None, broker_extra: dict[str, Value] | None = None
) -> Iterator[tuple[LabCluster, list[OurController]]]:
    """Three of ours, formatted and not started, and brokers that wait for them."""
    cluster = LabCluster(laboratory, extra=broker_extra)
    ours = start_ready_to_migrate(cluster, 3, {**LONG_WINDOW, **(extra or {})})
    cluster.create_topics(TOPICS, partitions=4)
    yield cluster, ours


def start(ours: Sequence[OurController]) -> None:
    for each in ours:
        each.launch()
    for each in ours:
        each.wait_ready()


def ruling(ours: Sequence[OurController]) -> OurController | None:
    """The one that leads and is in dual-write."""
    for each in ours:
        try:
            status = each.status()
        except (OSError, ValueError, FindingError):
            continue
        if status["driver"]["state"] == "DUAL_WRITE" and status["quorum"]["leader"] == each.spec.node_id:
            return each
    return None


def wait_ruling(ours: Sequence[OurController], deadline_s: float = HANGS_AFTER_S) -> OurController:
    found: list[OurController] = []

    def why_not() -> str | None:
        leader = ruling(ours)
        if leader is not None:
            found.append(leader)
            return None
        return "nobody is in dual-write"

    wait_for(why_not, "one of ours is in dual-write", deadline_s=deadline_s)
    return found[-1]


def leading(voters: Sequence[Voter]) -> int | None:
    """The id of the leader, as one of ours that is alive knows it."""
    for each in voters:
        if isinstance(each, OurController) and each.is_running:
            try:
                leader = int(each.status()["quorum"]["leader"])
            except (OSError, ValueError, FindingError):
                continue
            return leader if leader >= 0 else None
    return None


def committed(laboratory: Laboratory, controller: Voter) -> list[tuple[str, str]]:
    """Records with their offsets, as Kafka's own tool reads the log of a stopped node."""
    text = dump_metadata_log(laboratory, controller.metadata_log / f"{0:020d}.log")
    return re.findall(r"offset: (\d+).*?payload: (\{.*\})", text)
