"""The active controller: requests become records, records become committed, replies leave.

In:   requests of brokers, in the order of their arrival; leadership and commits from the quorum.
Out:  replies, each when everything it depends on is committed; a `Delta` per commit for the driver.
Elsewhere: what is decided (controller), what happens by the clock (periodic_tasks.py), what ZooKeeper and brokers are
told about it (driver_node).
Two images are kept: `newest` holds uncommitted records as well and is what decisions are made from; `image` is what
everybody may see. Between them lies a queue (pending_appends.py). A node that does not lead replays what is committed
(applied_log.py), piece by piece, so that it can begin to lead as soon as it is elected.
Source: Kafka 3.9 `QuorumController`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Protocol

import structlog

from migrator.controller.authorizer import Asker
from migrator.controller.brokers import heal_leaderships, heartbeat_without_change
from migrator.controller.contacts import Contacts
from migrator.controller.decision import ControllerSettings, Decision, Record, Situation
from migrator.controller.eligibility import place_of, why_ineligible
from migrator.controller.features import activation_records, activation_refusal
from migrator.controller.mutation_quotas import MutationBuckets
from migrator.controller.partitions.mass import SLICE_RECORDS, has_many, may_touch_many
from migrator.controller.partitions.reassignments import OrderedMove, begin_ordered
from migrator.controller.refusals import refuse
from migrator.controller.removals import Removals
from migrator.controller.replay import replay
from migrator.controller.requests import decide
from migrator.controller.security.permissions import allowed_as_whole
from migrator.findings.driver import INELIGIBLE_DECISION, REQUEST_TOO_LARGE
from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.model.draft import Delta, Draft
from migrator.model.image import CommittedCopy, Image, Position
from migrator.model.values import Mark, MigrationState
from migrator.node.leader.applied_log import AppliedLog
from migrator.node.leader.gatekeeper import Gatekeeper, is_looked_into
from migrator.node.leader.pending_appends import LeadershipLost, PendingAppend, PendingAppends, wait_for_commit
from migrator.node.log.log_replay import ReadAhead, bootstrap_level
from migrator.node.log.payloads import cut
from migrator.node.on_thread import short_turns
from migrator.node.quorum.raft_node import RaftNode
from migrator.raft.types import NOBODY, Payload, SnapshotId
from migrator.wire.batch import BatchTooLargeError
from migrator.wire.codec import UnencodableError
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import BrokerHeartbeatRequest
from migrator.wire.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from migrator.wire.messages.metadata import NoOpRecord
from migrator.wire.messages.topics import CreateTopicsRequest
from migrator.wire.records import encode_record
from migrator.wire.schema import Message

log = structlog.get_logger()

Decide = Callable[[], Decision]
"""A decision whose situation was taken; on any thread."""


def _error_of(request: Message, error: UnencodableError) -> Error:
    """As stock answers: what is too much in one piece, and a setting that is too long."""
    if isinstance(error, BatchTooLargeError):
        return Error.POLICY_VIOLATION
    configures = isinstance(request, (CreateTopicsRequest, AlterConfigsRequest, IncrementalAlterConfigsRequest))
    return Error.INVALID_CONFIG if configures else Error.INVALID_REQUEST


class DecisionRefusedError(FindingError):
    """Nothing of these records was appended: one of them does not fit the image (Z2K-2075)."""


class CommitListener(Protocol):
    """Somebody who acts on what is committed while this node leads: the driver."""

    def published(self, delta: Delta) -> None: ...
    def lost_leadership(self) -> None: ...


class CommitListeners:
    """Who hears of commits. Listeners join later: each is made with the controller that it listens to."""

    def __init__(self) -> None:
        self._joined: list[CommitListener] = []

    def join(self, listener: CommitListener) -> None:
        self._joined.append(listener)

    def published(self, delta: Delta) -> None:
        for listener in self._joined:
            listener.published(delta)

    def lost_leadership(self) -> None:
        for listener in self._joined:
            listener.lost_leadership()


class ActiveController:
    """Leads while the quorum says so. All methods are for the loop's thread."""

    def __init__(
        self,
        raft: RaftNode,
        settings: ControllerSettings,
        read_ahead: ReadAhead,
        bootstrap: list[Record],
        *,
        chance: Random,
        gatekeeper: Gatekeeper,
        commit_listeners: CommitListeners,
        on_lead: Callable[[int], None],
        on_refused: Callable[[FindingError], None],
        on_retired: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.image = self.newest = read_ahead.snapshot
        self.contacts = Contacts()
        self._buckets = MutationBuckets(settings.mutation_windows_s)
        self.epoch: int | None = None
        self.gatekeeper = gatekeeper
        self._raft = raft
        self._log = AppliedLog(raft, read_ahead)
        self._elected: tuple[int, int] | None = None
        self._catching_up: asyncio.Task[None] | None = None
        self._bootstrap = bootstrap
        self._chance = chance
        self._commit_listeners = commit_listeners
        self._on_lead = on_lead
        self._on_refused = on_refused
        self._on_retired = on_retired
        self._pending = PendingAppends()
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._is_publishing = False
        """The next slice is on the loop's list already; another one beside it would make two per turn of the loop."""
        self._is_apart = False
        """A decision about many partitions is being made, or appended."""
        self._deciding: set[asyncio.Task[tuple[Decision, asyncio.Future[Message] | None]]] = set()
        self._refused: Occurrence | None = None
        """The latest decision that was refused, of this process."""
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
            if self._log.has_to_load:
                await self._log.load()
                self._show_replayed(0)
            elif not self._log.is_current:
                self._replay_piece()
                await asyncio.sleep(0)
            elif self._elected is not None and self._log.committed > self._elected[1]:
                self._activate(*self._elected)
            else:
                return

    def _replay_piece(self) -> None:
        self._show_replayed(self._log.replay_piece())

    def _show_replayed(self, size: int) -> None:
        self.image = self.newest = self._log.image
        self._look_for_retirement()
        self._log.tell_applied(self._log.settled_end, self.image, size)

    def _look_for_retirement(self) -> bool:
        """Whether the log says that it was rolled back; then nobody leads with it any more."""
        text = self.image.marks.get(Mark.RETIRED)
        if text is not None:
            self._on_retired(text)
        return text is not None

    def load_snapshot(self, snapshot: SnapshotId) -> None:
        """Begin anew with a snapshot that is on disk; until it is replayed, the image is that of before."""
        assert self.epoch is None, "a leader loads no snapshot"
        self._log.begin_anew(snapshot)
        self._catch_up()

    @property
    def is_current(self) -> bool:
        """Whether everything that is known to be committed is in the image."""
        return self._log.is_current

    def snapshot_values(self, snapshot: SnapshotId) -> Callable[[], Iterable[bytes]]:
        return self._log.snapshot_values(snapshot)

    # --- leadership ----------------------------------------------------------------------------------------

    def lead(self, epoch: int, start: int) -> None:
        """Elected. Records of earlier epochs may still be on their way to be committed: act when they are."""
        self._elected = epoch, start
        self._catch_up()

    def _activate(self, epoch: int, start: int) -> None:
        """Begin to lead: registered brokers get fresh sessions, the first records are written."""
        if self._look_for_retirement() or self._is_refused():
            self._elected = None
            return
        self.epoch = epoch
        self.contacts.clear(self.newest.brokers, self._raft.now_ms())
        self._buckets.clear()
        if not self._log.transaction_open:  # otherwise nothing is settled before the Abort, which is appended below
            self._pending.add(PendingAppend(start, None))  # the quorum's own first record
        records = activation_records(
            self._bootstrap,
            log_is_empty=self._log.is_empty,
            transaction_open=self._log.transaction_open,
            migration_enabled=self.settings.migration_enabled,
        )
        if records:
            self._append(records)
            if self.epoch != epoch:
                return
        self._pending.wait(self._led_future(epoch), NoOpRecord())
        self.committed(self._log.committed)

    def _is_refused(self) -> bool:
        """Whether this node may not lead this log as it is configured; then it says so."""
        refusal = activation_refusal(
            self.newest,
            log_is_empty=self._log.is_empty,
            migration_enabled=self.settings.migration_enabled,
            bootstrap_level=bootstrap_level(self._bootstrap),
        )
        if refusal is not None:
            self._on_refused(FindingError(refusal))
        return refusal is not None

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
        self._pending.cancel()
        self.newest = self.image
        self._log.replay_from(self.image)
        self._commit_listeners.lost_leadership()
        self._look_for_retirement()
        self._catch_up()

    def committed(self, high_watermark: int) -> None:
        """Publish what is committed now, then answer."""
        self._log.commit(high_watermark)
        if self.epoch is None:
            self._catch_up()
            return
        if not self._is_publishing:
            self._publish()

    def _publish(self) -> None:
        """What is committed becomes visible: one slice of it, the rest when the loop has looked at everything else."""
        self._is_publishing = False
        if self.epoch is None:
            return
        began = time.perf_counter()
        done = self._pending.take_committed(self._log.committed, SLICE_RECORDS)
        if done is not None:
            if self._pending.has_committed(self._log.committed):
                self._is_publishing = True
                asyncio.get_running_loop().call_soon(self._publish)
            self._log.end = done.offset + 1
            if done.delta is not None:
                self.image = done.delta.after
                self._log.note(done.delta)
                self._commit_listeners.published(done.delta)
                self._raft.metrics.apply.observe(time.perf_counter() - began)
            done.answer()
            self._log.tell_applied(self._log.end, self.image, done.size)

    @property
    def removals(self) -> Removals:
        """What the log took away so far, before this node began to lead and since."""
        return self._log.removals

    @property
    def copied(self) -> CommittedCopy | None:
        """The copy of a takeover that is not in dual-write yet, where this node saw it become committed."""
        return self._log.copied

    # --- requests ------------------------------------------------------------------------------------------

    async def submit(self, request: Message, version: int, asker: Asker | None = None) -> Message:
        """Decide on a request and wait until the answer may leave. asker: for whom; None: for this node."""
        received = time.perf_counter()
        if is_looked_into(request):  # keys are derived here, where nobody waits; what counts is looked at in the turn
            await self.gatekeeper.unmirrored(request, self.newest)
        if self._is_apart and self.epoch is not None and isinstance(request, BrokerHeartbeatRequest):
            # A session must not end meanwhile; the answer leaves at once, so it says what is committed.
            return heartbeat_without_change(replace(self._situation(), image=self.image), request).reply
        await self._until_resumed()
        if self.epoch is None:
            return refuse(request, Error.NOT_CONTROLLER)
        decided = partial(self._decided, request, version, asker)
        try:
            if is_looked_into(request) or may_touch_many(self.newest, request):
                # whoever asked may go away; the slices are ended
                decision, future = await asyncio.shield(self._begin_apart(decided, request))
            else:
                decision = decided({})()
                future = self._carry_out(decision)
        except LeadershipLost:
            return refuse(request, Error.NOT_CONTROLLER)
        except UnencodableError as error:  # nothing of it was appended
            found = REQUEST_TOO_LARGE.found(reason=words_of(error))
            log.warning("request.refused", code=found.code, request=type(request).__name__, reason=found.text)
            return refuse(request, _error_of(request, error), found.in_full)
        except DecisionRefusedError as error:
            return refuse(request, Error.UNKNOWN_SERVER_ERROR, error.occurrence.in_full)
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

    def allows(self, request: Message, asker: Asker) -> bool:
        """Whether somebody may ask this at all; topics and configurations are looked at one by one later."""
        rules = self.settings.authorizer
        return rules is None or allowed_as_whole(self.newest, rules, asker, request)

    def _decided(
        self, request: Message, version: int, asker: Asker | None, unmirrored: Mapping[str, Occurrence]
    ) -> Decide:
        """The decision on a request from what holds now; call it in the turn in which its records are appended."""
        return partial(
            decide,
            self._situation(asker, unmirrored),
            request,
            version,
            writes_allowed=self._may_write(),
            brokers_served=self.gatekeeper.brokers_served(),
            blocked=self.gatekeeper.blocked(),
        )

    def _may_write(self) -> bool:
        return self.newest.migration is not MigrationState.PRE_MIGRATION and self.gatekeeper.writes_allowed(self.newest)

    def _permitted(self) -> tuple[bool, bool]:
        """Whether requests may change metadata, and whether brokers are served where they may not."""
        return self._may_write(), self.gatekeeper.brokers_served()

    def _serves_brokers(self) -> bool:
        return self.newest.migration is MigrationState.MIGRATION and self.gatekeeper.brokers_served()

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
            buckets=self._buckets,
        )

    def _carry_out(self, decision: Decision) -> asyncio.Future[Message] | None:
        """Append what was decided. None: nothing is pending, the reply may leave at once.

        A reply without records waits for what is pending too: it was decided from uncommitted facts.
        """
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if decision.records:
            self._append(decision.records, divisible=decision.divisible)
            if self.epoch is None:  # the append was what noticed that no majority listens any more
                future.cancel()
                return future
        if not self._pending:
            return None
        self._pending.wait(future, decision.reply)
        return future

    def _begin_apart(
        self, decided: Callable[[Mapping[str, Occurrence]], Decide], request: Message
    ) -> asyncio.Task[tuple[Decision, asyncio.Future[Message] | None]]:
        """Held here until it ends: the loop alone would not keep a task alive."""
        deciding = asyncio.create_task(self._apart(decided, request), name="decide-apart")
        self._deciding.add(deciding)
        deciding.add_done_callback(self._deciding.discard)
        return deciding

    async def _apart(
        self, decided: Callable[[Mapping[str, Occurrence]], Decide], request: Message | None = None
    ) -> tuple[Decision, asyncio.Future[Message] | None]:
        """Decide on a thread and append in slices; nobody else decides or appends meanwhile.

        decided: takes what is decided from; called when this one's turn came, since others decided while it waited.
        request: None for a duty of this node.
        Raises LeadershipLost when this node leads no more, or may not write any more, before anything was appended.
        """
        async with self.paused():
            epoch, permitted, self._is_apart = self.epoch, self._permitted(), True
            broker = getattr(request, "broker_id", NOBODY)
            contact = self.contacts.kept(broker)
            try:
                if epoch is None:
                    raise LeadershipLost
                with short_turns():
                    unmirrored: Mapping[str, Occurrence] = {}
                    if request is not None and is_looked_into(request):
                        unmirrored = await self.gatekeeper.unmirrored(request, self.newest)
                    decision = await asyncio.to_thread(decided(unmirrored))
                    # The thread took its time, in which this node may have lost the lead, or the right to write.
                    if self.epoch != epoch or self._permitted() != permitted:
                        raise LeadershipLost
                    return decision, await self._carry_out_slices(decision, epoch)
            except (LeadershipLost, UnencodableError, DecisionRefusedError):
                self.contacts.put_back(broker, contact)
                raise
            finally:
                self._is_apart = False

    async def _carry_out_slices(self, decision: Decision, epoch: int) -> asyncio.Future[Message] | None:
        """As `_carry_out`, with a pause after each slice; the answer waits for the last one."""
        records, begun = decision.records, 0
        if decision.divisible:
            while len(records) - begun > SLICE_RECORDS and self.epoch == epoch:
                self._append(records[begun : begun + SLICE_RECORDS], divisible=True)
                begun += SLICE_RECORDS
                await asyncio.sleep(0)
        if self.epoch == epoch:
            return self._carry_out(replace(decision, records=records[begun:]))
        lost: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        lost.cancel()
        return lost

    def _append(self, records: Iterable[Record], *, divisible: bool = False) -> None:
        assert self.epoch is not None
        decided = time.perf_counter()
        draft = Draft(self.newest)
        values = []
        for record, version in records:
            reason = why_ineligible(draft, record)
            if reason is not None:
                raise self._refuse_decision(place_of(draft, record), reason)
            values.append(encode_record(record, version))
            replay(draft, record)
        payloads = cut(values, self._raft.wall_ms(), divisible=divisible)
        offset = self._raft.voter.log.end + len(values) - 1
        delta = draft.finish(Position(self.epoch, offset))
        self.newest = delta.after
        size = sum(len(each.batch) for each in payloads)
        self._pending.add(PendingAppend(offset, delta, size, records=len(values)))
        self._last_append_ms = self._raft.now_ms()
        self._raft.metrics.decided(offset, decided)
        appended = self._raft.append(self.epoch, payloads)
        if appended != offset and self._raft.leads(self.epoch):
            broken = AssertionError(f"the last record was to be at offset {offset}, and is at {appended}")
            self._raft.fail(broken)  # what is decided next would stand on what the log does not have
            raise broken

    def _refuse_decision(self, partition: str, reason: str) -> DecisionRefusedError:
        self._refused = INELIGIBLE_DECISION.found(partition=partition, reason=reason)
        log.error("decision.refused", code=self._refused.code, partition=partition, reason=reason)
        return DecisionRefusedError(self._refused)

    @property
    def findings(self) -> list[Occurrence]:
        """What is wrong with the log, and with what was decided here."""
        return [each for each in (self._log.ineligible.finding, self._refused) if each is not None]

    # --- what the driver appends ---------------------------------------------------------------------------

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Nobody else appends inside; requests wait. Short: one transaction or decision."""
        await self._until_resumed()
        self._resumed.clear()
        try:
            yield
        finally:
            self._resumed.set()

    async def _until_resumed(self) -> None:
        """Several may have waited, and the first one may have paused the others again."""
        while not self._resumed.is_set():
            await self._resumed.wait()

    async def append_copy(self, batches: list[tuple[int, bytes]], delta: Delta) -> Position:
        """Append the copy's transaction in one run and wait for its commit; call inside `paused`."""
        epoch = self.epoch
        if epoch is None or epoch != delta.after.position.epoch:
            raise LeadershipLost  # while the copy became an image
        first = self._raft.voter.log.end
        last = first + sum(count for count, _ in batches) - 1
        assert delta.after.position == Position(epoch, last), (delta.after.position, last)
        self.newest = delta.after
        # The step stands before the first append: a commit may come while later batches are still on their way.
        step = PendingAppend(last, delta, sum(len(batch) for _, batch in batches))
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        step.waiting.append((future, NoOpRecord()))
        self._pending.add(step)
        for count, batch in batches:  # without a pause: whoever is cancelled here must not leave half a transaction
            if self.epoch != epoch:
                raise LeadershipLost
            self._raft.append(epoch, [Payload(count, batch)])
        self._last_append_ms = self._raft.now_ms()
        await wait_for_commit(future)
        return Position(epoch, last)

    def next_offset(self) -> int:
        return self._raft.voter.log.end

    async def heal(self) -> int:
        """Elections for partitions that nobody able leads, and ends of moves; returns how many changed."""
        await self._until_resumed()
        if self.epoch is None:
            raise LeadershipLost
        return await self._carry_out_duty(heal_leaderships)

    async def _carry_out_duty(self, duty: Callable[[Situation], list[Record]]) -> int:
        """Any beginning of what the duty says is right by itself. Returns how many records that were."""

        def decided(_: Mapping[str, Occurrence]) -> Decide:
            situation = self._situation()
            return lambda: Decision(NoOpRecord(), tuple(duty(situation)), divisible=True)

        if has_many(self.newest):
            decision, _ = await self._apart(decided)
        else:
            decision = decided({})()
            if decision.records:
                self._append(decision.records, divisible=True)
        return len(decision.records)

    async def begin(self, ordered: Iterable[OrderedMove]) -> int:
        """Move replicas as ordered through ZooKeeper; returns how many partitions, when that is committed."""
        return await self._append_and_commit(lambda situation: begin_ordered(situation, ordered))

    async def mark(self, mark: Mark, text: str, is_due: Callable[[Image], bool] = lambda _: True) -> None:
        """Write a mark for every voter of ours; returns when it is committed. An empty text takes it back.

        is_due: asked of the newest image when nobody else appends; what held before may have changed since.
        """

        def order(situation: Situation) -> list[Record]:
            return [(NoOpRecord(mark=mark, mark_text=text), 0)] if is_due(situation.image) else []

        await self._append_and_commit(order)

    async def _append_and_commit(self, order: Callable[[Situation], list[Record]]) -> int:
        """Append what is ordered, and wait for its commit; how many records that were."""
        await self._until_resumed()
        if self.epoch is None:
            raise LeadershipLost
        epoch = self.epoch
        records = order(self._situation())
        if records:
            self._append(records)
            if self.epoch != epoch:
                raise LeadershipLost
            await self.settled()
        return len(records)

    async def settled(self) -> None:
        """Wait until nothing decided so far is uncommitted."""
        await self._until_resumed()
        if self._pending:
            future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
            self._pending.wait(future, NoOpRecord())
            await wait_for_commit(future)

    def lag(self) -> int:
        """Appends that are not committed yet, and what is being decided."""
        return len(self._pending) + self._is_apart

    # --- on the clock --------------------------------------------------------------------------------------

    def append_noop_when_idle(self, idle_ms: int) -> None:
        """Keeps the high watermark moving, by which observers learn what is committed."""
        if self.epoch is not None and self._resumed.is_set() and self._raft.now_ms() - self._last_append_ms >= idle_ms:
            self._append([(NoOpRecord(), 0)])

    async def append_unasked(
        self, duty: Callable[[Situation], list[Record]], is_due: Callable[[Situation], bool] = lambda _: True
    ) -> bool:
        """Append what is due now, where changes may be made and nobody paused that; whether there was anything.

        Any beginning of what the duty says is right by itself. is_due: asked first, and cheap.
        """
        if self.epoch is None or not self._resumed.is_set() or not (self._may_write() or self._serves_brokers()):
            return False
        if not is_due(self._situation()):
            return False
        try:
            return bool(await self._carry_out_duty(duty))
        except LeadershipLost:
            return False

    def heartbeat_ages_ms(self) -> dict[int, int]:
        now = self._raft.now_ms()
        ages = {broker: self.contacts.age_ms(broker, now) for broker in self.newest.brokers}
        return {broker: age for broker, age in ages.items() if age is not None}

    def kept_out(self) -> dict[int, tuple[int, int]]:
        """Brokers that were refused for their levels of metadata.version, with these levels."""
        return dict(self.contacts.kept_out)
