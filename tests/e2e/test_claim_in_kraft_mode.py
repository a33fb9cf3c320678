"""Somebody changes the claim in ZooKeeper: with brokers in KRaft mode nothing stops, and nothing is retired by it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public, but not re-exported for mypy
from kazoo.client import KazooClient

from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.quorums import PATIENT, TOPICS, leading, start, three_controllers, wait_ruling
from tests.e2e.support import assert_same, controller_of, once, produce, wait_for, wait_zookeeper_rules

pytestmark = pytest.mark.lab

CHANGED: Final = "Z2K-2021"
STOPPED: Final = "Z2K-2022"
SOON_S: Final = 30.0
"""A topic is made within a second or two; this is for a machine that does much else."""


@contextmanager
def zookeeper(cluster: LabCluster) -> Iterator[Any]:
    """Somebody's own session."""
    client = KazooClient(hosts=cluster.zookeeper_connect, timeout=30)
    client.start(30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def leader(ours: list[OurController]) -> dict[str, Any]:
    """The status of the one that leads."""
    found: list[dict[str, Any]] = []

    def why_not() -> str | None:
        node = leading(ours)
        for each in ours:
            if each.spec.node_id == node and each.is_running:
                found.append(each.status())
                return None
        return f"the leader is {node}"

    wait_for(why_not, "one of ours leads")
    return found[-1]


def made(cluster: LabCluster, name: str) -> float:
    """Create a topic; how many seconds that took."""
    began = time.monotonic()
    create(cluster, NewTopic(name, 4, 3))
    return time.monotonic() - began


def create(cluster: LabCluster, new: NewTopic) -> None:
    once(
        cluster.new_admin,
        lambda admin: admin.create_topics([new], request_timeout=SOON_S)[new.topic].result(),
        f"{new.topic} is created",
    )


def alarms(status: dict[str, Any]) -> list[str]:
    return [each["code"] for each in status["driver"]["alarms"]]


def is_ours(cluster: LabCluster, ours: list[OurController]) -> Callable[[], str | None]:
    def why_not() -> str | None:
        held = controller_of(cluster)
        voters = [each.spec.node_id for each in ours]
        if held is None or held["brokerid"] not in voters or held["kraftControllerEpoch"] <= 0:
            return f"/controller is {held}"
        return None

    return why_not


def held_again(cluster: LabCluster, ours: list[OurController]) -> None:
    """The claim is ours, dual-write is entered, and an alarm names what was found."""
    wait_for(is_ours(cluster, ours), "/controller is ours again")
    ruling = wait_ruling(ours)
    assert CHANGED in alarms(ruling.status()), alarms(ruling.status())
    assert STOPPED not in alarms(ruling.status())
    assert all(each.is_running for each in ours)


def led_by(cluster: LabCluster, broker: int, topic: str) -> list[int]:
    """As a client is told."""
    partitions = cluster.new_admin().list_topics(topic, timeout=30).topics[topic].partitions
    return [number for number, each in partitions.items() if each.leader == broker]


def states_of(ours: list[OurController]) -> set[str]:
    return {state for each in ours for state in each.driver_states()}


def test_a_deleted_controller_znode_neither_stops_nor_retires_anything_with_every_broker_in_kraft_mode(
    laboratory: Laboratory,
) -> None:
    with three_controllers(laboratory, PATIENT) as (cluster, ours):
        start(ours)
        wait_ruling(ours)
        cluster.restart_as(lambda spec: spec.as_kraft(ours[0].voters))
        cluster.wait_isr_whole(TOPICS)

        # Deleted, and a broker killed right after it.
        cluster.wait_isr_whole(TOPICS)
        victim = next(each for each in cluster.brokers if led_by(cluster, each.broker_id, TOPICS[0]))
        cluster.zk.delete("/controller")
        victim.kill()
        print(f"a topic is made after {made_by_two(cluster, 'after-a-deletion'):.1f} s")
        why_led = wait_for(
            lambda: f"{led} are led by it" if (led := led_by(cluster, victim.broker_id, TOPICS[0])) else None,
            "the killed broker leads nothing",
        )
        print(f"its partitions have new leaders after {why_led:.1f} s")
        held_again(cluster, ours)
        victim.start()
        victim.wait_ready()
        cluster.wait_isr_whole([*TOPICS, "after-a-deletion"])

        # Deleted again, and every voter restarted, one by one: none is retired.
        for number, each in enumerate(ours):
            cluster.zk.delete("/controller")
            each.stop()
            each.launch()
            each.wait_ready()
            made(cluster, f"after-restart-{number}")
            wait_for(is_ours(cluster, ours), "/controller is ours again")
            wait_ruling(ours)
        assert all(each.is_running for each in ours)
        assert not states_of(ours) & {"FENCED", "RETIRED"}

        # The other two znodes.
        with zookeeper(cluster) as client:
            client.delete("/migration")
            made(cluster, "without-migration")
            held_again(cluster, ours)
            epoch = int(cluster.zk.read("/controller_epoch") or b"")
            client.set("/controller_epoch", str(epoch + 10).encode())
            made(cluster, "with-a-raised-epoch")
            wait_for(lambda: None if epoch_of(cluster) > epoch + 10 else "not raised", "a higher epoch is claimed")
            held_again(cluster, ours)
            client.delete("/controller_epoch")
            wait_for(lambda: None if epoch_of(cluster) > epoch + 11 else "not there", "it is made again, above all")
            made(cluster, "after-a-deleted-epoch")
            held_again(cluster, ours)

        # A session that claims as a ZooKeeper-mode broker does is not fought.
        with a_broker_claims(cluster) as epoch:
            wait_for(lambda: None if STOPPED in alarms(leader(ours)) else "no alarm", "an alarm says so")
            made(cluster, "while-a-broker-claims")
            assert epoch_of(cluster) == epoch
            assert not cluster.zk.exists("/brokers/topics/while-a-broker-claims")
        before_s = time.monotonic()
        wait_for(is_ours(cluster, ours), "the broker left, and the claim is ours again")
        print(f"claimed again {time.monotonic() - before_s:.1f} s later")
        held_again(cluster, ours)
        assert cluster.zk.exists("/brokers/topics/while-a-broker-claims")
        assert_same(cluster, wait_ruling(ours).metadata_log)

        # Wiped: nothing is written before a person says that this is the cluster's tree.
        identity = cluster.zk.read("/cluster/id") or b""
        with zookeeper(cluster) as client:
            for path in client.get_children("/"):
                if path != "zookeeper":
                    client.delete(f"/{path}", recursive=True)
        wait_for(lambda: None if STOPPED in alarms(leader(ours)) else "no alarm", "an alarm says so")
        made(cluster, "while-the-tree-is-gone")
        produce_to(cluster, "while-the-tree-is-gone")
        assert not cluster.zk.exists("/brokers/topics")
        cluster.zk.create("/cluster/id", identity)
        held_again(cluster, ours)
        assert cluster.zk.exists("/brokers/topics/while-the-tree-is-gone")
        assert_same(cluster, wait_ruling(ours).metadata_log)
        assert not states_of(ours) & {"FENCED", "RETIRED"}


def made_by_two(cluster: LabCluster, name: str) -> float:
    """While one of three brokers is dead and not fenced yet."""
    began = time.monotonic()
    create(cluster, NewTopic(name, 4, 2))
    return time.monotonic() - began


def produce_to(cluster: LabCluster, name: str) -> None:
    wait_for(lambda: None if led_by(cluster, -1, name) == [] else "no leader", f"{name} has leaders")
    produce(cluster, name, 50)


def epoch_of(cluster: LabCluster) -> int:
    return int(cluster.zk.read("/controller_epoch") or b"-1")


@contextmanager
def a_broker_claims(cluster: LabCluster) -> Iterator[int]:
    """A session claims in one multi, as brokers in ZooKeeper mode do, and leaves. Yields the epoch that it claimed."""
    body = json.dumps({"version": 2, "brokerid": 9, "timestamp": "1", "kraftControllerEpoch": -1}).encode()
    claimed: list[int] = []
    with zookeeper(cluster) as client:

        def why_not() -> str | None:
            data, stat = client.get("/controller_epoch")
            transaction = client.transaction()
            transaction.delete("/controller")
            transaction.create("/controller", body, ephemeral=True)
            transaction.set_data("/controller_epoch", str(int(data) + 1).encode(), version=stat.version)
            results = transaction.commit()
            if any(isinstance(each, Exception) for each in results):
                return str(results)
            claimed.append(int(data) + 1)
            return None

        wait_for(why_not, "a broker claims")
        yield claimed[-1]


def test_beside_brokers_of_both_modes_a_person_decides_and_a_restart_is_not_final(laboratory: Laboratory) -> None:
    """No broker in ZooKeeper mode is alive, so nobody is elected; the epoch proves that, and a new leader goes on."""
    with three_controllers(laboratory, PATIENT) as (cluster, ours):
        start(ours)
        wait_ruling(ours)
        for broker in cluster.brokers[:2]:
            broker.restart_as(broker.spec.as_kraft(ours[0].voters))
            cluster.wait_isr_whole(TOPICS)
        cluster.brokers[2].kill()
        cluster.zk.delete("/controller")
        holder = ours[[each.spec.node_id for each in ours].index(int(leader(ours)["quorum"]["leader"]))]
        holder.wait_state("FENCED")
        assert holder.status()["driver"]["finding"]["code"] == "Z2K-2003"
        assert controller_of(cluster) is None

        holder.stop()
        holder.launch()
        holder.wait_ready()
        held_again(cluster, ours)
        cluster.brokers[2].start()
        cluster.brokers[2].wait_ready()
        cluster.wait_isr_whole(TOPICS)
        produce(cluster, TOPICS[0], 50)
        assert "RETIRED" not in states_of(ours)


def test_with_every_broker_in_zookeeper_mode_an_elected_broker_is_the_proof_that_retires_the_log(
    laboratory: Laboratory,
) -> None:
    with three_controllers(laboratory, PATIENT) as (cluster, ours):
        start(ours)
        holder = wait_ruling(ours)
        cluster.zk.delete("/controller")
        wait_zookeeper_rules(cluster)
        holder.wait_state("FENCED")
        holder.kill()
        others = [each for each in ours if each is not holder]

        def why_not() -> str | None:
            ended = [each for each in others if "Z2K-2008" in each.process.log_text()]
            return None if ended else "nobody is retired"

        wait_for(why_not, "the next leader finds the proof")
        cluster.create_topics(["by-zookeeper"])
        produce(cluster, "by-zookeeper", 50)
