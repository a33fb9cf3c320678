"""What stands in each request to a ZooKeeper-mode broker, decoded again from the bytes that would be sent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from immutables import Map

from migrator.driver import update_requests
from migrator.driver.update_requests import (
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    VERSIONS,
    BrokerUpdate,
    UpdateKind,
    delta_updates,
    full_updates,
    healing_updates,
    reachable,
)
from migrator.model.diff import diff
from migrator.model.image import EMPTY, Image
from migrator.model.values import Broker, Listener, Recovery, SecurityProtocol
from migrator.wire.codec import decode, encode, encode_part
from migrator.wire.messages.control import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    StopReplicaPartitionState,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from migrator.wire.primitives import ZERO_UUID
from tests.support.arbitrary_images import BROKERS, images
from tests.support.builders import a_broker, a_claim, a_partition, a_topic, an_id, an_image
from tests.support.updated_brokers import request_of

CLAIM = a_claim(node=3000, kraft_epoch=5, zk_epoch=9)
MOVING = a_partition(
    1, replicas=(2, 3, 1), isr=(2, 3), leader=3, leader_epoch=4, partition_epoch=7, adding=(1,), removing=(2,),
    recovery=Recovery.RECOVERING,
)  # fmt: skip
IMAGE = an_image(
    a_topic("payments", [a_partition(0, replicas=(1, 2))]),
    a_topic("orders", [a_partition(0, replicas=(1,), leader=-1), MOVING]),
    brokers=(a_broker(1), a_broker(2, rack="east"), a_broker(3, fenced=True)),
)


def told_to(broker: int, updates: list[BrokerUpdate]) -> list[Any]:
    return [request_of(update) for update in updates if update.broker == broker]


def everything(image: Image = IMAGE, brokers: tuple[int, ...] = (1, 2, 3, 4)) -> list[BrokerUpdate]:
    return full_updates(image, CLAIM, brokers, "PLAINTEXT")


def changes(
    before: Image, after: Image, *, refresh: bool = False, brokers: tuple[int, ...] = (1, 2, 3)
) -> list[BrokerUpdate]:
    delta = diff(before, after)
    return delta_updates(delta, CLAIM, brokers, "PLAINTEXT", delta.topics, refresh=refresh)


def kinds(updates: list[BrokerUpdate]) -> list[tuple[int, int, UpdateKind, int]]:
    return [(update.broker, update.api_key, update.kind, update.partitions) for update in updates]


# --- everything -------------------------------------------------------------------------------------------


def test_a_broker_learns_everything_then_what_it_hosts_then_everything_again() -> None:
    """It has to know a partition before it becomes coordinator of its transactions, and forgets topics by their ids."""
    assert kinds(everything()) == [
        (1, UPDATE_METADATA, UpdateKind.FULL, 3),
        (1, LEADER_AND_ISR, UpdateKind.FULL, 3),
        (1, UPDATE_METADATA, UpdateKind.FULL, 3),
        (2, UPDATE_METADATA, UpdateKind.FULL, 3),
        (2, LEADER_AND_ISR, UpdateKind.FULL, 2),
        (2, UPDATE_METADATA, UpdateKind.FULL, 3),
    ]


def test_every_request_says_that_a_kraft_controller_speaks_and_under_which_zookeeper_epoch() -> None:
    """R-866-04, R-866-05: the epoch is ZooKeeper's, never the quorum's."""
    after = an_image(a_topic("new"))
    for update in everything() + changes(IMAGE, after) + changes(an_image(a_topic("gone")), an_image()):
        request = request_of(update)
        assert (request.controller_id, request.is_kraft_controller, request.controller_epoch) == (3000, True, 9)
        assert request.broker_epoch == update.broker_epoch == 100 + update.broker
        if update.api_key != STOP_REPLICA:
            assert request.type == update.kind


def test_only_unfenced_brokers_in_zookeeper_mode_are_told() -> None:
    image = an_image(brokers=(a_broker(4, migrating=False), a_broker(3), a_broker(2, fenced=True), a_broker(1)))
    assert [broker.id for broker in reachable(image)] == [1, 3]
    assert {update.broker for update in everything(image)} == {1, 3}
    assert {update.broker for update in everything(image, brokers=(3,))} == {3}


def test_an_update_for_nobody_encodes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a fail-over every broker waits for its own; encoding a million partitions would depose the leader."""

    def encoded(*_: object) -> bytes:
        raise AssertionError("encoded for nobody")

    monkeypatch.setattr(update_requests, "encode", encoded)
    assert everything(brokers=()) == everything(brokers=(9,)) == []


def test_brokers_share_the_bytes_of_a_full_update_but_for_their_epochs() -> None:
    """200 brokers and a million partitions would be 10 GB."""
    updates = [update for update in everything() if update.api_key == UPDATE_METADATA]
    assert len({id(update.shared) for update in updates}) == 1
    for update in updates:
        head, rest = update.parts
        assert rest.obj is update.shared
        assert len(head) == 17
        assert head + rest == update.body
        whole = decode(UpdateMetadataRequest, VERSIONS[UPDATE_METADATA], update.shared)
        assert msgspec.structs.replace(whole, broker_epoch=update.broker_epoch) == request_of(update)


def test_update_metadata_holds_every_partition_with_its_epochs() -> None:
    (first, _, full) = told_to(1, everything())
    assert first == full
    assert [(topic.topic_name, topic.topic_id) for topic in full.topic_states] == [
        ("orders", an_id("orders")),
        ("payments", an_id("payments")),
    ]
    assert full.topic_states[0].partition_states[1] == UpdateMetadataPartitionState(
        partition_index=1,
        controller_epoch=9,
        leader=3,
        leader_epoch=4,
        isr=(2, 3),
        zk_version=7,
        replicas=(2, 3, 1),
        offline_replicas=(3,),
    )


def test_a_replica_on_a_broker_that_is_fenced_or_unknown_is_offline() -> None:
    image = an_image(a_topic("orders", [a_partition(replicas=(3, 4, 1))]), brokers=(1, a_broker(3, fenced=True)))
    (state,) = told_to(1, everything(image))[-1].topic_states[0].partition_states
    assert state.offline_replicas == (3, 4)


def test_only_brokers_that_are_not_fenced_are_alive_also_those_in_kraft_mode() -> None:
    """K-18."""
    listeners = (Listener("PLAINTEXT", "h", 9092), Listener("TLS", "t", 9093, SecurityProtocol.SSL))
    image = an_image(brokers=(1, a_broker(2, fenced=True), a_broker(3, migrating=False, listeners=listeners, rack="r")))
    alive = told_to(1, everything(image))[0].live_brokers
    assert [(each.id, each.rack) for each in alive] == [(1, None), (3, "r")]
    assert alive[1].endpoints == (
        UpdateMetadataEndpoint(9092, "h", "PLAINTEXT", 0),
        UpdateMetadataEndpoint(9093, "t", "TLS", 1),
    )


def test_leader_and_isr_names_every_log_of_the_broker_and_no_other() -> None:
    for broker, logs in ((1, {("orders", 0), ("orders", 1), ("payments", 0)}), (2, {("orders", 1), ("payments", 0)})):
        request = told_to(broker, everything())[1]
        named = {
            (topic.topic_name, each.partition_index)
            for topic in request.topic_states
            for each in topic.partition_states
        }
        assert named == logs


def test_leader_and_isr_carries_the_reassignment_and_the_recovery_of_a_partition() -> None:
    request = told_to(2, everything())[1]
    updates = next(topic for topic in request.topic_states if topic.topic_name == "orders")
    assert updates.topic_id == an_id("orders")
    assert updates.partition_states == (
        LeaderAndIsrPartitionState(
            partition_index=1,
            controller_epoch=9,
            leader=3,
            leader_epoch=4,
            isr=(2, 3),
            partition_epoch=7,
            replicas=(2, 3, 1),
            adding_replicas=(1,),
            removing_replicas=(2,),
            is_new=True,
            leader_recovery_state=1,
        ),
    )


def test_leaders_are_named_with_the_address_at_which_brokers_reach_each_other() -> None:
    listeners = (Listener("EXTERNAL", "public", 1), Listener("INSIDE", "inside", 2))
    image = an_image(
        a_topic("t", [a_partition(each, replicas=(each + 1, 1)) for each in range(4)]),
        brokers=(a_broker(1, listeners=listeners), a_broker(2, listeners=listeners[:1]), a_broker(3, fenced=True)),
    )
    request = told_to(1, full_updates(image, CLAIM, {1}, "INSIDE"))[1]
    # Broker 2 has no such listener, broker 3 is fenced, broker 4 is not there.
    assert request.live_leaders == (LeaderAndIsrLiveLeader(1, "inside", 2),)


def test_a_broker_without_replicas_still_gets_a_full_request_that_empties_it() -> None:
    image = an_image(a_topic("orders", [a_partition(replicas=(1,))]))
    requests = told_to(3, everything(image))
    assert [len(request.topic_states) for request in requests] == [1, 0, 1]


@settings(max_examples=60, deadline=None)
@given(image=images(), told=st.sets(st.sampled_from(BROKERS)))
def test_a_state_that_was_encoded_once_for_all_replicas_stands_in_the_bytes_as_if_encoded_for_each(
    image: Image, told: set[int]
) -> None:
    """Who is healed gets the same states, encoded for this broker alone."""
    for update in full_updates(image, CLAIM, told, "PLAINTEXT"):
        if update.api_key == LEADER_AND_ISR:
            request = request_of(update)
            assert encode(request, VERSIONS[LEADER_AND_ISR]) == update.body
            (alone,) = healing_updates(image, CLAIM, image.brokers[update.broker], "PLAINTEXT", ())
            topics = tuple(sorted(request_of(alone).topic_states, key=lambda topic: topic.topic_name))
            expected = msgspec.structs.replace(request_of(alone), type=UpdateKind.FULL, topic_states=topics)
            assert update.body == encode(expected, VERSIONS[LEADER_AND_ISR])
            assert update.partitions == alone.partitions == sum(len(each.partition_states) for each in topics)


def test_the_state_of_a_partition_is_encoded_once_and_not_where_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 brokers and 100,000 partitions: three times the time without controller."""
    encoded: list[type] = []

    def counted(part: Any, *others: Any) -> bytes:
        encoded.append(type(part))
        return encode_part(part, *others)

    monkeypatch.setattr(update_requests, "encode_part", counted)
    image = an_image(a_topic("wide", 5), a_topic("elsewhere", [a_partition(replicas=(2, 3))]))
    full_updates(image, CLAIM, {1, 2, 3}, "PLAINTEXT")
    assert encoded.count(LeaderAndIsrPartitionState) == 6
    encoded.clear()
    full_updates(image, CLAIM, {1}, "PLAINTEXT")
    assert encoded.count(LeaderAndIsrPartitionState) == 5


# --- what changed -----------------------------------------------------------------------------------------


def test_a_delta_tells_hosts_of_their_partitions_and_everybody_of_all() -> None:
    before = an_image(a_topic("a", [a_partition(0, (1, 2)), a_partition(1, (2, 3))]), a_topic("b"))
    changed = a_topic("a", [a_partition(0, (1, 2), leader=2, leader_epoch=1), a_partition(1, (2, 3))])
    updates = changes(before, an_image(changed, a_topic("b")))
    assert kinds(updates) == [
        (1, LEADER_AND_ISR, UpdateKind.INCREMENTAL, 1),
        (2, LEADER_AND_ISR, UpdateKind.INCREMENTAL, 1),
        (1, UPDATE_METADATA, UpdateKind.INCREMENTAL, 1),
        (2, UPDATE_METADATA, UpdateKind.INCREMENTAL, 1),
        (3, UPDATE_METADATA, UpdateKind.INCREMENTAL, 1),
    ]
    for update in updates:
        (topic,) = request_of(update).topic_states
        assert (topic.topic_name, len(topic.partition_states), topic.partition_states[0].leader) == ("a", 1, 2)


def test_only_the_topics_asked_for_are_told() -> None:
    delta = diff(EMPTY, an_image(a_topic("a"), a_topic("b")))
    updates = delta_updates(delta, CLAIM, (1, 2, 3), "PLAINTEXT", {an_id("b")}, refresh=False)
    assert {topic.topic_name for update in updates for topic in request_of(update).topic_states} == {"b"}


def test_a_change_of_brokers_alone_refreshes_who_is_alive() -> None:
    updates = changes(IMAGE, IMAGE, refresh=True)
    assert kinds(updates) == [(broker, UPDATE_METADATA, UpdateKind.UNKNOWN, 0) for broker in (1, 2)]
    assert [broker.id for broker in request_of(updates[0]).live_brokers] == [1, 2]


def test_nothing_changed_is_nothing_sent() -> None:
    assert changes(IMAGE, IMAGE) == []


def test_a_deleted_topic_is_told_before_its_namesake_is_made() -> None:
    """K-21."""
    before = an_image(a_topic("orders", [a_partition(replicas=(1, 2))]))
    after = an_image(a_topic("orders", [a_partition(replicas=(2, 3))], an_id("again")))
    assert [(update.broker, update.api_key) for update in changes(before, after)] == [
        *((broker, UPDATE_METADATA) for broker in (1, 2, 3)),
        *((broker, STOP_REPLICA) for broker in (1, 2)),
        *((broker, LEADER_AND_ISR) for broker in (2, 3)),
        *((broker, UPDATE_METADATA) for broker in (1, 2, 3)),
    ]


def test_a_deletion_says_leader_minus_two_and_the_zero_id_and_drops_each_log() -> None:
    before = an_image(a_topic("orders", [a_partition(0, (1, 2), leader_epoch=6, partition_epoch=3)]))
    updates = changes(before, an_image())
    (forget, stop) = told_to(1, updates)
    (topic,) = forget.topic_states
    assert (topic.topic_name, topic.topic_id) == ("orders", ZERO_UUID)
    state = topic.partition_states[0]
    assert (state.leader, state.leader_epoch, state.zk_version, state.replicas) == (-2, 0, 0, (1, 2))
    assert state.offline_replicas == ()
    (stopped,) = stop.topic_states
    assert (stopped.topic_name, stopped.partition_states) == ("orders", (StopReplicaPartitionState(0, -2, True),))
    assert [type(request).__name__ for request in told_to(3, updates)] == ["UpdateMetadataRequest"]


def test_k19_of_a_deleted_partition_those_replicas_are_offline_that_are_offline() -> None:
    brokers: list[int | Broker] = [1, a_broker(2, fenced=True), 3]
    before = an_image(a_topic("orders", [a_partition(0, (1, 2, 4), (1,))]), brokers=brokers)
    forget = told_to(1, changes(before, an_image(brokers=brokers)))[0]
    assert forget.topic_states[0].partition_states[0].offline_replicas == (2, 4)


def test_a_replica_that_a_reassignment_took_away_is_dropped_at_the_new_leader_epoch_after_the_others_know() -> None:
    """F-47: dropped with its log, so that nothing stray is left."""
    before = an_image(a_topic("orders", [a_partition(0, (1, 2, 3)), a_partition(1, (1, 2))]))
    after = an_image(
        a_topic("orders", [a_partition(0, (1, 2), leader_epoch=5, partition_epoch=2), a_partition(1, (1, 2))])
    )
    updates = changes(before, after)
    assert kinds(updates)[-1] == (3, STOP_REPLICA, UpdateKind.INCREMENTAL, 1)
    assert [update.api_key for update in updates].count(STOP_REPLICA) == 1
    (topic,) = request_of(updates[-1]).topic_states
    assert topic.partition_states == (StopReplicaPartitionState(0, 5, True),)


@pytest.mark.parametrize("epoch", [0, 1, 2**31, 2**62])
def test_the_epoch_of_each_broker_stands_in_a_body_that_was_encoded_once(epoch: int) -> None:
    image = msgspec.structs.replace(IMAGE, brokers=Map({1: a_broker(1, epoch=epoch), 2: a_broker(2)}))
    updates = everything(image)
    assert {request.broker_epoch for request in told_to(1, updates)} == {epoch}
    assert {request.broker_epoch for request in told_to(2, updates)} == {102}
    first, second = (told_to(broker, updates)[2] for broker in (1, 2))
    assert msgspec.structs.replace(first, broker_epoch=102) == second
