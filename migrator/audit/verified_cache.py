"""The audit of a commit, begun before the window: what was once compared and found equal is not parsed a second time.

In:   a session of its own, the records to be committed, by topic and the rest.
Out:  an `AuditReport` with the counts and differences of `compare_sides`.
Elsewhere: what equal means (compare.py), one pass without a memory (quick.py).
Rule: ZooKeeper is read whole every time, with versions. A topic counts as equal unparsed only while its records are the
very ones, and the digest over all its znodes is the one, with which it was compared field by field and found equal.
Whatever is new, moved or odd is compared as if nobody had ever looked.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import chain, islice
from typing import Final, NamedTuple

from migrator.audit.compare import AuditReport, Comparison, ExpectedDifferences, KeyOutcome, report
from migrator.audit.normalise import PARTITIONS, TOPIC_CONFIGS, TOPIC_RESOURCE, TOPICS, LogFacts, zk_topic
from migrator.audit.passwords import PasswordReader
from migrator.audit.quick import (
    compare_configs,
    compare_others,
    compare_sides,
    compare_topics,
    facts_of,
    facts_of_values,
)
from migrator.audit.zk_source import TOPICS_AT_ONCE, Session, config_names, topic_names
from migrator.findings.finding import FindingError
from migrator.wire.messages.metadata import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from migrator.wire.records import decode_record
from migrator.wire.schema import Message
from migrator.zk import paths
from migrator.zk.bulk_read import Znode
from migrator.zk.pipeline import UNLIMITED, ReadLimits

_LENGTH_AND_VERSION: Final = struct.Struct(">ii")
_NO_ZNODE: Final = _LENGTH_AND_VERSION.pack(-1, -1)


class VerifiedRead(NamedTuple):
    """A topic that was found equal. values: its records.  head, znodes: digests.  partitions: whose states to read."""

    values: Sequence[bytes]
    head: bytes
    partitions: tuple[int, ...]
    znodes: bytes
    topic_id: str
    configured: bool


class VerifiedCache:
    """Grows with every audit; topics that are gone are forgotten. passwords: what decodes those of brokers."""

    def __init__(self, passwords: PasswordReader | None = None) -> None:
        self._of: dict[str, VerifiedRead] = {}
        self._shared: dict[tuple[int, ...], tuple[int, ...]] = {}
        """Most topics have the partitions of some other."""
        self._passwords = passwords

    def audit(
        self,
        session: Session,
        by_topic: Mapping[str, Sequence[bytes]],
        rest: Sequence[bytes],
        producer_id_margin: int,
        limits: ReadLimits = UNLIMITED,
    ) -> AuditReport:
        """Compare all of ZooKeeper, read now, with these records; remember what was found equal."""
        started = time.monotonic()
        comparison = self._compare(session, by_topic, rest, ExpectedDifferences(producer_id_margin), limits)
        if comparison is None:
            facts = facts_of_values(chain(*by_topic.values(), rest))
            rules = ExpectedDifferences(producer_id_margin)
            comparison = compare_sides(session, facts, rules, limits, passwords=self._passwords)
        seconds = {"total": time.monotonic() - started}
        return report(comparison, seconds=seconds, zk={}, kraft={}, engine="quick")

    def _compare(
        self,
        session: Session,
        by_topic: Mapping[str, Sequence[bytes]],
        rest: Sequence[bytes],
        rules: ExpectedDifferences,
        limits: ReadLimits,
    ) -> Comparison | None:
        """None: the records do not come apart by topic, so nothing can be said of one topic alone."""
        records = [decode_record(value) for value in rest]
        if any(map(_about_a_topic, records)):
            return None
        others = facts_of(records)
        session.sync()
        names = topic_names(session)
        known = replace(rules, topics=frozenset(names) | by_topic.keys(), accepts_unusable=True)
        comparison = Comparison(known)
        verified: dict[str, VerifiedRead] = {}
        there: set[str] = set()
        remaining = iter(names)
        while chunk := list(islice(remaining, TOPICS_AT_ONCE)):
            for seen in self._read(session, chunk, limits):
                try:
                    proof = self._judge(seen, by_topic.get(seen.name, ()), comparison)
                except _NotOfOneTopicError:
                    return None
                there.add(seen.name)
                if proof is not None:
                    verified[seen.name] = proof
        self._of = verified
        if len({proof.topic_id for proof in verified.values()}) < len(verified):
            return None
        for name in sorted(by_topic.keys() - there):
            compare_topics(_Seen(name), facts_of_values(by_topic[name]), [], comparison)
        orphans = sorted(set(config_names(session, TOPIC_CONFIGS)) - there)
        compare_configs(session, LogFacts(), TOPIC_CONFIGS, orphans, comparison, limits, by_topic.keys())
        compare_others(session, others, comparison, limits, self._passwords)
        return comparison

    # --- one topic -----------------------------------------------------------------------------------------

    def _read(self, session: Session, names: list[str], limits: ReadLimits) -> Iterator[_Seen]:
        """Topics with all their znodes; one that is gone is left out."""
        heads = session.get_many(map(paths.topic, names), limits)
        configs = session.get_many(map(paths.topic_config, names), limits)
        seen = [_Seen(*each) for each in zip(names, heads, configs, strict=True) if each[1] is not None]
        for each in seen:
            each.partitions = self._partitions(each)
        wanted = (paths.state(each.name, partition) for each in seen for partition in each.partitions)
        states = session.get_many(wanted, limits)
        for each in seen:
            each.states = list(islice(states, len(each.partitions)))
            yield each

    def _partitions(self, seen: _Seen) -> tuple[int, ...]:
        proof = self._of.get(seen.name)
        if proof is not None and proof.head == digest([seen.head]):
            return proof.partitions
        try:
            found = tuple(zk_topic(paths.topic(seen.name), seen.head.data if seen.head else None)[1])
        except FindingError:
            return ()
        return self._shared.setdefault(found, found)

    def _judge(self, seen: _Seen, values: Sequence[bytes], comparison: Comparison) -> VerifiedRead | None:
        znodes = digest([seen.head, seen.config, *seen.states])
        proof = self._of.get(seen.name)
        if proof is not None and proof.values is values and proof.znodes == znodes:
            comparison.counts[TOPICS].count(KeyOutcome.EQUAL)
            comparison.counts[PARTITIONS].count(KeyOutcome.EQUAL, len(proof.partitions))
            comparison.counts[TOPIC_CONFIGS].count(KeyOutcome.EQUAL, int(proof.configured))
            return proof
        alone = Comparison(comparison.rules, fingerprints=comparison.fingerprints)
        records = [decode_record(value) for value in values]
        if not all(_only_about(seen.name, record) for record in records):
            raise _NotOfOneTopicError
        facts = facts_of(records)
        on_both = compare_topics(seen, facts, [seen.name], alone)
        znode = [] if seen.config is None else [seen.name]
        compare_configs(seen, facts, TOPIC_CONFIGS, znode, alone, untold={seen.name} - on_both)
        comparison.take(alone)
        topic = facts.topic(seen.name)
        if topic is None or not alone.same or alone.expected:
            return None
        configured = bool(facts.configs(TOPIC_CONFIGS))
        return VerifiedRead(values, digest([seen.head]), seen.partitions, znodes, topic["id"], configured)


class _NotOfOneTopicError(Exception):
    """The records of a topic say something of another family."""


def _about_a_topic(record: Message) -> bool:
    """Also one that takes something away: it leaves no facts, and counts for what came before it in the log."""
    of_topics = (TopicRecord, RemoveTopicRecord, PartitionRecord, PartitionChangeRecord)
    return isinstance(record, of_topics) or _of_a_topic_config(record)


def _of_a_topic_config(record: Message) -> bool:
    return isinstance(record, ConfigRecord) and record.resource_type == TOPIC_RESOURCE


def _only_about(name: str, record: Message) -> bool:
    """Whether a record makes this topic, its partitions or its configuration, and nothing else."""
    match record:
        case TopicRecord():
            return record.name == name
        case ConfigRecord():
            return _of_a_topic_config(record) and record.resource_name == name and record.value is not None
        case _:
            return isinstance(record, PartitionRecord)


class _Seen:
    """The znodes of one topic as they were read, in the place of a session: what is compared is what was digested."""

    def __init__(self, name: str, head: Znode | None = None, config: Znode | None = None) -> None:
        self.name = name
        self.head = head
        self.config = config
        self.partitions: tuple[int, ...] = ()
        self.states: list[Znode | None] = []

    def get_many(self, wanted: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[Znode | None]:
        known = {paths.topic(self.name): self.head, paths.topic_config(self.name): self.config}
        for partition, state in zip(self.partitions, self.states, strict=True):
            known[paths.state(self.name, partition)] = state
        return map(known.__getitem__, wanted)


def digest(znodes: Iterable[Znode | None]) -> bytes:
    """Hash the data versions and contents of znodes in the order in which they come."""
    parts: list[bytes] = []
    for znode in znodes:
        if znode is None:
            parts.append(_NO_ZNODE)
        else:
            data = znode.data or b""
            parts += (_LENGTH_AND_VERSION.pack(len(data), znode.version), data)
    return blake2b(b"".join(parts), digest_size=16).digest()
