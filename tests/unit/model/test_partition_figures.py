"""The figures of partitions by which gates and the status say how whole a cluster is."""

from __future__ import annotations

import asyncio
import time
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from migrator.model.draft import Draft
from migrator.model.image import Image, Position
from migrator.model.partition_figures import BrokerFigures, PartitionCounter
from migrator.model.values import (
    LOST_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    ZERO_ID,
    ConfigKey,
    ConfigType,
    Partition,
)
from migrator.node.process.partition_count import AT_ONCE_PARTITIONS, LATER_AT_MOST_S, PartitionCount
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image

HOME = {broker: an_id(f"dir-{broker}") for broker in (1, 2, 3)}
WHOLE = (HOME[1], HOME[2], HOME[3])


def test_a_whole_cluster_counts_no_fault() -> None:
    image = an_image(a_topic("orders", [a_partition(each, directories=WHOLE) for each in range(4)]))
    figures = PartitionCounter().count(image)
    assert (figures.partitions, figures.under_replicated, figures.under_min_isr, figures.reassignments) == (4, 0, 0, 0)
    assert set(figures.brokers.values()) == {BrokerFigures()}


def test_each_fault_is_counted_for_the_cluster_and_for_the_brokers_that_have_it() -> None:
    image = an_image(
        a_topic(
            "orders",
            [
                a_partition(0, isr=(1, 2), directories=WHOLE),
                a_partition(1, isr=(1,), directories=WHOLE),
                a_partition(2, directories=WHOLE, adding=(3,)),
                a_partition(3, isr=(2,), leader=NO_LEADER, directories=WHOLE),
            ],
        ),
        topic_configs={"orders": {"min.insync.replicas": "2"}},
    )
    figures = PartitionCounter().count(image)
    assert (figures.under_replicated, figures.under_min_isr, figures.leaderless, figures.reassignments) == (3, 2, 1, 1)
    assert {broker: found.under_replicated for broker, found in figures.brokers.items()} == {1: 1, 2: 1, 3: 3}
    assert {broker: found.under_min_isr for broker, found in figures.brokers.items()} == {1: 2, 2: 2, 3: 2}


def test_the_one_broker_that_leads_every_under_replicated_partition_is_named() -> None:
    """It is the one that may not report ISR changes any more (docs/undo.md)."""
    counter = PartitionCounter()

    def named(*partitions: Partition) -> int | None:
        return counter.count(an_image(a_topic("orders", [*partitions]))).under_replicated_leader

    lacking = [a_partition(each, isr=(2, 1), leader=2, directories=WHOLE) for each in range(3)]
    whole = a_partition(3, leader=1, directories=WHOLE)
    assert named(*lacking, whole) == 2
    assert named(*lacking, a_partition(3, isr=(1, 2), leader=1, directories=WHOLE)) is None
    assert named(*lacking, a_partition(3, isr=(2,), leader=NO_LEADER, directories=WHOLE)) is None
    assert named(whole) is None


def test_a_minimum_above_the_number_of_replicas_is_the_number_of_replicas() -> None:
    image = an_image(a_topic("orders", [a_partition(replicas=(1,), directories=(HOME[1],))]))
    assert PartitionCounter(min_isr_default=2).count(image).under_min_isr == 0


def test_replicas_without_a_committed_directory_and_failed_directories_are_counted_per_broker() -> None:
    gone = an_id("gone")
    image = an_image(
        a_topic(
            "orders",
            [
                a_partition(0, directories=(HOME[1], UNASSIGNED_DIRECTORY, LOST_DIRECTORY)),
                a_partition(1, directories=(gone, HOME[2], ZERO_ID)),
                a_partition(2, directories=(gone, HOME[2], HOME[3])),
                a_partition(3),
            ],
        )
    )
    figures = PartitionCounter().count(image)
    assert {broker: found.unassigned_dirs for broker, found in figures.brokers.items()} == {1: 1, 2: 2, 3: 3}
    assert figures.brokers[1].offline_dirs == {gone}


def test_a_directory_that_fails_later_is_seen_though_no_partition_changed() -> None:
    image = an_image(a_topic("orders", [a_partition(directories=WHOLE)]))
    counter = PartitionCounter()
    assert counter.count(image).brokers[2].offline_dirs == frozenset()
    draft = Draft(image)
    draft.put_broker(replace(a_broker(2), log_dirs=(an_id("other"),)))
    assert counter.count(draft.finish(Position(1, 1001)).after).brokers[2].offline_dirs == {HOME[2]}


def test_a_changed_minimum_counts_for_topics_that_did_not_change() -> None:
    image = an_image(a_topic("orders", [a_partition(isr=(1, 2), directories=WHOLE)]))
    counter = PartitionCounter()
    assert counter.count(image).under_min_isr == 0
    draft = Draft(image)
    draft.set_config(ConfigKey(ConfigType.BROKER, ""), "min.insync.replicas", "3")
    assert counter.count(draft.finish(Position(1, 1001)).after).under_min_isr == 1


@st.composite
def a_story(draw: st.DrawFn) -> list[Image]:
    """Images that follow each other, as a log makes them."""
    chance = Random(draw(st.integers(0, 2**32)))
    topics = [a_topic(f"t{number}", 3) for number in range(4)]
    image = an_image(*topics)
    images = [image]
    for _ in range(draw(st.integers(1, 12))):
        draft = Draft(image)
        match chance.randrange(5):
            case 0:
                draft.put_broker(replace(a_broker(chance.randint(1, 3)), log_dirs=(an_id(f"d{chance.random()}"),)))
            case 1 if image.topics:
                draft.remove_topic(chance.choice(sorted(image.topics)))
            case 2:
                draft.put_topic(a_topic(f"n{image.position.offset}", 2))
            case 3:
                name = f"t{chance.randrange(4)}"
                draft.set_config(ConfigKey(ConfigType.TOPIC, name), "min.insync.replicas", chance.choice("123x"))
            case _ if image.topics:
                topic = image.topics[chance.choice(sorted(image.topics))]
                isr = tuple(sorted(chance.sample((1, 2, 3), chance.randint(1, 3))))
                directories = tuple(chance.choice([*WHOLE, ZERO_ID, LOST_DIRECTORY]) for _ in range(3))
                draft.put_partition(topic.id, a_partition(1, isr=isr, directories=directories))
        image = draft.finish(Position(1, image.position.offset + 1)).after
        images.append(image)
    return images


@given(a_story())
def test_counting_from_image_to_image_gives_what_counting_anew_gives(images: list[Image]) -> None:
    counter = PartitionCounter(min_isr_default=2)
    for image in images:
        assert counter.count(image) == PartitionCounter(min_isr_default=2).count(image)
        assert counter.changed(image) == 0


def test_much_is_counted_beside_the_loop_and_the_old_figures_stand_meanwhile() -> None:
    many = AT_ONCE_PARTITIONS // 2 + 1
    image = an_image(a_topic("a", many), a_topic("b", many))

    async def whole() -> None:
        count = PartitionCount(1)
        assert count.of(image) is None
        deadline = time.monotonic() + 120
        while (found := count.of(image)) is None and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert found is not None
        assert found[0].partitions == 2 * many
        assert found[1] == 0
        brokers = [replace(a_broker(each), log_dirs=(an_id("new"),)) for each in (1, 2, 3)]
        other = an_image(a_topic("a", many), a_topic("b", many), brokers=brokers, offset=1001)
        found = count.of(other)
        assert found is not None
        assert found[0].position == image.position, "counted when the pause is over"
        assert count.of(image) == (found[0], 0)

    asyncio.run(whole())


def test_while_a_cluster_waits_for_its_controller_nothing_large_is_counted_beside_it() -> None:
    image = an_image(a_topic("a", 6_000))

    async def whole() -> None:
        count = PartitionCount(1)
        for _ in range(20):
            assert count.of(image, later=True) is None
            await asyncio.sleep(0.01)
        assert count.of(image) is None, "it begins now"
        deadline = time.monotonic() + 120
        while (found := count.of(image, later=True)) is None and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert found is not None
        assert found[0].partitions == 6_000

    asyncio.run(whole())


def test_where_the_controller_stays_away_partitions_are_counted_all_the_same() -> None:
    """A fail-over waits for ZooKeeper, which may be away for hours; gates and pages need the figures of now."""
    image, now = an_image(a_topic("a", 6_000)), [100.0]

    async def whole() -> None:
        count = PartitionCount(1, lambda: now[0])
        assert count.of(image, later=True) is None
        now[0] += LATER_AT_MOST_S
        deadline = time.monotonic() + 120
        while (found := count.of(image, later=True)) is None and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert found is not None
        assert found[0].partitions == 6_000

    asyncio.run(whole())
