"""What a node replays of its disk before it takes part, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from migrator.model.draft import Contradiction
from migrator.node.log.log_replay import ReadAhead, read_ahead
from migrator.node.log.log_store import LogStore
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.node.process.startup import replay_stored
from migrator.raft.types import SnapshotId
from migrator.wire.messages.metadata import RemoveTopicRecord, TopicRecord
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from tests.support.builders import an_id
from tests.support.voter_on_disk import VoterOnDisk, comes_about, records_at
from tests.unit.node.driver.test_driver_acts import story

TOPICS = "abcdef"
END = 2 * len(TOPICS)
"""A log of twelve records: each topic is made, and gone with the next record."""
ONE_BATCH = 100
"""Segments of so many bytes hold one batch each."""


def made(name: str) -> Message:
    return TopicRecord(name=name, topic_id=an_id(name))


def a_log(directory: Path, epoch: int = 1) -> None:
    store = LogStore.open(directory, ONE_BATCH)
    for index, name in enumerate(TOPICS):
        store.append_replicated(
            [
                records_at(2 * index, epoch, made(name)),
                records_at(2 * index + 1, epoch, RemoveTopicRecord(topic_id=an_id(name))),
            ]
        )
    store.close()
    assert len(list(directory.glob("*.log"))) == END


def a_snapshot(directory: Path, end: int, epoch: int = 1) -> None:
    values = [encode_record(record, 0) for record in (made("kept"), made("f"))]
    SnapshotFiles(directory).write(SnapshotId(end, epoch), values, 1)


def without_the_oldest(directory: Path, segments: int) -> None:
    for path in sorted(directory.glob("*.log"))[:segments]:
        path.unlink()


def replayed(directory: Path) -> ReadAhead:
    store = LogStore.open(directory, ONE_BATCH)
    ahead = replay_stored(store)
    store.close()
    return ahead


def test_a_whole_log_is_replayed_from_its_beginning(tmp_path: Path) -> None:
    a_log(tmp_path)
    assert (replayed(tmp_path).begins_at, replayed(tmp_path).end) == (0, END)


@pytest.mark.parametrize("gone", [0, END - 3, END - 1])
def test_a_log_is_replayed_on_the_newest_snapshot_that_it_continues(tmp_path: Path, gone: int) -> None:
    a_log(tmp_path)
    a_snapshot(tmp_path, END - 1)
    without_the_oldest(tmp_path, gone)
    ahead = replayed(tmp_path)
    assert (ahead.begins_at, ahead.end) == (END - 1, END)
    assert (sorted(ahead.snapshot.topic_ids), sorted(ahead.replay.image.topic_ids)) == (["f", "kept"], ["kept"])


@pytest.mark.parametrize(
    ("snapshot", "epoch"), [(END + 5, 2), (END - 2, 2), (3, 1), (None, 0)], ids=["ahead", "other", "gap", "none"]
)
def test_nothing_is_replayed_over_a_gap_or_on_a_snapshot_of_another_history(
    tmp_path: Path, snapshot: int | None, epoch: int
) -> None:
    a_log(tmp_path)
    without_the_oldest(tmp_path, 5)
    if snapshot is not None:
        a_snapshot(tmp_path, snapshot, epoch)
    with pytest.raises(Contradiction):
        read_ahead(LogStore.open(tmp_path, ONE_BATCH).batches())
    assert (replayed(tmp_path).end, replayed(tmp_path).size) == (0, 0)


@pytest.mark.parametrize("crash_after", range(1, END))
def test_a_node_that_crashed_while_a_snapshot_replaced_its_log_begins_with_that_snapshot(
    tmp_path: Path, crash_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_log(tmp_path)
    a_snapshot(tmp_path, END + 5, epoch=1)
    store = LogStore.open(tmp_path, ONE_BATCH)
    dropped: list[object] = []
    drop = store._drop

    def drop_or_crash(segment: object) -> None:
        if len(dropped) == crash_after:
            raise KeyboardInterrupt
        dropped.append(segment)
        drop(segment)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "_drop", drop_or_crash)
    with pytest.raises(KeyboardInterrupt):
        store.reset(END + 5)

    async def told(node: VoterOnDisk) -> None:
        assert (node.store.start, node.store.end) == (END + 5, END + 5)
        await comes_about(lambda: sorted(node.controller.image.topic_ids) == ["f", "kept"])

    with_a_node(tmp_path, told)


def test_what_was_read_ahead_and_is_of_no_use_any_more_is_not_kept(tmp_path: Path) -> None:
    """A tail that was not committed at the first word of the leader: the log is replayed in pieces."""
    a_log(tmp_path)

    async def told(node: VoterOnDisk) -> None:
        read_ahead = node.controller._log._read_ahead
        assert read_ahead is not None
        node.follow(committed=END - 1)
        await comes_about(lambda: node.controller._log.end == END - 1)
        assert node.controller._log._read_ahead is None
        assert list(node.controller.image.topic_ids) == ["f"]

    with_a_node(tmp_path, told)


def with_a_node(directory: Path, told: Callable[[VoterOnDisk], Awaitable[None]]) -> None:
    async def whole() -> None:
        node = VoterOnDisk(directory)
        node.raft.start()
        await told(node)
        assert not node.fatal
        await node.close()

    story(whole)
