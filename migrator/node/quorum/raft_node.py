"""The shell of the consensus core: executes its effects on disk, and hands its answers to whoever waits.

In:   events for the core (records to append, requests of voters and observers).
Out:  effects carried out in their order: promises on disk first, then what depends on them.
Elsewhere: the decisions (raft.voter), the bytes on sockets (listener/server.py, peers.py), the records
(active_controller.py).
Rules: effects are carried out one after the other, whoever causes new ones meanwhile; they wait behind those that are
there. Flushing runs on a thread of its own (log_flusher.py), snapshots of our own are written on another; nothing else
of the log leaves the loop. What the disk refuses ends this voter, and no other: it is its disk.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, Protocol, assert_never

import structlog

from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.findings.quorum import LOG_NOT_ON_DISK, SNAPSHOT_NOT_WRITTEN
from migrator.node.log.log_flusher import Disk, DiskThread, LogFlusher
from migrator.node.log.log_store import LogStore
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.node.log.storage import write_election_state
from migrator.node.quorum.metrics import Metrics
from migrator.node.quorum.peers import Peers
from migrator.node.quorum.quiet_time import QuietTime
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
    Standing,
    StopLeading,
    TakeSnapshot,
    TrimLog,
    Truncate,
    WriteSnapshotPart,
)
from migrator.raft.types import (
    AppendRequested,
    Event,
    FetchReceived,
    FetchSnapshotReceived,
    LeaderClaimed,
    LeaderLeft,
    LogFlushed,
    Payload,
    RecordsApplied,
    RequestDropped,
    ResignRequested,
    SnapshotFailed,
    SnapshotId,
    SnapshotTaken,
    Started,
    Stopping,
    StorageMeasured,
    Ticked,
    VoteReceived,
)
from migrator.raft.voter import Voter
from migrator.wire.batch import build_control_batch
from migrator.wire.messages.control_records import LeaderChangeMessage, LeaderChangeVoter

log = structlog.get_logger()

Answer = AnswerFetch | AnswerFetchSnapshot | AnswerVote | AnswerLeaderClaim


MEASURE_EVERY_S: Final = 60.0
LEAVE_WAIT_S: Final = 1.0
"""A leader that stops waits so long for the others to hear of it; an election time-out is the alternative."""


class StateMachine(Protocol):
    """Who is told about leadership and commits: the active controller.

    snapshot_values: the encoded records of everything applied; the end of what is applied is the snapshot's.
    load_snapshot:   forget what was applied and begin with this snapshot, which is on disk.
    """

    def lead(self, epoch: int, start: int) -> None: ...
    def stop_leading(self, epoch: int) -> None: ...
    def committed(self, high_watermark: int) -> None: ...
    def snapshot_values(self, snapshot: SnapshotId) -> Callable[[], Iterable[bytes]]: ...
    def load_snapshot(self, snapshot: SnapshotId) -> None: ...


class RaftNode:
    """One voter on one disk. All methods are for the loop's thread."""

    def __init__(
        self,
        voter: Voter,
        store: LogStore,
        *,
        on_fatal: Callable[[BaseException], None],
        metrics: Metrics | None = None,
        now_ms: Callable[[], int] = lambda: int(time.monotonic() * 1000),
        wall_ms: Callable[[], int] = lambda: int(time.time() * 1000),
        calm: QuietTime | None = None,
        disk: Callable[[LogStore], Disk] = DiskThread,
    ) -> None:
        self.voter = voter
        self.store = store
        self.metrics = metrics or Metrics()
        self.now_ms = now_ms
        self.wall_ms = wall_ms
        self._quiet_time = calm or QuietTime()
        self.snapshots = SnapshotFiles(store.directory)
        self.state_machine: StateMachine | None = None
        self.peers: Peers | None = None
        self._on_fatal = on_fatal
        self._todo: deque[Effect] = deque()
        self._is_executing = False
        self._has_left = False
        self._has_failed = False
        self._snapshot_finding: Occurrence | None = None
        self._requests = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.flusher = LogFlusher(
            store,
            on_flushed=self._flushed,
            on_ended=self._flusher_ended,
            silent_s=voter.settings.check_quorum_ms / 1000,
            node_id=voter.node_id,
            disk=disk,
        )
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._chores: set[asyncio.Task[None]] = set()

    # --- life ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        try:
            self.flusher.start()
        except RuntimeError as error:  # no thread can be started
            self._flusher_ended(error)
            return
        self._chore(self._measure_for_ever(), "storage-measure")
        self.receive(Started())

    async def leave(self) -> None:
        """Answer who waits, tell the others, and take no more part in the quorum; the log can still be read."""
        if self.voter.stopping:
            return
        self.receive(Stopping())
        deadline = time.monotonic() + LEAVE_WAIT_S
        while not (self.voter.may_exit or self._has_failed) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        self._has_left = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._chores)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.flusher.stop()
        if self.peers is not None:
            await self.peers.close()

    async def stop(self) -> None:
        """Leave, and leave the directory as a stock controller finds it, unless its disk refuses that."""
        await self.leave()
        if self._has_failed:
            self.store.abandon()
        else:
            self.store.close()

    def _chore(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Something of ours that runs beside the core; its failure is the node's."""
        task = asyncio.create_task(work, name=name)
        self._chores.add(task)
        task.add_done_callback(self._chore_done)

    def _chore_done(self, task: asyncio.Task[None]) -> None:
        self._chores.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    # --- what others ask -----------------------------------------------------------------------------------

    def append(self, epoch: int, payloads: list[Payload]) -> int:
        """Append in this epoch; returns the offset of the last record. It is committed later."""
        self.receive(AppendRequested(epoch, tuple(payloads)))
        return self.voter.log.end - 1

    def leads(self, epoch: int) -> bool:
        lead = self.voter.leadership
        return lead is not None and lead.epoch == epoch and not self._has_failed

    def fail(self, error: BaseException) -> None:
        """This node must not go on: what waits for an effect that failed never happens, not even until it has ended."""
        if self._has_failed:  # what follows from a failure is none of its own
            return
        self._has_failed = True
        self._todo.clear()
        self._on_fatal(_not_on_disk(error, self.voter.node_id) if isinstance(error, OSError) else error)

    def applied(self, end: int, size: int) -> None:
        """The state machine has applied what is committed before `end`, `size` bytes since it last said so."""
        self.receive(RecordsApplied(end, size))

    def resign(self, epoch: int) -> None:
        """Let another node lead."""
        self.receive(ResignRequested(epoch))

    async def fetch(self, ask: Callable[[int], FetchReceived]) -> AnswerFetch:
        answer: AnswerFetch = await self._ask(ask)
        return answer

    async def fetch_snapshot(self, ask: Callable[[int], FetchSnapshotReceived]) -> AnswerFetchSnapshot:
        answer: AnswerFetchSnapshot = await self._ask(ask)
        return answer

    async def vote(self, ask: Callable[[int], VoteReceived]) -> AnswerVote:
        answer: AnswerVote = await self._ask(ask)
        return answer

    async def leader_claim(self, ask: Callable[[int], LeaderClaimed | LeaderLeft]) -> AnswerLeaderClaim:
        answer: AnswerLeaderClaim = await self._ask(ask)
        return answer

    async def _ask(self, ask: Callable[[int], Event]) -> Any:
        request = next(self._requests)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[request] = future
        try:
            self.receive(ask(request))
            return await future
        finally:
            if self._waiting.pop(request, None) is not None:
                self.receive(RequestDropped(request))

    # --- the core ------------------------------------------------------------------------------------------

    def receive(self, event: Event) -> None:
        """Decide at once, act in order: what is caused by an effect waits until those before it are done."""
        if self._has_left or self._has_failed:
            return
        try:
            self._todo += self.voter.receive(event, self.now_ms())
            if self._is_executing:
                return
            self._is_executing = True
            try:
                while self._todo:
                    self._execute(self._todo.popleft())
            finally:
                self._is_executing = False
        except BaseException as error:  # a broken promise of ours, or a disk that refuses: this node must not go on
            self.fail(error)
            raise
        self._arm_timer()

    def _execute(self, effect: Effect) -> None:
        match effect:
            case Persist(state):
                write_election_state(self.store.directory, state, self.voter.voters)
            case AppendLeaderChange():
                self._append_leader_change(effect)
            case Append(epoch, offset, payloads):
                self.store.append(offset, epoch, [payload.batch for payload in payloads])
                self.metrics.written(self.store.end)
            case AppendReplicated(batches):
                self.store.append_replicated(batches)
            case Flush(generation):
                self.flusher.want(generation)
            case Truncate(end):
                log.warning("log.truncated", end=end, before=self.store.end)
                self.store.truncate(end)
            case AnswerFetch() | AnswerFetchSnapshot() | AnswerVote() | AnswerLeaderClaim():
                self._answer(effect)
            case SendVote() | SendBeginQuorumEpoch() | SendEndQuorumEpoch() | SendFetch() | SendFetchSnapshot():
                assert self.peers is not None, f"a quorum of one has nobody to ask: {effect}"
                self.peers.send(effect)
            case TakeSnapshot() | InstallSnapshot() | ResetLog() | TrimLog() | WriteSnapshotPart() | DropSnapshotPart():
                self._execute_snapshot(effect)
            case AdvanceHighWatermark() | Lead() | StopLeading() | Announce():
                self._tell(effect)
            case _:
                assert_never(effect)

    def _execute_snapshot(
        self, effect: TakeSnapshot | InstallSnapshot | ResetLog | TrimLog | WriteSnapshotPart | DropSnapshotPart
    ) -> None:
        match effect:
            case TakeSnapshot(snapshot):
                assert self.state_machine is not None
                self._chore(self._take_snapshot(snapshot, self.state_machine.snapshot_values(snapshot)), "snapshot")
            case WriteSnapshotPart(snapshot, position, data):
                self.snapshots.write_part(snapshot, position, data)
            case DropSnapshotPart(snapshot):
                self.snapshots.drop_part(snapshot)
            case InstallSnapshot(snapshot):
                # First on disk by its name, then the log before it goes: a crash in between leaves one of the two.
                self.snapshots.freeze(snapshot)
                self._begin_with(snapshot)
            case ResetLog(snapshot):
                self._begin_with(snapshot)
            case TrimLog(snapshot):
                self.store.trim(snapshot.end_offset)
                self.snapshots.forget_before(snapshot)
                asyncio.get_running_loop().call_soon(self._measure)
            case _:
                assert_never(effect)

    def _begin_with(self, snapshot: SnapshotId) -> None:
        """The log is empty and begins at the snapshot's end."""
        log.warning("log.replaced_by_snapshot", end=snapshot.end_offset, epoch=snapshot.epoch)
        self.store.reset(snapshot.end_offset)
        self.snapshots.forget_before(snapshot)
        assert self.state_machine is not None
        self.state_machine.load_snapshot(snapshot)

    def _tell(self, effect: AdvanceHighWatermark | Lead | StopLeading | Announce) -> None:
        match effect:
            case AdvanceHighWatermark(offset):
                self.metrics.committed(offset)
                if self.state_machine is not None:
                    self.state_machine.committed(offset)
            case Lead(epoch, start):
                log.info("quorum.state", node=self.voter.node_id, role="leader", epoch=epoch, leader=self.voter.node_id)
                self.metrics.stands(Standing.LEADER, self.voter.node_id)
                if self.state_machine is not None:
                    self.state_machine.lead(epoch, start)
            case StopLeading(epoch):
                self.metrics.forgotten()
                if self.state_machine is not None:
                    self.state_machine.stop_leading(epoch)
            case Announce(standing, epoch, leader):
                log.info("quorum.state", node=self.voter.node_id, role=str(standing), epoch=epoch, leader=leader)
                self.metrics.stands(standing, leader)
            case _:
                assert_never(effect)

    def _append_leader_change(self, change: AppendLeaderChange) -> None:
        message = LeaderChangeMessage(
            leader_id=change.leader,
            voters=tuple(LeaderChangeVoter(voter) for voter in change.voters),
            granting_voters=tuple(LeaderChangeVoter(voter) for voter in change.granting),
        )
        batch = build_control_batch(
            base_offset=change.offset, leader_epoch=change.epoch, timestamp_ms=self.wall_ms(), records=[message]
        )
        self.store.append(change.offset, change.epoch, [batch])

    def _answer(self, answer: Answer) -> None:
        future = self._waiting.pop(answer.request, None)
        if future is not None and not future.done():
            future.set_result(answer)

    def _arm_timer(self) -> None:
        """Most events put the deadline off: a timer that is due too early finds nothing to do and is set anew then,
        which is cheaper than a new one for every event.
        """
        deadline = self.voter.next_deadline_ms()
        if deadline is None or (self._timer is not None and self._timer_due_ms <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.0, (deadline - self.now_ms()) / 1000)
        self._timer_due_ms = deadline
        self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.receive(Ticked())

    # --- beside the core -----------------------------------------------------------------------------------

    async def _take_snapshot(self, snapshot: SnapshotId, values: Callable[[], Iterable[bytes]]) -> None:
        await self._quiet_time.over()
        began = time.monotonic()
        wall_ms = self.wall_ms()
        try:
            size = await asyncio.to_thread(lambda: self.snapshots.write(snapshot, values(), wall_ms))
        except Exception as error:  # whatever it is, every voter would meet it: the log has all of it, and goes on
            self._snapshot_failed(snapshot, error)
            return
        self._snapshot_finding = None
        took_ms = int((time.monotonic() - began) * 1000)
        if not self._has_failed:
            self.store.roll()
        log.info("snapshot.taken", end=snapshot.end_offset, epoch=snapshot.epoch, bytes=size, took_ms=took_ms)
        self.receive(SnapshotTaken(snapshot, size))
        self._measure()

    def _snapshot_failed(self, snapshot: SnapshotId, error: Exception) -> None:
        reason = words_of(error)
        finding = SNAPSHOT_NOT_WRITTEN.found(node=self.voter.node_id, end=snapshot.end_offset, reason=reason)
        self._snapshot_finding = finding
        log.error("snapshot.failed", code=finding.code, says=finding.text, exc_info=error)
        self.receive(SnapshotFailed(snapshot))

    async def _measure_for_ever(self) -> None:
        while True:
            await asyncio.sleep(MEASURE_EVERY_S)
            self._measure()

    @property
    def findings(self) -> list[Occurrence]:
        """What troubles this voter now."""
        return [each for each in (self.flusher.finding, self._snapshot_finding) if each is not None]

    def _measure(self) -> None:
        try:
            snapshots = self.snapshots.measured()
        except OSError as error:  # nothing is forgotten then, and nothing is lost
            log.warning("storage.not_measured", reason=str(error))
            return
        self.receive(StorageMeasured(self.store.size(), snapshots))

    def _flusher_ended(self, error: BaseException) -> None:
        self.fail(_not_on_disk(error, self.voter.node_id))

    def _flushed(self, end: int, generation: int, took_s: float) -> None:
        self.metrics.fsync.observe(took_s)
        self.receive(LogFlushed(end, generation))


def _not_on_disk(error: BaseException, node_id: int) -> FindingError:
    named = LOG_NOT_ON_DISK.error(node=node_id, reason=words_of(error))
    named.__cause__ = error
    return named
