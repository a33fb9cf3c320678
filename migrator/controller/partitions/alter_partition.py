"""A leader proposes the in-sync set of its partition (R-595-15).

In:   AlterPartition, versions 0 to 3.
Out:  one PartitionChangeRecord per partition that changes; an answer per partition.
Source: Kafka 3.9 `ReplicationControlManager.alterPartition`. A request that is ahead of us is answered
NOT_CONTROLLER at partition level: then we are the stale one.
"""

from __future__ import annotations

from collections.abc import Sequence

from migrator.controller.decision import Decision, Record, Situation
from migrator.controller.partitions.elections import Election, able_to_lead, change, unclean_enabled
from migrator.controller.replay import changed
from migrator.model.image import Image
from migrator.model.values import Partition, Recovery, Topic
from migrator.wire.errors import Error
from migrator.wire.messages.metadata import NO_LEADER_CHANGE, PartitionChangeRecord
from migrator.wire.messages.partitions import (
    AlterPartitionPartition,
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    AlterPartitionTopicResult,
    IsrBroker,
)


def alter_partition(situation: Situation, request: AlterPartitionRequest, version: int) -> Decision:
    broker = situation.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Decision(AlterPartitionResponse(error_code=Error.STALE_BROKER_EPOCH))
    records: list[Record] = []
    topics = tuple(_alter_topic(situation, request.broker_id, each, version, records) for each in request.topics)
    return Decision(AlterPartitionResponse(topics=topics), tuple(records), divisible=True)


def _alter_topic(
    situation: Situation, sender: int, asked: AlterPartitionTopic, version: int, records: list[Record]
) -> AlterPartitionTopicResult:
    image = situation.image
    topic = image.topics.get(asked.topic_id) if version >= 2 else image.topic(asked.topic_name)
    results = []
    for partition in asked.partitions:
        if topic is None:
            error = Error.UNKNOWN_TOPIC_ID if version >= 2 else Error.UNKNOWN_TOPIC_OR_PARTITION
            results.append(AlterPartitionPartitionResult(partition.partition_index, error))
        else:
            results.append(_alter_one(situation, sender, topic, partition, version, records))
    return AlterPartitionTopicResult(asked.topic_name, asked.topic_id, tuple(results))


def _alter_one(
    situation: Situation,
    sender: int,
    topic: Topic,
    asked: AlterPartitionPartition,
    version: int,
    records: list[Record],
) -> AlterPartitionPartitionResult:
    wanted = proposed(asked, version)
    partition = topic.partition(asked.partition_index)
    error = _refuse(situation.image, sender, partition, asked, wanted, version)
    if error is not Error.NONE or partition is None:
        return AlterPartitionPartitionResult(asked.partition_index, error)
    record = change(
        topic.id,
        partition,
        may_lead=able_to_lead(situation.image, partition, _active_replicas(situation.image, partition)),
        level=situation.image.metadata_version,
        migration_enabled=situation.settings.migration_enabled,
        isr=[member.broker_id for member in wanted],
        election=Election.UNCLEAN if unclean_enabled(situation, topic.name) else Election.ONLINE,
        recovery=asked.leader_recovery_state,
    )
    if record is not None:
        records.append(record)
        message = record[0]
        assert isinstance(message, PartitionChangeRecord)
        partition = changed(partition, message)
        if message.leader not in (sender, NO_LEADER_CHANGE):
            # The change is written all the same; the sender has to ask for fresh metadata.
            moved = Error.NEW_LEADER_ELECTED if version >= 2 else Error.FENCED_LEADER_EPOCH
            return AlterPartitionPartitionResult(asked.partition_index, moved)
    return AlterPartitionPartitionResult(
        partition_index=partition.id,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.recovery,
        partition_epoch=partition.partition_epoch,
    )


def _active_replicas(image: Image, partition: Partition) -> frozenset[int]:
    """Only a replica may lead. All brokers, looked at for each partition of a large request, took most of its time."""
    known = ((each, image.brokers.get(each)) for each in partition.replicas)
    return frozenset(each for each, broker in known if broker is not None and broker.active)


def proposed(asked: AlterPartitionPartition, version: int) -> Sequence[IsrBroker]:
    if version >= 3:
        return asked.new_isr_with_epochs
    return [IsrBroker(broker) for broker in asked.new_isr]


def _refuse(
    image: Image,
    sender: int,
    partition: Partition | None,
    asked: AlterPartitionPartition,
    wanted: Sequence[IsrBroker],
    version: int,
) -> Error:
    """The checks in stock's order; the first failure is the answer."""
    if partition is None:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        return Error.NOT_CONTROLLER
    if asked.leader_epoch < partition.leader_epoch:
        return Error.FENCED_LEADER_EPOCH
    if sender != partition.leader:
        return Error.INVALID_REQUEST
    if asked.partition_epoch < partition.partition_epoch:
        return Error.INVALID_UPDATE_VERSION
    members = [member.broker_id for member in wanted]
    if len(set(members)) != len(members) or not set(members) <= set(partition.replicas):
        return Error.INVALID_REQUEST
    if partition.leader not in members:
        return Error.INVALID_REQUEST
    recovering = asked.leader_recovery_state == Recovery.RECOVERING
    if recovering and (len(members) > 1 or partition.recovery == Recovery.RECOVERED):
        return Error.INVALID_REQUEST
    if not all(_eligible(image, member) for member in wanted):
        return Error.INELIGIBLE_REPLICA if version >= 2 else Error.OPERATION_NOT_ATTEMPTED
    return Error.NONE


def _eligible(image: Image, member: IsrBroker) -> bool:
    broker = image.brokers.get(member.broker_id)
    return broker is not None and broker.active and member.broker_epoch in (-1, broker.epoch)
