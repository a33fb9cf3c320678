"""What the core knows of the log on disk: offsets, epochs and snapshots, no bytes.

In:   what was appended, flushed, truncated, replaced by a snapshot.
Out:  how far two logs agree, how far this one is on disk, which snapshot a reader needs.
Elsewhere: the files (node.log.log_store), who asks (leading.py, following.py).
Source: KIP-595, KIP-630; Kafka 3.9 `ReplicatedLog`, `KafkaMetadataLog`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from migrator.raft.epochs import EpochCache, EpochEnd
from migrator.raft.types import ReplicatedBatch, SnapshotId


@dataclass(slots=True)
class LogView:
    """The log of one node. `start` <= `durable_end` <= `end`; the record at `end` does not exist yet."""

    start: int = 0
    end: int = 0
    durable_end: int = 0
    epochs: EpochCache = field(default_factory=EpochCache)
    snapshots: list[SnapshotId] = field(default_factory=list)
    """Ascending; the (0, 0) bootstrap snapshot is never among them, nor one that ends before `start`: the log does not
    go on from it. A crash in the middle of a trim leaves such files. Source: `KafkaMetadataLog.recoverSnapshots`.
    """
    snapshot_sizes: dict[SnapshotId, int] = field(default_factory=dict)
    committed: int = 0
    """Records before it are known to be committed. It never goes back, whoever leads."""
    generation: int = 0
    """Grows when the log is cut: a flush that began before says nothing about what was appended after."""

    def __post_init__(self) -> None:
        self.snapshots = [each for each in self.snapshots if each.end_offset >= self.start] or self.snapshots[-1:]
        if self.snapshots:
            self.committed = max(self.committed, self.snapshots[-1].end_offset)

    # --- what there is -------------------------------------------------------------------------------------

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, the newest snapshot's when the log is empty, else 0."""
        latest = self.epochs.latest
        if latest is not None:
            return latest
        return self.snapshots[-1].epoch if self.snapshots else 0

    def epoch_before(self, end: int) -> int:
        """The epoch of the record at `end - 1`, from the log or the snapshot that ends there; 0 when `end` is 0."""
        epoch = self.epochs.epoch_at(end - 1)
        if epoch is not None:
            return epoch
        return max((snapshot.epoch for snapshot in self.snapshots if snapshot.end_offset <= end), default=0)

    @property
    def is_on_disk(self) -> bool:
        """Whether no flush is under way or due: all that was appended would outlive a crash."""
        return self.durable_end == self.end

    def last_on_disk(self) -> EpochEnd:
        """What a vote may be asked for, and is weighed against: the part that no crash takes back.

        Kafka compares its log's end, which it has synced by then. Ours may not be: a candidate that was voted for
        with records that it then loses in a crash would be voted for again, in the same epoch, without them.
        """
        return EpochEnd(self.epoch_before(self.durable_end), self.durable_end)

    def lacks(self, snapshot: SnapshotId) -> bool:
        """Whether the log neither holds the last record of `snapshot` nor begins at its end."""
        if snapshot.end_offset <= self.start:
            return False
        return snapshot.end_offset > self.end or self.epochs.epoch_at(snapshot.end_offset - 1) != snapshot.epoch

    # --- how far two logs agree ----------------------------------------------------------------------------

    def divergence(self, offset: int, last_epoch: int) -> EpochEnd | None:
        """Where a reader that ends at `offset` in `last_epoch` parts from this log; None when it does not."""
        # A reader without records agrees with every log that still has its beginning.
        if self.start == 0 and offset == 0:
            return None
        # None: the reader is in an epoch that this log never had; they part at this log's end at the latest.
        agreed = self.epochs.end_of(last_epoch, self.end)
        if agreed is None:
            agreed = EpochEnd(self.last_epoch, self.end)
        return None if agreed.epoch == last_epoch and agreed.offset >= offset else agreed

    def end_shared_with(self, agreed: EpochEnd) -> int:
        """The offset to which this log must be cut, when the leader says that epoch `agreed.epoch` ended at its offset.

        Source: `ReplicatedLog.truncateToEndOffset`.
        """
        if agreed.epoch == 0:
            return min(agreed.offset, self.end)
        own = self.epochs.end_of(agreed.epoch, self.end)
        if own is None:
            own = EpochEnd(self.last_epoch, self.end)
        return min(agreed.offset, own.offset) if own.epoch == agreed.epoch else own.offset

    def snapshot_for(self, offset: int, last_epoch: int) -> SnapshotId | None:
        """The snapshot that a reader must load because the log cannot bring it forward; None when it can.

        Source: `KafkaRaftClient.validateFetchOffsetAndEpoch`, `ReplicatedLog.validateOffsetAndEpoch`.
        """
        if not self.snapshots:
            return None
        latest, earliest = self.snapshots[-1], self.snapshots[0]
        if offset == 0 or offset < self.start or last_epoch < earliest.epoch:
            return latest
        if offset == self.start and last_epoch != earliest.epoch and self.start > 0:
            return latest
        return None

    # --- changes -------------------------------------------------------------------------------------------

    def append(self, epoch: int, count: int) -> int:
        """Returns the offset of the first of `count` records."""
        offset = self.end
        self.epochs.assign(epoch, offset)
        self.end += count
        return offset

    def append_replicated(self, batches: tuple[ReplicatedBatch, ...]) -> None:
        for batch in batches:
            self.epochs.assign(batch.epoch, batch.base_offset)
            self.end = batch.base_offset + batch.count

    def truncate(self, end: int) -> None:
        """The shell makes it durable before anything else happens, so all that is left is on disk."""
        self.epochs.truncate_to(end)
        self.end = self.durable_end = end
        self.generation += 1

    def reset(self, snapshot: SnapshotId) -> None:
        """The log is empty and begins where `snapshot` ends."""
        self.epochs.clear()
        self.start = self.end = self.durable_end = snapshot.end_offset
        self.generation += 1
        self.snapshots = [snapshot]
        self.snapshot_sizes = {snapshot: self.snapshot_sizes.get(snapshot, 0)}
        self.committed = max(self.committed, snapshot.end_offset)

    def add_snapshot(self, snapshot: SnapshotId, size: int) -> None:
        self.snapshots.append(snapshot)
        self.snapshot_sizes[snapshot] = size

    def trim(self, snapshot: SnapshotId) -> None:
        """The log begins where `snapshot` ends; older snapshots are gone. What it contains is on disk by itself."""
        self.start = snapshot.end_offset
        self.durable_end = max(self.durable_end, self.start)
        self.epochs.truncate_before(self.start)
        self.snapshots = [each for each in self.snapshots if each >= snapshot]
        self.snapshot_sizes = {each: self.snapshot_sizes.get(each, 0) for each in self.snapshots}
