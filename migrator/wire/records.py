"""Metadata records as values of the log: a small frame that says which record it is, then the record.

In:   a record and the version it shall be written in, or the value of one log record.
Out:  bytes, or the record.
Elsewhere: batches around the values (`batch`), which version a metadata.version allows (controller).
Errors: Z2K-3001 for a frame, type or version that is not known, and for anything left behind the record: stock readers
stop their process on each of these, so nothing is skipped here either.
Source: Kafka 3.9 `AbstractApiMessageSerde`; frame = uvarint 1, uvarint type, uvarint version, message.
"""

from __future__ import annotations

from typing import Final

from migrator.findings.finding import FindingError
from migrator.findings.quorum import MALFORMED_BYTES
from migrator.wire.explain import unencodable
from migrator.wire.generate import CANNOT_WRITE, Decoder, Encoder, decoder_for, encoder_for
from migrator.wire.messages import metadata
from migrator.wire.primitives import decode_uvarint, encode_uvarint
from migrator.wire.schema import Message, declaration_of

FRAME_VERSION: Final = 1  # 0 was a preview, which no released Kafka reads

RECORD_TYPES: Final[dict[int, type[Message]]] = {
    declaration_of(record).api_key or 0: record
    for record in (
        metadata.RegisterBrokerRecord,
        metadata.UnregisterBrokerRecord,
        metadata.TopicRecord,
        metadata.PartitionRecord,
        metadata.ConfigRecord,
        metadata.PartitionChangeRecord,
        metadata.FenceBrokerRecord,
        metadata.UnfenceBrokerRecord,
        metadata.RemoveTopicRecord,
        metadata.DelegationTokenRecord,
        metadata.UserScramCredentialRecord,
        metadata.FeatureLevelRecord,
        metadata.ClientQuotaRecord,
        metadata.ProducerIdsRecord,
        metadata.BrokerRegistrationChangeRecord,
        metadata.AccessControlEntryRecord,
        metadata.RemoveAccessControlEntryRecord,
        metadata.NoOpRecord,
        metadata.ZkMigrationStateRecord,
        metadata.RemoveUserScramCredentialRecord,
        metadata.BeginTransactionRecord,
        metadata.EndTransactionRecord,
        metadata.AbortTransactionRecord,
        metadata.RemoveDelegationTokenRecord,
        metadata.RegisterControllerRecord,
        metadata.ClearElrRecord,
        metadata.UnregisterControllerRecord,
    )
}


class _Writers(dict[tuple[type[Message], int], tuple[bytes, Encoder]]):
    """By record class and version: the frame, and the encoder for what follows it."""

    def __missing__(self, key: tuple[type[Message], int]) -> tuple[bytes, Encoder]:
        record, version = key
        encoder = encoder_for(record, version)
        type_id = declaration_of(record).api_key or 0
        assert RECORD_TYPES.get(type_id) is record, f"{record.__name__} is no metadata record"
        self[key] = frame_of(record, version), encoder
        return self[key]


_WRITERS: Final = _Writers()

# By the usual frame of three bytes: where the record starts, its version and decoder. A longer way to write the same
# numbers is legal; it is looked at anew each time, since there are too many of those to keep.
_READERS: Final[dict[bytes, tuple[int, int, Decoder[Message]]]] = {}


def frame_of(record: type[Message], version: int) -> bytes:
    """What the value of such a record begins with, as Kafka and ours write it."""
    type_id = declaration_of(record).api_key or 0
    return encode_uvarint(FRAME_VERSION) + encode_uvarint(type_id) + encode_uvarint(version)


def encode_record(record: Message, version: int) -> bytes:
    """The value of a log record. A copy of a big cluster calls this 100,000 times: 1 µs each (PartitionRecord)."""
    try:
        frame, encoder = _WRITERS[type(record), version]
        out = bytearray(frame)
        encoder(record, out)
    except CANNOT_WRITE as error:
        raise unencodable(record, version, error) from error
    return bytes(out)


def decode_record(value: bytes) -> Message:
    return decode_versioned_record(value)[0]


def decode_versioned_record(value: bytes) -> tuple[Message, int]:
    """The record and the version it was written in."""
    start, version, decoder = _READERS.get(value[:3]) or _reader(value)
    record, position = decoder(value, start, len(value))
    if position != len(value):
        raise _malformed(position, f"{len(value) - position} bytes are left behind {type(record).__name__}")
    return record, version


def _reader(value: bytes) -> tuple[int, int, Decoder[Message]]:
    type_id, version, start = _frame(value)
    record = RECORD_TYPES.get(type_id)
    if record is None:
        raise _malformed(0, f"record type {type_id} is not known")
    if not declaration_of(record).has(version):
        raise _malformed(0, f"version {version} of {record.__name__} is not known")
    reader = start, version, decoder_for(record, version)
    if start == 3:
        _READERS[value[:3]] = reader
    return reader


def _frame(value: bytes) -> tuple[int, int, int]:
    """The record's type, its version, and where it starts."""
    try:
        frame_version, position = decode_uvarint(value, 0)
        if frame_version != FRAME_VERSION:
            raise _malformed(0, f"frame version {frame_version} is not known, only {FRAME_VERSION}")
        type_id, position = decode_uvarint(value, position)
        version, position = decode_uvarint(value, position)
    except FindingError as error:
        raise _malformed(error.occurrence.values["position"], error.occurrence.values["reason"]) from None
    return type_id, version, position


def _malformed(position: int, reason: str) -> FindingError:
    return MALFORMED_BYTES.error(what="The metadata record", position=position, reason=reason)
