"""The same facts from both sides: what a znode says, and what the records of the log say.

In:   the bytes of znodes, and metadata records as decoded from the log's bytes.
Out:  facts by (family, key): a flat mapping of field to value, as JSON would carry it.
Elsewhere: quotas, credentials, ACLs and tokens (security_facts.py), classifying differences (compare.py), reading the
sides (zk_source.py, log_source.py).
Rule: nothing of the copy is imported here. Znodes are parsed by shapes of our own and records are told field by field,
so an error in one of the copy's decoders shows up as a difference instead of hiding on both sides.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, TypeVar

import msgspec

from migrator.audit.cluster import (
    ABOVE,
    CLUSTER,
    CLUSTER_RECORDS,
    FIRST_CONTROLLER_EPOCH,
    OF_THE_LOG,
    EpochLimit,
    cluster_facts,
    cluster_key,
)
from migrator.audit.java_texts import INT_MAX, LONG_MAX, java_long, java_uuid
from migrator.audit.security_facts import SECURITY_FAMILIES, SECURITY_RECORDS, TOO_DEEP, SecurityFacts, change_of
from migrator.findings.audit import LOG_INCONSISTENT
from migrator.findings.content import MALFORMED_ZNODE, PRODUCER_IDS_EMPTY
from migrator.findings.finding import words_of
from migrator.wire.messages.metadata import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from migrator.wire.records import decode_record, frame_of
from migrator.wire.schema import Message
from migrator.zk.json_texts import check_json

Facts = dict[str, Any]

TOPICS: Final = "topics"
PARTITIONS: Final = "partitions"
TOPIC_CONFIGS: Final = "topic configs"
BROKER_CONFIGS: Final = "broker configs"
PRODUCER_IDS: Final = "producer ids"
ORDERS: Final = "orders"
"""What somebody left below `/admin` for a ZooKeeper controller: the log has no form of it, so each one differs."""

FAMILIES: Final = (TOPICS, PARTITIONS, TOPIC_CONFIGS, BROKER_CONFIGS, PRODUCER_IDS, *SECURITY_FAMILIES, ORDERS, CLUSTER)

PRODUCER_IDS_KEY: Final = "next"
NEXT_ID: Final = "next_producer_id"
STOCK_ANNOUNCES: Final = "announced by stock"
"""Beside the next id, of ZooKeeper's side alone, and never compared: where the block begins that a stock controller
mirrored. The znode itself says who wrote it: see `STOCK_MIRROR`."""

BLOCK_SIZE: Final = "size of the block"
"""Beside it too, and as little compared: how many ids the block in ZooKeeper has."""

STOCK_MIRROR: Final = -1
"""The broker that a stock controller names as the block's; every other writer, ours too, names a node."""

OF_ZOOKEEPER_ALONE: Final = frozenset({STOCK_ANNOUNCES, BLOCK_SIZE})

PARTITION_EPOCH: Final = "partition_epoch"
STATE_FIELDS: Final = frozenset({"leader", "leader_epoch", "isr", "recovery", PARTITION_EPOCH})
"""What a partition's facts have from its state znode; the rest is from the topic's assignment."""

STATES_KEPT, KEPT_STATE_BYTES = 4_096, 1_024
"""Texts of state znodes that are decoded once, most of 150 bytes. Longer ones, as anybody may write, are not kept."""

NO_LEADER: Final = -1

MINUS_ZERO: Final = b'"-0"'
"""As the key of a partition: 0 for Kafka, but what is added and removed is looked up by the text."""

RECOVERY_STATE_MAX: Final = 1
"""`LeaderRecoveryState` has RECOVERED and RECOVERING."""

PARTITION_FRAMES: Final = frozenset(frame_of(PartitionRecord, version) for version in (0, 1, 2))
"""What the value of a PartitionRecord begins with; then come the partition, the topic's id, and the rest."""

FRAME_BYTES: Final = 3
PARTITION_AT: Final = struct.Struct(">i16s")
BEHIND_ID: Final = FRAME_BYTES + PARTITION_AT.size

KNOWN_MAX: Final = 65_536
"""How many texts of partitions are known by their bytes: a few MB."""

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
RESOURCES: Final = {TOPIC_CONFIGS: TOPIC_RESOURCE, BROKER_CONFIGS: BROKER_RESOURCE}
"""The resource type that a ConfigRecord has for each family."""

T = TypeVar("T")

KnownPartitions = dict[tuple[bytes, bytes], Facts]
"""What records of partitions say, but for which partition: by frame and by the bytes behind the topic's id. Many
partitions share one; facts are replaced and never changed."""


def what_is_said(value: bytes) -> tuple[bytes, bytes]:
    """Everything that a PartitionRecord says, but for which partition. value: begins with one of `PARTITION_FRAMES`."""
    return value[:FRAME_BYTES], value[BEHIND_ID:]


def saying(said: bytes, partition: int, topic_id: bytes) -> bytes:
    """Return the value of a PartitionRecord. said: both parts of `what_is_said`, joined."""
    return said[:FRAME_BYTES] + PARTITION_AT.pack(partition, topic_id) + said[FRAME_BYTES:]


def partition_key(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def why_unusable(facts: Facts) -> tuple[str, str] | None:
    """Field, and why no broker can lead this partition as it stands; None where one can.

    A leader that is no replica leads nothing. An ISR with somebody who is no replica shrinks to that one when the
    replicas stop, and the partition is without a leader for good (seen on 3.9.2). Odd tools wrote such states in the
    field; neither kind of controller writes one.
    """
    replicas = facts["replicas"]
    if not replicas or len(set(replicas)) != len(replicas):
        return "replicas", "a broker stands in it twice" if replicas else "there is no replica"
    if "isr" not in facts:
        return None
    isr, leader = facts["isr"], facts["leader"]
    if leader != NO_LEADER and leader not in replicas:
        return "leader", f"it is none of the replicas {replicas}"
    if isr != replicas:
        in_sync = set(isr)
        if len(in_sync) != len(isr):
            return "isr", "a broker stands in it twice"
        if not in_sync <= set(replicas):
            return "isr", f"it has brokers that are none of the replicas {replicas}"
    return None


# --- ZooKeeper's side -------------------------------------------------------------------------------------


_Int = Annotated[int, msgspec.Meta(ge=-INT_MAX - 1, le=INT_MAX)]
"""What Kafka reads as an Int: it throws for a larger number."""


class _TopicJson(msgspec.Struct):
    """What may be missing may not be null: Kafka throws for it."""

    partitions: dict[_Int, tuple[_Int, ...]]
    topic_id: str | msgspec.UnsetType = msgspec.UNSET
    adding_replicas: dict[_Int, list[_Int]] = {}
    removing_replicas: dict[_Int, list[_Int]] = {}


class _StateJson(msgspec.Struct):
    controller_epoch: Annotated[int, msgspec.Meta(ge=FIRST_CONTROLLER_EPOCH, le=INT_MAX)]
    leader: _Int
    leader_epoch: _Int
    isr: list[_Int]
    leader_recovery_state: Annotated[int, msgspec.Meta(ge=0, le=RECOVERY_STATE_MAX)] = 0


class _ConfigJson(msgspec.Struct):
    """Without `config` there is none, as for Kafka."""

    config: dict[str, str] = {}


class _ProducerIdsJson(msgspec.Struct):
    """Both ends are texts: Kafka's reader throws for a JSON number."""

    block_end: str
    block_start: str
    broker: _Int


_TOPIC_JSON: Final = msgspec.json.Decoder(_TopicJson)
_STATE_JSON: Final = msgspec.json.Decoder(_StateJson)
_CONFIG_JSON: Final = msgspec.json.Decoder(_ConfigJson)
_PRODUCER_IDS_JSON: Final = msgspec.json.Decoder(_ProducerIdsJson)


def _json(path: str, data: bytes | None, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(check_json(data or b""))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MALFORMED_ZNODE.error(path=path, reason=_words(error)) from error


def _words(error: Exception) -> str:
    return TOO_DEEP if isinstance(error, RecursionError) else words_of(error)


def zk_topic(path: str, data: bytes | None) -> tuple[Facts, dict[int, Facts]]:
    """A topic znode: the topic's facts, and per partition id its assignment. Partitions are a family of their own."""
    found = _json(path, data, _TOPIC_JSON)
    if MINUS_ZERO in (data or b""):
        raise MALFORMED_ZNODE.error(path=path, reason="a partition id is -0")
    topic_id = None if found.topic_id is msgspec.UNSET else _topic_id(path, found.topic_id)
    adding, removing = found.adding_replicas, found.removing_replicas
    if not adding and not removing:
        return {"id": topic_id}, {each: _settled(replicas) for each, replicas in found.partitions.items()}
    assignments = {
        partition: {
            "replicas": [*replicas],
            "adding": adding.get(partition, []),
            "removing": removing.get(partition, []),
        }
        for partition, replicas in found.partitions.items()
    }
    return {"id": topic_id}, assignments


def _topic_id(path: str, text: str) -> str:
    try:
        return java_uuid(text)
    except ValueError as error:
        raise MALFORMED_ZNODE.error(path=path, reason="topic_id is not an id") from error


@lru_cache(maxsize=KNOWN_MAX)
def _settled(replicas: tuple[int, ...]) -> Facts:
    """The assignment of a partition that does not move: one for all that have it, which nobody changes."""
    return {"replicas": [*replicas], "adding": [], "removing": []}


def _decoded_state(data: bytes) -> tuple[int, Facts]:
    """Controller epoch, and the facts but for the version."""
    found = _STATE_JSON.decode(check_json(data))
    return found.controller_epoch, {
        "leader": found.leader,
        "leader_epoch": found.leader_epoch,
        "isr": found.isr,
        "recovery": found.leader_recovery_state,
    }


_kept_state: Final = lru_cache(maxsize=STATES_KEPT)(_decoded_state)
"""Most partitions of a cluster share few texts."""


def state_at_once(data: bytes | None) -> tuple[int, Facts] | None:
    """Controller epoch, and the facts but for the version, of a state znode as most are; None of one that is empty,
    long, or cannot be read: `zk_state` says why.
    """
    if not data or len(data) > KEPT_STATE_BYTES:
        return None
    try:
        return _kept_state(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def zk_state(path: str, data: bytes | None, version: int, epochs: EpochLimit | None = None) -> Facts:
    """A state znode. Its data version is the partition epoch. Its
    controller epoch has no counterpart in the log, and only has to be one that a controller had: one above `epochs` is
    a fact, which nothing is equal to.
    """
    try:
        text = data or b""
        controller_epoch, said = _kept_state(text) if len(text) <= KEPT_STATE_BYTES else _decoded_state(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MALFORMED_ZNODE.error(path=path, reason=_words(error)) from error
    facts = {**said, PARTITION_EPOCH: version}
    if epochs is not None and epochs.is_above(controller_epoch):
        facts[ABOVE] = controller_epoch
    return facts


def zk_config(path: str, data: bytes | None) -> Facts:
    return dict(_json(path, data, _CONFIG_JSON).config) if data else {}


def zk_producer_ids(path: str, data: bytes | None) -> Facts:
    """What comes after the newest block; nothing when none was handed out: then the znode has no data, which is not
    the same as a text of no bytes. Kafka throws for that.
    """
    if data is None:
        return {}
    if not data:
        raise PRODUCER_IDS_EMPTY.error(path=path)
    block = _json(path, data, _PRODUCER_IDS_JSON)
    try:
        start, end = java_long(block.block_start), java_long(block.block_end)
    except ValueError as error:
        raise MALFORMED_ZNODE.error(path=path, reason="an end of the block is not a number") from error
    if end + 1 > LONG_MAX or not -INT_MAX - 1 <= end + 1 - start <= INT_MAX:
        raise MALFORMED_ZNODE.error(path=path, reason=f"the block from {start} to {end} is longer than Kafka reads")
    facts = {NEXT_ID: end + 1, BLOCK_SIZE: end + 1 - start}
    if block.broker == STOCK_MIRROR:
        facts[STOCK_ANNOUNCES] = start
    return facts


# --- the log's side ---------------------------------------------------------------------------------------


class LogFacts:
    """The state that records add up to, kept as facts by key, apart from the controller's image.

    Feed it committed records in log order; transactions are resolved by the caller. A record that does not fit what
    came before it is Z2K-5002: no reader of the log, stock or ours, could go on there.
    """

    def __init__(self, known: KnownPartitions | None = None) -> None:
        """known: what many readers of the same log share; None: one of its own."""
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        self._partitions: dict[bytes, dict[int, Facts]] = {}
        self._known = {} if known is None else known
        self._texts: dict[int, bytes] = {}
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._next_producer_id: int | None = None
        self._cluster: dict[str, Facts | None] = {}
        self.security = SecurityFacts()
        self.registered: dict[int, RegisterBrokerRecord] = {}
        """Brokers by id, as they last registered. No znode mirrors it; it says where they listen."""

    @property
    def known_partitions(self) -> Mapping[tuple[bytes, bytes], Facts]:
        """Return what PartitionRecords say that were learned, by `what_is_said`."""
        return self._known

    def partitions_of(self, topic_id: bytes) -> dict[int, Facts] | None:
        """Return what takes facts of a topic's partitions; None where there is no such topic."""
        return self._partitions.get(topic_id)

    def values_of(self, topic_id: bytes, partitions: Iterable[tuple[int, Facts]]) -> Iterator[bytes]:
        """Make the PartitionRecords again from which known facts were learned."""
        if len(self._texts) != len(self._known):
            self._texts = {id(facts): frame + rest for (frame, rest), facts in self._known.items()}
        for partition, facts in partitions:
            yield saying(self._texts[id(facts)], partition, topic_id)

    def known(self, value: bytes) -> Facts | None:
        """Return what a PartitionRecord says of its partition, learned if need be; None of one that is not usual."""
        found = self._known.get(what_is_said(value))
        if found is None:
            record = decode_record(value)
            assert isinstance(record, PartitionRecord), record
            found = self.learn(value, record)
        return found

    def take_partitions(self, topic_id: bytes, partitions: Mapping[int, Facts]) -> None:
        """Take what `known` gave. Raises KeyError where there is no such topic."""
        self._partitions[topic_id].update(partitions)

    def learn(self, value: bytes, record: PartitionRecord) -> Facts | None:
        """Know what a record says, which is not taken by it; None of one that is not usual.

        value: it was decoded from.
        """
        usual = value[:FRAME_BYTES] in PARTITION_FRAMES and _why_not_directories(record, len(record.replicas)) is None
        if not usual:
            return None
        facts = _partition_facts(record)
        if len(self._known) < KNOWN_MAX:
            return self._known.setdefault(what_is_said(value), facts)
        return facts

    def apply(self, record: Message) -> None:
        try:
            self._apply(record)
        except KeyError as error:
            raise LOG_INCONSISTENT.error(record=_named(record), reason="it is about what was not created") from error

    def _apply(self, record: Message) -> None:
        match record:
            case PartitionRecord():
                if (reason := _why_not_directories(record, len(record.replicas))) is not None:
                    raise LOG_INCONSISTENT.error(record=_named(record), reason=reason)
                self._partitions[record.topic_id][record.partition_id] = _partition_facts(record)
            case PartitionChangeRecord():
                partitions = self._partitions[record.topic_id]
                partitions[record.partition_id] = _merged(partitions[record.partition_id], record)
            case TopicRecord():
                if record.topic_id in self._names or record.name in self._ids:
                    raise LOG_INCONSISTENT.error(record=_named(record), reason="this topic or its id exists")
                self._names[record.topic_id] = record.name
                self._ids[record.name] = record.topic_id
                self._partitions[record.topic_id] = {}
            case RemoveTopicRecord():
                name = self._names.pop(record.topic_id)
                del self._ids[name]
                del self._partitions[record.topic_id]
                self._configs.pop((TOPIC_RESOURCE, name), None)
            case ConfigRecord():
                values = self._configs.setdefault((record.resource_type, record.resource_name), {})
                values.pop(record.name, None)
                if record.value is not None:
                    values[record.name] = record.value
            case ProducerIdsRecord():
                self._next_producer_id = record.next_producer_id
            case _ if isinstance(record, SECURITY_RECORDS):
                self.security.put(change_of(record))
            case _ if isinstance(record, CLUSTER_RECORDS):
                if (key := cluster_key(record)) is not None:
                    self._cluster[key] = cluster_facts(record)
            case RegisterBrokerRecord():
                self.registered[record.broker_id] = record
            case UnregisterBrokerRecord():
                self.registered.pop(record.broker_id, None)
            case _:
                pass  # changes of registrations, other features and markers have no znode that is mirrored

    def topics(self) -> list[str]:
        return sorted(self._ids)

    def topic(self, name: str) -> Facts | None:
        topic_id = self._ids.get(name)
        return None if topic_id is None else {"id": id_text(topic_id)}

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic that exists."""
        return self._ids[name]

    def partitions(self, name: str) -> Mapping[int, Facts]:
        topic_id = self._ids.get(name)
        return {} if topic_id is None else self._partitions[topic_id]

    def every_topic(self) -> Collection[Mapping[int, Facts]]:
        """Return the partitions of each topic, in no order."""
        return self._partitions.values()

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def config(self, family: str, name: str) -> Facts | None:
        return dict(self._configs.get((RESOURCES[family], name), {})) or None

    def configs(self, family: str) -> Mapping[str, Facts]:
        """The configuration of each topic or broker ("" is all brokers); resources without values are left out."""
        wanted = RESOURCES[family]
        return {name: dict(values) for (kind, name), values in self._configs.items() if kind == wanted and values}

    def producer_ids(self) -> Facts:
        return {} if self._next_producer_id is None else {NEXT_ID: self._next_producer_id}

    def cluster(self, key: str) -> Facts | None:
        """One of `OF_THE_LOG`."""
        return self._cluster.get(key)

    def rows(self) -> Iterator[tuple[str, str, Facts]]:
        """Every fact with its family and key: what the Spark job compares."""
        for key in OF_THE_LOG:
            if (said := self.cluster(key)) is not None:
                yield CLUSTER, key, said
        for name in self.topics():
            yield TOPICS, name, self.topic(name) or {}
            for partition, facts in self.partitions(name).items():
                yield PARTITIONS, partition_key(name, partition), facts
        for family in RESOURCES:
            for name, facts in self.configs(family).items():
                yield family, name, facts
        if self._next_producer_id is not None:
            yield PRODUCER_IDS, PRODUCER_IDS_KEY, self.producer_ids()
        yield from self.security.rows()


def _partition_facts(record: PartitionRecord) -> Facts:
    return {
        "replicas": list(record.replicas),
        "adding": list(record.adding_replicas),
        "removing": list(record.removing_replicas),
        "leader": record.leader,
        "leader_epoch": record.leader_epoch,
        "isr": list(record.isr),
        "recovery": record.leader_recovery_state,
        "partition_epoch": record.partition_epoch,
    }


def _why_not_directories(record: PartitionRecord, replicas: int) -> str | None:
    """A controller ends at its start on a partition with more or fewer directories than replicas.

    Source: Kafka 3.9 `PartitionRegistration`.
    """
    if record.directories and len(record.directories) != replicas:
        return f"it has {len(record.directories)} directories for {replicas} replicas"
    return None


def _merged(before: Facts, change: PartitionChangeRecord) -> Facts:
    """A change record: what is None stays; a leader (also the same) starts a leader epoch."""
    facts = dict(before)
    for field, value in (
        ("replicas", change.replicas),
        ("adding", change.adding_replicas),
        ("removing", change.removing_replicas),
        ("isr", change.isr),
    ):
        if value is not None:
            facts[field] = list(value)
    if change.leader >= -1:
        facts["leader"] = change.leader
        facts["leader_epoch"] += 1
    if change.leader_recovery_state >= 0:
        facts["recovery"] = change.leader_recovery_state
    facts["partition_epoch"] += 1
    return facts


def id_text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def _named(record: Message) -> str:
    """Which record, without the values that it carries."""
    parts = [type(record).__name__]
    if isinstance(record, (TopicRecord, RemoveTopicRecord, PartitionRecord, PartitionChangeRecord)):
        parts.append(f"of topic id {id_text(record.topic_id)}")
    if isinstance(record, (PartitionRecord, PartitionChangeRecord)):
        parts.append(f"partition {record.partition_id}")
    return " ".join(parts)
