"""Record batches of any topic, read with everything that the format can hold.

In:   bytes and a position in them.
Out:  the header and its records: keys, empty values, headers, times and gaps as they come.
Elsewhere: the metadata log, for which all this is forbidden (`batch`).
Source: Kafka 3.9 `DefaultRecord`.
Errors: Z2K-3001 and TornBatchError as in `batch_header`; compressed batches are Z2K-3001.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from migrator.findings.finding import FindingError
from migrator.wire.batch_header import HEADER_BYTES, BatchHeader, Bytes, checked_records, refuse_batch
from migrator.wire.primitives import decode_varint, decode_varlong

BARE: Final = b"\0\0\0\1"
"""No attributes, both deltas 0, no key."""
NO_HEADERS: Final = b"\0"


@dataclass(frozen=True, slots=True)
class LooseRecord:
    """One record; both deltas are against the batch's base."""

    offset_delta: int
    time_delta_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_loose_batch(buffer: Bytes, position: int = 0) -> tuple[BatchHeader, tuple[LooseRecord, ...]]:
    header, records = checked_records(buffer, position)
    try:
        return header, tuple(loose_records(records, header.record_count))
    except FindingError as error:
        raise in_batch(error, position) from None


def loose_records(records: bytes, count: int) -> list[LooseRecord]:
    """Exactly `count` records that take up all the bytes; positions in errors count from the first of them."""
    found = []
    position = 0
    for _ in range(count):
        record, position = _record_at(records, position)
        found.append(record)
    if position != len(records):
        refuse_batch(position, f"{len(records) - position} bytes are left behind its records")
    return found


def loose_values(records: bytes, count: int) -> Iterator[bytes | None]:
    """Their values alone, as `loose_records` reads them."""
    position = 0
    for _ in range(count):
        value, position = _value_at(records, position)
        yield value
    if position != len(records):
        refuse_batch(position, f"{len(records) - position} bytes are left behind its records")


def in_batch(error: FindingError, batch_position: int) -> FindingError:
    """An error among the records of a batch, with its place counted from the start of the buffer."""
    values = error.occurrence.values
    return error.occurrence.finding.error(
        what=values["what"], position=batch_position + HEADER_BYTES + values["position"], reason=values["reason"]
    )


def _value_at(records: bytes, position: int) -> tuple[bytes | None, int]:
    """As `_record_at`, with a short way for a record that has nothing but a value, such as the only one of a batch."""
    length, begins = decode_varint(records, position)
    if records.startswith(BARE, begins):
        end = begins + length
        size, at = decode_varint(records, begins + len(BARE))
        if size >= 0 and at + size + 1 == end and records[end - 1 : end] == NO_HEADERS:
            return records[at : end - 1], end
    record, position = _record_at(records, position)
    return record.value, position


def _record_at(records: bytes, position: int) -> tuple[LooseRecord, int]:
    length, position = decode_varint(records, position)
    end = position + length
    if length < 0 or end > len(records):
        refuse_batch(position, f"a record of {length} bytes does not end within the batch")
    time_delta_ms, position = decode_varlong(records, position + 1)  # behind the attributes, which mean nothing
    offset_delta, position = decode_varint(records, position)
    key, position = _bytes_at(records, position)
    value, position = _bytes_at(records, position)
    headers, position = _headers_at(records, position)
    if position != end:
        refuse_batch(position, "a record's length does not fit what is in it")
    return LooseRecord(offset_delta, time_delta_ms, key, value, headers), end


def _bytes_at(records: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(records, position)
    if length == -1:
        return None, position
    end = position + length
    if length < 0 or end > len(records):
        refuse_batch(position, f"{length} bytes of a record do not end within the batch")
    return records[position:end], end


def _headers_at(records: bytes, position: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = decode_varint(records, position)
    if not 0 <= count <= len(records) - position:
        refuse_batch(position, f"{count} headers cannot be in the bytes left")
    headers = []
    for _ in range(count):
        name, position = _bytes_at(records, position)
        value, position = _bytes_at(records, position)
        try:
            headers.append(((name or b"").decode(), value))
        except UnicodeDecodeError:
            refuse_batch(position, "a header's name is not UTF-8")
    return tuple(headers), position
