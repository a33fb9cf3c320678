"""R-866-12: ZooKeeper falls silent in dual-write. Clients are served, administrators hear of it, nothing is lost.

ZooKeeper is stopped as a long garbage collection stops it: connections stand, nothing is answered. Sessions last longer
than that here; what happens when they end is in test_crashes.py and test_lab_cluster.py.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.lab.admin import by_new_clients
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from tests.e2e.quorums import PATIENT, TOPICS, leading, start, three_controllers, wait_ruling
from tests.e2e.support import HANGS_AFTER_S, assert_same, produce, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.alone]

SESSION: Final[dict[str, Value]] = {"zookeeper.session.timeout.ms": 300_000}
"""Two thirds of it after the last answer, which may be a third old, a client gives the silent server up."""
MAX_S: Final = 12
"""The alarm comes at half of it, and is not seen by a controller that stands still from then to the limit."""


def wait_leading(voters: list[OurController]) -> OurController:
    """Who leads, as one of them knows it, and is one of them."""
    found: list[OurController] = []

    def why_not() -> str | None:
        known = leading(voters)
        found[:] = [each for each in voters if each.spec.node_id == known]
        return None if found else f"the leader is {known}"

    wait_for(why_not, "another one leads")
    return found[0]


def create(cluster: LabCluster, name: str, timeout_s: float = 30) -> KafkaError | None:
    """Ask a broker for a topic, as an administrator does; the error of the answer."""
    new = NewTopic(name, 2, 3)
    try:
        by_new_clients(
            cluster.new_admin,
            lambda admin: admin.create_topics([new], request_timeout=timeout_s)[name].result(timeout_s + 60),
            f"topic {name} is asked for",
            deadline_s=HANGS_AFTER_S,
        )
    except KafkaException as refused:
        error = refused.args[0]
        assert isinstance(error, KafkaError)
        return error
    return None


def divergence(controller: OurController) -> dict[str, Any]:
    return dict(controller.status()["dual_write"])


def wait_level(controller: OurController, level: str) -> dict[str, Any]:
    wait_for(
        lambda: None if (seen := divergence(controller))["divergence"] == level else str(seen),
        f"the divergence is {level}",
    )
    return divergence(controller)


def why_isr_not_whole(cluster: LabCluster, topic: str) -> str | None:
    """As brokers tell their clients."""
    try:
        partitions = cluster.admin().list_topics(topic, timeout=60).topics[topic].partitions
    except KafkaException as error:
        return str(error)
    missing = [each.id for each in partitions.values() if set(each.isrs) != set(each.replicas)]
    return f"partitions {missing} lack replicas" if missing else None


def levels(controller: OurController) -> list[str]:
    return [event["stands"] for event in controller.events() if event.get("event") == "zk.divergence"]


def registrations(cluster: LabCluster) -> list[bytes | None]:
    """What brokers wrote when their present sessions began."""
    return [cluster.zk.read(f"/brokers/ids/{broker.broker_id}") for broker in cluster.brokers]


def test_a_silent_zookeeper_holds_up_administrators_at_the_declared_limit_and_nobody_else(
    laboratory: Laboratory,
) -> None:
    extra = {**PATIENT, **SESSION, "zk2kraft.divergence.max.seconds": MAX_S}
    with three_controllers(laboratory, extra, SESSION) as (cluster, ours):
        start(ours)
        leader = wait_ruling(ours)
        registered = registrations(cluster)
        (zookeeper,) = cluster.zookeeper.servers
        before = len(levels(leader))

        zookeeper.pause()
        assert create(cluster, "before-the-limit") is None, "ZooKeeper holds up no answer"
        seen = wait_level(leader, "OVER")
        assert levels(leader)[before:] == ["NEAR", "OVER"], "the alarm came first"
        assert seen["finding"]["code"] == "Z2K-2041"
        assert seen["behind_ms"] >= MAX_S * 1000
        metrics = leader.metrics()
        assert metrics["zk2kraft_driver_finding{Z2K-2041}"] == 1
        assert metrics["zk2kraft_zk_behind_seconds"] >= MAX_S
        assert metrics["kafka_controller_kafkacontroller_zkwritebehindlag"] >= seen["lag_records"] > 0
        refused = create(cluster, "refused")
        assert refused is not None
        assert refused.code() == KafkaError.POLICY_VIOLATION
        assert "Z2K-2041" in refused.str()
        assert "zk2kraft status" in refused.str()
        assert leader.metrics()["kafka_controller_kafkacontroller_zookeeperblockingkraftmillis"] > 0

        leaves_every_isr = cluster.brokers[2]
        leaves_every_isr.pause()
        produce(cluster, TOPICS[0], 200)  # acknowledged by all in sync: it had to leave, and lead nothing any more
        leaves_every_isr.resume()
        wait_for(lambda: why_isr_not_whole(cluster, TOPICS[0]), "the broker is in sync again, by AlterPartition")
        assert divergence(leader)["divergence"] == "OVER"

        leader.kill()
        left = [each for each in ours if each is not leader]
        successor = wait_leading(left)
        assert wait_level(successor, "OVER")["finding"]["code"] == "Z2K-2041"
        unanswered = create(cluster, "asked-of-the-successor", timeout_s=3)
        assert unanswered is not None
        assert unanswered.code() == KafkaError._TIMED_OUT, "not refused: the broker asks again until somebody leads"

        zookeeper.resume()
        successor = wait_ruling(left)
        wait_level(successor, "WITHIN")
        assert create(cluster, "after") is None
        cluster.wait_isr_whole([*TOPICS, "before-the-limit", "after"])
        assert cluster.zk.read("/brokers/topics/refused") is None
        assert registrations(cluster) == registered, "no broker lost its session"
        assert_same(cluster, successor.data)
