"""One node of the metadata quorum, whatever it is at the moment: voter or observer, leader or not.

In:   events, each with the time it happened at (milliseconds of any steady clock).
Out:  effects in the order in which they must take place (effects.py says what each demands).
Elsewhere: sockets, files and timers (node), what the records mean (controller); the decisions are in elections.py,
leading.py, following.py and snapshots.py, the roles and moves in roles.py and quorum.py.
Source: KIP-595, KIP-630, R-595-01..13; Kafka 3.9 `KafkaRaftClient`.

What can happen. Requests of other nodes arrive, late, twice, or in another order. Answers do the same, or never come.
Timers fire. The disk reports that it wrote something. The controller above asks for an append, a snapshot or a
resignation. Every one of these is an event; `receive` handles one event to its end and answers with effects. Nothing
here waits, so two events never interleave.

Why it is safe. Four rules carry it, and the simulator (tests/sim) checks each after every step.

* A promise leaves after it is on disk. A vote, a new epoch and a new leader are a `Persist`, and it stands before every
  effect that another node can see. A follower's fetch offset is what its disk has. A leader counts its own log end only
  after `LogFlushed`. So a power cut takes back nothing that another node relies on.
* One leader per epoch. A node votes once per epoch, and a candidate needs a majority of the voters. Two majorities
  share a voter.
* A leader has every committed record. A voter refuses a candidate whose log ends before its own, by epoch first and
  offset second. A record is committed when a majority has it, so any winner has it too.
* The high watermark counts records of the leader's own epoch only. A record of an earlier epoch can be on a majority
  and still be replaced; it becomes committed when a record of the present epoch after it does. Every leader therefore
  begins with a LeaderChange record.

Truncation follows from these: a follower that diverges is told the last offset of an epoch that both know, cuts its
log there, and has cut nothing committed. A follower that needs records which were already snapshotted downloads the
snapshot, and its log begins there.

Liveness has its own rules. A leader that no majority fetches from resigns after the check-quorum time, so a
partitioned leader stops answering clients. A node whose disk hangs resigns as well. A leader that leaves names its
successors in the order of their logs, so the next election needs no timeout.

Where it differs from Kafka 3.9. A voter asks before it stands (KIP-996, Vote v2 of Kafka 4.0; decision 0011); against
peers that do not know Vote v2 it behaves as 3.9 does. Flushes are batched: an append waits for the disk once, together
with what came meanwhile. A leader that leaves tells no voter that its shell calls unfit to lead, where stock tells all.
A leader steps down when its own disk fails, where stock halts the process. A log with
dynamic voters (KIP-853) is refused at the start (Z2K-3020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from migrator.raft import elections, following, leading, snapshots
from migrator.raft.effects import Announce, Effect
from migrator.raft.leading import FETCH_WAIT_MAX_MS, OBSERVER_FORGOTTEN_AFTER_MS
from migrator.raft.log_view import LogView
from migrator.raft.quorum import LAST_EPOCH, Chance, QuorumState
from migrator.raft.roles import (
    Candidate,
    Follower,
    Leadership,
    Prospective,
    QuorumSettings,
    ReplicaProgress,
    Resigned,
    Unattached,
)
from migrator.raft.types import (
    NOBODY,
    AppendRequested,
    Event,
    FetchAnswered,
    FetchReceived,
    FetchSnapshotAnswered,
    FetchSnapshotReceived,
    LeaderClaimAnswered,
    LeaderClaimed,
    LeaderLeft,
    LogFlushed,
    RecordsApplied,
    RequestDropped,
    RequestFailed,
    ResignRequested,
    SnapshotFailed,
    SnapshotTaken,
    Started,
    Stopping,
    StorageMeasured,
    Ticked,
    VoteAnswered,
    VoteReceived,
    VotersUnfit,
)
from migrator.wire.errors import Error


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """One line of DescribeQuorum. Times are of the core's clock; -1 while unknown."""

    replica: int
    end: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class Description:
    """What DescribeQuorum tells; voters and observers are empty on a node that does not lead."""

    error: Error
    leader: int
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


class Voter(QuorumState):
    """The decisions of one node. `receive` is the only way in."""

    def receive(self, event: Event, now_ms: int) -> list[Effect]:
        self.out = []
        before = self.role
        self._handle(event, now_ms)
        self._poll(now_ms)
        if self.role is not before and not self.stopping and not isinstance(self.role, Leadership):
            self.out.append(Announce(self.standing, self.epoch, self.leader))
        return self.out

    def _handle(self, event: Event, now_ms: int) -> None:
        match event:
            case Ticked():
                leading.on_ticked(self, now_ms)
            case FetchReceived():
                leading.on_fetch_received(self, event, now_ms)
            case FetchAnswered():
                following.on_fetch_answered(self, event, now_ms)
            case LogFlushed():
                leading.on_log_flushed(self, event, now_ms)
            case AppendRequested():
                leading.on_append_requested(self, event, now_ms)
            case RecordsApplied():
                snapshots.on_records_applied(self, event, now_ms)
            case VoteReceived():
                elections.on_vote_received(self, event, now_ms)
            case VoteAnswered():
                elections.on_vote_answered(self, event, now_ms)
            case LeaderClaimed():
                elections.on_leader_claimed(self, event, now_ms)
            case LeaderLeft():
                elections.on_leader_left(self, event, now_ms)
            case LeaderClaimAnswered():
                elections.on_leader_claim_answered(self, event, now_ms)
            case RequestFailed():
                self._on_request_failed(event, now_ms)
            case RequestDropped():
                leading.on_request_dropped(self, event)
            case FetchSnapshotReceived():
                leading.on_fetch_snapshot_received(self, event, now_ms)
            case FetchSnapshotAnswered():
                following.on_fetch_snapshot_answered(self, event, now_ms)
            case SnapshotTaken():
                snapshots.on_snapshot_taken(self, event)
            case SnapshotFailed():
                snapshots.on_snapshot_failed(self)
            case StorageMeasured():
                snapshots.on_storage_measured(self, event)
            case Started():
                snapshots.recover(self, now_ms)
                elections.start(self, now_ms)
            case ResignRequested():
                self._on_resign_requested(event, now_ms)
            case VotersUnfit(voters):
                self.unfit = voters
            case Stopping():
                self._on_stopping(now_ms)
            case _:
                assert_never(event)

    def _on_request_failed(self, event: RequestFailed, now_ms: int) -> None:
        peer = self.requests.close(event.request)
        if peer is not None:
            self.requests.pause(peer, now_ms)
            if isinstance(self.role, Prospective):
                elections.on_pre_vote_failed(self, self.role, peer, now_ms)

    def _on_resign_requested(self, event: ResignRequested, now_ms: int) -> None:
        assert event.epoch <= self.epoch, f"resigns from epoch {event.epoch}, this is {self.epoch}"
        if event.epoch == self.epoch and isinstance(self.role, Leadership) and self.others:
            self.resign(now_ms)

    def _on_stopping(self, now_ms: int) -> None:
        """Answer who waits, and lead no more. Records that were not flushed are not promised to anybody."""
        self.stopping = True
        if isinstance(self.role, Leadership):
            self.resign(now_ms)

    # --- time ----------------------------------------------------------------------------------------------

    def _poll(self, now_ms: int) -> None:
        """What is due, and what may be sent now. After every event, for any of them may have made it so."""
        self.requests.settle(now_ms)
        role = self.role
        match role:
            case Leadership():
                leading.poll_leader(self, role, now_ms)
                if self.others and self.role is role:
                    elections.poll_begin(self, role, now_ms)
                elif isinstance(self.role, Resigned):
                    elections.poll_resigned(self, self.role, now_ms)
            case Resigned():
                elections.poll_resigned(self, role, now_ms)
            case _ if self.stopping:
                pass
            case Follower():
                following.poll_follower(self, role, now_ms)
            case Prospective() | Candidate():
                elections.poll_standing(self, now_ms)
            case Unattached():
                elections.poll_unattached(self, role, now_ms)
                following.poll_observer(self, now_ms)
            case _:
                assert_never(role)

    def next_deadline_ms(self) -> int | None:
        """When to send the next `Ticked`; None while nothing waits."""
        role = self.role
        deadlines: list[int | None] = list(self.requests.deadlines())
        match role:
            case Leadership():
                deadlines += [parked.deadline_ms for parked in role.parked.values()]
                deadlines.append(role.flush_due_ms)
                if self.others:
                    deadlines += [role.check_quorum_deadline_ms, role.flush_deadline_ms, role.next_begin_ms]
            case Follower() | Unattached() | Resigned() if not self.log.is_on_disk:
                pass  # the end of the flush is what it waits for
            case Follower():
                if self.is_voter and not self.stopping:
                    deadlines.append(role.fetch_deadline_ms)
            case Candidate():
                backing_off = role.backoff_until_ms
                deadlines.append(role.election_deadline_ms if backing_off is None else backing_off)
            case Unattached() | Prospective() | Resigned():
                deadlines.append(role.election_deadline_ms)
            case _:
                assert_never(role)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # --- description ---------------------------------------------------------------------------------------

    @property
    def may_exit(self) -> bool:
        """Whether a node that is stopping may end: nobody is left who should hear that it leads no more."""
        return self.stopping and not (isinstance(self.role, Resigned) and self.role.unacknowledged)

    def observers(self, now_ms: int) -> dict[int, ReplicaProgress]:
        """Replicas that fetch and are not voters; those silent for five minutes are left out."""
        lead = self.leadership
        if lead is None:
            return {}
        return {
            replica: progress
            for replica, progress in lead.replicas.items()
            if replica not in self.voters and now_ms - progress.last_fetch_ms < OBSERVER_FORGOTTEN_AFTER_MS
        }

    def describe(self, now_ms: int) -> Description:
        """Source: `KafkaRaftClient.handleDescribeQuorumRequest`; a voter never heard of has end and times -1."""
        lead = self.leadership
        if lead is None:
            return Description(Error.NOT_LEADER_OR_FOLLOWER, self.leader, self.epoch, self.high_watermark)

        def line(replica: int, seen: ReplicaProgress) -> ReplicaState:
            return ReplicaState(replica, seen.end, seen.last_fetch_ms, seen.last_caught_up_ms)

        itself = ReplicaProgress(self.log.durable_end, now_ms, now_ms)
        voters = tuple(
            line(each, itself if each == self.node_id else lead.replicas.get(each, ReplicaProgress()))
            for each in self.voters
        )
        observers = tuple(line(each, seen) for each, seen in sorted(self.observers(now_ms).items()))
        return Description(Error.NONE, self.leader, self.epoch, self.high_watermark, voters, observers)


__all__ = [
    "FETCH_WAIT_MAX_MS",
    "LAST_EPOCH",
    "NOBODY",
    "OBSERVER_FORGOTTEN_AFTER_MS",
    "Chance",
    "Description",
    "LogView",
    "QuorumSettings",
    "ReplicaState",
    "Voter",
]
