"""One voter, alone: it elects itself, promises nothing that is not on disk, and answers who asks as stock would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.raft.effects import (
    AdvanceHighWatermark,
    AnswerFetch,
    AnswerLeaderClaim,
    AnswerVote,
    Append,
    AppendLeaderChange,
    Effect,
    Flush,
    Lead,
    Persist,
    StopLeading,
)
from migrator.raft.epochs import EpochCache
from migrator.raft.types import (
    NOBODY,
    AppendRequested,
    ElectionState,
    FetchReceived,
    LeaderClaimed,
    LogFlushed,
    Payload,
    RequestDropped,
    SnapshotId,
    Started,
    Stopping,
    Ticked,
    VoteReceived,
)
from migrator.raft.voter import FETCH_WAIT_MAX_MS, LAST_EPOCH, OBSERVER_FORGOTTEN_AFTER_MS, LogView, Voter
from migrator.wire.errors import Error

NODE, CLUSTER, BROKER = 3000, "a cluster", 1


def a_voter(epochs: tuple[int, ...] = (), *, state: ElectionState | None = None, **view: Any) -> Voter:
    """A voter that has just read its disk; `epochs` has the epoch of each record in its log."""
    lineage = EpochCache()
    for offset, epoch in enumerate(epochs):
        lineage.assign(epoch, offset)
    log = LogView(end=len(epochs), durable_end=len(epochs), epochs=lineage, **view)
    chosen = state or ElectionState(max(epochs, default=0))
    return Voter(node_id=NODE, voters=(NODE,), cluster_id=CLUSTER, state=chosen, log=log)


def a_leader(epochs: tuple[int, ...] = (1, 1, 1), **view: Any) -> Voter:
    """Leads epoch max(epochs) + 1; everything up to its first own record is on disk."""
    voter = a_voter(epochs, **view)
    voter.receive(Started(), 0)
    voter.receive(LogFlushed(voter.log.end), 0)
    return voter


def a_fetch(voter: Voter, **changes: Any) -> FetchReceived:
    """From an observer that has everything."""
    ask = FetchReceived(
        request=1,
        cluster_id=CLUSTER,
        replica=BROKER,
        epoch=voter.epoch,
        offset=voter.log.end,
        last_epoch=voter.log.last_epoch,
        max_wait_ms=500,
    )
    return replace(ask, **changes)


def only(effects: list[Effect]) -> AnswerFetch:
    (answer,) = effects
    assert isinstance(answer, AnswerFetch)
    return answer


def an_append(voter: Voter, *counts: int) -> AppendRequested:
    return AppendRequested(voter.epoch, tuple(Payload(count, b"batch") for count in counts))


# --- becoming leader --------------------------------------------------------------------------------------


def test_the_only_voter_votes_for_itself_and_leads_the_next_epoch() -> None:
    """R-595-06: vote and leadership are on disk before anything that depends on them."""
    voter = a_voter((1, 1, 7))
    assert voter.receive(Started(), 0) == [
        Persist(ElectionState(epoch=8, voted_for=NODE)),
        Persist(ElectionState(epoch=8, leader=NODE)),
        AppendLeaderChange(epoch=8, offset=3, leader=NODE, voters=(NODE,), granting=(NODE,)),
        Flush(),
        Lead(epoch=8, start=3),
    ]
    assert (voter.leader, voter.epoch, voter.high_watermark) == (NODE, 8, -1)


@pytest.mark.parametrize(
    ("stored", "led"),
    [
        (ElectionState(epoch=9, voted_for=NODE), 10),
        (ElectionState(epoch=2, leader=NODE), 3),
        (ElectionState(), 3),  # the file was lost; the log knows better
    ],
)
def test_an_epoch_is_never_led_twice(stored: ElectionState, led: int) -> None:
    voter = a_voter((1, 2), state=stored)
    voter.receive(Started(), 0)
    assert voter.epoch == led


def test_a_snapshot_without_a_log_behind_it_still_counts_as_its_epoch() -> None:
    assert a_voter(snapshots=[SnapshotId(100, 6)], state=ElectionState()).epoch == 6


def test_a_voter_stops_well_before_the_last_epoch() -> None:
    """R-595-12."""
    with pytest.raises(AssertionError, match="31-bit"):
        a_voter(state=ElectionState(LAST_EPOCH)).receive(Started(), 0)


def test_several_voters_need_a_source_of_chance() -> None:
    """Without it all would stand for election in the same millisecond, for ever."""
    with pytest.raises(AssertionError, match="chance"):
        Voter(node_id=1, voters=(1, 2, 3), cluster_id=CLUSTER, state=ElectionState(), log=LogView())


# --- appending and committing -----------------------------------------------------------------------------


def test_records_are_committed_when_they_are_on_disk_and_not_before() -> None:
    voter = a_leader()
    first = an_append(voter, 2, 3)
    assert voter.receive(first, 0) == [Append(2, 4, first.payloads), Flush()]
    second = an_append(voter, 1)
    assert voter.receive(second, 0) == [Append(2, 9, second.payloads), Flush()]
    assert voter.high_watermark == 4
    assert voter.receive(LogFlushed(9), 0) == [AdvanceHighWatermark(9)]
    assert voter.receive(LogFlushed(9), 0) == []
    assert voter.receive(LogFlushed(10), 0) == [AdvanceHighWatermark(10)]


def test_nothing_of_earlier_epochs_is_committed_before_the_own_epoch_has_begun_on_disk() -> None:
    voter = a_voter((1, 1, 1))
    voter.receive(Started(), 0)
    assert voter.receive(LogFlushed(3), 0) == []
    assert voter.high_watermark == -1
    assert voter.receive(LogFlushed(4), 0) == [AdvanceHighWatermark(4)]


@given(st.lists(st.one_of(st.integers(1, 5), st.just("flush")), max_size=30), st.data())
def test_the_high_watermark_is_exactly_what_is_on_disk_and_never_goes_back(
    steps: list[Any], data: st.DataObject
) -> None:
    voter = a_leader()
    durable, told = voter.log.end, voter.high_watermark
    for step in steps:
        if step == "flush":
            durable = data.draw(st.integers(durable, voter.log.end))
            for effect in voter.receive(LogFlushed(durable), 0):
                assert isinstance(effect, AdvanceHighWatermark)
                assert effect.offset > told
                told = effect.offset
        else:
            assert voter.receive(an_append(voter, step), 0)[-1] == Flush()
        assert voter.high_watermark == told == durable


def test_an_append_for_another_epoch_is_our_own_fault_and_stops_the_node() -> None:
    voter = a_leader()
    with pytest.raises(AssertionError, match="append for epoch 1, this is 2"):
        voter.receive(AppendRequested(1, (Payload(1, b"late"),)), 0)
    with pytest.raises(AssertionError, match="flushed to 99"):
        voter.receive(LogFlushed(99), 0)


# --- fetches ----------------------------------------------------------------------------------------------


def test_a_fetch_returns_every_record_on_disk_at_once() -> None:
    """R-595-02: from the offset asked to the end; what a crash could take back is not shown."""
    voter = a_leader()
    voter.receive(an_append(voter, 5), 0)
    answer = only(voter.receive(a_fetch(voter, offset=1, last_epoch=1), 0))
    assert (answer.read_from, answer.read_to, answer.error) == (1, 4, Error.NONE)
    assert (answer.leader, answer.epoch, answer.high_watermark) == (NODE, 2, 4)


@pytest.mark.parametrize(
    ("changes", "error", "top_level"),
    [
        ({"cluster_id": "another"}, Error.INCONSISTENT_CLUSTER_ID, True),
        ({"cluster_id": "another", "epoch": 1}, Error.INCONSISTENT_CLUSTER_ID, True),
        ({"offset": -1}, Error.INVALID_REQUEST, True),
        ({"max_wait_ms": -1}, Error.INVALID_REQUEST, True),
        ({"last_epoch": -1}, Error.INVALID_REQUEST, True),
        ({"last_epoch": 3}, Error.INVALID_REQUEST, True),
        ({"epoch": 1, "last_epoch": 1}, Error.FENCED_LEADER_EPOCH, False),
        ({"epoch": 3}, Error.UNKNOWN_LEADER_EPOCH, False),
    ],
    ids=str,
)
def test_a_fetch_that_is_not_in_order_is_refused_and_nothing_is_noted(
    changes: dict[str, Any], error: Error, top_level: bool
) -> None:
    """Partition-level INVALID_REQUEST would end a stock process, so that one is always at the top."""
    voter = a_leader()
    answer = only(voter.receive(a_fetch(voter, **changes), 0))
    assert (answer.error, answer.top_level, answer.read_from) == (error, top_level, None)
    assert (answer.leader, answer.epoch) == (NODE, 2)
    assert voter.observers(0) == {}


def test_a_reader_that_does_not_say_which_cluster_is_served() -> None:
    voter = a_leader()
    assert only(voter.receive(a_fetch(voter, cluster_id=None, offset=0, last_epoch=0), 0)).error is Error.NONE


def test_before_it_leads_and_after_it_stopped_a_voter_serves_nobody() -> None:
    voter = a_voter((1,))
    assert only(voter.receive(a_fetch(voter), 0)).error is Error.NOT_LEADER_OR_FOLLOWER
    assert voter.observers(0) == {}
    assert voter.receive(Stopping(), 0) == []


def test_a_reader_that_has_everything_waits_until_something_is_on_disk() -> None:
    voter = a_leader()
    assert voter.receive(a_fetch(voter, max_wait_ms=500), 1_000) == []
    assert voter.next_deadline_ms() == 1_500
    voter.receive(an_append(voter, 3), 1_100)
    assert voter.receive(Ticked(), 1_200) == []  # appended, but not flushed
    advanced, answer = voter.receive(LogFlushed(7), 1_300)
    assert advanced == AdvanceHighWatermark(7)
    assert isinstance(answer, AnswerFetch)
    assert (answer.read_from, answer.read_to, answer.high_watermark) == (4, 7, 7)
    assert voter.next_deadline_ms() is None


def test_a_wait_ends_by_itself_and_tells_how_far_everything_is_committed() -> None:
    voter = a_leader()
    voter.receive(a_fetch(voter, max_wait_ms=500), 1_000)
    assert voter.receive(Ticked(), 1_499) == []
    answer = only(voter.receive(Ticked(), 1_500))
    assert (answer.error, answer.read_to, answer.high_watermark) == (Error.NONE, 4, 4)
    assert only(voter.receive(a_fetch(voter, max_wait_ms=0), 2_000)).error is Error.NONE


def test_no_reader_is_kept_waiting_for_ever_and_a_lost_one_is_forgotten() -> None:
    voter = a_leader()
    voter.receive(a_fetch(voter, request=1, max_wait_ms=10**9), 1_000)
    voter.receive(a_fetch(voter, request=2), 1_000)
    voter.receive(RequestDropped(2), 1_000)
    assert voter.next_deadline_ms() == 1_000 + FETCH_WAIT_MAX_MS
    assert only(voter.receive(Stopping(), 0)[:1]).request == 1


def test_whoever_waits_is_answered_before_the_voter_stops() -> None:
    voter = a_leader()
    voter.receive(a_fetch(voter), 0)
    answer, stopped = voter.receive(Stopping(), 0)
    assert isinstance(answer, AnswerFetch)
    assert answer.error is Error.BROKER_NOT_AVAILABLE
    assert stopped == StopLeading(2)
    assert only(voter.receive(a_fetch(voter), 0)).error is Error.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("offset", "last_epoch", "agreed"),
    [
        (6, 3, (3, 4)),  # it has more of epoch 3 than we have
        (9, 4, (3, 4)),  # an epoch that never reached us
        (6, 1, (1, 2)),  # it went on in epoch 1 where we have epoch 3
        (5, 5, (5, 5)),  # exactly what we have: no divergence
        (7, 5, (5, 6)),  # more of our own epoch than we wrote
    ],
)
def test_a_reader_with_another_history_learns_how_far_the_logs_agree(
    offset: int, last_epoch: int, agreed: tuple[int, int]
) -> None:
    """R-595-07. The leader's log: two records each of epochs 1 and 3, then two of its own epoch 5."""
    voter = a_leader((1, 1, 3, 3, 5))
    voter.state = replace(voter.state, epoch=6)
    voter.log = LogView(end=6, durable_end=6, epochs=EpochCache([(1, 0), (3, 2), (5, 4)]))
    answer = only(voter.receive(a_fetch(voter, offset=offset, last_epoch=last_epoch), 0))
    if offset == 5:
        assert (answer.diverging_epoch, answer.read_from, answer.read_to) == (-1, 5, 6)
    else:
        assert (answer.diverging_epoch, answer.diverging_end) == agreed
        assert answer.read_from is None
        assert voter.observers(0) == {}


def truncated(log: list[int], epoch: int, end: int) -> list[int]:
    """What a stock replica keeps of its log when it is told that epoch `epoch` ended at `end`."""
    if epoch == 0:
        return log[:end]
    known = [each for each in log if each <= epoch]
    return log[: min(end, len(known))] if known and known[-1] == epoch else log[: len(known)]


@st.composite
def two_histories(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """A leader's log and a replica's, which part somewhere as they can under Raft: one leader for each epoch."""
    leader = draw(st.lists(st.integers(1, 8), max_size=10).map(sorted))
    common = draw(st.integers(0, len(leader)))
    last = leader[common - 1] if common else 0
    goes_on = common < len(leader) and leader[common] == last
    foreign = [each for each in range(max(last, 1), 10) if each not in leader or (each == last and not goes_on)]
    own = draw(st.lists(st.sampled_from(foreign), max_size=8).map(sorted)) if foreign else []
    return leader, [*leader[:common], *own]


@settings(max_examples=300)
@given(two_histories())
def test_any_diverged_replica_finds_back_to_the_log_of_the_leader(histories: tuple[list[int], list[int]]) -> None:
    """R-595-07: in few rounds, and without losing a record that both have."""
    leaders_log, log = histories
    voter = a_leader(tuple(leaders_log), state=ElectionState(10))
    for _ in range(20):
        answer = only(
            voter.receive(
                a_fetch(voter, offset=len(log), last_epoch=max(log, default=0), max_wait_ms=0),
                0,
            )
        )
        if answer.diverging_epoch < 0:
            break
        log = truncated(log, answer.diverging_epoch, answer.diverging_end)
    whole = [*leaders_log, voter.epoch]
    assert log == whole[: len(log)]
    assert answer.read_from == len(log)
    assert answer.read_to == len(whole)


@pytest.mark.parametrize(
    ("offset", "last_epoch", "sent_there"),
    [(0, 0, True), (50, 2, True), (100, 1, True), (100, 2, False), (120, 3, False)],
)
def test_a_reader_from_before_the_log_begins_is_sent_to_the_newest_snapshot(
    offset: int, last_epoch: int, sent_there: bool
) -> None:
    """R-595-08."""
    oldest, newest = SnapshotId(100, 2), SnapshotId(130, 3)
    voter = a_leader((), state=ElectionState(3))
    lineage = EpochCache([(2, 90), (3, 110), (4, 149)])
    voter.log = LogView(start=100, end=150, durable_end=150, epochs=lineage, snapshots=[oldest, newest])
    answer = only(voter.receive(a_fetch(voter, offset=offset, last_epoch=last_epoch), 0))
    assert answer.snapshot == (newest if sent_there else None)
    assert (answer.read_from is None) == sent_there


# --- who reads --------------------------------------------------------------------------------------------


def test_observers_are_described_by_their_own_fetches_until_they_fall_silent() -> None:
    voter = a_leader()
    voter.receive(a_fetch(voter, request=1, offset=0, last_epoch=0), 1_000)
    voter.receive(a_fetch(voter, request=2, offset=4), 2_000)
    voter.receive(a_fetch(voter, request=3, replica=-1, offset=0, last_epoch=0), 2_000)  # a mere reader
    voter.receive(a_fetch(voter, request=4, replica=NODE, offset=0, last_epoch=0), 2_000)
    (seen,) = voter.observers(3_000).items()
    assert seen[0] == BROKER
    assert (seen[1].end, seen[1].last_fetch_ms, seen[1].last_caught_up_ms) == (4, 2_000, 2_000)
    assert voter.observers(2_000 + OBSERVER_FORGOTTEN_AFTER_MS) == {}


def test_a_reader_counts_as_caught_up_when_it_reached_what_was_the_end_at_its_fetch_before() -> None:
    voter = a_leader()
    voter.receive(a_fetch(voter, request=1, offset=0, last_epoch=0), 1_000)  # the log ends at 4
    voter.receive(an_append(voter, 6), 1_500)
    voter.receive(LogFlushed(10), 1_500)
    voter.receive(a_fetch(voter, request=2, offset=4), 2_000)
    assert voter.observers(2_000)[BROKER].last_caught_up_ms == 1_000
    voter.receive(a_fetch(voter, request=3, offset=7), 3_000)  # 10 was the end by then
    assert voter.observers(3_000)[BROKER].last_caught_up_ms == 1_000


# --- other voters that should not exist -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cluster_id", "epoch", "error", "top_level"),
    [
        ("another", 9, Error.INCONSISTENT_CLUSTER_ID, True),
        (CLUSTER, 1, Error.FENCED_LEADER_EPOCH, False),
        (CLUSTER, 2, Error.INVALID_VOTER_KEY, False),
        (None, 2**31 - 1, Error.INVALID_VOTER_KEY, False),
    ],
)
def test_nobody_else_is_elected_or_moves_our_epoch(
    cluster_id: str | None, epoch: int, error: Error, top_level: bool
) -> None:
    """R-595-13: a stranger, whatever epoch it names, disturbs nothing."""
    voter = a_leader()
    before = voter.state
    ask = VoteReceived(5, cluster_id, NODE, candidate=7, epoch=epoch, last_epoch=9, last_offset=10**6)
    assert voter.receive(ask, 0) == [AnswerVote(5, error, NODE, 2, granted=False, top_level=top_level)]
    claim = LeaderClaimed(6, cluster_id, leader=7, epoch=epoch)
    assert voter.receive(claim, 0) == [AnswerLeaderClaim(6, error, NODE, 2, top_level=top_level)]
    assert voter.state == before
    assert NOBODY not in (voter.leader, voter.high_watermark)
