"""`make bench-real-broker`: how long the takeover of one real broker takes that hosts thousands of partitions.

In:   `python -m tests.benchmarks.real_broker [--partitions N] [--only ours|stock]`.
Out:  a line of JSON for each system.
Elsewhere: the same with a stand-in broker and ten times as many partitions (copy.py).
Fails when a partition has another leader or leader epoch afterwards than before, or the broker was ever fenced.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController, our_controller
from migrator.lab.servers.laboratory import Laboratory
from migrator.zk import paths
from migrator.zk.session import ZkSession
from tests.benchmarks.takeovers import DEADLINE_S, OURS, STOCK

PARTITIONS_PER_TOPIC: Final = 10
TOPICS_AT_ONCE: Final = 100
CREATE_DEADLINE_S: Final = 120.0
OF_OURS: Final = {"zk2kraft.takeover.max.ms": 60_000}
HEAP_MB: Final = 2048


class Taken(msgspec.Struct, frozen=True):
    """dual_write_s: from the start of the controller. window_s: as ours says it; stock does not."""

    system: str
    partitions: int
    dual_write_s: float
    window_s: float | None


def take_over(name: str, partitions: int, directory: Path) -> Taken:
    with Laboratory(directory, prepared(), fast_start=False) as laboratory:
        cluster = LabCluster(laboratory, brokers=1)
        for broker in cluster.brokers:
            broker.spec = replace(broker.spec, heap_mb=HEAP_MB)
        cluster.start()
        topics = _create(cluster, partitions // PARTITIONS_PER_TOPIC)
        controller = our_controller(cluster, extra=OF_OURS) if name == OURS else cluster.quorum(1)
        cluster.restart_as(lambda spec: spec.as_migrating(controller.voters), deadline_s=DEADLINE_S)
        cluster.wait_isr_whole(topics[-1:], deadline_s=DEADLINE_S)
        before = _leaderships(cluster, topics)
        controller.start()
        took_s = controller.wait_dual_write(DEADLINE_S)
        assert _leaderships(cluster, topics) == before, "a leader or a leader epoch is another one than before"
        window_s = _window_s(controller) if isinstance(controller, OurController) else None
        return Taken(name, len(before), round(took_s, 2), window_s)


def _create(cluster: LabCluster, count: int) -> list[str]:
    names = [f"topic-{number:05}" for number in range(count)]
    for first in range(0, count, TOPICS_AT_ONCE):
        new = [NewTopic(name, PARTITIONS_PER_TOPIC, 1) for name in names[first : first + TOPICS_AT_ONCE]]
        answers = cluster.admin().create_topics(
            new, operation_timeout=CREATE_DEADLINE_S, request_timeout=CREATE_DEADLINE_S
        )
        for answer in answers.values():
            answer.result(CREATE_DEADLINE_S)
    return names


def _leaderships(cluster: LabCluster, topics: list[str]) -> dict[str, tuple[int, int]]:
    """Leader and leader epoch by the path of the partition's state."""
    wanted = [paths.state(topic, partition) for topic in topics for partition in range(PARTITIONS_PER_TOPIC)]
    with ZkSession(cluster.zookeeper_connect) as session:
        states = [json.loads(znode.data or b"{}") for znode in session.get_many(wanted) if znode is not None]
    assert len(states) == len(wanted), "not every partition has a state"
    return {path: (state["leader"], state["leader_epoch"]) for path, state in zip(wanted, states, strict=True)}


def _window_s(controller: OurController) -> float:
    events = controller.events()
    assert not [each for each in events if each["event"] == "broker.fenced"], "the broker was fenced"
    (entered,) = (each for each in events if each["event"] == "dual_write.entered")
    return float(entered["window_ms"]) / 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--only", choices=(OURS, STOCK))
    arguments = parser.parse_args()
    for name in [OURS, STOCK] if arguments.only is None else [arguments.only]:
        with tempfile.TemporaryDirectory() as directory:
            taken = take_over(name, arguments.partitions, Path(directory) / "lab")
        print(msgspec.json.encode(taken).decode(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
