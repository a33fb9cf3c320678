"""Votes, candidates, leaders that come and go: one event at a time, by the rules of KIP-595."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.raft.effects import (
    Announce,
    AnswerFetch,
    AnswerLeaderClaim,
    AnswerVote,
    AppendLeaderChange,
    Effect,
    Flush,
    Lead,
    Persist,
    SendBeginQuorumEpoch,
    SendEndQuorumEpoch,
    SendFetch,
    SendVote,
    Standing,
    StopLeading,
)
from migrator.raft.quorum import LAST_EPOCH
from migrator.raft.roles import Candidate, Follower, Prospective, Resigned, Unattached
from migrator.raft.types import (
    NO_DIRECTORY,
    NOBODY,
    ElectionState,
    FetchAnswered,
    LeaderClaimAnswered,
    LeaderLeft,
    LogFlushed,
    RequestFailed,
    ResignRequested,
    Started,
    Stopping,
    Ticked,
    VoteAnswered,
    VotersUnfit,
)
from migrator.wire.errors import Error
from tests.support.quorum_nodes import (
    ME,
    OBSERVER,
    SECOND,
    STRANGER,
    THIRD,
    VOTERS,
    a_candidate,
    a_claim,
    a_fetch,
    a_follower,
    a_leader,
    a_log,
    a_node,
    a_vote_request,
    an_answer,
    none,
    one,
    receive,
    started,
    under_way,
)

# --- the start --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "standing", "epoch", "leader"),
    [
        (ElectionState(), Standing.UNATTACHED, 1, NOBODY),  # the file was lost; the log knows its epoch
        (ElectionState(4), Standing.UNATTACHED, 4, NOBODY),
        (ElectionState(4, leader=SECOND), Standing.FOLLOWER, 4, SECOND),
        (ElectionState(4, leader=STRANGER), Standing.UNATTACHED, 4, STRANGER),
        (ElectionState(4, leader=ME), Standing.RESIGNED, 4, ME),
        (ElectionState(4, voted_for=ME), Standing.CANDIDATE, 4, NOBODY),
        (ElectionState(4, voted_for=SECOND), Standing.VOTED, 4, NOBODY),
    ],
)
def test_a_node_takes_up_the_role_that_its_stored_state_leaves_open(
    stored: ElectionState, standing: Standing, epoch: int, leader: int
) -> None:
    """R-595-06. Source: `QuorumState.initialize`."""
    voter = a_node(state=stored)
    effects = voter.receive(Started(), 0)
    assert (voter.standing, voter.epoch, voter.leader) == (standing, epoch, leader)
    assert none(effects, Persist, Lead)


def test_a_leader_that_comes_back_neither_leads_nor_votes_in_its_epoch_again() -> None:
    """It may have lost records that it had written and not synced. After an election timeout it stands again."""
    voter = started(a_node(state=ElectionState(4, leader=ME)))
    assert not one(voter.receive(a_vote_request(epoch=4), 10), AnswerVote).granted
    assert voter.next_deadline_ms() == 1_000
    effects = voter.receive(Ticked(), 1_000)
    assert effects[0] == Persist(ElectionState(5, voted_for=ME))
    assert sum(isinstance(effect, SendVote) for effect in effects) == 2


def test_a_candidate_that_comes_back_asks_again_in_the_same_epoch() -> None:
    voter = a_node(state=ElectionState(4, voted_for=ME))
    effects = voter.receive(Started(), 0)
    asked = [effect for effect in effects if isinstance(effect, SendVote)]
    assert [(each.to, each.epoch, each.last_epoch, each.last_offset) for each in asked] == [
        (SECOND, 4, 1, 3),
        (THIRD, 4, 1, 3),
    ]
    assert none(effects, Persist)


# --- standing ---------------------------------------------------------------------------------------------


def test_a_voter_that_hears_of_no_leader_stands_and_its_vote_is_on_disk_before_it_asks() -> None:
    """R-595-06."""
    voter = started(a_node())
    assert voter.next_deadline_ms() == 1_000
    assert voter.receive(Ticked(), 999) == []
    assert voter.receive(Ticked(), 1_000) == [
        Persist(ElectionState(2, voted_for=ME)),
        SendVote(1, SECOND, 2, ME, last_epoch=1, last_offset=3),
        SendVote(2, THIRD, 2, ME, last_epoch=1, last_offset=3),
        Announce(Standing.CANDIDATE, 2, NOBODY),
    ]


def test_election_timeouts_are_drawn_between_one_and_two_times_the_setting() -> None:
    """R-595-11."""
    assert started(a_node(chance=lambda n: n - 1)).next_deadline_ms() == 1_999
    follower = a_follower(chance=lambda n: n - 1)
    assert isinstance(follower.role, Follower)
    assert follower.role.fetch_deadline_ms == 2_000 + 499


def test_a_voter_stands_when_its_log_is_on_its_disk_and_not_before() -> None:
    """It could lose the rest in a crash, and would then be voted for again in the same epoch without it."""
    voter = started(a_node(log=a_log((1, 1, 2, 2), durable_end=2), state=ElectionState(2)))
    assert none(voter.receive(Ticked(), 1_000), SendVote)
    assert voter.next_deadline_ms() is None
    asked = [effect for effect in voter.receive(LogFlushed(4), 1_000) if isinstance(effect, SendVote)]
    assert {(each.last_epoch, each.last_offset) for each in asked} == {(2, 4)}


def test_a_majority_elects_and_the_leader_opens_its_epoch_before_anything_else() -> None:
    """R-595-04, R-595-06."""
    voter = a_candidate()
    effects = voter.receive(VoteAnswered(2, Error.NONE, NOBODY, 2, granted=True), 1_050)
    assert effects == [
        Persist(ElectionState(2, leader=ME)),
        AppendLeaderChange(epoch=2, offset=3, leader=ME, voters=VOTERS, granting=(ME, THIRD)),
        Flush(),
        Lead(epoch=2, start=3),
        SendBeginQuorumEpoch(3, SECOND, 2, ME),
        SendBeginQuorumEpoch(4, THIRD, 2, ME),
    ]


def test_of_five_voters_three_must_agree() -> None:
    voter = a_candidate(voters=(1, 2, 3, 4, 5))
    voter.receive(VoteAnswered(1, Error.NONE, NOBODY, 2, granted=True), 1_050)
    assert voter.leadership is None
    voter.receive(VoteAnswered(2, Error.NONE, NOBODY, 2, granted=True), 1_050)
    assert voter.leadership is not None


def test_a_repeated_or_late_vote_counts_once_or_not_at_all() -> None:
    voter = a_candidate(voters=(1, 2, 3, 4, 5))
    yes = VoteAnswered(1, Error.NONE, NOBODY, 2, granted=True)
    receive(voter, yes, yes, yes, now_ms=1_050)
    assert voter.leadership is None
    voter.receive(a_claim(epoch=3), 1_060)
    assert voter.receive(VoteAnswered(2, Error.NONE, NOBODY, 2, granted=True), 1_070) == []
    assert voter.leader == SECOND


def test_a_lost_election_is_tried_again_after_a_pause() -> None:
    """Source: `KafkaRaftClient.pollCandidate`; a pause of 0 or 100 ms at first, then up to twice as long each time."""
    voter = a_candidate(chance=lambda n: n - 1)
    assert isinstance(voter.role, Candidate)
    now_ms = 1_010
    for number in (1, 2):
        voter.receive(VoteAnswered(number, Error.NONE, NOBODY, 2, granted=False), now_ms)
    assert voter.role.backoff_until_ms == now_ms + 100
    assert none(voter.receive(Ticked(), now_ms + 99), SendVote)
    effects = voter.receive(Ticked(), now_ms + 100)
    assert effects[0] == Persist(ElectionState(3, voted_for=ME))
    assert isinstance(voter.role, Candidate)
    assert voter.role.retries == 2


def test_an_election_without_answers_ends_with_its_timeout_and_is_tried_again() -> None:
    voter = a_candidate()
    assert none(voter.receive(Ticked(), 1_999), Persist)
    effects = voter.receive(Ticked(), 2_000) + voter.receive(Ticked(), 2_000)
    assert one(effects, Persist).state == ElectionState(3, voted_for=ME)


def test_who_did_not_answer_is_asked_again_after_a_pause() -> None:
    voter = a_candidate()
    assert none(voter.receive(RequestFailed(1), 1_010), SendVote)
    assert one(voter.receive(Ticked(), 1_030), SendVote).to == SECOND
    assert none(voter.receive(RequestFailed(1), 1_031), SendVote)  # was given up long ago


@pytest.mark.parametrize(
    "error",
    [Error.INVALID_VOTER_KEY, Error.BROKER_NOT_AVAILABLE, Error.UNKNOWN_LEADER_EPOCH, Error.UNSUPPORTED_VERSION],
)
def test_an_error_in_place_of_a_vote_is_no_vote_and_no_rejection(error: Error) -> None:
    voter = a_candidate()
    voter.receive(VoteAnswered(1, error, NOBODY, 2, granted=True), 1_010)
    assert isinstance(voter.role, Candidate)
    assert (voter.role.granted, voter.role.rejected) == ({ME}, set())
    assert one(voter.receive(Ticked(), 1_030), SendVote).to == SECOND


def test_a_candidate_that_hears_of_a_higher_epoch_or_of_a_leader_gives_up() -> None:
    voter = a_candidate()
    effects = voter.receive(VoteAnswered(1, Error.FENCED_LEADER_EPOCH, NOBODY, 8, granted=False), 1_010)
    assert effects == [Persist(ElectionState(8)), Announce(Standing.UNATTACHED, 8, NOBODY)]
    voter = a_candidate()
    effects = voter.receive(VoteAnswered(1, Error.NONE, THIRD, 2, granted=False), 1_010)
    assert effects[0] == Persist(ElectionState(2, leader=THIRD))
    assert one(effects, SendFetch).to == THIRD


def test_an_unattached_voter_does_not_wait_longer_because_others_raise_the_epoch() -> None:
    """Otherwise a node that stands again and again would keep all others from standing (R-595-13)."""
    voter = started(a_node())
    voter.receive(a_vote_request(epoch=5, last_epoch=0, last_offset=0), 900)
    assert (voter.epoch, voter.next_deadline_ms()) == (5, 1_000)


def test_an_epoch_near_its_end_stops_the_node() -> None:
    """R-595-12."""
    voter = started(a_node(state=ElectionState(LAST_EPOCH)))
    with pytest.raises(AssertionError, match="31-bit"):
        voter.receive(Ticked(), 1_000)
    assert (
        one(started(a_node()).receive(a_vote_request(epoch=LAST_EPOCH + 1), 0), AnswerVote).error
        is Error.INVALID_REQUEST
    )


# --- giving votes -----------------------------------------------------------------------------------------


def test_a_vote_is_on_disk_before_it_is_given() -> None:
    """R-595-06. The higher epoch is taken over first, as its own promise."""
    voter = started(a_node())
    assert voter.receive(a_vote_request(), 10) == [
        Persist(ElectionState(2)),
        Persist(ElectionState(2, voted_for=SECOND)),
        AnswerVote(5, Error.NONE, NOBODY, 2, granted=True),
        Announce(Standing.VOTED, 2, NOBODY),
    ]
    assert voter.next_deadline_ms() == 10 + 1_000  # a whole timeout for the candidate


def test_the_same_candidate_is_given_the_same_vote_again_and_no_other_is() -> None:
    voter = started(a_node())
    voter.receive(a_vote_request(), 10)
    assert voter.receive(a_vote_request(request=6), 20) == [AnswerVote(6, Error.NONE, NOBODY, 2, granted=True)]
    refused = voter.receive(a_vote_request(candidate=THIRD, last_epoch=1, last_offset=99), 30)
    assert refused == [AnswerVote(5, Error.NONE, NOBODY, 2, granted=False)]


@pytest.mark.parametrize(
    ("last_epoch", "last_offset", "granted"),
    [(1, 3, True), (1, 4, True), (1, 2, False), (0, 400, False), (2, 0, True)],
)
def test_a_vote_is_given_only_to_a_log_that_is_at_least_as_good(
    last_epoch: int, last_offset: int, granted: bool
) -> None:
    """By epoch, then by length: ours has three records of epoch 1. The higher epoch is kept in any case."""
    voter = started(a_node())
    effects = voter.receive(a_vote_request(epoch=3, last_epoch=last_epoch, last_offset=last_offset), 0)
    assert one(effects, AnswerVote).granted == granted
    assert voter.state == ElectionState(3, voted_for=SECOND if granted else NOBODY)


@pytest.mark.parametrize("make", [a_follower, a_leader, a_candidate], ids=lambda make: make.__name__)
def test_who_follows_leads_or_stands_gives_no_vote_in_its_epoch(make: Any) -> None:
    voter = make()
    answer = one(voter.receive(a_vote_request(candidate=THIRD, last_offset=99), 1_000), AnswerVote)
    assert (answer.error, answer.granted, answer.epoch) == (Error.NONE, False, 2)


@pytest.mark.parametrize(
    ("changes", "error", "top_level"),
    [
        ({"cluster_id": "another"}, Error.INCONSISTENT_CLUSTER_ID, True),
        ({"epoch": 0, "last_epoch": 0}, Error.FENCED_LEADER_EPOCH, False),
        ({"candidate": -2}, Error.INVALID_REQUEST, True),
        ({"candidate": STRANGER}, Error.INVALID_VOTER_KEY, False),
        ({"candidate": ME}, Error.INVALID_VOTER_KEY, False),
        ({"last_offset": -1}, Error.INVALID_REQUEST, True),
        ({"last_epoch": -1}, Error.INVALID_REQUEST, True),
        ({"last_epoch": 2}, Error.INVALID_REQUEST, True),
    ],
    ids=str,
)
def test_a_vote_request_that_is_not_in_order_is_refused_and_changes_nothing(
    changes: dict[str, Any], error: Error, top_level: bool
) -> None:
    """R-595-13: a stranger cannot raise our epoch. A partition-level 42 would end a stock candidate."""
    voter = started(a_node())
    before = voter.state
    (answer,) = voter.receive(a_vote_request(**changes), 0)
    assert answer == AnswerVote(5, error, NOBODY, 1, granted=False, top_level=top_level)
    assert voter.state == before


@pytest.mark.parametrize("key", [{"voter": THIRD}, {"voter_directory": b"\1" * 16}], ids=str)
def test_a_vote_request_for_another_replica_is_refused_after_its_epoch_is_taken_over(key: dict[str, Any]) -> None:
    """The order of stock: epoch first, then the key."""
    voter = started(a_node())
    answer = one(voter.receive(a_vote_request(**key), 0), AnswerVote)
    assert (answer.error, answer.granted, voter.state) == (Error.INVALID_VOTER_KEY, False, ElectionState(2))


def test_a_vote_request_of_the_first_version_names_no_replica() -> None:
    voter = started(a_node())
    ask = a_vote_request(voter=NOBODY, voter_directory=NO_DIRECTORY, cluster_id=None)
    assert one(voter.receive(ask, 0), AnswerVote).granted


def test_a_leader_that_hears_of_a_higher_epoch_stops_before_it_answers_anybody() -> None:
    voter = a_leader()
    voter.receive(a_fetch(voter, request=40), 1_000)
    effects = voter.receive(a_vote_request(epoch=3, last_epoch=2, last_offset=4), 1_100)
    assert effects == [
        Persist(ElectionState(3)),
        AnswerFetch(40, Error.NOT_LEADER_OR_FOLLOWER, NOBODY, 3, 4, 0),
        StopLeading(2),
        Persist(ElectionState(3, voted_for=SECOND)),
        AnswerVote(5, Error.NONE, NOBODY, 3, granted=True),
        Announce(Standing.VOTED, 3, NOBODY),
    ]


# --- pre-votes of Kafka 4 ---------------------------------------------------------------------------------


def test_a_pre_vote_promises_nothing() -> None:
    """KIP-996: granted to as many as ask, and nothing of it is stored."""
    voter = started(a_node(state=ElectionState(2)))
    for candidate in (SECOND, THIRD):
        ask = a_vote_request(candidate=candidate, pre_vote=True)
        assert voter.receive(ask, 0) == [AnswerVote(5, Error.NONE, NOBODY, 2, granted=True)]
    assert voter.state == ElectionState(2)


@pytest.mark.parametrize(("fetched", "granted"), [(False, True), (True, False)])
def test_a_follower_grants_a_pre_vote_only_while_its_leader_never_answered(fetched: bool, granted: bool) -> None:
    voter = a_follower()
    if fetched:
        voter.receive(an_answer(voter), 10)
    assert one(voter.receive(a_vote_request(candidate=THIRD, pre_vote=True), 20), AnswerVote).granted == granted


def test_a_leader_grants_no_pre_vote_and_nobody_grants_one_to_a_worse_log() -> None:
    leader = a_leader()
    assert not one(leader.receive(a_vote_request(pre_vote=True, last_offset=99), 1_000), AnswerVote).granted
    voter = started(a_node())
    assert not one(voter.receive(a_vote_request(pre_vote=True, last_offset=2), 0), AnswerVote).granted


def test_the_last_epoch_of_a_pre_vote_may_be_the_epoch_that_its_sender_is_in() -> None:
    voter = started(a_node((1, 1, 2), state=ElectionState(2)))
    ask = a_vote_request(epoch=2, last_epoch=2, last_offset=3, pre_vote=True)
    assert one(voter.receive(ask, 0), AnswerVote).granted
    assert one(voter.receive(a_vote_request(epoch=2, last_epoch=3, pre_vote=True), 0), AnswerVote).top_level


# --- a leader begins --------------------------------------------------------------------------------------


def test_who_is_told_of_a_leader_follows_and_fetches() -> None:
    """R-595-04."""
    voter = started(a_node())
    assert voter.receive(a_claim(), 10) == [
        Persist(ElectionState(2, leader=SECOND)),
        AnswerLeaderClaim(6, Error.NONE, SECOND, 2),
        SendFetch(1, SECOND, ME, epoch=2, offset=3, last_epoch=1, max_wait_ms=500),
        Announce(Standing.FOLLOWER, 2, SECOND),
    ]


def test_a_repeated_claim_gives_the_leader_no_more_time() -> None:
    """A leader that can send and not be asked must not hold its followers for ever (R-595-13)."""
    voter = a_follower()
    assert voter.receive(a_claim(), 1_900) == [AnswerLeaderClaim(6, Error.NONE, SECOND, 2)]
    assert isinstance(voter.role, Follower)
    assert voter.role.fetch_deadline_ms == 2_000


@pytest.mark.parametrize(
    ("changes", "error", "top_level"),
    [
        ({"cluster_id": "another"}, Error.INCONSISTENT_CLUSTER_ID, True),
        ({"epoch": 0}, Error.FENCED_LEADER_EPOCH, False),
        ({"leader": -1}, Error.INVALID_REQUEST, True),
        ({"leader": STRANGER}, Error.INVALID_VOTER_KEY, False),
        ({"leader": ME}, Error.INVALID_VOTER_KEY, False),
    ],
    ids=str,
)
def test_a_claim_that_is_not_in_order_is_refused_and_changes_nothing(
    changes: dict[str, Any], error: Error, top_level: bool
) -> None:
    """For BeginQuorumEpoch and EndQuorumEpoch alike."""
    voter = started(a_node())
    claim = a_claim(**changes)
    expected = [AnswerLeaderClaim(6, error, NOBODY, 1, top_level=top_level)]
    assert voter.receive(claim, 0) == expected
    assert voter.receive(LeaderLeft(6, claim.cluster_id, claim.leader, claim.epoch, (ME,)), 0) == expected
    assert voter.state == ElectionState(1)


def test_a_claim_for_another_replica_is_refused_after_its_epoch_is_taken_over() -> None:
    voter = started(a_node())
    answer = one(voter.receive(a_claim(voter=THIRD), 0), AnswerLeaderClaim)
    assert (answer.error, voter.leader) == (Error.INVALID_VOTER_KEY, SECOND)


def test_two_leaders_of_one_epoch_stop_the_node() -> None:
    with pytest.raises(AssertionError, match="two leaders"):
        a_follower().receive(a_claim(leader=THIRD), 0)
    voter = started(a_node())
    voter.receive(a_vote_request(), 0)
    number = 77
    assert voter.receive(FetchAnswered(number, Error.NONE, ME, 2, 0), 0) == []  # asked nothing: not even read


def test_a_node_that_is_called_leader_and_does_not_know_of_it_stops() -> None:
    """Its election state was lost; to go on could mean to vote twice."""
    voter = a_candidate()
    with pytest.raises(AssertionError, match="does not know"):
        voter.receive(VoteAnswered(1, Error.NONE, ME, 9, granted=False), 1_010)


def test_a_leader_tells_again_who_does_not_fetch_and_leaves_the_others_in_peace() -> None:
    """R-595-04: a fetch is an endorsement."""
    voter = a_leader()
    for number in list(voter.requests._under_way.values()):
        voter.receive(LeaderClaimAnswered(number[0], Error.NONE, ME, 2), 1_010)
    voter.receive(a_fetch(voter, SECOND, offset=3, last_epoch=1), 1_900)
    assert one(voter.receive(Ticked(), 2_000), SendBeginQuorumEpoch).to == THIRD


def test_a_voter_that_refused_the_claim_is_told_again_soon() -> None:
    voter = a_leader()
    number = voter.requests._under_way[SECOND][0]
    assert none(
        voter.receive(LeaderClaimAnswered(number, Error.BROKER_NOT_AVAILABLE, ME, 2), 1_010), SendBeginQuorumEpoch
    )
    assert one(voter.receive(Ticked(), 1_030), SendBeginQuorumEpoch).to == SECOND


# --- a leader ends ----------------------------------------------------------------------------------------


def test_a_leader_that_nobody_asks_resigns_after_one_and_a_half_fetch_timeouts() -> None:
    """R-595-05. Nothing is stored: it is still the only leader that its epoch can have."""
    voter = a_leader()
    voter.receive(a_fetch(voter, THIRD, offset=3, last_epoch=1), 1_500)
    assert none(voter.receive(Ticked(), 4_499), StopLeading)
    effects = voter.receive(Ticked(), 4_500)
    assert none(effects, Persist)
    assert one(effects, StopLeading) == StopLeading(2)
    sent = [effect for effect in effects if isinstance(effect, SendEndQuorumEpoch)]
    assert [(each.to, each.successors) for each in sent] == [(THIRD, (THIRD, SECOND)), (SECOND, (THIRD, SECOND))]
    assert (voter.standing, voter.leader) == (Standing.RESIGNED, ME)
    assert one(voter.receive(a_fetch(voter), 4_510), AnswerFetch).error is Error.NOT_LEADER_OR_FOLLOWER


def test_one_of_four_others_is_not_a_majority() -> None:
    """R-595-05: with five voters the leader and one follower are two."""
    voter = a_candidate(voters=(1, 2, 3, 4, 5))
    receive(voter, *(VoteAnswered(each, Error.NONE, NOBODY, 2, granted=True) for each in (1, 2)), now_ms=1_000)
    for now_ms in (2_000, 3_000, 3_999):
        voter.receive(a_fetch(voter, SECOND, offset=3, last_epoch=1, max_wait_ms=0), now_ms)
    assert one(voter.receive(Ticked(), 4_000), StopLeading)


def test_an_observer_does_not_keep_a_leader_in_office() -> None:
    voter = a_leader()
    voter.receive(a_fetch(voter, OBSERVER, max_wait_ms=0), 3_900)
    assert one(voter.receive(Ticked(), 4_000), StopLeading)


def test_a_resigned_leader_tells_until_it_is_heard_and_stands_again_in_the_end() -> None:
    voter = a_leader()
    effects = voter.receive(ResignRequested(2), 1_100)
    first, second = (effect for effect in effects if isinstance(effect, SendEndQuorumEpoch))
    voter.receive(LeaderClaimAnswered(first.request, Error.NONE, ME, 2), 1_110)
    assert none(voter.receive(RequestFailed(second.request), 1_120), SendEndQuorumEpoch)
    assert one(voter.receive(Ticked(), 1_140), SendEndQuorumEpoch).to == second.to
    assert isinstance(voter.role, Resigned)
    assert one(voter.receive(Ticked(), 2_100), Persist).state == ElectionState(3, voted_for=ME)


def test_a_resignation_from_an_older_epoch_is_ignored_and_from_a_later_one_is_a_fault() -> None:
    voter = a_leader()
    assert voter.receive(ResignRequested(1), 1_000) == []
    with pytest.raises(AssertionError, match="resigns from epoch 3"):
        voter.receive(ResignRequested(3), 1_000)


@pytest.mark.parametrize(
    ("successors", "delay_ms"),
    [
        ((ME, SECOND, THIRD), 0),
        ((), 0),
        ((SECOND, ME, THIRD), 250),
        ((SECOND, THIRD, ME), 500),
        ((SECOND, THIRD), 1_000),
    ],
)
def test_successors_stand_in_their_order(successors: tuple[int, ...], delay_ms: int) -> None:
    """R-595-03: the first at once, the others later and later, so that one that is down is replaced."""
    voter = a_follower()
    effects = voter.receive(LeaderLeft(6, "a cluster", SECOND, 2, successors), 100)
    assert effects[0] == AnswerLeaderClaim(6, Error.NONE, SECOND, 2)
    if delay_ms == 0:
        assert one(effects, Persist).state == ElectionState(3, voted_for=ME)
    else:
        assert isinstance(voter.role, Follower)
        assert voter.role.fetch_deadline_ms == 100 + delay_ms


def test_a_leader_that_leaves_neither_names_nor_tells_an_unfit_voter() -> None:
    """Kafka 4.0 in the place of one of ours would end dual-write. It follows until its fetch timeout."""
    voter = a_leader()
    voter.receive(a_fetch(voter, THIRD, offset=4, last_epoch=2), 1_050)  # it has the most
    voter.receive(VotersUnfit(frozenset({THIRD})), 1_060)
    effects = voter.receive(ResignRequested(2), 1_100)
    sent = one(effects, SendEndQuorumEpoch)
    assert (sent.to, sent.successors) == (SECOND, (SECOND,))


def test_a_leader_that_stops_beside_unfit_voters_alone_tells_nobody_and_may_go() -> None:
    voter = a_leader()
    voter.receive(VotersUnfit(frozenset({SECOND, THIRD})), 1_060)
    assert none(voter.receive(Stopping(), 1_100), SendEndQuorumEpoch)
    assert voter.may_exit


def test_a_voter_that_became_fit_again_is_named_again() -> None:
    voter = a_leader()
    voter.receive(VotersUnfit(frozenset({SECOND, THIRD})), 1_060)
    voter.receive(VotersUnfit(frozenset()), 1_070)
    sent = [each for each in voter.receive(ResignRequested(2), 1_100) if isinstance(each, SendEndQuorumEpoch)]
    assert {each.to for each in sent} == {SECOND, THIRD}


@pytest.mark.parametrize(
    ("unfit", "successors", "asks_first"),
    [
        (frozenset(), (ME, THIRD), False),  # the leader asked for it; who else knows a reason against it is not known
        (frozenset(), (THIRD, ME), True),
        (frozenset({THIRD}), (ME,), False),
        (frozenset({THIRD}), (4, ME), False),
    ],
)
def test_a_named_successor_does_not_wait_for_pre_votes(
    unfit: frozenset[int], successors: tuple[int, ...], asks_first: bool
) -> None:
    """An unfit voter was not told that the leader left: it refuses pre-votes until it stands itself."""
    voter = a_follower(pre_vote=True, voters=(ME, SECOND, THIRD, 4, 5))
    voter.receive(VotersUnfit(unfit), 50)
    effects = voter.receive(LeaderLeft(6, "a cluster", SECOND, 2, successors), 100)
    effects += voter.receive(Ticked(), 1_200)
    asked = [each for each in effects if isinstance(each, SendVote)]
    assert {each.pre_vote for each in asked} == {asks_first}


@pytest.mark.parametrize(("last_offset", "granted"), [(2, False), (3, False), (4, True)])
def test_an_unfit_voter_gets_no_pre_vote_from_a_fit_one_whose_log_is_as_good(last_offset: int, granted: bool) -> None:
    """That one stands itself then. With the longer log the unfit voter has to lead: records may be committed."""
    voter = started(a_node())
    voter.receive(VotersUnfit(frozenset({SECOND})), 0)
    ask = a_vote_request(candidate=SECOND, pre_vote=True, epoch=1, last_epoch=1, last_offset=last_offset)
    assert one(voter.receive(ask, 10), AnswerVote).granted is granted


def test_an_unfit_voter_has_its_vote_and_may_be_elected() -> None:
    """Votes follow Raft's rules: a voter without a better log could otherwise keep the quorum without a leader."""
    voter = started(a_node())
    voter.receive(VotersUnfit(frozenset({SECOND})), 0)
    assert one(voter.receive(a_vote_request(), 10), AnswerVote).granted


def test_who_learns_of_an_epoch_by_its_end_takes_part_in_the_succession() -> None:
    voter = started(a_node())
    effects = voter.receive(LeaderLeft(6, "a cluster", SECOND, 4, (ME,)), 100)
    assert [effect.state for effect in effects if isinstance(effect, Persist)] == [
        ElectionState(4, leader=SECOND),
        ElectionState(5, voted_for=ME),
    ]


def test_a_leader_that_stops_hands_over_and_may_go_when_it_is_heard() -> None:
    """R-595-03."""
    voter = a_leader()
    voter.receive(a_fetch(voter, SECOND, request=40), 1_000)
    effects = voter.receive(Stopping(), 1_100)
    assert one(effects, AnswerFetch).error is Error.BROKER_NOT_AVAILABLE
    may_exit_unheard = voter.may_exit
    assert not may_exit_unheard
    for sent in [effect for effect in effects if isinstance(effect, SendEndQuorumEpoch)]:
        voter.receive(LeaderClaimAnswered(sent.request, Error.NONE, ME, 2), 1_110)
    assert voter.may_exit
    assert none(voter.receive(Ticked(), 99_000), Persist, SendVote)


@pytest.mark.parametrize("make", [a_follower, a_candidate], ids=lambda make: make.__name__)
def test_who_does_not_lead_may_stop_at_once_and_stands_no_more(make: Any) -> None:
    voter = make()
    assert voter.receive(Stopping(), 1_000) == []
    assert voter.may_exit
    assert none(voter.receive(Ticked(), 99_000), Persist, SendVote)


# --- observers --------------------------------------------------------------------------------------------


def test_an_observer_asks_a_voter_by_chance_until_one_names_the_leader() -> None:
    voter = a_node(node=OBSERVER, chance=lambda n: n - 1)
    asked = one(voter.receive(Started(), 0), SendFetch)
    assert (asked.to, asked.replica) == (THIRD, OBSERVER)
    effects = voter.receive(FetchAnswered(asked.request, Error.FENCED_LEADER_EPOCH, SECOND, 4, -1), 10)
    assert one(effects, Persist).state == ElectionState(4, leader=SECOND)
    assert one(effects, SendFetch).to == SECOND
    assert voter.standing is Standing.OBSERVER


def test_an_observer_never_stands() -> None:
    voter = started(a_node(node=OBSERVER, state=ElectionState(4, leader=SECOND)))
    for now_ms in range(0, 60_000, 500):
        assert none(voter.receive(Ticked(), now_ms), Persist, SendVote)
    assert isinstance(voter.role, Follower)


def test_an_observer_whose_leader_is_silent_asks_the_others() -> None:
    voter = started(a_node(node=OBSERVER, state=ElectionState(4, leader=SECOND)))
    effects = voter.receive(RequestFailed(under_way(voter)), 10)
    assert one(effects, SendFetch).to == ME


def test_an_observer_ignores_an_epoch_that_nobody_leads() -> None:
    """It may be that of a candidate whom nobody else heard; the leader would refuse the observer until its next epoch.

    Found by the simulator: a healed quorum at epoch 23 with an observer at 24 that it never served again.
    """
    voter = started(a_node(node=OBSERVER, state=ElectionState(4, leader=SECOND)))
    number = under_way(voter)
    voter.receive(FetchAnswered(number, Error.FENCED_LEADER_EPOCH, NOBODY, 5, -1), 10)
    assert voter.state == ElectionState(4, leader=SECOND)


def test_a_voter_alone_in_its_role_waits_for_nothing_but_its_election() -> None:
    voter = started(a_node())
    assert isinstance(voter.role, Unattached)
    assert none(voter.receive(Ticked(), 500), SendFetch, SendVote)


# --- asking first -----------------------------------------------------------------------------------------


def a_prospective(**more: Any) -> Any:
    """Asked at 1,000 ms whether it would be elected."""
    voter = started(a_node(pre_vote=True, **more))
    voter.receive(Ticked(), 1_000)
    return voter


def test_who_may_ask_first_disturbs_nobody_until_a_majority_would_vote_for_it() -> None:
    """R-595-13, KIP-996: no epoch, nothing stored, before that."""
    voter = started(a_node(pre_vote=True))
    assert voter.receive(Ticked(), 1_000) == [
        SendVote(1, SECOND, 1, ME, last_epoch=1, last_offset=3, pre_vote=True),
        SendVote(2, THIRD, 1, ME, last_epoch=1, last_offset=3, pre_vote=True),
        Announce(Standing.PROSPECTIVE, 1, NOBODY),
    ]
    effects = voter.receive(VoteAnswered(1, Error.NONE, NOBODY, 1, granted=True), 1_010)
    assert effects[0] == Persist(ElectionState(2, voted_for=ME))
    assert [effect.pre_vote for effect in effects if isinstance(effect, SendVote)] == [False, False]


def test_a_follower_that_is_told_that_its_leader_works_follows_on_in_the_same_epoch() -> None:
    """It could not hear the leader; the others could. Nobody is deposed."""
    voter = a_follower(pre_vote=True, voters=(ME, SECOND, THIRD, 4, 5))
    asked = [each for each in voter.receive(Ticked(), 2_000) if isinstance(each, SendVote)]
    others = [each.request for each in asked if each.to != SECOND]
    for request in others[:-1]:
        voter.receive(VoteAnswered(request, Error.NONE, SECOND, 2, granted=False), 2_010)
        assert voter.standing is Standing.PROSPECTIVE
    effects = voter.receive(VoteAnswered(others[-1], Error.NONE, SECOND, 2, granted=False), 2_020)
    assert one(effects, SendFetch).to == SECOND
    assert (voter.standing, voter.state) == (Standing.FOLLOWER, ElectionState(2, leader=SECOND))
    assert none(effects, Persist)


def test_a_follower_that_hears_its_leader_refuse_needs_nobody_else_to_follow_it_again() -> None:
    """The third voter may be down: then the leader has no majority without this one."""
    voter = a_follower(pre_vote=True)
    asked = [each for each in voter.receive(Ticked(), 2_000) if isinstance(each, SendVote)]
    to_leader = next(each.request for each in asked if each.to == SECOND)
    effects = voter.receive(VoteAnswered(to_leader, Error.NONE, SECOND, 2, granted=False), 2_010)
    assert one(effects, SendFetch).to == SECOND
    assert (voter.standing, voter.state) == (Standing.FOLLOWER, ElectionState(2, leader=SECOND))


def test_a_follower_that_asks_already_follows_again_when_its_leader_says_that_it_leads() -> None:
    voter = a_follower(pre_vote=True)
    voter.receive(Ticked(), 2_000)
    effects = voter.receive(a_claim(leader=SECOND, epoch=2), 2_010)
    assert one(effects, SendFetch).to == SECOND
    assert (voter.standing, voter.state) == (Standing.FOLLOWER, ElectionState(2, leader=SECOND))


def test_who_resigned_does_not_refuse_as_a_leader() -> None:
    """Its refusal says that its log is longer, not that anybody leads: who asks goes on asking the others."""
    voter = started(a_node((1, 1, 2), state=ElectionState(2, leader=ME)))
    assert voter.standing is Standing.RESIGNED
    ask = a_vote_request(candidate=SECOND, epoch=2, last_epoch=1, last_offset=1, pre_vote=True)
    answer = one(voter.receive(ask, 10), AnswerVote)
    assert (answer.granted, answer.leader, answer.epoch) == (False, NOBODY, 2)


def test_who_gets_no_majority_in_time_asks_all_anew_in_the_same_epoch() -> None:
    """A follower refuses until it misses the leader itself; then its answer is another one."""
    voter = a_prospective()
    voter.receive(VoteAnswered(1, Error.NONE, NOBODY, 1, granted=False), 1_010)
    assert none(voter.receive(Ticked(), 1_999), Announce)
    effects = voter.receive(Ticked(), 2_000)
    assert [(each.to, each.pre_vote) for each in effects if isinstance(each, SendVote)] == [
        (SECOND, True),
        (THIRD, True),
    ]
    assert none(effects, Persist)
    assert (voter.standing, voter.epoch) == (Standing.PROSPECTIVE, 1)


def test_who_is_refused_by_a_majority_stands_back_and_waits() -> None:
    voter = a_prospective()
    for number in (1, 2):
        voter.receive(VoteAnswered(number, Error.NONE, NOBODY, 1, granted=False), 1_010)
    assert (voter.standing, voter.epoch, voter.next_deadline_ms()) == (Standing.UNATTACHED, 1, 2_010)


def cannot_be_asked(voter: Any, peer: int, now_ms: int) -> list[Effect]:
    """A 3.9 voter has Vote up to version 1: the transport answers in its place."""
    answer = VoteAnswered(peer - 1, Error.UNSUPPORTED_VERSION, NOBODY, voter.epoch, granted=False)
    effects: list[Effect] = voter.receive(answer, now_ms)
    return effects


def test_beside_a_voter_of_3_9_it_stands_when_the_other_would_vote_for_it() -> None:
    voter = a_prospective()
    assert none(cannot_be_asked(voter, SECOND, 1_010), Persist), "the third voter has not answered yet"
    effects = voter.receive(VoteAnswered(2, Error.NONE, NOBODY, 1, granted=True), 1_020)
    assert effects[0] == Persist(ElectionState(2, voted_for=ME))


def test_beside_a_voter_of_3_9_it_deposes_no_leader_that_the_other_hears() -> None:
    """Before, one voter of 3.9 was enough to stand at once, whatever the others said."""
    voter = a_follower(pre_vote=True)
    asked = {each.to: each.request for each in voter.receive(Ticked(), 2_000) if isinstance(each, SendVote)}
    unable = VoteAnswered(asked[SECOND], Error.UNSUPPORTED_VERSION, NOBODY, 2, granted=False)
    assert none(voter.receive(unable, 2_010), Persist)
    effects = voter.receive(VoteAnswered(asked[THIRD], Error.NONE, SECOND, 2, granted=False), 2_020)
    assert one(effects, SendFetch).to == SECOND
    assert (voter.standing, voter.state) == (Standing.FOLLOWER, ElectionState(2, leader=SECOND))


def test_beside_a_voter_of_3_9_a_voter_that_fails_twice_is_not_waited_for() -> None:
    """Its leader is dead: one failure may be an old connection, two are not."""
    voter = a_prospective()
    cannot_be_asked(voter, SECOND, 1_010)
    assert none(voter.receive(RequestFailed(2), 1_010), Persist)
    again = one(voter.receive(Ticked(), 1_030), SendVote)
    assert (again.to, again.pre_vote) == (THIRD, True)
    assert voter.receive(RequestFailed(again.request), 1_031)[0] == Persist(ElectionState(2, voted_for=ME))


def test_beside_a_voter_of_3_9_a_silent_voter_is_waited_for_until_the_election_is_due() -> None:
    voter = a_prospective()
    cannot_be_asked(voter, SECOND, 1_010)
    assert none(voter.receive(Ticked(), 1_999), Persist, SendVote)
    assert voter.receive(Ticked(), 2_000)[0] == Persist(ElectionState(2, voted_for=ME))


def test_where_nobody_else_can_be_asked_it_stands_as_3_9_does() -> None:
    voter = a_prospective()
    cannot_be_asked(voter, SECOND, 1_010)
    assert cannot_be_asked(voter, THIRD, 1_011)[0] == Persist(ElectionState(2, voted_for=ME))


def test_of_five_voters_the_grants_of_those_that_can_be_asked_have_to_outnumber_their_refusals() -> None:
    for second_grants in (True, False):
        voter = a_prospective(voters=(ME, SECOND, THIRD, 4, 5))
        for peer in (4, 5):
            assert none(cannot_be_asked(voter, peer, 1_010), Persist)
        voter.receive(VoteAnswered(2, Error.NONE, NOBODY, 1, granted=False), 1_020)
        effects = voter.receive(VoteAnswered(1, Error.NONE, NOBODY, 1, granted=second_grants), 1_030)
        assert none(effects, Persist) != second_grants


def test_an_error_in_place_of_a_pre_vote_is_asked_again() -> None:
    voter = a_prospective()
    voter.receive(VoteAnswered(1, Error.INVALID_VOTER_KEY, NOBODY, 1, granted=False), 1_010)
    assert one(voter.receive(Ticked(), 1_030), SendVote).pre_vote


def test_who_asks_first_may_still_vote_for_another() -> None:
    voter = a_prospective()
    assert one(voter.receive(a_vote_request(epoch=1, last_epoch=0, last_offset=9), 1_010), AnswerVote).granted is False
    assert one(voter.receive(a_vote_request(), 1_010), AnswerVote).granted
    assert voter.state == ElectionState(2, voted_for=SECOND)


def test_a_follower_whose_leader_left_grants_pre_votes_at_once() -> None:
    """R-595-03: else the first successor would be refused by all who heard the leader a moment ago."""
    voter = a_follower(pre_vote=True)
    voter.receive(an_answer(voter), 10)
    voter.receive(LeaderLeft(6, "a cluster", SECOND, 2, (THIRD, ME)), 20)
    assert one(voter.receive(a_vote_request(candidate=THIRD, pre_vote=True), 30), AnswerVote).granted


@pytest.mark.parametrize(("voters", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4)])
def test_half_of_the_voters_is_no_majority(voters: int, majority: int) -> None:
    """With even numbers two halves would elect two leaders in one epoch, and commit two histories."""
    node = a_node(voters=tuple(range(1, voters + 1)))
    assert node.majority == majority
    assert 2 * node.majority > voters


@pytest.mark.parametrize("role", ["unattached", "prospective"])
def test_no_vote_is_given_in_an_epoch_whose_leader_is_known(role: str) -> None:
    """Its leader was elected: another vote in the same epoch could elect a second one."""
    voter = a_node(state=ElectionState(2, leader=THIRD))
    voter.role = Unattached(9_000) if role == "unattached" else Prospective(9_000, 1, {ME})
    answer = one(voter.receive(a_vote_request(epoch=2), 10), AnswerVote)
    assert not answer.granted
    assert voter.state == ElectionState(2, leader=THIRD)
