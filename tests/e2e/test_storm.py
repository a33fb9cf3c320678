"""Two thousand acts of administration, done to a cluster under stock and to its twin under ours, both in dual-write:
every answer is the same, and so are the two ZooKeeper trees.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController, our_controller
from migrator.lab.servers.controller import StockQuorum
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.zk.session import ZkSession
from tests.e2e.support import HANGS_AFTER_S, assert_same
from tests.support.storm import Storm
from tests.support.storm_sender import Sender
from tests.support.whole_tree import Tree, notifications, state_versions, whole_tree

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.alone]

SEED: Final = 2026
OF_EACH_KIND: Final = 91
BEFORE, LAST = "before-the-storm", "after-the-storm"
TOKEN_KEY: Final = "what tokens of the storm are derived with"
OF_BROKERS: Final[dict[str, Value]] = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": TOKEN_KEY,
    "auto.leader.rebalance.enable": "false",
}
OF_CONTROLLERS: Final[dict[str, Value]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": TOKEN_KEY,
    "auto.leader.rebalance.enable": "false",
    "broker.session.timeout.ms": "60000",
}
"""On a busy machine no broker may seem dead: its leaders would move."""

log = logging.getLogger(__name__)


@dataclass
class Weathered:
    """A cluster after the storm."""

    answers: list[tuple[str, tuple[int, ...]]]
    tree: Tree
    versions: dict[str, int]
    told: dict[str, Counter[str]]
    seconds: float


def weather(laboratory: Laboratory, make: Callable[[LabCluster], StockQuorum | OurController]) -> Weathered:
    cluster = LabCluster(laboratory, brokers=2, extra=OF_BROKERS)
    cluster.start()
    cluster.create_topics([BEFORE])
    controller = make(cluster)
    cluster.restart_as(lambda spec: spec.as_migrating(controller.voters))
    cluster.wait_isr_whole([BEFORE])
    controller.start()
    controller.wait_dual_write(HANGS_AFTER_S)

    ports, controller_port = [broker.spec.port for broker in cluster.brokers], int(controller.voters.rpartition(":")[2])
    sender = Sender(ports, controller_port, finds_tokens_late=not isinstance(controller, OurController))
    began = time.monotonic()
    answers = sender.send(Storm(SEED, OF_EACH_KIND).waves())
    seconds = time.monotonic() - began
    cluster.admin().delete_topics([BEFORE], operation_timeout=30)[BEFORE].result(120)
    last = NewTopic(LAST, num_partitions=1, replica_assignment=[[0, 1]])
    cluster.admin().create_topics([last], operation_timeout=30)[LAST].result(120)
    cluster.wait_isr_whole([LAST])  # in ZooKeeper, so is everything before it
    with ZkSession(cluster.zookeeper_connect) as session:
        found = Weathered(answers, whole_tree(session), state_versions(session), notifications(session), seconds)
    if isinstance(controller, OurController):
        assert_same(cluster, controller.data)
    for broker in cluster.brokers:
        broker.process.kill()  # without a controller a clean stop would wait for one
    controller.stop()
    cluster.zookeeper.stop()
    return found


def stock(cluster: LabCluster) -> StockQuorum:
    return cluster.quorum(1, extra=OF_CONTROLLERS)


def ours(cluster: LabCluster) -> OurController:
    return our_controller(cluster, OF_CONTROLLERS)


def test_the_same_storm_leaves_the_same_tree_under_stock_and_under_ours(laboratory: Laboratory, tmp_path: Path) -> None:
    theirs = weather(laboratory, stock)
    with Laboratory(tmp_path / "twin", laboratory.artifacts) as another:
        mine = weather(another, ours)
    log.warning("stock took %.1f s, ours %.1f s", theirs.seconds, mine.seconds)

    pairs = zip(theirs.answers, mine.answers, strict=True)
    assert [(number, *pair) for number, pair in enumerate(pairs) if pair[0] != pair[1]] == []
    assert differences(theirs.tree, mine.tree) == []
    # Stock writes a state once for changes that it learns of together; ours keeps the version at the partition epoch.
    assert {path: version for path, version in mine.versions.items() if version < theirs.versions[path]} == {}
    assert {root: set(found) for root, found in mine.told.items()} == {
        root: set(found) for root, found in theirs.told.items()
    }

    done, refused = tally(mine)
    assert len(mine.answers) >= 2_000
    assert min(done.values()) >= 50, done
    assert sum(done.values()) >= 0.8 * len(mine.answers), refused


def tally(weathered: Weathered) -> tuple[Counter[str], Counter[tuple[str, tuple[int, ...]]]]:
    """How many of each kind were done, and which were refused with what."""
    done: Counter[str] = Counter()
    refused: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for kind, codes in weathered.answers:
        if any(codes):
            refused[kind, codes] += 1
        else:
            done[kind] += 1
    return done, refused


def differences(left: Tree, right: Tree) -> list[str]:
    """What only one has, and what they say differently: the first one is stock's."""
    return [
        f"{path}: {left.get(path)} | {right.get(path)}"
        for path in sorted(left.keys() | right.keys())
        if left.get(path) != right.get(path)
    ]
