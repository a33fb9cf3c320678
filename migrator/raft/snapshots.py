"""When a node takes a snapshot of its own, and when it may forget old records and old snapshots.

In:   what the state machine applied, what the directory holds, the time.
Out:  orders to take a snapshot and to trim the log.
Elsewhere: loading the snapshot of a leader (following.py), serving one (leading.py), its bytes (node).
Source: KIP-630; Kafka 3.9 `SnapshotGenerator`, `KafkaMetadataLog.maybeClean`.
"""

from __future__ import annotations

from migrator.raft.effects import ResetLog, TakeSnapshot, TrimLog
from migrator.raft.quorum import QuorumState
from migrator.raft.types import RecordsApplied, SnapshotId, SnapshotTaken, StorageMeasured


def recover(q: QuorumState, now_ms: int) -> None:
    """A crash between the two halves of an installation leaves a snapshot that the log does not reach."""
    q.snapshot_ms = now_ms
    newest = q.log.snapshots[-1] if q.log.snapshots else None
    if newest is not None and q.log.lacks(newest):
        q.log.reset(newest)
        q.out.append(ResetLog(newest))


def on_records_applied(q: QuorumState, event: RecordsApplied, now_ms: int) -> None:
    """Enough bytes, or enough time with anything new: a snapshot of exactly what is applied now."""
    assert event.end <= q.log.committed, f"applied {event.end}, committed {q.log.committed}"
    q.bytes_since_snapshot += event.size
    is_large = q.bytes_since_snapshot >= q.settings.snapshot_after_bytes
    is_old = now_ms - q.snapshot_ms >= q.settings.snapshot_after_ms
    newest = q.log.snapshots[-1].end_offset if q.log.snapshots else 0
    if (is_large or is_old) and not q.snapshot_ordered and event.end > max(newest, q.log.start):
        q.snapshot_ordered = True
        q.bytes_since_snapshot = 0
        q.snapshot_ms = now_ms
        q.out.append(TakeSnapshot(SnapshotId(event.end, q.log.epoch_before(event.end))))


def on_snapshot_taken(q: QuorumState, event: SnapshotTaken) -> None:
    """One that a leader's snapshot has overtaken meanwhile is of no use."""
    q.snapshot_ordered = False
    newest = q.log.snapshots[-1].end_offset if q.log.snapshots else 0
    if event.snapshot.end_offset > max(newest, q.log.start):
        q.log.add_snapshot(event.snapshot, event.size)


def on_snapshot_failed(q: QuorumState) -> None:
    """The next one is ordered when as much or as much time has passed again: what refused this one may be gone then."""
    q.snapshot_ordered = False


def on_storage_measured(q: QuorumState, event: StorageMeasured) -> None:
    """Forget the oldest part when there is too much or it is too old. The newest snapshot always stays.

    One step at a time: the shell measures again after it.
    """
    target = trim_target(q, event)
    if target is not None and target.end_offset > q.log.start:
        q.log.trim(target)
        q.out.append(TrimLog(target))


def trim_target(q: QuorumState, event: StorageMeasured) -> SnapshotId | None:
    """The snapshot before which everything may go: the oldest that the log reaches behind, or the next one."""
    known = [stored for stored in event.snapshots if stored.snapshot in q.log.snapshots]
    if not known:
        return None
    total = event.log_bytes + sum(stored.size for stored in known)
    if known[0].snapshot.end_offset > q.log.start:
        return known[0].snapshot if total > q.settings.retention_bytes else None
    if len(known) < 2:
        return None
    is_old = known[0].age_ms > q.settings.retention_ms
    return known[1].snapshot if is_old or total > q.settings.retention_bytes else None
