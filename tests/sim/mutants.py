"""Deliberate bugs: each must be found by the simulator, or the simulator is a toy.

A mutant replaces one function of the core, or one act of the simulated shell, for as long as it is entered. Each names
the promise that it breaks and the seeds in which it was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from migrator.controller.decision import Situation
from migrator.node.leader.active_controller import ActiveController
from migrator.raft import elections, following, leading, snapshots
from migrator.raft.effects import AdvanceHighWatermark, Effect, InstallSnapshot, Persist, TakeSnapshot, Truncate
from migrator.raft.log_view import LogView
from migrator.raft.quorum import QuorumState
from migrator.raft.requests import Requests
from migrator.raft.roles import Candidate, Follower, Leadership, ReplicaProgress, Unattached
from migrator.raft.types import NOBODY, ElectionState, FetchReceived, SnapshotId, VoteReceived
from migrator.raft.voter import Voter
from tests.sim.clients import Pending
from tests.sim.node import SimNode

Patch = tuple[Any, str, Any]


@dataclass(frozen=True)
class Mutant:
    """`first_seed`: where a search from 0 upwards found it; None while nobody has looked."""

    name: str
    patches: Callable[[], list[Patch]]
    first_seed: int

    @contextmanager
    def at_work(self) -> Iterator[None]:
        patches = self.patches()
        before = [(place, name, place.__dict__[name]) for place, name, _ in patches]
        for place, name, new in patches:
            setattr(place, name, new)
        try:
            yield
        finally:
            for place, name, old in before:
                setattr(place, name, old)


# --- the high watermark -----------------------------------------------------------------------------------


def _count_other_epochs() -> list[Patch]:
    def advance(q: QuorumState, lead: Leadership) -> bool:
        was, lead.start = lead.start, -1
        try:
            return original(q, lead)
        finally:
            lead.start = was

    original = leading.advance_high_watermark
    return [(leading, "advance_high_watermark", advance)]


def _count_self_unsynced() -> list[Patch]:
    def end(q: QuorumState, lead: Leadership, voter: int) -> int:
        return q.log.end if voter == q.node_id else original(q, lead, voter)

    original = leading._end_on_disk
    return [(leading, "_end_on_disk", end)]


def _answer_before_majority() -> list[Patch]:
    def advance(q: QuorumState, lead: Leadership) -> bool:
        if q.log.durable_end <= max(lead.start, lead.high_watermark or 0):
            return False
        lead.high_watermark = q.log.committed = q.log.durable_end
        q.out.append(AdvanceHighWatermark(q.log.durable_end))
        return True

    return [(leading, "advance_high_watermark", advance)]


def _majority_too_small() -> list[Patch]:
    def start(q: QuorumState, now_ms: int) -> None:
        q.majority = max(1, len(q.voters) // 2)
        original(q, now_ms)

    original = elections.start
    return [(elections, "start", start)]


# --- votes ------------------------------------------------------------------------------------------------


def _vote_not_synced() -> list[Patch]:
    """The shell writes the quorum state and does not sync it: a power cut brings the old one back."""

    def write(node: SimNode, effect: Effect) -> None:
        if isinstance(effect, Persist):
            if node.disk.late_state is None:
                node.disk.late_state = node.disk.state
            node.disk.state = effect.state
        else:
            original(node, effect)

    def die(node: SimNode, *, power_cut: bool) -> None:
        late = node.disk.late_state
        if power_cut and late is not None and node.world.rng.random() < 0.7:
            node.disk.state, node.disk.late_state = late, None
        original_die(node, power_cut=power_cut)

    original, original_die = SimNode._write, SimNode.die
    return [(SimNode, "_write", write), (SimNode, "die", die)]


def _vote_before_sync() -> list[Patch]:
    """The core orders the promise after the answer."""

    def receive(voter: Voter, event: Any, now_ms: int) -> list[Effect]:
        effects = original(voter, event, now_ms)
        return sorted(effects, key=lambda effect: isinstance(effect, Persist))

    original = Voter.receive
    return [(Voter, "receive", receive)]


def _vote_forgotten() -> list[Patch]:
    """A vote lives in memory only."""

    def voted(q: QuorumState, candidate: int, now_ms: int) -> None:
        q.state = ElectionState(q.epoch, voted_for=candidate)
        q.role = Unattached(now_ms + q.election_timeout_ms())

    return [(QuorumState, "become_voted", voted)]


def _vote_twice() -> list[Patch]:
    def grant(q: QuorumState, ask: VoteReceived) -> bool:
        if isinstance(q.role, Unattached) and q.leader == NOBODY and elections.is_up_to_date(q, ask):
            q.state = replace(q.state, voted_for=NOBODY)
            return True
        return False

    return [(elections, "may_grant", grant)]


def _vote_for_shorter_log() -> list[Patch]:
    return [(elections, "is_up_to_date", lambda q, ask: True)]


def _vote_by_length_alone() -> list[Patch]:
    return [(elections, "is_up_to_date", lambda q, ask: ask.last_offset >= q.log.durable_end)]


def _stale_vote_counted() -> list[Patch]:
    """Rejections count as votes."""

    def count(q: QuorumState, role: Candidate, voter: int, *, granted: bool, now_ms: int) -> None:
        role.granted.add(voter)
        q.lead_if_elected(now_ms)

    return [(elections, "count_vote", count)]


# --- leadership -------------------------------------------------------------------------------------------


def _leader_stays_in_old_epoch() -> list[Patch]:
    """A leader takes over a higher epoch and goes on leading in it."""

    def unattached(q: QuorumState, epoch: int, now_ms: int) -> None:
        if isinstance(q.role, Leadership):
            q.state = ElectionState(epoch, leader=q.node_id)
            q.out.append(Persist(q.state))
            q.role.epoch = epoch
        else:
            original(q, epoch, now_ms)

    original = QuorumState.become_unattached
    return [(QuorumState, "become_unattached", unattached)]


def _restarted_leader_goes_on() -> list[Patch]:
    """A leader that comes back believes that it still leads its epoch."""

    def start(q: QuorumState, now_ms: int) -> None:
        if q.state.leader == q.node_id and q.others:
            q.state = ElectionState(q.epoch, voted_for=q.node_id)
            q.role = Candidate(now_ms, 1, set(q.voters))
            q.lead_if_elected(now_ms)
        else:
            original(q, now_ms)

    original = elections.start
    return [(elections, "start", start)]


def _zombie_leads_for_ever() -> list[Patch]:
    """A leader that nobody asks any more never resigns."""

    def poll(q: QuorumState, lead: Leadership, now_ms: int) -> None:
        lead.check_quorum_deadline_ms = now_ms + 1_000
        original(q, lead, now_ms)

    original = leading.poll_leader
    return [(leading, "poll_leader", poll)]


# --- fetches ----------------------------------------------------------------------------------------------


def _stale_fetch_accepted() -> list[Patch]:
    """Neither the epoch of a fetch is looked at nor that of the record before its offset."""

    def received(q: QuorumState, ask: FetchReceived, now_ms: int) -> None:
        last_epoch = q.log.epoch_before(min(ask.offset, q.log.end))
        original(q, replace(ask, epoch=q.epoch, last_epoch=last_epoch), now_ms)

    original = leading.on_fetch_received
    return [(leading, "on_fetch_received", received)]


def _diverging_fetch_counted() -> list[Patch]:
    """The offset of a fetch counts as progress although its records are others."""

    def received(q: QuorumState, ask: FetchReceived, now_ms: int) -> None:
        if leading.refusal_of_fetch(q, ask) is None and isinstance(q.role, Leadership) and ask.replica in q.others:
            progress = q.role.replicas.setdefault(ask.replica, ReplicaProgress())
            progress.end = max(progress.end, min(ask.offset, q.log.end))
            leading.advance_high_watermark(q, q.role)
        original(q, ask, now_ms)

    original = leading.on_fetch_received
    return [(leading, "on_fetch_received", received)]


def _no_divergence_told() -> list[Patch]:
    return [(LogView, "divergence", lambda log, offset, last_epoch: None)]


def _no_truncation() -> list[Patch]:
    """Told where the logs part, a follower goes on as if it had cut."""

    def truncate(q: QuorumState, agreed: Any) -> None:
        end = q.log.end_shared_with(agreed)
        if end < q.log.end:
            q.log.epochs.truncate_to(end)
            q.log.epochs.assign(agreed.epoch, end)

    return [(following, "truncate_to_leader", truncate)]


def _truncates_one_epoch_too_little() -> list[Patch]:
    """Cuts to the leader's end of the epoch without looking at its own."""
    return [(LogView, "end_shared_with", lambda log, agreed: min(agreed.offset, log.end))]


def _fetch_before_sync() -> list[Patch]:
    """A follower acknowledges what is only in its page cache."""

    def take(q: QuorumState, role: Follower, answer: Any) -> bool:
        taken = original(q, role, answer)
        q.log.durable_end = q.log.end
        return taken

    original = following.take_answer
    return [(following, "take_answer", take)]


def _late_answers_taken() -> list[Patch]:
    """Late and repeated answers are taken for new ones, and records are appended wherever they begin."""

    def close(requests: Requests, number: int) -> int | None:
        peer = original(requests, number)
        return peer if peer is not None else next(iter(requests._under_way), None)

    original = Requests.close
    return [(following, "fits", lambda q, batches: True), (Requests, "close", close)]


# --- snapshots --------------------------------------------------------------------------------------------


def _snapshot_without_reset() -> list[Patch]:
    """The snapshot is loaded and the old log is left as it is."""

    def write(node: SimNode, effect: Effect) -> None:
        if isinstance(effect, InstallSnapshot):
            node.disk.name_part(effect.snapshot, node.world.now)
            node.machine = type(node.machine).of(effect.snapshot, node.disk.snapshots[effect.snapshot])
            node.disk.start = min(node.disk.start, effect.snapshot.end_offset)
        else:
            original(node, effect)

    original = SimNode._write
    return [(SimNode, "_write", write)]


def _snapshot_half_installed_is_not_repaired() -> list[Patch]:
    return [(LogView, "lacks", lambda log, snapshot: False)]


def _snapshot_of_uncommitted() -> list[Patch]:
    """A snapshot names one record more than it contains."""

    def applied(q: QuorumState, event: Any, now_ms: int) -> None:
        original(q, event, now_ms)
        if q.out and isinstance(q.out[-1], TakeSnapshot):
            named = q.out[-1].snapshot
            q.out[-1] = TakeSnapshot(SnapshotId(named.end_offset + 1, named.epoch))

    original = snapshots.on_records_applied
    return [(snapshots, "on_records_applied", applied)]


def _no_snapshot_for_who_is_behind() -> list[Patch]:
    """A reader from before the log's start is given what there is."""
    return [(LogView, "snapshot_for", lambda log, offset, last_epoch: None)]


def _truncation_not_synced() -> list[Patch]:
    """The shell cuts the log in memory and says nothing to the disk; the core goes on as if it had."""

    def write(node: SimNode, effect: Effect) -> None:
        if not isinstance(effect, Truncate):
            original(node, effect)

    original = SimNode._write
    return [(SimNode, "_write", write)]


# --- clients ----------------------------------------------------------------------------------------------


def _read_from_memory() -> list[Patch]:
    """A leader answers reads from its state as it is; it may have been deposed without knowing."""

    def propose(node: SimNode, operation: int, count: int, reply: Any) -> bool:
        if isinstance(reply, Pending) and not reply.is_write and node.takes_proposals:
            node.world.clients.done(node.node_id, reply, node.machine.registers)
            return True
        return original(node, operation, count, reply)

    original = SimNode.propose
    return [(SimNode, "propose", propose)]


def _answered_when_appended() -> list[Patch]:
    """A client is told that its write is done when the leader has it in its log."""

    def propose(node: SimNode, operation: int, count: int, reply: Any) -> bool:
        taken = original(node, operation, count, reply)
        if taken and isinstance(reply, Pending) and reply.is_write:
            node.world.clients.done(node.node_id, reply, node.machine.registers)
        return taken

    original = SimNode.propose
    return [(SimNode, "propose", propose)]


# --- requests in flight -----------------------------------------------------------------------------------


def _situation_of_before_its_turn() -> list[Patch]:
    """A decision that is made apart looks at what was there before it waited for its turn."""
    before: ContextVar[Situation | None] = ContextVar("before", default=None)

    async def decided(controller: ActiveController, *given: Any) -> Any:
        token = before.set(situation(controller))
        try:
            return await apart(controller, *given)
        finally:
            before.reset(token)

    def seen(controller: ActiveController, *given: Any) -> Situation:
        now, early = situation(controller, *given), before.get()
        return now if early is None else replace(now, image=early.image, next_offset=early.next_offset)

    apart, situation = ActiveController._apart, ActiveController._situation
    return [(ActiveController, "_apart", decided), (ActiveController, "_situation", seen)]


REQUEST_MUTANTS = (
    Mutant("a large decision is made from what was there before its turn", _situation_of_before_its_turn, 3),
)
"""For the simulation with requests in flight (requests.py)."""

MUTANTS = (
    Mutant("the high watermark counts records of other epochs", _count_other_epochs, 1),
    Mutant("a leader counts itself before its flush", _count_self_unsynced, 2),
    Mutant("an append is answered before a majority has it", _answer_before_majority, 0),
    Mutant("half of the voters is a majority", _majority_too_small, 0),
    Mutant("the vote is not synced", _vote_not_synced, 0),
    Mutant("the answer leaves before the vote is on disk", _vote_before_sync, 0),
    Mutant("a vote is kept in memory only", _vote_forgotten, 0),
    Mutant("a vote is given twice", _vote_twice, 1),
    Mutant("a vote is given to a shorter log", _vote_for_shorter_log, 0),
    Mutant("logs are compared by length alone", _vote_by_length_alone, 51),
    Mutant("a rejection counts as a vote", _stale_vote_counted, 0),
    Mutant("a leader goes on in a higher epoch", _leader_stays_in_old_epoch, 4),
    Mutant("a restarted leader goes on in its epoch", _restarted_leader_goes_on, 0),
    Mutant("a leader never checks its quorum", _zombie_leads_for_ever, 1),
    Mutant("a stale fetch is accepted", _stale_fetch_accepted, 1),
    Mutant("a diverging fetch counts as progress", _diverging_fetch_counted, 1),
    Mutant("a leader tells no divergence", _no_divergence_told, 1),
    Mutant("a follower does not truncate", _no_truncation, 4),
    Mutant("a follower truncates by the leader's offset alone", _truncates_one_epoch_too_little, 4),
    Mutant("a follower acknowledges before its flush", _fetch_before_sync, 0),
    Mutant("late answers are taken for new ones", _late_answers_taken, 3),
    Mutant("a snapshot is installed without emptying the log", _snapshot_without_reset, 1),
    Mutant("a half installed snapshot is not repaired", _snapshot_half_installed_is_not_repaired, 15),
    Mutant("a snapshot names more than it contains", _snapshot_of_uncommitted, 1),
    Mutant("a reader that is behind gets no snapshot", _no_snapshot_for_who_is_behind, 1),
    Mutant("a truncation never reaches the disk", _truncation_not_synced, 1),
    Mutant("a read is answered from memory", _read_from_memory, 0),
    Mutant("a write is answered when it is appended", _answered_when_appended, 1),
)
