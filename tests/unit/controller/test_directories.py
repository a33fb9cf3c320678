"""Log directories of brokers: where replicas lie, what a failed directory takes away, whom an election may choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from migrator.controller.brokers import heal_leaderships, heartbeat, register_broker
from migrator.controller.decision import Decision, Situation
from migrator.controller.partitions.elect_leaders import elect_leaders
from migrator.controller.partitions.elections import preferred_leaders
from migrator.controller.requests import decide
from migrator.model.image import Image
from migrator.model.values import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, ZERO_ID, MigrationState, Partition
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
)
from migrator.wire.messages.metadata import BrokerRegistrationChangeRecord, PartitionChangeRecord
from migrator.wire.messages.partitions import ElectLeadersRequest
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image
from tests.support.situations import a_situation, after, messages, replayed
from tests.unit.controller.test_brokers import a_registration, at_level

ORDERS = an_id("orders")
FIRST, SECOND = an_id("first"), an_id("second")
ELSEWHERE = an_id("dir-2")


def a_cluster(*partitions: Partition, broker: Mapping[str, Any] | None = None, **changes: Any) -> Image:
    """Broker 1 has two directories, brokers 2 and 3 one each."""
    one = a_broker(1, migrating=False, **{"log_dirs": (FIRST, SECOND), **(broker or {})})
    topic = a_topic(partitions=partitions or (a_partition(),))
    return an_image(topic, brokers=(one, 2, 3), migration=MigrationState.POST_MIGRATION, **changes)


def placed(partition: int, directory: bytes, **changes: Any) -> Partition:
    """A partition whose replica at broker 1 lies in this directory."""
    return a_partition(partition, directories=(directory, ELSEWHERE, an_id("dir-3")), **changes)


def report(situation: Situation, *offline: bytes, **changes: Any) -> Decision:
    """A heartbeat of broker 1 that has read everything."""
    fields = {"broker_id": 1, "broker_epoch": 101, "current_metadata_offset": situation.image.position.offset}
    return heartbeat(situation, BrokerHeartbeatRequest(**{**fields, "offline_log_dirs": offline, **changes}))


def assign(situation: Situation, *places: tuple[bytes, int], **changes: Any) -> tuple[Decision, list[int]]:
    """Broker 1 says where partitions of orders lie. Returns the errors of the partitions as well."""
    directories = tuple(
        AssignedDirectory(directory, (AssignedTopic(changes.get("topic", ORDERS), (AssignedPartition(number),)),))
        for directory, number in places
    )
    request = AssignReplicasToDirsRequest(
        broker_id=changes.get("broker", 1), broker_epoch=changes.get("epoch", 101), directories=directories
    )
    decision = decide(situation, request, 0, writes_allowed=True)
    reply = decision.reply
    assert isinstance(reply, AssignReplicasToDirsResponse)
    assert [each.id for each in reply.directories] == [each for each, _ in places] or reply.error_code
    errors = [each.error_code for one in reply.directories for topic in one.topics for each in topic.partitions]
    return decision, [reply.error_code] if reply.error_code else errors


def in_orders(situation: Situation, decision: Decision) -> dict[int, Partition]:
    return {each.id: each for each in after(situation, decision).image.topics[ORDERS].partitions}


# --- AssignReplicasToDirs ---------------------------------------------------------------------------------


def test_a_replica_is_recorded_where_its_broker_says_it_lies() -> None:
    situation = a_situation(a_cluster(a_partition(0), placed(1, FIRST)))
    decision, errors = assign(situation, (FIRST, 0), (SECOND, 1))
    assert errors == [Error.NONE, Error.NONE]
    orders = in_orders(situation, decision)
    assert orders[0].directories == (FIRST, ZERO_ID, ZERO_ID)
    assert orders[1].directories == (SECOND, ELSEWHERE, an_id("dir-3"))
    for each in orders.values():
        assert (each.leader, each.leader_epoch, each.partition_epoch, each.isr) == (1, 0, 1, (1, 2, 3))
    assert [version for _, version in decision.records] == [1, 1]


def test_a_replica_that_is_known_to_lie_there_costs_no_record() -> None:
    decision, errors = assign(a_situation(a_cluster(placed(0, FIRST))), (FIRST, 0))
    assert (errors, decision.records) == ([Error.NONE], ())


def test_a_replica_named_twice_lies_where_it_was_named_last() -> None:
    situation = a_situation(a_cluster())
    decision, _ = assign(situation, (FIRST, 0), (SECOND, 0))
    assert in_orders(situation, decision)[0].directories[0] == SECOND


def test_what_cannot_be_assigned_is_answered_one_by_one() -> None:
    situation = a_situation(a_cluster(a_partition(0), a_partition(1, replicas=(2, 3))))
    decision, errors = assign(situation, (FIRST, 0), (FIRST, 1), (FIRST, 2))
    assert errors == [Error.NONE, Error.NOT_LEADER_OR_FOLLOWER, Error.UNKNOWN_TOPIC_OR_PARTITION]
    assert len(decision.records) == 1
    assert assign(situation, (FIRST, 0), topic=an_id("no topic"))[1] == [Error.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize("wrong", [{"epoch": 100}, {"broker": 9}])
def test_a_broker_of_before_assigns_nothing(wrong: dict[str, int]) -> None:
    decision, errors = assign(a_situation(a_cluster()), (FIRST, 0), **wrong)
    assert (errors, decision.records) == ([Error.STALE_BROKER_EPOCH], ())


def test_below_3_7_directories_are_not_recorded() -> None:
    situation = a_situation(at_level(a_cluster(placed(0, FIRST)), 16))
    decision, errors = assign(situation, (FIRST, 0))
    assert (errors, decision.records) == ([Error.UNSUPPORTED_VERSION], ())
    assert report(situation, FIRST).records == ()


@pytest.mark.parametrize("directory", [LOST_DIRECTORY, an_id("a directory that failed")])
def test_a_replica_in_an_offline_directory_leads_nothing_and_is_not_in_sync(directory: bytes) -> None:
    situation = a_situation(a_cluster())
    decision, errors = assign(situation, (directory, 0))
    assert (errors, len(decision.records)) == ([Error.NONE], 1)
    (orders,) = in_orders(situation, decision).values()
    assert (orders.leader, orders.isr, orders.directories[0]) == (2, (2, 3), directory)


# --- directories that fail --------------------------------------------------------------------------------


def test_a_directory_that_fails_loses_its_leaderships_and_its_broker_keeps_the_others() -> None:
    situation = a_situation(a_cluster(placed(0, FIRST), placed(1, SECOND), placed(2, FIRST, leader=2), a_partition(3)))
    decision = report(situation, FIRST)
    orders = in_orders(situation, decision)
    assert [(each.leader, each.isr) for each in orders.values()] == [
        (2, (2, 3)),
        (1, (1, 2, 3)),
        (2, (2, 3)),
        (1, (1, 2, 3)),  # nobody knows where this one lies
    ]
    last, version = decision.records[-1]
    assert isinstance(last, BrokerRegistrationChangeRecord)
    assert (last.log_dirs, last.fenced, last.broker_epoch, version) == ((SECOND,), 0, 101, 2)
    assert after(situation, decision).image.brokers[1].active
    assert report(after(situation, decision), FIRST).records == ()  # each heartbeat reports it again


def test_the_last_replica_in_sync_stays_so_and_leads_when_its_directory_is_back() -> None:
    situation = a_situation(a_cluster(placed(0, FIRST, isr=(1,))))
    situation = after(situation, report(situation, FIRST))
    (orders,) = situation.image.topics[ORDERS].partitions
    assert (orders.leader, orders.isr) == (-1, (1,))
    again = a_registration(1, is_migrating_zk_broker=False, log_dirs=(FIRST, SECOND), incarnation_id=an_id("next run"))
    situation = after(situation, register_broker(situation, again), pass_ms=10_000)
    situation = after(situation, register_broker(situation, again))
    assert situation.image.brokers[1].log_dirs == (FIRST, SECOND)
    decision = report(situation, broker_epoch=situation.image.brokers[1].epoch)
    assert in_orders(situation, decision)[0].leader == 1


def test_with_unclean_elections_a_partition_leaves_a_failed_directory_for_a_replica_out_of_sync() -> None:
    image = a_cluster(placed(0, FIRST, isr=(1,)), topic_configs={"orders": {"unclean.leader.election.enable": "true"}})
    situation = a_situation(image)
    assert in_orders(situation, report(situation, FIRST))[0].leader == 2


def test_a_broker_that_comes_back_leads_nothing_from_a_directory_that_it_reports_offline() -> None:
    alone = [placed(0, FIRST, isr=(1,), leader=-1), placed(1, SECOND, isr=(1,), leader=-1)]
    situation = a_situation(a_cluster(*alone, broker={"fenced": True}))
    decision = report(situation, FIRST)
    assert [each.leader for each in in_orders(situation, decision).values()] == [-1, 1]
    left = after(situation, decision).image.brokers[1]
    assert (left.fenced, left.log_dirs) == (False, (SECOND,))


def test_a_broker_that_loses_all_its_directories_leads_nothing_and_no_empty_list_is_written() -> None:
    situation = a_situation(a_cluster(placed(0, FIRST), placed(1, SECOND)))
    decision = report(situation, FIRST, SECOND)
    assert {type(each) for each in messages(decision)} == {PartitionChangeRecord}
    assert [each.leader for each in in_orders(situation, decision).values()] == [2, 2]
    alone = a_situation(a_cluster(placed(0, FIRST, isr=(1,), leader=-1), broker={"fenced": True}))
    assert in_orders(alone, report(alone, FIRST, SECOND))[0].leader == -1


def test_cut_anywhere_the_next_heartbeat_does_the_rest() -> None:
    situation = a_situation(a_cluster(placed(0, FIRST), placed(1, FIRST), placed(2, SECOND)))
    whole = report(situation, FIRST)
    assert whole.divisible
    for cut in range(len(whole.records)):
        then = after(situation, whole.records[:cut])
        done = after(then, report(then, FIRST)).image
        assert done.topics == after(situation, whole).image.topics, cut
        assert done.brokers[1].log_dirs == (SECOND,)


def test_a_broker_that_registers_again_with_fewer_directories_leads_nothing_in_those_that_are_gone() -> None:
    situation = a_situation(a_cluster(placed(0, FIRST), placed(1, SECOND)))
    again = a_registration(1, is_migrating_zk_broker=False, log_dirs=(SECOND,))
    decision = register_broker(situation, again)
    assert [each.leader for each in in_orders(situation, decision).values()] == [2, 1]
    assert after(situation, decision).image.brokers[1].epoch == 101


# --- elections --------------------------------------------------------------------------------------------


def test_no_election_chooses_a_replica_in_an_offline_directory() -> None:
    image = a_cluster(placed(0, an_id("failed"), leader=2))
    situation = a_situation(image)
    assert preferred_leaders(situation, 10) == []
    decision = elect_leaders(situation, ElectLeadersRequest(election_type=0, topic_partitions=None))
    assert decision.records == ()
    badly = a_situation(a_cluster(placed(0, an_id("failed"), leader=1)))
    assert [each.leader for each in replayed(badly.image, heal_leaderships(badly)).after.topics[ORDERS].partitions] == [
        2
    ]


@pytest.mark.parametrize(
    ("directory", "registered", "online"),
    [
        (FIRST, (FIRST, SECOND), True),
        (an_id("failed"), (FIRST, SECOND), False),
        (UNASSIGNED_DIRECTORY, (FIRST,), True),
        (ZERO_ID, (FIRST,), True),
        (LOST_DIRECTORY, (), False),
        (FIRST, (), True),  # registered below 3.7-IV2: it named none
    ],
)
def test_which_directories_count_as_online(directory: bytes, registered: tuple[bytes, ...], online: bool) -> None:
    """As stock's `DirectoryId.isOnline`."""
    assert a_broker(1, log_dirs=registered).has_online(directory) is online
