"""A log in figures: each one counted by hand beside it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from migrator.audit.normalise import LogFacts
from migrator.audit.shape.cluster_shape import BROKERS_TOLD, BrokerLoad, SizeBucket, cluster_shape
from migrator.wire.messages.metadata import PartitionRecord, TopicRecord

PARTITION = st.tuples(st.lists(st.integers(0, 12), min_size=1, max_size=5, unique=True), st.integers(0, 5))
TOPICS = st.lists(st.lists(PARTITION, max_size=9), max_size=6)


def a_log(topics: list[list[tuple[list[int], int]]]) -> LogFacts:
    """topics: of each partition its replicas, and how many of them are in sync; without any, nobody leads."""
    facts = LogFacts()
    for number, partitions in enumerate(topics):
        topic_id = number.to_bytes(16)
        facts.apply(TopicRecord(name=f"t{number}", topic_id=topic_id))
        for partition, (replicas, in_sync) in enumerate(partitions):
            isr = replicas[:in_sync]
            record = PartitionRecord(
                partition_id=partition,
                topic_id=topic_id,
                replicas=tuple(replicas),
                isr=tuple(isr),
                leader=isr[0] if isr else -1,
            )
            facts.apply(record)
    return facts


def filled(buckets: list[SizeBucket]) -> dict[int, int]:
    return {each.at_least: each.count for each in buckets if each.count}


def test_a_cluster_is_summed_up() -> None:
    shape = cluster_shape(a_log([[([1, 2, 3], 3)] * 5, [([2, 3], 1)], [([9], 0)], []]))
    assert (shape.topics, shape.partitions, shape.without_leader) == (4, 7, 1)
    assert filled(shape.partitions_per_topic) == {0: 1, 1: 2, 4: 1}
    assert filled(shape.isr_sizes) == {0: 1, 1: 1, 3: 5}
    assert shape.brokers == [BrokerLoad(1, 5, 5), BrokerLoad(2, 6, 1), BrokerLoad(3, 6, 0), BrokerLoad(9, 1, 0)]


def test_an_empty_log_has_figures_too() -> None:
    shape = cluster_shape(LogFacts())
    assert (shape.topics, shape.partitions, shape.brokers) == (0, 0, [])
    assert filled(shape.partitions_per_topic) == {}


@given(TOPICS)
def test_it_counts_as_one_who_counts_partition_by_partition(topics: list[list[tuple[list[int], int]]]) -> None:
    shape = cluster_shape(a_log(topics))
    every = [each for partitions in topics for each in partitions]
    replicas = Counter(broker for assigned, _ in every for broker in assigned)
    leaders = Counter(assigned[0] for assigned, in_sync in every if in_sync)
    assert shape.brokers == [BrokerLoad(each, replicas[each], leaders[each]) for each in sorted(replicas)]
    assert shape.partitions == len(every) == sum(filled(shape.isr_sizes).values())
    assert shape.without_leader == sum(not in_sync for _, in_sync in every)
    assert sum(filled(shape.partitions_per_topic).values()) == len(topics)
    bounds = [*(each.at_least for each in shape.partitions_per_topic), float("inf")]
    for bucket, following in zip(shape.partitions_per_topic, bounds[1:], strict=True):
        assert bucket.count == sum(bucket.at_least <= len(each) < following for each in topics)


def test_a_log_of_more_brokers_than_any_cluster_has_does_not_fill_the_report() -> None:
    shape = cluster_shape(a_log([[([broker], 1) for broker in range(BROKERS_TOLD + 7)]]))
    assert (len(shape.brokers), shape.brokers_left_off) == (BROKERS_TOLD, 7)
