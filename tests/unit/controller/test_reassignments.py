"""Replicas move: from the order over the last replica that catches up to the end, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.controller.brokers import fence_longest_silent, heal_leaderships
from migrator.controller.decision import Decision, Situation
from migrator.controller.partitions.alter_partition import alter_partition
from migrator.controller.partitions.reassignments import alter_reassignments, begin_ordered, list_reassignments
from migrator.model.image import Image
from migrator.model.values import Broker, Partition
from migrator.wire.errors import Error
from migrator.wire.messages.metadata import PartitionChangeRecord
from migrator.wire.messages.partitions import (
    AlterPartitionPartition,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    IsrBroker,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from migrator.zk.znodes import ZkReassignment
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image
from tests.support.situations import a_situation, after, messages

TOPIC = an_id("orders")
BROKERS = (1, 2, 3, 4, 5)
BACK = None


def a_cluster(
    *partitions: Partition, brokers: Sequence[int | Broker] = BROKERS, config: dict[str, str] | None = None
) -> Image:
    return an_image(a_topic("orders", partitions), brokers=brokers, topic_configs={"orders": config or {}})


def reassign(
    situation: Situation, *asked: tuple[int, Sequence[int] | None], topic: str = "orders"
) -> tuple[list[tuple[Error, str | None]], Decision]:
    partitions = tuple(ReassignablePartition(number, replicas) for number, replicas in asked)
    decision = alter_reassignments(
        situation, AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(topic, partitions),))
    )
    assert isinstance(decision.reply, AlterPartitionReassignmentsResponse)
    assert (decision.reply.error_code, decision.reply.error_message) == (Error.NONE, None)
    (response,) = decision.reply.responses
    return [(Error(each.error_code), each.error_message) for each in response.partitions], decision


def moved(situation: Situation, number: int, replicas: Sequence[int] | None) -> Situation:
    """The situation after one move that is accepted."""
    results, decision = reassign(situation, (number, replicas))
    assert results == [(Error.NONE, None)]
    return after(situation, decision)


def the_partition(situation: Situation, number: int = 0) -> Partition:
    found = situation.image.partition(TOPIC, number)
    assert found is not None
    return found


def in_sync(situation: Situation, isr: Sequence[int], number: int = 0) -> tuple[Error, Situation]:
    """The leader says who is in sync."""
    partition = the_partition(situation, number)
    epoch = situation.image.brokers[partition.leader].epoch
    asked = AlterPartitionPartition(
        number,
        partition.leader_epoch,
        new_isr_with_epochs=tuple(IsrBroker(each) for each in isr),
        partition_epoch=partition.partition_epoch,
    )
    request = AlterPartitionRequest(
        partition.leader, epoch, (AlterPartitionTopic(topic_id=TOPIC, partitions=(asked,)),)
    )
    decision = alter_partition(situation, request, 3)
    assert isinstance(decision.reply, AlterPartitionResponse)
    return Error(decision.reply.topics[0].partitions[0].error_code), after(situation, decision)


# --- the way there ----------------------------------------------------------------------------------------


def test_a_move_first_adds_replicas_and_ends_when_the_last_of_them_is_in_sync() -> None:
    situation = a_situation(a_cluster(a_partition(0, (1, 2, 3), leader=2)))
    _, decision = reassign(situation, (0, (2, 4, 5)))
    known = [an_id(f"dir-{each}") for each in (4, 5)]
    unknown = bytes(16)
    assert messages(decision) == [
        PartitionChangeRecord(
            partition_id=0,
            topic_id=TOPIC,
            replicas=(2, 4, 5, 1, 3),
            removing_replicas=(1, 3),
            adding_replicas=(4, 5),
            directories=(unknown, *known, unknown, unknown),
        )
    ]
    moving = after(situation, decision)
    error, half = in_sync(moving, (1, 2, 3, 4))
    assert (error, the_partition(half).adding) == (Error.NONE, (4, 5))

    error, ended = in_sync(half, (1, 2, 3, 4, 5))
    partition = the_partition(ended)
    assert error is Error.NONE
    assert (partition.replicas, partition.isr, partition.adding, partition.removing) == (
        (2, 4, 5), (2, 4, 5), (), (),
    )  # fmt: skip
    assert partition.directories == (unknown, *known)
    assert partition.leader == 2
    assert partition.leader_epoch == the_partition(half).leader_epoch + 1  # replicas went
    assert partition.partition_epoch == the_partition(half).partition_epoch + 1


def test_a_leader_that_goes_hears_that_another_one_leads() -> None:
    situation = moved(a_situation(a_cluster(a_partition(0, (1, 2)))), 0, (3, 2))
    error, ended = in_sync(situation, (1, 2, 3))
    assert error is Error.NEW_LEADER_ELECTED
    assert (the_partition(ended).leader, the_partition(ended).isr) == (3, (2, 3))


@pytest.mark.parametrize(
    ("target", "fields"),
    [
        ((3, 1, 2), {"replicas": (3, 1, 2)}),  # another order, the leader stays
        ((1, 2), {"replicas": (1, 2), "isr": (1, 2), "leader": 1, "directories": (bytes(16),) * 2}),
        ((2, 3), {"replicas": (2, 3), "isr": (2, 3), "leader": 2, "directories": (bytes(16),) * 2}),
    ],
)
def test_what_needs_nobody_to_catch_up_is_done_at_once(target: tuple[int, ...], fields: dict[str, Any]) -> None:
    _, decision = reassign(a_situation(a_cluster(a_partition(0))), (0, target))
    assert messages(decision) == [PartitionChangeRecord(partition_id=0, topic_id=TOPIC, **fields)]


def test_a_move_to_where_it_is_changes_nothing() -> None:
    results, decision = reassign(a_situation(a_cluster(a_partition(0))), (0, (1, 2, 3)))
    assert (results, decision.records) == ([(Error.NONE, None)], ())


def test_below_directories_none_are_written() -> None:
    image = a_cluster(a_partition(0))
    older = a_situation(type(image)(**{**fields_of(image), "features": image.features.set("metadata.version", 15)}))
    _, decision = reassign(older, (0, (1, 2, 4)))
    ((record, version),) = decision.records
    assert isinstance(record, PartitionChangeRecord)
    assert (record.directories, version) == (None, 0)


def fields_of(image: Image) -> dict[str, Any]:
    return {name: getattr(image, name) for name in image.__struct_fields__}


def test_fencing_who_was_to_go_neither_ends_a_move_nor_hinders_it() -> None:
    situation = moved(a_situation(a_cluster(a_partition(0, (1, 2), leader=1))), 0, (2, 4))
    for broker in (2, 3, 4, 5):
        situation.contacts.touch(broker, 0, situation.now_ms + 5_000, fenced=False)
    later = after(situation, [], pass_ms=10_000)
    found = fence_longest_silent(later)
    assert found is not None
    assert found[0] == 1
    fenced = after(later, found[1])
    partition = the_partition(fenced)
    assert (partition.isr, partition.leader, partition.adding, partition.removing) == ((2,), 2, (4,), (1,))
    _, ended = in_sync(fenced, (2, 4))
    assert the_partition(ended).replicas == (2, 4)


# --- and back ---------------------------------------------------------------------------------------------


def test_taking_back_leaves_who_was_there_before() -> None:
    situation = a_situation(a_cluster(a_partition(0, (1, 2, 3))))
    _, half = in_sync(moved(situation, 0, (4, 5, 1)), (1, 2, 3, 4))
    partition = the_partition(moved(half, 0, BACK))
    assert (set(partition.replicas), partition.isr) == ({1, 2, 3}, (1, 2, 3))
    assert (partition.adding, partition.removing, partition.leader) == ((), (), 1)
    assert len(partition.directories) in (0, 3)


def test_taking_back_where_nothing_moves_is_refused() -> None:
    results, decision = reassign(a_situation(a_cluster(a_partition(0))), (0, BACK))
    assert (results, decision.records) == ([(Error.NO_REASSIGNMENT_IN_PROGRESS, None)], ())


@pytest.mark.parametrize("allowed", ["false", "true"])
def test_taking_back_to_replicas_that_are_all_out_of_sync_is_an_unclean_election(allowed: str) -> None:
    partition = Partition(0, (3, 1), (3,), 3, 4, 7, removing=(1,), adding=(3,))
    situation = a_situation(a_cluster(partition, config={"unclean.leader.election.enable": allowed}))
    results, decision = reassign(situation, (0, BACK))
    if allowed == "false":
        words = (
            "Unable to revert partition assignment for orders:0 because it would require an unclean leader election."
        )
        assert results == [(Error.INVALID_REPLICA_ASSIGNMENT, words)]
        assert decision.records == ()
    else:
        back = the_partition(after(situation, decision))
        assert (back.replicas, back.isr, back.leader, back.leader_epoch) == ((1,), (1,), 1, 5)


def test_a_newer_order_keeps_what_it_names_also_what_was_to_go() -> None:
    """Stock keeps the older order's list where the newer one removes nobody, and takes away what is wanted."""
    moving = moved(a_situation(a_cluster(a_partition(0, (1, 2, 3)))), 0, (2, 3, 4))
    wider = moved(moving, 0, (1, 2, 3, 4))
    assert (the_partition(wider).removing, the_partition(wider).adding) == ((), (4,))
    _, ended = in_sync(wider, (1, 2, 3, 4))
    assert the_partition(ended).replicas == (1, 2, 3, 4)


def test_after_a_newer_order_taking_back_still_leads_to_who_was_there_first() -> None:
    moving = moved(a_situation(a_cluster(a_partition(0, (1, 2, 3)))), 0, (2, 3, 4))
    other = moved(moving, 0, (2, 3, 5))
    assert (the_partition(other).removing, the_partition(other).adding) == ((1, 4), (4, 5))
    assert set(the_partition(moved(other, 0, BACK)).replicas) == {1, 2, 3}


def test_an_order_for_where_it_was_ends_the_move_at_once() -> None:
    moving = moved(a_situation(a_cluster(a_partition(0, (1, 2, 3)))), 0, (2, 3, 4))
    partition = the_partition(moved(moving, 0, (1, 2, 3)))
    assert (partition.replicas, partition.adding, partition.removing) == ((1, 2, 3), (), ())


def test_a_partition_that_is_named_twice_ends_where_the_last_one_says() -> None:
    situation = a_situation(a_cluster(a_partition(0, (1, 2))))
    results, decision = reassign(situation, (0, (3, 2)), (0, (1, 2, 3)))
    assert [error for error, _ in results] == [Error.NONE, Error.NONE]
    partition = the_partition(after(situation, decision))
    assert (partition.replicas, partition.removing, partition.adding) == ((1, 2, 3), (), (3,))


@settings(max_examples=300, deadline=None)
@given(
    start=st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True),
    orders=st.lists(st.one_of(st.none(), st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True))),
    data=st.data(),
)
def test_whatever_is_ordered_the_last_order_counts_and_the_first_replicas_are_never_forgotten(
    start: list[int], orders: list[list[int] | None], data: st.DataObject
) -> None:
    """Told a second time in the plainest words: a set of wanted replicas, and a set to go back to."""
    situation = a_situation(a_cluster(a_partition(0, start)))
    home, wanted = set(start), set(start)
    for order in orders:
        results, decision = reassign(situation, (0, order))
        situation = after(situation, decision)
        moving = bool(the_partition(situation).adding or the_partition(situation).removing)
        if order is None:
            if results == [(Error.NO_REASSIGNMENT_IN_PROGRESS, None)]:
                continue
            wanted = home
        else:
            wanted = set(order)
        if not moving:
            home = wanted
        partition = the_partition(situation)
        assert set(partition.replicas) - set(partition.removing) == wanted
        assert set(partition.replicas) - set(partition.adding) == home
        assert partition.leader in partition.isr
        assert set(partition.isr) <= set(partition.replicas)
        assert len(partition.directories) in (0, len(partition.replicas))
        if moving and data.draw(st.booleans(), "all catch up"):
            _, situation = in_sync(situation, partition.replicas)
            assert set(the_partition(situation).replicas) == set(the_partition(situation).isr) == wanted
            home = wanted


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "replicas", "error", "words"),
    [
        (9, (1, 2), Error.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition orders:9."),
        (0, (), Error.INVALID_REPLICA_ASSIGNMENT, "includes an empty replica list."),
        (0, (1, 9), Error.INVALID_REPLICA_ASSIGNMENT, "includes broker 9, but no such broker is registered."),
        (0, (1, 2, 1), Error.INVALID_REPLICA_ASSIGNMENT, "includes the broker 1 more than once."),
    ],
)
def test_an_order_that_cannot_be_is_refused_and_the_others_are_carried_out(
    number: int, replicas: tuple[int, ...], error: Error, words: str
) -> None:
    results, decision = reassign(
        a_situation(a_cluster(a_partition(0), a_partition(1))), (number, replicas), (1, (1, 2))
    )
    assert results[0][0] is error
    assert words in str(results[0][1])
    assert results[1] == (Error.NONE, None)
    assert len(decision.records) == 1


def test_an_unknown_topic_is_refused_and_nothing_asked_is_nothing_done() -> None:
    situation = a_situation(a_cluster(a_partition(0)))
    results, _ = reassign(situation, (0, (1,)), topic="nobody")
    assert results == [(Error.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named nobody.")]
    nothing = alter_reassignments(situation, AlterPartitionReassignmentsRequest())
    assert nothing == Decision(AlterPartitionReassignmentsResponse())


def test_a_fenced_broker_may_get_a_replica_and_nobody_leads_there_yet() -> None:
    situation = a_situation(a_cluster(a_partition(0, (1,)), brokers=(1, a_broker(2, fenced=True))))
    partition = the_partition(moved(situation, 0, (2,)))
    assert (partition.replicas, partition.leader, partition.isr) == ((2, 1), 1, (1,))


# --- what is under way ------------------------------------------------------------------------------------


def listed(situation: Situation, topics: Any) -> list[tuple[str, list[tuple[int, Any, Any, Any]]]]:
    reply = list_reassignments(situation, ListPartitionReassignmentsRequest(topics=topics)).reply
    assert isinstance(reply, ListPartitionReassignmentsResponse)
    assert (reply.error_code, reply.error_message) == (Error.NONE, None)
    return [
        (
            topic.name,
            [
                (each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
                for each in topic.partitions
            ],
        )
        for topic in reply.topics
    ]


def test_what_moves_is_listed_and_nothing_else() -> None:
    situation = moved(a_situation(a_cluster(a_partition(0), a_partition(1))), 1, (4, 2, 3))
    moving = [("orders", [(1, (4, 2, 3, 1), (4,), (1,))])]
    assert listed(situation, None) == moving
    assert listed(situation, (ListPartitionReassignmentsTopics("orders", (0, 1, 7)),)) == moving
    assert listed(situation, (ListPartitionReassignmentsTopics("orders", (0,)),)) == []
    assert listed(situation, (ListPartitionReassignmentsTopics("nobody", (0,)),)) == []
    assert listed(situation, ()) == []


# --- what a takeover finds --------------------------------------------------------------------------------


def test_a_move_that_had_arrived_when_its_controller_went_is_ended_by_the_takeover() -> None:
    """No AlterPartition would come: the leader has nothing to say any more."""
    arrived = a_partition(0, (4, 2, 3, 1), isr=(2, 3, 4, 1), leader=1, adding=(4,), removing=(1,))
    on_its_way = a_partition(1, (4, 2, 3, 1), isr=(2, 3, 1), leader=1, adding=(4,), removing=(1,))
    situation = a_situation(a_cluster(arrived, on_its_way))
    ended = after(situation, heal_leaderships(situation))
    partition = the_partition(ended)
    assert (partition.replicas, partition.adding, partition.removing) == ((4, 2, 3), (), ())
    assert (partition.isr, partition.leader, partition.leader_epoch) == ((2, 3, 4), 4, arrived.leader_epoch + 1)
    assert the_partition(ended, 1) == on_its_way


def test_an_arrived_move_of_a_partition_without_a_leader_is_one_record() -> None:
    partition = a_partition(0, (4, 1), isr=(4, 1), leader=-1, adding=(4,), removing=(1,))
    situation = a_situation(a_cluster(partition))
    records = heal_leaderships(situation)
    assert len(records) == 1
    ended = the_partition(after(situation, records))
    assert (ended.replicas, ended.isr, ended.leader) == ((4,), (4,), 4)


def test_moves_ordered_through_zookeeper_and_not_begun_there_are_begun() -> None:
    at_rest = a_partition(0, (1, 2, 3))
    begun = a_partition(1, (4, 2, 3, 1), isr=(1, 2, 3), adding=(4,), removing=(1,))
    done = a_partition(2, (5, 4))
    situation = a_situation(a_cluster(at_rest, begun, done))
    ordered = [
        ZkReassignment("orders", 0, [4, 2, 3]),
        ZkReassignment("orders", 1, [4, 2, 3]),
        ZkReassignment("orders", 2, [5, 4]),
        ZkReassignment("orders", 0, [9]),  # no such broker
        ZkReassignment("orders", 7, [1]),
        ZkReassignment("gone", 0, [1]),
    ]
    records = begin_ordered(situation, ordered)
    assert [record.partition_id for record, _ in records if isinstance(record, PartitionChangeRecord)] == [0]
    partition = the_partition(after(situation, records))
    assert (partition.replicas, partition.adding, partition.removing) == ((4, 2, 3, 1), (4,), (1,))
