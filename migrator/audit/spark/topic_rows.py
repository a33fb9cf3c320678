"""A topic of ZooKeeper as one row: its znode, its configuration, and the states of its partitions.

In:   topics as they were read (zk_source.TopicRead).
Out:  `ReadTopic`s with all that is usual, and beside them a `SideRow` for every partition that is not: without a state,
      or with one that Kafka cannot read or that no controller can have written. Later what was read, again.
Elsewhere: what a row becomes in Parquet (sources.py), what is compared (compare.py).
Why:  partitions share few states. A row for each cost Spark more than the audit itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from migrator.audit.cluster import EpochLimit
from migrator.audit.normalise import KNOWN_MAX, TOPIC_CONFIGS, TOPICS, Facts, zk_topic
from migrator.audit.rows import SideRow, topic_subject
from migrator.audit.zk_source import (
    TOPICS_AT_ONCE,
    Session,
    TopicRead,
    config_rows,
    epoch_limit,
    topic_reads,
    unassigned_partitions,
    usual_state,
)
from migrator.zk import paths
from migrator.zk.bulk_read import Znode
from migrator.zk.pipeline import ReadLimits

PARTITIONS_PER_ROW: Final = 500
"""At most; a topic with more has several rows, so that no row is large."""


class PackedTopic(msgspec.Struct, frozen=True, array_like=True):
    """A topic, or more partitions of the one in the row before.

    znode:   of the topic; None in its later rows.
    states:  different ones, as ZooKeeper has them. which: of each partition, its place in `states`.
    versions, mzxids: of the state of each partition.
    config:  facts of the topic's configuration as JSON; None where there is none.
    """

    znode: bytes | None
    partitions: list[int]
    states: list[bytes]
    which: list[int]
    versions: list[int]
    mzxids: list[int]
    config: str | None = None
    config_mzxid: int = -1


class ReadTopic(NamedTuple):
    """config: still with its secrets, which no row may have."""

    name: str
    mzxid: int
    packs: list[PackedTopic]
    config: SideRow | None


def topic_rows(
    session: Session, topics: Sequence[str], configs: Sequence[str], limits: ReadLimits
) -> Iterator[SideRow | ReadTopic]:
    """Read topics, and configurations by the names of their znodes, which need not be those of topics."""
    packer, with_config = _Packer(epoch_limit(session)), set(configs)
    suspects = []
    remaining = iter(topics)
    while chunk := list(islice(remaining, TOPICS_AT_ONCE)):
        wanted = [name for name in chunk if name in with_config]
        found = {row.key: row for row in config_rows(session, TOPIC_CONFIGS, wanted, limits)}
        for read in topic_reads(session, chunk, limits, counted=True):
            if read.may_have_others:
                suspects.append(read.topic.key)
            yield from packer.rows(read, found)
        yield from found.values()  # without a topic, or not read
    yield from unassigned_partitions(session, suspects, limits)
    others = sorted(with_config.difference(topics))
    yield from config_rows(session, TOPIC_CONFIGS, others, limits)


class _Packer:
    """Tells what is usual from what is not. Few texts of states are met often, so each is looked at once."""

    def __init__(self, epochs: EpochLimit) -> None:
        self._epochs = epochs
        self._usual: set[bytes | None] = set()

    def rows(self, read: TopicRead, configs: dict[str, SideRow]) -> Iterator[SideRow | ReadTopic]:
        """Takes the topic's configuration out of `configs`."""
        if read.topic.problem:
            yield read.topic
            return
        name = read.topic.key
        config = configs.pop(name) if name in configs and not configs[name].problem else None
        others: list[SideRow] = []
        yield ReadTopic(name, read.topic.version, self._packs(read, others), config)
        yield from others

    def _packs(self, read: TopicRead, others: list[SideRow]) -> list[PackedTopic]:
        packs, usual, epochs = [pack := PackedTopic(read.znode.data, [], [], [], [], [])], self._usual, self._epochs
        place: dict[bytes, int] = {}
        for partition, znode in zip(read.assigned, read.states, strict=True):
            data = None if znode is None or znode.owner else znode.data
            if znode is None or data is None or not (data in usual or self._is_usual(znode)):
                others.append(read.partition(partition, znode, epochs))
                continue
            if len(pack.partitions) == PARTITIONS_PER_ROW:
                pack.states.extend(place)
                packs.append(pack := PackedTopic(None, [], [], [], [], []))
                place = {}
            pack.partitions.append(partition)
            pack.which.append(place.setdefault(data, len(place)))
            pack.versions.append(znode.version)
            pack.mzxids.append(znode.mzxid)
        pack.states.extend(place)
        return packs

    def _is_usual(self, znode: Znode) -> bool:
        usual = usual_state(znode, self._epochs) is not None
        if usual and len(self._usual) < KNOWN_MAX:
            self._usual.add(znode.data)
        return usual


def unpacked(name: str, mzxid: int, packs: Sequence[PackedTopic]) -> TopicRead:
    """What was read, of the partitions that the packs have. packs: the topic's first, then others of it."""
    facts, assigned = assigned_in(name, packs)
    states = {
        partition: Znode(pack.states[which], version, at, at, 0)
        for pack in packs
        for partition, which, version, at in zip(pack.partitions, pack.which, pack.versions, pack.mzxids, strict=True)
    }
    znode = Znode(packs[0].znode, 0, mzxid, mzxid, 0)
    topic = SideRow(TOPICS, name, topic_subject(name), facts, mzxid)
    return TopicRead(topic, znode, {each: assigned[each] for each in states}, list(states.values()), 0)


def assigned_in(name: str, packs: Sequence[PackedTopic]) -> tuple[Facts, dict[int, Facts]]:
    """The topic's facts, and the assignment of each of its partitions."""
    return zk_topic(paths.topic(name), packs[0].znode)
