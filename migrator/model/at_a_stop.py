"""What the stop of one broker takes away, although every partition is whole.

In:   topics with their partitions, and `min.insync.replicas` as topics and brokers have it.
Out:  partitions with one replica, which are offline until their broker is back; partitions whose minimum ISR is all of
      their replicas, to which nobody can write with acks=all meanwhile.
Elsewhere: partitions that lack replicas already (partition_figures.py), who may accept it (state_machine.policy.taken).
Source: Kafka 3.9 `Partition.effectiveMinIsr`: never more than the partition has replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

import msgspec

from migrator.model.image import Image
from migrator.model.values import ConfigType, Partition, Topic

MIN_ISR: Final = "min.insync.replicas"
KAFKA_MIN_ISR: Final = 1
"""Of a broker whose file sets none."""
NAMED: Final = 3
BROKERS_NAMED: Final = 12


class TakenAtStop(msgspec.Struct, frozen=True):
    """Partitions of one kind. first: the first ones by name. brokers: how many of them each broker has, by id."""

    count: int = 0
    first: tuple[str, ...] = ()
    brokers: tuple[tuple[int, int], ...] = ()


class MinIsr(msgspec.Struct, frozen=True):
    """`min.insync.replicas` of topics that set none.

    value:   the largest that a broker has, with which such topics are counted.
    brokers: what each broker has, of those of which it is known: its own dynamic setting, else that of all brokers,
             else its file's.
    of_all:  what is set dynamically for all brokers; then files say nothing. None: it is not set.
    rests:   whether any topic sets none.
    """

    value: int = KAFKA_MIN_ISR
    brokers: tuple[tuple[int, int], ...] = ()
    of_all: int | None = None
    rests: bool = False

    def unknown(self, brokers: Iterable[int]) -> tuple[int, ...]:
        """Those of which nobody said it, where it matters."""
        if not self.rests or self.of_all is not None:
            return ()
        return tuple(sorted(set(brokers) - {broker for broker, _ in self.brokers}))

    @property
    def differing(self) -> str:
        """The values and their brokers in words, where brokers differ; else empty."""
        by_value: dict[int, list[int]] = {}
        for broker, value in self.brokers:
            by_value.setdefault(value, []).append(broker)
        if len(by_value) < 2:
            return ""
        return "; ".join(f"{value} on brokers {brokers}" for value, brokers in sorted(by_value.items()))


def staying(partition: Partition) -> tuple[int, ...]:
    """Its replicas once a reassignment has ended."""
    if not partition.removing:
        return partition.replicas
    return tuple(each for each in partition.replicas if each not in partition.removing)


def has_one_replica(partition: Partition) -> bool:
    return len(staying(partition)) == 1


def needs_all(partition: Partition, minimum: int) -> bool:
    """Whether a partition of two or more replicas needs all of them for its minimum."""
    return 2 <= len(staying(partition)) <= minimum


@dataclass(slots=True)
class TopicTally:
    """The partitions of one topic that a stop takes. names: the first ones."""

    count: int = 0
    names: list[str] = field(default_factory=list)
    brokers: Counter[int] = field(default_factory=Counter)

    def add(self, topic: Topic, partition: Partition) -> None:
        if len(self.names) < NAMED:
            self.names.append(f"{topic.name}-{partition.id}")
        self.count += 1
        self.brokers.update(staying(partition))


def tallies(topic: Topic, minimum: int) -> tuple[TopicTally, TopicTally] | None:
    """Tally a topic's partitions with one replica, and those that need all of theirs; None where it has neither."""
    single, at_minimum = TopicTally(), TopicTally()
    for partition in topic.partitions:
        if has_one_replica(partition):
            single.add(topic, partition)
        elif minimum > 1 and needs_all(partition, minimum):
            at_minimum.add(topic, partition)
    return (single, at_minimum) if single.count or at_minimum.count else None


class Sums:
    """The sums over all topics, kept up topic by topic."""

    def __init__(self) -> None:
        self._topics: dict[bytes, tuple[TopicTally, TopicTally]] = {}
        self._counts = [0, 0]
        self._brokers: list[Counter[int]] = [Counter(), Counter()]
        self._taken: tuple[TakenAtStop, TakenAtStop] | None = None

    def put(self, topic: Topic, minimum: int) -> None:
        found = tallies(topic, minimum)
        if found is None:
            return
        self._topics[topic.id] = found
        self._taken = None
        for at, each in enumerate(found):
            self._counts[at] += each.count
            self._brokers[at].update(each.brokers)

    def drop(self, topic_id: bytes) -> None:
        found = self._topics.pop(topic_id, None)
        if found is None:
            return
        self._taken = None
        for at, each in enumerate(found):
            self._counts[at] -= each.count
            self._brokers[at].subtract(each.brokers)

    def taken(self) -> tuple[TakenAtStop, TakenAtStop]:
        """Partitions with one replica; those that need all of theirs."""
        if self._taken is None:
            self._taken = self._summed(0), self._summed(1)
        return self._taken

    def _summed(self, at: int) -> TakenAtStop:
        names = (name for found in self._topics.values() for name in found[at].names)
        brokers = sorted((broker, count) for broker, count in self._brokers[at].items() if count)
        return TakenAtStop(self._counts[at], tuple(nsmallest(NAMED, names)), tuple(brokers))


def lost_without(image: Image, minimum: int, nodes: Collection[int]) -> TakenAtStop:
    """Partitions that have fewer than their minimum in sync, or none, while all of these brokers are away together.

    minimum: of topics that set none. One pass over all partitions: half a second for a million.
    """
    away, found = frozenset(nodes), TopicTally()
    own = {
        key.name: value
        for key, config in image.configs.items()
        if key.type == ConfigType.TOPIC and (value := whole_number(config.get(MIN_ISR))) is not None
    }
    for topic in image.topics.values():
        wanted = own.get(topic.name, minimum)
        for partition in topic.partitions:
            if away.isdisjoint(partition.replicas):
                continue
            left = sum(1 for each in partition.isr if each not in away)
            if left < max(1, min(wanted, len(partition.replicas))):
                found.add(topic, partition)
    return TakenAtStop(found.count, tuple(found.names), tuple(sorted(found.brokers.items())))


def values_of(taken: TakenAtStop, minimum: MinIsr) -> dict[str, str | int]:
    """What findings about them name."""
    most = sorted(taken.brokers, key=lambda each: (-each[1], each[0]))
    shown = [f"{broker} has {count}" for broker, count in sorted(most[:BROKERS_NAMED])]
    shown += [f"and {len(most) - BROKERS_NAMED} more brokers"] if len(most) > BROKERS_NAMED else []
    said = f"Topics that set none are counted with {minimum.value}"
    if minimum.differing:
        said = f"Brokers differ for topics that set none, and the largest counts: {minimum.differing}"
    return {
        "count": taken.count,
        "first": ", ".join(taken.first),
        "brokers": ", ".join(shown),
        "minimum": said,
    }


def whole_number(text: str | None) -> int | None:
    """None also for what no broker reads as a number; it then counts with the default."""
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def min_isr_of(
    dynamic: Mapping[str, Mapping[str, str]], files: Mapping[int, int], brokers: Iterable[int], *, rests: bool = True
) -> MinIsr:
    """dynamic: configuration of brokers by name, that of all under an empty one. files: by broker, where it is known.

    brokers: those that are registered.
    """
    of_all = whole_number(dynamic.get("", {}).get(MIN_ISR))
    own = {
        int(name): value
        for name, config in dynamic.items()
        if name.isdecimal() and (value := whole_number(config.get(MIN_ISR))) is not None
    }
    found = {}
    for broker in {*files, *brokers, *own}:
        value = own.get(broker, of_all if of_all is not None else files.get(broker))
        if value is not None:
            found[broker] = value
    known = tuple(sorted(found.items()))
    largest = max(found.values(), default=KAFKA_MIN_ISR if of_all is None else of_all)
    return MinIsr(largest, known, of_all, rests)
