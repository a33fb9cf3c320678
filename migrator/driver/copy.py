"""The copy: the tree as metadata records, which a takeover appends.

In:   a `Tree`, and the copy before this one (so that only topics that moved are encoded again).
Out:  encoded records in log order, and the image that they make.
Elsewhere: quotas, credentials, ACLs, tokens (families.py), reading the tree (node.zookeeper.tree_reader), comparing
both sides (audit), appending (node).
Rules: nothing is invented and nothing repaired: the tree is copied as it is, or the gate has stopped it. The next
producer id leaves a margin for blocks that are being handed out while we look.
Source: Kafka 3.9 `ZkMigrationClient`; R-866-02 (the order is the names' own, so the same tree gives the same records).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from migrator.driver.families import acl_values, describe, quota_and_scram_values, token_values
from migrator.driver.tree import TopicReading, Tree, as_image, assigned, changed_since, clear_broker_configs
from migrator.findings.driver import ONLY_IN_ZOOKEEPER
from migrator.findings.finding import Occurrence
from migrator.model.diff import diff
from migrator.model.draft import Delta, Draft
from migrator.model.image import CommittedCopy, Image, Position
from migrator.model.values import ConfigKey, ConfigType, MigrationState
from migrator.records.builders import config_record, partition_record, producer_ids_record, topic_record
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import (
    BeginTransactionRecord,
    EndTransactionRecord,
    ZkMigrationStateRecord,
)
from migrator.wire.records import encode_record
from migrator.zk import paths
from migrator.zk.passwords import PasswordEncoder

PRODUCER_ID_BLOCK = 1_000
RECORDS_PER_BATCH = 1_000
BATCH_BYTES = 1 << 20
"""A batch is closed at this size: small enough to write in one slice of the loop, large enough to cost nothing."""

PARTITION_RECORD_VERSION = 0
"""As stock copies: without directories, which brokers tell after their restart in KRaft mode."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Encoded records by topic, then the rest. `topics` keeps the reading that each was made from.

    broker_configs: with passwords in clear; without the brokers that have one which cannot be decoded (the gate is
                    closed then).
    """

    tree: Tree
    topics: dict[str, tuple[TopicReading, tuple[bytes, ...]]]
    rest: tuple[bytes, ...] = field(repr=False)
    broker_configs: dict[str, dict[str, str]] = field(repr=False)
    next_producer_id: int

    def values(self) -> Iterator[bytes]:
        for name in sorted(self.topics):
            yield from self.topics[name][1]
        yield from self.rest

    def by_topic(self) -> dict[str, tuple[bytes, ...]]:
        """The records of each topic; the same tuple as before for one that did not move."""
        return {name: values for name, (_, values) in self.topics.items()}

    def record_count(self) -> int:
        return sum(len(values) for _, values in self.topics.values()) + len(self.rest)


def make_copy(tree: Tree, before: Copy | None = None, passwords: PasswordEncoder | None = None) -> Copy:
    """Encode every topic that is not the one already encoded."""
    known = {} if before is None else before.topics
    topics: dict[str, tuple[TopicReading, tuple[bytes, ...]]] = {}
    for name, reading in tree.topics.items():
        encoded = known.get(name)
        if encoded is not None and encoded[0] is reading:
            topics[name] = encoded
        else:
            topics[name] = (reading, topic_values(reading))
    next_producer_id = max(tree.next_producer_id(), 0) + producer_id_margin(len(tree.brokers))
    broker_configs = clear_broker_configs(tree, passwords).values
    rest = [
        *broker_config_values(broker_configs),
        *quota_and_scram_values(tree.families),
        producer_id_value(tree, next_producer_id),
        *acl_values(tree.families),
        *token_values(tree.families),
    ]
    return Copy(tree, topics, tuple(rest), broker_configs, next_producer_id)


def producer_id_margin(brokers: int) -> int:
    """Each broker may have one allocation on its way that the claim does not fence, and the old controller one."""
    return PRODUCER_ID_BLOCK * (brokers + 1)


def topic_values(reading: TopicReading) -> tuple[bytes, ...]:
    """Topic, then its configuration, then its partitions."""
    topic = reading.topic
    key = ConfigKey(ConfigType.TOPIC, topic.name)
    values = [encode_record(topic_record(topic.name, topic.id), 0)]
    values += [encode_record(config_record(key, name, value), 0) for name, value in sorted(reading.config.items())]
    values += [
        encode_record(partition_record(topic.id, partition), PARTITION_RECORD_VERSION) for partition in topic.partitions
    ]
    return tuple(values)


def broker_config_values(configs: Mapping[str, Mapping[str, str]]) -> Iterator[bytes]:
    for broker, config in sorted(configs.items()):
        key = ConfigKey(ConfigType.BROKER, broker)
        for name, value in sorted(config.items()):
            yield encode_record(config_record(key, name, value), 0)


def producer_id_value(tree: Tree, next_producer_id: int) -> bytes:
    broker = -1 if tree.producer_ids is None else tree.producer_ids.broker
    return encode_record(producer_ids_record(next_producer_id, broker=broker), 0)


# --- as a transaction -------------------------------------------------------------------------------------


def transaction_batches(copy: Copy, timestamp_ms: int) -> Iterator[tuple[int, bytes]]:
    """(records, bytes) per batch, each with base offset 0: Begin, the copy, ZkMigrationState, End.

    Appended in one run: whoever reads the log sees all of it or, at a crash in between, none.
    """
    yield _batch([encode_record(BeginTransactionRecord(name="ZK Migration"), 0)], timestamp_ms)
    for values in _cut(copy.values()):
        yield _batch(values, timestamp_ms)
    done = ZkMigrationStateRecord(zk_migration_state=MigrationState.MIGRATION)
    yield _batch([encode_record(done, 0), encode_record(EndTransactionRecord(), 0)], timestamp_ms)


def _cut(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for value in values:
        chunk.append(value)
        size += len(value)
        if len(chunk) >= RECORDS_PER_BATCH or size >= BATCH_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _batch(values: list[bytes], timestamp_ms: int) -> tuple[int, bytes]:
    return len(values), build_batch(base_offset=0, leader_epoch=0, timestamp_ms=timestamp_ms, values=values)


def copied(copy: Copy, base: Image, position: Position) -> Delta:
    """The image after the transaction: `base` (registrations, features) with everything that was copied."""
    draft = Draft(base)
    for reading, _ in copy.topics.values():
        draft.put_topic(reading.topic)
        if reading.config:
            draft.put_config(ConfigKey(ConfigType.TOPIC, reading.topic.name), reading.config.items())
    for broker, config in copy.broker_configs.items():
        if config:
            draft.put_config(ConfigKey(ConfigType.BROKER, broker), config.items())
    copy.tree.families.put_into(draft)
    draft.set_next_producer_id(copy.next_producer_id)
    draft.set_migration(MigrationState.MIGRATION)
    return draft.finish(position)


def foreign_since_copy(copy: Copy, tree: Tree, log: Image) -> Occurrence | None:
    """What another program changed in ZooKeeper after it was copied, or why that cannot be known.

    tree: as it is right after the commit, before any broker has an update.
    """
    if tree.problems:
        return tree.problems[0]
    moved = changed_since(copy.tree, tree, log)
    return ONLY_IN_ZOOKEEPER.found(count=len(moved), first=moved[0]) if moved else None


def foreign_since_commit(
    copied: CommittedCopy, tree: Tree, log: Image, passwords: PasswordEncoder | None = None
) -> Occurrence | None:
    """The same for a leader that did not copy: the log says what was copied, and what this quorum changed since.

    copied: what the log said before the copy and right after it. log: what it says now. Whatever ZooKeeper holds that
    is neither what was copied nor what the log says now came from others. Partition states are not looked at.
    """
    created = {paths.topic(each.name): each.id for each in log.topics.values() if each.id not in copied.after.topics}
    for problem in tree.problems:
        if not any(str(problem.values.get("path")).startswith(f"{path}/") for path in created):
            return problem
    found = as_image(tree, copied.after, passwords=passwords)
    delta = diff(found, copied.after)
    unreadable = {paths.broker_config(broker) for broker in clear_broker_configs(tree, passwords).unreadable}
    half = {path for path, id_ in created.items() if id_ in found.topics}  # the leader before began to write them
    was, now, before = (_described(each, delta) for each in (copied.after, log, copied.before))
    foreign = sorted(
        name
        for name, value in _described(found, delta).items()
        if value not in (was[name], now[name])
        and not (value is None and before[name] == was[name])  # Kafka's format tool put it into the log
        and name not in unreadable | half
    )
    return ONLY_IN_ZOOKEEPER.found(count=len(foreign), first=foreign[0]) if foreign else None


def _described(image: Image, delta: Delta) -> dict[str, object]:
    """What an image says of that in which two others differ, by names for reports; None where it has nothing."""
    names = {(delta.before.topics.get(each) or delta.after.topics[each]).name for each in delta.topics}
    topics = ((paths.topic(name), image.topic(name)) for name in names)
    return {
        **{path: None if topic is None else assigned(topic) for path, topic in topics},
        **{_config_path(key): image.configs.get(key) for key in delta.configs},
        **{f"quotas of {describe(entity)}": image.quotas.get(entity) for entity in delta.quotas},
        **{f"SCRAM credential {key.mechanism} of {key.user}": image.scram.get(key) for key in delta.scram},
        **{f"ACLs of {resource}": image.acl_entries(resource) or None for resource in delta.acls},
        **{paths.token(token): image.tokens.get(token) for token in delta.tokens},
    }


def _config_path(key: ConfigKey) -> str:
    return paths.topic_config(key.name) if key.type == ConfigType.TOPIC else paths.broker_config(key.name)


def takeover_mark(epoch: int, at: float, *, updating: bool) -> str:
    """The text of `Mark.TAKEOVER`. updating: a broker may have an update that was made from the copy."""
    return json.dumps({"epoch": epoch, "at": at, "updating": updating})


def nobody_is_updated(text: str | None) -> bool:
    """Whether the text proves that no broker has an update yet; one of an earlier release proves nothing."""
    try:
        return json.loads(text or "null").get("updating") is False
    except (ValueError, AttributeError):
        return False
