"""Elections on demand: who is elected, and what is answered where nobody needs to be or can be."""

from __future__ import annotations

import pytest

from migrator.controller.decision import RECORDS_PER_REQUEST_MAX, Decision
from migrator.controller.partitions.elect_leaders import elect_leaders
from migrator.model.image import Image
from migrator.model.values import NO_LEADER, Partition, Recovery
from migrator.wire.errors import Error
from migrator.wire.messages.metadata import PartitionChangeRecord
from migrator.wire.messages.partitions import ElectLeadersRequest, ElectLeadersResponse, ElectLeadersTopic
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image
from tests.support.situations import a_situation, messages

PREFERRED, UNCLEAN = 0, 1
TOPIC = an_id("orders")

HOME = a_partition(0, leader=1)
AWAY = a_partition(1, leader=2)
FIRST_OUT_OF_SYNC = a_partition(2, leader=2, isr=(2, 3))
FIRST_FENCED = a_partition(3, replicas=(4, 2), leader=2)
LEADERLESS = Partition(4, (4, 2), (4,), NO_LEADER)
LOST = Partition(5, (4,), (4,), NO_LEADER)
WAITING = Partition(6, (1, 2), (2,), NO_LEADER)


def a_cluster() -> Image:
    partitions = [HOME, AWAY, FIRST_OUT_OF_SYNC, FIRST_FENCED, LEADERLESS, LOST, WAITING]
    return an_image(a_topic("orders", partitions), brokers=(1, 2, 3, a_broker(4, fenced=True)))


def elect(image: Image, type_: int, *partitions: int, topic: str = "orders") -> tuple[dict[int, Error], Decision]:
    asked = (ElectLeadersTopic(topic, partitions),) if partitions else None
    decision = elect_leaders(a_situation(image), ElectLeadersRequest(election_type=type_, topic_partitions=asked))
    assert isinstance(decision.reply, ElectLeadersResponse)
    assert decision.reply.error_code == Error.NONE
    (results,) = decision.reply.replica_election_results
    assert results.topic == topic
    return {each.partition_id: Error(each.error_code) for each in results.partition_result}, decision


def test_the_first_replica_leads_again_where_it_can() -> None:
    results, decision = elect(a_cluster(), PREFERRED, 0, 1, 2, 3, 5, 99)
    assert results == {
        0: Error.ELECTION_NOT_NEEDED,
        1: Error.NONE,
        2: Error.PREFERRED_LEADER_NOT_AVAILABLE,
        3: Error.PREFERRED_LEADER_NOT_AVAILABLE,
        5: Error.PREFERRED_LEADER_NOT_AVAILABLE,
        99: Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert messages(decision) == [PartitionChangeRecord(partition_id=1, topic_id=TOPIC, leader=1)]


def test_a_partition_without_leader_gets_one_that_is_in_sync_even_if_it_is_not_the_first() -> None:
    results, decision = elect(a_cluster(), PREFERRED, 6)
    assert results == {6: Error.NONE}
    assert messages(decision) == [PartitionChangeRecord(partition_id=6, topic_id=TOPIC, leader=2)]


def test_an_unclean_election_takes_whoever_is_there_and_says_that_it_recovers() -> None:
    results, decision = elect(a_cluster(), UNCLEAN, 1, 4, 5, 6)
    assert results == {
        1: Error.ELECTION_NOT_NEEDED,  # somebody leads
        4: Error.NONE,
        5: Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        6: Error.NONE,
    }
    assert messages(decision) == [
        PartitionChangeRecord(
            partition_id=4, topic_id=TOPIC, leader=2, isr=(2,), leader_recovery_state=Recovery.RECOVERING
        ),
        PartitionChangeRecord(partition_id=6, topic_id=TOPIC, leader=2),  # one in sync is there: a clean election
    ]


def test_asked_for_all_partitions_those_that_need_nothing_are_left_out() -> None:
    results, decision = elect(a_cluster(), PREFERRED)
    assert 0 not in results
    assert results[1] is Error.NONE
    assert len(decision.records) == 2


def test_a_partition_that_is_named_twice_is_elected_once() -> None:
    _, decision = elect(a_cluster(), PREFERRED, 1, 1)
    assert len(decision.records) == 1


def test_an_unknown_topic_is_answered_for_each_of_its_partitions() -> None:
    results, decision = elect(a_cluster(), PREFERRED, 0, 1, topic="nobody")
    assert (set(results.values()), decision.records) == ({Error.UNKNOWN_TOPIC_OR_PARTITION}, ())


def test_nothing_asked_is_nothing_done_and_an_unknown_kind_is_refused() -> None:
    situation = a_situation(a_cluster())
    assert elect_leaders(situation, ElectLeadersRequest(topic_partitions=())) == Decision(ElectLeadersResponse())
    asked = (ElectLeadersTopic("orders", (1,)),)
    refused = elect_leaders(situation, ElectLeadersRequest(election_type=7, topic_partitions=asked)).reply
    assert isinstance(refused, ElectLeadersResponse)
    assert refused.error_code == Error.INVALID_REQUEST


@pytest.mark.parametrize(("count", "error"), [(RECORDS_PER_REQUEST_MAX, 0), (RECORDS_PER_REQUEST_MAX + 1, 44)])
def test_more_elections_than_one_batch_holds_are_refused_together(count: int, error: int) -> None:
    image = an_image(a_topic("orders", [a_partition(each, leader=2) for each in range(count)]))
    decision = elect_leaders(a_situation(image), ElectLeadersRequest(topic_partitions=None))
    assert isinstance(decision.reply, ElectLeadersResponse)
    assert decision.reply.error_code == error
    assert len(decision.records) == (0 if error else count)
