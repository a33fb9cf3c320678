"""A follower: what it takes from its leader, what it cuts, what it loads, and what it does not believe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from migrator.raft.effects import (
    AdvanceHighWatermark,
    AppendReplicated,
    DropSnapshotPart,
    Flush,
    InstallSnapshot,
    Persist,
    ResetLog,
    SendFetch,
    SendFetchSnapshot,
    SendVote,
    Truncate,
    WriteSnapshotPart,
)
from migrator.raft.roles import Follower
from migrator.raft.types import (
    NOBODY,
    ElectionState,
    FetchSnapshotAnswered,
    LogFlushed,
    ReplicatedBatch,
    RequestFailed,
    SnapshotId,
    Started,
    Ticked,
)
from migrator.raft.voter import Voter
from migrator.wire.errors import Error
from tests.support.quorum_nodes import (
    SECOND,
    THIRD,
    a_claim,
    a_follower,
    a_log,
    a_node,
    an_answer,
    batches,
    none,
    one,
    under_way,
)

# --- fetching ---------------------------------------------------------------------------------------------


def test_a_follower_asks_for_what_comes_after_its_log() -> None:
    voter = a_node(state=ElectionState(2, leader=SECOND))
    ask = one(voter.receive(Started(), 0), SendFetch)
    assert (ask.to, ask.epoch, ask.offset, ask.last_epoch, ask.max_wait_ms) == (SECOND, 2, 3, 1, 500)


def test_records_are_on_disk_before_they_are_acknowledged() -> None:
    """The offset of a fetch is the acknowledgement: the next one waits for the flush."""
    voter = a_follower()
    came = batches(3, 2, 2)
    assert voter.receive(an_answer(voter, batches=came, high_watermark=4), 100) == [
        AppendReplicated(came),
        Flush(),
        AdvanceHighWatermark(4),
    ]
    assert none(voter.receive(Ticked(), 110), SendFetch)
    assert none(voter.receive(LogFlushed(4), 120), SendFetch)
    assert one(voter.receive(LogFlushed(5), 130), SendFetch).offset == 5


def test_the_high_watermark_follows_the_leader_no_further_than_the_own_log_and_never_back() -> None:
    voter = a_follower()
    effects = voter.receive(an_answer(voter, high_watermark=9), 100)
    assert one(effects, AdvanceHighWatermark).offset == 3
    assert none(voter.receive(an_answer(voter, high_watermark=2), 110), AdvanceHighWatermark)
    assert none(voter.receive(an_answer(voter, high_watermark=-1), 120), AdvanceHighWatermark)
    assert voter.high_watermark == 3


@pytest.mark.parametrize(
    "came",
    [
        batches(4, 2),
        batches(2, 1),
        (ReplicatedBatch(3, 0, 2, b""),),
        batches(3, 2, 1),
        batches(3, 3),
        batches(3, 0),
        (*batches(3, 2), *batches(5, 2)),
    ],
    ids=["gap", "overlap", "empty batch", "falling epochs", "later epoch than the leader's", "old epoch", "hole"],
)
def test_records_that_do_not_fit_are_not_taken_and_no_sign_of_life(came: tuple[ReplicatedBatch, ...]) -> None:
    """Stock ends its process; we ask again, and stand for election when it does not get better."""
    voter = a_follower()
    assert voter.receive(an_answer(voter, batches=came, high_watermark=9), 100) == []
    assert (voter.log.end, voter.log.committed) == (3, 0)
    assert isinstance(voter.role, Follower)
    assert voter.role.fetch_deadline_ms == 2_000
    assert one(voter.receive(Ticked(), 120), SendFetch).offset == 3


def test_an_answer_is_taken_once_and_only_for_the_request_it_belongs_to() -> None:
    voter = a_follower()
    answer = an_answer(voter, batches=batches(3, 2))
    voter.receive(answer, 100)
    assert voter.receive(answer, 110) == []
    assert voter.receive(replace(answer, request=99), 120) == []
    assert voter.log.end == 4


def test_an_answer_from_before_a_new_role_is_not_taken() -> None:
    voter = a_follower()
    late = an_answer(voter, batches=batches(3, 2))
    voter.receive(a_claim(epoch=3, leader=THIRD), 50)
    assert voter.receive(late, 60) == []
    assert voter.log.end == 3


def test_every_answer_of_the_leader_gives_it_more_time_and_none_means_an_election() -> None:
    voter = a_follower()
    voter.receive(an_answer(voter), 1_500)
    assert none(voter.receive(Ticked(), 3_499), SendVote)
    effects = voter.receive(Ticked(), 3_500)
    assert one(effects, Persist).state == ElectionState(3, voted_for=1)


@pytest.mark.parametrize(
    "error",
    [Error.NOT_LEADER_OR_FOLLOWER, Error.BROKER_NOT_AVAILABLE, Error.UNKNOWN_LEADER_EPOCH, Error.INVALID_VOTER_KEY],
)
def test_a_refusal_is_followed_by_a_pause_and_not_by_more_time(error: Error) -> None:
    voter = a_follower()
    assert voter.receive(an_answer(voter, error=error), 100) == []
    assert none(voter.receive(Ticked(), 119), SendFetch)
    assert one(voter.receive(Ticked(), 120), SendFetch)
    assert isinstance(voter.role, Follower)
    assert voter.role.fetch_deadline_ms == 2_000


def test_an_error_at_the_top_is_followed_by_a_pause() -> None:
    voter = a_follower()
    answer = an_answer(voter, error=Error.INCONSISTENT_CLUSTER_ID, leader=NOBODY, epoch=0, top_level=True)
    assert voter.receive(answer, 100) == []
    assert voter.epoch == 2


def test_a_fetch_that_failed_or_is_late_is_asked_again() -> None:
    voter = a_follower(fetch_timeout_ms=10_000)
    voter.receive(RequestFailed(under_way(voter)), 100)
    assert one(voter.receive(Ticked(), 120), SendFetch)
    assert none(voter.receive(Ticked(), 2_119), SendFetch)
    voter.receive(Ticked(), 2_120)
    assert one(voter.receive(Ticked(), 2_140), SendFetch)


def test_a_fenced_follower_learns_the_new_leader() -> None:
    voter = a_follower()
    answer = an_answer(voter, error=Error.FENCED_LEADER_EPOCH, leader=THIRD, epoch=5)
    effects = voter.receive(answer, 100)
    assert one(effects, Persist).state == ElectionState(5, leader=THIRD)
    assert one(effects, SendFetch).to == THIRD


def test_a_fetch_that_would_be_given_up_before_it_is_answered_is_refused_as_a_setting() -> None:
    """Found by the simulator: with clocks that differ its sender would never be answered."""
    with pytest.raises(AssertionError, match="never be answered"):
        a_node(fetch_wait_ms=500, request_timeout_ms=999)


# --- divergence -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epochs", "diverging", "end"),
    [
        ((1, 1, 2, 2), (2, 3), 3),  # the leader has fewer of epoch 2
        ((1, 1, 2, 2), (1, 2), 2),  # the leader has nothing of epoch 2
        ((1, 1, 2, 2), (1, 4), 2),  # the leader has more of epoch 1: cut to our own end of it
        ((1, 1, 3, 3), (2, 5), 2),  # an epoch that never reached us: cut to the one before
        ((1, 1, 2, 2), (0, 0), 0),
    ],
)
def test_a_follower_cuts_what_its_leader_does_not_have(
    epochs: tuple[int, ...], diverging: tuple[int, int], end: int
) -> None:
    """R-595-07. The cut is on disk before the next fetch."""
    voter = a_follower(epochs, epoch=4)
    answer = an_answer(voter, diverging_epoch=diverging[0], diverging_end=diverging[1])
    effects = voter.receive(answer, 100)
    assert effects[0] == Truncate(end)
    ask = one(effects, SendFetch)
    assert (ask.offset, ask.last_epoch) == (end, max(epochs[:end], default=0))
    assert (voter.log.end, voter.log.durable_end, voter.log.generation) == (end, end, 1)


def test_a_follower_never_cuts_what_is_committed() -> None:
    voter = a_follower((1, 1, 2, 2), epoch=4)
    voter.receive(an_answer(voter, high_watermark=3), 100)
    with pytest.raises(AssertionError, match="truncate to 2, but 3 is committed"):
        voter.receive(an_answer(voter, diverging_epoch=1, diverging_end=2), 110)


# --- snapshots --------------------------------------------------------------------------------------------

SNAPSHOT = SnapshotId(100, 2)


def a_piece(voter: Voter, position: int, data: bytes, **changes: Any) -> FetchSnapshotAnswered:
    answer = FetchSnapshotAnswered(under_way(voter), Error.NONE, SECOND, 2, SNAPSHOT, 6, position, data)
    return replace(answer, **changes)


def test_a_snapshot_is_loaded_piece_by_piece_and_then_takes_the_place_of_the_log() -> None:
    """R-595-08."""
    voter = a_follower(snapshot_part_bytes=4)
    asked = one(voter.receive(an_answer(voter, snapshot=SNAPSHOT), 100), SendFetchSnapshot)
    assert (asked.to, asked.snapshot, asked.position, asked.max_bytes) == (SECOND, SNAPSHOT, 0, 4)
    effects = voter.receive(a_piece(voter, 0, b"1234"), 200)
    assert effects[0] == WriteSnapshotPart(SNAPSHOT, 0, b"1234")
    assert one(effects, SendFetchSnapshot).position == 4
    effects = voter.receive(a_piece(voter, 4, b"56"), 300)
    assert effects[:3] == [
        WriteSnapshotPart(SNAPSHOT, 4, b"56"),
        InstallSnapshot(SNAPSHOT),
        AdvanceHighWatermark(100),
    ]
    ask = one(effects, SendFetch)
    assert (ask.offset, ask.last_epoch) == (100, 2)
    assert (voter.log.start, voter.log.durable_end, voter.log.committed) == (100, 100, 100)
    assert isinstance(voter.role, Follower)
    assert voter.role.fetch_deadline_ms == 300 + 2_000


@pytest.mark.parametrize(
    "changes",
    [
        {"error": Error.SNAPSHOT_NOT_FOUND, "data": b""},
        {"snapshot": SnapshotId(99, 2)},
        {"position": 2},
        {"data": b""},
        {"data": b"1234567"},
        {"error": Error.UNKNOWN_TOPIC_OR_PARTITION},
    ],
    ids=str,
)
def test_a_download_that_goes_wrong_is_dropped_and_a_fetch_asks_anew(changes: dict[str, Any]) -> None:
    voter = a_follower()
    voter.receive(an_answer(voter, snapshot=SNAPSHOT), 100)
    effects = voter.receive(replace(a_piece(voter, 0, b"123"), **changes), 200)
    assert effects == [DropSnapshotPart(SNAPSHOT)]
    assert one(voter.receive(Ticked(), 220), SendFetch).offset == 3


def test_a_download_ends_with_the_leader_it_came_from() -> None:
    voter = a_follower()
    voter.receive(an_answer(voter, snapshot=SNAPSHOT), 100)
    effects = voter.receive(a_claim(epoch=3, leader=THIRD), 200)
    assert [type(effect) for effect in effects][:2] == [Persist, DropSnapshotPart]


@pytest.mark.parametrize("offered", [SnapshotId(2, 1), SnapshotId(100, 3), SnapshotId(100, -1)], ids=str)
def test_a_snapshot_that_makes_no_sense_is_not_loaded(offered: SnapshotId) -> None:
    """It ends before what is committed here, or names an epoch that cannot be."""
    voter = a_follower()
    voter.receive(an_answer(voter, high_watermark=3), 50)
    assert none(voter.receive(an_answer(voter, snapshot=offered), 100), SendFetchSnapshot)


@pytest.mark.parametrize(
    ("epochs", "snapshot", "is_reset"),
    [
        ((1, 1, 2), SnapshotId(3, 2), False),
        ((1, 1, 2), SnapshotId(2, 1), False),
        ((1, 1, 2), SnapshotId(5, 2), True),  # the log does not reach it
        ((1, 1, 2), SnapshotId(3, 3), True),  # the log says otherwise
        ((1, 1, 2), SnapshotId(2, 2), True),
    ],
)
def test_a_start_after_half_an_installation_finishes_it(
    epochs: tuple[int, ...], snapshot: SnapshotId, is_reset: bool
) -> None:
    """The snapshot had its name, the log was not emptied yet. What it contradicts was never committed."""
    voter = a_node(log=a_log(epochs, snapshots=[snapshot]), state=ElectionState(4))
    effects = voter.receive(Started(), 0)
    assert (effects[:1] == [ResetLog(snapshot)]) == is_reset
    assert voter.log.start == (snapshot.end_offset if is_reset else 0)
    assert voter.log.committed == snapshot.end_offset
