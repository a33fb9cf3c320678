"""What the log says at one offset, and what it said before each later change: ZooKeeper follows, and is read meanwhile.

In:   committed records with their offsets, in log order; the offset that ZooKeeper had when its reading began.
Out:  the facts at the end, and of each key that changed behind that offset all that it said since.
Elsewhere: where `/migration` is read (zk_source.py), what becomes of a key (subjects.py).
Rule: a dual-write sets `/migration` to a batch's last offset in the transaction that has its changes. So whatever is
read between two readings of it, M0 and M1, is what the log said at some offset from M0 to M1. What was said only before
M0 should not be there any more, and what is said only behind M1 not yet: either is a difference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from migrator.audit.cluster import CLUSTER, CLUSTER_RECORDS, OF_THE_LOG, cluster_key
from migrator.audit.log_source import CommittedRecords, HeldPartitions, record_at
from migrator.audit.normalise import (
    BEHIND_ID,
    BROKER_CONFIGS,
    FRAME_BYTES,
    PARTITION_AT,
    PARTITION_FRAMES,
    PARTITIONS,
    PRODUCER_IDS,
    PRODUCER_IDS_KEY,
    RESOURCES,
    TOPIC_CONFIGS,
    TOPICS,
    Facts,
    LogFacts,
    partition_key,
)
from migrator.audit.rows import BROKER_SUBJECT, TOPIC_SUBJECT, ZNODE_SUBJECT, subject_of, topic_subject
from migrator.audit.security_facts import SECURITY_FAMILIES, SECURITY_RECORDS, SecurityChange, change_of
from migrator.wire.batch import Batch
from migrator.wire.messages.metadata import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from migrator.wire.schema import Message

Key = tuple[str, str]

TakesKnown = Callable[[Iterable[tuple[int, Facts]]], None]
"""Takes partitions, and what is said of each."""

NO_OFFSET: Final = 2**63 - 1
"""No change is behind this one: nothing but the end is kept."""

_FAMILY_OF_RESOURCE: Final = {resource: family for family, resource in RESOURCES.items()}


class OffsetRange(msgspec.Struct, frozen=True):
    """Up to which offsets ZooKeeper had the log before and after it was read."""

    low: int
    high: int


class KeyState(NamedTuple):
    """What the log says of a key from this offset on. facts: None while there is no such key."""

    since: int
    facts: Facts | None


class OtherInSnapshot(NamedTuple):
    """One key. snapshot, log: what each says; None where it has no such key. offset: the last one of the snapshot."""

    family: str
    key: str
    snapshot: Facts | None
    log: Facts | None
    offset: int


def in_window(states: list[KeyState], high: int) -> list[KeyState]:
    """Those of `LogStates.of` that the log said at some offset up to `high`, the first of them at least."""
    return [each for each in states if each.since <= high] or states[:1]


class LogStates:
    """Feed it committed records in log order. low: what a key said when it was last changed up to here is its first."""

    def __init__(self, low: int = NO_OFFSET) -> None:
        self.facts = LogFacts()
        self.other_in_snapshot: list[OtherInSnapshot] = []
        """What the newest snapshot beside the log says otherwise; filled by who reads both (run.py)."""
        self.behind_ms = 0
        """For how long ZooKeeper has lacked what `low` tells; filled by who reads both (run.py)."""
        self._low = low
        self._earlier: defaultdict[Key, list[KeyState]] = defaultdict(list)
        self._changed: dict[Key, int] = {}

    def take(self, offset: int, record: Message | SecurityChange | HeldPartitions) -> None:
        """Raises Z2K-5002 as `LogFacts` does."""
        if isinstance(record, HeldPartitions):
            self._take_held(offset, record)
            return
        before = {} if offset <= self._low else {key: self._now(key) for key in self._keys(record)}
        if isinstance(record, SecurityChange):
            self.facts.security.put(record)
        else:
            self.facts.apply(record)
        for key, facts in before.items():
            self._earlier[key].append(KeyState(self._changed.get(key, -1), facts))
            self._changed[key] = offset

    def take_batch(self, batch: Batch, records: CommittedRecords) -> None:
        """Take all committed records of a batch.

        Most of a log makes partitions, and most of them say what others say: those are not decoded again. What nobody
        has decoded is decoded at once, also in a transaction that may be aborted: a controller reads it, too.
        """
        known, unpack = self.facts.known_partitions, PARTITION_AT.unpack_from
        topic, take = b"", None
        for offset, value in enumerate(batch.values, batch.base_offset):
            frame = value[:FRAME_BYTES]
            if frame in PARTITION_FRAMES:
                facts = known.get((frame, value[BEHIND_ID:]))  # as `what_is_said`, without a call
                if facts is not None:
                    partition, topic_id = unpack(value, FRAME_BYTES)
                    if topic_id != topic or take is None:
                        topic, take = topic_id, self._takes_known(topic_id, records, batch.last_offset)
                    if take is not None:
                        take(((partition, facts),))
                        continue
            take = None
            record = record_at(offset, value)
            if isinstance(record, PartitionRecord):
                self.facts.learn(value, record)
            for each in records.take_one(offset, record):
                self.take(records.at, each)
        records.took(batch)

    def _takes_known(self, topic_id: bytes, records: CommittedRecords, last_offset: int) -> TakesKnown | None:
        """Return what takes the next partitions of a topic that are known; None where each has to be taken by itself:
        there is no such topic, or somebody asks what its keys said before.
        """
        if records.is_open:
            return records.hold(topic_id).extend
        if records.counts_from(last_offset) > self._low:
            return None
        partitions = self.facts.partitions_of(topic_id)
        return None if partitions is None else partitions.update

    def _take_held(self, at: int, held: HeldPartitions) -> None:
        """at: from where it counts. Up to `low` nobody asks what its key said before."""
        partitions = None if at > self._low else self.facts.partitions_of(held.topic_id)
        if partitions is not None:
            partitions.update(held.said)
            return
        for value in self.facts.values_of(held.topic_id, held.said):
            self.take(at, record_at(at, value))

    def changed(self) -> Iterable[Key]:
        """Keys that records behind `low` are about."""
        return self._changed.keys()

    def had_topics(self, offset: int) -> bool:
        """Whether there was any topic at this offset, which is not before `low`."""
        names = {*self.facts.topics(), *(key for family, key in self._changed if family == TOPICS)}
        return any(in_window(self.of((TOPICS, name)), offset)[-1].facts is not None for name in names)

    def of(self, key: Key) -> list[KeyState]:
        """All that was said of a key from `low` on, the newest last."""
        return [*self._earlier.get(key, ()), KeyState(self._changed.get(key, -1), self._now(key))]

    def keys_of(self, subject: str) -> set[Key]:
        """Keys of a subject that exist, or did since `low`."""
        found = {key for key in self._changed if subject_of_key(key) == subject}
        found |= {(family, subject.removeprefix(ZNODE_SUBJECT)) for family in SECURITY_FAMILIES}
        found |= {(BROKER_CONFIGS, subject.removeprefix(BROKER_SUBJECT)), (PRODUCER_IDS, PRODUCER_IDS_KEY)}
        found |= {(CLUSTER, each) for each in OF_THE_LOG}
        name = subject.removeprefix(TOPIC_SUBJECT)
        found |= {(TOPICS, name), (TOPIC_CONFIGS, name)}
        found |= {(PARTITIONS, partition_key(name, each)) for each in self.facts.partitions(name)}
        return {key for key in found if subject_of_key(key) == subject and self._exists(key)}

    def _exists(self, key: Key) -> bool:
        return any(each.facts is not None for each in self.of(key))

    def _now(self, key: Key) -> Facts | None:
        family, name = key
        match family:
            case _ if family == TOPICS:
                return self.facts.topic(name)
            case _ if family == PARTITIONS:
                topic, _, partition = name.rpartition("-")
                found = self.facts.partitions(topic).get(int(partition))
                return None if found is None else dict(found)
            case _ if family == CLUSTER:
                return self.facts.cluster(name)
            case _ if family == PRODUCER_IDS:
                return self.facts.producer_ids() or None
            case _ if family in RESOURCES:
                return self.facts.config(family, name)
            case _:
                return self.facts.security.at(family, name)

    def _keys(self, record: Message | SecurityChange) -> Iterator[Key]:
        """What a record changes. Of one that does not fit what came before it, nothing: it ends the reading."""
        match record:
            case PartitionRecord() | PartitionChangeRecord():
                topic = self.facts.name_of(record.topic_id)
                if topic is not None:
                    yield PARTITIONS, partition_key(topic, record.partition_id)
            case TopicRecord():
                yield TOPICS, record.name
            case RemoveTopicRecord():
                topic = self.facts.name_of(record.topic_id)
                if topic is not None:
                    yield from ((TOPICS, topic), (TOPIC_CONFIGS, topic))
                    yield from ((PARTITIONS, partition_key(topic, each)) for each in self.facts.partitions(topic))
            case ConfigRecord() if record.resource_type in _FAMILY_OF_RESOURCE:
                yield _FAMILY_OF_RESOURCE[record.resource_type], record.resource_name
            case ProducerIdsRecord():
                yield PRODUCER_IDS, PRODUCER_IDS_KEY
            case _ if isinstance(record, CLUSTER_RECORDS):
                if (key := cluster_key(record)) is not None:
                    yield CLUSTER, key
            case SecurityChange():
                yield record.family, self.facts.security.path_of(record)
            case _ if isinstance(record, SECURITY_RECORDS):
                yield from self._keys(change_of(record))
            case _:
                return


def subject_of_key(key: Key) -> str:
    family, name = key
    return topic_subject(name.rpartition("-")[0]) if family == PARTITIONS else subject_of(family, name)
