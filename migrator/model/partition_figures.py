"""How whole the partitions of a cluster are: counts for gates and status, kept up from image to image.

In:   images, in the order in which they came to be; the `min.insync.replicas` of a topic that sets none.
Out:  `PartitionFigures` of the last image. Only topics that are not the same object as before are counted again, so
      that one more commit costs a look at each topic (10 ms for 30,000) and no look at each partition.
Elsewhere: when this is done, and on which thread (node.process.partition_count).
Source: Kafka 3.9 `Partition.isUnderReplicated`, `isUnderMinIsr`; directory ids: `DirectoryId`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from migrator.model.at_a_stop import MIN_ISR, MinIsr, Sums, TakenAtStop, min_isr_of, whole_number
from migrator.model.image import NOWHERE, Image, Position
from migrator.model.values import (
    LOST_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    ZERO_ID,
    Broker,
    ConfigType,
    Partition,
    Topic,
)

WITHOUT_ASSIGNMENT: Final = frozenset({ZERO_ID, UNASSIGNED_DIRECTORY, LOST_DIRECTORY})
"""MIGRATING, UNASSIGNED, LOST: no directory of the broker is committed for the replica."""


class BrokerFigures(msgspec.Struct, frozen=True):
    """The figures of one broker's replicas.

    under_replicated: replicas that are not in the ISR of their partition.
    under_min_isr:    partitions with a replica here whose ISR is smaller than their minimum.
    unassigned_dirs:  replicas without committed directory assignment.
    offline_dirs:     directories, as 16 bytes, that replicas are assigned to and the registration does not name.
    at_stake:         partitions that lack replicas already, and that lose their last one in sync, or their minimum ISR,
                      when this broker stops. A partition that is whole is none: every restart takes one replica of it.
    """

    under_replicated: int = 0
    under_min_isr: int = 0
    unassigned_dirs: int = 0
    offline_dirs: frozenset[bytes] = frozenset()
    at_stake: int = 0


class PartitionFigures(msgspec.Struct, frozen=True):
    """The figures of the image at `position`. Each count is of partitions; leaderless: those that nobody leads.

    under_replicated_leader: the broker that leads every under-replicated partition; None where several do, or none.
    single, at_minimum: what the stop of a broker takes although every partition is whole (at_a_stop.py).
    """

    position: Position = NOWHERE
    partitions: int = 0
    under_replicated: int = 0
    under_replicated_leader: int | None = None
    under_min_isr: int = 0
    reassignments: int = 0
    leaderless: int = 0
    brokers: Mapping[int, BrokerFigures] = {}
    single: TakenAtStop = TakenAtStop()
    at_minimum: TakenAtStop = TakenAtStop()
    min_isr: MinIsr = MinIsr()


class _Kind(NamedTuple):
    """What is counted. broker: -1 for the whole cluster. directory: of an offline one."""

    what: str
    broker: int = -1
    directory: bytes = b""


_UNDER_REPLICATED: Final = _Kind("under replicated")
_UNDER_MIN_ISR: Final = _Kind("under min isr")
_REASSIGNED: Final = _Kind("reassigned")
_LEADERLESS: Final = _Kind("leaderless")

NOTHING: Final[Counter[_Kind]] = Counter()


class PartitionCounter:
    """Counts partitions for one process, in one thread at a time."""

    def __init__(self, min_isr_default: int = 1) -> None:
        """min_isr_default: where neither a topic nor the brokers' configuration nor `min_isr_of_files` says it."""
        self._default = min_isr_default
        self.min_isr_of_files: Mapping[int, int] = {}
        """By broker, as its own file has it; brokers that are not named are not known."""
        self._min_isr = MinIsr()
        self._at_a_stop = Sums()
        self._counted: dict[bytes, tuple[Topic, int]] = {}
        self._faults: dict[bytes, Counter[_Kind]] = {}
        """By topic; a topic that is whole has none."""
        self._sum: Counter[_Kind] = Counter()
        self._partitions = 0
        self._directories: dict[int, tuple[bytes, ...]] = {}
        self._at_home: set[tuple[tuple[int, ...], tuple[bytes, ...]]] = set()
        """Replicas with their directories, each assigned and online: what most partitions of a cluster share."""

    def changed(self, image: Image) -> int:
        """How many partitions `count` would look at: 0 where it only sums up."""
        if self._directories != _directories(image):
            return image.partition_count()
        return sum(len(topic.partitions) for topic, _ in self._uncounted(image))

    def count(self, image: Image) -> PartitionFigures:
        """The figures of this image, which has to be as new as the last one."""
        directories = _directories(image)
        if directories != self._directories:
            self._forget()
            self._directories = directories
        for topic, minimum in self._uncounted(image):
            self._drop(topic.id)
            self._add(topic, minimum, image.brokers)
        if len(self._counted) > len(image.topics):
            for topic_id in [each for each in self._counted if each not in image.topics]:
                self._drop(topic_id)
        return self._figures(image)

    def _uncounted(self, image: Image) -> list[tuple[Topic, int]]:
        """Topics that are not as they were counted, with their minimum."""
        own, default = self._minimums(image)
        found = []
        for topic in image.topics.values():
            known, minimum = self._counted.get(topic.id), own.get(topic.name, default)
            if known is None or known[0] is not topic or known[1] != minimum:
                found.append((topic, minimum))
        return found

    def _minimums(self, image: Image) -> tuple[dict[str, int], int]:
        """`min.insync.replicas` of topics that set it, and of all others. Brokers may differ in it, and any of them may
        lead after a restart: the largest counts.
        """
        own = {
            key.name: value
            for key, config in image.configs.items()
            if key.type == ConfigType.TOPIC and (value := whole_number(config.get(MIN_ISR))) is not None
        }
        dynamic = {key.name: config for key, config in image.configs.items() if key.type == ConfigType.BROKER}
        rests = any(topic.name not in own for topic in image.topics.values())
        self._min_isr = min_isr_of(dynamic, self.min_isr_of_files, image.brokers, rests=rests)
        said = self._min_isr.brokers or self._min_isr.of_all is not None
        return own, self._min_isr.value if said else self._default

    def _forget(self) -> None:
        self._at_a_stop = Sums()
        self._counted.clear()
        self._faults.clear()
        self._at_home.clear()
        self._sum = Counter()
        self._partitions = 0

    def _drop(self, topic_id: bytes) -> None:
        known = self._counted.pop(topic_id, None)
        if known is not None:
            self._partitions -= len(known[0].partitions)
            self._at_a_stop.drop(topic_id)
            self._sum.subtract(self._faults.pop(topic_id, NOTHING))

    def _add(self, topic: Topic, minimum: int, brokers: Mapping[int, Broker]) -> None:
        self._counted[topic.id] = topic, minimum
        self._partitions += len(topic.partitions)
        found: Counter[_Kind] = Counter()
        for partition in topic.partitions:
            _count_replication(found, partition, minimum)
            places = partition.replicas, partition.directories
            if places not in self._at_home and not _count_places(found, partition, brokers):
                self._at_home.add(places)
        self._at_a_stop.put(topic, minimum)
        if found:
            self._faults[topic.id] = found
            self._sum.update(found)

    def _figures(self, image: Image) -> PartitionFigures:
        single, at_minimum = self._at_a_stop.taken()
        offline: dict[int, set[bytes]] = {}
        for kind, count in self._sum.items():
            if kind.directory and count > 0:
                offline.setdefault(kind.broker, set()).add(kind.directory)
        return PartitionFigures(
            position=image.position,
            partitions=self._partitions,
            under_replicated=self._sum[_UNDER_REPLICATED],
            under_replicated_leader=self._leader_of_all(),
            under_min_isr=self._sum[_UNDER_MIN_ISR],
            reassignments=self._sum[_REASSIGNED],
            leaderless=self._sum[_LEADERLESS],
            brokers={
                broker: BrokerFigures(
                    under_replicated=self._sum[_Kind("out of isr", broker)],
                    under_min_isr=self._sum[_UNDER_MIN_ISR._replace(broker=broker)],
                    unassigned_dirs=self._sum[_Kind("unassigned", broker)],
                    offline_dirs=frozenset(offline.get(broker, ())),
                    at_stake=self._sum[_Kind("at stake", broker)],
                )
                for broker in image.brokers
            },
            single=single,
            at_minimum=at_minimum,
            min_isr=self._min_isr,
        )

    def _leader_of_all(self) -> int | None:
        """Also of brokers that the image does not register, as before a takeover."""
        every = self._sum[_UNDER_REPLICATED]
        leaders = (
            kind.broker
            for kind, count in self._sum.items()
            if kind.what == _UNDER_REPLICATED.what and kind.broker >= 0 and count == every
        )
        return next(leaders, None) if every else None


def _directories(image: Image) -> dict[int, tuple[bytes, ...]]:
    return {broker.id: broker.log_dirs for broker in image.brokers.values()}


def _count_replication(found: Counter[_Kind], partition: Partition, minimum: int) -> None:
    isr, replicas = partition.isr, partition.replicas
    if partition.adding or partition.removing:
        found[_REASSIGNED] += 1
    if partition.leader < 0:
        found[_LEADERLESS] += 1
    if len(isr) < len(replicas):
        found[_UNDER_REPLICATED] += 1
        if partition.leader >= 0:
            found[_UNDER_REPLICATED._replace(broker=partition.leader)] += 1
        for broker in set(replicas).difference(isr):
            found[_Kind("out of isr", broker)] += 1
        if partition.leader >= 0 and len(isr) in (1, min(minimum, len(replicas))):
            for broker in isr:
                found[_Kind("at stake", broker)] += 1
    if len(isr) < min(minimum, len(replicas)) or partition.leader < 0:
        found[_UNDER_MIN_ISR] += 1
        for broker in replicas:
            found[_UNDER_MIN_ISR._replace(broker=broker)] += 1


def _count_places(found: Counter[_Kind], partition: Partition, brokers: Mapping[int, Broker]) -> int:
    """How many replicas have no directory that is assigned and online."""
    directories, faults = partition.directories, 0
    for at, broker in enumerate(partition.replicas):
        directory = directories[at] if at < len(directories) else ZERO_ID
        if directory in WITHOUT_ASSIGNMENT:
            found[_Kind("unassigned", broker)] += 1
            faults += 1
        elif (known := brokers.get(broker)) is not None and not known.has_online(directory):
            found[_Kind("offline", broker, directory)] += 1
            faults += 1
    return faults
