"""The log as rows: each record with what it is about, and what the records of a subject add up to.

In:   batches of the log; later the rows of some subjects, in log order.
Out:  `RecordRow`s, as Parquet keeps them; `SideRow`s, as the comparison wants them.
Elsewhere: reading bytes (log_plan.py), what a record changes (normalise.LogFacts, the same as in the quick engine),
bringing the rows of a subject together and dropping what never counted (fold.py).
Rule: only records that the audited families are made of are kept with their content, and what is secret in them only
as a keyed hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from migrator.audit.cluster import CLUSTER, CLUSTER_RECORDS, cluster_key
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.log_source import MARKERS, records_of
from migrator.audit.log_states import NO_OFFSET, Key, LogStates, subject_of_key
from migrator.audit.normalise import (
    PARTITIONS,
    PRODUCER_IDS,
    PRODUCER_IDS_KEY,
    RESOURCES,
    TOPICS,
    id_text,
    partition_key,
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
    RemoveTopicRecord,
    TopicRecord,
)
from migrator.wire.schema import Message

MARKER_TYPES: Final = tuple(each.__name__ for each in MARKERS)
TOPIC_RECORD: Final = TopicRecord.__name__
NAMING_RECORDS: Final = (TOPIC_RECORD, AccessControlEntryRecord.__name__)
"""Those that say what an id stands for, which other records name alone."""
_FAMILY_OF_RESOURCE: Final = {resource: family for family, resource in RESOURCES.items()}
_DECODERS: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    kind.__name__: msgspec.json.Decoder(kind)
    for kind in (
        TopicRecord,
        RemoveTopicRecord,
        PartitionRecord,
        PartitionChangeRecord,
        ConfigRecord,
        ProducerIdsRecord,
        *CLUSTER_RECORDS,
    )
} | {kind.__name__: msgspec.json.Decoder(SecurityChange) for kind in SECURITY_RECORDS}


class RecordRow(msgspec.Struct, frozen=True):
    """One record. nth: its place in a snapshot, whose records all stand at the snapshot's offset; else 0.

    topic_id: of records about a topic, and the id of an ACL. name: the topic that a TopicRecord names.
    subject:  where the record itself tells it; of others it is found by the id.
    data:     the record as JSON, or the `SecurityChange` that it is; None of transaction markers.
    """

    offset: int
    nth: int
    epoch: int
    type: str
    topic_id: str | None = None
    name: str | None = None
    subject: str | None = None
    data: str | None = None
    problem: str = ""


def record_rows(
    batches: Iterable[Batch], fingerprints: SecretFingerprints, snapshot_offset: int = -1
) -> Iterator[RecordRow]:
    """snapshot_offset: the last offset that the snapshot stands for when the batches are of one, else -1."""
    for batch in batches:
        for offset, record in records_of(batch):
            place = (offset, 0) if snapshot_offset < 0 else (snapshot_offset, offset)
            row = _record_row(*place, batch.leader_epoch, record, fingerprints)
            if row is not None:
                yield row


def unreadable_records(error: FindingError) -> RecordRow:
    return RecordRow(-1, 0, -1, "", problem=str(error.occurrence.text))


def _record_row(
    offset: int, nth: int, epoch: int, record: Message, fingerprints: SecretFingerprints
) -> RecordRow | None:
    kind = type(record).__name__
    match record:
        case TopicRecord():
            return RecordRow(offset, nth, epoch, kind, id_text(record.topic_id), record.name, None, _json(record))
        case PartitionRecord() | PartitionChangeRecord() | RemoveTopicRecord():
            return RecordRow(offset, nth, epoch, kind, id_text(record.topic_id), None, None, _json(record))
        case ConfigRecord() if record.resource_type in _FAMILY_OF_RESOURCE:
            fingerprinted = msgspec.structs.replace(record, value=fingerprints.value(record.name, record.value))
            subject = subject_of(_FAMILY_OF_RESOURCE[record.resource_type], record.resource_name)
            return RecordRow(offset, nth, epoch, kind, None, None, subject, _json(fingerprinted))
        case ProducerIdsRecord():
            return RecordRow(offset, nth, epoch, kind, None, None, PRODUCER_IDS_SUBJECT, _json(record))
        case _ if isinstance(record, CLUSTER_RECORDS) and cluster_key(record) is not None:
            return RecordRow(offset, nth, epoch, kind, None, None, CLUSTER_SUBJECT, _json(record))
        case _ if isinstance(record, SECURITY_RECORDS):
            return _security_row(offset, nth, epoch, kind, change_of(record), fingerprints)
        case _ if isinstance(record, MARKERS):
            return RecordRow(offset, nth, epoch, kind)
        case _:
            return None


def _security_row(
    offset: int, nth: int, epoch: int, kind: str, change: SecurityChange, fingerprints: SecretFingerprints
) -> RecordRow:
    secret = change.facts is not None and change.family in HOLD_SECRETS
    fingerprinted = msgspec.structs.replace(change, facts=fingerprints.facts(change.facts or {})) if secret else change
    subject = ZNODE_SUBJECT + change.path if change.path else None
    acl_id = change.part if change.family == ACLS else None
    return RecordRow(offset, nth, epoch, kind, acl_id, None, subject, _json(fingerprinted))


def _json(record: Message | SecurityChange) -> str:
    return msgspec.json.encode(record).decode()


class Fold:
    """Folds the committed records of some subjects, given in log order, to their rows."""

    def __init__(self, low: int = NO_OFFSET) -> None:
        """low: what keys said since this offset is kept too (log_states.py)."""
        self.states = LogStates(low)
        self._touched: dict[tuple[str, str], int] = {}
        self._problem: SideRow | None = None

    def take(self, offset: int, kind: str, data: str, subject: str) -> None:
        """One record. After one that does not fit, nothing more is taken: `rows` says which."""
        if self._problem is not None:
            return
        record = _DECODERS[kind].decode(data)
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
