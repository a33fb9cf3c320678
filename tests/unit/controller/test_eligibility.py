"""A record that no correct controller writes: ours appends none; in a log it is named, and replayed as Kafka does."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.controller.decision import Record
from migrator.controller.eligibility import why_ineligible
from migrator.controller.replay import replay
from migrator.model.draft import Draft
from migrator.model.image import Image
from migrator.model.values import MigrationState
from migrator.wire.messages.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from migrator.wire.schema import Message
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image

ORDERS = an_id("orders")


def the_image(*partitions: Any, **changes: Any) -> Image:
    """Brokers 1 to 3 are active, 4 is fenced, 5 shuts down, 6 is not registered."""
    brokers = (1, 2, 3, a_broker(4, fenced=True), a_broker(5, in_controlled_shutdown=True))
    return an_image(
        a_topic("orders", partitions or (a_partition(isr=(2, 3), replicas=(1, 2, 3, 4, 5, 6)),)),
        brokers=brokers,
        **changes,
    )


def change(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=ORDERS, **fields)


def created(number: int = 1, **fields: Any) -> PartitionRecord:
    whole: dict[str, Any] = {"replicas": (1, 2), "isr": (1, 2), "leader": 1, **fields}
    return PartitionRecord(partition_id=number, topic_id=ORDERS, **whole)


def why(image: Image, *records: Message) -> str | None:
    """Of the last one; those before it are replayed."""
    draft = Draft(image)
    for record in records[:-1]:
        assert why_ineligible(draft, record) is None, record
        replay(draft, record)
    return why_ineligible(draft, records[-1])


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (change(leader=1), "broker 1 leads and is not in sync"),
        (change(isr=(3,)), "broker 2 leads and is not in sync"),
        (change(isr=(2, 3, 4)), "broker 4 comes into the in-sync set and is fenced"),
        (change(isr=(2, 3, 5)), "broker 5 comes into the in-sync set and is shutting down"),
        (change(isr=(2, 3, 6)), "broker 6 comes into the in-sync set and is not registered"),
        (change(isr=(2, 3, 7)), "broker 7 is in sync and has no replica"),
        (change(replicas=(1, 2)), "broker 3 is in sync and has no replica"),
        (change(isr=(4,), leader=4), "broker 4 comes into the in-sync set and is fenced"),
        (created(0), "the partition exists, and is replaced"),
        (created(isr=(1, 3)), "broker 3 is in sync and has no replica"),
        (created(leader=2, isr=(1,)), "broker 2 leads and is not in sync"),
        (created(replicas=(1, 4), isr=(1, 4)), "broker 4 comes into the in-sync set and is fenced"),
    ],
)
def test_what_no_correct_controller_writes_is_named(record: Message, reason: str) -> None:
    assert why(the_image(), record) == reason


def test_a_member_that_is_fenced_since_may_not_become_the_leader() -> None:
    image = the_image(a_partition(isr=(2, 4), replicas=(1, 2, 4)))
    assert why(image, change(leader=4)) == "broker 4 becomes the leader and is fenced"


@pytest.mark.parametrize(
    "record",
    [
        change(leader=3),
        change(leader=-1),
        change(isr=(2,)),
        change(isr=(1, 2, 3)),
        change(isr=(1,), leader=1),
        change(isr=(4,), leader=-1),
        change(leader=2),
        created(),
        created(replicas=(1, 4), isr=(1,)),
    ],
    ids=["next", "nobody", "shrinks", "grows", "unclean", "taken back", "epoch", "new", "one is down"],
)
def test_what_a_controller_writes_is_right(record: Message) -> None:
    assert why(the_image(), record) is None


def test_a_broker_may_lead_from_the_record_on_that_unfences_it() -> None:
    unfenced = BrokerRegistrationChangeRecord(broker_id=4, broker_epoch=104, fenced=-1)
    assert why(the_image(), unfenced, change(isr=(2, 3, 4))) is None


def test_a_partition_that_the_same_batch_creates_may_change_there() -> None:
    topic = TopicRecord(name="new", topic_id=an_id("new"))
    record = PartitionRecord(partition_id=0, topic_id=an_id("new"), replicas=(1, 2), isr=(1, 2), leader=1)
    shrinks = PartitionChangeRecord(partition_id=0, topic_id=an_id("new"), isr=(1,))
    assert why(the_image(), topic, record, shrinks) is None


def test_odd_members_that_zookeeper_had_are_not_named_when_something_else_changes() -> None:
    """They were copied: named, each later change of such a partition would be refused."""
    image = the_image(a_partition(isr=(2, 4, 6), replicas=(1, 2, 4, 6)))
    assert why(image, change(isr=(2, 4, 6, 1))) is None
    assert why(image, change(isr=(2,))) is None


def test_before_the_migration_a_record_without_a_transaction_is_a_copy() -> None:
    image = the_image(migration=MigrationState.PRE_MIGRATION)
    assert why(image, created(replicas=(1, 6), isr=(1, 6))) is None


def test_a_record_of_another_kind_is_no_question() -> None:
    record: Record = (TopicRecord(name="new", topic_id=an_id("new")), 0)
    assert why(the_image(), record[0]) is None
