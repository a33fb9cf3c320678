"""A snapshot that cannot be written is an alarm: the log has every record, and this voter goes on."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from migrator.findings.finding import Occurrence, words_of
from migrator.findings.quorum import SNAPSHOT_NOT_WRITTEN
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.wire.codec import UnencodableError
from migrator.wire.messages.metadata import NoOpRecord
from tests.support.voter_on_disk import VoterOnDisk, comes_about, leader_change_at, records_at
from tests.unit.node.driver.test_driver_acts import story

BEGIN = leader_change_at(0, 1, 2)


def a_record_at(offset: int) -> Any:
    return records_at(offset, 1, NoOpRecord(mark="m", mark_text="x" * 100))


def alarms(node: VoterOnDisk) -> list[Occurrence]:
    """About snapshots. Where the machine is busy there may be one about a flush, too."""
    return [each for each in node.raft.findings if each.code == SNAPSHOT_NOT_WRITTEN.code]


def with_a_node(directory: Path, told: Callable[[VoterOnDisk], Awaitable[None]]) -> None:
    """It takes a snapshot after every 50 bytes."""

    async def whole() -> None:
        node = VoterOnDisk(directory, snapshot_after_bytes=50)
        node.raft.start()
        await told(node)
        await node.close()

    story(whole)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        UnencodableError("the batch takes 10 MB"),
        RuntimeError("can't start new thread"),
        AssertionError("a fault of ours, which every voter has"),
    ],
)
def test_the_voter_goes_on_and_tells_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def failing(*_: Any) -> int:
        raise error

    async def told(node: VoterOnDisk) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(SnapshotFiles, "write", failing)
            node.follow(BEGIN, a_record_at(1), committed=2)
            await comes_about(lambda: bool(alarms(node)))
        (finding,) = alarms(node)
        assert finding.values["end"] == 2
        assert words_of(error) in finding.text
        assert node.fatal == []
        await node.flushed()
        node.follow(a_record_at(2), committed=3)
        await comes_about(lambda: node.ends_of_snapshots() == [3])
        await comes_about(lambda: alarms(node) == [])

    with_a_node(tmp_path / "log", told)


def test_a_pool_without_a_thread_for_it_is_an_alarm_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_thread(*_: Any) -> Any:
        raise RuntimeError("can't start new thread")

    async def told(node: VoterOnDisk) -> None:
        monkeypatch.setattr(asyncio, "to_thread", no_thread)
        node.follow(BEGIN, a_record_at(1), committed=2)
        await comes_about(lambda: bool(alarms(node)))
        assert node.fatal == []

    with_a_node(tmp_path / "log", told)


def test_a_directory_that_cannot_be_measured_ends_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_descriptor(_: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    async def told(node: VoterOnDisk) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(SnapshotFiles, "measured", no_descriptor)
            node.raft._measure()
        assert node.fatal == []

    with_a_node(tmp_path / "log", told)
