"""Snapshots of the metadata on disk, in Kafka's own format.

In:   records with their versions, or the bytes of another node's snapshot piece by piece.
Out:  `<end offset>-<epoch>.checkpoint` beside the segments; its batches, or any part of its bytes.
Elsewhere: when one is taken, sent, loaded or forgotten (raft), what its records mean (log_replay).
Rules: a file has its final name only when all of it is on disk; what an interrupted write leaves ends in `.part`.
A snapshot of our own leaves room for the log: without a new snapshot a controller goes on, without room for its log it
ends.
Source: KIP-630; Kafka 3.9 `FileRawSnapshotWriter`, `Snapshots`, `RecordsSnapshotWriter`.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from migrator.node.log.payloads import pieces
from migrator.node.log.storage import sync_directory
from migrator.raft.types import SnapshotId, StoredSnapshot
from migrator.wire.batch import build_batch, build_control_batch
from migrator.wire.messages.control_records import SnapshotFooterRecord, SnapshotHeaderRecord

RECORDS_PER_BATCH: Final = 1_000
ROOM_BYTES_MIN: Final = 1 << 20
"""Left on the disk for the log while a snapshot is written: records of hours without changes, of seconds with many."""
_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_PART: Final = ".part"


class SnapshotFiles:
    """The snapshots in the directory of the log."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, snapshot: SnapshotId) -> Path:
        return self.directory / f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"

    def stored(self) -> list[SnapshotId]:
        """Ascending. The bootstrap snapshot, whose end offset is 0, is not among them."""
        matches = [_NAME.fullmatch(path.name) for path in self.directory.iterdir()]
        found = [SnapshotId(int(match[1]), int(match[2])) for match in matches if match is not None]
        return sorted(each for each in found if each.end_offset > 0)

    def measured(self) -> tuple[StoredSnapshot, ...]:
        found = []
        for snapshot in self.stored():
            stat = self.path(snapshot).stat()
            found.append(StoredSnapshot(snapshot, stat.st_size, max(0, int((time.time() - stat.st_mtime) * 1000))))
        return tuple(found)

    # --- reading -------------------------------------------------------------------------------------------

    def size(self, snapshot: SnapshotId) -> int:
        return self.path(snapshot).stat().st_size

    def read(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        with self.path(snapshot).open("rb") as file:
            file.seek(position)
            return file.read(max_bytes)

    # --- a snapshot of our own -----------------------------------------------------------------------------

    def write(self, snapshot: SnapshotId, values: Iterable[bytes], last_ms: int) -> int:
        """Write records (as encoded values) as one snapshot; returns its size. May run on any thread.

        last_ms: the time of the last record that it contains, for the header (its file is as old as that).
        """
        part = self._part(snapshot)
        try:
            size = _write(part, _batches(snapshot, values, last_ms))
        except BaseException:
            part.unlink(missing_ok=True)  # it takes room, perhaps the last there is
            raise
        part.replace(self.path(snapshot))
        sync_directory(self.directory)
        return size

    # --- another node's snapshot ---------------------------------------------------------------------------

    def write_part(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        with self._part(snapshot).open("wb" if position == 0 else "r+b") as file:
            file.seek(position)
            file.write(data)

    def drop_part(self, snapshot: SnapshotId) -> None:
        self._part(snapshot).unlink(missing_ok=True)

    def freeze(self, snapshot: SnapshotId) -> None:
        """The partial file is whole: on disk under its name when this returns."""
        part = self._part(snapshot)
        with part.open("r+b") as file:
            os.fsync(file.fileno())
        part.replace(self.path(snapshot))
        sync_directory(self.directory)

    def forget_before(self, snapshot: SnapshotId) -> None:
        for each in self.stored():
            if each < snapshot:
                self.path(each).unlink(missing_ok=True)
        sync_directory(self.directory)

    def _part(self, snapshot: SnapshotId) -> Path:
        path = self.path(snapshot)
        return path.with_name(path.name + _PART)


def _write(path: Path, batches: Iterable[bytes]) -> int:
    """On disk when it returns; the size."""
    with path.open("wb") as file:
        for batch in batches:
            _leave_room(file.fileno(), len(batch))
            file.write(batch)
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


def _leave_room(descriptor: int, size: int) -> None:
    """Raises OSError where writing `size` bytes would take what the log needs. Some file systems do not tell."""
    disk = os.fstatvfs(descriptor)
    free = disk.f_bavail * disk.f_frsize
    if disk.f_blocks and free - size < ROOM_BYTES_MIN:
        needed = f"{ROOM_BYTES_MIN} bytes that have to be left for the log"
        raise OSError(f"{os.strerror(errno.ENOSPC)}: of {free} bytes that are free, it would take the {needed}")


def _batches(snapshot: SnapshotId, values: Iterable[bytes], last_ms: int) -> Iterator[bytes]:
    """Header, records, footer; offsets count from 0, and every batch carries the snapshot's epoch."""
    offset = 0
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_ms)
    yield build_control_batch(base_offset=0, leader_epoch=snapshot.epoch, timestamp_ms=last_ms, records=[header])
    offset += 1
    for chunk in pieces(values, RECORDS_PER_BATCH):
        yield build_batch(base_offset=offset, leader_epoch=snapshot.epoch, timestamp_ms=last_ms, values=chunk)
        offset += len(chunk)
    footer = SnapshotFooterRecord(version=0)
    yield build_control_batch(base_offset=offset, leader_epoch=snapshot.epoch, timestamp_ms=last_ms, records=[footer])
