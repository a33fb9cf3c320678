"""Any life of a cluster: brokers start, stop, fall silent and propose in-sync sets in any order, and whatever happens,
no partition is led by a broker that may not lead it, and no epoch goes back.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.controller.brokers import fence_longest_silent
from migrator.controller.decision import Decision, Record, Situation
from migrator.controller.partitions.elections import preferred_leaders
from migrator.controller.requests import decide
from migrator.model.image import METADATA_VERSION, Image
from migrator.model.values import NO_LEADER, Recovery
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    RegistrationFeature,
    RegistrationListener,
    UnregisterBrokerRequest,
)
from migrator.wire.messages.metadata import PartitionChangeRecord
from migrator.wire.messages.partitions import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    IsrBroker,
)
from migrator.wire.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest, DeleteTopicState
from migrator.wire.schema import Message
from tests.support.builders import a_broker, a_topic, an_id, an_image
from tests.support.situations import CLUSTER, a_situation, after, replayed

BROKERS = (1, 2, 3, 4)
NEWEST = {AlterPartitionRequest: 3, DeleteTopicsRequest: 6}


class Life:
    """One cluster and the next things that happen to it."""

    def __init__(self, seed: int, *, unclean: bool) -> None:
        image = an_image(
            a_topic("orders", 3),
            a_topic("payments", 2),
            brokers=[a_broker(broker, fenced=broker == 4) for broker in BROKERS],
            next_producer_id=1000,
        )
        self.now: Situation = a_situation(image, seed=seed, unclean_leader_election=unclean)
        self.chance = Random(seed)
        self.unclean = unclean
        self.runs = 0
        self.blocks: list[range] = []

    def ask(self, request: Message) -> Decision:
        decision = decide(self.now, request, NEWEST.get(type(request), 0), writes_allowed=True)
        self.carry_out(decision.records)
        return decision

    def carry_out(self, records: Any) -> None:
        before = self.now.image
        self.check_step(before, records)
        self.now = after(self.now, records)
        self.check_state(self.now.image)

    # --- what can happen -----------------------------------------------------------------------------------

    def time_passes(self) -> None:
        """And with it the sessions of those who did not report."""
        self.now = replace(self.now, now_ms=self.now.now_ms + self.chance.choice((100, 5_000, 9_500)))

    def silence_is_looked_at(self) -> None:
        """Some time after a session ended: meanwhile anything can happen."""
        while (found := fence_longest_silent(self.now)) is not None:
            self.carry_out(found[1])

    def a_broker_reports(self) -> None:
        broker = self.chance.choice(BROKERS)
        known = self.now.image.brokers.get(broker)
        epoch = -1 if known is None else known.epoch
        offset = self.now.image.position.offset - self.chance.choice((0, 0, 0, 30, 2_000))
        leaving = known is not None and known.in_controlled_shutdown  # it does not change its mind in this life
        self.ask(
            BrokerHeartbeatRequest(
                broker,
                epoch,
                current_metadata_offset=offset,
                want_fence=not leaving and self.chance.random() < 0.2,
                want_shut_down=leaving or self.chance.random() < 0.2,
            )
        )

    def a_broker_starts(self) -> None:
        broker = self.chance.choice(BROKERS)
        self.runs += 1
        self.ask(
            BrokerRegistrationRequest(
                broker_id=broker,
                cluster_id=CLUSTER,
                incarnation_id=an_id(f"run {self.runs}"),
                listeners=(RegistrationListener("PLAINTEXT", "h", 9092, 0),),
                features=(RegistrationFeature(METADATA_VERSION, 21, 21),),
                is_migrating_zk_broker=True,
                log_dirs=(an_id(f"dir-{broker}"),),
            )
        )

    def a_broker_is_removed_for_good(self) -> None:
        fenced = [broker.id for broker in self.now.image.brokers.values() if broker.fenced]
        if fenced:
            self.ask(UnregisterBrokerRequest(self.chance.choice(fenced)))

    def a_leader_proposes(self) -> None:
        led = [(topic, each) for topic, each in self.now.image.partitions() if each.leader != NO_LEADER]
        if not led:
            return
        topic, partition = self.chance.choice(led)
        others = [each for each in partition.replicas if each != partition.leader]
        wanted = [partition.leader, *self.chance.sample(others, self.chance.randint(0, len(others)))]
        if partition.recovery == Recovery.RECOVERING:
            wanted = wanted[:1]
        leader = self.now.image.brokers.get(partition.leader)
        proposal = AlterPartitionPartition(
            partition.id,
            partition.leader_epoch,
            new_isr_with_epochs=tuple(IsrBroker(each) for each in wanted),
            partition_epoch=partition.partition_epoch,
        )
        self.ask(
            AlterPartitionRequest(
                partition.leader,
                -1 if leader is None else leader.epoch,
                (AlterPartitionTopic(topic_id=topic.id, partitions=(proposal,)),),
            )
        )

    def a_topic_comes_or_goes(self) -> None:
        name = self.chance.choice(("orders", "invoices", "refunds"))
        known = self.now.image.topic(name)
        if known is None:
            self.ask(CreateTopicsRequest((CreatableTopic(name, 2, self.chance.randint(1, 3)),)))
        else:
            self.ask(DeleteTopicsRequest((DeleteTopicState(topic_id=known.id),)))

    def a_broker_asks_for_producer_ids(self) -> None:
        broker = self.chance.choice(BROKERS)
        known = self.now.image.brokers.get(broker)
        reply = self.ask(AllocateProducerIdsRequest(broker, -1 if known is None else known.epoch)).reply
        assert isinstance(reply, AllocateProducerIdsResponse)
        if reply.error_code == Error.NONE:
            self.blocks.append(range(reply.producer_id_start, reply.producer_id_start + reply.producer_id_len))

    def leaders_are_balanced(self) -> None:
        self.carry_out(preferred_leaders(self.now, 10))

    # --- what has to hold ----------------------------------------------------------------------------------

    def check_step(self, before: Image, records: tuple[Record, ...]) -> None:
        """Each change counts once; a leader that is named is a new reign; a clean leader was in sync."""
        image = before
        for record, version in records:
            if isinstance(record, PartitionChangeRecord):
                old = image.partition(record.topic_id, record.partition_id)
                new = replayed(image, [(record, version)]).after.partition(record.topic_id, record.partition_id)
                assert old is not None
                assert new is not None
                assert new.partition_epoch == old.partition_epoch + 1
                assert new.leader_epoch >= old.leader_epoch
                assert (new.leader == old.leader) or new.leader_epoch > old.leader_epoch
                if not set(old.isr) <= set(new.isr):
                    assert new.leader_epoch > old.leader_epoch  # the migration is on: a shrink is a new reign
                if new.leader not in (NO_LEADER, *old.isr):
                    assert self.unclean
                    assert new.recovery == Recovery.RECOVERING
            image = replayed(image, [(record, version)]).after

    def check_state(self, image: Image) -> None:
        for topic, partition in image.partitions():
            name = f"{topic.name}-{partition.id}: {partition}"
            assert partition.isr, name
            assert set(partition.isr) <= set(partition.replicas), name
            able = {broker.id for broker in image.brokers.values() if broker.active}
            if partition.leader == NO_LEADER:
                assert not able.intersection(partition.isr), name  # somebody in sync could lead
            else:
                assert partition.leader in partition.isr, name
                assert partition.leader in able, name
        taken = sorted(self.blocks, key=lambda block: block.start)
        assert all(left.stop <= right.start for left, right in pairwise(taken))


HAPPENINGS = [
    Life.time_passes,
    Life.silence_is_looked_at,
    Life.a_broker_reports,
    Life.a_broker_reports,
    Life.a_broker_reports,
    Life.a_broker_starts,
    Life.a_leader_proposes,
    Life.a_leader_proposes,
    Life.a_topic_comes_or_goes,
    Life.a_broker_is_removed_for_good,
    Life.a_broker_asks_for_producer_ids,
    Life.leaders_are_balanced,
]


@pytest.mark.parametrize("unclean", [False, True], ids=["clean elections only", "unclean elections allowed"])
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(20, 60))
def test_whatever_brokers_do_partitions_are_led_by_those_who_may(seed: int, steps: int, unclean: bool) -> None:
    """R-595-15, R-866-15."""
    life = Life(seed, unclean=unclean)
    for _ in range(steps):
        life.chance.choice(HAPPENINGS)(life)
