"""State znodes whose data version is behind the partition epoch: known, bounded, and raised while nothing waits.

In:   what the mirror notes of partitions that it wrote once instead of as often as their epochs moved.
Out:  `Lagging`: how many operations each of them still needs; multis that carry some of them out.
Elsewhere: which writes make a partition lag (mirror.py), when versions are raised (node.driver.mirror_node), that none
may lag at a rollback (node.driver.rollback).
Why: a new znode is at version 0 and every write adds one. 100,000 partitions at epoch 300 would be 30 million writes
that brokers and every later change had to wait for. In dual-write no broker reads the versions. After a rollback the
ZooKeeper controller answers AlterPartition by them, and brokers keep the partition epoch of our updates: the ISR of
a partition whose znode is behind could not change until its leader changes.
Source: Kafka 3.9 `KafkaController.tryProcessAlterPartition` (a partition epoch above the znode's version is answered
NOT_CONTROLLER), `ReplicaManager.becomeLeaderOrFollower` (an equal leader epoch of a ZooKeeper controller is ignored).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from immutables import Map

from migrator.driver.chained import bytes_max, chained, pack
from migrator.driver.claim import Claim
from migrator.model.image import Image
from migrator.model.values import Partition
from migrator.zk import paths
from migrator.zk.multi import JUTE_MAXBUFFER, Multi, Operation, SetData
from migrator.zk.znodes import state_data

RAISES_MAX: Final = 2_000
"""So many writes that only raise versions stand in front of anything else: some tenths of a second."""

PIECE: Final = 100
"""Raises of one partition that share a multi at least."""


@dataclass(frozen=True, slots=True)
class Lagging:
    """topics: by topic id and partition, how many writes are left until the version is the partition epoch, never 0.

    partitions, operations: the sums.
    """

    topics: Map[bytes, Map[int, int]] = Map()  # noqa: RUF009  (immutable)
    partitions: int = 0
    operations: int = 0

    def __bool__(self) -> bool:
        return self.partitions > 0

    def left(self, topic_id: bytes, partition: int) -> int:
        of_topic = self.topics.get(topic_id)
        return 0 if of_topic is None else of_topic.get(partition, 0)

    def noted(self, topic_id: bytes, partition: int, left: int) -> Lagging:
        """The same with `left` writes to go for this partition; 0 when its version is right."""
        before = self.left(topic_id, partition)
        if left == before:
            return self
        of_topic: Map[int, int] = self.topics.get(topic_id, Map())
        of_topic = of_topic.set(partition, left) if left else of_topic.delete(partition)
        topics = self.topics.set(topic_id, of_topic) if of_topic else self.topics.delete(topic_id)
        partitions = self.partitions + bool(left) - bool(before)
        return Lagging(topics, partitions, self.operations + left - before)

    def without(self, topic_id: bytes) -> Lagging:
        """The topic's znodes are gone."""
        of_topic = self.topics.get(topic_id)
        if of_topic is None:
            return self
        operations = self.operations - sum(of_topic.values())
        return Lagging(self.topics.delete(topic_id), self.partitions - len(of_topic), operations)


NOTHING_LAGS: Final = Lagging()


class Raises(NamedTuple):
    """The multis, the claim and what lags when all are applied."""

    multis: tuple[Multi, ...]
    claim: Claim
    lagging: Lagging
    operations: int


def plan_raises(
    lagging: Lagging,
    image: Image,
    claim: Claim,
    held: Collection[Hashable] = (),
    jute_maxbuffer: int = JUTE_MAXBUFFER,
) -> Raises:
    """Bring versions nearer to the partition epochs, by `RAISES_MAX` writes at most; `/migration` says what it said.

    image: what ZooKeeper has. held: subjects of what could not be written; a topic among them waits.
    """
    groups: list[list[Operation]] = []
    budget, after = RAISES_MAX, lagging
    for topic_id, partition, left in _of_each(lagging, held):
        if not budget:
            break
        topic = image.topics[topic_id]
        known = topic.partition(partition)
        assert known is not None, (topic.name, partition)
        raises = min(left, budget)
        writes = _raised(topic.name, known, known.partition_epoch - left, raises, claim.zk_epoch)
        groups += [writes[at : at + PIECE] for at in range(0, raises, PIECE)]
        after = after.noted(topic_id, partition, left - raises)
        budget -= raises
    if not groups:
        return Raises((), claim, lagging, 0)
    multis, after_claim = chained(pack(groups, bytes_max(jute_maxbuffer)), claim, claim.at)
    return Raises(multis, after_claim, after, RAISES_MAX - budget)


def _of_each(lagging: Lagging, held: Collection[Hashable]) -> Iterator[tuple[bytes, int, int]]:
    for topic_id, of_topic in lagging.topics.items():
        if topic_id not in held:
            for partition, left in of_topic.items():
                yield topic_id, partition, left


def _raised(topic: str, partition: Partition, version: int, raises: int, zk_epoch: int) -> list[Operation]:
    path, data = paths.state(topic, partition.id), state_data(partition, zk_epoch)
    return [SetData(path, data, each) for each in range(version, version + raises)]
