"""The metadata log on disk, in Kafka's own format.

In:   batches with their offsets; offsets to read from.
Out:  segment files with their indexes and the leader-epoch checkpoint, and the bytes of batches.
Elsewhere: who may append and what is committed (raft), when to flush (raft_node), what the records mean (log_replay).
Rules: what `flush` returned from is on disk. A torn tail, which a crash may leave, is cut off at the start; a damaged
batch with whole batches behind it is not a tail, and the log is refused rather than shortened.
Source: Kafka 3.9 `UnifiedLog`, `LogSegment`, `OffsetIndex`, `TimeIndex`, `LeaderEpochCheckpointFile`.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from migrator.findings.finding import FindingError
from migrator.findings.quorum import LOG_DAMAGED
from migrator.node.log.storage import sync_directory, write_durably
from migrator.raft.epochs import EpochCache
from migrator.raft.types import ReplicatedBatch
from migrator.wire.batch import TornBatchError, patch_batch, peek, verify_crc

INDEX_INTERVAL_BYTES: Final = 4_096
SEGMENT_MS: Final = 7 * 24 * 60 * 60 * 1_000
READ_BYTES_MAX: Final = 8 * 1024 * 1024
"""What one raft fetch returns at the most; at least one whole batch, whatever its size."""

EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
METADATA_TOPIC_ID_TEXT: Final = "AAAAAAAAAAAAAAAAAAAAAQ"

_HEADER_BYTES: Final = 61
_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")


@dataclass(slots=True)
class _Segment:
    """One segment: its file, and a sparse index in memory as on disk: last offset of a batch, where it begins."""

    base: int
    path: Path
    descriptor: int
    size: int = 0
    offsets: array[int] = field(default_factory=lambda: array("q"))
    positions: array[int] = field(default_factory=lambda: array("q"))
    since_index: int = 0
    oldest_ms: int = -1
    newest_ms: int = -1
    newest_offset: int = 0

    def position_before(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`."""
        index = bisect_right(self.offsets, offset)
        return self.positions[index - 1] if index else 0


class LogStore:
    """The log of one node. Appends and reads are for one thread; `flush` may run on another."""

    def __init__(self, directory: Path, segment_bytes: int, segment_ms: int = SEGMENT_MS) -> None:
        self.directory = directory
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._segments: list[_Segment] = []
        self.epochs = EpochCache()
        self.end = 0

    # --- opening -------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, directory: Path, segment_bytes: int, segment_ms: int = SEGMENT_MS) -> LogStore:
        """Read every batch header and checksum, cut a torn tail, rebuild the indexes. Whatever it raises, no file stays
        open.
        """
        store = cls(directory, segment_bytes, segment_ms)
        try:
            store._open_directory(directory)
        except BaseException:
            store.abandon()
            raise
        return store

    def _open_directory(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        sync_directory(directory.parent)
        _remove_leftovers(directory)
        if not (directory / PARTITION_METADATA).exists():
            text = f"version: 0\ntopic_id: {METADATA_TOPIC_ID_TEXT}"
            write_durably(directory / PARTITION_METADATA, text.encode())
        paths = sorted(directory.glob("*.log"))
        for index, path in enumerate(paths):
            self._open_segment(path, is_last=index == len(paths) - 1)
        if not paths:
            self._roll(0)
        self._write_epochs()

    @property
    def start(self) -> int:
        return self._segments[0].base

    def _open_segment(self, path: Path, *, is_last: bool) -> None:
        if self._segments and int(path.stem) != self.end:
            raise LOG_DAMAGED.error(file=str(path), position=0, reason=f"it should begin at offset {self.end}")
        segment = _Segment(int(path.stem), path, os.open(path, os.O_RDWR))
        self._segments.append(segment)
        self.end = segment.base
        data = path.read_bytes()
        whole = self._scan(segment, data)
        if whole < len(data):
            if not is_last:
                raise LOG_DAMAGED.error(file=str(path), position=whole, reason="a segment before the last is torn")
            os.ftruncate(segment.descriptor, whole)
        segment.size = whole
        # A killed process leaves in the page cache what it had not synced; the core takes what it is shown as synced.
        os.fsync(segment.descriptor)
        _write_indexes(segment)

    def _scan(self, segment: _Segment, data: bytes) -> int:
        """Check batch after batch; returns the length of the part that is whole."""
        view = memoryview(data)
        position = 0
        while position < len(data):
            try:
                header = peek(view, position)
                intact = verify_crc(view, position)
            except TornBatchError:  # the file ends inside it, unless its length is what was damaged
                return self._tail_or_damage(segment, data, position, "its length runs over the end of the file")
            except FindingError as error:
                return self._tail_or_damage(segment, data, position, str(error.occurrence.values["reason"]))
            if not intact:
                return self._tail_or_damage(segment, data, position, "its checksum is wrong")
            if header.base_offset != self.end:
                reason = f"offset {header.base_offset} follows {self.end - 1}"
                raise LOG_DAMAGED.error(file=str(segment.path), position=position, reason=reason)
            if header.leader_epoch < (self.epochs.latest or 0):
                reason = f"epoch {header.leader_epoch} follows {self.epochs.latest}"
                raise LOG_DAMAGED.error(file=str(segment.path), position=position, reason=reason)
            self.epochs.assign(header.leader_epoch, header.base_offset)
            self._index(segment, header.last_offset, header.max_timestamp_ms, position, header.size)
            self.end = header.last_offset + 1
            position += header.size
        return position

    def _tail_or_damage(self, segment: _Segment, data: bytes, position: int, reason: str) -> int:
        """A bad batch is a torn tail only when no whole batch lies behind it (a crash writes in order)."""
        if _has_batch_behind(data, position, self.end):
            raise LOG_DAMAGED.error(file=str(segment.path), position=position, reason=reason)
        return position

    # --- appending -----------------------------------------------------------------------------------------

    def append(self, offset: int, epoch: int, batches: list[bytes]) -> None:
        """Append built batches from `offset` on; offsets and epoch are put into them here."""
        assert offset == self.end, f"append at {offset}, the log ends at {self.end}"
        if self.epochs.assign(epoch, offset):
            self._write_epochs()
        end = offset
        out = bytearray()
        for batch in batches:
            patched = bytearray(batch)
            patch_batch(patched, base_offset=end, leader_epoch=epoch)
            header = peek(patched)
            segment = self._segments[-1]
            if self._is_full(segment, len(out), len(patched), header.max_timestamp_ms):
                self._write(bytes(out), end)
                out.clear()
                segment = self._roll(end)
            position = segment.size + len(out)
            self._index(segment, header.last_offset, header.max_timestamp_ms, position, len(patched))
            out += patched
            end = header.last_offset + 1
        self._write(bytes(out), end)

    def append_replicated(self, batches: Iterable[ReplicatedBatch]) -> None:
        """Append the leader's batches as they are; each begins where the log ends."""
        for batch in batches:
            assert batch.base_offset == self.end, f"append at {batch.base_offset}, the log ends at {self.end}"
            if self.epochs.assign(batch.epoch, batch.base_offset):
                self._write_epochs()
            segment = self._segments[-1]
            header = peek(batch.data)
            if self._is_full(segment, 0, header.size, header.max_timestamp_ms):
                segment = self._roll(self.end)
            self._index(segment, header.last_offset, header.max_timestamp_ms, segment.size, len(batch.data))
            self._write(batch.data, header.last_offset + 1)

    def _write(self, data: bytes, end: int) -> None:
        """The log ends at `end` when all of it is written, and not before: a flush promises up to there."""
        segment = self._segments[-1]
        view = memoryview(data)
        while view:
            written = os.pwrite(segment.descriptor, view, segment.size)
            segment.size += written
            view = view[written:]
        self.end = end

    def _is_full(self, segment: _Segment, unwritten: int, size: int, time_ms: int) -> bool:
        """Whether a batch of `size` bytes and this time begins a segment of its own; ages are those of the records."""
        before = segment.size + unwritten
        is_old = segment.oldest_ms >= 0 and time_ms - segment.oldest_ms > self._segment_ms
        return before > 0 and (before + size > self._segment_bytes or is_old)

    def roll(self) -> None:
        """Close the active segment, unless it is empty: only closed ones can be forgotten."""
        if self._segments[-1].size:
            self._roll(self.end)

    def _roll(self, base: int) -> _Segment:
        """Start a new segment. The old one is on disk before there is a next: torn, it would be damage and no tail."""
        if self._segments:
            _write_indexes(self._segments[-1])
            os.fsync(self._segments[-1].descriptor)
        path = self.directory / f"{base:020d}.log"
        segment = _Segment(base, path, os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
        self._segments.append(segment)
        sync_directory(self.directory)
        return segment

    def _index(self, segment: _Segment, last: int, time_ms: int, position: int, size: int) -> None:
        """An entry every 4 KiB, as Kafka's: last offset of the batch, and where it begins."""
        if segment.oldest_ms < 0:
            segment.oldest_ms = time_ms
        if time_ms > segment.newest_ms:
            segment.newest_ms, segment.newest_offset = time_ms, last
        if segment.since_index > INDEX_INTERVAL_BYTES:
            segment.offsets.append(last)
            segment.positions.append(position)
            segment.since_index = 0
        segment.since_index += size

    # --- cutting -------------------------------------------------------------------------------------------

    def truncate(self, end: int) -> None:
        """Cut the log so that it ends at `end`, an edge of a batch; durable when this returns."""
        assert self.start <= end <= self.end, f"truncate to {end}, the log is {self.start} to {self.end}"
        self.flush(self.to_flush())
        segment_end = self.end
        while self._segments[-1].base >= end and len(self._segments) > 1:
            segment_end = self._segments[-1].base
            self._drop(self._segments.pop())
        sync_directory(self.directory)  # a segment that came back behind one that was cut would be a gap
        segment = self._segments[-1]
        size = segment.size if end == segment_end else self._find_end(segment, end)
        os.ftruncate(segment.descriptor, size)
        os.fsync(segment.descriptor)
        self._segments[-1] = self._read_again(segment)
        self.end = end
        self.epochs.truncate_to(end)
        self._write_epochs()
        sync_directory(self.directory)

    def reset(self, start: int) -> None:
        """Drop everything; the log is empty and begins at `start`. Durable when this returns.

        The newest segment goes first, so that a crash in between leaves a log that is shorter and has its beginning.
        """
        for segment in reversed(self._segments):
            self._drop(segment)
        self._segments = []
        self.epochs.clear()
        self.end = start
        self._roll(start)
        self._write_epochs()

    def trim(self, start: int) -> None:
        """Forget segments that lie wholly before `start`. The active one stays."""
        while len(self._segments) > 1 and self._segments[1].base <= start:
            self._drop(self._segments.pop(0))
        self.epochs.truncate_before(start)
        self._write_epochs()
        sync_directory(self.directory)

    def _drop(self, segment: _Segment) -> None:
        _close(segment)
        for kind in (".log", ".index", ".timeindex"):
            segment.path.with_suffix(kind).unlink(missing_ok=True)

    def _find_end(self, segment: _Segment, end: int) -> int:
        """Where in the segment the batch that begins at `end` begins."""
        if end == segment.base:
            return 0
        position = self._find(segment, end)
        header = peek(os.pread(segment.descriptor, _HEADER_BYTES, position))
        assert header.base_offset == end, f"offset {end} is inside the batch at {header.base_offset}"
        return position

    def _read_again(self, old: _Segment) -> _Segment:
        """The same file with fresh indexes."""
        segment = _Segment(old.base, old.path, old.descriptor)
        data = old.path.read_bytes()
        position = 0
        while position < len(data):
            header = peek(data, position)
            self._index(segment, header.last_offset, header.max_timestamp_ms, position, header.size)
            position += header.size
        segment.size = len(data)
        return segment

    # --- flushing ------------------------------------------------------------------------------------------

    def to_flush(self) -> int:
        """The file that holds what was appended before this call and is not on disk; give it to `flush`, on any thread.

        A descriptor of its own: the segment may be dropped while another thread brings it to disk.
        """
        return os.dup(self._segments[-1].descriptor)

    @staticmethod
    def flush(descriptor: int) -> None:
        """What the file holds is on disk when this returns; it closes it."""
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # --- reading -------------------------------------------------------------------------------------------

    def read(self, offset: int, end: int, limit: int = READ_BYTES_MAX) -> bytes:
        """Whole batches from the one that holds `offset` to before `end`, up to `limit` bytes, but at least one."""
        if offset >= end:
            return b""
        index = bisect_right([segment.base for segment in self._segments], offset) - 1
        assert index >= 0, f"offset {offset} is before the log's start {self.start}"
        segment = self._segments[index]
        position = self._find(segment, offset)
        data = os.pread(segment.descriptor, min(limit, segment.size - position), position)
        cut = _whole_batches(data, end)
        if cut == 0:  # one batch larger than the limit
            size = peek(os.pread(segment.descriptor, _HEADER_BYTES, position)).size
            return os.pread(segment.descriptor, size, position)
        return data[:cut]

    def _find(self, segment: _Segment, offset: int) -> int:
        position = segment.position_before(offset)
        while position < segment.size:
            header = peek(os.pread(segment.descriptor, _HEADER_BYTES, position))
            if header.last_offset >= offset:
                return position
            position += header.size
        raise AssertionError(f"offset {offset} is not in the segment at {segment.base}")

    def batches(self) -> Iterator[bytes]:
        """The bytes of each segment in order, for replay at the start."""
        for segment in self._segments:
            yield segment.path.read_bytes()[: segment.size]

    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    # --- ending --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush, complete the indexes, close the files."""
        self.flush(self.to_flush())
        for segment in self._segments:
            _write_indexes(segment)
            _close(segment)
        self._segments = []

    def abandon(self) -> None:
        """Close the files and write nothing: the disk has refused something; the next start reads what it holds."""
        for segment in self._segments:
            _close(segment)
        self._segments = []

    def _write_epochs(self) -> None:
        entries = self.epochs.entries
        lines = ["0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
        write_durably(self.directory / EPOCH_CHECKPOINT, ("\n".join(lines) + "\n").encode())


def _close(segment: _Segment) -> None:
    """Once: its number may be somebody else's by the second time."""
    if segment.descriptor >= 0:
        descriptor, segment.descriptor = segment.descriptor, -1
        os.close(descriptor)


def _remove_leftovers(directory: Path) -> None:
    """What an interrupted stock process leaves: never part of the log."""
    for pattern in ("*.deleted", "*.cleaned", "*.swap", "*.part"):
        for path in directory.glob(pattern):
            path.unlink()


def _whole_batches(data: bytes, end: int) -> int:
    """Length of the whole batches in `data` that begin before offset `end`."""
    position = 0
    while len(data) - position >= _HEADER_BYTES:
        header = peek(data, position)
        if position + header.size > len(data) or header.base_offset >= end:
            break
        position += header.size
    return position


def _has_batch_behind(data: bytes, position: int, offset: int) -> bool:
    """Whether a whole, intact batch with a later offset begins anywhere behind `position`."""
    view = memoryview(data)
    for candidate in range(position + 1, len(data) - _HEADER_BYTES):
        if data[candidate + 16] != 2:  # magic
            continue
        try:
            header = peek(view, candidate)
            if offset < header.base_offset < offset + 1_000_000 and verify_crc(view, candidate):
                return True
        except FindingError:
            continue
    return False


def _write_indexes(segment: _Segment) -> None:
    """`.index` and `.timeindex` as a closed segment has them. Kafka rebuilds them at its start in any case."""
    stem = segment.path.with_suffix("")
    entries = zip(segment.offsets, segment.positions, strict=True)
    data = b"".join(_OFFSET_ENTRY.pack(offset - segment.base, position) for offset, position in entries)
    stem.with_suffix(".index").write_bytes(data)
    last = b""
    if segment.newest_ms >= 0:
        last = _TIME_ENTRY.pack(segment.newest_ms, segment.newest_offset - segment.base)
    stem.with_suffix(".timeindex").write_bytes(last)
