"""When a snapshot is taken, and what may be forgotten for it."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.raft.effects import TakeSnapshot, TrimLog
from migrator.raft.epochs import EpochCache
from migrator.raft.log_view import LogView
from migrator.raft.types import (
    RecordsApplied,
    SnapshotFailed,
    SnapshotId,
    SnapshotTaken,
    StorageMeasured,
    StoredSnapshot,
)
from migrator.raft.voter import Voter
from tests.support.quorum_nodes import a_follower, an_answer, none, one

OLD, NEW = SnapshotId(2, 1), SnapshotId(4, 2)


def with_commits(**more: Any) -> Voter:
    """Five records of epochs 1, 1, 1, 2, 2, all committed."""
    voter = a_follower((1, 1, 1, 2, 2), **more)
    voter.receive(an_answer(voter, high_watermark=5), 0)
    return voter


def test_a_snapshot_is_taken_after_enough_bytes_of_exactly_what_is_applied() -> None:
    """R-595-08."""
    voter = with_commits(snapshot_after_bytes=100)
    assert none(voter.receive(RecordsApplied(2, 99), 10), TakeSnapshot)
    assert one(voter.receive(RecordsApplied(4, 1), 20), TakeSnapshot).snapshot == SnapshotId(4, 2)


def test_a_snapshot_is_taken_after_enough_time_when_anything_is_new() -> None:
    voter = with_commits(snapshot_after_ms=1_000)
    assert none(voter.receive(RecordsApplied(3, 1), 999), TakeSnapshot)
    assert one(voter.receive(RecordsApplied(4, 1), 1_000), TakeSnapshot).snapshot == SnapshotId(4, 2)
    voter.receive(SnapshotTaken(SnapshotId(4, 2), 10), 1_100)
    assert none(voter.receive(RecordsApplied(4, 0), 9_000), TakeSnapshot)


def test_a_snapshot_is_named_by_the_epoch_of_its_last_record_and_not_by_that_of_its_leader() -> None:
    """A log that is opened with a snapshot of another name is begun anew, and acknowledged records are gone."""
    voter = with_commits(epoch=7, snapshot_after_bytes=1)
    assert voter.epoch == 7
    assert one(voter.receive(RecordsApplied(2, 1), 10), TakeSnapshot).snapshot == SnapshotId(2, 1)
    assert not voter.log.lacks(SnapshotId(2, 1))


def test_a_snapshot_that_failed_is_tried_again_after_as_much_as_before() -> None:
    voter = with_commits(snapshot_after_bytes=100)
    assert one(voter.receive(RecordsApplied(2, 100), 10), TakeSnapshot)
    voter.receive(SnapshotFailed(OLD), 20)
    assert voter.log.snapshots == []
    assert none(voter.receive(RecordsApplied(3, 99), 30), TakeSnapshot)
    assert one(voter.receive(RecordsApplied(4, 1), 40), TakeSnapshot).snapshot == NEW


def test_one_snapshot_is_taken_at_a_time() -> None:
    voter = with_commits(snapshot_after_bytes=1)
    assert one(voter.receive(RecordsApplied(2, 1), 10), TakeSnapshot)
    assert none(voter.receive(RecordsApplied(4, 1), 20), TakeSnapshot)
    voter.receive(SnapshotTaken(OLD, 10), 30)
    assert one(voter.receive(RecordsApplied(5, 1), 40), TakeSnapshot).snapshot == SnapshotId(5, 2)


def test_nothing_that_is_not_committed_is_ever_in_a_snapshot() -> None:
    voter = with_commits()
    with pytest.raises(AssertionError, match="applied 6, committed 5"):
        voter.receive(RecordsApplied(6, 1), 0)


def test_a_snapshot_that_a_leaders_has_overtaken_is_not_counted() -> None:
    voter = with_commits()
    voter.log.reset(NEW)
    voter.receive(SnapshotTaken(OLD, 10), 0)
    assert voter.log.snapshots == [NEW]


def with_snapshots(start: int = 0) -> Voter:
    voter = with_commits(retention_bytes=1_000, retention_ms=60_000)
    voter.log.add_snapshot(OLD, 100)
    voter.log.add_snapshot(NEW, 100)
    if start:
        voter.log.trim(OLD)
    return voter


def measured(log_bytes: int, *ages_ms: int) -> StorageMeasured:
    return StorageMeasured(log_bytes, (StoredSnapshot(OLD, 100, ages_ms[0]), StoredSnapshot(NEW, 100, ages_ms[1])))


@pytest.mark.parametrize(
    ("start", "log_bytes", "ages_ms", "trimmed_to"),
    [
        (0, 800, (0, 0), None),  # exactly what may be kept
        (0, 801, (0, 0), OLD),  # too much: what the oldest snapshot contains goes first
        (2, 801, (0, 0), NEW),  # then the oldest snapshot
        (2, 0, (60_001, 0), NEW),  # or when it is too old
        (2, 0, (60_000, 0), None),
        (0, 0, (60_001, 0), None),
    ],
)
def test_the_oldest_part_is_forgotten_when_it_is_too_much_or_too_old(
    start: int, log_bytes: int, ages_ms: tuple[int, int], trimmed_to: SnapshotId | None
) -> None:
    """Source: `KafkaMetadataLog.maybeClean`."""
    voter = with_snapshots(start)
    effects = voter.receive(measured(log_bytes, *ages_ms), 100)
    assert [effect for effect in effects if isinstance(effect, TrimLog)] == (
        [TrimLog(trimmed_to)] if trimmed_to else []
    )
    assert voter.log.start == (trimmed_to.end_offset if trimmed_to else start)


def test_the_newest_snapshot_always_stays() -> None:
    voter = with_snapshots(2)
    voter.receive(measured(10_000, 0, 0), 100)
    assert voter.log.snapshots == [NEW]
    assert none(voter.receive(StorageMeasured(10_000, (StoredSnapshot(NEW, 100, 10**9),)), 200), TrimLog)


def test_a_trimmed_log_still_knows_its_epochs() -> None:
    log = LogView(end=6, durable_end=3, epochs=EpochCache([(1, 0), (2, 3), (5, 5)]), snapshots=[NEW])
    log.trim(NEW)
    assert (log.start, log.durable_end, log.epochs.entries) == (4, 4, [(2, 4), (5, 5)])
    assert (log.epoch_before(4), log.epoch_before(5), log.epoch_before(6)) == (2, 2, 5)
    assert not log.lacks(NEW)


def test_a_snapshot_from_before_the_logs_start_brings_nobody_forward() -> None:
    """A crash in the middle of a trim leaves one: segments were removed, the snapshot before them was not yet. A reader
    whose epoch ended between the two was told that it ended where the log begins, and kept records that never were
    committed.
    """
    old, new = SnapshotId(60, 2), SnapshotId(92, 4)
    log = LogView(start=73, end=94, durable_end=94, epochs=EpochCache([(3, 73), (4, 89)]), snapshots=[old, new])
    assert log.snapshots == [new]
    assert log.snapshot_for(88, 2) == new
    assert log.snapshot_for(73, 2) == new
    assert log.snapshot_for(92, 4) is None


def test_a_log_that_begins_behind_its_only_snapshot_keeps_it() -> None:
    """The log is begun anew with it when the node starts."""
    assert LogView(start=100, end=110, snapshots=[OLD, NEW]).snapshots == [NEW]
