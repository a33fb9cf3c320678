"""The active controller: requests become records, records become committed, replies leave.

In:   requests of brokers, in the order of their arrival; leadership and commits from the quorum.
Out:  replies, each when everything it depends on is committed; a `Delta` per commit for the driver.
Elsewhere: what is decided (controller), what ZooKeeper and brokers are told about it (driver_node).
Two images are kept: `newest` holds uncommitted records as well and is what decisions are made from; `image` is what
everybody may see. Between them lies a queue of steps, one per append. A node that does not lead replays what is
committed, piece by piece, so that it can begin to lead as soon as it is elected.
Source: Kafka 3.9 `QuorumController`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from random import Random

import structlog

from migrator.controller.authorizer import Asker
from migrator.controller.brokers import fence_longest_silent, heal_leaderships
from migrator.controller.contacts import Contacts
from migrator.controller.decision import Decision, Error, Record, Settings, Situation
from migrator.controller.elections import preferred_leaders
from migrator.controller.features import activation_records, activation_refusal
from migrator.controller.permissions import allowed_as_whole
from migrator.controller.reassignments import OrderedMove, begin_ordered
from migrator.controller.refusals import refuse
from migrator.controller.removals import Removals
from migrator.controller.replay import replay
from migrator.controller.requests import decide
from migrator.controller.snapshot import records_of
from migrator.controller.tokens import expired_tokens
from migrator.errors import FindingError, Occurrence
from migrator.model.draft import Delta, Draft, join
from migrator.model.image import METADATA_VERSION, Image, Position
from migrator.model.values import Mark, MigrationState
from migrator.node.log_replay import LogReplay, ReadAhead, read_snapshot
from migrator.node.raft_node import RaftNode
from migrator.raft.types import Payload, SnapshotId
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import FeatureLevelRecord, NoOpRecord
from migrator.wire.records import encode_record
from migrator.wire.schema import Message

log = structlog.get_logger()

SLICE_BYTES = 64 * 1024
"""What is replayed in one go: a few milliseconds of the loop."""

BALANCE_MAX = 1_000
"""Preferred-leader changes per round."""


async def _everything_follows(request: Message) -> Mapping[str, Occurrence]:
    """Nothing that is asked could fail to follow into ZooKeeper."""
    return {}


class LeadershipLost(Exception):
    """This node leads no more."""


@dataclass(slots=True)
class _Step:
    """One append: when `offset` is committed, the image becomes `delta.after` and who waits is answered."""

    offset: int
    delta: Delta | None
    size: int = 0
    waiting: list[tuple[asyncio.Future[Message], Message]] = field(default_factory=list)


class ActiveController:
    """Leads while the quorum says so. All methods are for the loop's thread."""

    def __init__(
        self,
        raft: RaftNode,
        settings: Settings,
        read_ahead: ReadAhead,
        bootstrap: list[Record],
        *,
        chance: Random,
        on_publish: Callable[[Delta], None],
        on_lead: Callable[[int], None],
        on_lost: Callable[[int], None],
        on_refused: Callable[[FindingError], None],
        on_handed_back: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.image = self.newest = read_ahead.snapshot
        self.contacts = Contacts()
        self.epoch: int | None = None
        self.writes_allowed: Callable[[], bool] = lambda: False
        self.blocked: Callable[[], str | None] = lambda: None
        self.unmirrored: Callable[[Message], Awaitable[Mapping[str, Occurrence]]] = _everything_follows
        self._serves_kraft = False
        self._raft = raft
        self._read_ahead: ReadAhead | None = read_ahead
        self._replay = LogReplay(read_ahead.snapshot, read_ahead.begins_at, read_ahead.removals)
        self._applied = self._committed = read_ahead.begins_at
        self._applied_bytes = 0
        self._settled: tuple[int, Image] = (self._applied, self.image)
        self._elected: tuple[int, int] | None = None
        self._catching_up: asyncio.Task[None] | None = None
        self._bootstrap = bootstrap
        self._chance = chance
        self._on_publish = on_publish
        self._on_lead = on_lead
        self._on_lost = on_lost
        self._on_refused = on_refused
        self._on_handed_back = on_handed_back
        self._steps: deque[_Step] = deque()
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._last_append_ms = 0

    # --- following -----------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Replay what is committed, in slices, until nothing is left; then begin to lead if this node was elected."""
        if self._catching_up is None:
            self._catching_up = asyncio.get_running_loop().create_task(self._replay_committed(), name="catch-up")
            self._catching_up.add_done_callback(self._caught_up)

    def _caught_up(self, task: asyncio.Task[None]) -> None:
        self._catching_up = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._raft.fail(error)

    async def _replay_committed(self) -> None:
        while self.epoch is None:
            if self._applied < self._committed:
                if not self._take_read_ahead():
                    self._replay_slice()
                await asyncio.sleep(0)
            elif self._elected is not None and self._committed > self._elected[1]:
                self._activate(*self._elected)
            else:
                return

    def _take_read_ahead(self) -> bool:
        """Use what was replayed from the disk before the start, once all of it is known to be committed."""
        ahead = self._read_ahead
        if ahead is None or ahead.generation != self._raft.voter.log.generation:
            self._read_ahead = None
            return False
        if self._applied != ahead.begins_at or ahead.end > self._committed:
            return False
        self._read_ahead = None
        self._replay = ahead.replay
        self._publish_replayed(ahead.end, ahead.size)
        return True

    def _replay_slice(self) -> None:
        data = self._raft.store.read(self._applied, self._committed, SLICE_BYTES)
        began = time.perf_counter()
        self._replay.apply(data)
        self._raft.metrics.apply.observe(time.perf_counter() - began)
        self._publish_replayed(self._replay.end, len(data))

    def _publish_replayed(self, end: int, size: int) -> None:
        self._applied = end
        self.image = self.newest = self._replay.image
        self._look_for_retirement()
        self._tell_applied(self._replay.settled_end, size)

    def _look_for_retirement(self) -> bool:
        """Whether the log says that it was handed back; then nobody leads with it any more."""
        text = self.image.marks.get(Mark.HANDED_BACK)
        if text is not None:
            self._on_handed_back(text)
        return text is not None

    def _tell_applied(self, end: int, size: int) -> None:
        """The core may order a snapshot of exactly this image; a transaction that is open is not in it."""
        self._applied_bytes += size
        if end > self._settled[0]:
            self._settled = end, self.image
            size, self._applied_bytes = self._applied_bytes, 0
            self._raft.applied(end, size)

    def load_snapshot(self, snapshot: SnapshotId) -> None:
        """Begin anew with a snapshot that is on disk."""
        assert self.epoch is None, "a leader loads no snapshot"
        self._replay = read_snapshot(self._raft.snapshots.path(snapshot), snapshot)
        self._applied = snapshot.end_offset
        self._committed = max(self._committed, self._applied)
        self._read_ahead = None
        self.image = self.newest = self._replay.image
        self._look_for_retirement()

    @property
    def is_current(self) -> bool:
        """Whether everything that is known to be committed is in the image."""
        return self._applied >= self._committed

    def snapshot_values(self, snapshot: SnapshotId) -> Callable[[], Iterable[bytes]]:
        """The records of everything applied; the image is kept as it is now, whoever reads it and when."""
        end, image = self._settled
        assert snapshot.end_offset == end, f"a snapshot at {snapshot.end_offset}, applied {end}"
        removed = self.removals.records()
        return lambda: (encode_record(record, version) for record, version in chain(records_of(image), removed))

    # --- leadership ----------------------------------------------------------------------------------------

    def lead(self, epoch: int, start: int) -> None:
        """Elected. Records of earlier epochs may still be on their way to be committed: act when they are."""
        self._elected = epoch, start
        self._catch_up()

    def _activate(self, epoch: int, start: int) -> None:
        """Begin to lead: registered brokers get fresh sessions, the first records are written."""
        if self._look_for_retirement():
            self._elected = None
            return
        log_is_empty = self._replay.data_records == 0
        refusal = activation_refusal(
            self.newest,
            log_is_empty=log_is_empty,
            migration_enabled=self.settings.migration_enabled,
            bootstrap_level=_level_of(self._bootstrap),
            serves_kraft=self._serves_kraft,
        )
        if refusal is not None:
            self._on_refused(FindingError(refusal))
            self._elected = None
            return
        self.epoch = epoch
        self.contacts.clear(self.newest.brokers, self._raft.now_ms())
        self._steps.append(_Step(start, None))  # the quorum's own first record
        records = activation_records(
            self._bootstrap,
            log_is_empty=log_is_empty,
            transaction_open=self._replay.transaction_open,
            migration_enabled=self.settings.migration_enabled,
        )
        if records:
            self._append(records)
            if self.epoch != epoch:
                return
        self._steps[-1].waiting.append((self._led_future(epoch), NoOpRecord()))
        self.committed(self._committed)

    def _led_future(self, epoch: int) -> asyncio.Future[Message]:
        """Done when everything that a leader writes first is committed: then the driver may look at the image."""
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: None if done.cancelled() else self._on_lead(epoch))
        return future

    def resign(self) -> None:
        """Somebody else leads already, or has to."""
        if self.epoch is not None:
            self._raft.resign(self.epoch)

    def stop_leading(self, epoch: int) -> None:
        """Answer everybody who waits that this is not the controller any more, and follow from what is committed."""
        self._elected = None
        if self.epoch is None:
            return
        self.epoch = None
        while self._steps:
            for future, _ in self._steps.popleft().waiting:
                future.cancel()
        self.newest = self.image
        self._replay = LogReplay(self.image, self._applied, self.removals)
        self._on_lost(epoch)
        self._look_for_retirement()
        self._catch_up()

    def committed(self, high_watermark: int) -> None:
        """Publish what is committed now, then answer."""
        self._committed = max(self._committed, high_watermark)
        if self.epoch is None:
            self._catch_up()
            return
        began = time.perf_counter()
        done = []
        delta: Delta | None = None
        size = 0
        while self._steps and self._steps[0].offset < high_watermark:
            step = self._steps.popleft()
            done += step.waiting
            self._applied = step.offset + 1
            size += step.size
            if step.delta is not None:
                delta = step.delta if delta is None else join(delta, step.delta)
        if delta is not None:
            self.image = delta.after
            self.removals.note(delta)
            self._on_publish(delta)
            self._raft.metrics.apply.observe(time.perf_counter() - began)
        for future, reply in done:
            if not future.done():
                future.set_result(reply)
        self._tell_applied(self._applied, size)

    @property
    def removals(self) -> Removals:
        """What the log took away so far, before this node began to lead and since."""
        return self._replay.removals

    # --- requests ------------------------------------------------------------------------------------------

    async def submit(self, request: Message, version: int, asker: Asker | None = None) -> Message:
        """Decide on a request and wait until the answer may leave. asker: for whom; None: for this node."""
        received = time.perf_counter()
        unmirrored = await self.unmirrored(request)
        await self._resumed.wait()
        if self.epoch is None:
            return refuse(request, Error.NOT_CONTROLLER)
        situation = self._situation(asker, unmirrored)
        decision = decide(situation, request, version, writes_allowed=self._may_write(), blocked=self.blocked())
        future = self._carry_out(decision)
        if future is None:
            return decision.reply
        try:
            reply = await future
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # this request's own connection ends (which cancels the future too), not our leadership
            return refuse(request, Error.NOT_CONTROLLER)
        self._raft.metrics.commit.observe(time.perf_counter() - received)
        return reply

    def serve_without_migration(self) -> None:
        """Be the controller of a cluster that knows no ZooKeeper; call before the node starts."""
        self._serves_kraft = True
        self.writes_allowed = lambda: True

    def allows(self, request: Message, asker: Asker) -> bool:
        """Whether somebody may ask this at all; topics and configurations are looked at one by one later."""
        rules = self.settings.authorizer
        return rules is None or allowed_as_whole(self.newest, rules, asker, request)

    def _may_write(self) -> bool:
        return self.newest.migration is not MigrationState.PRE_MIGRATION and self.writes_allowed()

    def _situation(self, asker: Asker | None = None, unmirrored: Mapping[str, Occurrence] | None = None) -> Situation:
        return Situation(
            image=self.newest,
            contacts=self.contacts,
            settings=self.settings,
            next_offset=self._raft.voter.log.end,
            now_ms=self._raft.now_ms(),
            chance=self._chance,
            wall_ms=self._raft.wall_ms(),
            asker=asker,
            unmirrored=unmirrored or {},
        )

    def _carry_out(self, decision: Decision) -> asyncio.Future[Message] | None:
        """Append what was decided. None: nothing is pending, the reply may leave at once.

        A reply without records waits for what is pending too: it was decided from uncommitted facts.
        """
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if decision.records:
            self._append(decision.records)
            if self.epoch is None:  # the append was what noticed that no majority listens any more
                future.cancel()
                return future
        if not self._steps:
            return None
        self._steps[-1].waiting.append((future, decision.reply))
        return future

    def _append(self, records: Iterable[Record]) -> None:
        assert self.epoch is not None
        decided = time.perf_counter()
        draft = Draft(self.newest)
        values = []
        for record, version in records:
            values.append(encode_record(record, version))
            replay(draft, record)
        batch = build_batch(base_offset=0, leader_epoch=0, timestamp_ms=self._raft.wall_ms(), values=values)
        offset = self._raft.voter.log.end + len(values) - 1
        delta = draft.finish(Position(self.epoch, offset))
        self.newest = delta.after
        self._steps.append(_Step(offset, delta, len(batch)))
        self._last_append_ms = self._raft.now_ms()
        self._raft.metrics.decided(offset, decided)
        appended = self._raft.append(self.epoch, [Payload(len(values), batch)])
        assert appended == offset or not self._raft.leads(self.epoch), (appended, offset)

    # --- what the driver appends ---------------------------------------------------------------------------

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Nobody else appends inside; requests wait. Short: the copy's transaction, nothing more."""
        self._resumed.clear()
        try:
            yield
        finally:
            self._resumed.set()

    async def append_copy(self, batches: list[tuple[int, bytes]], delta: Delta) -> Position:
        """Append the copy's transaction in one run and wait for its commit; call inside `paused`."""
        assert self.epoch is not None
        epoch = self.epoch
        first = self._raft.voter.log.end
        last = first + sum(count for count, _ in batches) - 1
        assert delta.after.position == Position(epoch, last), (delta.after.position, last)
        self.newest = delta.after
        # The step stands before the first append: a commit may come while later batches are still on their way.
        step = _Step(last, delta, sum(len(batch) for _, batch in batches))
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        step.waiting.append((future, NoOpRecord()))
        self._steps.append(step)
        for count, batch in batches:  # without a pause: whoever is cancelled here must not leave half a transaction
            if self.epoch != epoch:
                raise LeadershipLost
            self._raft.append(epoch, [Payload(count, batch)])
        self._last_append_ms = self._raft.now_ms()
        await self._wait_for(future)
        return Position(epoch, last)

    @staticmethod
    async def _wait_for(future: asyncio.Future[Message]) -> None:
        """Raises `LeadershipLost` when this node leads no more; nobody knows then what becomes of its records."""
        try:
            await future
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise LeadershipLost from None

    def next_offset(self) -> int:
        return self._raft.voter.log.end

    def heal(self) -> int:
        """Elections for partitions that nobody able leads, and ends of moves; returns how many changed."""
        records = heal_leaderships(self._situation())
        if records:
            self._append(records)
        return len(records)

    async def begin(self, ordered: Iterable[OrderedMove]) -> int:
        """Move replicas as ordered through ZooKeeper; returns how many partitions, when that is committed."""
        await self._resumed.wait()
        if self.epoch is None:
            raise LeadershipLost
        epoch = self.epoch
        records = begin_ordered(self._situation(), ordered)
        if records:
            self._append(records)
            if self.epoch != epoch:
                raise LeadershipLost
            await self.settled()
        return len(records)

    async def mark(self, mark: Mark, text: str) -> None:
        """Write a mark for every voter of ours; returns when it is committed. An empty text takes it back."""
        await self._resumed.wait()
        if self.epoch is None:
            raise LeadershipLost
        epoch = self.epoch
        self._append([(NoOpRecord(mark=mark, mark_text=text), 0)])
        if self.epoch != epoch:
            raise LeadershipLost
        await self.settled()

    async def settled(self) -> None:
        """Wait until nothing appended so far is uncommitted."""
        if self._steps:
            future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
            self._steps[-1].waiting.append((future, NoOpRecord()))
            await self._wait_for(future)

    def lag(self) -> int:
        """Appends that are not committed yet."""
        return len(self._steps)

    # --- on the clock --------------------------------------------------------------------------------------

    def append_noop_when_idle(self, idle_ms: int) -> None:
        """Keeps the high watermark moving, by which observers learn what is committed."""
        if self.epoch is not None and self._resumed.is_set() and self._raft.now_ms() - self._last_append_ms >= idle_ms:
            self._append([(NoOpRecord(), 0)])

    def fence_silent(self) -> None:
        """Fence brokers whose session ended, one batch each. Not in pre-migration: another controller rules then."""
        while self.epoch is not None and self._resumed.is_set() and self._may_write():
            found = fence_longest_silent(self._situation())
            if found is None:
                return
            broker, records = found
            log.warning("broker.fenced", broker=broker, partitions=len(records) - 1, reason="session ended")
            self._append(records)

    def balance_leaders(self) -> None:
        if self.epoch is None or not self._resumed.is_set() or not self._may_write():
            return
        records = preferred_leaders(self._situation(), BALANCE_MAX)
        if records:
            log.info("leaders.balanced", partitions=len(records))
            self._append(records)

    def sweep_tokens(self) -> None:
        """Delegation tokens that expired are removed, so that they are gone from ZooKeeper too."""
        if self.epoch is not None and self._resumed.is_set() and self._may_write():
            records = expired_tokens(self._situation())
            if records:
                log.info("tokens.expired", tokens=len(records))
                self._append(records)

    def heartbeat_ages_ms(self) -> dict[int, int]:
        now = self._raft.now_ms()
        ages = {broker: self.contacts.age_ms(broker, now) for broker in self.newest.brokers}
        return {broker: age for broker, age in ages.items() if age is not None}

    def kept_out(self) -> dict[int, tuple[int, int]]:
        """Brokers that were refused for their levels of metadata.version, with these levels."""
        return dict(self.contacts.kept_out)


def _level_of(bootstrap: list[Record]) -> int:
    levels = [
        record.feature_level
        for record, _ in bootstrap
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION
    ]
    return levels[0] if levels else 1
