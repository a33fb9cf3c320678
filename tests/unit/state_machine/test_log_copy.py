"""The log of a quorum on other hosts, as files that an audit reads while they grow."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from migrator.audit.log_plan import plan_log
from migrator.findings.finding import FindingError
from migrator.node.config.properties import VoterAddress
from migrator.raft.types import SnapshotId
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import TopicRecord
from migrator.wire.messages.raft import DescribeQuorumPartitionResult
from migrator.wire.messages.replication import FetchPartitionResult
from migrator.wire.records import encode_record
from state_machine.clusters import log_copy
from state_machine.clusters.log_copy import LogFiles, followed_log
from state_machine.clusters.log_observer import LogObserver
from tests.support.builders import an_id

LOG = "__cluster_metadata-0"


def a_batch(offset: int, *names: str) -> bytes:
    values = [encode_record(TopicRecord(name=name, topic_id=an_id(name)), 0) for name in names]
    return build_batch(base_offset=offset, leader_epoch=1, timestamp_ms=0, values=values)


class ScriptedObserver(LogObserver):
    """A leader that answers from a list. at: how many batches one answer has. silent: looks that nobody answers."""

    def __init__(self, files: LogFiles, *batches: bytes, at: int = 1, silent: int = 0) -> None:
        super().__init__((VoterAddress(3000, "127.0.0.1", 1),), None, sink=files)
        self.log = list(batches)
        self.committed = 0
        self.at, self.silent = at, silent

    async def _describe(self) -> DescribeQuorumPartitionResult:
        if self.silent:
            self.silent -= 1
            raise OSError("3000 does not lead")
        return DescribeQuorumPartitionResult(leader_id=3000, leader_epoch=1, high_watermark=self.committed)

    async def _fetch(self, quorum: DescribeQuorumPartitionResult) -> FetchPartitionResult:
        behind = [each for each in self.log if int.from_bytes(each[:8], "big") >= self.end]
        return FetchPartitionResult(records=b"".join(behind[: self.at]))


def test_committed_batches_become_a_log_that_grows_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_copy, "FOLLOW_EVERY_S", 0.01)
    files = LogFiles(tmp_path)
    observer = ScriptedObserver(files, a_batch(0, "a", "b"), a_batch(2, "c"), a_batch(3, "d", "e"), silent=2)
    observer.committed = 3

    async def story() -> list[int]:
        async with followed_log(observer, files):
            first = plan_log(tmp_path / LOG).offset
            observer.committed = 5
            async with asyncio.timeout(30):
                while plan_log(tmp_path / LOG).offset == first:
                    await asyncio.sleep(0.01)
            return [first, plan_log(tmp_path / LOG).offset]

    assert asyncio.run(story()) == [2, 4], "two looks had no answer, and what is not committed was left out"
    assert (tmp_path / LOG / f"{0:020d}.log").read_bytes() == b"".join(observer.log)


def test_a_quorum_that_never_answers_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "FOLLOW_EVERY_S", 0.0)
    monkeypatch.setattr(log_copy, "STANDS_STILL_S", 0.05)
    files = LogFiles(tmp_path)
    observer = ScriptedObserver(files, silent=10**9)

    async def story() -> None:
        async with followed_log(observer, files):
            pytest.fail("there is no log")

    with pytest.raises(FindingError, match=r"Z2K-4117.*3000 does not lead"):
        asyncio.run(story())


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
