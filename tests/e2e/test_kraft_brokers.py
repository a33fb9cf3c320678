"""Brokers in KRaft mode on a quorum of ours: they live, are fenced, move leaderships, and lose a directory."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from migrator.audit.log_source import CommittedRecords, read_directory
from migrator.findings.finding import FindingError
from migrator.lab.kraft import KraftBroker, KraftCluster, Led
from migrator.lab.ours import OurController
from migrator.lab.servers.broker import BrokerProcess
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import read
from migrator.wire.messages.metadata import PartitionChangeRecord, PartitionRecord
from tests.e2e.support import HANGS_AFTER_S, assert_same, produce, ready_cluster, wait_for

pytestmark = pytest.mark.lab

ENDED = re.compile(r"fatal fault|Encountered raftManager fault|shutting down|Unexpected error", re.IGNORECASE)
STALE = "; global error: Response-level error: STALE_BROKER_EPOCH"
"""A broker asks with the epoch of its image. Where that does not have its new registration yet, as on a busy machine,
stock answers this as well, and the broker asks again."""
REFUSED = re.compile(rf"assignments failed(?!{STALE})|error assigning|no result in response")


def leader_of(cluster: KraftCluster, other_than: OurController | None = None) -> OurController:
    found: list[OurController] = []

    def why_not() -> str | None:
        for each in cluster.controllers:
            assert isinstance(each, OurController)
            if each is other_than or not each.is_running:
                continue
            try:
                if each.status()["quorum"]["role"] == "leader":
                    found.append(each)
                    return None
            except (OSError, ValueError, FindingError):
                continue
        return "nobody leads"

    wait_for(why_not, "one of ours leads")
    return found[-1]


def of_topic(cluster: KraftCluster, topic: str) -> dict[str, Led]:
    return {key: led for key, led in cluster.partitions().items() if key.rpartition("-")[0] == topic}


def produced(cluster: KraftCluster, topic: str, count: int) -> None:
    """Acknowledged by all in sync, or the test fails."""
    failed: list[str] = []
    producer = Producer({**cluster.client, "acks": "all", "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, f"{number}", on_delivery=lambda error, _: failed.append(str(error)) if error else None)
    assert producer.flush(HANGS_AFTER_S) == 0
    assert not failed, failed[:3]


FOLLOWS = re.compile(r"Completed transition to FollowerState\(.*?epoch=(\d+), leader=(\d+), leaderEndpoints=(\S+)")


def test_a_broker_that_knows_bootstrap_servers_alone_follows_every_leader(laboratory: Laboratory) -> None:
    """Kafka 3.9 lets such a broker register only where the log names the voters (kraft.version 1): with static voters
    it follows for ever, under stock controllers too. Without the leader's address in the answers its process ended.
    """
    patient = {"initial.broker.registration.timeout.ms": 600_000}
    cluster = KraftCluster(laboratory, brokers=1, bootstrap_only=True, extra=patient)
    for controller in cluster.controllers:
        assert isinstance(controller, OurController)
        controller.launch()
    for controller in cluster.controllers:
        controller.wait_ready()
    (broker,) = cluster.brokers
    broker.start()

    def why_follows_not(dead: OurController | None = None) -> str | None:
        wanted = leader_of(cluster, other_than=dead)
        followed = FOLLOWS.findall(broker.process.log_text())
        port = f"<unresolved>:{wanted.spec.port}"
        named = bool(followed) and int(followed[-1][1]) == wanted.spec.node_id and port in followed[-1][2]
        return None if named else f"it followed {followed}"

    wait_for(why_follows_not, "it follows the leader")
    leader = leader_of(cluster)
    leader.kill()
    wait_for(lambda: why_follows_not(leader), "it follows the next leader")
    assert broker.is_running
    assert not ENDED.findall(broker.process.log_text())


def test_kraft_brokers_are_served_fenced_and_led_across_a_fail_over(laboratory: Laboratory) -> None:
    cluster = KraftCluster(laboratory)
    cluster.start()
    cluster.create_topics(["orders"], partitions=12)
    produced(cluster, "orders", 500)

    leader = leader_of(cluster)
    leader.kill()
    leader_of(cluster, other_than=leader)
    cluster.create_topics(["after-fail-over"])
    produced(cluster, "after-fail-over", 200)
    leader.start()

    victim = cluster.brokers[0]
    victim.kill()

    def why_fenced_not() -> str | None:
        led = [key for key, each in of_topic(cluster, "orders").items() if each.leader == 0 or 0 in each.isr]
        return f"{led} are led by it or have it in sync" if led else None

    seconds = wait_for(why_fenced_not, "the killed broker is fenced")
    print(f"fenced after {seconds:.1f} s")
    produced(cluster, "orders", 500)
    victim.start()
    victim.wait_ready()
    cluster.wait_isr_whole(["orders", "after-fail-over"])
    for broker in cluster.brokers[1:]:
        assert broker.is_running
        assert not ENDED.findall(broker.process.log_text())
    cluster.stop()


def replicas_in(broker: KraftBroker, directory: str, topic: str) -> set[str]:
    return {each.name for each in (broker.directory / directory).iterdir() if each.name.startswith(f"{topic}-")}


def fail(directory: Path) -> None:
    """As when a volume is gone: nothing can be written under this name any more."""
    directory.rename(directory.with_name(directory.name + "-gone"))
    directory.write_text("no directory")


def test_leaderships_leave_a_directory_that_fails_and_stay_in_the_others(laboratory: Laboratory) -> None:
    soon = {"log.flush.offset.checkpoint.interval.ms": 1000, "replica.high.watermark.checkpoint.interval.ms": 1000}
    cluster = KraftCluster(laboratory, brokers=3, log_directories=2, extra=soon)
    cluster.start()
    cluster.create_topics(["orders"], partitions=12)
    produced(cluster, "orders", 500)
    broker = cluster.brokers[1]
    broker.stop()
    broker.start()
    broker.wait_ready()
    cluster.wait_isr_whole(["orders"])
    lost, kept = replicas_in(broker, "data-1", "orders"), replicas_in(broker, "data-0", "orders")
    assert lost, kept
    assert kept, lost
    for each in cluster.brokers:
        assert not REFUSED.findall(each.process.log_text()), each.name

    fail(broker.directory / "data-1")

    def why_not() -> str | None:
        seen = of_topic(cluster, "orders")
        wrong = [key for key in lost if seen[key].leader == 1 or seen[key].leader < 0 or 1 in seen[key].isr]
        return f"{wrong} are led from the failed directory or in sync there" if wrong else None

    seconds = wait_for(why_not, "leaderships left the failed directory")
    print(f"{len(lost)} of {len(lost) + len(kept)} partitions left the failed directory after {seconds:.1f} s")
    assert broker.is_running
    assert all(1 in led.isr for key, led in of_topic(cluster, "orders").items() if key in kept)
    produced(cluster, "orders", 500)
    leader = leader_of(cluster)  # another may have been elected since the start
    leader.kill()
    leader_of(cluster, other_than=leader)
    produced(cluster, "orders", 200)
    assert why_not() is None
    cluster.stop()


ASSIGNS = re.compile(r"maybeSendAssignments: sending ([1-9]\d*) assignments")


def test_a_broker_restarted_into_kraft_mode_in_dual_write_says_where_its_replicas_lie(laboratory: Laboratory) -> None:
    """ZooKeeper has no directories, and no less follows: versions of state znodes, and what other brokers are told."""
    with ready_cluster(laboratory) as (cluster, controller):
        controller.start()
        controller.wait_dual_write()
        names = [f"topic-{number}" for number in range(3)]
        broker = cluster.brokers[0]
        broker.restart_as(broker.spec.as_kraft(controller.voters))
        wait_for(
            lambda: None if ASSIGNS.search(broker.process.log_text()) else "it assigned nothing yet",
            "it asks",
        )
        cluster.wait_isr_whole(names)
        produce(cluster, names[0], 200)
        others = cluster.brokers[1:]
        others[0].stop()  # an ISR shrinks and grows again at leaders of both kinds, from the partition epochs they know
        others[0].start()
        others[0].wait_ready()
        cluster.wait_isr_whole(names)
        produce(cluster, names[0], 200)
        assert not REFUSED.findall(broker.process.log_text())
        wait_for(
            lambda: why_not_placed(broker, controller.metadata_log), "the log says where each of its replicas lies"
        )
        assert_same(cluster, controller.metadata_log)


def why_not_placed(broker: BrokerProcess, log: Path) -> str | None:
    """It has one directory, so each of its replicas lies there."""
    (meta,) = broker.directory.glob("data-*/meta.properties")
    own = base64.urlsafe_b64decode(read(meta)["directory.id"] + "==")
    replicas: dict[tuple[bytes, int], Sequence[int]] = {}
    directories: dict[tuple[bytes, int], Sequence[bytes]] = {}
    for record in read_directory(log.parent, CommittedRecords()):
        if isinstance(record, PartitionRecord | PartitionChangeRecord):
            key = record.topic_id, record.partition_id
            if isinstance(record, PartitionRecord):
                replicas[key] = record.replicas
            if record.directories:
                directories[key] = record.directories
    places = [each[replicas[key].index(broker.broker_id)] for key, each in directories.items()]
    return None if len(places) == len(replicas) and set(places) == {own} else f"{places} of {len(replicas)}"
