"""How far the log is committed, and how far it is in the image; the replay of what lies between.

In:   high watermarks, snapshots that are on disk, what this node replayed before it started.
Out:  the image of everything replayed; word to the quorum how far it may take a snapshot, and the records of one.
Elsewhere: what bytes of the log do to an image (log_replay.py); what an image is used for, and what this node itself
appends while it leads (active_controller.py).
Source: Kafka 3.9 `OffsetControlManager`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import chain

from migrator.controller.removals import Removals
from migrator.controller.snapshot import records_of
from migrator.findings.finding import FindingError
from migrator.model.draft import Delta
from migrator.model.image import CommittedCopy, Image, committed_copy
from migrator.node.log.log_replay import Ineligible, LogReplay, ReadAhead, read_snapshot
from migrator.node.on_thread import on_thread
from migrator.node.quorum.raft_node import RaftNode
from migrator.raft.types import SnapshotId
from migrator.wire.records import encode_record

SLICE_BYTES = 16 * 1024
"""What is replayed in one go, 350 changes of partitions: some milliseconds of the loop."""


class AppliedLog:
    """Replays while another node leads; while this one leads its own appends move `end`."""

    def __init__(self, raft: RaftNode, read_ahead: ReadAhead) -> None:
        self._raft = raft
        self._read_ahead: ReadAhead | None = read_ahead
        self._replay = LogReplay(read_ahead.snapshot, read_ahead.begins_at, read_ahead.removals)
        self.end = self.committed = read_ahead.begins_at
        self._untold_bytes = 0
        self._settled: tuple[int, Image] = (self.end, read_ahead.snapshot)
        self._to_load: SnapshotId | None = None

    @property
    def image(self) -> Image:
        """What was replayed; a leader's own appends are not in it."""
        return self._replay.image

    @property
    def settled_end(self) -> int:
        """Up to here everything replayed is in the image; behind it an open transaction may wait."""
        return self._replay.settled_end

    @property
    def is_current(self) -> bool:
        """Whether everything that is known to be committed is in the image."""
        return self.end >= self.committed

    @property
    def is_empty(self) -> bool:
        """Whether no data record was replayed; control records do not count."""
        return self._replay.data_records == 0

    @property
    def transaction_open(self) -> bool:
        return self._replay.transaction_open

    @property
    def removals(self) -> Removals:
        """What the log took away so far, before this node began to lead and since."""
        return self._replay.removals

    @property
    def ineligible(self) -> Ineligible:
        """What the log has that no correct controller writes, as far as this node replayed it."""
        return self._replay.ineligible

    @property
    def copied(self) -> CommittedCopy | None:
        """The copy of a takeover that is not in dual-write yet, where this node saw it become committed."""
        return self._replay.copied

    def note(self, delta: Delta) -> None:
        """This node leads, and a commit of its own became visible."""
        self.removals.note(delta)
        self._replay.copied = committed_copy(self._replay.copied, delta.before, delta.after)

    def commit(self, high_watermark: int) -> None:
        self.committed = max(self.committed, high_watermark)

    # --- replay --------------------------------------------------------------------------------------------

    def replay_piece(self) -> int:
        """Replay the next piece of what is committed; returns its bytes. There has to be one."""
        size = self._take_read_ahead()
        if size is None:
            size = self._replay_slice()
        self.end = self._replay.end
        return size

    def _take_read_ahead(self) -> int | None:
        """Use what was replayed from the disk before the start, once all of it is known to be committed."""
        ahead = self._read_ahead
        if ahead is None or ahead.generation != self._raft.voter.log.generation:
            self._read_ahead = None
            return None
        if ahead.end > self.committed:
            return None
        self._read_ahead = None
        self._replay = ahead.replay
        return ahead.size

    def _replay_slice(self) -> int:
        data = self._raft.store.read(self.end, self.committed, SLICE_BYTES)
        began = time.perf_counter()
        self._replay.apply(data)
        self._raft.metrics.apply.observe(time.perf_counter() - began)
        self._read_ahead = None  # it is of use at its own beginning only, and it is as large as the image
        return len(data)

    def replay_from(self, image: Image) -> None:
        """Go on from `end`, up to which `image` has everything: this node leads no more.

        A transaction that was open when it began to lead is open still, unless its Abort is committed.
        """
        if self.end > self._replay.end:
            ineligible, copied = self.ineligible, self.copied
            self._replay = LogReplay(image, self.end, self.removals)
            self._replay.ineligible, self._replay.copied = ineligible, copied

    # --- snapshots -----------------------------------------------------------------------------------------

    def begin_anew(self, snapshot: SnapshotId) -> None:
        """The log on disk begins at the end of this snapshot now; what was replayed counts until it is loaded."""
        self._to_load = snapshot
        self.committed = max(self.committed, snapshot.end_offset)
        self._read_ahead = None

    @property
    def has_to_load(self) -> bool:
        return self._to_load is not None

    async def load(self) -> None:
        """Replay the snapshot on a thread: at a million partitions it takes seconds, and votes and fetches go on."""
        while (snapshot := self._to_load) is not None:
            try:
                replay = await on_thread(read_snapshot, self._raft.snapshots.path(snapshot), snapshot)
            except (OSError, FindingError):
                if snapshot == self._to_load:
                    raise
                continue  # a newer one came meanwhile, which removes the file of this one
            if snapshot == self._to_load:
                replay.ineligible = self.ineligible
                self._replay, self.end, self._to_load = replay, snapshot.end_offset, None

    def tell_applied(self, end: int, image: Image, size: int) -> None:
        """The core may order a snapshot of exactly this image; a transaction that is open is not in it."""
        self._untold_bytes += size
        if end > self._settled[0]:
            self._settled = end, image
            size, self._untold_bytes = self._untold_bytes, 0
            self._raft.applied(end, size)

    def snapshot_values(self, snapshot: SnapshotId) -> Callable[[], Iterable[bytes]]:
        """The records of everything applied; the image is kept as it is now, whoever reads it and when."""
        end, image = self._settled
        assert snapshot.end_offset == end, f"a snapshot at {snapshot.end_offset}, applied {end}"
        removed = self.removals.records()
        return lambda: (encode_record(record, version) for record, version in chain(records_of(image), removed))
