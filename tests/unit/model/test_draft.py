"""An image in the making: what each change leaves behind, what it names as touched, and what cannot be."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from migrator.model.draft import Contradiction, Delta, Draft, join
from migrator.model.image import EMPTY, METADATA_VERSION, NO_CONFIG, Image, Position
from migrator.model.values import (
    Acl,
    AclEntry,
    AclResource,
    ConfigKey,
    ConfigType,
    Controller,
    Listener,
    MigrationState,
    Partition,
    QuotaEntity,
    ScramKey,
    Topic,
)
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image

ORDERS = an_id("orders")
ORDERS_CONFIG = ConfigKey(ConfigType.TOPIC, "orders")
AN_ACL = Acl(AclResource(2, 3, "orders"), AclEntry("User:alice", "*", 3, 3))
AT = Position(epoch=2, offset=2000)


def changed(image: Image, *changes: Callable[[Draft], object]) -> Delta:
    draft = Draft(image)
    for change in changes:
        change(draft)
    return draft.finish(AT)


def test_partitions_come_out_in_order_whatever_order_they_came_in() -> None:
    delta = changed(
        EMPTY,
        lambda draft: draft.create_topic("orders", ORDERS),
        *(lambda draft, number=number: draft.put_partition(ORDERS, a_partition(number)) for number in (2, 0, 1)),
    )
    topic = delta.after.topics[ORDERS]
    assert [partition.id for partition in topic.partitions] == [0, 1, 2]
    assert delta.topics == {ORDERS}
    assert delta.after.topic("orders") is topic
    assert delta.after.partition(ORDERS, 1) == a_partition(1)
    assert delta.after.partition(ORDERS, 3) is None
    assert delta.after.position == AT


def test_a_deleted_topic_takes_its_configuration_along_and_frees_its_name() -> None:
    before = an_image(a_topic("orders", 3), topic_configs={"orders": {"retention.ms": "1"}})
    delta = changed(
        before,
        lambda draft: draft.put_partition(ORDERS, a_partition(0, isr=(1,))),
        lambda draft: draft.remove_topic(ORDERS),
        lambda draft: draft.put_topic(a_topic("orders", 1, an_id("the second"))),
    )
    assert delta.topics == {ORDERS, an_id("the second")}
    assert delta.configs == {ORDERS_CONFIG}
    assert ORDERS not in delta.after.topics
    assert delta.after.topic_ids["orders"] == an_id("the second")
    assert delta.after.config(ConfigType.TOPIC, "orders") == NO_CONFIG


def test_a_resource_without_values_is_no_resource() -> None:
    key = ConfigKey(ConfigType.BROKER, "")
    delta = changed(
        an_image(broker_configs={"": {"x": "1"}}),
        lambda draft: draft.set_config(key, "y", "2"),
        lambda draft: draft.set_config(key, "x", None),
        lambda draft: draft.set_config(key, "y", None),
        lambda draft: draft.set_config(key, "never set", None),
    )
    assert key not in delta.after.configs
    assert delta.configs == {key}
    assert not changed(delta.after, lambda draft: draft.put_config(key, [])).after.configs


def test_nodes_features_and_the_migration_are_named_when_they_change() -> None:
    controller = Controller(3000, an_id("run"), True, (Listener("CONTROLLER", "c", 9093),))
    delta = changed(
        an_image(),
        lambda draft: draft.put_broker(a_broker(4)),
        lambda draft: draft.remove_broker(1, epoch=101),
        lambda draft: draft.put_controller(controller),
        lambda draft: draft.set_feature("kraft.version", 1),
        lambda draft: draft.set_feature(METADATA_VERSION, 0),
        lambda draft: draft.set_migration(MigrationState.POST_MIGRATION),
    )
    assert delta.brokers == {1, 4}
    assert sorted(delta.after.brokers) == [2, 3, 4]
    assert delta.controllers == {3000}
    assert delta.after.controllers[3000] is controller
    assert (delta.features, delta.migration, delta.producer_ids) == (True, True, False)
    assert delta.after.metadata_version == 1  # a log without the feature counts as the first level
    assert not delta.is_empty


def test_only_the_position_moves_by_records_that_say_nothing() -> None:
    image = an_image(a_topic())
    delta = changed(image)
    assert delta.is_empty
    assert delta.after == msgspec.structs.replace(image, position=AT)
    assert EMPTY.is_empty
    assert not delta.after.is_empty


def test_a_draft_does_not_show_in_the_image_it_began_with() -> None:
    image = an_image(a_topic("orders", 2), next_producer_id=1000)
    before = msgspec.structs.replace(image)
    changed(
        image,
        lambda draft: draft.remove_topic(ORDERS),
        lambda draft: draft.put_broker(a_broker(9)),
        lambda draft: draft.set_config(ORDERS_CONFIG, "a", "b"),
        lambda draft: draft.set_next_producer_id(2000),
    )
    assert image == before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda draft: draft.create_topic("orders", an_id("other")), id="a name that exists"),
        pytest.param(lambda draft: draft.create_topic("other", ORDERS), id="an id that is taken"),
        pytest.param(lambda draft: draft.remove_topic(an_id("other")), id="deletion of an unknown topic"),
        pytest.param(lambda draft: draft.put_partition(an_id("other"), a_partition(0)), id="an unknown topic's"),
        pytest.param(lambda draft: draft.partition(ORDERS, 7), id="an unknown partition"),
        pytest.param(lambda draft: draft.remove_broker(7, epoch=107), id="an unknown broker leaves"),
        pytest.param(lambda draft: draft.expect_broker(1, epoch=7), id="a broker under another epoch"),
        pytest.param(lambda draft: draft.set_next_producer_id(5000), id="producer ids that stand still"),
        pytest.param(lambda draft: draft.set_next_producer_id(4999), id="producer ids that go back"),
        pytest.param(lambda draft: draft.remove_acl(an_id("other")), id="an unknown ACL goes"),
        pytest.param(lambda draft: (draft.put_acl(ORDERS, AN_ACL), draft.put_acl(ORDERS, AN_ACL)), id="an ACL's id"),
    ],
)
def test_a_change_that_no_correct_controller_writes_is_a_contradiction(change: Callable[[Draft], object]) -> None:
    with pytest.raises(Contradiction):
        changed(an_image(a_topic("orders", 2), next_producer_id=5000), change)


def test_two_deltas_in_a_row_are_one_that_names_everything_either_named() -> None:
    first = changed(
        an_image(a_topic("orders")),
        lambda draft: draft.put_broker(a_broker(4)),
        lambda draft: draft.set_next_producer_id(1000),
    )
    second = changed(
        first.after,
        lambda draft: draft.remove_topic(ORDERS),
        lambda draft: draft.set_config(ConfigKey(ConfigType.BROKER, "4"), "a", "b"),
        lambda draft: draft.put_controller(Controller(1, bytes(16), True)),
        lambda draft: draft.set_feature("x", 1),
        lambda draft: draft.set_migration(MigrationState.NONE),
        lambda draft: draft.put_acl(ORDERS, AN_ACL),
        lambda draft: draft.remove_scram(ScramKey("alice", 1)),
        lambda draft: draft.set_quota(QuotaEntity.of([("ip", None)]), "connection_creation_rate", None),
        lambda draft: draft.remove_token("t"),
    )
    assert join(first, second) == Delta(
        before=first.before,
        after=second.after,
        topics=frozenset({ORDERS}),
        configs=frozenset({ConfigKey(ConfigType.BROKER, "4")}),
        brokers=frozenset({4}),
        controllers=frozenset({1}),
        producer_ids=True,
        features=True,
        migration=True,
        acls=frozenset({AN_ACL.resource}),
        scram=frozenset({ScramKey("alice", 1)}),
        quotas=frozenset({QuotaEntity.of([("ip", None)])}),
        tokens=frozenset({"t"}),
    )


def test_deltas_with_a_gap_between_them_cannot_be_joined() -> None:
    delta = changed(an_image(), lambda draft: draft.put_broker(a_broker(4)))
    with pytest.raises(AssertionError):
        join(delta, delta)


def test_a_partition_is_found_by_its_id_also_where_ids_have_gaps() -> None:
    topic = Topic("odd", an_id("odd"), (a_partition(1), a_partition(5)))
    assert [getattr(topic.partition(number), "id", None) for number in (0, 1, 5, 9)] == [None, 1, 5, None]
    assert Partition(0, (1,), (1,), 1) == a_partition(0, replicas=(1,))
    image = an_image(topic, a_topic("plain", 3))
    assert image.partition_count() == 5
    assert {(each.name, partition.id) for each, partition in image.partitions()} == {
        *(("odd", number) for number in (1, 5)),
        *(("plain", number) for number in range(3)),
    }
