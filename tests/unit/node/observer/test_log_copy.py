"""The log of a quorum on other hosts, as files that an audit reads while they grow."""

from __future__ import annotations

import asyncio
import errno
import time
from pathlib import Path

import pytest

from migrator.audit.log_plan import plan_log
from migrator.findings.finding import FindingError
from migrator.node.config.properties import VoterAddress
from migrator.node.observer import log_copy
from migrator.node.observer.log_copy import LogFiles, followed_log
from migrator.node.observer.log_reader import LogReader
from migrator.node.transport.broker_client import BrokerConnection
from migrator.raft.types import SnapshotId
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import TopicRecord
from migrator.wire.messages.raft import DescribeQuorumPartitionResult
from migrator.wire.messages.replication import FetchPartitionResult
from migrator.wire.records import encode_record
from tests.support.builders import an_id

LOG = "__cluster_metadata-0"


def a_batch(offset: int, *names: str) -> bytes:
    values = [encode_record(TopicRecord(name=name, topic_id=an_id(name)), 0) for name in names]
    return build_batch(base_offset=offset, leader_epoch=1, timestamp_ms=0, values=values)


class ScriptedReader(LogReader):
    """A leader that answers from a list. at: how many batches one answer has. silent: looks that nobody answers."""

    def __init__(self, files: LogFiles, *batches: bytes, at: int = 1, silent: int = 0) -> None:
        super().__init__((VoterAddress(3000, "127.0.0.1", 1),), None, files)
        self.log = list(batches)
        self.committed = 0
        self.at, self.silent = at, silent

    async def describe(self) -> DescribeQuorumPartitionResult:
        if self.silent:
            self.silent -= 1
            raise OSError("3000 does not lead")
        return DescribeQuorumPartitionResult(leader_id=3000, leader_epoch=1, high_watermark=self.committed)

    async def _fetch(self, leader: BrokerConnection, quorum: DescribeQuorumPartitionResult) -> FetchPartitionResult:
        behind = [each for each in self.log if int.from_bytes(each[:8], "big") >= self.end]
        return FetchPartitionResult(records=b"".join(behind[: self.at]))


def test_committed_batches_become_a_log_that_grows_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_copy, "FOLLOW_EVERY_S", 0.01)
    files = LogFiles(tmp_path)
    reader = ScriptedReader(files, a_batch(0, "a", "b"), a_batch(2, "c"), a_batch(3, "d", "e"), silent=2)
    reader.committed = 3

    async def story() -> list[int]:
        async with followed_log(reader):
            first = plan_log(tmp_path / LOG).offset
            reader.committed = 5
            async with asyncio.timeout(30):
                while plan_log(tmp_path / LOG).offset == first:
                    await asyncio.sleep(0.01)
            return [first, plan_log(tmp_path / LOG).offset]

    assert asyncio.run(story()) == [2, 4], "two looks had no answer, and what is not committed was left out"
    assert (tmp_path / LOG / f"{0:020d}.log").read_bytes() == b"".join(reader.log)


def test_a_quorum_that_never_answers_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "FOLLOW_EVERY_S", 0.0)
    files = LogFiles(tmp_path)
    reader = ScriptedReader(files, silent=10**9)

    async def story() -> None:
        async with followed_log(reader, stands_still_s=0.05):
            pytest.fail("there is no log")

    with pytest.raises(FindingError, match=r"Z2K-4117.*3000 does not lead"):
        asyncio.run(story())


def test_a_look_that_is_cut_leaves_no_hole_and_applies_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece takes longer than a look may; the work of the look before is over when the next one begins."""
    monkeypatch.setattr(log_copy, "FOLLOW_EVERY_S", 0.0)
    monkeypatch.setattr(log_copy, "LOOK_S", 0.02)

    class SlowFiles(LogFiles):
        def batches(self, data: bytes) -> None:
            time.sleep(0.05)
            super().batches(data)

    files = SlowFiles(tmp_path)
    reader = ScriptedReader(files, *(a_batch(number, f"t{number}") for number in range(12)))
    reader.committed = 12

    async def story() -> int:
        async with followed_log(reader):
            return plan_log(tmp_path / LOG).offset

    assert asyncio.run(story()) == 11


def test_a_disk_that_is_full_for_a_moment_leaves_no_hole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "FOLLOW_EVERY_S", 0.0)

    class FullDisk(LogFiles):
        left = 2

        def batches(self, data: bytes) -> None:
            if self._segment is not None and self.left:
                self.left -= 1
                raise OSError(errno.ENOSPC, "No space left on device")
            super().batches(data)

    reader = ScriptedReader(FullDisk(tmp_path), *(a_batch(number, f"t{number}") for number in range(4)))
    reader.committed = 4

    async def story() -> int:
        async with followed_log(reader):
            return plan_log(tmp_path / LOG).offset

    assert asyncio.run(story()) == 3


def test_an_audit_whose_copy_stood_still_has_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise what ZooKeeper has and the copy lacks would be called a difference."""
    monkeypatch.setattr(log_copy, "FOLLOW_EVERY_S", 0.01)
    reader = ScriptedReader(LogFiles(tmp_path), a_batch(0, "a"))
    reader.committed = 1

    async def story() -> None:
        async with followed_log(reader, stands_still_s=0.1) as followed:
            await followed.confirm()
            reader.silent = 10**9
            await asyncio.sleep(0.05)
            with pytest.raises(FindingError, match=r"Z2K-4117.*stood still during the audit"):
                await followed.confirm()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_snapshot_takes_the_place_of_what_was_there_and_a_log_that_diverged_begins_anew(tmp_path: Path) -> None:
    files = LogFiles(tmp_path)
    files.batches(a_batch(0, "a"))
    files.snapshot(b"snapshot", SnapshotId(7, 2))
    files.batches(a_batch(7, "b"))
    files.batches(a_batch(8, "c"))
    names = {each.name: each.read_bytes() for each in (tmp_path / LOG).iterdir()}
    assert names == {
        f"{7:020d}-{2:010d}.checkpoint": b"snapshot",
        f"{7:020d}.log": a_batch(7, "b") + a_batch(8, "c"),
    }
    files.begin()
    assert list((tmp_path / LOG).iterdir()) == []
