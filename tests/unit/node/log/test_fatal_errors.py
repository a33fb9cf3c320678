"""A disk that refuses ends a node at once: nothing that waited for the refused write happens after it."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from migrator.node.log.log_store import LogStore
from migrator.node.log.storage import read_election_state
from migrator.node.quorum import raft_node
from migrator.raft.effects import AnswerVote, SendVote
from migrator.raft.types import AppendRequested, ElectionState, Payload, Stopping, Ticked, VoteReceived
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import NoOpRecord
from tests.support.quorum_nodes import CLUSTER, ME
from tests.support.voter_on_disk import ELECTION_OVER_MS, VoterOnDisk, comes_about, leader_change_at, records_at
from tests.unit.node.driver.test_driver_acts import story

BATCH = build_batch(base_offset=0, leader_epoch=0, timestamp_ms=1, values=[b"one"])


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def with_a_node(directory: Path, told: Callable[[VoterOnDisk], Awaitable[None]]) -> None:
    async def whole() -> None:
        node = VoterOnDisk(directory)
        node.raft.start()
        await told(node)
        await node.close()

    story(whole)


async def votes(node: VoterOnDisk) -> AnswerVote:
    """Voter 3 stands for the epoch after this one's, with a log as long as ours."""
    voter = node.raft.voter
    last = voter.log.last_on_disk()
    return await node.raft.vote(lambda number: VoteReceived(number, CLUSTER, ME, 3, 2, last.epoch, last.offset))


TURNS = 100
"""Of the loop. Whatever a node does by itself is begun in the first few; nothing of it waits for a clock."""


async def is_silent(answer: Awaitable[Any]) -> bool:
    """Whether nothing is answered, and nothing is left that could answer later: no thread, no timer, no effect."""
    waiting = asyncio.ensure_future(answer)
    for _ in range(TURNS):
        await asyncio.sleep(0)
    is_done = waiting.done()
    waiting.cancel()
    return not is_done


def is_at_rest(node: VoterOnDisk) -> bool:
    """No effect waits to be carried out, and no flush is wanted."""
    return not node.raft._todo and not node.raft.flusher._wanted.is_set()


def test_a_vote_that_could_not_be_stored_is_never_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the candidate asks again, and the core believes that it has voted."""

    async def told(node: VoterOnDisk) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(raft_node, "write_election_state", full)
            with pytest.raises(OSError, match="No space"):
                await votes(node)
        assert len(node.fatal) == 1
        assert await is_silent(votes(node))
        assert is_at_rest(node)
        assert read_election_state(node.store.directory) == ElectionState()

    with_a_node(tmp_path / "log", told)


def test_effects_behind_one_that_failed_never_happen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(node: VoterOnDisk) -> None:
        node.now_ms += ELECTION_OVER_MS
        with monkeypatch.context() as patched:
            patched.setattr(raft_node, "write_election_state", full)
            with pytest.raises(OSError, match="No space"):
                node.raft.receive(Ticked())
        node.now_ms += ELECTION_OVER_MS
        for event in (Ticked(), Stopping()):
            node.raft.receive(event)
        assert not [each for each in node.sent if isinstance(each, SendVote)]
        assert read_election_state(node.store.directory) == ElectionState()

    with_a_node(tmp_path / "log", told)


def test_records_that_could_not_be_written_are_never_called_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told(node: VoterOnDisk) -> None:
        start = await node.elected(by=3)
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", full)
            with pytest.raises(OSError, match="No space"):
                node.raft.receive(AppendRequested(node.raft.voter.epoch, (Payload(1, BATCH),)))
        node.raft.receive(Ticked())
        assert is_at_rest(node)
        assert node.store.end == node.raft.voter.log.durable_end == start + 1
        assert not node.raft.leads(node.raft.voter.epoch)

    with_a_node(tmp_path / "log", told)


def test_a_node_whose_flush_failed_takes_no_more_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(node: VoterOnDisk) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(LogStore, "flush", full)
            node.follow(leader_change_at(0, 1, 2), records_at(1, 1, NoOpRecord()))
            await comes_about(lambda: bool(node.fatal))
        asked = len(node.sent)
        assert await is_silent(votes(node))
        node.now_ms += ELECTION_OVER_MS
        node.raft.receive(Ticked())
        assert len(node.sent) == asked

    with_a_node(tmp_path / "log", told)
