"""One node's place in its quorum, and the moves from one role to another.

In:   the identity of the node, what it read from its disk, settings, a source of chance.
Out:  effects collected in `out`, in their order.
Elsewhere: why a move is made (elections.py, leading.py, following.py), who calls them (voter.py).
Every move that changes epoch, leader or vote orders its `Persist` before anything else (R-595-06); only the move to
Resigned changes none of them.
Source: Kafka 3.9 `QuorumState`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from migrator.raft.effects import (
    AnswerFetch,
    AppendLeaderChange,
    DropSnapshotPart,
    Effect,
    Flush,
    Lead,
    Persist,
    Standing,
    StopLeading,
)
from migrator.raft.log_view import LogView
from migrator.raft.requests import Requests
from migrator.raft.roles import Candidate, Follower, Leadership, Prospective, QuorumSettings, Resigned, Role, Unattached
from migrator.raft.types import NO_DIRECTORY, NOBODY, ElectionState
from migrator.wire.errors import Error

LAST_EPOCH: Final = 2**31 - 1 - 1_000_000
"""Epochs are 31 bits. Even one election a second takes 68 years to get here; we stop a million before (R-595-12)."""

Chance = Callable[[int], int]
"""Called with n, returns one of 0 to n - 1, each as likely as the others."""


class QuorumState:
    """What every part of the core reads and changes."""

    def __init__(
        self,
        *,
        node_id: int,
        voters: tuple[int, ...],
        cluster_id: str,
        state: ElectionState,
        log: LogView,
        settings: QuorumSettings | None = None,
        chance: Chance | None = None,
        directory_id: bytes = NO_DIRECTORY,
    ) -> None:
        assert voters, "a quorum needs a voter"
        assert len(set(voters)) == len(voters), f"a voter is named twice in {voters}"
        assert chance is not None or voters == (node_id,), "elections among several nodes need a source of chance"
        self.node_id = node_id
        self.voters = voters
        self.others = tuple(each for each in voters if each != node_id)
        self.is_voter = node_id in voters
        self.majority = len(voters) // 2 + 1
        self.cluster_id = cluster_id
        self.directory_id = directory_id
        self.settings = settings or QuorumSettings()
        self.chance: Chance = chance or (lambda _: 0)
        self.log = log
        # The log may be ahead of the stored state only when that file was lost: the epoch must not go back.
        self.state = state if state.epoch >= log.last_epoch else ElectionState(epoch=log.last_epoch)
        self.role: Role = Unattached()
        self.requests = Requests(self.settings.request_timeout_ms, self.settings.retry_backoff_ms)
        self.stopping = False
        self.unfit: frozenset[int] = frozenset()
        """Voters that are never named as successors."""
        self.out: list[Effect] = []
        self.snapshot_ordered = False
        self.bytes_since_snapshot = 0
        self.snapshot_ms = 0

    # --- reading -------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def leader(self) -> int:
        return self.state.leader

    @property
    def leadership(self) -> Leadership | None:
        return self.role if isinstance(self.role, Leadership) else None

    @property
    def high_watermark(self) -> int:
        """Committed records are those before it; -1 while unknown, as it is at first to a new leader."""
        match self.role:
            case Leadership(high_watermark=None):
                return -1
            case Leadership(high_watermark=int(known)):
                return known
            case _:
                return self.log.committed or -1

    @property
    def standing(self) -> Standing:
        match self.role:
            case Leadership():
                return Standing.LEADER
            case Candidate():
                return Standing.CANDIDATE
            case Prospective():
                return Standing.PROSPECTIVE
            case Resigned():
                return Standing.RESIGNED
            case _ if not self.is_voter:
                return Standing.OBSERVER
            case Follower():
                return Standing.FOLLOWER
            case _:
                return Standing.UNATTACHED if self.state.voted_for == NOBODY else Standing.VOTED

    def election_timeout_ms(self) -> int:
        """Draw a time-out of one to two times the setting, so that not all voters stand at once."""
        return self.settings.election_timeout_ms + self.chance(self.settings.election_timeout_ms)

    # --- moves ---------------------------------------------------------------------------------------------

    def become_unattached(self, epoch: int, now_ms: int) -> None:
        """A higher epoch without a known leader. An election that was waited for is not put off by it."""
        deadline_ms = None
        if self.is_voter:
            if isinstance(self.role, Unattached | Prospective | Candidate):
                deadline_ms = self.role.election_deadline_ms
            if deadline_ms is None:
                deadline_ms = now_ms + self.election_timeout_ms()
        self._move(ElectionState(epoch), Unattached(deadline_ms))

    def become_voted(self, candidate: int, now_ms: int) -> None:
        """Gives this epoch's vote; the candidate gets a whole election timeout to win."""
        assert isinstance(self.role, Unattached | Prospective), f"a vote given as {self.standing}"
        assert self.state.voted_for in (NOBODY, candidate), f"a second vote in epoch {self.epoch}"
        deadline_ms = now_ms + self.election_timeout_ms() if self.is_voter else None
        self._move(ElectionState(self.epoch, voted_for=candidate), Unattached(deadline_ms))

    def become_follower(self, epoch: int, leader: int, now_ms: int) -> None:
        """Drawn upwards, so that followers of one dead leader do not all stand in the same millisecond."""
        assert leader != self.node_id, f"epoch {epoch} is said to be led by this node, which does not know of it"
        timeout_ms = self.settings.fetch_timeout_ms
        timeout_ms += self.chance(max(timeout_ms // 4, 1))
        self._move(ElectionState(epoch, leader=leader), Follower(leader, timeout_ms, now_ms + timeout_ms))

    def stand(self, now_ms: int, retries: int = 1) -> None:
        """Try to become leader: ask first, in this epoch, whether it would succeed; without that, in the next epoch.

        Nor does it ask first where the leader has left and named it, or has left and a voter is unfit. An unfit voter
        was not told, so it refuses pre-votes until its own fetch timeout, and then it would stand itself.
        """
        left = self.role if isinstance(self.role, Follower) and self.role.is_left else None
        must_win = left is not None and (left.is_named or bool(self.unfit))
        if self.settings.pre_vote and self.others and not must_win:
            role = Prospective(now_ms + self.election_timeout_ms(), retries, granted={self.node_id})
            self._move(self.state, role)
        else:
            self.become_candidate(now_ms, retries)

    def stand_back(self, now_ms: int) -> None:
        """The others would not vote for it: they have a leader, or a better log. The epoch is still the same."""
        if self.leader != NOBODY:
            self.become_follower(self.epoch, self.leader, now_ms)
        else:
            self._move(self.state, Unattached(now_ms + self.election_timeout_ms()))

    def become_candidate(self, now_ms: int, retries: int = 1) -> None:
        """The next epoch, with this node's own vote on disk before anybody is asked for another."""
        epoch = self.epoch + 1
        assert self.is_voter, f"node {self.node_id} is not a voter"
        assert epoch <= LAST_EPOCH, f"leader epoch {epoch} is too near its 31-bit end"
        role = Candidate(now_ms + self.election_timeout_ms(), retries, granted={self.node_id})
        self._move(ElectionState(epoch, voted_for=self.node_id), role)
        self.lead_if_elected(now_ms)

    def lead_if_elected(self, now_ms: int) -> None:
        if isinstance(self.role, Candidate) and len(self.role.granted) >= self.majority:
            self._become_leader(self.role, now_ms)

    def _become_leader(self, elected: Candidate, now_ms: int) -> None:
        epoch, start = self.epoch, self.log.end
        granting = tuple(voter for voter in self.voters if voter in elected.granted)
        check_ms = now_ms + self.settings.check_quorum_ms
        # Its own first record has to reach the disk within that time, too.
        role = Leadership(epoch, start, check_ms, now_ms, flush_deadline_ms=check_ms)
        self._move(ElectionState(epoch, leader=self.node_id), role)
        self.log.append(epoch, 1)
        self.out.append(AppendLeaderChange(epoch, start, self.node_id, self.voters, granting))
        self.out.append(Flush(self.log.generation))
        # Last: who hears it may append at once, and must come behind the first record of the epoch.
        self.out.append(Lead(epoch, start))

    def resign(self, now_ms: int) -> None:
        """Lead no more. Who has the most records is asked first to stand (R-595-03); the epoch has no other leader.

        An unfit voter is not told: it follows until its fetch timeout, and a fit one stands meanwhile.
        """
        lead = self.role
        assert isinstance(lead, Leadership), f"resigns as {self.standing}"

        def most_records_first(voter: int) -> tuple[int, int]:
            progress = lead.replicas.get(voter)
            return (1 if progress is None else -progress.end, voter)

        fit = [each for each in self.others if each not in self.unfit]
        successors = tuple(sorted(fit, key=most_records_first))
        deadline_ms = None if self.stopping else now_ms + self.election_timeout_ms()
        self._move(self.state, Resigned(deadline_ms, successors, set(successors)))

    def adopt(self, epoch: int, leader: int, now_ms: int) -> None:
        """Somebody knows who leads an epoch that is not below ours. A leader that is no voter is not believed.

        An observer ignores an epoch without a leader, where stock takes it over: it may have come from a candidate that
        was never heard by the others, and then the observer's fetches would be refused until their next election.
        """
        if leader not in self.voters:
            leader = NOBODY
        if epoch > self.epoch:
            if leader == NOBODY and not self.is_voter:
                return
            assert epoch <= LAST_EPOCH, f"leader epoch {epoch} is too near its 31-bit end"
            if leader == NOBODY:
                self.become_unattached(epoch, now_ms)
            else:
                self.become_follower(epoch, leader, now_ms)
        elif leader != NOBODY and self.leader == NOBODY:
            self.become_follower(epoch, leader, now_ms)
        else:
            assert leader in (NOBODY, self.leader), f"epoch {epoch} has two leaders, {self.leader} and {leader}"

    def _move(self, state: ElectionState, role: Role) -> None:
        """Promise first, then leave the old role in good order."""
        left = self.role
        if state != self.state:
            assert state.epoch >= self.epoch, f"epoch {state.epoch} after {self.epoch}"
            self.state = state
            self.out.append(Persist(state))
        self.role = role
        # What was asked in the old role is not awaited: an answer to it would be taken for one to the new role.
        self.requests.reset()
        if isinstance(left, Leadership):
            self._leave_leadership(left)
        elif isinstance(left, Follower) and left.download is not None:
            self.out.append(DropSnapshotPart(left.download.snapshot))

    def _leave_leadership(self, left: Leadership) -> None:
        error = Error.BROKER_NOT_AVAILABLE if self.stopping else Error.NOT_LEADER_OR_FOLLOWER
        for request in left.parked:
            answer = AnswerFetch(request, error, self.leader, self.epoch, self.high_watermark, self.log.start)
            self.out.append(answer)
        self.out.append(StopLeading(left.epoch))
        if left.flush_due_ms is not None:  # what lingered is in the log, and a later election may rest on it
            self.out.append(Flush(self.log.generation))
