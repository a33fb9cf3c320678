"""Brokers with tiered storage in a directory, and a topic most of whose records only that has.

In:   a laboratory with `with_remote_store`, a cluster made with `tiered_settings`.
Out:  the topic, filled; its files in the store; every record of it, read from offset 0.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from migrator.lab.cluster import LabCluster
from migrator.lab.servers.properties import Value
from tests.e2e.support import wait_for

TOPIC: Final = "history"
RECORDS: Final = 300
PARTITIONS: Final = 2
SYSTEM: Final = "remote.log.storage.system.enable"
TIERED_TOPIC: Final[Mapping[str, str]] = {
    "remote.storage.enable": "true",
    "segment.bytes": "20000",
    "local.retention.bytes": "1",
    "retention.bytes": "-1",
    "file.delete.delay.ms": "1000",
}
COPIED_S: Final = 90.0


def tiered_settings(store: Path, replicas: int = 2) -> dict[str, Value]:
    """Of brokers whose remote store is a directory of this machine. Who leads is who led, until a test restarts it: an
    automatic election, 5 s after another controller, once made the replica lead that begins later.
    """
    return {
        "auto.leader.rebalance.enable": False,
        "log.retention.check.interval.ms": 1000,
        "log.initial.task.delay.ms": 500,
        SYSTEM: True,
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.impl.prefix": "rsm.config.",
        "rsm.config.dir": str(store),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
        "rlmm.config.remote.log.metadata.topic.num.partitions": 3,
        "rlmm.config.remote.log.metadata.topic.replication.factor": replicas,
        "remote.log.manager.task.interval.ms": 500,
    }


def fill_history(cluster: LabCluster, store: Path) -> None:
    """Make the topic, and wait until its first records are in the remote store alone."""
    cluster.create_topics([TOPIC], partitions=PARTITIONS, config=TIERED_TOPIC)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "batch.num.messages": 5, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(TOPIC, number.to_bytes(4, "big") * 250, partition=number % PARTITIONS)
        if number % 20 == 19:
            producer.flush()
    assert producer.flush(60) == 0
    wait_for(lambda: None if len(segments(store)) >= RECORDS // 25 else "too few segments", "the copy", COPIED_S)
    wait_for(lambda: why_local(cluster), "the end of local segments", COPIED_S)


def segments(store: Path) -> set[str]:
    """Files of the remote store with records of the topic."""
    return {each.name for each in store.rglob(f"{TOPIC}-*/*.log")}


def why_local(cluster: LabCluster) -> str | None:
    """Why the local logs still have all records; None once only the remote store has the first ones."""
    for broker in cluster.brokers:
        places = [broker.directory / "data-0" / f"{TOPIC}-{number}" for number in range(PARTITIONS)]
        if any((place / f"{0:020}.log").exists() for place in places):
            return f"{broker.name} has the first segment"
    return None


def records_from_0(cluster: LabCluster) -> list[int]:
    """All records, read from offset 0 on by a consumer that takes no other beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"reader-{time.monotonic_ns()}",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found: list[int] = []
    ends = time.monotonic() + 90
    try:
        while len(found) < RECORDS and time.monotonic() < ends:
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                assert error.code() != KafkaError._AUTO_OFFSET_RESET, error
                continue
            value = message.value()
            assert isinstance(value, bytes)
            found.append(int.from_bytes(value[:4], "big"))
    finally:
        consumer.close()
    return sorted(found)
