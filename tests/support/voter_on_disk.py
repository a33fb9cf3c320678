"""One voter of three as a process has it: the real core, shell, log and active controller on a real disk.

Its peers are lists of what it sent them; the test says what they answer. The clock is the test's, so nothing is due
before it says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from migrator.node.leader.active_controller import ActiveController, CommitListeners
from migrator.node.log.log_flusher import Disk, DiskThread
from migrator.node.log.log_store import LogStore
from migrator.node.process.startup import replay_stored, view_of
from migrator.node.quorum.raft_node import RaftNode
from migrator.raft.effects import SendFetch, SendVote
from migrator.raft.roles import QuorumSettings
from migrator.raft.types import (
    NOBODY,
    ElectionState,
    FetchAnswered,
    FetchReceived,
    LeaderClaimed,
    ReplicatedBatch,
    Ticked,
    VoteAnswered,
)
from migrator.raft.voter import Voter
from migrator.wire.batch import build_batch, build_control_batch
from migrator.wire.errors import Error
from migrator.wire.messages.control_records import LeaderChangeMessage
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from tests.support.gatekeepers import Allows
from tests.support.quorum_nodes import CLUSTER, ME, VOTERS
from tests.support.situations import the_settings

SEGMENT_BYTES = 1 << 20
ELECTION_OVER_MS = 10_000
"""Later than any deadline of an election or of a follower."""

T = TypeVar("T")

Wait = Callable[[Callable[[], bool]], Awaitable[None]]

LOOK_S: Final = 0.002
LOOKS_IN_A_MINUTE: Final = 30_000
LOOKS_IN_TWO_SECONDS: Final = 1_000
"""Counted, and not timed: while the whole process stands still, nobody looks."""


def records_at(offset: int, epoch: int, *records: Message) -> ReplicatedBatch:
    values = [encode_record(record, 0) for record in records]
    data = build_batch(base_offset=offset, leader_epoch=epoch, timestamp_ms=1, values=values)
    return ReplicatedBatch(offset, len(values), epoch, data)


def leader_change_at(offset: int, epoch: int, leader: int) -> ReplicatedBatch:
    change = LeaderChangeMessage(leader_id=leader)
    data = build_control_batch(base_offset=offset, leader_epoch=epoch, timestamp_ms=1, records=[change])
    return ReplicatedBatch(offset, 1, epoch, data)


class VoterOnDisk:
    """Voter 1 of 1, 2, 3. It follows voter 2 in epoch 1 when it starts."""

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        state: ElectionState | None = None,
        disk: Callable[[LogStore], Disk] = DiskThread,
        wait: Wait | None = None,
        **settings: Any,
    ) -> None:
        """wait: how its flushes are waited for; None: with `comes_about`."""
        self.now_ms = 0
        self._wait = wait or comes_about
        self.fatal: list[BaseException] = []
        self.sent: list[Any] = []
        self.led: list[int] = []
        self._requests = count(1_000)
        self.store = LogStore.open(directory, segment_bytes)
        voter = Voter(
            node_id=ME,
            voters=VOTERS,
            cluster_id=CLUSTER,
            state=state or ElectionState(1, leader=2),
            log=view_of(self.store),
            settings=QuorumSettings(**{"pre_vote": False, **settings}),
            chance=lambda n: 0,
        )
        self.raft = RaftNode(voter, self.store, on_fatal=self.fatal.append, now_ms=lambda: self.now_ms, disk=disk)
        self.raft.peers = SimpleNamespace(send=self.sent.append, close=_nothing)  # type: ignore[assignment]
        self.gatekeeper = Allows(writes=False)
        self.controller = ActiveController(
            self.raft,
            the_settings(),
            replay_stored(self.store),
            [],
            chance=Random(1),
            gatekeeper=self.gatekeeper,
            commit_listeners=CommitListeners(),
            on_lead=self.led.append,
            on_refused=self.fatal.append,
            on_retired=lambda text: None,
        )
        self.raft.state_machine = self.controller

    # --- what comes of the others --------------------------------------------------------------------------

    def follow(self, *batches: ReplicatedBatch, committed: int = -1, **answer: Any) -> None:
        """The leader answers the last fetch."""
        ask = self._last(SendFetch)
        answered = FetchAnswered(ask.request, Error.NONE, ask.to, ask.epoch, committed, tuple(batches), **answer)
        self.raft.receive(answered)

    async def elected(self, by: int) -> int:
        """Its leader is silent, it stands, and `by` votes for it; returns the offset of its first record."""
        self.now_ms += ELECTION_OVER_MS
        self.raft.receive(Ticked())
        (ask,) = (each for each in self.sent if isinstance(each, SendVote) and each.to == by and self._is_new(each))
        start = self.store.end
        self.raft.receive(VoteAnswered(ask.request, Error.NONE, NOBODY, ask.epoch, granted=True))
        assert self.raft.voter.leadership is not None, self.raft.voter.role
        await self.flushed()
        return start

    def _is_new(self, ask: SendVote) -> bool:
        return ask.epoch == self.raft.voter.epoch

    def fetched(self, by: int, offset: int) -> None:
        """A voter asks for what comes at `offset`: it has everything before."""
        voter = self.raft.voter
        epoch = voter.log.epoch_before(offset)
        self.raft.receive(FetchReceived(next(self._requests), CLUSTER, by, voter.epoch, offset, epoch, 0))

    def deposed(self, by: int) -> int:
        """`by` says that it leads the next epoch, which it returns."""
        epoch = self.raft.voter.epoch + 1
        self.raft.receive(LeaderClaimed(next(self._requests), CLUSTER, by, epoch, ME))
        return epoch

    # --- waiting -------------------------------------------------------------------------------------------

    async def flushed(self) -> None:
        await self._wait(lambda: self.raft.voter.log.durable_end == self.raft.voter.log.end)

    async def applied(self, offset: int) -> None:
        await self._wait(lambda: self.controller._log.end >= offset)

    def _last(self, kind: type[T]) -> T:
        return next(each for each in reversed(self.sent) if isinstance(each, kind))

    def ends_of_snapshots(self) -> list[int]:
        return [each.end_offset for each in self.raft.snapshots.stored()]

    async def close(self) -> None:
        await self.raft.stop()


async def comes_about(condition: Callable[[], bool]) -> None:
    """Let the loop run until it holds. The minute only ends what hangs: disks and threads may take their time."""
    assert await _holds(condition, LOOKS_IN_A_MINUTE), "it did not come about within a minute"


async def until(condition: Callable[[], bool]) -> None:
    """The same for two seconds: lives that a power cut ends wait that long for what never comes."""
    assert await _holds(condition, LOOKS_IN_TWO_SECONDS), "it did not come about within two seconds"


async def _holds(condition: Callable[[], bool], looks: int) -> bool:
    for _ in range(looks):
        if condition():
            return True
        await asyncio.sleep(LOOK_S)
    return False


async def _nothing() -> None: ...
