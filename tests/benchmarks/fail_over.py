"""Kill the active one of three controllers: how long until another rules in dual-write, ours and stock in one run.

In:   `python -m tests.benchmarks.fail_over [--kills 20] [--stock-kills 10] [--json FILE]`, Kafka's jars.
Out:  seconds from kill -9 until another voter holds `/controller`, and until it writes to both sides; median and p95.
Elsewhere: that nothing is lost meanwhile (tests/e2e/test_quorum.py, the demo).
Both run with the default time-outs, the same brokers and topics, one system after the other.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from migrator.findings.finding import FindingError
from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.controller import DUAL_WRITE, StockController, quorum_specs
from migrator.lab.servers.laboratory import Laboratory

VOTERS: Final = 3
TOPICS: Final = 20
PARTITIONS: Final = 5
REST_S: Final = 4.0
"""After a killed voter is back: longer than any election, so that each kill meets a quorum at rest."""
DEADLINE_S: Final = 60.0
LOOK_S: Final = 0.01

GOAL_MEDIAN_S: Final = 3.0
GOAL_P95_S: Final = 4.5


class Node(Protocol):
    """One voter: ours or Kafka's."""

    @property
    def is_running(self) -> bool: ...
    def kill(self) -> None: ...
    def start(self) -> None: ...
    def wait_ready(self) -> float: ...


@dataclass(frozen=True, slots=True)
class FailOver:
    """One kill; seconds from the signal."""

    claimed_s: float
    dual_write_s: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Of all kills of one system, until dual-write."""

    kills: int
    median_s: float
    p95_s: float
    slowest_s: float
    claimed_median_s: float


def figures(found: Sequence[FailOver]) -> Figures:
    ends = sorted(each.dual_write_s for each in found)
    return Figures(
        kills=len(found),
        median_s=statistics.median(ends),
        p95_s=ends[min(len(ends) - 1, round(0.95 * len(ends)))],
        slowest_s=ends[-1],
        claimed_median_s=statistics.median(each.claimed_s for each in found),
    )


def until(condition: Callable[[], bool], what: str) -> float:
    """Poll; returns when it holds, as a moment of the monotonic clock. Raises TimeoutError."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {DEADLINE_S:.0f} s")
        time.sleep(LOOK_S)
    return time.monotonic()


class Quorum:
    """Three voters of one kind on a cluster whose brokers wait for them."""

    def __init__(self, laboratory: Laboratory, make: Callable[[Laboratory, LabCluster], dict[int, Node]]) -> None:
        self._cluster = LabCluster(laboratory)
        self._cluster.start()
        topics = [f"topic-{number}" for number in range(TOPICS)]
        self._cluster.create_topics(topics, partitions=PARTITIONS)
        self._nodes = make(laboratory, self._cluster)
        voters = next(iter(self._nodes.values())).spec.voters  # type: ignore[attr-defined]
        self._cluster.restart_as(lambda spec: spec.as_migrating(voters))
        self._cluster.wait_isr_whole(topics)
        for node in self._nodes.values():
            node.start()
        for node in self._nodes.values():
            node.wait_ready()
        until(lambda: self._holder()[1] > 0, "the takeover")
        until(lambda: in_dual_write(self._nodes[self._holder()[0]]), "dual-write")

    def _holder(self) -> tuple[int, int]:
        """Who holds `/controller`, and its KRaft epoch (-1: a ZooKeeper-mode broker)."""
        data = self._cluster.zk.read("/controller")
        found = {} if data is None else json.loads(data)
        return found.get("brokerid", -1), found.get("kraftControllerEpoch", -1)

    def kill_the_active_one(self) -> FailOver:
        active, epoch = self._holder()
        victim = self._nodes[active]
        killed = time.monotonic()
        victim.kill()
        claimed = until(lambda: self._holder()[1] > epoch, "the next claim")
        successor = self._nodes[self._holder()[0]]
        dual_write = until(lambda: in_dual_write(successor), "dual-write")
        victim.start()
        victim.wait_ready()
        time.sleep(REST_S)
        return FailOver(claimed - killed, dual_write - killed)


def in_dual_write(node: Node) -> bool:
    """As the node itself says: ours by its status, stock in its log."""
    if isinstance(node, StockController):
        return node.driver_state() == DUAL_WRITE
    assert isinstance(node, OurController)
    try:
        return node.state() == DUAL_WRITE
    except (OSError, ValueError, FindingError):
        return False


def make_ours(laboratory: Laboratory, cluster: LabCluster) -> dict[int, Node]:
    specs = quorum_specs(laboratory, count=VOTERS, zookeeper_connect=cluster.zookeeper_connect)
    return {spec.node_id: OurController(laboratory, spec, cluster.cluster_id) for spec in specs}


def make_stock(laboratory: Laboratory, cluster: LabCluster) -> dict[int, Node]:
    controllers = cluster.quorum(VOTERS).controllers
    for controller in controllers:
        controller.format()
    return {controller.spec.node_id: controller for controller in controllers}


def measure(name: str, make: Callable[[Laboratory, LabCluster], dict[int, Node]], kills: int) -> list[FailOver]:
    found = []
    with tempfile.TemporaryDirectory() as directory, Laboratory(Path(directory), prepared()) as laboratory:
        quorum = Quorum(laboratory, make)
        for number in range(kills):
            found.append(quorum.kill_the_active_one())
            each = found[-1]
            line = f"claimed after {each.claimed_s:.2f} s, dual-write after {each.dual_write_s:.2f} s"
            print(f"{name} {number + 1}/{kills}: {line}", file=sys.stderr, flush=True)
    return found


def table(results: dict[str, Figures]) -> str:
    lines = [
        "| controllers | kills | `/controller` taken, median | dual-write, median | p95 | slowest |",
        "| --- " * 6 + "|",
    ]
    for name, each in results.items():
        lines.append(
            f"| {name} | {each.kills} | {each.claimed_median_s:.1f} s | {each.median_s:.1f} s | {each.p95_s:.1f} s "
            f"| {each.slowest_s:.1f} s |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--stock-kills", type=int, default=10)
    parser.add_argument("--json", type=Path, help="write every kill to this file")
    arguments = parser.parse_args()
    found = {
        "ours": measure("ours", make_ours, arguments.kills),
        "stock": measure("stock", make_stock, arguments.stock_kills),
    }
    results = {name: figures(each) for name, each in found.items()}
    if arguments.json:
        arguments.json.write_text(json.dumps({name: [asdict(one) for one in each] for name, each in found.items()}))
    print(table(results))
    ours = results["ours"]
    reached = ours.median_s <= GOAL_MEDIAN_S and ours.p95_s <= GOAL_P95_S
    print(f"goal (median {GOAL_MEDIAN_S} s, p95 {GOAL_P95_S} s): {'reached' if reached else 'missed'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
