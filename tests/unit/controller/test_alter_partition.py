"""A leader proposes its in-sync set: every refusal in stock's order, and what an accepted proposal changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import msgspec
import pytest

from migrator.controller.decision import Decision, Situation
from migrator.controller.partitions.alter_partition import alter_partition
from migrator.model.values import Partition, Recovery
from migrator.wire.errors import Error
from migrator.wire.messages.metadata import PartitionChangeRecord
from migrator.wire.messages.partitions import (
    AlterPartitionPartition,
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    IsrBroker,
)
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image
from tests.support.situations import a_situation, after, messages

ORDERS = an_id("orders")


def a_cluster(partition: Partition | None = None) -> Situation:
    """`orders-0` on brokers 1 to 3, led by 1 at leader epoch 5 and partition epoch 9; broker 4 is fenced."""
    chosen = partition or a_partition(0, isr=(1, 2), leader_epoch=5, partition_epoch=9)
    image = an_image(a_topic("orders", [chosen]), brokers=(1, 2, 3, a_broker(4, fenced=True)))
    return a_situation(image)


@dataclass(frozen=True)
class Proposal:
    """What the leader of `orders-0` asks for; in order unless something is changed."""

    isr: Sequence[int] = (1, 2, 3)
    epochs: dict[int, int] = field(default_factory=dict)
    broker: int = 1
    broker_epoch: int | None = None
    topic: str = "orders"
    partition: int = 0
    leader_epoch: int = 5
    partition_epoch: int = 9
    recovery: int = Recovery.RECOVERED

    def request(self, version: int) -> AlterPartitionRequest:
        members = tuple(IsrBroker(each, self.epochs.get(each, -1)) for each in self.isr)
        partition = AlterPartitionPartition(
            self.partition,
            self.leader_epoch,
            new_isr=() if version >= 3 else tuple(self.isr),
            new_isr_with_epochs=members if version >= 3 else (),
            leader_recovery_state=self.recovery,
            partition_epoch=self.partition_epoch,
        )
        named = {"topic_name": self.topic} if version < 2 else {"topic_id": an_id(self.topic)}
        topic = AlterPartitionTopic(partitions=(partition,), **named)
        epoch = 100 + self.broker if self.broker_epoch is None else self.broker_epoch
        return AlterPartitionRequest(self.broker, epoch, (topic,))


def propose(
    situation: Situation, proposal: Proposal, version: int = 3
) -> tuple[AlterPartitionPartitionResult, Decision]:
    decision = alter_partition(situation, proposal.request(version), version)
    assert isinstance(decision.reply, AlterPartitionResponse)
    assert decision.reply.error_code == Error.NONE
    (result,) = decision.reply.topics[0].partitions
    return result, decision


FAULTS: dict[str, tuple[dict[str, Any], Error]] = {
    "unknown topic": ({"topic": "nothing"}, Error.UNKNOWN_TOPIC_ID),
    "unknown partition": ({"partition": 7}, Error.UNKNOWN_TOPIC_OR_PARTITION),
    "we are behind in leaders": ({"leader_epoch": 6}, Error.NOT_CONTROLLER),
    "we are behind in changes": ({"partition_epoch": 10}, Error.NOT_CONTROLLER),
    "an earlier reign": ({"leader_epoch": 4}, Error.FENCED_LEADER_EPOCH),
    "not the leader": ({"broker": 2}, Error.INVALID_REQUEST),
    "an earlier change": ({"partition_epoch": 8}, Error.INVALID_UPDATE_VERSION),
    "twice in the set": ({"isr": (1, 2, 2)}, Error.INVALID_REQUEST),
    "not a replica": ({"isr": (1, 4)}, Error.INVALID_REQUEST),
    "without the leader": ({"isr": (2, 3)}, Error.INVALID_REQUEST),
    "recovering with two": ({"recovery": Recovery.RECOVERING}, Error.INVALID_REQUEST),
    "recovered, then not": ({"recovery": Recovery.RECOVERING, "isr": (1,)}, Error.INVALID_REQUEST),
    "another life of a member": ({"epochs": {2: 55}}, Error.INELIGIBLE_REPLICA),
}
"""In the order in which stock looks for them."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_proposal_that_cannot_be_is_refused_and_changes_nothing(name: str) -> None:
    changes, error = FAULTS[name]
    result, decision = propose(a_cluster(), replace(Proposal(), **changes))
    assert (result.error_code, decision.records) == (error, ())


def test_of_two_faults_the_one_that_stock_sees_first_is_answered() -> None:
    tried = 0
    for (first, error), (second, _) in combinations(FAULTS.values(), 2):
        if not first.keys() & second.keys():
            result, _ = propose(a_cluster(), replace(Proposal(), **first, **second))
            assert result.error_code == error, (first, second)
            tried += 1
    assert tried > 50


def test_a_broker_under_another_epoch_is_refused_as_a_whole() -> None:
    for proposal in (Proposal(broker_epoch=100), Proposal(broker=9)):
        reply = alter_partition(a_cluster(), proposal.request(3), 3).reply
        assert reply == AlterPartitionResponse(error_code=Error.STALE_BROKER_EPOCH)


@pytest.mark.parametrize(
    "member",
    [a_broker(3, fenced=True), a_broker(3, in_controlled_shutdown=True), None],
    ids=["fenced", "leaving", "not registered"],
)
def test_only_brokers_that_are_well_may_join(member: Any) -> None:
    brokers = (1, 2) if member is None else (1, 2, member)
    partition = a_partition(0, isr=(1, 2), leader_epoch=5, partition_epoch=9)
    situation = a_situation(an_image(a_topic("orders", [partition]), brokers=brokers))
    for version, error in (
        (3, Error.INELIGIBLE_REPLICA),
        (2, Error.INELIGIBLE_REPLICA),
        (1, Error.OPERATION_NOT_ATTEMPTED),
    ):
        result, decision = propose(situation, Proposal(), version)
        assert (result.error_code, decision.records) == (error, ())


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_accepted_proposal_is_one_record_and_the_answer_shows_the_new_state(version: int) -> None:
    """R-595-15."""
    situation = a_cluster()
    result, decision = propose(situation, Proposal(epochs={1: 101, 2: 102, 3: 103}), version)
    assert messages(decision) == [PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=(1, 2, 3))]
    assert result == AlterPartitionPartitionResult(0, Error.NONE, 1, 5, (1, 2, 3), Recovery.RECOVERED, 10)
    partition = after(situation, decision).image.partition(ORDERS, 0)
    assert partition == a_partition(0, leader_epoch=5, partition_epoch=10)


def test_a_smaller_set_begins_a_new_reign_while_the_migration_is_on() -> None:
    result, decision = propose(a_cluster(), Proposal(isr=(1,)))
    assert messages(decision) == [PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=(1,), leader=1)]
    assert (result.leader_epoch, result.partition_epoch) == (6, 10)


def test_the_same_set_again_is_no_change() -> None:
    result, decision = propose(a_cluster(), Proposal(isr=(1, 2)))
    assert decision.records == ()
    assert (result.error_code, result.isr, result.partition_epoch) == (Error.NONE, (1, 2), 9)


def test_a_leader_ends_its_recovery_alone_and_may_then_take_others_in() -> None:
    recovering = a_partition(0, isr=(1,), leader_epoch=5, partition_epoch=9, recovery=Recovery.RECOVERING)
    situation = a_cluster(recovering)
    still, decision = propose(situation, Proposal(isr=(1,), recovery=Recovery.RECOVERING))
    assert (still.error_code, decision.records) == (Error.NONE, ())
    result, decision = propose(situation, Proposal(isr=(1,)))
    assert result.leader_recovery_state == Recovery.RECOVERED
    partition = after(situation, decision).image.partition(ORDERS, 0)
    assert partition == msgspec.structs.replace(recovering, recovery=Recovery.RECOVERED, partition_epoch=10)


def test_a_topic_is_unknown_by_name_in_old_versions_and_by_id_in_new_ones() -> None:
    for version, error in ((1, Error.UNKNOWN_TOPIC_OR_PARTITION), (2, Error.UNKNOWN_TOPIC_ID)):
        assert propose(a_cluster(), Proposal(topic="nothing"), version)[0].error_code == error


def test_one_partition_that_is_refused_does_not_hold_up_another() -> None:
    partitions = [a_partition(each, isr=(1, 2)) for each in (0, 1)]
    situation = a_situation(an_image(a_topic("orders", partitions)))
    good, bad = (
        AlterPartitionPartition(each, epoch, new_isr_with_epochs=(IsrBroker(1),)) for each, epoch in ((0, 0), (1, 7))
    )
    request = AlterPartitionRequest(1, 101, (AlterPartitionTopic(topic_id=ORDERS, partitions=(good, bad)),))
    decision = alter_partition(situation, request, 3)
    assert isinstance(decision.reply, AlterPartitionResponse)
    assert [each.error_code for each in decision.reply.topics[0].partitions] == [Error.NONE, Error.NOT_CONTROLLER]
    assert [getattr(each, "partition_id", None) for each in messages(decision)] == [0]
