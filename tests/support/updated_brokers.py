"""Brokers in ZooKeeper mode as a controller sees them: what they believe after the requests that they got.

In:   orders (driver.broker_updates), in the order of sending.
Out:  per broker the metadata it would serve, who it thinks is alive, and the logs on its disk.
Only the effect on state is modelled; elections, fetching and errors by stale leader epochs are not.
Source: Kafka 3.9 `ZkMetadataCache.updateMetadata`, `ReplicaManager.becomeLeaderOrFollower` and `stopReplicas`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from migrator.driver.update_requests import (
    DELETED_LEADER,
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    VERSIONS,
    BrokerUpdate,
    UpdateKind,
)
from migrator.model.image import Image
from migrator.wire.codec import decode
from migrator.wire.messages.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from migrator.wire.primitives import ZERO_UUID
from migrator.wire.schema import Message

REQUESTS: dict[int, type[Message]] = {
    LEADER_AND_ISR: LeaderAndIsrRequest,
    STOP_REPLICA: StopReplicaRequest,
    UPDATE_METADATA: UpdateMetadataRequest,
}

Log = tuple[str, int]


def request_of(order: BrokerUpdate) -> Any:
    """The body, decoded again."""
    return decode(REQUESTS[order.api_key], VERSIONS[order.api_key], order.body)


def the_state(partition: Any) -> tuple[Any, ...]:
    """What all three forms of a partition have in common (image, UpdateMetadata, LeaderAndIsr)."""
    epoch = getattr(partition, "zk_version", None)
    version = partition.partition_epoch if epoch is None else epoch
    return (partition.leader, partition.leader_epoch, partition.isr, version, partition.replicas)


@dataclass
class UpdatedBroker:
    """One broker. A restart keeps `logs`, which are on disk, and forgets the rest."""

    epoch: int
    metadata: dict[Log, tuple[Any, ...]] = field(default_factory=dict)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    alive: set[int] = field(default_factory=set)
    logs: dict[Log, tuple[bytes, tuple[Any, ...]]] = field(default_factory=dict)

    def hear(self, order: BrokerUpdate) -> None:
        request = request_of(order)
        assert order.broker_epoch == request.broker_epoch == self.epoch, "told under another epoch"
        match request:
            case UpdateMetadataRequest():
                self._update_metadata(request)
            case LeaderAndIsrRequest():
                self._leader_and_isr(request)
            case StopReplicaRequest():
                self._stop_replica(request)

    def _update_metadata(self, request: UpdateMetadataRequest) -> None:
        self.alive = {broker.id for broker in request.live_brokers}
        if request.type == UpdateKind.FULL:
            self._forget_ids_other_than({topic.topic_id for topic in request.topic_states})
        for topic in request.topic_states:
            for partition in topic.partition_states:
                if partition.leader == DELETED_LEADER:
                    self.metadata.pop((topic.topic_name, partition.partition_index), None)
                else:
                    self.metadata[topic.topic_name, partition.partition_index] = the_state(partition)
            if topic.topic_id == ZERO_UUID:
                self.topic_ids.pop(topic.topic_name, None)
            else:
                self.topic_ids[topic.topic_name] = topic.topic_id

    def _forget_ids_other_than(self, named: set[bytes]) -> None:
        """Topics go by their ids; partitions of a topic that stays are never taken away."""
        for topic, topic_id in list(self.topic_ids.items()):
            if topic_id not in named:
                del self.topic_ids[topic]
                self.metadata = {log: state for log, state in self.metadata.items() if log[0] != topic}

    def _leader_and_isr(self, request: LeaderAndIsrRequest) -> None:
        named = {}
        for topic in request.topic_states:
            for partition in topic.partition_states:
                log = (topic.topic_name, partition.partition_index)
                held = self.logs.get(log)
                moved_aside = request.type == UpdateKind.FULL
                assert held is None or held[0] == topic.topic_id or moved_aside, f"{log}: INCONSISTENT_TOPIC_ID"
                named[log] = (topic.topic_id, the_state(partition))
        if request.type == UpdateKind.FULL:
            self.logs.clear()  # what is not named is put aside as stray
        self.logs.update(named)

    def _stop_replica(self, request: StopReplicaRequest) -> None:
        for topic in request.topic_states:
            for partition in topic.partition_states:
                assert partition.delete_partition
                self.logs.pop((topic.topic_name, partition.partition_index), None)


@dataclass
class UpdatedBrokers:
    """The brokers of one cluster; `follow` restarts those whose epoch is another one now."""

    brokers: dict[int, UpdatedBroker] = field(default_factory=dict)

    def follow(self, image: Image) -> None:
        for broker in image.brokers.values():
            known = self.brokers.get(broker.id)
            if known is None or known.epoch != broker.epoch:
                logs = {} if known is None else known.logs
                self.brokers[broker.id] = UpdatedBroker(broker.epoch, logs=logs)

    def hear(self, orders: Iterable[BrokerUpdate]) -> None:
        for order in orders:
            self.brokers[order.broker].hear(order)


def assert_knows(broker: UpdatedBroker, broker_id: int, image: Image) -> None:
    """The broker believes exactly what the image says."""
    partitions = {(topic.name, each.id): (topic.id, each) for topic, each in image.partitions()}
    assert broker.alive == {each.id for each in image.brokers.values() if not each.fenced}
    assert broker.topic_ids == {topic.name: topic.id for topic in image.topics.values()}
    assert broker.metadata == {log: the_state(each) for log, (_, each) in partitions.items()}
    assert broker.logs == {
        log: (topic_id, the_state(each)) for log, (topic_id, each) in partitions.items() if broker_id in each.replicas
    }
