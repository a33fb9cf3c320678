"""The 61 bytes in front of every record batch: what it is, how long, and whether it is still as it was written.

In:   bytes and a position in them.
Out:  the header, the answer to "is the checksum right", or the bytes of the records behind it.
Elsewhere: the records themselves (`batch`, `loose_batch`).
Source: Kafka 3.9 `DefaultRecordBatch`. The checksum (CRC-32C) begins behind itself, so base offset and leader epoch can
be given later: `patch_batch`.
Errors: Z2K-3001. `TornBatchError` is the kind of it that a crash leaves at the end of a file and a size limit at the
end of a Fetch answer: the bytes are the beginning of a batch and stop there. Any other damage is not torn; whether a
tail with a wrong checksum may be cut off is for the reader to decide, who knows if anything was behind it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NoReturn

from crc32c import crc32c

from migrator.findings.finding import FindingError
from migrator.findings.quorum import MALFORMED_BYTES

Bytes = bytes | bytearray | memoryview

# A length above this is damage, not a batch that goes on behind the buffer. Far above what anybody writes.
PLAUSIBLE_BATCH_BYTES_MAX: Final = 100 * 1024 * 1024

MAGIC: Final = 2
CONTROL_BIT: Final = 0x20
COMPRESSION_BITS: Final = 0x07
COMPRESSIONS: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

BEFORE_CRC: Final = struct.Struct(">qiibI")  # base offset, length, leader epoch, magic, crc
AFTER_CRC: Final = struct.Struct(">hiqqqhii")  # attributes, last delta, two times, producer id/epoch/sequence, count
HEADER_BYTES: Final = BEFORE_CRC.size + AFTER_CRC.size
EPOCH_AT: Final = 12
NOT_IN_LENGTH: Final = 12  # base offset and the length itself
RECORD_BYTES_MIN: Final = 7  # a record without key and value, each number at its shortest


class TornBatchError(FindingError):
    """The bytes end inside a batch: everything before `position` is whole."""

    def __init__(self, position: int) -> None:
        super().__init__(
            MALFORMED_BYTES.found(what="The last batch", position=position, reason="the bytes end inside it")
        )
        self.position = position


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """What a batch says of itself. size: bytes of the whole batch, which may reach beyond the buffer."""

    base_offset: int
    size: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def compression(self) -> str | None:
        """The codec's name; None: not compressed."""
        code = self.attributes & COMPRESSION_BITS
        return COMPRESSIONS.get(code, f"codec {code}") if code else None


def peek(buffer: Bytes, position: int = 0) -> BatchHeader:
    """The header of the batch at `position`. Its records need not be in the buffer, and nothing of them is checked."""
    if len(buffer) - position < HEADER_BYTES:
        raise TornBatchError(position)
    base_offset, length, leader_epoch, magic, crc = BEFORE_CRC.unpack_from(buffer, position)
    if magic != MAGIC:
        refuse_batch(position, f"format {magic} is not known, only {MAGIC}")
    if not HEADER_BYTES <= length + NOT_IN_LENGTH <= PLAUSIBLE_BATCH_BYTES_MAX:
        refuse_batch(position, f"its length cannot be {length}")
    after_crc = AFTER_CRC.unpack_from(buffer, position + BEFORE_CRC.size)
    return BatchHeader(base_offset, length + NOT_IN_LENGTH, leader_epoch, crc, *after_crc)


def verify_crc(buffer: Bytes, position: int = 0) -> bool:
    """Whether the batch is as it was written. Raises TornBatchError when it is not all there."""
    return _crc_is_right(_whole(buffer, position, peek(buffer, position)))


def patch_batch(batch: bytearray, *, base_offset: int, leader_epoch: int) -> None:
    """Give a built batch another offset and epoch; the checksum does not cover them and stays right."""
    struct.pack_into(">q", batch, 0, base_offset)
    struct.pack_into(">i", batch, EPOCH_AT, leader_epoch)


def checked_records(buffer: Bytes, position: int) -> tuple[BatchHeader, bytes]:
    """Header and record bytes of a whole, undamaged, uncompressed batch."""
    header = peek(buffer, position)
    batch = _whole(buffer, position, header)
    if not _crc_is_right(batch):
        refuse_batch(position, "its checksum is wrong")
    if header.compression is not None:
        refuse_batch(position, f"it is compressed ({header.compression}), which the metadata log never is")
    records = bytes(batch[HEADER_BYTES:])
    if not 1 <= header.record_count <= len(records) // RECORD_BYTES_MIN:
        refuse_batch(position, f"{header.record_count} records cannot be in {len(records)} bytes")
    return header, records


def refuse_batch(position: int, reason: str) -> NoReturn:
    raise MALFORMED_BYTES.error(what="The record batch", position=position, reason=reason)


def _whole(buffer: Bytes, position: int, header: BatchHeader) -> memoryview:
    if len(buffer) - position < header.size:
        raise TornBatchError(position)
    return memoryview(buffer)[position : position + header.size]


def _crc_is_right(batch: memoryview) -> bool:
    return bool(crc32c(batch[BEFORE_CRC.size :]) == BEFORE_CRC.unpack_from(batch)[-1])
