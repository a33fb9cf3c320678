"""Who leads: votes asked and given, leaders that begin and end, and the times after which a voter stands.

In:   votes and leadership claims of others, answers to our own, the time.
Out:  answers, requests, moves of `quorum.py`.
Elsewhere: what a leader does (leading.py), how a follower notices that its leader is gone (following.py).
Source: KIP-595; Kafka 3.9 `KafkaRaftClient.handleVoteRequest`, `.handleBeginQuorumEpochRequest`,
`.handleEndQuorumEpochRequest`, `.pollCandidate`, `.pollUnattached`, `.pollResigned`.

We differ in three things. A voter with records that are not on its disk yet does not stand before its flush has ended:
one whose disk hangs would lead nobody anywhere. A candidate or leader that is not in our voter set is refused (125)
before its epoch is read: with a static voter set nobody else can be elected, and a node of another quorum must not
inflate the epoch (R-595-13). And an INVALID_REQUEST is answered at the top and never for the partition, where it ends a
stock process.
"""

from __future__ import annotations

from migrator.raft.effects import (
    AnswerLeaderClaim,
    AnswerVote,
    SendBeginQuorumEpoch,
    SendEndQuorumEpoch,
    SendVote,
)
from migrator.raft.quorum import LAST_EPOCH, QuorumState
from migrator.raft.roles import (
    ELECTION_RETRY_BASE_MS,
    Candidate,
    Follower,
    Leadership,
    Prospective,
    Resigned,
    Unattached,
)
from migrator.raft.types import (
    NO_DIRECTORY,
    NOBODY,
    FetchAnswered,
    FetchSnapshotAnswered,
    LeaderClaimAnswered,
    LeaderClaimed,
    LeaderLeft,
    VoteAnswered,
    VoteReceived,
)
from migrator.wire.errors import Error

# --- the start --------------------------------------------------------------------------------------------


def start(q: QuorumState, now_ms: int) -> None:
    """Take up the role that the stored election state leaves open.

    Source: `QuorumState.initialize`. A leader that comes back never leads or votes in its epoch again: it may have
    lost records that it had written and not synced. A candidate stands again in the epoch in which it voted for
    itself. The only voter needs nobody's vote.
    """
    state = q.state
    if q.voters == (q.node_id,):
        q.become_candidate(now_ms)
    elif state.leader == q.node_id:
        q.role = Resigned(now_ms + q.election_timeout_ms(), (), set())
    elif state.leader in q.voters:
        q.become_follower(state.epoch, state.leader, now_ms)
    elif state.voted_for == q.node_id and q.is_voter:
        q.role = Candidate(now_ms + q.election_timeout_ms(), 1, granted={q.node_id})
    else:
        q.role = Unattached(now_ms + q.election_timeout_ms() if q.is_voter else None)


# --- votes ------------------------------------------------------------------------------------------------


def on_vote_received(q: QuorumState, ask: VoteReceived, now_ms: int) -> None:
    error, top_level, granted = _refusal_of_vote(q, ask), False, False
    if error in (Error.INCONSISTENT_CLUSTER_ID, Error.INVALID_REQUEST):
        top_level = True
    elif error is Error.NONE:
        if ask.epoch > q.epoch:
            q.become_unattached(ask.epoch, now_ms)
        if not _is_meant(q, ask.voter, ask.voter_directory):
            error = Error.INVALID_VOTER_KEY
        elif ask.pre_vote:
            granted = _would_grant(q, ask)
        else:
            granted = may_grant(q, ask)
            if granted and q.state.voted_for != ask.candidate:
                q.become_voted(ask.candidate, now_ms)
    # One that resigned leads no more: who is refused must not take that for the word of a leader.
    leader = NOBODY if ask.pre_vote and isinstance(q.role, Resigned) else q.leader
    q.out.append(AnswerVote(ask.request, error, leader, q.epoch, granted, top_level))


def _refusal_of_vote(q: QuorumState, ask: VoteReceived) -> Error:
    """The tests that come before the epoch is taken over. Stock looks at the shape first, then at who asks."""
    if ask.cluster_id is not None and ask.cluster_id != q.cluster_id:
        return Error.INCONSISTENT_CLUSTER_ID
    error = _refusal_of_voter(q, ask.candidate, ask.epoch)
    # The candidate's epoch has no record yet. In a pre-vote it names the epoch that it is in, which may have some.
    last_epoch_max = ask.epoch if ask.pre_vote else ask.epoch - 1
    if error is Error.NONE and (ask.last_offset < 0 or not 0 <= ask.last_epoch <= last_epoch_max):
        return Error.INVALID_REQUEST
    return error


def _refusal_of_voter(q: QuorumState, voter: int, epoch: int) -> Error:
    if epoch < q.epoch:
        return Error.FENCED_LEADER_EPOCH
    if voter < 0:
        return Error.INVALID_REQUEST
    if voter not in q.others:
        return Error.INVALID_VOTER_KEY
    # An epoch near its 31-bit end, once adopted, would leave no later one to stand in.
    return Error.NONE if epoch <= LAST_EPOCH else Error.INVALID_REQUEST


def _is_meant(q: QuorumState, voter: int, directory: bytes) -> bool:
    """Whether the request is for this replica; one without a key, or with the zero directory, does not say."""
    return voter in (NOBODY, q.node_id) and directory in (NO_DIRECTORY, q.directory_id)


def is_up_to_date(q: QuorumState, ask: VoteReceived) -> bool:
    """A candidate must have at least what this node has on disk, for that may be committed."""
    own = q.log.last_on_disk()
    return (ask.last_epoch, ask.last_offset) >= (own.epoch, own.offset)


def may_grant(q: QuorumState, ask: VoteReceived) -> bool:
    """One vote in an epoch, and none when its leader is known. The same candidate may ask again."""
    if not isinstance(q.role, Unattached | Prospective) or q.leader != NOBODY:
        return False
    if q.state.voted_for != NOBODY:
        return q.state.voted_for == ask.candidate
    return is_up_to_date(q, ask)


def _would_grant(q: QuorumState, ask: VoteReceived) -> bool:
    """A pre-vote of Kafka 4.0: yes unless there is a leader that works. Source: KIP-996.

    Nor to an unfit voter while this one, which is fit, has as good a log: it stands itself, and gets that one's vote.
    Votes themselves are never denied for that.
    """
    if isinstance(q.role, Leadership) or (isinstance(q.role, Follower) and q.role.has_fetched):
        return False
    own = q.log.last_on_disk()
    if ask.candidate in q.unfit and (own.epoch, own.offset) >= (ask.last_epoch, ask.last_offset):
        return False
    return is_up_to_date(q, ask)


def on_vote_answered(q: QuorumState, answer: VoteAnswered, now_ms: int) -> None:
    peer = q.requests.close(answer.request)
    if peer is None or apply_common_fields(q, peer, answer, now_ms):
        return
    if isinstance(q.role, Prospective):
        _count_pre_vote(q, q.role, peer, answer, now_ms)
    elif answer.error is not Error.NONE:
        q.requests.pause(peer, now_ms)
    elif isinstance(q.role, Candidate):
        count_vote(q, q.role, peer, granted=answer.granted, now_ms=now_ms)


def _count_pre_vote(q: QuorumState, role: Prospective, voter: int, answer: VoteAnswered, now_ms: int) -> None:
    """A majority that would vote for it: stand. Peers that know no pre-vote: see `_decide_beside_3_9`.

    Refused by the leader itself: it lives and is heard, so follow it again. While another voter is down the leader may
    need exactly this node's fetches to go on.
    """
    if answer.error is Error.UNSUPPORTED_VERSION:
        role.unable.add(voter)
    elif answer.error is not Error.NONE:
        q.requests.pause(voter, now_ms)
        on_pre_vote_failed(q, role, voter, now_ms)
        return
    else:
        (role.granted if answer.granted else role.rejected).add(voter)
    # It answered: what counts against a voter are failures in a row.
    role.failures.pop(voter, None)
    if len(role.granted) >= q.majority:
        q.become_candidate(now_ms, role.retries)
    elif _is_hopeless(q, role) or (voter in role.rejected and voter == answer.leader == q.leader):
        q.stand_back(now_ms)
    else:
        _decide_beside_3_9(q, role, now_ms)


def on_pre_vote_failed(q: QuorumState, role: Prospective, voter: int, now_ms: int) -> None:
    """No answer that can be used; asked again after a pause, for a connection may have been an old one."""
    role.failures[voter] += 1
    _decide_beside_3_9(q, role, now_ms)


def _decide_beside_3_9(q: QuorumState, role: Prospective, now_ms: int, *, is_late: bool = False) -> None:
    """Voters of 3.9 cannot be asked: they are counted on once all others answered, failed twice, or are late.

    As many refusals as grants (its own is one) are enough to follow again: who refuses hears the leader, or has the
    better log and stands itself. So a voter of 3.9 does not make ours depose a leader that works.
    """
    asked = set(q.others) - role.unable
    silent = {voter for voter in asked - role.granted - role.rejected if not is_late and role.failures[voter] < 2}
    if not role.unable or silent:
        return
    if len(role.granted | role.unable) >= q.majority and len(role.granted) > len(role.rejected):
        q.become_candidate(now_ms, role.retries)
    else:
        q.stand_back(now_ms)


def _is_hopeless(q: QuorumState, role: Prospective | Candidate) -> bool:
    return len(q.voters) - len(role.rejected) < q.majority


def count_vote(q: QuorumState, role: Candidate, voter: int, *, granted: bool, now_ms: int) -> None:
    if granted:
        role.granted.add(voter)
        q.lead_if_elected(now_ms)
        return
    role.rejected.add(voter)
    if _is_hopeless(q, role) and role.backoff_until_ms is None:
        _back_off(q, role, now_ms)


def _back_off(q: QuorumState, role: Candidate, now_ms: int) -> None:
    """This election is lost; the next one is tried after a pause that grows with each."""
    # Capped, so that a voter that stands for days does not draw from ever larger numbers.
    steps = q.chance(2 << min(20, role.retries - 1))
    role.backoff_until_ms = now_ms + min(ELECTION_RETRY_BASE_MS * steps, q.settings.election_backoff_max_ms)


# --- leaders that begin and end ---------------------------------------------------------------------------


def on_leader_claimed(q: QuorumState, claim: LeaderClaimed, now_ms: int) -> None:
    """BeginQuorumEpoch. A follower that knows the leader already is not given more time by it; one that asks already
    who would vote for it follows again.
    """
    error = _refusal_of_claim(q, claim)
    if error is Error.NONE:
        q.adopt(claim.epoch, claim.leader, now_ms)
        if isinstance(q.role, Prospective) and q.leader != NOBODY:
            q.stand_back(now_ms)
        # Only now: who leads the epoch is true, whichever replica the request was for.
        if not _is_meant(q, claim.voter, claim.voter_directory):
            error = Error.INVALID_VOTER_KEY
    _answer_claim(q, claim.request, error)


def on_leader_left(q: QuorumState, left: LeaderLeft, now_ms: int) -> None:
    """EndQuorumEpoch. Stand at once when named first, later when named later (R-595-03)."""
    error = _refusal_of_claim(q, left)
    if error is Error.NONE:
        q.adopt(left.epoch, left.leader, now_ms)
        if isinstance(q.role, Follower) and q.role.leader == left.leader:
            q.role.has_fetched = False  # no leader works here any more, it says so itself: pre-votes are granted
            q.role.is_left = True
            q.role.is_named = left.successors[:1] == (q.node_id,)
            q.role.fetch_deadline_ms = now_ms + succession_delay_ms(q, left.successors)
    _answer_claim(q, left.request, error)


def succession_delay_ms(q: QuorumState, successors: tuple[int, ...]) -> int:
    """None for the first, the longest for the last and for who is not named, doubling with each place between."""
    longest = q.settings.election_backoff_max_ms
    place = successors.index(q.node_id) if q.node_id in successors else -1
    # Nobody is to stand before this node.
    if place == 0 or not successors:
        return 0
    if place < 0:
        return longest
    return min(longest, (longest >> (len(successors) - 1)) << (place - 1))


def _refusal_of_claim(q: QuorumState, claim: LeaderClaimed | LeaderLeft) -> Error:
    if claim.cluster_id is not None and claim.cluster_id != q.cluster_id:
        return Error.INCONSISTENT_CLUSTER_ID
    return _refusal_of_voter(q, claim.leader, claim.epoch)


def _answer_claim(q: QuorumState, request: int, error: Error) -> None:
    top_level = error in (Error.INCONSISTENT_CLUSTER_ID, Error.INVALID_REQUEST)
    q.out.append(AnswerLeaderClaim(request, error, q.leader, q.epoch, top_level))


def on_leader_claim_answered(q: QuorumState, answer: LeaderClaimAnswered, now_ms: int) -> None:
    peer = q.requests.close(answer.request)
    if peer is None or apply_common_fields(q, peer, answer, now_ms):
        return
    if answer.error is not Error.NONE:
        q.requests.pause(peer, now_ms)
    elif isinstance(q.role, Leadership):
        q.role.to_begin.discard(peer)
    elif isinstance(q.role, Resigned):
        q.role.unacknowledged.discard(peer)


# --- what every answer may tell ---------------------------------------------------------------------------

Answered = VoteAnswered | LeaderClaimAnswered | FetchAnswered | FetchSnapshotAnswered


def apply_common_fields(q: QuorumState, peer: int, answer: Answered, now_ms: int) -> bool:
    """Apply epoch and leader of an answer. Returns True when the caller must ignore the rest of it.

    Source: `KafkaRaftClient.maybeHandleCommonResponse`. An answer that settled nothing is followed by a pause, where
    stock would ask again at once.
    """
    error = answer.error
    # Refused as a whole: such an answer has no part that says epoch or leader.
    if answer.top_level:
        q.requests.pause(peer, now_ms)
        return True
    # The peer is behind this node: it learns the epoch from our requests, and has nothing to say about it.
    if answer.epoch < q.epoch or error is Error.UNKNOWN_LEADER_EPOCH:
        q.requests.pause(peer, now_ms)
        return True
    # This node is behind: what it asked was for an epoch, or of a leader, that is over.
    if answer.epoch > q.epoch or error in (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER_OR_FOLLOWER):
        q.adopt(answer.epoch, answer.leader, now_ms)
        q.requests.pause(peer, now_ms)
        return True
    if answer.leader != NOBODY and q.leader == NOBODY:
        q.adopt(answer.epoch, answer.leader, now_ms)
    # The peer is stopping, or another replica answers where this voter is expected.
    if error in (Error.BROKER_NOT_AVAILABLE, Error.INVALID_VOTER_KEY):
        q.requests.pause(peer, now_ms)
        return True
    return False


# --- time -------------------------------------------------------------------------------------------------


def poll_unattached(q: QuorumState, role: Unattached, now_ms: int) -> None:
    # With records on their way to the disk it would ask for votes by a log that a crash may cut.
    if q.log.is_on_disk and role.election_deadline_ms is not None and role.election_deadline_ms <= now_ms:
        stand(q, now_ms)


def stand(q: QuorumState, now_ms: int, retries: int = 1) -> None:
    """Stand for the next election, and ask the others for their votes at once."""
    q.stand(now_ms, retries)
    poll_standing(q, now_ms)


def poll_standing(q: QuorumState, now_ms: int) -> None:
    if isinstance(q.role, Prospective):
        poll_prospective(q, q.role, now_ms)
    elif isinstance(q.role, Candidate):
        poll_candidate(q, q.role, now_ms)


def poll_prospective(q: QuorumState, role: Prospective, now_ms: int) -> None:
    """Neither granted nor refused by enough in time: ask all anew, for who refused may have missed its leader since.

    To stand back here would cost a whole fetch timeout more, whenever the voter with the better log asks first.
    """
    if role.election_deadline_ms > now_ms:
        _ask_for_votes(q, role, now_ms, pre_vote=True)
    elif role.unable:
        _decide_beside_3_9(q, role, now_ms, is_late=True)
    else:
        stand(q, now_ms, role.retries)


def poll_candidate(q: QuorumState, role: Candidate, now_ms: int) -> None:
    if role.backoff_until_ms is not None:
        if role.backoff_until_ms <= now_ms:
            stand(q, now_ms, role.retries + 1)
        return
    # Nobody won in time: a pause by chance keeps two candidates from meeting again in the next epoch.
    if role.election_deadline_ms <= now_ms:
        _back_off(q, role, now_ms)
        return
    _ask_for_votes(q, role, now_ms, pre_vote=False)


def _ask_for_votes(q: QuorumState, role: Prospective | Candidate, now_ms: int, *, pre_vote: bool) -> None:
    own = q.log.last_on_disk()
    answered = role.granted | role.rejected | (role.unable if isinstance(role, Prospective) else set())
    for voter in q.others:
        if voter not in answered and q.requests.is_ready(voter, now_ms):
            number = q.requests.open(voter, now_ms)
            q.out.append(SendVote(number, voter, q.epoch, q.node_id, own.epoch, own.offset, pre_vote))


def poll_begin(q: QuorumState, role: Leadership, now_ms: int) -> None:
    """Tell every voter that does not fetch, again and again: one that restarted waits to be told (R-595-04)."""
    if role.next_begin_ms <= now_ms:
        silent_since_ms = now_ms - q.settings.begin_period_ms
        role.to_begin = {voter for voter in q.others if not _has_fetched(role, voter, silent_since_ms)}
        role.next_begin_ms = now_ms + q.settings.begin_period_ms
    for voter in q.others:
        if voter in role.to_begin and q.requests.is_ready(voter, now_ms):
            number = q.requests.open(voter, now_ms)
            q.out.append(SendBeginQuorumEpoch(number, voter, role.epoch, q.node_id))


def _has_fetched(role: Leadership, voter: int, since_ms: int) -> bool:
    progress = role.replicas.get(voter)
    return progress is not None and progress.last_fetch_ms > since_ms


def poll_resigned(q: QuorumState, role: Resigned, now_ms: int) -> None:
    """Tell the successors until each has heard it; after an election timeout, stand again."""
    is_over = role.election_deadline_ms is not None and role.election_deadline_ms <= now_ms
    if is_over and q.log.is_on_disk and not q.stopping:
        q.become_candidate(now_ms)  # not asking first: this epoch is over for it, it cannot follow in it
        poll_standing(q, now_ms)
        return
    for voter in role.successors:
        if voter in role.unacknowledged and q.requests.is_ready(voter, now_ms):
            number = q.requests.open(voter, now_ms)
            q.out.append(SendEndQuorumEpoch(number, voter, q.epoch, q.node_id, role.successors))
