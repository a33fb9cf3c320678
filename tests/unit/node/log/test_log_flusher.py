"""The flusher of the log never ends or hangs unseen: its end is this voter's, and a silent disk is told of."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.findings.quorum import LOG_FLUSH_SILENT, LOG_NOT_ON_DISK
from migrator.node.log import log_flusher
from migrator.node.log.log_store import LogStore
from migrator.raft.effects import SendFetch, SendVote
from migrator.raft.types import AppendRequested, Event, Payload, Ticked
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import NoOpRecord
from tests.support.voter_on_disk import ELECTION_OVER_MS, VoterOnDisk, comes_about, leader_change_at, records_at
from tests.unit.node.driver.test_driver_acts import story

BATCH = build_batch(base_offset=0, leader_epoch=0, timestamp_ms=1, values=[b"one"])
FIRST = leader_change_at(0, 1, 2)
CHECK_QUORUM_MS = 3_000


def no_descriptor(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EMFILE, "Too many open files")


def with_a_node(directory: Path, told: Callable[[VoterOnDisk], Awaitable[None]]) -> None:
    async def whole() -> None:
        node = VoterOnDisk(directory)
        node.raft.start()
        await told(node)
        await node.close()

    story(whole)


def the_finding(node: VoterOnDisk) -> FindingError:
    (error,) = node.fatal
    assert isinstance(error, FindingError)
    return error


class HungDisk:
    """Its flushes wait until it is let go, as fsync does on storage that does not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_free = threading.Event()
        flush = LogStore.flush

        def hanging(descriptor: int) -> None:
            self.is_free.wait(60)
            flush(descriptor)

        monkeypatch.setattr(LogStore, "flush", staticmethod(hanging))


def test_without_a_descriptor_for_the_flush_the_voter_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(node: VoterOnDisk) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(os, "dup", no_descriptor)
            node.follow(FIRST)
            await comes_about(lambda: bool(node.fatal))
        assert the_finding(node).code == LOG_NOT_ON_DISK.code
        assert "Too many open files" in str(the_finding(node))
        node.now_ms += ELECTION_OVER_MS
        node.raft.receive(Ticked())
        assert not [each for each in node.sent if isinstance(each, SendVote)]

    with_a_node(tmp_path / "log", told)


def test_a_flusher_that_is_ended_by_anything_ends_the_voter(tmp_path: Path) -> None:
    async def told(node: VoterOnDisk) -> None:
        (flusher,) = (task for task in asyncio.all_tasks() if task.get_name() == "log-flush")
        flusher.cancel()
        await comes_about(lambda: bool(node.fatal))
        assert the_finding(node).code == LOG_NOT_ON_DISK.code

    with_a_node(tmp_path / "log", told)


def test_without_a_thread_for_flushes_the_voter_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    async def whole() -> None:
        node = VoterOnDisk(tmp_path / "log")
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", none_left)
            node.raft.start()
        assert the_finding(node).code == LOG_NOT_ON_DISK.code
        assert not node.sent
        await node.close()

    story(whole)


def test_no_other_work_of_the_process_keeps_a_flush_waiting(tmp_path: Path) -> None:
    """Every thread of the loop's pool is taken for as long as this lasts."""

    async def told(node: VoterOnDisk) -> None:
        let_go = threading.Event()
        taken = [asyncio.create_task(asyncio.to_thread(let_go.wait, 30)) for _ in range(64)]
        node.follow(FIRST)
        await node.flushed()
        let_go.set()
        await asyncio.gather(*taken)

    with_a_node(tmp_path / "log", told)


def test_a_leader_with_a_hung_disk_resigns_and_tells_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(node: VoterOnDisk) -> None:
        start = await node.elected(by=3)
        epoch = node.raft.voter.epoch
        disk = HungDisk(monkeypatch)
        clock = Clock(node)
        node.raft.receive(AppendRequested(epoch, (Payload(1, BATCH),)))
        await comes_about(lambda: node.raft.flusher.waiting_s > 0 or clock.passes(0.001))
        node.fetched(3, start + 1)
        node.now_ms += CHECK_QUORUM_MS
        clock.passes(CHECK_QUORUM_MS / 1000)
        node.fetched(3, start + 1)
        assert not node.raft.leads(epoch)
        assert [each.code for each in node.raft.findings] == [LOG_FLUSH_SILENT.code]
        node.now_ms += ELECTION_OVER_MS
        asked = len([each for each in node.sent if isinstance(each, SendVote)])
        node.raft.receive(Ticked())
        assert len([each for each in node.sent if isinstance(each, SendVote)]) == asked
        disk.is_free.set()
        await node.flushed()
        assert node.raft.findings == []
        assert len([each for each in node.sent if isinstance(each, SendVote)]) > asked
        assert node.fatal == []

    with_a_node(tmp_path / "log", told)


def test_a_follower_acknowledges_after_its_disk_has_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told(node: VoterOnDisk) -> None:
        disk = HungDisk(monkeypatch)
        node.follow(FIRST, records_at(1, 1, NoOpRecord()))
        asked = len([each for each in node.sent if isinstance(each, SendFetch)])
        node.now_ms += ELECTION_OVER_MS
        node.raft.receive(Ticked())
        assert len([each for each in node.sent if isinstance(each, SendFetch)]) == asked
        assert not [each for each in node.sent if isinstance(each, SendVote)]
        disk.is_free.set()
        await node.flushed()

    with_a_node(tmp_path / "log", told)


def test_records_that_came_during_a_flush_are_not_acknowledged_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flush that is under way began before them."""

    async def told(node: VoterOnDisk) -> None:
        start = await node.elected(by=3)
        ends: list[int] = []
        disk = HungDisk(monkeypatch)
        receive = node.raft.receive

        def noted(event: Event) -> None:
            ends.append(getattr(event, "end", -1))
            receive(event)

        monkeypatch.setattr(node.raft, "receive", noted)
        node.raft.receive(AppendRequested(node.raft.voter.epoch, (Payload(1, BATCH),)))
        await comes_about(lambda: node.raft.flusher.waiting_s > 0)
        node.raft.receive(AppendRequested(node.raft.voter.epoch, (Payload(1, BATCH),)))
        disk.is_free.set()
        await node.flushed()
        assert [end for end in ends if end > 0] == [start + 2, start + 3]

    with_a_node(tmp_path / "log", told)


def test_a_stop_does_not_wait_for_a_hung_disk_to_free_its_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told(node: VoterOnDisk) -> None:
        disk = HungDisk(monkeypatch)
        node.follow(FIRST)
        await comes_about(lambda: node.raft.flusher.waiting_s > 0)
        await asyncio.wait_for(node.raft.leave(), 60)
        assert node.fatal == []
        disk.is_free.set()

    with_a_node(tmp_path / "log", told)


def test_the_thread_of_the_disk_does_not_keep_a_process_alive() -> None:
    async def started() -> bool:
        before = set(threading.enumerate())  # a disk of another test may still be at its last flush
        disk = log_flusher.DiskThread(None)  # type: ignore[arg-type]
        (thread,) = (each for each in set(threading.enumerate()) - before if each.name == "log-flush")
        disk.close()
        return thread.daemon

    assert asyncio.run(started())


class Clock:
    """The flusher's, in place of the system's."""

    def __init__(self, node: VoterOnDisk) -> None:
        self.now = 100.0
        node.raft.flusher._clock = lambda: self.now

    def passes(self, seconds: float) -> bool:
        self.now += seconds
        return False


def test_a_fault_of_ours_is_not_called_one_of_the_disk(tmp_path: Path) -> None:
    async def told(node: VoterOnDisk) -> None:
        error = AssertionError("flushed to 9, the log ends at 3")
        node.raft.fail(error)
        node.raft._flusher_ended(error)
        assert node.fatal == [error]

    with_a_node(tmp_path / "log", told)
