"""A disk with a page cache: what was written can be read at once, what was not synced can be lost.

A power cut keeps what was synced, of the rest a prefix of whole batches by chance, and sometimes the first bytes of the
batch after it, which opening the log finds torn and cuts off. A killed process loses nothing that it had written, but
has not synced it either.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from migrator.raft.epochs import EpochCache
from migrator.raft.log_view import LogView
from migrator.raft.types import ElectionState, SnapshotId

EMPTY_DIGEST = 0


class Entry(NamedTuple):
    """One batch. `digest` stands for it and for everything before it."""

    base: int
    end: int
    epoch: int
    data: bytes
    digest: int


@dataclass(frozen=True)
class SnapshotFile:
    """What a node knows after the last record before a snapshot's end."""

    log_digest: int
    state_digest: int
    registers: dict[str, int]

    def encode(self) -> bytes:
        return json.dumps([self.log_digest, self.state_digest, self.registers]).encode()

    @classmethod
    def decode(cls, data: bytes) -> SnapshotFile:
        return cls(*json.loads(data))


@dataclass
class Losses:
    """What power cuts took."""

    batches: int = 0
    torn: int = 0


@dataclass
class SimDisk:
    state: ElectionState = field(default_factory=ElectionState)
    start: int = 0
    start_digest: int = EMPTY_DIGEST
    entries: list[Entry] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    synced: int = 0
    """So many entries are on disk."""
    log_bytes: int = 0
    snapshots: dict[SnapshotId, bytes] = field(default_factory=dict)
    snapshot_ms: dict[SnapshotId, int] = field(default_factory=dict)
    part: tuple[SnapshotId, bytearray] | None = None
    late_state: ElectionState | None = None
    """A quorum state that a faulty shell left in the page cache."""

    # --- the log -------------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        return self.ends[-1] if self.ends else self.start

    @property
    def synced_end(self) -> int:
        return self.ends[self.synced - 1] if self.synced else self.start

    def append(self, base: int, count: int, epoch: int, data: bytes) -> Entry:
        assert base == self.end, f"append at {base}, the log on disk ends at {self.end}"
        before = self.entries[-1].digest if self.entries else self.start_digest
        entry = Entry(base, base + count, epoch, data, hash((before, base, count, epoch, int.from_bytes(data, "big"))))
        self.entries.append(entry)
        self.ends.append(entry.end)
        self.log_bytes += len(data) + 61
        return entry

    def sync(self, end: int) -> None:
        self.synced = max(self.synced, bisect_right(self.ends, end))

    def truncate(self, end: int) -> None:
        kept = bisect_right(self.ends, end)
        assert end == (self.ends[kept - 1] if kept else self.start), f"{end} is not the edge of a batch"
        self._keep(kept)
        self.synced = kept

    def _keep(self, count: int) -> None:
        del self.entries[count:], self.ends[count:]
        self.synced = min(self.synced, count)
        self.log_bytes = sum(len(entry.data) + 61 for entry in self.entries)

    def between(self, start: int, end: int, limit: int = 10**9) -> list[Entry]:
        first = bisect_right(self.ends, start)
        return self.entries[first : min(bisect_right(self.ends, end), first + limit)]

    def digest_at(self, offset: int, *, on_disk: bool = False) -> int | None:
        """The digest of all records before `offset`; None when the log has no batch that ends there."""
        if offset == self.start:
            return self.start_digest
        index = bisect_left(self.ends, offset)
        if index >= (self.synced if on_disk else len(self.ends)) or self.ends[index] != offset:
            return None
        return self.entries[index].digest

    # --- snapshots -----------------------------------------------------------------------------------------

    def add_snapshot(self, snapshot: SnapshotId, data: bytes, now_ms: int) -> None:
        self.snapshots[snapshot] = data
        self.snapshot_ms[snapshot] = now_ms

    def newest(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    def write_part(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        if position == 0:
            self.part = (snapshot, bytearray())
        assert self.part is not None
        assert self.part[0] == snapshot, f"a part of {snapshot} while {self.part[0]} is written"
        assert len(self.part[1]) == position, f"a part at {position} of {len(self.part[1])} bytes"
        self.part[1].extend(data)

    def name_part(self, snapshot: SnapshotId, now_ms: int) -> None:
        assert self.part is not None
        assert self.part[0] == snapshot, f"{snapshot} is installed, {self.part[0]} was loaded"
        self.add_snapshot(snapshot, bytes(self.part[1]), now_ms)
        self.part = None

    def reset_log(self, snapshot: SnapshotId) -> None:
        self._keep(0)
        self.synced = 0
        self.start = snapshot.end_offset
        self.start_digest = SnapshotFile.decode(self.snapshots[snapshot]).log_digest
        self.forget_snapshots_before(snapshot)

    def forget_snapshots_before(self, snapshot: SnapshotId) -> None:
        self.snapshots = {each: data for each, data in self.snapshots.items() if each >= snapshot}

    def trim(self, snapshot: SnapshotId) -> None:
        """Batches wholly before the end of `snapshot` go; what is left begins exactly there."""
        digest = self.digest_at(snapshot.end_offset)
        assert digest is not None, f"trimmed to {snapshot}, where no batch ends"
        gone = bisect_right(self.ends, snapshot.end_offset)
        del self.entries[:gone], self.ends[:gone]
        self.synced = max(0, self.synced - gone)
        self.start, self.start_digest = snapshot.end_offset, digest
        self.log_bytes = sum(len(entry.data) + 61 for entry in self.entries)
        self.forget_snapshots_before(snapshot)

    # --- crash and restart ---------------------------------------------------------------------------------

    def lose_power(self, rng: random.Random, torn: float, losses: Losses) -> None:
        """Keep what was synced and a prefix, by chance, of what was not."""
        self.part = None
        unsynced = len(self.entries) - self.synced
        kept = rng.randint(0, unsynced) if unsynced else 0
        losses.batches += unsynced - kept
        if kept < unsynced and rng.random() < torn:
            losses.torn += 1  # half of the next batch is there; its checksum is wrong, and opening cuts it off
        self._keep(self.synced + kept)
        self.late_state = None

    def open(self) -> LogView:
        """What a shell does before it starts its core: cut the torn tail, sync, read epochs and snapshots."""
        self.part = None
        self.synced = len(self.entries)
        epochs = EpochCache()
        for entry in self.entries:
            epochs.assign(entry.epoch, entry.base)
        return LogView(
            start=self.start,
            end=self.end,
            durable_end=self.end,
            epochs=epochs,
            snapshots=sorted(self.snapshots),
            snapshot_sizes={snapshot: len(data) for snapshot, data in self.snapshots.items()},
        )
