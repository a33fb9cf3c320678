"""A leader of three: what it counts as committed, what it answers, and what it shows nobody yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.raft.effects import AdvanceHighWatermark, AnswerFetch, AnswerFetchSnapshot, Append, Flush
from migrator.raft.epochs import EpochCache
from migrator.raft.leading import OBSERVER_FORGOTTEN_AFTER_MS
from migrator.raft.log_view import LogView
from migrator.raft.types import (
    AppendRequested,
    FetchSnapshotReceived,
    LogFlushed,
    Payload,
    SnapshotId,
    Ticked,
    VoteAnswered,
)
from migrator.raft.voter import ReplicaState, Voter
from migrator.wire.errors import Error
from tests.support.quorum_nodes import (
    CLUSTER,
    ME,
    OBSERVER,
    SECOND,
    THIRD,
    a_candidate,
    a_claim,
    a_fetch,
    a_follower,
    a_leader,
    a_node,
    none,
    one,
    receive,
    started,
)


def an_append(voter: Voter, *counts: int) -> AppendRequested:
    return AppendRequested(voter.epoch, tuple(Payload(count, b"batch") for count in counts))


# --- committing -------------------------------------------------------------------------------------------


def test_a_record_is_committed_when_a_majority_has_it_on_disk() -> None:
    """R-595-02: a fetch says what its sender has on disk. The leader has 3 records of epoch 1, then its own first."""
    voter = a_leader()
    assert voter.high_watermark == -1
    assert none(voter.receive(a_fetch(voter, SECOND, offset=3, last_epoch=1), 1_000), AdvanceHighWatermark)
    effects = voter.receive(a_fetch(voter, SECOND), 1_010)
    assert one(effects, AdvanceHighWatermark).offset == 4
    assert voter.high_watermark == voter.log.committed == 4


def test_records_of_earlier_epochs_are_committed_only_with_the_first_of_the_own() -> None:
    """Raft, figure 8: a majority may have them, and a later leader may still cut them off."""
    voter = a_leader()
    for replica in (SECOND, THIRD):
        effects = voter.receive(a_fetch(voter, replica, offset=3, last_epoch=1), 1_000)
        assert none(effects, AdvanceHighWatermark)


def test_a_leader_does_not_count_itself_before_its_own_flush() -> None:
    """Here we are stricter than stock, which syncs before it goes on."""
    voter = a_leader()
    voter.receive(an_append(voter, 2), 1_000)
    assert voter.log.end == 6
    assert one(voter.receive(a_fetch(voter, SECOND, offset=4), 1_000), AdvanceHighWatermark).offset == 4
    voter.receive(a_fetch(voter, THIRD, offset=4), 1_000)
    assert none(voter.receive(Ticked(), 1_010), AdvanceHighWatermark)
    effects = voter.receive(LogFlushed(6), 1_020)
    assert none(effects, AdvanceHighWatermark)  # the followers have 4
    assert one(voter.receive(a_fetch(voter, SECOND, offset=6), 1_030), AdvanceHighWatermark).offset == 6


def test_followers_alone_may_commit_what_the_leader_is_still_flushing() -> None:
    """Both followers of three have it on disk: that is a majority. They can have it only from an earlier leader."""
    voter = a_leader((1, 1, 1))
    voter.log.durable_end = 0
    receive(voter, a_fetch(voter, SECOND), a_fetch(voter, THIRD), now_ms=1_000)
    assert voter.high_watermark == 4


@given(st.lists(st.tuples(st.sampled_from([SECOND, THIRD, "flush"]), st.integers(3, 12)), max_size=40))
def test_the_high_watermark_is_the_middle_of_what_is_on_disk_and_never_goes_back(steps: list[tuple[Any, int]]) -> None:
    """A slow twin: sort what all have, take the middle, never less than before, nothing below the own epoch."""
    voter = a_leader()
    voter.receive(an_append(voter, 8), 1_000)
    ends = {ME: 4, SECOND: -1, THIRD: -1}
    told = -1
    for who, offset in steps:
        if who == "flush":
            ends[ME] = max(ends[ME], offset)
            voter.receive(LogFlushed(offset), 1_000)
        else:
            ends[who] = offset
            voter.receive(a_fetch(voter, who, offset=offset, last_epoch=1 if offset == 3 else 2), 1_000)
        middle = sorted(ends.values())[1]
        told = max(told, middle) if middle > 3 else told
        assert voter.high_watermark == told


def test_an_observer_commits_nothing() -> None:
    voter = a_leader()
    assert none(voter.receive(a_fetch(voter, OBSERVER), 1_000), AdvanceHighWatermark)


# --- appending --------------------------------------------------------------------------------------------


def test_appends_are_flushed_at_once_unless_they_may_linger() -> None:
    voter = a_leader()
    event = an_append(voter, 1, 2)
    assert voter.receive(event, 1_000) == [Append(2, 4, event.payloads), Flush()]


def test_a_linger_joins_appends_into_one_flush() -> None:
    voter = a_leader(append_linger_ms=25)
    for now_ms in (1_000, 1_010):
        assert none(voter.receive(an_append(voter, 1), now_ms), Flush)
    assert none(voter.receive(Ticked(), 1_024), Flush)
    assert one(voter.receive(Ticked(), 1_025), Flush)
    assert none(voter.receive(Ticked(), 1_050), Flush)


def test_enough_bytes_do_not_linger() -> None:
    voter = a_leader(append_linger_ms=25, linger_bytes_max=8)
    assert none(voter.receive(an_append(voter, 1), 1_000), Flush)
    assert one(voter.receive(an_append(voter, 1), 1_000), Flush)


def test_what_lingers_is_flushed_when_the_leader_loses_its_epoch() -> None:
    """A later election rests on what is on disk, and a follower fetches only when all of its log is."""
    voter = a_leader(append_linger_ms=25)
    voter.receive(an_append(voter, 1), 1_000)
    assert one(voter.receive(a_claim(epoch=3), 1_002), Flush)


# --- answering --------------------------------------------------------------------------------------------


def test_a_waiting_fetch_is_answered_when_the_high_watermark_rises() -> None:
    """Stock would let it wait for records or its time: a follower would learn of a commit half a second late."""
    voter = a_leader()
    receive(voter, a_fetch(voter, SECOND, request=1, offset=3, last_epoch=1), now_ms=1_000)
    receive(voter, a_fetch(voter, THIRD, request=2, offset=3, last_epoch=1), now_ms=1_000)
    assert voter.receive(a_fetch(voter, THIRD, request=3), 1_010)[0] == AdvanceHighWatermark(4)
    answer = one(voter.receive(a_fetch(voter, SECOND, request=4), 1_020), AnswerFetch)
    assert (answer.request, answer.high_watermark, answer.read_to) == (4, 4, 4)
    assert voter.receive(a_fetch(voter, SECOND, request=5), 1_030) == []  # told already: this one waits


def test_a_follower_that_waits_hears_of_a_commit_by_another() -> None:
    voter = a_leader_of_five()
    for replica, request in ((2, 1), (3, 2)):
        voter.receive(a_fetch(voter, replica, request=request, offset=3, last_epoch=1, max_wait_ms=0), 1_000)
    assert voter.receive(a_fetch(voter, 2, request=3), 1_010) == []
    effects = voter.receive(a_fetch(voter, 3, request=4), 1_020)
    assert [type(effect) for effect in effects] == [AdvanceHighWatermark, AnswerFetch, AnswerFetch]
    assert {effect.request for effect in effects if isinstance(effect, AnswerFetch)} == {3, 4}


def a_leader_of_five() -> Voter:
    voter = a_candidate(voters=(1, 2, 3, 4, 5))
    for number in (1, 2):
        voter.receive(VoteAnswered(number, Error.NONE, -1, 2, granted=True), 1_000)
    voter.receive(LogFlushed(4), 1_000)
    return voter


@pytest.mark.parametrize(
    ("changes", "error", "top_level"),
    [
        ({"cluster_id": "another"}, Error.INCONSISTENT_CLUSTER_ID, True),
        ({"epoch": 1, "last_epoch": 1}, Error.FENCED_LEADER_EPOCH, False),
        ({"epoch": 3}, Error.UNKNOWN_LEADER_EPOCH, False),
        ({}, Error.NOT_LEADER_OR_FOLLOWER, False),
    ],
    ids=str,
)
def test_a_follower_refuses_fetches_and_names_the_leader(
    changes: dict[str, Any], error: Error, top_level: bool
) -> None:
    voter = a_follower()
    answer = one(voter.receive(a_fetch(voter, THIRD, **changes), 0), AnswerFetch)
    assert (answer.error, answer.top_level, answer.leader, answer.epoch) == (error, top_level, SECOND, 2)


def test_a_flush_from_before_the_log_was_cut_says_nothing() -> None:
    """It was of other records; what lies there now may not be on disk."""
    voter = a_follower()
    voter.log.end, voter.log.generation = 5, 1
    assert voter.receive(LogFlushed(5, generation=0), 0) == []
    assert voter.log.durable_end == 3
    voter.receive(LogFlushed(5, generation=1), 0)
    assert voter.log.durable_end == 5


# --- snapshots for others ---------------------------------------------------------------------------------

SNAPSHOT = SnapshotId(100, 1)


def with_snapshot() -> Voter:
    log = LogView(start=100, end=100, durable_end=100, epochs=EpochCache([(1, 90)]), snapshots=[SNAPSHOT])
    log.snapshot_sizes = {SNAPSHOT: 50}
    return a_leader(log=log)


def a_piece(voter: Voter, **changes: Any) -> FetchSnapshotReceived:
    return replace(FetchSnapshotReceived(8, CLUSTER, SECOND, voter.epoch, SNAPSHOT, 10, 20), **changes)


def test_a_piece_of_a_snapshot_is_served_and_counts_as_a_sign_of_life() -> None:
    """R-595-05, R-595-08."""
    voter = with_snapshot()
    effects = voter.receive(a_piece(voter), 3_500)
    assert effects[0] == AnswerFetchSnapshot(8, Error.NONE, ME, 2, SNAPSHOT, position=10, max_bytes=20, size=50)
    assert voter.leadership is not None
    assert voter.leadership.check_quorum_deadline_ms == 3_500 + 3_000


@pytest.mark.parametrize(
    ("changes", "error", "top_level"),
    [
        ({"cluster_id": "another"}, Error.INCONSISTENT_CLUSTER_ID, True),
        ({"epoch": 1}, Error.FENCED_LEADER_EPOCH, False),
        ({"epoch": 3}, Error.UNKNOWN_LEADER_EPOCH, False),
        ({"snapshot": SnapshotId(90, 1)}, Error.SNAPSHOT_NOT_FOUND, False),
        ({"snapshot": SnapshotId(0, 0)}, Error.SNAPSHOT_NOT_FOUND, False),
        ({"position": -1}, Error.SNAPSHOT_NOT_FOUND, False),
        ({"position": 50}, Error.SNAPSHOT_NOT_FOUND, False),
    ],
    ids=str,
)
def test_a_piece_that_cannot_be_served_is_refused(changes: dict[str, Any], error: Error, top_level: bool) -> None:
    """98 for what stock answers with 3 or 99: a stock follower ends its process on those."""
    voter = with_snapshot()
    answer = one(voter.receive(a_piece(voter, **changes), 1_000), AnswerFetchSnapshot)
    assert (answer.error, answer.top_level, answer.leader, answer.epoch) == (error, top_level, ME, 2)


def test_a_follower_serves_no_snapshot() -> None:
    voter = a_follower()
    answer = one(voter.receive(a_piece(voter), 0), AnswerFetchSnapshot)
    assert (answer.error, answer.leader) == (Error.NOT_LEADER_OR_FOLLOWER, SECOND)


# --- description ------------------------------------------------------------------------------------------


def test_a_leader_describes_voters_and_observers_by_their_fetches() -> None:
    """R-595-16. A voter that was never heard of has end and times -1; itself is always caught up."""
    voter = a_leader()
    voter.receive(a_fetch(voter, SECOND, request=1), 1_200)
    voter.receive(a_fetch(voter, OBSERVER, request=2, offset=3, last_epoch=1), 1_300)
    described = voter.describe(1_400)
    assert (described.error, described.leader, described.epoch, described.high_watermark) == (Error.NONE, ME, 2, 4)
    assert described.voters == (
        ReplicaState(ME, 4, 1_400, 1_400),
        ReplicaState(SECOND, 4, 1_200, 1_200),
        ReplicaState(THIRD, -1, -1, -1),
    )
    assert described.observers == (ReplicaState(OBSERVER, 3, 1_300, -1),)
    assert voter.describe(1_300 + OBSERVER_FORGOTTEN_AFTER_MS).observers == ()


def test_who_does_not_lead_describes_only_who_does() -> None:
    described = a_follower().describe(0)
    assert (described.error, described.leader, described.voters) == (Error.NOT_LEADER_OR_FOLLOWER, SECOND, ())
    assert started(a_node()).describe(0).leader == -1
