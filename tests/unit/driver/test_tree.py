"""From znodes as read to values: what is taken over, what is named as a problem, and nothing that is invented."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import pytest
from hypothesis import given, settings

from migrator.driver.tree import (
    StateReader,
    TopicReading,
    Tree,
    as_image,
    head_again,
    live_and_assigned,
    read_config,
    read_head,
    replicas_gone,
)
from migrator.findings.finding import FindingError, Occurrence
from migrator.model.diff import diff
from migrator.model.image import Image, Position
from migrator.model.values import ConfigType, MigrationState
from migrator.zk import paths
from migrator.zk.znodes import BrokerZnode, config_data, state_data, topic_data
from tests.support.arbitrary_images import images
from tests.support.builders import a_partition, a_topic, an_id, an_image


@dataclass
class Seen:
    """A znode as read."""

    data: bytes | None
    version: int = 0
    mzxid: int = 7


def read_topic(partitions: int = 2, states: list[Seen | None] | None = None) -> tuple[TopicReading, list[Occurrence]]:
    topic = a_topic("orders", partitions)
    head = read_head("orders", Seen(topic_data(topic), mzxid=40))
    found: list[Seen | None] = [Seen(state_data(each, 3), 0, 50 + each.id) for each in topic.partitions]
    problems: list[Occurrence] = []
    reading = StateReader().read(head, iter(states or found), {"a": "b"}, 60, problems)
    return reading, problems


def test_a_topic_is_read_with_what_tells_later_whether_it_moved() -> None:
    reading, problems = read_topic()
    assert problems == []
    assert reading.sound
    assert reading.topic == a_topic("orders", 2)
    assert (reading.mzxid, reading.config_mzxid, list(reading.state_mzxids)) == (40, 60, [50, 51])
    assert reading.config == {"a": "b"}
    assert reading.controller_epoch_max == 3


def test_the_partition_epoch_is_the_version_of_the_state_znode() -> None:
    states = [Seen(state_data(a_partition(0), 3), 12), Seen(state_data(a_partition(1), 8), 0)]
    reading, _ = read_topic(states=list(states))
    assert [each.partition_epoch for each in reading.topic.partitions] == [12, 0]
    assert reading.controller_epoch_max == 8


def test_equal_replica_lists_are_one_value() -> None:
    """A million partitions use few lists; each of its own would cost a hundred bytes."""
    reading, _ = read_topic(3)
    first, *others = reading.topic.partitions
    assert all(each.replicas is first.replicas and each.isr is first.isr for each in others)


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (None, "Z2K-1003"),
        (Seen(None), "Z2K-1001"),
        (Seen(b""), "Z2K-1001"),
        (Seen(b"[]"), "Z2K-1001"),
        (Seen(b'{"leader":1,"leader_epoch":0,"isr":[1]}'), "Z2K-1001"),
        (Seen(b'{"leader":2147483648,"leader_epoch":0,"isr":[1],"controller_epoch":1}'), "Z2K-1001"),
        (Seen(b'{"leader":1,"leader_epoch":0,"isr":[99999999999999999999],"controller_epoch":1}'), "Z2K-1001"),
        (Seen(b'{"x":' + b"[" * 100_000), "Z2K-1001"),
    ],
)
def test_a_state_that_is_missing_or_malformed_is_named_and_not_invented(state: Seen | None, code: str) -> None:
    """F-26: stock would go on with every replica in sync at leader epoch 0."""
    good = Seen(state_data(a_partition(0), 3))
    reading, problems = read_topic(states=[good, state])
    assert [(each.code, each.values["path"]) for each in problems] == [(code, paths.state("orders", 1))]
    assert [each.id for each in reading.topic.partitions] == [0]
    assert not reading.sound
    assert len(reading.state_mzxids) == 2


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        (b'{"partitions":{"0":[1]},"version":1}', "Z2K-1002", ""),  # F-23
        (b'{"partitions":{"0":[1]},"topic_id":null}', "Z2K-1002", ""),
        (b'{"partitions":{"0":[1]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAA"}', "Z2K-1001", "not the id of a topic"),
        (b'{"partitions":{"1":[1]},"topic_id":"%s"}', "Z2K-1001", "[1], not 0 to n-1"),
        (b'{"partitions":{"0":[1],"2":[1]},"topic_id":"%s"}', "Z2K-1001", "[0, 2], not 0 to n-1"),
        (b'{"partitions":{"0":[1],"00":[2]},"topic_id":"%s"}', "Z2K-1001", "partition id"),
        (b'{"partitions":{" 0":[1]},"topic_id":"%s"}', "Z2K-1001", "partition id"),
        (b'{"partitions":{"x":[1]},"topic_id":"%s"}', "Z2K-1001", "partition id"),
        (b'{"partitions":{"0":[1.5]},"topic_id":"%s"}', "Z2K-1001", "int"),
        (b'{"partitions":{"0":["1"]},"topic_id":"%s"}', "Z2K-1001", "int"),
        (b'{"partitions":[],"topic_id":"%s"}', "Z2K-1001", "object"),
        (b"null", "Z2K-1001", "object"),
        (b"", "Z2K-1001", ""),
        (None, "Z2K-1001", ""),
    ],
)
def test_a_topic_znode_that_kafka_does_not_write_is_refused_by_its_path(
    data: bytes | None, code: str, says: str
) -> None:
    filled = None if data is None else data.replace(b"%s", b"A" * 21 + b"Q")
    with pytest.raises(FindingError) as raised:
        read_head("orders", Seen(filled))
    assert raised.value.code == code
    assert raised.value.occurrence.values["path"] == paths.topic("orders")
    assert says in str(raised.value)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_older_versions_of_the_topic_znode_are_read_as_far_as_they_go(version: int) -> None:
    later = b',"adding_replicas":{},"removing_replicas":{"0":[2]}' if version > 1 else b""
    data = b'{"partitions":{"0":[1,2]},"topic_id":"%s","version":%d%s}' % (b"A" * 21 + b"Q", version, later)
    head = read_head("orders", Seen(data))
    assert head.replicas == {0: (1, 2)}
    assert (head.adding, head.removing) == ({}, {0: (2,)} if version > 1 else {})


def test_ten_and_more_partitions_are_in_the_order_of_their_numbers() -> None:
    head = read_head("orders", Seen(topic_data(a_topic("orders", 12))))
    assert list(head.replicas) == list(range(12))


def test_a_head_taken_over_is_the_one_that_would_be_parsed_again() -> None:
    topic = a_topic("orders", [a_partition(0, adding=(3,)), a_partition(1, removing=(1,)), a_partition(2)])
    parsed = read_head("orders", Seen(topic_data(topic), mzxid=4))
    assert head_again(TopicReading(topic, {}, 4, -1, array("q", [1, 1, 1]), 1)) == parsed


# --- configurations and the families that are not copied --------------------------------------------------


@pytest.mark.parametrize(
    ("znode", "config", "mzxid", "problems"),
    [
        (None, {}, -1, 0),
        (Seen(None), {}, 7, 0),
        (Seen(config_data({"a": "b"})), {"a": "b"}, 7, 0),
        (Seen(b"no json"), {}, 7, 1),
        (Seen(b'{"version":2,"config":{}}'), {}, 7, 1),
        (Seen(b'{"version":1,"config":{"a":1}}'), {}, 7, 1),
        (Seen(config_data({"a": "x" * 32_767})), {"a": "x" * 32_767}, 7, 0),
        (Seen(config_data({"a": "\u00e9" * 16_384})), {}, 7, 1),  # no metadata record holds it
    ],
)
def test_a_configuration_is_read_or_named(
    znode: Seen | None, config: dict[str, str], mzxid: int, problems: int
) -> None:
    """F-32: stock takes unparsable JSON for "no configuration", and a copy of that loses it."""
    found: list[Occurrence] = []
    assert read_config("/config/topics/orders", znode, found) == (config, mzxid)
    assert [(each.code, each.values["path"]) for each in found] == [("Z2K-1001", "/config/topics/orders")] * problems


def test_brokers_that_live_and_brokers_that_assignments_name() -> None:
    """F-01: an id may be in an assignment alone."""
    reading, _ = read_topic()
    tree = Tree(topics={"orders": reading}, brokers={1: BrokerZnode(5), 9: BrokerZnode(5)})
    assert live_and_assigned(tree) == ({1, 9}, {1: "orders", 2: "orders", 3: "orders"})


# --- the tree as an image ---------------------------------------------------------------------------------


def as_tree(image: Image) -> Tree:
    tree = Tree()
    for topic in image.topics.values():
        head = read_head(topic.name, Seen(topic_data(topic)))
        states = (Seen(state_data(each, 3), each.partition_epoch) for each in topic.partitions)
        config = dict(image.config(ConfigType.TOPIC, topic.name))
        tree.topics[topic.name] = StateReader().read(head, states, config, 1, tree.problems)
    return tree


@settings(max_examples=60, deadline=None)
@given(image=images())
def test_topics_written_as_znodes_and_read_again_are_the_same(image: Image) -> None:
    tree = as_tree(image)
    assert tree.problems == []
    assert not diff(as_image(tree), image).topics


def test_what_zookeeper_has_no_form_of_comes_from_the_log() -> None:
    base = an_image(a_topic("other"), migration=MigrationState.MIGRATION)
    reading, _ = read_topic()
    image = as_image(Tree(topics={"orders": reading}), base, Position(9, 9))
    assert list(image.topic_ids) == ["orders"]
    assert (image.brokers, image.features, image.migration) == (base.brokers, base.features, base.migration)
    assert image.position == Position(9, 9)
    assert as_image(Tree(), base).position == base.position


def test_configuration_of_topics_that_do_not_exist_is_no_part_of_the_image() -> None:
    tree = Tree(orphan_configs={"gone": {"a": "b"}}, broker_configs={"": {"c": "d"}, "1": {}})
    assert [(key.name, dict(values)) for key, values in as_image(tree).configs.items()] == [("", {"c": "d"})]


def test_the_highest_controller_epoch_is_that_of_any_state() -> None:
    one, _ = read_topic(states=[Seen(state_data(a_partition(0), 3)), Seen(state_data(a_partition(1), 30))])
    other, _ = read_topic()
    assert Tree(topics={"a": one, "b": other}).highest_controller_epoch() == 30
    assert Tree().highest_controller_epoch() == -1
    assert an_id("orders") == one.topic.id


def test_replicas_that_went_between_two_readings_are_known() -> None:
    def a_tree(*replicas: tuple[int, ...], topic: str = "orders") -> Tree:
        partitions = [a_partition(number, each) for number, each in enumerate(replicas)]
        reading = TopicReading(a_topic("orders", partitions, an_id(topic)), {}, 1, 1, array("q"), 0)
        return Tree(topics={"orders": reading})

    before = a_tree((1, 2, 3), (2, 3))
    assert replicas_gone(before, a_tree((1, 4), (3, 2, 1))) == {(2, "orders", 0), (3, "orders", 0)}
    assert replicas_gone(before, a_tree((1,), topic="another one of that name")) == set()
    assert replicas_gone(before, before) == replicas_gone(None, before) == replicas_gone(before, Tree()) == set()
