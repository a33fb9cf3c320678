"""Where the batches of a log directory are: read from their headers alone, and cut into splits that can be read apart.

In:   a metadata log directory, and about how many bytes a split shall have.
Out:  a `LogPlan`: splits in log order, and the position up to which they go. It is a picture of one moment: what a
      living writer appends later is in the next plan.
Elsewhere: the records in the batches (log_source.py in process, spark/sources.py in tasks).
Rules: a torn batch at the very end is a writer at work, and ends the plan; anywhere else, and where offsets leave a
gap, the log is not whole and nothing is read (Z2K-5001). A log that begins later than 0 begins with its newest
snapshot, which has to reach to the log's first offset and to end with its footer. A controller that starts begins with
the newest snapshot also where the log is whole: it is planned beside the log, and has to say the same (beside.py).
Source: Kafka 3.9 log and snapshot formats; KIP-630; `KafkaRaftClient.updateListenersProgress`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.finding import FindingError, words_of
from migrator.findings.quorum import MALFORMED_BYTES
from migrator.model.image import Position
from migrator.wire.batch import BATCH_BYTES_MAX, Batch, TornBatchError, peek, read_batches, verify_crc
from migrator.wire.batch_header import HEADER_BYTES, BatchHeader
from migrator.wire.messages.control_records import SnapshotFooterRecord

SPLIT_BYTES: Final = 4 << 20
"""About 40,000 records of a copy: a task of a second or less, and what it holds in memory."""

TRIMMED_MEANWHILE: Final = 3
"""How often a directory is read again that lost a file meanwhile."""

MAGIC: Final = b"\x02"
MAGIC_AT: Final = 16
"""Behind base offset, length and leader epoch."""

_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class LogSplit(msgspec.Struct, frozen=True):
    """Whole batches of one file, from byte `start` to `end`.

    snapshot_offset: the last offset that the snapshot stands for when the file is one, else -1.
    beside: it is of the snapshot beside the log, and no part of the log.
    data: these bytes, where who reads them does not see the file.
    """

    file: str
    start: int
    end: int
    snapshot_offset: int = -1
    beside: bool = False
    data: bytes | None = None


class LogPlan(msgspec.Struct, frozen=True):
    """offset, epoch: of the last record; -1 when there is none. records: how many, markers and all.

    epochs: each with its first offset, in log order; of a snapshot the one that it ends with.
    beside: the newest snapshot, where the splits have its records in another form too; a controller begins with it.
    """

    splits: list[LogSplit]
    offset: int
    epoch: int
    records: int
    epochs: tuple[Position, ...] = ()
    beside: tuple[LogSplit, ...] = ()

    @property
    def beside_offset(self) -> int:
        """The last offset that the snapshot beside the log stands for; -1 without one."""
        return self.beside[0].snapshot_offset if self.beside else -1

    @property
    def end(self) -> Position:
        return Position(self.epoch, self.offset)

    def has(self, position: Position) -> bool:
        """Whether the record at this offset is of this epoch, so that the log is the same up to there."""
        at = [each.epoch for each in self.epochs if each.offset <= position.offset]
        return position.offset <= self.offset and at[-1:] == [position.epoch]


def is_directory(kraft: str) -> bool:
    """Whether a log is meant by its place on disk, and not by the addresses of a quorum."""
    return "/" in kraft or Path(kraft).is_dir()


def log_directory(path: Path) -> Path:
    """The directory that holds the segments: the one given, or `__cluster_metadata-0` in it."""
    inner = path / "__cluster_metadata-0"
    found = inner if inner.is_dir() else path
    if not _segments(found):
        raise AUDIT_CANNOT_READ.error(what=str(path), reason="there is no metadata log in it")
    return found


def plan_log(path: Path, split_bytes: int = SPLIT_BYTES, *, since: int | None = None, beside: bool = False) -> LogPlan:
    """Walk every header of a directory.

    since: what came after this offset shall be there record by record, so a snapshot of later ones is not begun with
           while an earlier one is there.
    beside: the newest snapshot too, which has to be of this log. Who wants the log alone reads it beside a damaged one.
    """
    directory = log_directory(path)
    # before the segments: a later one is of records behind their end
    newest = max(_snapshots(directory), default=None) if beside else None
    segments = _segments(directory)
    walk = _Walk(split_bytes)
    base = None
    if (begins_at := int(segments[0].stem)) > 0:
        base = _newest_snapshot(directory, begins_at, since)
        walk.snapshot(base)
    for segment in segments:
        walk.segment(segment, is_last=segment == segments[-1])
    of_newest = () if newest is None or (base is not None and newest <= base) else _beside(newest, walk)
    return LogPlan(walk.splits, walk.offset, walk.epoch, walk.records, tuple(walk.epochs), of_newest)


def _beside(snapshot: Path, log: _Walk) -> tuple[LogSplit, ...]:
    """A snapshot of records that the log has too."""
    walk = _Walk(log.split_bytes)
    walk.snapshot(snapshot)
    if (walk.epoch, walk.offset) > (log.epoch, log.offset):  # as `KafkaMetadataLog.truncateToLatestSnapshot` asks
        reason = (
            f"it stands for records up to offset {walk.offset} of epoch {walk.epoch}, and the log ends at {log.offset} "
            f"of epoch {log.epoch}: a controller that starts here deletes that log"
        )
        raise AUDIT_CANNOT_READ.error(what=str(snapshot), reason=reason)
    return tuple(msgspec.structs.replace(each, beside=True) for each in walk.splits)


def splits_behind(before: LogPlan, now: LogPlan) -> list[LogSplit] | None:
    """What a plan has that an earlier one of the same directory did not; None where it is no longer the same log: what
    was never committed may have been cut off, and as many bytes written in its place.
    """
    kept = before.splits[:-1]
    if not now.has(before.end) or not before.splits or now.splits[: len(kept)] != kept or len(now.splits) <= len(kept):
        return None
    last, grown = before.splits[-1], now.splits[len(kept)]
    if (last.file, last.start) != (grown.file, grown.start) or grown.end < last.end:
        return None
    more = [msgspec.structs.replace(grown, start=last.end)] if grown.end > last.end else []
    return [*more, *now.splits[len(kept) + 1 :]]


def begins_at(plan: LogPlan) -> int:
    """The last offset that the log's snapshot stands for; -1 for a log that has all its records."""
    return plan.splits[0].snapshot_offset if plan.splits else -1


def read_split(split: LogSplit) -> Iterator[Batch]:
    """The batches of a split, each with its checksum verified."""
    data = bytes_of(split)
    try:
        yield from read_batches(data)
    except FindingError as error:
        raise _unreadable(Path(split.file), error, split.start) from error


def bytes_of(split: LogSplit) -> bytes:
    """Raises Z2K-5001, with what the system said as its cause."""
    if split.data is not None:
        return split.data
    try:
        with open(split.file, "rb") as file:
            file.seek(split.start)
            data = file.read(split.end - split.start)
    except OSError as error:
        raise _unreadable(Path(split.file), error, split.start) from error
    if len(data) < split.end - split.start:
        raise AUDIT_CANNOT_READ.error(what=split.file, reason="it became shorter while it was read")
    return data


def offset_before(plan: LogPlan, time_ms: int) -> int | None:
    """The last offset that was appended before this time, by the leaders' clocks. None: the log does not have that
    moment record by record, as it begins later, or with a snapshot of a later one.
    """
    for split in reversed(plan.splits):
        if split.snapshot_offset >= 0:
            return None
        data, position, found = bytes_of(split), 0, None
        while position < len(data):
            header = peek(data, position)
            if header.max_timestamp_ms >= time_ms:
                break
            position, found = position + header.size, header.last_offset
        if found is not None:
            return found
    return None


class _Walk:
    """Goes over the headers, file by file, and remembers where it is in the log."""

    def __init__(self, split_bytes: int) -> None:
        self.split_bytes = split_bytes
        self.splits: list[LogSplit] = []
        self.offset = -1
        self.epoch = -1
        self.records = 0
        self.epochs: list[Position] = []

    def snapshot(self, path: Path) -> None:
        match = _SNAPSHOT_NAME.fullmatch(path.name)
        assert match is not None, path.name
        self.offset, self.epoch = int(match[1]) - 1, int(match[2])
        self.epochs.append(Position(self.epoch, self.offset))
        cutter = _Cutter(path, self.split_bytes, self.offset)
        end = size = 0
        try:
            for position, header in batch_headers(path):
                cutter.take(position, header.size)
                self.records += header.record_count
                end, size = position + header.size, header.size
        except (OSError, FindingError) as error:
            raise _unreadable(path, error, 0) from error
        last = list(read_split(LogSplit(str(path), end - size, end)))
        if not last or not isinstance((last[0].control_records or (None,))[-1], SnapshotFooterRecord):
            raise AUDIT_CANNOT_READ.error(what=str(path), reason="it does not end with a snapshot's footer")
        self.splits += cutter.finish()

    def segment(self, path: Path, *, is_last: bool) -> None:
        cutter = _Cutter(path, self.split_bytes, -1)
        end = 0
        try:
            for position, header in batch_headers(path):
                end = position + header.size
                if header.last_offset > self.offset:
                    self._follows(path, header)
                    cutter.take(position, header.size)
        except TornBatchError as error:
            if not is_last or _batch_behind(path, end, self.offset):
                raise _unreadable(path, error, 0) from error
        except (OSError, FindingError) as error:
            is_no_batch = isinstance(error, FindingError) and error.code == MALFORMED_BYTES.code
            if not (is_last and is_no_batch and _only_zeros_behind(path, end)):
                raise _unreadable(path, error, 0) from error
        self.splits += cutter.finish()

    def _follows(self, path: Path, header: BatchHeader) -> None:
        if header.base_offset != self.offset + 1:
            reason = f"offset {header.base_offset} follows {self.offset}"
            raise AUDIT_CANNOT_READ.error(what=str(path), reason=reason)
        if not self.epochs or header.leader_epoch != self.epoch:
            self.epochs.append(Position(header.leader_epoch, header.base_offset))
        self.offset, self.epoch = header.last_offset, header.leader_epoch
        self.records += header.record_count


class _Cutter:
    """Collects batches of one file that lie one behind the other into splits."""

    def __init__(self, path: Path, split_bytes: int, snapshot_offset: int) -> None:
        self._path = path
        self._split_bytes = split_bytes
        self._snapshot_offset = snapshot_offset
        self._start = self._end = -1
        self._done: list[LogSplit] = []

    def take(self, position: int, size: int) -> None:
        if self._start >= 0 and position + size - self._start > self._split_bytes:
            self._cut()
        if self._start < 0:
            self._start = position
        self._end = position + size

    def finish(self) -> list[LogSplit]:
        if self._start >= 0:
            self._cut()
        return self._done

    def _cut(self) -> None:
        self._done.append(LogSplit(str(self._path.absolute()), self._start, self._end, self._snapshot_offset))
        self._start = -1


def batch_headers(path: Path) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch; TornBatchError where the file ends inside one.

    Read piece by piece, never mapped: a follower may cut the file's end off while we read.
    """
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        position = 0
        while position < size:
            header = peek(os.pread(file.fileno(), HEADER_BYTES, position))
            if position + header.size > size:
                raise TornBatchError(position)
            yield position, header
            position += header.size


def _batch_behind(path: Path, torn_at: int, offset: int) -> bool:
    """Whether a whole batch lies behind the place where one is torn: then its length was spoiled, and no writer is at
    work there. offset: of the last record before that place.
    """
    with open(path, "rb", buffering=0) as file:
        data = os.pread(file.fileno(), 2 * BATCH_BYTES_MAX, torn_at)
    position = data.find(MAGIC, MAGIC_AT + 1)
    while position >= 0:
        if _is_batch(data, position - MAGIC_AT, offset):
            return True
        position = data.find(MAGIC, position + 1)
    return False


def _only_zeros_behind(path: Path, end: int) -> bool:
    """A file that grew, and whose bytes did not reach the disk before the power failed: no record is behind `end`.

    Kafka and ours cut such an end off when they start.
    """
    with open(path, "rb", buffering=0) as file:
        while data := os.pread(file.fileno(), BATCH_BYTES_MAX, end):
            if data.count(0) != len(data):
                return False
            end += len(data)
    return True


def _is_batch(data: bytes, position: int, offset: int) -> bool:
    try:
        return offset < peek(data, position).base_offset <= offset + len(data) and verify_crc(data, position)
    except FindingError:
        return False


def _segments(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("*.log") if path.stem.isdecimal())


def _snapshots(directory: Path) -> list[Path]:
    """Ascending, without the one of nothing that a format tool may have left."""
    found = (path for path in directory.iterdir() if (match := _SNAPSHOT_NAME.fullmatch(path.name)) and int(match[1]))
    return sorted(found, key=lambda path: path.name)


def _newest_snapshot(directory: Path, begins_at: int, since: int | None) -> Path:
    snapshots = _snapshots(directory)
    if not snapshots:
        raise AUDIT_CANNOT_READ.error(what=str(directory), reason="the log begins later and there is no snapshot")
    early = [] if since is None else [each for each in snapshots if begins_at <= int(each.name[:20]) <= since + 1]
    return (early or snapshots)[-1]


def _unreadable(path: Path, error: Exception, base: int) -> FindingError:
    """base: where the bytes that the error speaks of begin in the file."""
    if isinstance(error, FindingError) and error.code == MALFORMED_BYTES.code:
        values = error.occurrence.values
        reason = f"at byte {base + int(values['position'])}: {values['reason']}"
        return AUDIT_CANNOT_READ.error(what=str(path), reason=reason)
    return error if isinstance(error, FindingError) else AUDIT_CANNOT_READ.error(what=str(path), reason=words_of(error))
