"""One simulated process: the core, a disk, a clock, and a shell that carries out effects as a real one would.

One event at a time goes into the core; its effects are carried out in their order. A write that must be on disk before
the next effect keeps the whole node busy for as long as the disk takes; flushes run beside it. A crash can come between
any two effects, or in the middle of a write.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from migrator.raft.effects import (
    AdvanceHighWatermark,
    Announce,
    AnswerFetch,
    AnswerFetchSnapshot,
    AnswerLeaderClaim,
    AnswerVote,
    Append,
    AppendLeaderChange,
    AppendReplicated,
    DropSnapshotPart,
    Effect,
    Flush,
    InstallSnapshot,
    Lead,
    Persist,
    ResetLog,
    SendBeginQuorumEpoch,
    SendEndQuorumEpoch,
    SendFetch,
    SendFetchSnapshot,
    SendVote,
    StopLeading,
    TakeSnapshot,
    TrimLog,
    Truncate,
    WriteSnapshotPart,
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
    Payload,
    RecordsApplied,
    ReplicatedBatch,
    SnapshotId,
    SnapshotTaken,
    Started,
    StorageMeasured,
    StoredSnapshot,
    Ticked,
    VoteAnswered,
    VoteReceived,
)
from migrator.raft.voter import Voter
from migrator.wire.errors import Error
from tests.sim.disk import Entry, SimDisk, SnapshotFile

if TYPE_CHECKING:
    from tests.sim.world import World

CLUSTER = "simulated"
READ_BATCHES_MAX = 50
"""What one fetch returns at most: a lagging replica needs several."""

MEASURE_PERIOD_MS = 700


@dataclass
class Machine:
    """What the records mean: registers, each record sets one or only reads it."""

    applied: int = 0
    digest: int = 0
    registers: dict[str, int] = field(default_factory=dict)

    def apply(self, entry: Entry, writes: dict[int, tuple[str, int]]) -> None:
        operation = int.from_bytes(entry.data, "big")
        change = writes.get(operation)
        if change is not None:
            self.registers[change[0]] = change[1]
        self.digest = hash((self.digest, entry.end, operation))
        self.applied = entry.end

    @classmethod
    def of(cls, snapshot: SnapshotId, data: bytes) -> Machine:
        stored = SnapshotFile.decode(data)
        return cls(snapshot.end_offset, stored.state_digest, dict(stored.registers))


class SimNode:
    """A process that can die. `disk` is what survives it."""

    def __init__(self, node_id: int, world: World, rate: float, offset_ms: int) -> None:
        self.node_id = node_id
        self.world = world
        self.disk = SimDisk()
        self.rate, self.offset_ms = rate, offset_ms
        self.voter: Voter
        self.machine = Machine()
        self.alive = False
        self.incarnation = 0
        self.paused = False
        self.slow_factor = 1
        self.crash_at: str | None = None
        self.busy: Effect | None = None
        self.rest: deque[Effect] = deque()
        self.inbox: deque[Event] = deque()
        self.waiting: dict[int, tuple[int, int, int]] = {}
        """Our number of a request of another node: that node, its incarnation, its number."""
        self.pre_votes: set[int] = set()
        """Those of our numbers that are pre-votes: an answer to them promises nothing."""
        self.proposals: dict[int, tuple[int, Any]] = {}
        """End offset of what a client wants: the operation, and how to tell the client."""
        self.heard: dict[int, int] = {}
        """When each replica was last heard of, and under our own number when we began to lead."""
        self.next_request = 0
        self.armed_ms: float | None = None
        self.flushing = False
        self.flush_wanted: int | None = None
        self.high_watermark = -1
        self.pumping = False
        self.applied_bytes = 0

    # --- life and death ------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return int(self.offset_ms + self.world.now * self.rate)

    def boot(self) -> None:
        """A new process reads the disk."""
        world = self.world
        self.alive, self.incarnation = True, self.incarnation + 1
        view = self.disk.open()
        rng = random.Random(world.rng.getrandbits(48))
        self.voter = Voter(
            node_id=self.node_id,
            voters=world.plan.voter_ids,
            cluster_id=CLUSTER,
            state=self.disk.state,
            log=view,
            settings=world.plan.settings_of(self.node_id),
            chance=lambda n: int(rng.random() * n),
        )
        newest = self.disk.newest()
        self.machine = Machine() if newest is None else Machine.of(newest, self.disk.snapshots[newest])
        self.high_watermark = -1
        self.deliver(Started())
        self._later(MEASURE_PERIOD_MS, self._measure)

    def die(self, *, power_cut: bool) -> None:
        """Everything in memory is gone, and with the power what was not synced; a write under way may have happened."""
        if not self.alive:
            return
        world = self.world
        self.alive = False
        if self.busy is not None:
            self._half_done(self.busy)
        if power_cut:
            self.disk.lose_power(world.rng, world.plan.weather.torn, world.losses)
        self.busy, self.armed_ms = None, None
        self.flushing, self.flush_wanted, self.paused = False, None, False
        self.rest.clear()
        self.applied_bytes = 0
        self.inbox.clear()
        self.waiting.clear()
        for _, reply in self.proposals.values():
            world.clients.unknown(reply)
        self.proposals.clear()
        world.ledger.after_loss(world, self)

    def _half_done(self, effect: Effect) -> None:
        """A write that was under way is on disk, or not, or for two-step writes the first half of it is."""
        chance = self.world.rng.random()
        match effect:
            case InstallSnapshot(snapshot) if chance < 0.75:
                self.disk.name_part(snapshot, self.world.now)
                if chance < 0.4:
                    self.disk.reset_log(snapshot)
                else:
                    self.world.count("half installed snapshots")
            case _ if not isinstance(effect, InstallSnapshot) and chance < 0.5:
                self._write(effect)

    def _later(self, delay_ms: int, action: Any, *args: Any) -> None:
        """Do it in this life of the process or not at all."""
        self.world.at(delay_ms, self._if_same, self.incarnation, action, args)

    def _if_same(self, incarnation: int, action: Any, args: tuple[Any, ...]) -> None:
        if self.alive and incarnation == self.incarnation:
            action(*args)

    # --- events in -----------------------------------------------------------------------------------------

    def deliver(self, event: Event) -> None:
        if self.alive:
            self.inbox.append(event)
            self.pump()

    def pump(self) -> None:
        """Give the core the next event when everything of the one before is carried out."""
        if self.pumping:
            return
        self.pumping = True
        while self.alive and self.busy is None and not self.paused:
            if self.rest:
                self._carry_out(self.rest.popleft())
            elif self.applied_bytes:  # before anything can be applied on top of it
                size, self.applied_bytes = self.applied_bytes, 0
                self._receive(RecordsApplied(self.machine.applied, size))
            elif self.inbox:
                self._receive(self.inbox.popleft())
            else:
                self._arm()
                break
        self.pumping = False

    def _receive(self, event: Event) -> None:
        self.world.steps += 1
        if isinstance(event, FetchReceived | FetchSnapshotReceived):
            self.heard[event.replica] = self.world.now
        self.rest.extend(self.voter.receive(event, self.now_ms()))

    def pause(self, paused: bool) -> None:
        if self.alive:
            self.paused = paused
            self.pump()

    def _arm(self) -> None:
        """Have the core ticked at its next deadline. An alarm that is too early looks again; none is put off."""
        deadline_ms = self.voter.next_deadline_ms()
        if deadline_ms is None:
            return
        at = max(self.world.now + 1, (deadline_ms - self.offset_ms) / self.rate)
        if self.armed_ms is None or at < self.armed_ms:
            self.armed_ms = at
            self._later(int(at) + 1 - self.world.now, self._ring, at)

    def _ring(self, at: float) -> None:
        if self.armed_ms != at:
            return
        self.armed_ms = None
        deadline_ms = self.voter.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= self.now_ms():
            self.deliver(Ticked())
        elif self.busy is None and not self.paused:
            self._arm()
        else:
            self.inbox.append(Ticked())

    def _measure(self) -> None:
        now = self.world.now
        stored = tuple(
            StoredSnapshot(snapshot, len(data), now - self.disk.snapshot_ms[snapshot])
            for snapshot, data in sorted(self.disk.snapshots.items())
        )
        if stored:
            self.deliver(StorageMeasured(self.disk.log_bytes, stored))
        self._later(MEASURE_PERIOD_MS, self._measure)

    # --- effects out ---------------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        point = self.crash_at
        if point is not None and point.startswith(type(effect).__name__ + ":"):
            self.world.count("crash-at")
            self.crash_at = None
            if point.endswith(":half") and isinstance(effect, InstallSnapshot):
                self.disk.name_part(effect.snapshot, self.world.now)
                self.world.count("half installed snapshots")
            elif point.endswith(":half"):
                self.busy = effect
            elif point.endswith(":after") and not isinstance(effect, BLOCKING):
                CARRY_OUT[type(effect)](self, effect)
            elif point.endswith(":after"):
                self._write(effect)
            self.world.crash(self, power_cut=True)
            return
        if isinstance(effect, BLOCKING):
            delay_ms = self.disk_delay()
            if delay_ms > 0:
                self.busy = effect
                self._later(delay_ms, self._written)
                return
            self._write(effect)
        else:
            CARRY_OUT[type(effect)](self, effect)

    def disk_delay(self) -> int:
        low, high = self.world.plan.weather.disk_ms if not self.world.healed else (0, 1)
        return int(low + self.world.rng.random() * (high - low + 1)) * self.slow_factor

    def _written(self) -> None:
        effect, self.busy = self.busy, None
        assert effect is not None
        self._write(effect)
        self.pump()

    def _write(self, effect: Effect) -> None:
        world = self.world
        match effect:
            case Persist(state):
                self.disk.state = state
            case Truncate(end):
                world.count("truncations")
                self.disk.truncate(end)
                world.ledger.after_loss(world, self)
            case InstallSnapshot(snapshot):
                world.count("snapshots installed")
                self.disk.name_part(snapshot, world.now)
                self._load(snapshot)
            case ResetLog(snapshot):
                world.count("logs reset at start")
                self._load(snapshot)
            case _:
                raise AssertionError(effect)

    def _load(self, snapshot: SnapshotId) -> None:
        self.disk.reset_log(snapshot)
        self.machine = Machine.of(snapshot, self.disk.snapshots[snapshot])
        self.world.ledger.after_apply(self)
        self.world.ledger.after_loss(self.world, self)

    # the log

    def _append_leader_change(self, effect: AppendLeaderChange) -> None:
        self._append_one(effect.offset, 1, effect.epoch, b"")

    def _append(self, effect: Append) -> None:
        offset = effect.offset
        for payload in effect.payloads:
            self._append_one(offset, payload.count, effect.epoch, payload.batch)
            offset += payload.count

    def _append_replicated(self, effect: AppendReplicated) -> None:
        for batch in effect.batches:
            self._append_one(batch.base_offset, batch.count, batch.epoch, batch.data)

    def _append_one(self, offset: int, count: int, epoch: int, data: bytes) -> None:
        self.world.ledger.after_append(self, self.disk.append(offset, count, epoch, data))

    def _flush(self, effect: Flush) -> None:
        self.flush_wanted = effect.generation
        if not self.flushing:
            self._begin_flush()

    def _begin_flush(self) -> None:
        generation, self.flush_wanted = self.flush_wanted, None
        self.flushing = True
        self._later(self.disk_delay(), self._flushed, self.disk.end, generation)

    def _flushed(self, end: int, generation: int) -> None:
        """What was there when the flush began is on disk, unless the log was cut and written anew meanwhile."""
        self.flushing = False
        if generation == self.voter.log.generation:
            self.disk.sync(end)
        self.deliver(LogFlushed(end, generation))
        if self.flush_wanted is not None:
            self._begin_flush()

    # snapshots

    def _take_snapshot(self, effect: TakeSnapshot) -> None:
        machine = self.machine
        assert machine.applied == effect.snapshot.end_offset, f"{effect} of a state at {machine.applied}"
        digest = self.disk.digest_at(machine.applied)
        assert digest is not None
        data = SnapshotFile(digest, machine.digest, dict(machine.registers)).encode()
        self._later(self.disk_delay() + 1, self._snapshot_taken, effect.snapshot, data)

    def _snapshot_taken(self, snapshot: SnapshotId, data: bytes) -> None:
        self.world.count("snapshots taken")
        newest = self.disk.newest()
        if newest is None or newest < snapshot:
            self.disk.add_snapshot(snapshot, data, self.world.now)
        self.deliver(SnapshotTaken(snapshot, len(data)))

    def _write_part(self, effect: WriteSnapshotPart) -> None:
        self.disk.write_part(effect.snapshot, effect.position, effect.data)

    def _drop_part(self, effect: DropSnapshotPart) -> None:
        self.world.count("downloads given up")
        self.disk.part = None

    def _trim(self, effect: TrimLog) -> None:
        self.world.count("logs trimmed")
        self.disk.trim(effect.snapshot)

    # what others asked

    def request(self, sender: int, incarnation: int, number: int, build: Any) -> None:
        """A request arrives: it gets a number of ours, by which the answer finds its way back."""
        self.next_request += 1
        self.waiting[self.next_request] = (sender, incarnation, number)
        event = build(self.next_request)
        if isinstance(event, VoteReceived) and event.pre_vote:
            if self.node_id in self.world.plan.old_voters:
                self._answer(self.next_request, lambda number: cannot_be_asked(number, event.epoch))
                return
            self.pre_votes.add(self.next_request)
        self.deliver(event)

    def _answer(self, request: int, build: Any) -> None:
        sender, incarnation, number = self.waiting.pop(request)
        self.world.answer(self.node_id, sender, incarnation, build(number))

    def _answer_vote(self, effect: AnswerVote) -> None:
        if effect.request in self.pre_votes:
            self.pre_votes.discard(effect.request)
        else:
            self.world.ledger.before_vote(self, effect, self.waiting[effect.request][0])
        self._answer(
            effect.request,
            lambda number: VoteAnswered(
                number, effect.error, effect.leader, effect.epoch, effect.granted, effect.top_level
            ),
        )

    def _answer_claim(self, effect: AnswerLeaderClaim) -> None:
        self._answer(
            effect.request,
            lambda number: LeaderClaimAnswered(number, effect.error, effect.leader, effect.epoch, effect.top_level),
        )

    def _answer_fetch(self, effect: AnswerFetch) -> None:
        batches: tuple[ReplicatedBatch, ...] = ()
        if effect.read_from is not None and effect.error is Error.NONE:
            found = self.disk.between(effect.read_from, effect.read_to, READ_BATCHES_MAX)
            batches = tuple(ReplicatedBatch(each.base, each.end - each.base, each.epoch, each.data) for each in found)
        if effect.snapshot is not None:
            self.world.count("snapshots offered")
        self._answer(
            effect.request,
            lambda number: FetchAnswered(
                number,
                effect.error,
                effect.leader,
                effect.epoch,
                effect.high_watermark,
                batches,
                effect.diverging_epoch,
                effect.diverging_end,
                effect.snapshot,
                effect.top_level,
            ),
        )

    def _answer_fetch_snapshot(self, effect: AnswerFetchSnapshot) -> None:
        data = self.disk.snapshots.get(effect.snapshot, b"") if effect.error is Error.NONE else b""
        part = data[effect.position : effect.position + effect.max_bytes]
        self._answer(
            effect.request,
            lambda number: FetchSnapshotAnswered(
                number,
                effect.error,
                effect.leader,
                effect.epoch,
                effect.snapshot,
                effect.size,
                effect.position,
                part,
                effect.top_level,
            ),
        )

    # what this node asks

    def _send(self, effect: Any, build: Any) -> None:
        self.world.ask(self, effect.to, effect.request, build)

    def _send_vote(self, effect: SendVote) -> None:
        if effect.pre_vote:
            self.world.count("pre-votes asked")
            if effect.to in self.world.plan.old_voters:
                self.world.count("pre-votes asked of old voters")
                if self.world.rng.random() < 0.5:  # its versions are known from before, whether or not it lives
                    self._later(0, self.deliver, cannot_be_asked(effect.request, effect.epoch))
                    return
        else:
            self.world.ledger.before_candidacy(self, effect)
        self._send(
            effect,
            lambda number: VoteReceived(
                number,
                CLUSTER,
                effect.to,
                effect.candidate,
                effect.epoch,
                effect.last_epoch,
                effect.last_offset,
                pre_vote=effect.pre_vote,
            ),
        )

    def _send_begin(self, effect: SendBeginQuorumEpoch) -> None:
        self._send(effect, lambda number: LeaderClaimed(number, CLUSTER, effect.leader, effect.epoch, effect.to))

    def _send_end(self, effect: SendEndQuorumEpoch) -> None:
        self._send(effect, lambda number: LeaderLeft(number, CLUSTER, effect.leader, effect.epoch, effect.successors))

    def _send_fetch(self, effect: SendFetch) -> None:
        self.world.ledger.before_fetch(self, effect)
        self._send(
            effect,
            lambda number: FetchReceived(
                number, CLUSTER, effect.replica, effect.epoch, effect.offset, effect.last_epoch, effect.max_wait_ms
            ),
        )

    def _send_fetch_snapshot(self, effect: SendFetchSnapshot) -> None:
        self._send(
            effect,
            lambda number: FetchSnapshotReceived(
                number,
                CLUSTER,
                effect.replica,
                effect.epoch,
                effect.snapshot,
                effect.position,
                effect.max_bytes,
            ),
        )

    # what the state machine is told

    def _advance(self, effect: AdvanceHighWatermark) -> None:
        world = self.world
        world.ledger.after_advance(world, self, effect.offset)
        self.high_watermark = effect.offset
        for entry in self.disk.between(self.machine.applied, effect.offset):
            self.machine.apply(entry, world.clients.writes)
            self.applied_bytes += len(entry.data) + 61
            world.ledger.after_apply(self)
            self._reply(entry)

    def _lead(self, effect: Lead) -> None:
        self.heard = {self.node_id: self.world.now}
        self.world.ledger.after_lead(self.world, self, effect)
        self.world.led(self.node_id, effect.epoch)

    def _stop_leading(self, effect: StopLeading) -> None:
        for _, reply in self.proposals.values():
            self.world.clients.unknown(reply)
        self.proposals.clear()

    def _announce(self, effect: Announce) -> None:
        pass

    # --- clients -------------------------------------------------------------------------------------------

    @property
    def takes_proposals(self) -> bool:
        """Leads, and has carried out everything of it: nothing is appended between two effects."""
        return self.is_idle and self.voter.leadership is not None

    @property
    def is_idle(self) -> bool:
        """Has carried out everything that it knows of."""
        is_free = self.alive and not self.paused and self.busy is None
        return is_free and not (self.rest or self.inbox or self.applied_bytes)

    def propose(self, operation: int, count: int, reply: Any) -> bool:
        """Append a client's operation; False when this node does not lead and so surely has not done it."""
        if not self.takes_proposals:
            return False
        payload = Payload(count, operation.to_bytes(4, "big"))
        self.inbox.append(AppendRequested(self.voter.epoch, (payload,)))
        self.proposals[self.voter.log.end + count] = (operation, reply)
        self.pump()
        return True

    def _reply(self, entry: Entry) -> None:
        """Tell the client, once its record, and no other in its place, is committed and applied."""
        proposal = self.proposals.pop(entry.end, None)
        if proposal is None:
            return
        operation, reply = proposal
        if int.from_bytes(entry.data, "big") == operation:
            self.world.clients.done(self.node_id, reply, self.machine.registers)
        else:
            self.world.clients.unknown(reply)


def cannot_be_asked(request: int, epoch: int) -> VoteAnswered:
    """What a shell answers in the place of a voter whose Vote has no place for a pre-vote."""
    return VoteAnswered(request, Error.UNSUPPORTED_VERSION, NOBODY, epoch, granted=False)


BLOCKING = (Persist, Truncate, InstallSnapshot, ResetLog)
"""What must be on disk before the next effect."""

CARRY_OUT: dict[type, Any] = {
    AppendLeaderChange: SimNode._append_leader_change,
    Append: SimNode._append,
    AppendReplicated: SimNode._append_replicated,
    Flush: SimNode._flush,
    TakeSnapshot: SimNode._take_snapshot,
    WriteSnapshotPart: SimNode._write_part,
    DropSnapshotPart: SimNode._drop_part,
    TrimLog: SimNode._trim,
    AnswerVote: SimNode._answer_vote,
    AnswerLeaderClaim: SimNode._answer_claim,
    AnswerFetch: SimNode._answer_fetch,
    AnswerFetchSnapshot: SimNode._answer_fetch_snapshot,
    SendVote: SimNode._send_vote,
    SendBeginQuorumEpoch: SimNode._send_begin,
    SendEndQuorumEpoch: SimNode._send_end,
    SendFetch: SimNode._send_fetch,
    SendFetchSnapshot: SimNode._send_fetch_snapshot,
    AdvanceHighWatermark: SimNode._advance,
    Lead: SimNode._lead,
    StopLeading: SimNode._stop_leading,
    Announce: SimNode._announce,
}
