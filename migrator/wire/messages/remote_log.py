"""What brokers write into `__remote_log_metadata`: segments in tiered storage, and what became of each.

In:   `schema`.
Out:  one class per record type, and `decode_remote_record` for the value of a record.
Elsewhere: what the records of a topic add up to (migrator.audit.tiered.segments).
Source: Kafka 3.9, module `storage`, `RemoteLogSegmentMetadataRecord.json` and its three neighbours (KIP-405). The
frame is that of metadata records: 1, type, version, each a variable-length number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Annotated, Final, NoReturn

from migrator.findings.finding import FindingError
from migrator.findings.quorum import MALFORMED_BYTES
from migrator.wire.generate import Decoder, decoder_for
from migrator.wire.messages.shared import BrokerId, TopicId, TopicName
from migrator.wire.primitives import ZERO_UUID, decode_uvarint
from migrator.wire.schema import (
    ARRAY,
    BOOL,
    BYTES,
    INT8,
    INT32,
    INT64,
    UUID,
    Field,
    Message,
    Part,
    declaration_of,
)

FRAME_VERSION: Final = 1
FRAME_BYTES: Final = 3

SegmentId = Annotated[bytes, Field(UUID, "of one copy of a segment: a second copy has another")]
EventTimestampMs = Annotated[int, Field(INT64, "when the broker wrote this")]
CustomMetadata = Annotated[bytes | None, Field(BYTES, "what the store wants to remember", nullable=True)]


class RemoteSegmentState(IntEnum):
    """Kafka's `RemoteLogSegmentState`."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class RemoteTopicPartition(Part):
    """A partition by the topic's name and id."""

    name: TopicName = ""
    id: TopicId = ZERO_UUID
    partition: Annotated[int, Field(INT32, "the partition's number")] = 0


class RemoteSegmentId(Part):
    """Which segment of which partition."""

    topic_id_partition: Annotated[RemoteTopicPartition, Field(RemoteTopicPartition, "its partition")] = (
        RemoteTopicPartition()
    )
    id: SegmentId = ZERO_UUID


class SegmentLeaderEpoch(Part):
    """A leader epoch of which a segment has records."""

    leader_epoch: Annotated[int, Field(INT32, "the epoch")] = 0
    offset: Annotated[int, Field(INT64, "its first offset in the segment")] = 0


class RemoteLogSegmentMetadataRecord(Message, api_key=0, versions=(0, 0), flexible_since=0):
    """A copy of a segment was begun."""

    segment: Annotated[RemoteSegmentId, Field(RemoteSegmentId, "which")] = RemoteSegmentId()
    start_offset: Annotated[int, Field(INT64, "first offset")] = 0
    end_offset: Annotated[int, Field(INT64, "last offset")] = 0
    broker_id: BrokerId = 0
    max_timestamp_ms: Annotated[int, Field(INT64, "newest time of a record in it")] = 0
    event_timestamp_ms: EventTimestampMs = 0
    segment_leader_epochs: Annotated[
        Sequence[SegmentLeaderEpoch], Field(ARRAY(SegmentLeaderEpoch), "of its records, ascending")
    ] = ()
    segment_size_in_bytes: Annotated[int, Field(INT32, "of its log file")] = 0
    custom_metadata: CustomMetadata = None
    state: Annotated[int, Field(INT8, "RemoteSegmentState")] = 0
    txn_index_empty: Annotated[bool, Field(BOOL, "no transaction was aborted in it", tag=0)] = False


class RemoteLogSegmentMetadataUpdateRecord(Message, api_key=1, versions=(0, 0), flexible_since=0):
    """Something became of a segment."""

    segment: Annotated[RemoteSegmentId, Field(RemoteSegmentId, "which")] = RemoteSegmentId()
    broker_id: BrokerId = 0
    event_timestamp_ms: EventTimestampMs = 0
    custom_metadata: CustomMetadata = None
    state: Annotated[int, Field(INT8, "RemoteSegmentState")] = 0


class RemotePartitionDeleteMetadataRecord(Message, api_key=2, versions=(0, 0), flexible_since=0):
    """A whole partition is to be deleted. Kafka 3.9 never writes it."""

    topic_id_partition: Annotated[RemoteTopicPartition, Field(RemoteTopicPartition, "which")] = RemoteTopicPartition()
    broker_id: BrokerId = 0
    event_timestamp_ms: EventTimestampMs = 0
    state: Annotated[int, Field(INT8, "0 marked, 1 started, 2 finished")] = 0


class RemoteLogSegmentMetadataSnapshotRecord(Message, api_key=3, versions=(0, 0), flexible_since=0):
    """A segment as a snapshot file of a broker has it, without its partition. Never in the topic itself."""

    segment_id: SegmentId = ZERO_UUID
    start_offset: Annotated[int, Field(INT64, "first offset")] = 0
    end_offset: Annotated[int, Field(INT64, "last offset")] = 0
    broker_id: BrokerId = 0
    max_timestamp_ms: Annotated[int, Field(INT64, "newest time of a record in it")] = 0
    event_timestamp_ms: EventTimestampMs = 0
    segment_leader_epochs: Annotated[
        Sequence[SegmentLeaderEpoch], Field(ARRAY(SegmentLeaderEpoch), "of its records, ascending")
    ] = ()
    segment_size_in_bytes: Annotated[int, Field(INT32, "of its log file")] = 0
    custom_metadata: CustomMetadata = None
    state: Annotated[int, Field(INT8, "RemoteSegmentState")] = 0
    txn_index_empty: Annotated[bool, Field(BOOL, "no transaction was aborted in it", tag=0)] = False


RemoteRecord = (
    RemoteLogSegmentMetadataRecord
    | RemoteLogSegmentMetadataUpdateRecord
    | RemotePartitionDeleteMetadataRecord
    | RemoteLogSegmentMetadataSnapshotRecord
)
REMOTE_RECORDS: Final[Mapping[int, type[RemoteRecord]]] = {
    0: RemoteLogSegmentMetadataRecord,
    1: RemoteLogSegmentMetadataUpdateRecord,
    2: RemotePartitionDeleteMetadataRecord,
    3: RemoteLogSegmentMetadataSnapshotRecord,
}


def decode_remote_record(value: bytes) -> RemoteRecord:
    """Raises Z2K-3001 for anything that is not exactly one record of a known type and version."""
    known = _known().get(value[:FRAME_BYTES])
    if known is not None:
        found, end = known(value, FRAME_BYTES, len(value))
        return found if end == len(value) else _refuse_more(found, end, len(value))
    try:
        frame, position = decode_uvarint(value, 0)
        kind, position = decode_uvarint(value, position)
        version, position = decode_uvarint(value, position)
    except FindingError as error:
        raise _malformed(0, "its frame ends early") from error
    record = REMOTE_RECORDS.get(kind)
    if frame != FRAME_VERSION or record is None or not declaration_of(record).has(version):
        raise _malformed(0, f"frame {frame}, record type {kind} and version {version} are not known together")
    decoder: Decoder[RemoteRecord] = decoder_for(record, version)
    found, end = decoder(value, position, len(value))
    return found if end == len(value) else _refuse_more(found, end, len(value))


@cache
def _known() -> Mapping[bytes, Decoder[RemoteRecord]]:
    """By the frame as brokers write it: a number has one byte there, though more would mean the same."""
    return {bytes([FRAME_VERSION, kind, 0]): decoder_for(record, 0) for kind, record in REMOTE_RECORDS.items()}


def _refuse_more(found: RemoteRecord, end: int, size: int) -> NoReturn:
    raise _malformed(end, f"{size - end} bytes are left behind {type(found).__name__}")


def _malformed(position: int, reason: str) -> FindingError:
    return MALFORMED_BYTES.error(what="The remote log metadata record", position=position, reason=reason)
