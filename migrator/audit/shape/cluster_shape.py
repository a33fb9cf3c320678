"""Sum up what a log says: how partitions, replicas and leaders are spread, and how large ISRs are.

In:   `LogFacts`. Out: a `ClusterShape`.
Elsewhere: who carries it (compare.py: the report of a quick audit), how it is drawn (api/audit_report/views.py).
Rules: one pass over what is in memory anyway (what it costs: docs/performance.md). Buckets are fixed, so that two
reports can be laid side by side.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from migrator.audit.normalise import LogFacts

PARTITIONS_AT_LEAST: Final = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Of one topic: each bucket goes up to the next one."""

ISR_AT_LEAST: Final = (0, 1, 2, 3, 4, 5, 6)
"""Replicas in sync of one partition."""

BROKERS_TOLD: Final = 1_000
"""No cluster has as many; a log that names more replicas than that is not a reason for an endless report."""

NO_LEADER: Final = -1


class SizeBucket(msgspec.Struct, frozen=True):
    """How many there are of at least so many, and of fewer than the next bucket has."""

    at_least: int
    count: int


class BrokerLoad(msgspec.Struct, frozen=True):
    """What one broker has: replicas, and partitions that it leads."""

    broker: int
    replicas: int
    leaders: int


class ClusterShape(msgspec.Struct, frozen=True):
    """The log's side in figures.

    partitions_per_topic: topics by how many partitions they have. isr_sizes: partitions by how many are in sync.
    without_leader: partitions that nobody leads.
    brokers: the first `BROKERS_TOLD` by id, and how many are left off.
    """

    topics: int
    partitions: int
    partitions_per_topic: list[SizeBucket]
    isr_sizes: list[SizeBucket]
    without_leader: int
    brokers: list[BrokerLoad]
    brokers_left_off: int = 0


def cluster_shape(log: LogFacts) -> ClusterShape:
    """Count without a step of Python for each partition: many share the same facts, which are counted first."""
    by_topic = log.every_topic()
    partitions = list(chain.from_iterable(each.values() for each in by_topic))
    shared = Counter(map(id, partitions))
    facts_of = {id(each): each for each in partitions}
    replicas: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    in_sync: Counter[int] = Counter()
    for identity, count in shared.items():
        facts = facts_of[identity]
        leaders[facts["leader"]] += count
        in_sync[len(facts["isr"])] += count
        for each in facts["replicas"]:
            replicas[each] += count
    without_leader = leaders.pop(NO_LEADER, 0)
    brokers = sorted({*replicas, *leaders})
    return ClusterShape(
        topics=len(by_topic),
        partitions=len(partitions),
        partitions_per_topic=_buckets(Counter(map(len, by_topic)), PARTITIONS_AT_LEAST),
        isr_sizes=_buckets(in_sync, ISR_AT_LEAST),
        without_leader=without_leader,
        brokers=[BrokerLoad(each, replicas[each], leaders[each]) for each in brokers[:BROKERS_TOLD]],
        brokers_left_off=len(brokers[BROKERS_TOLD:]),
    )


def _buckets(counts: Mapping[int, int], at_least: Sequence[int]) -> list[SizeBucket]:
    found = [0] * len(at_least)
    for value, count in counts.items():
        found[bisect_right(at_least, value) - 1] += count
    return [SizeBucket(*each) for each in zip(at_least, found, strict=True)]
