"""Who is told what and when; and that in the end every broker believes what the log says, whatever came between."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from immutables import Map

from migrator.driver.broker_updates import BrokerUpdates
from migrator.driver.update_requests import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, BrokerUpdate, UpdateKind
from migrator.model.diff import diff
from migrator.model.draft import Delta
from migrator.model.image import Image, Position
from migrator.model.values import Broker, Topic
from tests.support.arbitrary_images import BROKERS, images
from tests.support.builders import a_broker, a_claim, a_partition, a_topic, an_id, an_image
from tests.support.updated_brokers import UpdatedBrokers, assert_knows, request_of

CLAIM = a_claim()


def some_broker_updates(image: Image) -> BrokerUpdates:
    return BrokerUpdates(CLAIM, "PLAINTEXT", image)


def change(before: Image, after: Image) -> Delta:
    """As the log would publish it: the registrations that differ are named as well."""
    delta = diff(before, after)
    ids = set(before.brokers) | set(after.brokers)
    moved = frozenset(each for each in ids if before.brokers.get(each) != after.brokers.get(each))
    return msgspec.structs.replace(delta, brokers=moved)


def at(image: Image, offset: int, *brokers: Broker) -> Image:
    """The same cluster at another offset, with these registrations if any are named."""
    registered = Map({broker.id: broker for broker in brokers}) if brokers else image.brokers
    return msgspec.structs.replace(image, position=Position(1, offset), brokers=registered)


def heads(updates: Sequence[BrokerUpdate]) -> list[tuple[int, int, UpdateKind]]:
    return [(update.broker, update.api_key, update.kind) for update in updates]


def welcome(broker_updates: BrokerUpdates) -> list[BrokerUpdate]:
    """Everything for those that may have it now."""
    brokers = broker_updates.admissible()
    return broker_updates.welcome(brokers).updates() if brokers else []


EVERYTHING = [(UPDATE_METADATA, UpdateKind.FULL), (LEADER_AND_ISR, UpdateKind.FULL), (UPDATE_METADATA, UpdateKind.FULL)]


def everything_for(*brokers: int) -> list[tuple[int, int, UpdateKind]]:
    return [(broker, api_key, kind) for broker in brokers for api_key, kind in EVERYTHING]


ORDERS = an_image(a_topic("orders", 2))


def test_the_first_send_is_everything_for_every_broker_that_can_be_reached() -> None:
    image = an_image(
        a_topic("orders"), brokers=(1, a_broker(2, fenced=True), a_broker(3), a_broker(4, migrating=False))
    )
    broker_updates = some_broker_updates(image)
    assert heads(broker_updates.everything()) == everything_for(1, 3)
    assert broker_updates.audience() == {1: 101, 3: 103}


def test_a_leader_change_is_told_at_once_and_to_everybody() -> None:
    broker_updates = some_broker_updates(ORDERS)
    broker_updates.everything()
    after = at(an_image(a_topic("orders", [a_partition(0, leader=2, leader_epoch=1), a_partition(1)])), 1001)
    updates = broker_updates.published(change(ORDERS, after))
    assert heads(updates) == [
        *((broker, LEADER_AND_ISR, UpdateKind.INCREMENTAL) for broker in (1, 2, 3)),
        *((broker, UPDATE_METADATA, UpdateKind.INCREMENTAL) for broker in (1, 2, 3)),
    ]
    assert broker_updates.mirrored(after.position) == []


def test_a_new_topic_waits_until_zookeeper_has_it() -> None:
    broker_updates = some_broker_updates(ORDERS)
    broker_updates.everything()
    after = at(an_image(a_topic("orders", 2), a_topic("new")), 1001)
    assert broker_updates.published(change(ORDERS, after)) == []
    assert broker_updates.mirrored(Position(1, 1000)) == []
    updated = broker_updates.mirrored(Position(1, 1001))
    assert {request_of(update).topic_states[0].topic_name for update in updated} == {"new"}
    assert broker_updates.mirrored(Position(1, 1001)) == []


def test_a_full_send_contains_what_waited() -> None:
    """After a reconcile everything is told again, and nothing older comes behind it."""
    broker_updates = some_broker_updates(ORDERS)
    broker_updates.everything()
    after = at(an_image(a_topic("orders", 2), a_topic("new")), 1001)
    broker_updates.published(change(ORDERS, after))
    assert "new" in {topic.topic_name for topic in request_of(broker_updates.everything()[-1]).topic_states}
    assert broker_updates.mirrored(after.position) == []


def test_a_later_change_of_a_topic_that_waits_waits_behind_it() -> None:
    broker_updates = some_broker_updates(ORDERS)
    broker_updates.everything()
    created = at(an_image(a_topic("orders", 2), a_topic("new")), 1001)
    new = a_topic("new", [a_partition(leader=2, leader_epoch=1)])
    elected = at(an_image(a_topic("orders", 2), new), 1002)
    assert broker_updates.published(change(ORDERS, created)) == []
    assert broker_updates.published(change(created, elected)) == []
    first = broker_updates.mirrored(Position(1, 1001))
    second = broker_updates.mirrored(Position(1, 1002))
    leaders = [
        [request_of(each).topic_states[0].partition_states[0].leader for each in updates] for updates in (first, second)
    ]
    assert leaders == [[1] * 6, [2] * 6]


def test_a_deleted_topic_is_forgotten_and_its_logs_are_dropped_once_zookeeper_forgot_it() -> None:
    """R-866-08."""
    broker_updates = some_broker_updates(ORDERS)
    broker_updates.everything()
    after = at(an_image(), 1001)
    assert broker_updates.published(change(ORDERS, after)) == []
    assert heads(broker_updates.mirrored(after.position)) == [
        *((broker, UPDATE_METADATA, UpdateKind.INCREMENTAL) for broker in (1, 2, 3)),
        *((broker, STOP_REPLICA, UpdateKind.INCREMENTAL) for broker in (1, 2, 3)),
    ]


def test_a_broker_that_comes_back_under_another_epoch_gets_everything_and_the_others_who_is_alive() -> None:
    """R-866-06."""
    broker_updates = some_broker_updates(ORDERS)
    broker_updates.everything()
    after = at(ORDERS, 1001, a_broker(1), a_broker(2, epoch=900), a_broker(3))
    updates = broker_updates.published(change(ORDERS, after))
    assert heads(updates) == [(broker, UPDATE_METADATA, UpdateKind.UNKNOWN) for broker in (1, 3)]
    assert broker_updates.waiting() == {2: 900}
    assert heads(welcome(broker_updates)) == everything_for(2)
    assert broker_updates.audience() == {1: 101, 2: 900, 3: 103}


def test_a_fenced_broker_is_told_nothing_and_everything_when_it_is_let_in_again() -> None:
    broker_updates = some_broker_updates(ORDERS)
    broker_updates.everything()
    fenced = at(ORDERS, 1001, a_broker(1), a_broker(2, fenced=True), a_broker(3))
    assert {update.broker for update in broker_updates.published(change(ORDERS, fenced))} == {1, 3}
    back = at(ORDERS, 1002, *map(a_broker, (1, 2, 3)))
    assert {update.broker for update in broker_updates.published(change(fenced, back))} == {1, 3}
    assert heads(welcome(broker_updates)) == everything_for(2)


def test_a_broker_that_comes_back_waits_for_what_it_may_have_and_not_for_what_is_created_later() -> None:
    """In KRaft mode it had every topic that was committed; a FULL LeaderAndIsr without one moves its log aside.

    With topics created all the time something always waits for ZooKeeper, so what comes later is not waited for.
    """
    broker_updates, updated = some_broker_updates(ORDERS), UpdatedBrokers()
    updated.follow(ORDERS)
    updated.hear(broker_updates.everything())
    created = at(an_image(a_topic("orders", 2), a_topic("new")), 1001)
    updated.hear(broker_updates.published(change(ORDERS, created)))
    back = at(created, 1002, a_broker(1), a_broker(2, epoch=900), a_broker(3))
    updated.follow(back)
    updated.hear(broker_updates.published(change(created, back)))
    later = at(an_image(a_topic("orders", 2), a_topic("new"), a_topic("later")), 1003, *back.brokers.values())
    updated.hear(broker_updates.published(change(back, later)))
    assert (broker_updates.waiting(), broker_updates.admissible()) == ({2: 900}, {})
    updated.hear(broker_updates.mirrored(Position(1, 1001)))
    updates = welcome(broker_updates)
    assert heads(updates) == everything_for(2)
    updated.hear(updates)
    assert_knows(updated.brokers[2], 2, at(created, 1002, *back.brokers.values()))
    updated.hear(broker_updates.mirrored(Position(1, 1003)))
    for broker in (1, 2, 3):
        assert_knows(updated.brokers[broker], broker, later)


def test_a_broker_that_is_let_in_again_in_the_same_life_does_not_wait_for_zookeeper() -> None:
    """It has only what brokers were told, which ZooKeeper had before."""
    broker_updates = some_broker_updates(ORDERS)
    broker_updates.everything()
    created = at(an_image(a_topic("orders", 2), a_topic("new")), 1001)
    broker_updates.published(change(ORDERS, created))
    fenced = at(created, 1002, a_broker(1), a_broker(2, fenced=True), a_broker(3))
    broker_updates.published(change(created, fenced))
    back = at(created, 1003, *map(a_broker, (1, 2, 3)))
    broker_updates.published(change(fenced, back))
    assert broker_updates.admissible() == {2: 102}


def test_who_is_alive_is_never_told_from_an_image_that_waited() -> None:
    """K-18: brokers replace what they know of each other with each UpdateMetadata, also with a late one."""
    broker_updates, updated = some_broker_updates(ORDERS), UpdatedBrokers()
    updated.follow(ORDERS)
    updated.hear(broker_updates.everything())
    created = at(an_image(a_topic("orders", 2), a_topic("new")), 1001)
    updated.hear(broker_updates.published(change(ORDERS, created)))
    fenced = at(created, 1002, a_broker(1), a_broker(2), a_broker(3, fenced=True))
    updated.hear(broker_updates.published(change(created, fenced)))
    assert updated.brokers[1].alive == {1, 2}
    updated.hear(broker_updates.mirrored(Position(1, 1001)))
    assert updated.brokers[1].alive == {1, 2}


def test_a_broker_that_refused_gets_everything_once_more_and_only_for_the_epoch_that_refused() -> None:
    """R-866-07."""
    broker_updates = some_broker_updates(ORDERS)
    broker_updates.everything()
    broker_updates.withhold(2, 102)
    assert heads(welcome(broker_updates)) == everything_for(2)
    broker_updates.withhold(2, 7)  # an answer to an older life of it
    assert welcome(broker_updates) == []
    assert broker_updates.audience() == {1: 101, 2: 102, 3: 103}


def test_a_withheld_broker_hears_nothing_until_it_is_welcome() -> None:
    broker_updates = some_broker_updates(ORDERS)
    assert {update.broker for update in broker_updates.everything(withheld={2, 3})} == {1}
    assert broker_updates.waiting() == broker_updates.admissible() == {2: 102, 3: 103}
    after = at(an_image(a_topic("orders", [a_partition(0, leader=2, leader_epoch=1), a_partition(1)])), 1001)
    assert {update.broker for update in broker_updates.published(change(ORDERS, after))} == {1}
    assert heads(broker_updates.welcome({2}).updates()) == everything_for(2)
    back = at(after, 1002, a_broker(1), a_broker(2), a_broker(3, epoch=900))
    assert {update.broker for update in broker_updates.published(change(after, back))} == {1, 2}
    assert broker_updates.waiting() == {3: 900}


# --- whatever happens -------------------------------------------------------------------------------------


@st.composite
def registrations(draw: st.DrawFn) -> Map[int, Broker]:
    found = {}
    for broker in BROKERS:
        epoch = draw(st.sampled_from([100 + broker, 100 + broker, 100 + broker, 200 + broker, None]))
        if epoch is not None:
            found[broker] = a_broker(broker, epoch=epoch, fenced=draw(st.sampled_from([False, False, True])))
    return Map(found)


def as_kafka_would(before: Image, after: Image, gone: set[bytes], turn: int) -> Image:
    """A topic never loses partitions, and the id of one that was deleted is never given again.

    gone: ids of deleted topics; those that `after` lacks are added.
    """
    topics = {}
    for topic_id, topic in after.topics.items():
        now = before.topics.get(topic_id)
        if now is not None and len(topic.partitions) < len(now.partitions):
            topic = Topic(topic.name, topic_id, topic.partitions + now.partitions[len(topic.partitions) :])
        if topic_id in gone:
            topic = Topic(topic.name, an_id(f"{topic.name} of turn {turn}"), topic.partitions)
        topics[topic.id] = topic
    gone |= before.topics.keys() - topics.keys()
    names = {topic.name: topic_id for topic_id, topic in topics.items()}
    return msgspec.structs.replace(after, topics=Map(topics), topic_ids=Map(names))


@settings(max_examples=200, deadline=None)
@given(first=images(), start=registrations(), data=st.data())
def test_in_the_end_every_broker_believes_what_the_log_says(
    first: Image, start: Map[int, Broker], data: st.DataObject
) -> None:
    """Commits, restarts, fences, a lagging ZooKeeper, refusals and withheld brokers in any order (R-866-06)."""
    image = msgspec.structs.replace(first, brokers=start, position=Position(1, 1000))
    broker_updates, updated = some_broker_updates(image), UpdatedBrokers()
    updated.follow(image)
    withheld = data.draw(st.sets(st.sampled_from(BROKERS), max_size=2), "withheld")
    updated.hear(broker_updates.everything(withheld))
    mirrored, gone = 1000, set[bytes]()
    for offset in range(1001, 1001 + data.draw(st.integers(1, 4), "commits")):
        brokers = data.draw(st.just(image.brokers) | registrations(), "brokers")
        after = as_kafka_would(image, data.draw(st.just(image) | images(), "image"), gone, offset)
        after = msgspec.structs.replace(after, brokers=brokers, position=Position(1, offset))
        updated.follow(after)
        updated.hear(broker_updates.published(change(image, after)))
        updated.hear(welcome(broker_updates))
        image = after
        if data.draw(st.booleans(), "somebody refuses") and broker_updates.audience():
            broker = data.draw(st.sampled_from(sorted(broker_updates.audience())), "who")
            updated.brokers[broker].metadata.clear()  # the request that it refused was lost to it
            broker_updates.withhold(broker, updated.brokers[broker].epoch)
            updated.hear(welcome(broker_updates))
        if data.draw(st.booleans(), "zookeeper moves"):
            mirrored = data.draw(st.integers(mirrored, offset), "to")
            updated.hear(broker_updates.mirrored(Position(1, mirrored)))
            updated.hear(welcome(broker_updates))
    updated.hear(broker_updates.mirrored(image.position))
    updated.hear(welcome(broker_updates))
    reached = {broker.id for broker in image.brokers.values() if not broker.fenced}
    assert set(broker_updates.audience()) == reached
    for broker in reached:
        assert_knows(updated.brokers[broker], broker, image)


def test_a_topic_made_again_under_its_name_is_dropped_before_it_is_made() -> None:
    """K-21, F-28: a broker that still held the old log would answer INCONSISTENT_TOPIC_ID."""
    broker_updates, updated = some_broker_updates(ORDERS), UpdatedBrokers()
    updated.follow(ORDERS)
    updated.hear(broker_updates.everything())
    again = at(an_image(a_topic("orders", 2, an_id("orders again"))), 1001)
    updated.hear(broker_updates.published(change(ORDERS, again)))
    updated.hear(broker_updates.mirrored(again.position))
    for broker in (1, 2, 3):
        assert_knows(updated.brokers[broker], broker, again)


def test_k20_a_full_send_leaves_no_partition_of_an_earlier_topic_of_that_name() -> None:
    """A broker forgets topics by their ids: the old one's id has to be there until the FULL request comes."""
    updated = UpdatedBrokers()
    updated.follow(ORDERS)
    updated.hear(some_broker_updates(at(an_image(a_topic("orders", 4, an_id("orders before"))), 1001)).everything())
    updated.hear(some_broker_updates(ORDERS).everything())
    for broker in (1, 2, 3):
        assert_knows(updated.brokers[broker], broker, ORDERS)


def test_a_broker_is_not_healed_of_a_replica_that_the_others_still_follow() -> None:
    """The removal waits for ZooKeeper: until then the broker leads it, and its log is all that there is."""
    before = an_image(a_topic("orders", [a_partition(replicas=(1, 2, 3), isr=(1, 2, 3), leader=2)]))
    after = at(an_image(a_topic("orders", [a_partition(replicas=(1, 3), isr=(1, 3), leader=1, leader_epoch=1)])), 1001)
    broker_updates = some_broker_updates(before)
    broker_updates.everything()
    assert broker_updates.published(change(before, after)) == []
    healing = broker_updates.heal(2, [("orders", 0), ("gone", 1)])
    assert heads(healing) == [(2, STOP_REPLICA, UpdateKind.INCREMENTAL), (2, LEADER_AND_ISR, UpdateKind.INCREMENTAL)]
    assert [each.topic_name for each in request_of(healing[0]).topic_states] == ["gone"]
    broker_updates.mirrored(after.position)
    stopped = request_of(broker_updates.heal(2, [("orders", 0)])[0])
    assert [each.topic_name for each in stopped.topic_states] == ["orders"]
