"""The log as rows: the records of one subject together, and what they add up to.

In:   batches of the log; later the rows of some subjects.
Out:  `RecordRow`s, as Parquet keeps them; `SideRow`s, as the comparison wants them.
Elsewhere: reading bytes (log_plan.py), what a record changes (normalise.LogFacts, the same as in the quick engine),
bringing the rows of a subject together and dropping what never counted (fold.py).
Rule: only records that the audited families are made of are kept with their content, and what is secret in them only
as a keyed hash. Records about topics are kept by their bytes: most make partitions, and few of those say anything that
no other one says. Every record is decoded where it is read, unless one with the same bytes was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from migrator.audit.cluster import CLUSTER, CLUSTER_RECORDS, cluster_key
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.log_source import MARKERS, record_at
from migrator.audit.log_states import NO_OFFSET, Key, LogStates, subject_of_key
from migrator.audit.normalise import (
    BEHIND_ID,
    FRAME_BYTES,
    KNOWN_MAX,
    PARTITION_AT,
    PARTITION_FRAMES,
    PARTITIONS,
    PRODUCER_IDS,
    PRODUCER_IDS_KEY,
    RESOURCES,
    TOPICS,
    Facts,
    KnownPartitions,
    LogFacts,
    id_text,
    partition_key,
    saying,
)
from migrator.audit.rows import (
    CLUSTER_SUBJECT,
    HOLD_SECRETS,
    PRODUCER_IDS_SUBJECT,
    TOPIC_SUBJECT,
    ZNODE_SUBJECT,
    SideRow,
    not_read,
    subject_of,
    topic_subject,
)
from migrator.audit.security_facts import ACLS, SECURITY_RECORDS, SecurityChange, change_of
from migrator.findings.finding import FindingError
from migrator.wire.batch import Batch
from migrator.wire.messages.metadata import (
    AccessControlEntryRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from migrator.wire.records import encode_record
from migrator.wire.schema import Message

MARKER_TYPES: Final = tuple(each.__name__ for each in MARKERS)
NAMING_RECORDS: Final = (TopicRecord.__name__, AccessControlEntryRecord.__name__)
"""Those that say what an id stands for, which other records name alone."""
ENDING_RECORDS: Final = (RemoveTopicRecord.__name__, RemoveAccessControlEntryRecord.__name__)
"""Those that take the id away again."""

EVERY_PARTITION: Final = 1 << 31
"""More than a partition's number."""

RECORDS_PER_ROW: Final = 500
"""At most; of a topic with more there are several rows, so that no row is large."""

CONFIG_VERSION: Final = 0
"""Of a ConfigRecord; there is one alone."""

_FAMILY_OF_RESOURCE: Final = {resource: family for family, resource in RESOURCES.items()}
_CHANGES: Final = msgspec.json.Decoder(SecurityChange)


class RecordRow(msgspec.Struct, frozen=True):
    """Records about one subject, or a marker of a transaction. No transaction begins or ends between them.

    offset, nth: of the first one. nth is its place in a snapshot, whose records all stand at the snapshot's offset;
                 else 0.
    kind:     the type of a marker, or of a record that gives an id or takes it away; "" where there is none.
    id:       of the topic or of the ACL.
    subject:  where the records tell it; of others it is found by the id.
    data:     `PackedRecords`; None of markers.
    """

    offset: int
    nth: int
    kind: str
    id: str | None = None
    subject: str | None = None
    data: bytes | None = None
    problem: str = ""


class PackedRecords(msgspec.Struct, frozen=True, array_like=True):
    """What a row holds. offsets: of a snapshot, in it.

    values: as the log has them, but for what is secret. A number stands for a PartitionRecord of the topic: its
            place in `said` times `EVERY_PARTITION`, and the partition.
    said:   what different PartitionRecords say, but for which partition.
    are_changes: each value is a `SecurityChange` as JSON.
    """

    snapshot_offset: int
    offsets: list[int]
    values: list[int | bytes]
    topic_id: bytes = b""
    said: list[bytes] = []
    are_changes: bool = False

    def place(self, offset: int) -> tuple[int, int]:
        """Offset and `nth` of one of its records."""
        return (offset, 0) if self.snapshot_offset < 0 else (self.snapshot_offset, offset)

    def value(self, value: int | bytes) -> bytes:
        if isinstance(value, bytes):
            return value
        which, partition = divmod(value, EVERY_PARTITION)
        return saying(self.said[which], partition, self.topic_id)


class HeldRecord(NamedTuple):
    """One record of a row. offset, nth: as in `RecordRow`."""

    offset: int
    nth: int
    value: bytes
    is_change: bool

    def decoded(self) -> Message | SecurityChange:
        return _CHANGES.decode(self.value) if self.is_change else record_at(self.offset, self.value)


_PACKED: Final = msgspec.msgpack.Decoder(PackedRecords)


def packed_records(data: Iterable[bytes]) -> list[PackedRecords]:
    return [_PACKED.decode(each) for each in data]


def held_records(packs: Iterable[PackedRecords]) -> list[HeldRecord]:
    """The records of some rows in log order."""
    held = [
        HeldRecord(*pack.place(offset), pack.value(value), pack.are_changes)
        for pack in packs
        for offset, value in zip(pack.offsets, pack.values, strict=True)
    ]
    return sorted(held, key=lambda each: each[:2])


def said_of_topic(packs: Sequence[PackedRecords], known: KnownPartitions, until: int = NO_OFFSET) -> LogFacts | None:
    """What the records of a topic up to an offset add up to, without looking at every partition; None says nothing.

    packs: one behind the other. Raises Z2K-5001, Z2K-5002, and KeyError for partitions without their topic.
    """
    facts = LogFacts(known)
    for before, pack in zip([None, *packs], packs, strict=False):
        if before is not None and before.place(before.offsets[-1]) >= pack.place(pack.offsets[0]):
            return None
        found = (facts.known(saying(each, 0, pack.topic_id)) for each in pack.said)
        said = [each for each in found if each is not None]
        if len(said) < len(pack.said) or pack.are_changes:
            return None
        run: dict[int, Facts] = {}
        for offset, value in zip(pack.offsets, pack.values, strict=True):
            if until != NO_OFFSET and pack.place(offset)[0] > until:
                break
            if isinstance(value, int):
                run[value % EVERY_PARTITION] = said[value // EVERY_PARTITION]
                continue
            if run:
                facts.take_partitions(pack.topic_id, run)
                run = {}
            facts.apply(record_at(offset, value))
        if run:
            facts.take_partitions(pack.topic_id, run)
    return facts


def given_or_taken(record: Message | SecurityChange) -> tuple[str, str]:
    """Which record gives an id, or takes it away, and the id; two empty texts for any other."""
    match record:
        case TopicRecord() | RemoveTopicRecord():
            return type(record).__name__, id_text(record.topic_id)
        case SecurityChange() if record.family == ACLS:
            given = AccessControlEntryRecord if record.facts is not None else RemoveAccessControlEntryRecord
            return given.__name__, record.part
        case _:
            return "", ""


def record_rows(
    batches: Iterable[Batch], fingerprints: SecretFingerprints, snapshot_offset: int = -1
) -> Iterator[RecordRow]:
    """snapshot_offset: the last offset that the snapshot stands for when the batches are of one, else -1."""
    packer = _Packer(fingerprints, snapshot_offset)
    for batch in batches:
        yield from packer.take(batch)
    yield from packer.finish()


def unreadable_records(error: FindingError) -> RecordRow:
    return RecordRow(-1, 0, "", problem=str(error.occurrence.text))


class _Pack:
    """A row in the making."""

    __slots__ = ("key", "kind", "offsets", "said", "subject", "values")

    def __init__(self, key: bytes | str, subject: str | None) -> None:
        """key: the topic's id, or the subject."""
        self.key = key
        self.subject = subject
        self.kind = ""
        self.offsets: list[int] = []
        self.values: list[int | bytes] = []
        self.said: dict[tuple[bytes, bytes], int] = {}


class _Packer:
    """Puts records of one split about the same topic id, or the same subject, into one row."""

    def __init__(self, fingerprints: SecretFingerprints, snapshot_offset: int) -> None:
        self._fingerprints = fingerprints
        self._snapshot_offset = snapshot_offset
        self._packs: dict[bytes | str, _Pack] = {}
        self._subjects: dict[bytes, str] = {}
        """Of topic ids, as far as this split tells."""
        self._ids: dict[str, bytes] = {}
        """Topics by subject, while they are there."""
        self._decoded: set[tuple[bytes, bytes]] = set()
        self._done: list[RecordRow] = []

    def take(self, batch: Batch) -> list[RecordRow]:
        """Returns rows that nothing is added to any more. A record that cannot be read is Z2K-5001."""
        packs, decoded, unpack = self._packs, self._decoded, PARTITION_AT.unpack_from
        for offset, value in enumerate(batch.values, batch.base_offset):
            frame = value[:FRAME_BYTES]
            if frame not in PARTITION_FRAMES:
                self._take(offset, value)
                continue
            said = frame, value[BEHIND_ID:]  # as `what_is_said`, without a call
            if said not in decoded:
                record_at(offset, value)
                if len(decoded) < KNOWN_MAX:
                    decoded.add(said)
            partition, topic_id = unpack(value, FRAME_BYTES)
            pack = packs.get(topic_id)
            if pack is None:
                pack = self._of_topic(topic_id)
            if partition >= 0:
                pack.values.append(pack.said.setdefault(said, len(pack.said)) * EVERY_PARTITION + partition)
            else:
                pack.values.append(value)
            pack.offsets.append(offset)
            if len(pack.values) == RECORDS_PER_ROW:
                self._close(pack)
        return self._taken()

    def finish(self) -> list[RecordRow]:
        self._close_all()
        return self._taken()

    def _taken(self) -> list[RecordRow]:
        done, self._done = self._done, []
        return done

    def _take(self, offset: int, value: bytes) -> None:
        record = record_at(offset, value)
        kind = type(record).__name__
        match record:
            case TopicRecord():
                self._name(record.topic_id, topic_subject(record.name))
                self._add(self._of_topic(record.topic_id), offset, value, kind)
            case RemoveTopicRecord():
                self._add(self._of_topic(record.topic_id), offset, value, kind)
                self._ids.pop(self._subjects.get(record.topic_id, ""), None)
            case PartitionRecord() | PartitionChangeRecord():
                self._add(self._of_topic(record.topic_id), offset, value)
            case ConfigRecord() if record.resource_type in _FAMILY_OF_RESOURCE:
                subject = subject_of(_FAMILY_OF_RESOURCE[record.resource_type], record.resource_name)
                self._add(self._of_subject(subject), offset, self._fingerprinted(record, value))
            case ProducerIdsRecord():
                self._add(self._of_subject(PRODUCER_IDS_SUBJECT), offset, value)
            case _ if isinstance(record, CLUSTER_RECORDS) and cluster_key(record) is not None:
                self._add(self._of_subject(CLUSTER_SUBJECT), offset, value)
            case _ if isinstance(record, SECURITY_RECORDS):
                self._done.append(self._security_row(offset, kind, change_of(record)))
            case _ if isinstance(record, MARKERS):  # what never counts is left out row by row
                self._close_all()
                self._done.append(RecordRow(*self._place(offset), kind))
            case _:
                pass

    def _name(self, topic_id: bytes, subject: str) -> None:
        if self._subjects.get(topic_id) != subject and topic_id in self._packs:
            self._close(self._packs[topic_id])
        self._subjects[topic_id], self._ids[subject] = subject, topic_id

    def _of_topic(self, topic_id: bytes) -> _Pack:
        pack = self._packs.get(topic_id)
        if pack is None:
            pack = self._packs[topic_id] = _Pack(topic_id, self._subjects.get(topic_id))
        return pack

    def _of_subject(self, subject: str) -> _Pack:
        """Configuration of a topic goes with its other records, where its id is known."""
        if (topic_id := self._ids.get(subject)) is not None:
            return self._of_topic(topic_id)
        return self._packs.setdefault(subject, _Pack(subject, subject))

    def _add(self, pack: _Pack, offset: int, value: bytes, kind: str = "") -> None:
        pack.offsets.append(offset)
        pack.values.append(value)
        if kind and pack.kind not in NAMING_RECORDS:
            pack.kind = kind
        if len(pack.values) == RECORDS_PER_ROW:
            self._close(pack)

    def _close_all(self) -> None:
        for pack in list(self._packs.values()):
            self._close(pack)

    def _close(self, pack: _Pack) -> None:
        del self._packs[pack.key]
        topic_id = pack.key if isinstance(pack.key, bytes) else b""
        said = [frame + rest for frame, rest in pack.said]
        packed = PackedRecords(self._snapshot_offset, pack.offsets, pack.values, topic_id, said)
        place, data = packed.place(pack.offsets[0]), msgspec.msgpack.encode(packed)
        told_id = id_text(topic_id) if topic_id else None
        self._done.append(RecordRow(*place, pack.kind, told_id, pack.subject, data))

    def _place(self, offset: int) -> tuple[int, int]:
        return (offset, 0) if self._snapshot_offset < 0 else (self._snapshot_offset, offset)

    def _fingerprinted(self, record: ConfigRecord, value: bytes) -> bytes:
        told = self._fingerprints.value(record.name, record.value)
        if told == record.value:
            return value
        return encode_record(msgspec.structs.replace(record, value=told), CONFIG_VERSION)

    def _security_row(self, offset: int, kind: str, change: SecurityChange) -> RecordRow:
        if change.facts is not None and change.family in HOLD_SECRETS:
            change = msgspec.structs.replace(change, facts=self._fingerprints.facts(change.facts))
        packed = PackedRecords(self._snapshot_offset, [offset], [msgspec.json.encode(change)], are_changes=True)
        subject = ZNODE_SUBJECT + change.path if change.path else None
        acl_id = change.part if change.family == ACLS else None
        return RecordRow(*self._place(offset), kind, acl_id, subject, msgspec.msgpack.encode(packed))


class Fold:
    """Folds the committed records of some subjects, given in log order, to their rows."""

    def __init__(self, low: int = NO_OFFSET) -> None:
        """low: what keys said since this offset is kept too (log_states.py)."""
        self.states = LogStates(low)
        self._touched: dict[Key, int] = {}
        self._problem: SideRow | None = None

    def take(self, offset: int, record: Message | SecurityChange, subject: str) -> None:
        """One record. After one that does not fit, nothing more is taken: `rows` says which."""
        if self._problem is not None:
            return
        try:
            touched = self._touches(record, subject)
            self.states.take(offset, record)
        except FindingError as error:
            self._problem = not_read(f"the log at offset {offset}", error.occurrence.text)
            return
        self._touched[touched] = offset

    def rows(self) -> Iterator[SideRow]:
        if self._problem is not None:
            yield self._problem
            return
        for family, key, facts in self.states.facts.rows():
            yield SideRow(family, key, subject_of_key((family, key)), facts, self._touched.get((family, key), -1))

    def _touches(self, record: Message | SecurityChange, subject: str) -> Key:
        """The key that a record changes. subject: of the topic, which records about partitions do not name."""
        match record:
            case SecurityChange():
                return record.family, self.states.facts.security.path_of(record)
            case PartitionRecord() | PartitionChangeRecord():
                return PARTITIONS, partition_key(subject.removeprefix(TOPIC_SUBJECT), record.partition_id)
            case ConfigRecord():
                return _FAMILY_OF_RESOURCE[record.resource_type], record.resource_name
            case ProducerIdsRecord():
                return PRODUCER_IDS, PRODUCER_IDS_KEY
            case _ if isinstance(record, CLUSTER_RECORDS):
                return CLUSTER, cluster_key(record) or ""
            case _:
                return TOPICS, subject.removeprefix(TOPIC_SUBJECT)
