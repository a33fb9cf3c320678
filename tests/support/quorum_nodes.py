"""Nodes of a quorum of three in every role, for tests that give one event and look at what comes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from migrator.raft.effects import Effect
from migrator.raft.epochs import EpochCache
from migrator.raft.log_view import LogView
from migrator.raft.quorum import Chance
from migrator.raft.roles import Candidate, Follower, QuorumSettings
from migrator.raft.types import (
    ElectionState,
    Event,
    FetchAnswered,
    FetchReceived,
    LeaderClaimed,
    LogFlushed,
    ReplicatedBatch,
    Started,
    Ticked,
    VoteAnswered,
    VoteReceived,
)
from migrator.raft.voter import Voter
from migrator.wire.errors import Error

CLUSTER = "a cluster"
ME, SECOND, THIRD = 1, 2, 3
VOTERS = (ME, SECOND, THIRD)
OBSERVER = 9
STRANGER = 7

T = TypeVar("T")


def a_log(epochs: tuple[int, ...] = (), **view: Any) -> LogView:
    """`epochs` has the epoch of each record; all of them are on disk."""
    lineage = EpochCache()
    for offset, epoch in enumerate(epochs):
        lineage.assign(epoch, offset)
    return replace(LogView(end=len(epochs), durable_end=len(epochs), epochs=lineage), **view)


def a_node(
    epochs: tuple[int, ...] = (1, 1, 1),
    *,
    state: ElectionState | None = None,
    node: int = ME,
    voters: tuple[int, ...] = VOTERS,
    log: LogView | None = None,
    chance: Chance = lambda n: 0,
    **settings: Any,
) -> Voter:
    """Has read its disk and not started. Its chance always draws the smallest."""
    return Voter(
        node_id=node,
        voters=voters,
        cluster_id=CLUSTER,
        state=state or ElectionState(max(epochs, default=0)),
        log=log or a_log(epochs),
        settings=QuorumSettings(**{"pre_vote": False, **settings}),
        chance=chance,
    )


def started(voter: Voter, now_ms: int = 0) -> Voter:
    voter.receive(Started(), now_ms)
    return voter


def a_follower(epochs: tuple[int, ...] = (1, 1, 1), *, epoch: int = 2, leader: int = SECOND, **more: Any) -> Voter:
    """Follows `leader` since time 0; its first fetch is under way."""
    return started(a_node(epochs, state=ElectionState(epoch, leader=leader), **more))


def a_candidate(epochs: tuple[int, ...] = (1, 1, 1), *, now_ms: int = 1_000, **more: Any) -> Voter:
    """Stood at `now_ms`, after an election timeout; has asked the others."""
    voter = a_node(epochs, **more)
    started(voter, now_ms - 1_000 - voter.chance(1_000))
    voter.receive(Ticked(), now_ms)
    assert isinstance(voter.role, Candidate)
    return voter


def a_leader(epochs: tuple[int, ...] = (1, 1, 1), *, now_ms: int = 1_000, **more: Any) -> Voter:
    """Elected by the second voter at `now_ms`; its own first record is on its own disk."""
    voter = a_candidate(epochs, now_ms=now_ms, **more)
    ask = next(iter(voter.requests._under_way.values()))[0]
    voter.receive(VoteAnswered(ask, Error.NONE, -1, voter.epoch, granted=True), now_ms)
    if voter.leadership is None:
        raise AssertionError(f"one vote was not enough: {voter.role}")
    voter.receive(LogFlushed(voter.log.end), now_ms)
    return voter


def one(effects: list[Effect], kind: type[T]) -> T:
    """The only effect of its kind."""
    (found,) = (effect for effect in effects if isinstance(effect, kind))
    return found


def none(effects: list[Effect], *kinds: type) -> bool:
    return not any(isinstance(effect, kinds) for effect in effects)


def a_vote_request(**changes: Any) -> VoteReceived:
    """From the second voter, with a log as long as that of `a_node`, for the next epoch."""
    ask = VoteReceived(request=5, cluster_id=CLUSTER, voter=ME, candidate=SECOND, epoch=2, last_epoch=1, last_offset=3)
    return replace(ask, **changes)


def a_claim(**changes: Any) -> LeaderClaimed:
    return replace(LeaderClaimed(request=6, cluster_id=CLUSTER, leader=SECOND, epoch=2, voter=ME), **changes)


def a_fetch(voter: Voter, replica: int = SECOND, **changes: Any) -> FetchReceived:
    """From a replica that has everything."""
    ask = FetchReceived(7, CLUSTER, replica, voter.epoch, voter.log.end, voter.log.last_epoch, max_wait_ms=500)
    return replace(ask, **changes)


def under_way(voter: Voter) -> int:
    """The number of the only request under way."""
    ((number, _),) = voter.requests._under_way.values()
    return number


def an_answer(voter: Voter, **changes: Any) -> FetchAnswered:
    """What the leader of a follower answers to its fetch: nothing new, unless changed."""
    assert isinstance(voter.role, Follower)
    answer = FetchAnswered(under_way(voter), Error.NONE, voter.role.leader, voter.epoch, high_watermark=-1)
    return replace(answer, **changes)


def batches(start: int, *epochs: int) -> tuple[ReplicatedBatch, ...]:
    """One record each."""
    return tuple(ReplicatedBatch(start + index, 1, epoch, b"batch") for index, epoch in enumerate(epochs))


def receive(voter: Voter, *events: Event, now_ms: int = 0) -> list[Effect]:
    """Give all of them; returns what came of the last."""
    effects: list[Effect] = []
    for event in events:
        effects = voter.receive(event, now_ms)
    return effects
