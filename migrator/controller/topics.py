"""Topics are created, deleted, and grow.

In:   CreateTopics, DeleteTopics, CreatePartitions.
Out:  Topic, Config, Partition and RemoveTopic records, all of one request in one batch; a result per topic.
Elsewhere: placement (placement.py), what a topic may be configured to (model.topic_configs).
Source: Kafka 3.9 `ReplicationControlManager`. Deletion is direct, since topics have ids (R-866-08).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from migrator.controller.decision import (
    RECORDS_PER_REQUEST_MAX,
    TOO_MANY,
    Decision,
    ItemRefused,
    Record,
    Situation,
    partition_version,
)
from migrator.controller.mutation_quotas import MutationQuota, Throttled, quota_for
from migrator.controller.names import refuse_name
from migrator.controller.partitions.placement import PlacementRefused, default_directory, manual_problem, place
from migrator.controller.znode_limits import larger_than_zookeeper_takes
from migrator.model.image import Image
from migrator.model.names import unified
from migrator.model.topic_configs import effective
from migrator.model.topic_rules import refuse_topic_config
from migrator.model.values import ZERO_ID, ConfigKey, ConfigType, Partition, Topic
from migrator.model.znode_sizes import assignment_bytes, topic_bytes
from migrator.records.builders import config_record, partition_record, topic_record
from migrator.wire.errors import Error
from migrator.wire.messages.metadata import RemoveTopicRecord
from migrator.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

METADATA_TOPIC = "__cluster_metadata"


def _quota(situation: Situation, *, strict: bool) -> MutationQuota:
    return quota_for(situation.image, situation.asker, situation.buckets, situation.now_ms, strict=strict)


def _take(quota: MutationQuota, partitions: int) -> None:
    try:
        quota.take(partitions)
    except Throttled as throttled:
        raise ItemRefused(Error.THROTTLING_QUOTA_EXCEEDED, str(throttled)) from throttled


# --- CreateTopics -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _NewTopic:
    """A topic on its way: its records, and how its result reads."""

    records: tuple[Record, ...]
    result: CreatableTopicResult


def create_topics(situation: Situation, request: CreateTopicsRequest, version: int) -> Decision:
    quota = _quota(situation, strict=version >= 6)
    counted = Counter(topic.name for topic in request.topics)
    records: list[Record] = []
    results = []
    collisions = _collisions(situation.image, request.topics)
    for topic in request.topics:
        try:
            if counted[topic.name] > 1:
                raise ItemRefused(Error.INVALID_REQUEST, "Duplicate topic name.")
            made = _create(situation, topic, collisions, quota)
        except ItemRefused as refused:
            results.append(CreatableTopicResult(topic.name, error_code=refused.error, error_message=str(refused)))
            continue
        records += made.records
        results.append(made.result)
    if len(records) > RECORDS_PER_REQUEST_MAX:
        return Decision(_too_many(request))
    if request.validate_only:
        records = []
    return Decision(CreateTopicsResponse(throttle_time_ms=quota.throttle_ms, topics=tuple(results)), tuple(records))


def _too_many(request: CreateTopicsRequest) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=tuple(
            CreatableTopicResult(topic.name, error_code=Error.POLICY_VIOLATION, error_message=TOO_MANY)
            for topic in request.topics
        )
    )


def _create(situation: Situation, topic: CreatableTopic, collisions: dict[str, str], quota: MutationQuota) -> _NewTopic:
    _check_name(situation.image, topic.name, collisions)
    unset = [config.name for config in topic.configs if config.value is None]
    if unset:
        raise ItemRefused(Error.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(unset)}")
    values = {config.name: config.value or "" for config in topic.configs}
    refusal = refuse_topic_config(values, inherited=situation.inherited)
    if refusal is not None:
        raise ItemRefused(Error.INVALID_CONFIG, refusal)
    assignments = _manual(situation.image, topic) if topic.assignments else _placed(situation, topic)
    _check_size(situation, topic.name, (), assignments)
    _take(quota, len(assignments))
    topic_id = situation.new_id(situation.image.topics)
    key = ConfigKey(ConfigType.TOPIC, topic.name)
    records: list[Record] = [(topic_record(topic.name, topic_id), 0)]
    records += [(config_record(key, name, value), 0) for name, value in values.items()]
    records += _partition_records(situation.image, topic_id, 0, assignments)
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(assignments),
        replication_factor=len(assignments[0]),
        configs=tuple(
            CreatableTopicConfigs(name, value, config_source=source)
            for name, (value, source) in sorted(effective(values, situation.inherited).items())
        ),
    )
    return _NewTopic(tuple(records), result)


def _check_size(situation: Situation, name: str, have: Sequence[Partition], new: Sequence[tuple[int, ...]]) -> None:
    grown = sum(assignment_bytes(partition, replicas) for partition, replicas in enumerate(new, len(have)))
    after = topic_bytes(name, have) + grown
    words = larger_than_zookeeper_takes(situation, f"Topic {name}", after, lambda: 0)
    if words is not None:
        raise ItemRefused(Error.POLICY_VIOLATION, words)


def _check_name(image: Image, name: str, collisions: dict[str, str]) -> None:
    if name == METADATA_TOPIC:
        raise ItemRefused(Error.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    if name in image.topic_ids:
        raise ItemRefused(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    refusal = refuse_name(name)
    if refusal is not None:
        raise ItemRefused(Error.INVALID_TOPIC_EXCEPTION, refusal)
    other = collisions.get(unified(name))
    if other is not None and other != name:
        raise ItemRefused(Error.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _collisions(image: Image, asked: Iterable[CreatableTopic]) -> dict[str, str]:
    """Names in use that differ from a wanted one by '.' and '_' only (metrics cannot tell them apart)."""
    wanted = {unified(topic.name) for topic in asked if "." in topic.name or "_" in topic.name}
    if not wanted:
        return {}
    in_use = (name for name in image.topic_ids if "." in name or "_" in name)
    return {alike: name for name in in_use if (alike := unified(name)) in wanted}


def _manual(image: Image, topic: CreatableTopic) -> list[tuple[int, ...]]:
    if topic.replication_factor != -1:
        message = "A manual partition assignment was specified, but replication factor was not set to -1."
        raise ItemRefused(Error.INVALID_REQUEST, message)
    if topic.num_partitions != -1:
        message = "A manual partition assignment was specified, but numPartitions was not set to -1."
        raise ItemRefused(Error.INVALID_REQUEST, message)
    by_partition = {each.partition_index: tuple(each.broker_ids) for each in topic.assignments}
    if len(by_partition) != len(topic.assignments):
        message = "Found multiple manual partition assignments for a partition"
        raise ItemRefused(Error.INVALID_REPLICA_ASSIGNMENT, message)
    if sorted(by_partition) != list(range(len(by_partition))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise ItemRefused(Error.INVALID_REPLICA_ASSIGNMENT, message)
    assignments = [by_partition[partition] for partition in sorted(by_partition)]
    _check_manual(image, assignments, len(assignments[0]), 0)
    return assignments


def _check_manual(image: Image, assignments: Sequence[tuple[int, ...]], size: int, first: int) -> None:
    for partition, replicas in enumerate(assignments, first):
        problem = manual_problem(image.brokers, replicas, size)
        if problem is None and not any(image.brokers[broker].active for broker in replicas):
            problem = (
                f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in "
                "controlled shutdown."
            )
        if problem is not None:
            raise ItemRefused(Error.INVALID_REPLICA_ASSIGNMENT, problem)


def _placed(situation: Situation, topic: CreatableTopic) -> list[tuple[int, ...]]:
    factor, partitions = topic.replication_factor, topic.num_partitions
    if factor < -1 or factor == 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        raise ItemRefused(Error.INVALID_REPLICATION_FACTOR, message)
    if partitions < -1 or partitions == 0:
        message = "Number of partitions was set to an invalid non-positive value."
        raise ItemRefused(Error.INVALID_PARTITIONS, message)
    settings = situation.settings
    wanted = settings.num_partitions if partitions == -1 else partitions
    if wanted > RECORDS_PER_REQUEST_MAX:
        message = f"Excessively large number of partitions per request: more than {RECORDS_PER_REQUEST_MAX}."
        raise ItemRefused(Error.POLICY_VIOLATION, message)
    return _place(situation, wanted, settings.default_replication_factor if factor == -1 else factor)


def _place(situation: Situation, partitions: int, replicas: int) -> list[tuple[int, ...]]:
    image = situation.image
    usable = [broker for broker in image.brokers.values() if not broker.in_controlled_shutdown]
    prefix = f"Unable to replicate the partition {replicas} time(s): "
    try:
        assignments = place(usable, partitions, replicas, situation.chance)
    except PlacementRefused as refused:
        raise ItemRefused(Error.INVALID_REPLICATION_FACTOR, prefix + str(refused)) from refused
    for assigned in assignments:
        if not any(image.brokers[broker].active for broker in assigned):
            message = prefix + "All brokers are currently fenced or in controlled shutdown."
            raise ItemRefused(Error.INVALID_REPLICATION_FACTOR, message)
    return assignments


def _partition_records(
    image: Image, topic_id: bytes, first: int, assignments: Iterable[tuple[int, ...]]
) -> list[Record]:
    version = partition_version(image.metadata_version)
    records: list[Record] = []
    for partition, replicas in enumerate(assignments, first):
        isr = tuple(broker for broker in replicas if image.brokers[broker].active)
        known = tuple(default_directory(image.brokers[broker]) for broker in replicas) if version >= 1 else ()
        made = Partition(partition, replicas, isr, leader=isr[0], directories=known)
        records.append((partition_record(topic_id, made), version))
    return records


# --- DeleteTopics -----------------------------------------------------------------------------------------


def delete_topics(situation: Situation, request: DeleteTopicsRequest, version: int) -> Decision:
    """Each topic by name or id; unknown ones are answered one by one. Many lie in several batches: a crash may leave
    the rest of them, and whoever gets no answer asks again. Stock fails over at more than 10,000.
    """
    asked = list(request.topics) or [DeleteTopicState(name=name) for name in request.topic_names]
    if not situation.settings.delete_topic_enabled:
        error = Error.INVALID_REQUEST if version < 3 else Error.TOPIC_DELETION_DISABLED
        return Decision(
            DeleteTopicsResponse(
                responses=tuple(
                    DeletableTopicResult(each.name, each.topic_id, error, "Topic deletion is disabled.")
                    for each in asked
                )
            )
        )
    quota = _quota(situation, strict=version >= 5)
    found = [_find(situation.image, each) for each in asked]
    counted = Counter(topic.id for topic in found if isinstance(topic, Topic))
    records: list[Record] = []
    results = []
    for each, topic in zip(asked, found, strict=True):
        if not isinstance(topic, Topic):
            results.append(DeletableTopicResult(each.name, each.topic_id, topic, None))
        elif counted[topic.id] > 1:
            message = f"The provided topic {topic.name} is mentioned more than once."
            results.append(DeletableTopicResult(topic.name, topic.id, Error.INVALID_REQUEST, message))
        else:
            try:
                _take(quota, len(topic.partitions))
            except ItemRefused as refused:
                results.append(DeletableTopicResult(topic.name, topic.id, refused.error, str(refused)))
                continue
            records.append((RemoveTopicRecord(topic_id=topic.id), 0))
            results.append(DeletableTopicResult(topic.name, topic.id))
    reply = DeleteTopicsResponse(throttle_time_ms=quota.throttle_ms, responses=tuple(results))
    return Decision(reply, tuple(records), divisible=True)


def _find(image: Image, asked: DeleteTopicState) -> Topic | Error:
    if (asked.name is not None) == (asked.topic_id != ZERO_ID):  # both, or neither
        return Error.INVALID_REQUEST
    if asked.name is not None:
        return image.topic(asked.name) or Error.UNKNOWN_TOPIC_OR_PARTITION
    return image.topics.get(asked.topic_id) or Error.UNKNOWN_TOPIC_ID


# --- CreatePartitions -------------------------------------------------------------------------------------


def create_partitions(situation: Situation, request: CreatePartitionsRequest, version: int) -> Decision:
    quota = _quota(situation, strict=version >= 3)
    counted = Counter(topic.name for topic in request.topics)
    records: list[Record] = []
    results = []
    for asked in request.topics:
        try:
            if counted[asked.name] > 1:
                raise ItemRefused(Error.INVALID_REQUEST, "Duplicate topic in request.")
            records += _grow(situation, asked, quota)
        except ItemRefused as refused:
            results.append(CreatePartitionsTopicResult(asked.name, refused.error, str(refused) or None))
            continue
        results.append(CreatePartitionsTopicResult(asked.name))
    if len(records) > RECORDS_PER_REQUEST_MAX:
        results = [
            CreatePartitionsTopicResult(asked.name, Error.POLICY_VIOLATION, TOO_MANY) for asked in request.topics
        ]
        records = []
    if request.validate_only:
        records = []
    return Decision(CreatePartitionsResponse(quota.throttle_ms, tuple(results)), tuple(records))


def _grow(situation: Situation, asked: CreatePartitionsTopic, quota: MutationQuota) -> list[Record]:
    image = situation.image
    topic = image.topic(asked.name)
    if topic is None:
        raise ItemRefused(Error.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    have = len(topic.partitions)
    if asked.count == have:
        raise ItemRefused(Error.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if asked.count < have:
        message = f"The topic {asked.name} currently has {have} partition(s); {asked.count} would not be an increase."
        raise ItemRefused(Error.INVALID_PARTITIONS, message)
    more, size = asked.count - have, len(topic.partitions[0].replicas)
    if more > RECORDS_PER_REQUEST_MAX:
        message = f"Excessively large number of partitions per request: more than {RECORDS_PER_REQUEST_MAX}."
        raise ItemRefused(Error.POLICY_VIOLATION, message)
    if asked.assignments is not None and len(asked.assignments) != more:
        message = (
            f"Attempted to add {more} additional partition(s), but only {len(asked.assignments)} assignment(s) "
            "were specified."
        )
        raise ItemRefused(Error.INVALID_REPLICA_ASSIGNMENT, message)
    _take(quota, more)
    if asked.assignments is None:
        assignments = _place(situation, more, size)
    else:
        assignments = [tuple(each.broker_ids) for each in asked.assignments]
        _check_manual(image, assignments, size, have)
    _check_size(situation, topic.name, topic.partitions, assignments)
    return _partition_records(image, topic.id, have, assignments)
