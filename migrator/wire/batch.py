"""Batches of the metadata log: the unit in which it is written, copied and checked.

In:   values (`records`) or control records with offset, epoch and time; or bytes and a position in them.
Out:  the bytes of one batch, or the batch.
Elsewhere: headers and torn tails (`batch_header`), the records inside the values (`records`), files (node).
Source: Kafka 3.9 `DefaultRecord`, `RecordsIterator`. A batch that stock's reader refuses stops every stock voter and
observer, so `read_batch` refuses it as well, and `build_batch` cannot make it:

    time deltas of 0, no headers           in every record
    no key, a value that is not empty      in data batches
    a key, a type that this log has        in control batches
    no compression                         our rule: stock reads any, but nobody writes any into this log
    offsets without gaps                   our rule: this log is never compacted

Errors: Z2K-3001, and TornBatchError (`batch_header`) where the bytes end inside a batch.
Checked by tests/unit/wire/test_batch.py, and by tests/contract/test_wire_dump_log.py where stock reads our batches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from itertools import count as count_from
from typing import Final

from crc32c import crc32c

from migrator.findings.finding import FindingError
from migrator.wire.batch_header import (
    AFTER_CRC,
    BEFORE_CRC,
    CONTROL_BIT,
    HEADER_BYTES,
    MAGIC,
    NOT_IN_LENGTH,
    BatchHeader,
    Bytes,
    TornBatchError,
    checked_records,
    patch_batch,
    peek,
    refuse_batch,
    verify_crc,
)
from migrator.wire.codec import UnencodableError, decode, encode
from migrator.wire.loose_batch import LooseRecord, in_batch, loose_records
from migrator.wire.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from migrator.wire.primitives import decode_varint, encode_varint
from migrator.wire.schema import declaration_of

__all__ = [
    "BATCH_BYTES_MAX",
    "Batch",
    "BatchHeader",
    "ControlRecord",
    "TornBatchError",
    "build_batch",
    "build_control_batch",
    "patch_batch",
    "peek",
    "read_batch",
    "read_batches",
    "verify_crc",
]

ControlRecord = LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord

# Stock's limit for a batch of this log; its log layer refuses a larger one, on followers too.
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024

CONTROL_TYPES: Final[dict[int, type[ControlRecord]]] = {
    2: LeaderChangeMessage,
    3: SnapshotHeaderRecord,
    4: SnapshotFooterRecord,
    5: KRaftVersionRecord,
    6: VotersRecord,
}

_CONTROL_KEY: Final = struct.Struct(">hh")  # version 0, type
_SMALL_VARINTS: Final = tuple(encode_varint(value) for value in range(4096))
_DELTA_GROWS: Final = frozenset(1 << 7 * each - 1 for each in range(1, 5))
"""Offset deltas whose varint is a byte longer than that of the one before."""
_NOT_ONE_BYTE: Final = 0x81  # of a varint: negative, or more bytes follow
_MORE_FOLLOWS: Final = 0x80
_TWO_BYTES: Final = 0x81
_NO_KEY: Final = 0x01  # the varint -1


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: a data batch has values, a control batch has control records, and the other one is empty.

    timestamp_ms: when the leader appended it. size: bytes that it takes in the log.
    """

    base_offset: int
    leader_epoch: int
    timestamp_ms: int
    values: tuple[bytes, ...]
    control_records: tuple[ControlRecord, ...]
    size: int

    @property
    def is_control(self) -> bool:
        return bool(self.control_records)

    @property
    def last_offset(self) -> int:
        return self.base_offset + len(self.values) + len(self.control_records) - 1


class BatchTooLargeError(UnencodableError):
    """Each record is as it should be; together they take more than BATCH_BYTES_MAX."""


# --- writing ------------------------------------------------------------------------------------------------


def build_batch(*, base_offset: int, leader_epoch: int, timestamp_ms: int, values: Sequence[bytes]) -> bytes:
    """A data batch. values: at least one, none of them empty. Raises BatchTooLargeError above BATCH_BYTES_MAX."""
    assert values, "a batch needs records"
    assert all(values), "each record needs a value"
    records = bytearray()
    for index, value in enumerate(values):
        delta = _varint(index)
        length = _varint(len(value))
        # size; attributes 0, time delta 0, offset delta; key length -1; value; no headers
        size = _varint(4 + len(delta) + len(length) + len(value))
        records += b"%b\x00\x00%b\x01%b%b\x00" % (size, delta, length, value)
    return _built(base_offset, leader_epoch, timestamp_ms, 0, records, len(values))


def build_control_batch(
    *, base_offset: int, leader_epoch: int, timestamp_ms: int, records: Sequence[ControlRecord]
) -> bytes:
    """A control batch; each record is written in the version that its own field `version` says."""
    assert records, "a batch needs records"
    keyed = bytearray()
    for index, record in enumerate(records):
        key = control_key(type(record))
        value = encode(record, record.version)
        body = b"\x00\x00%b%b%b%b%b\x00" % (_varint(index), _varint(len(key)), key, _varint(len(value)), value)
        keyed += _varint(len(body)) + body
    return _built(base_offset, leader_epoch, timestamp_ms, CONTROL_BIT, keyed, len(records))


def control_key(record: type[ControlRecord]) -> bytes:
    return _CONTROL_KEY.pack(0, declaration_of(record).api_key)


def _varint(value: int) -> bytes:
    return _SMALL_VARINTS[value] if value < len(_SMALL_VARINTS) else encode_varint(value)


def _built(
    base_offset: int, leader_epoch: int, timestamp_ms: int, attributes: int, records: bytearray, count: int
) -> bytes:
    size = HEADER_BYTES + len(records)
    if size > BATCH_BYTES_MAX:
        raise BatchTooLargeError(f"the batch takes {size} bytes, but the metadata log accepts {BATCH_BYTES_MAX}")
    checked = AFTER_CRC.pack(attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count) + records
    return BEFORE_CRC.pack(base_offset, size - NOT_IN_LENGTH, leader_epoch, MAGIC, crc32c(checked)) + checked


# --- reading ------------------------------------------------------------------------------------------------


def read_batch(buffer: Bytes, position: int = 0) -> Batch:
    """The batch at `position`, as strictly as the module's list says."""
    header, records = checked_records(buffer, position)
    if header.last_offset_delta != header.record_count - 1:
        refuse_batch(position, f"{header.record_count} records cannot end at delta {header.last_offset_delta}")
    try:
        values = () if header.is_control else _values(records, header.record_count)
        control_records = _control_records(records, header.record_count) if header.is_control else ()
    except FindingError as error:
        raise in_batch(error, position) from None
    return Batch(
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        timestamp_ms=header.max_timestamp_ms,
        values=values,
        control_records=control_records,
        size=header.size,
    )


def read_batches(buffer: Bytes, position: int = 0) -> Iterator[Batch]:
    """The batches from `position` to the end of the buffer; a torn one at the end raises TornBatchError."""
    while position < len(buffer):
        batch = read_batch(buffer, position)
        yield batch
        position += batch.size


def _values(records: bytes, count: int) -> tuple[bytes, ...]:
    """The values of a data batch. `loose_batch` reads the same bytes the plain way; the tests compare the two.

    A record is as one before it of the same length, but for its offset delta, while that takes as many bytes. So what
    is around the value is compared with that one, and taken apart only where it differs.
    """
    values = []
    position = 0
    shapes: dict[bytes, tuple[bytes, bytes, int, int]] = {}
    deltas = chain(_SMALL_VARINTS, map(encode_varint, count_from(len(_SMALL_VARINTS))))
    try:
        for index, varint in zip(range(count), deltas, strict=False):
            if index in _DELTA_GROWS:
                shapes.clear()
            start = position
            shape = shapes.get(records[start : start + 2])
            if shape is not None:
                before, behind, value_at, value_end = shape
                after = start + value_end
                if records.startswith(before + varint + behind, start) and not records[after]:
                    values.append(records[start + value_at : after])
                    position = after + 1
                    continue
            first, second = records[position], records[position + 1]
            if first & _TWO_BYTES == _MORE_FOLLOWS and second < _MORE_FOLLOWS:  # nearly every record
                length, position = (first & 0x7F | second << 7) >> 1, position + 2
            else:
                length, position = _varint_at(records, position)
            end = position + length
            if records[position + 1]:
                refuse_batch(position, "a record has another time than its batch")
            at = position + 2
            delta, position = _varint_at(records, at)
            if delta != index:
                refuse_batch(position, f"record {index} has offset delta {delta}")
            if records[position] != _NO_KEY:
                refuse_batch(position, "a data record has a key")
            behind_delta = position
            length, position = _varint_at(records, position + 1)
            if length <= 0:
                refuse_batch(position, "a data record has no value")
            after = position + length
            if after + 1 != end or records[after]:
                refuse_batch(position, "a record has headers, or a length that does not fit what is in it")
            values.append(records[position:after])
            around = records[start:at], records[behind_delta:position]
            shapes[records[start : start + 2]] = *around, position - start, after - start
            position = end
    except IndexError:
        refuse_batch(position, "a record does not end within the batch")
    if position != len(records):
        refuse_batch(position, f"{len(records) - position} bytes are left behind its records")
    return tuple(values)


def _varint_at(records: bytes, position: int) -> tuple[int, int]:
    """A number that is not negative takes one byte below 64, and two below 8,192: nearly all of a metadata log."""
    first = records[position]
    if not first & _NOT_ONE_BYTE:
        return first >> 1, position + 1
    if not first & 1 and (second := records[position + 1]) < _MORE_FOLLOWS:
        return (first & 0x7F | second << 7) >> 1, position + 2
    return decode_varint(records, position)


def _control_records(records: bytes, count: int) -> tuple[ControlRecord, ...]:
    return tuple(_control_record(index, record) for index, record in enumerate(loose_records(records, count)))


def _control_record(index: int, record: LooseRecord) -> ControlRecord:
    if record.offset_delta != index or record.time_delta_ms or record.headers:
        refuse_batch(0, "a control record has a gap before it, another time than its batch, or headers")
    if record.key is None or len(record.key) < _CONTROL_KEY.size or not record.value:
        refuse_batch(0, "a control record needs a key of four bytes and a value")
    key_version, type_id = _CONTROL_KEY.unpack_from(record.key)
    known = CONTROL_TYPES.get(type_id)
    if key_version < 0 or known is None:
        refuse_batch(0, f"control record type {type_id} (key version {key_version}) is not known")
    version = int.from_bytes(record.value[:2], "big", signed=True)  # each of these records begins with it
    return decode(known, version, record.value)
