"""Topics are created, deleted and grow: what is refused and why, and what the records make of the cluster."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from migrator.controller.decision import RECORDS_PER_REQUEST_MAX, Decision, Situation
from migrator.controller.topics import create_partitions, create_topics, delete_topics
from migrator.model.image import METADATA_VERSION
from migrator.model.topic_configs import ConfigSource
from migrator.model.values import UNASSIGNED_DIRECTORY, ZERO_ID, Broker, ConfigType
from migrator.wire.errors import Error
from migrator.wire.messages.metadata import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from migrator.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsAssignment,
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
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image
from tests.support.situations import a_situation, after, messages


def a_cluster(*brokers: int | Broker, **settings: Any) -> Situation:
    """`orders` has two partitions, `a.b` has a dot in its name."""
    image = an_image(
        a_topic("orders", 2),
        a_topic("a.b", 1),
        brokers=brokers or (1, 2, 3, a_broker(4, fenced=True)),
        topic_configs={"orders": {"retention.ms": "1"}},
    )
    return a_situation(image, **settings)


def configs(**values: str | None) -> tuple[CreatableTopicConfig, ...]:
    return tuple(CreatableTopicConfig(name.replace("_", "."), value) for name, value in values.items())


def assigned(*replicas: tuple[int, ...]) -> dict[str, Any]:
    """A manual assignment, partitions in order."""
    return {
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": tuple(CreatableReplicaAssignment(each, brokers) for each, brokers in enumerate(replicas)),
    }


def a_new(name: str = "new", **changes: Any) -> CreatableTopic:
    return CreatableTopic(**{"name": name, "num_partitions": 2, "replication_factor": 2, **changes})


def create(
    situation: Situation, *topics: CreatableTopic, validate_only: bool = False
) -> tuple[list[CreatableTopicResult], Decision]:
    decision = create_topics(situation, CreateTopicsRequest(topics, validate_only=validate_only), 7)
    assert isinstance(decision.reply, CreateTopicsResponse)
    return list(decision.reply.topics), decision


# --- CreateTopics -----------------------------------------------------------------------------------------


def test_a_topic_is_one_batch_of_itself_its_configuration_and_its_partitions() -> None:
    situation = a_cluster()
    (result,), decision = create(situation, a_new(num_partitions=3, configs=configs(cleanup_policy="compact")))
    topic, config, *partitions = messages(decision)
    assert topic == TopicRecord(name="new", topic_id=result.topic_id)
    assert config == ConfigRecord(
        resource_type=ConfigType.TOPIC, resource_name="new", name="cleanup.policy", value="compact"
    )
    assert [getattr(each, "partition_id", None) for each in partitions] == [0, 1, 2]
    image = after(situation, decision).image
    made = image.topic("new")
    assert made is not None
    for partition in made.partitions:
        assert len(set(partition.replicas)) == 2
        assert (partition.isr, partition.leader) == (partition.replicas, partition.replicas[0])
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert (result.error_code, result.num_partitions, result.replication_factor) == (Error.NONE, 3, 2)
    assert dict(image.config(ConfigType.TOPIC, "new")) == {"cleanup.policy": "compact"}


def test_a_new_partition_is_in_sync_where_brokers_are_well_and_led_by_the_first_of_them() -> None:
    leaving = a_broker(5, in_controlled_shutdown=True)
    situation = a_cluster(1, 2, a_broker(4, fenced=True), leaving)
    (result,), decision = create(situation, a_new(**assigned((4, 5, 2, 1))))
    assert result.error_code == Error.NONE
    record = messages(decision)[-1]
    assert isinstance(record, PartitionRecord)
    assert (record.replicas, record.isr, record.leader) == ((4, 5, 2, 1), (2, 1), 2)


@pytest.mark.parametrize("level", [16, 17])
def test_the_directory_of_a_replica_is_named_where_the_level_knows_directories(level: int) -> None:
    """R-866-14: one directory is it, several are to be told by the broker, none means that it still migrates."""
    brokers = (1, a_broker(2, log_dirs=()), a_broker(3, log_dirs=(an_id("x"), an_id("y"))))
    situation = a_cluster(*brokers)
    features = situation.image.features.set(METADATA_VERSION, level)
    situation = a_situation(msgspec.structs.replace(situation.image, features=features))
    _, decision = create(situation, a_new(**assigned((1, 2, 3))))
    record, version = decision.records[-1]
    assert isinstance(record, PartitionRecord)
    named = (an_id("dir-1"), ZERO_ID, UNASSIGNED_DIRECTORY)
    assert (record.directories, version) == ((named, 1) if level >= 17 else ((), 0))


def test_what_is_left_to_the_controller_comes_from_its_file() -> None:
    situation = a_cluster(num_partitions=4, default_replication_factor=3)
    (result,), _ = create(situation, a_new(num_partitions=-1, replication_factor=-1))
    assert (result.num_partitions, result.replication_factor) == (4, 3)


def test_the_answer_shows_the_whole_configuration_and_where_each_value_is_from() -> None:
    image = an_image(broker_configs={"": {"log.segment.bytes": "1048576"}})
    situation = a_situation(image, static={"log.retention.hours": "2", "log.cleanup.policy": "compact"})
    (result,), _ = create(situation, a_new(configs=configs(cleanup_policy="delete")))
    shown = {each.name: (each.value, each.config_source) for each in result.configs or ()}
    assert shown["cleanup.policy"] == ("delete", ConfigSource.DYNAMIC_TOPIC)
    assert shown["segment.bytes"] == ("1048576", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert shown["retention.ms"] == ("7200000", ConfigSource.STATIC_BROKER)
    assert shown["flush.ms"] == (str(2**63 - 1), ConfigSource.DEFAULT)
    assert list(shown) == sorted(shown)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (a_new("__cluster_metadata"), Error.INVALID_REQUEST),
        (a_new("orders"), Error.TOPIC_ALREADY_EXISTS),
        (a_new(""), Error.INVALID_TOPIC_EXCEPTION),
        (a_new("."), Error.INVALID_TOPIC_EXCEPTION),
        (a_new(".."), Error.INVALID_TOPIC_EXCEPTION),
        (a_new("x" * 250), Error.INVALID_TOPIC_EXCEPTION),
        (a_new("a b"), Error.INVALID_TOPIC_EXCEPTION),
        (a_new("ä"), Error.INVALID_TOPIC_EXCEPTION),
        (a_new("new\n"), Error.INVALID_TOPIC_EXCEPTION),
        (a_new("a_b"), Error.INVALID_TOPIC_EXCEPTION),  # metrics could not tell it from a.b
        (a_new("x" * 249), Error.NONE),
        (a_new("a-b"), Error.NONE),
        (a_new(configs=configs(retention_ms=None)), Error.INVALID_CONFIG),
        (a_new(configs=configs(no_such_key="1")), Error.INVALID_CONFIG),
        (a_new(configs=configs(retention_ms="soon")), Error.INVALID_CONFIG),
        (a_new(replication_factor=0), Error.INVALID_REPLICATION_FACTOR),
        (a_new(replication_factor=-2), Error.INVALID_REPLICATION_FACTOR),
        (a_new(replication_factor=5), Error.INVALID_REPLICATION_FACTOR),
        (a_new(replication_factor=4), Error.NONE),  # a fenced broker may follow
        (a_new(num_partitions=0), Error.INVALID_PARTITIONS),
        (a_new(num_partitions=-2), Error.INVALID_PARTITIONS),
        (a_new(num_partitions=RECORDS_PER_REQUEST_MAX + 1), Error.POLICY_VIOLATION),
        (a_new(**{**assigned((1,)), "replication_factor": 1}), Error.INVALID_REQUEST),
        (a_new(**{**assigned((1,)), "num_partitions": 1}), Error.INVALID_REQUEST),
        (a_new(**assigned(())), Error.INVALID_REPLICA_ASSIGNMENT),
        (a_new(**assigned((1, 1))), Error.INVALID_REPLICA_ASSIGNMENT),
        (a_new(**assigned((1, 9))), Error.INVALID_REPLICA_ASSIGNMENT),
        (a_new(**assigned((1, 2), (3,))), Error.INVALID_REPLICA_ASSIGNMENT),
        (a_new(**assigned((4,))), Error.INVALID_REPLICA_ASSIGNMENT),  # nobody of it is well
        (a_new(**assigned((4, 1), (2, 3))), Error.NONE),
        (
            a_new(**{**assigned(), "assignments": (CreatableReplicaAssignment(1, (1,)),)}),
            Error.INVALID_REPLICA_ASSIGNMENT,  # partition 0 is missing
        ),
        (
            a_new(**{**assigned(), "assignments": (CreatableReplicaAssignment(0, (1,)),) * 2}),
            Error.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Error) else None,
)
def test_a_topic_that_cannot_be_is_refused_with_words(topic: CreatableTopic, error: Error) -> None:
    (result,), decision = create(a_cluster(), topic)
    assert result.error_code == error, result.error_message
    assert bool(result.error_message) == (error is not Error.NONE)
    assert bool(decision.records) == (error is Error.NONE)


def test_where_every_broker_is_fenced_nothing_can_be_created() -> None:
    (result,), _ = create(a_cluster(a_broker(1, fenced=True)), a_new(replication_factor=1))
    assert result.error_code == Error.INVALID_REPLICATION_FACTOR
    assert "All brokers are currently fenced" in (result.error_message or "")


def test_a_name_given_twice_is_refused_both_times_and_the_others_are_created() -> None:
    results, decision = create(a_cluster(), a_new("twice"), a_new("once"), a_new("twice"))
    assert [each.error_code for each in results] == [Error.INVALID_REQUEST, Error.NONE, Error.INVALID_REQUEST]
    assert [each.name for each in messages(decision) if isinstance(each, TopicRecord)] == ["once"]


def test_a_request_too_large_for_one_batch_creates_nothing_of_it() -> None:
    topics = [a_new(f"t{each}", num_partitions=4_000) for each in range(3)]
    results, decision = create(a_cluster(), *topics)
    assert {each.error_code for each in results} == {Error.POLICY_VIOLATION}
    assert decision.records == ()


def test_a_trial_answers_like_the_real_thing_and_writes_nothing() -> None:
    results, decision = create(a_cluster(), a_new(), a_new("orders"), validate_only=True)
    assert [each.error_code for each in results] == [Error.NONE, Error.TOPIC_ALREADY_EXISTS]
    assert decision.records == ()


def test_topics_of_one_request_have_different_ids() -> None:
    results, _ = create(a_cluster(), *(a_new(f"t{each}") for each in range(50)))
    ids = {each.topic_id for each in results}
    assert len(ids) == 50
    assert all(any(each[:15]) and each[0] >> 2 != 62 for each in ids)  # neither reserved nor beginning with a dash


# --- DeleteTopics -----------------------------------------------------------------------------------------


def delete(
    situation: Situation, *topics: DeleteTopicState, version: int = 6, names: tuple[str, ...] = ()
) -> tuple[list[DeletableTopicResult], Decision]:
    decision = delete_topics(situation, DeleteTopicsRequest(topics, topic_names=names), version)
    assert isinstance(decision.reply, DeleteTopicsResponse)
    return list(decision.reply.responses), decision


def test_a_topic_goes_at_once_and_takes_its_configuration_along() -> None:
    """R-866-08: one record, by id; no state in between."""
    situation = a_cluster()
    results, decision = delete(situation, names=("orders",), version=5)
    assert messages(decision) == [RemoveTopicRecord(topic_id=an_id("orders"))]
    assert [(each.name, each.topic_id, each.error_code) for each in results] == [("orders", an_id("orders"), 0)]
    image = after(situation, decision).image
    assert sorted(image.topic_ids) == ["a.b"]
    assert not image.configs


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (DeleteTopicState(name="nothing"), Error.UNKNOWN_TOPIC_OR_PARTITION),
        (DeleteTopicState(topic_id=an_id("nothing")), Error.UNKNOWN_TOPIC_ID),
        (DeleteTopicState(name="orders", topic_id=an_id("orders")), Error.INVALID_REQUEST),
        (DeleteTopicState(topic_id=an_id("orders")), Error.NONE),
        (DeleteTopicState(name="orders"), Error.NONE),
    ],
)
def test_a_topic_is_deleted_by_name_or_by_id(asked: DeleteTopicState, error: Error) -> None:
    results, decision = delete(a_cluster(), asked, DeleteTopicState(name="a.b"))
    assert [each.error_code for each in results] == [error, Error.NONE]
    assert len(decision.records) == (1 if error else 2)


def test_of_two_topics_that_were_copied_and_collide_one_that_is_deleted_is_not_created_again() -> None:
    """What Z2K-1038 warns of: both go on, until one of them is deleted."""
    situation = a_situation(an_image(a_topic("a.b", 1), a_topic("a_b", 1), brokers=(1, 2, 3)))
    (there,), _ = create(situation, a_new("a.b"))
    assert there.error_code == Error.TOPIC_ALREADY_EXISTS
    _, decision = delete(situation, DeleteTopicState(name="a.b"))
    (refused,), nothing = create(after(situation, decision), a_new("a.b"))
    assert (refused.error_code, nothing.records) == (Error.INVALID_TOPIC_EXCEPTION, ())
    assert refused.error_message == "Topic 'a.b' collides with existing topic: a_b"


def test_a_topic_mentioned_twice_is_not_deleted() -> None:
    by_name, by_id = DeleteTopicState(name="orders"), DeleteTopicState(topic_id=an_id("orders"))
    results, decision = delete(a_cluster(), by_name, by_id)
    assert [each.error_code for each in results] == [Error.INVALID_REQUEST] * 2
    assert decision.records == ()


@pytest.mark.parametrize(("version", "error"), [(2, Error.INVALID_REQUEST), (3, Error.TOPIC_DELETION_DISABLED)])
def test_where_deletion_is_switched_off_every_topic_is_refused(version: int, error: Error) -> None:
    results, decision = delete(a_cluster(delete_topic_enabled=False), names=("orders", "nothing"), version=version)
    assert [each.error_code for each in results] == [error, error]
    assert decision.records == ()


# --- CreatePartitions -------------------------------------------------------------------------------------


def grow(
    situation: Situation, *topics: CreatePartitionsTopic, validate_only: bool = False
) -> tuple[list[CreatePartitionsTopicResult], Decision]:
    decision = create_partitions(situation, CreatePartitionsRequest(topics, validate_only=validate_only), 3)
    assert isinstance(decision.reply, CreatePartitionsResponse)
    return list(decision.reply.results), decision


def to(count: int, *replicas: tuple[int, ...], name: str = "orders") -> CreatePartitionsTopic:
    given = tuple(CreatePartitionsAssignment(each) for each in replicas) if replicas else None
    return CreatePartitionsTopic(name, count, given)


def test_a_topic_grows_by_partitions_of_the_size_it_has() -> None:
    situation = a_cluster()
    (result,), decision = grow(situation, to(5))
    assert (result.error_code, result.error_message) == (Error.NONE, None)
    topic = after(situation, decision).image.topic("orders")
    assert topic is not None
    assert [each.id for each in topic.partitions] == [0, 1, 2, 3, 4]
    assert topic.partitions[:2] == (a_partition(0), a_partition(1))
    assert {len(each.replicas) for each in topic.partitions} == {3}
    assert grow(situation, to(5), validate_only=True)[1].records == ()


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (to(3, (3, 1, 4)), Error.NONE),
        (to(3, name="nothing"), Error.UNKNOWN_TOPIC_OR_PARTITION),
        (to(2), Error.INVALID_PARTITIONS),
        (to(1), Error.INVALID_PARTITIONS),
        (to(4, (1, 2, 3)), Error.INVALID_REPLICA_ASSIGNMENT),  # two are wanted, one is given
        (to(3, (1, 2)), Error.INVALID_REPLICA_ASSIGNMENT),
        (to(3, (1, 2, 9)), Error.INVALID_REPLICA_ASSIGNMENT),
        (to(3, (1, 2, 2)), Error.INVALID_REPLICA_ASSIGNMENT),
        (to(RECORDS_PER_REQUEST_MAX + 3), Error.POLICY_VIOLATION),
    ],
)
def test_a_topic_that_cannot_grow_so_is_refused(asked: CreatePartitionsTopic, error: Error) -> None:
    (result,), decision = grow(a_cluster(), asked)
    assert result.error_code == error, result.error_message
    assert bool(decision.records) == (error is Error.NONE)


def test_a_topic_asked_to_grow_twice_does_not_grow() -> None:
    results, decision = grow(a_cluster(), to(3), to(4))
    assert [each.error_code for each in results] == [Error.INVALID_REQUEST] * 2
    assert decision.records == ()


def test_growth_beyond_one_batch_is_refused_as_a_whole() -> None:
    """The limit counts over the request; each of the two topics alone would be below it."""
    results, decision = grow(a_cluster(), to(6_002), to(6_001, name="a.b"))
    assert {each.error_code for each in results} == {Error.POLICY_VIOLATION}
    assert decision.records == ()


def test_a_partition_nobody_could_lead_is_not_created() -> None:
    fenced = [a_broker(each, fenced=each != 3) for each in (1, 2, 3)]
    (result,), _ = grow(a_cluster(*fenced), to(2, (1,), name="a.b"))
    assert result.error_code == Error.INVALID_REPLICA_ASSIGNMENT
