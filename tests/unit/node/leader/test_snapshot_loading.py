"""A follower that gets a snapshot replays it on a thread: its votes and fetches go on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.controller.snapshot import records_of
from migrator.model.image import Image, Position
from migrator.node.leader import applied_log
from migrator.node.leader.active_controller import ActiveController
from migrator.node.log.log_replay import LogReplay, read_snapshot
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.raft.types import SnapshotId
from migrator.wire.records import encode_record
from tests.support.builders import a_topic, an_image
from tests.support.voter_on_disk import comes_about
from tests.unit.node.driver.test_driver_acts import story
from tests.unit.node.leader.test_divisible_appends import a_leader

OLD, NEWER, NEWEST = SnapshotId(50, 4), SnapshotId(1_000_000, 15), SnapshotId(2_000_000, 15)


class Threads:
    """`read_snapshot`, held up until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[SnapshotId] = []
        self.may_go_on = threading.Event()
        monkeypatch.setattr(applied_log, "read_snapshot", self)

    def __call__(self, path: Path, snapshot: SnapshotId) -> LogReplay:
        self.begun.append(snapshot)
        assert self.may_go_on.wait(10)
        return read_snapshot(path, snapshot)


def image_of(snapshot: SnapshotId, *topics: str) -> Image:
    made = an_image(*map(a_topic, topics), brokers=(1, 2, 3))
    assert made.position != Position(snapshot.epoch, snapshot.end_offset - 1)
    return made


def a_follower(directory: Path, image: Image) -> tuple[ActiveController, SnapshotFiles, list[BaseException]]:
    """Its leader was another; snapshots of the topics "newer" and "newest" are on its disk."""
    files = SnapshotFiles(directory)
    for snapshot, topic in ((NEWER, "newer"), (NEWEST, "newest")):
        values = (encode_record(record, version) for record, version in records_of(image_of(snapshot, topic)))
        files.write(snapshot, values, 0)
    controller, raft = a_leader(image)
    controller.epoch = None
    failed: list[BaseException] = []
    more: Any = raft
    more.snapshots, more.fail = files, failed.append
    more.store = SimpleNamespace(read=lambda *_: pytest.fail("the records of before are not on the disk any more"))
    return controller, files, failed


def names(image: Image) -> set[str]:
    return set(image.topic_ids)


def test_the_loop_goes_on_while_a_snapshot_is_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads(monkeypatch)

    async def told() -> None:
        controller, _, failed = a_follower(tmp_path, image_of(OLD, "old"))
        controller.load_snapshot(NEWER)
        await comes_about(lambda: threads.begun == [NEWER])
        for _ in range(5):
            await asyncio.sleep(0)
        assert names(controller.image) == {"old"}
        assert not controller.is_current
        threads.may_go_on.set()
        await comes_about(lambda: controller.is_current)
        assert names(controller.image) == names(controller.newest) == {"newer"}
        assert controller.image.position == Position(NEWER.epoch, NEWER.end_offset - 1)
        assert failed == []

    story(told)


@pytest.mark.parametrize("removed", [True, False])
def test_a_newer_snapshot_that_comes_meanwhile_is_the_one_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: bool
) -> None:
    """removed: the first one's file, before it was read; no fault of the disk."""
    threads = Threads(monkeypatch)

    async def told() -> None:
        controller, files, failed = a_follower(tmp_path, image_of(OLD, "old"))
        controller.load_snapshot(NEWER)
        await comes_about(lambda: threads.begun == [NEWER])
        if removed:
            files.forget_before(NEWEST)
        controller.load_snapshot(NEWEST)
        threads.may_go_on.set()
        await comes_about(lambda: controller.is_current)
        assert names(controller.image) == {"newest"}
        assert (threads.begun, failed) == ([NEWER, NEWEST], [])

    story(told)


def test_a_snapshot_that_cannot_be_read_ends_the_node(tmp_path: Path) -> None:
    async def told() -> None:
        controller, files, failed = a_follower(tmp_path, image_of(OLD, "old"))
        files.path(NEWER).unlink()
        controller.load_snapshot(NEWER)
        await comes_about(lambda: bool(failed))
        assert isinstance(failed[0], FileNotFoundError)

    story(told)


def test_who_is_elected_meanwhile_leads_with_the_image_of_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Threads(monkeypatch)

    async def told() -> None:
        controller, _, failed = a_follower(tmp_path, image_of(OLD, "old"))
        controller.load_snapshot(NEWER)
        await comes_about(lambda: threads.begun == [NEWER])
        controller.lead(16, NEWER.end_offset - 1)
        controller.committed(NEWER.end_offset)
        await asyncio.sleep(0)
        assert controller.epoch is None
        threads.may_go_on.set()
        await comes_about(lambda: controller.epoch == 16)
        assert names(controller.newest) == {"newer"}
        assert failed == []

    story(told)
