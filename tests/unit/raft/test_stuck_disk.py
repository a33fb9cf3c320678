"""A disk that confirms nothing: its voter does not lead, does not stand, and acknowledges nothing."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.raft.effects import Persist, SendEndQuorumEpoch, SendFetch, SendVote, StopLeading
from migrator.raft.roles import Follower, Leadership, Resigned
from migrator.raft.types import NOBODY, AppendRequested, LogFlushed, Payload, Ticked, VoteAnswered
from migrator.raft.voter import Voter
from migrator.wire.errors import Error
from tests.support.quorum_nodes import (
    ME,
    SECOND,
    THIRD,
    a_candidate,
    a_fetch,
    a_follower,
    a_leader,
    an_answer,
    batches,
    none,
    receive,
)

APPEND = Payload(1, b"batch")
CHECK_QUORUM_MS = 3_000


def hears_its_followers(leader: Voter, now_ms: int) -> None:
    """Both have everything that they are shown, and wait for more."""
    on_disk = leader.log.last_on_disk()
    for replica in (SECOND, THIRD):
        leader.receive(a_fetch(leader, replica, request=100 + replica, offset=on_disk.offset), now_ms)


def a_leader_with_a_flush_under_way(now_ms: int, **settings: Any) -> Voter:
    leader = a_leader(now_ms=1_000, **settings)
    leader.receive(AppendRequested(leader.epoch, (APPEND,)), now_ms)
    return leader


def test_a_leader_whose_disk_confirms_nothing_resigns_though_its_followers_fetch() -> None:
    leader = a_leader_with_a_flush_under_way(2_000)
    for now_ms in range(2_000, 2_000 + CHECK_QUORUM_MS, 500):
        hears_its_followers(leader, now_ms)
        assert none(leader.receive(Ticked(), now_ms), StopLeading)
    effects = leader.receive(Ticked(), 2_000 + CHECK_QUORUM_MS)
    assert StopLeading(leader.epoch) in effects
    assert {each.to for each in effects if isinstance(each, SendEndQuorumEpoch)} == {SECOND, THIRD}


def test_the_time_counts_from_the_order_and_not_from_later_appends() -> None:
    leader = a_leader_with_a_flush_under_way(2_000)
    hears_its_followers(leader, 4_000)
    leader.receive(AppendRequested(leader.epoch, (APPEND,)), 4_500)
    leader.receive(Ticked(), 5_000)
    assert isinstance(leader.role, Resigned)


def test_a_flush_that_ends_gives_the_next_one_the_whole_time() -> None:
    leader = a_leader_with_a_flush_under_way(2_000)
    hears_its_followers(leader, 3_900)
    leader.receive(AppendRequested(leader.epoch, (APPEND,)), 4_000)
    leader.receive(LogFlushed(leader.log.end - 1), 4_900)
    hears_its_followers(leader, 4_900)
    leader.receive(Ticked(), 4_900 + CHECK_QUORUM_MS - 1)
    assert isinstance(leader.role, Leadership)
    assert leader.role.flush_deadline_ms == 4_900 + CHECK_QUORUM_MS


def test_a_leader_of_whose_disk_nothing_is_wanted_goes_on_leading() -> None:
    leader = a_leader(now_ms=1_000)
    for now_ms in range(1_000, 20_000, 1_000):
        hears_its_followers(leader, now_ms)
        leader.receive(Ticked(), now_ms)
    assert isinstance(leader.role, Leadership)


def test_the_first_record_of_an_epoch_counts_as_well() -> None:
    leader = a_candidate(now_ms=1_000)
    leader.receive(VoteAnswered(1, Error.NONE, NOBODY, leader.epoch, granted=True), 1_000)
    role = leader.role
    assert isinstance(role, Leadership)
    hears_its_followers(leader, 3_900)
    leader.receive(Ticked(), 1_000 + CHECK_QUORUM_MS)
    assert isinstance(leader.role, Resigned)


def test_the_only_voter_goes_on_for_there_is_nobody_else() -> None:
    leader = Voter(node_id=ME, voters=(ME,), cluster_id="c", state=a_leader().state, log=a_leader().log)
    leader.become_candidate(0)
    leader.receive(Ticked(), 60_000)
    assert isinstance(leader.role, Leadership)


def test_who_resigned_with_a_stuck_disk_does_not_stand_until_the_disk_answers() -> None:
    leader = a_leader_with_a_flush_under_way(2_000)
    leader.receive(Ticked(), 5_000)
    effects = receive(leader, Ticked(), now_ms=60_000)
    assert isinstance(leader.role, Resigned)
    assert none(effects, Persist, SendVote)
    effects = leader.receive(LogFlushed(leader.log.end), 60_001)
    assert [each for each in effects if isinstance(each, SendVote)]


@pytest.mark.parametrize("pre_vote", [True, False])
def test_a_follower_with_a_stuck_disk_acknowledges_nothing_and_deposes_nobody(pre_vote: bool) -> None:
    follower = a_follower(pre_vote=pre_vote)
    effects = follower.receive(an_answer(follower, batches=batches(3, 2)), 100)
    assert none(effects, SendFetch)
    effects = receive(follower, Ticked(), now_ms=60_000)
    assert isinstance(follower.role, Follower)
    assert none(effects, SendFetch, SendVote, Persist)
    assert follower.next_deadline_ms() is None
    assert follower.receive(LogFlushed(4), 60_001)
