"""The driver at work: one act per state, and what interrupts it.

In:   leadership and commits of this node, watches on the claim, what a person asks for.
Out:  the takeover, the copy, dual-write, the way back; `status()` tells where it is and why it waits.
Elsewhere: which state follows (driver.machine), what is read, written and told (driver, tree_reader, mirror_node,
broker_channels), the acts up to the commit (takeover.py), of dual-write (dual_write.py), of going back (hand_back.py).
Rules: an act reports how it ended and never decides what comes next. Every wait has a reason that can be read.
Source: KIP-866; R-866-01, 06, 11, 15.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog

from migrator.audit.compare import Report
from migrator.driver.claim import Claim, Seen, still_ours
from migrator.driver.copy import Copy
from migrator.driver.gate import can_register, voters_enabled
from migrator.driver.guard import Survey, left_over
from migrator.driver.machine import (
    Happened,
    State,
    Window,
    entry,
    in_copy,
    in_window,
    may_abort,
    move,
    writes_allowed,
)
from migrator.driver.tell import LEADER_AND_ISR, Kind, Order, reachable
from migrator.driver.teller import Teller
from migrator.driver.tree import Tree
from migrator.errors import (
    CLAIM_EXPIRED,
    FENCED,
    HAND_BACK_NOT_POSSIBLE,
    TAKEOVER_ABORTED,
    TOLD_TOO_LATE,
    ZOOKEEPER_LOST,
    FindingError,
    Occurrence,
)
from migrator.model.draft import Delta
from migrator.model.image import NOWHERE, Position
from migrator.model.values import Mark, MigrationState
from migrator.model.verdict import Verdict
from migrator.node.active_controller import ActiveController
from migrator.node.broker_channels import UNKNOWN_SERVER_ERROR, BrokerChannels, refused_whole
from migrator.node.calm import Calm
from migrator.node.claims import read_claim
from migrator.node.client_security import client_security
from migrator.node.config import NodeConfig
from migrator.node.divergence_watch import DivergenceWatch
from migrator.node.encoder_config import encoder_of
from migrator.node.hooks import Hooks
from migrator.node.mirror_node import Mirror
from migrator.node.password_writes import unmirrored
from migrator.node.pending_appends import LeadershipLost
from migrator.node.storage import RetiredMark
from migrator.node.survey import survey_brokers
from migrator.node.voters_seen import QuorumView
from migrator.wire.schema import Message
from migrator.zk.session import ZkSession

log = structlog.get_logger()

REFUSED_AGAIN_S = 1.0
REFUSED_AGAIN_MAX_S = 30.0
"""Pause before a broker that refused a request gets everything once more: doubled with each refusal in a row."""

TAKEOVER_CAN_BE_ASKED = frozenset({State.WAIT_QUORUM, State.WAIT_BROKERS, State.HELD})
HAND_BACK_CAN_BE_ASKED = frozenset(
    {State.COMMITTING, State.RESUMING, State.SYNCING, State.TELLING_BROKERS, State.DUAL_WRITE}
)
"""A wish that comes at any other time is not kept: it would be carried out when nobody means it any more."""

MIRRORS = frozenset({State.SYNCING, State.TELLING_BROKERS, State.DUAL_WRITE, State.HANDING_BACK})
"""Where ZooKeeper is brought to what the log says."""

SPREAD_S = 2.0
"""How long a hand-back waits for voters that lag: a majority has the mark in any case."""

RIDE_AGAIN_S = 0.2
"""Pause before something is read again within the window."""
AGAIN_S = 1.0
AGAIN_MAX_S = 10.0
"""Pause before an act that met trouble is tried again: doubled with each time, unless a window is open."""

LOOK_S = 0.5
"""Longest pause between two looks at something that nobody announces."""

CLAIM_LOOK_S = 0.05
"""Our own writes wake the watch on /migration; looks closer together than this are joined."""


def wall_ms() -> int:
    return int(time.time() * 1000)


@dataclass(slots=True)
class DriverState:
    """What the driver knows. One act at a time changes it, on the loop's thread.

    wish_takeover, wish_hand_back: a person asked; kept until done.
    trouble: what holds up the act of this state, or what somebody should look at meanwhile; `finding` is about how
        states ended.
    """

    state: State = State.IDLE
    reason: str = "this node does not lead"
    since_ms: int = 0
    claim: Claim | None = None
    window: Window | None = None
    window_ms: int | None = None
    tree: Tree | None = None
    copy: Copy | None = None
    surveys: dict[int, Survey] = field(default_factory=dict)
    verdict: Verdict | None = None
    exported: str | None = None
    audit: Report | None = None
    finding: Occurrence | None = None
    trouble: Occurrence | None = None
    wish_takeover: bool = False
    wish_hand_back: bool = False
    fresh_copy: bool = False
    dual_write_at: Position = NOWHERE
    reconciled_writes: int | None = None
    unreadable: Mapping[str, Occurrence] = field(default_factory=dict)
    """Brokers with a password in ZooKeeper that cannot be decoded: their configuration is not written there."""
    history: list[dict[str, Any]] = field(default_factory=list)


class DriverNode:
    """Runs the driver of one controller process, for as long as it lives."""

    def __init__(
        self,
        config: NodeConfig,
        controller: ActiveController,
        session: ZkSession,
        retired_mark: RetiredMark,
        quorum: QuorumView,
        *,
        laboratory: bool,
        on_retired: Callable[[Occurrence | None], None],
        close_listener: Callable[[], Awaitable[None]],
        hooks: Hooks,
        calm: Calm,
    ) -> None:
        self.config = config
        self.controller = controller
        self.session = session
        self.retired_mark = retired_mark
        self._quorum = quorum
        self.laboratory = laboratory
        self.hooks = hooks
        self._calm = calm
        self.close_listener = close_listener
        self.now = DriverState()
        self.mirror: Mirror | None = None
        self.teller: Teller | None = None
        self.passwords = encoder_of(config.passwords)
        self.to_brokers = client_security(config.security.get(config.inter_broker_listener))
        self.channels = BrokerChannels(
            str(config.node_id),
            config.inter_broker_listener,
            security=self.to_brokers,
            on_answer=self._on_answer,
            on_fault=self._watch_task,
            now_ms=self.now_ms,
        )
        self.backlog: list[Delta] = []
        """Commits since the reconcile's target that no mirror has seen yet."""
        self.untold: list[Delta] = []
        """Commits since the image of a full send that is being encoded."""
        self.unanswered_full: dict[int, int] = {}
        self._refusals: dict[int, int] = {}
        self._retries: dict[int, asyncio.TimerHandle] = {}
        self._ill: set[int] = set()
        """Brokers whose own code failed at a LeaderAndIsr: it does at a FULL one while a log has no topic id."""
        self._healing: asyncio.Task[None] | None = None
        self._on_retired = on_retired
        self._interrupts: asyncio.Queue[Happened | BaseException] = asyncio.Queue()
        self._changed = asyncio.Event()
        self._epoch: int | None = None
        self._loop = asyncio.get_running_loop()
        self._claim_look: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._moves = 0
        controller.writes_allowed = self._may_write
        self.divergence = DivergenceWatch(
            config.divergence, controller, now_ms=self.now_ms, wall_ms=wall_ms, may_mark=self._may_write
        )
        controller.blocked = self.divergence.refusal
        controller.unmirrored = self._unmirrored

    # --- what others see -----------------------------------------------------------------------------------

    @staticmethod
    def now_ms() -> int:
        return int(time.monotonic() * 1000)

    def _may_write(self) -> bool:
        return writes_allowed(self.now.state)

    async def _unmirrored(self, request: Message) -> Mapping[str, Occurrence]:
        return await unmirrored(request, self.controller.newest, self.passwords, self.now.unreadable)

    def wait_because(self, reason: str) -> None:
        """Name what is waited for; logged when it changes."""
        if reason != self.now.reason:
            self.now.reason = reason
            log.info("driver.waits", state=self.now.state.value, reason=reason)

    # --- what happens from outside -------------------------------------------------------------------------

    def led(self, epoch: int) -> None:
        """This node leads and its first records are committed."""
        self._epoch = epoch
        image = self.controller.image
        self.interrupt(entry(image.migration, latched=Mark.TAKEOVER in image.marks))

    def lost_leadership(self) -> None:
        """An act that still runs keeps the old epoch, with which nobody takes anything from it any more."""
        self.interrupt(Happened.LEADERSHIP_LOST)

    @property
    def epoch(self) -> int:
        assert self._epoch is not None, "the driver acts only while this node leads"
        return self._epoch

    def interrupt(self, happened: Happened) -> None:
        self._interrupts.put_nowait(happened)

    def _watch_task(self, task: asyncio.Task[None]) -> None:
        """What nobody expected in the background ends `run`, and with it the process; it is not only logged (K-24)."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._interrupts.put_nowait(error)

    def ask_takeover(self) -> None:
        """A person wants the takeover. Asked once more when it is under way, this changes nothing."""
        self.now.wish_takeover = self.now.state in TAKEOVER_CAN_BE_ASKED
        self._changed.set()

    def ask_abort(self, reason: str) -> bool:
        """Abort the window; False when there is nothing to abort any more."""
        if not may_abort(self.now.state):
            return False
        aborted = TAKEOVER_ABORTED.found(reason=reason or "no reason given")
        self.fail_window(aborted.text, aborted)
        return True

    def ask_hand_back(self) -> None:
        self.now.wish_hand_back = self.now.state in HAND_BACK_CAN_BE_ASKED
        if self.now.wish_hand_back:
            self.interrupt(Happened.HAND_BACK_ASKED)

    def fail_window(self, reason: str, finding: Occurrence | None = None) -> None:
        log.warning("window.failed", state=self.now.state.value, reason=reason)
        self.now.reason = reason
        self.now.finding = finding
        self.interrupt(Happened.WINDOW_FAILED)

    # --- commits -------------------------------------------------------------------------------------------

    def published(self, delta: Delta) -> None:
        """A commit became visible: mirror it, tell brokers."""
        self._changed.set()
        self._note_what_surveys_miss(delta)
        if self.now.claim is None or self.controller.image.migration is not MigrationState.MIGRATION:
            return
        if self.now.state in MIRRORS and not self.now.fresh_copy:  # a copy came from ZooKeeper
            self.divergence.committed(delta.after.position.offset)
        if self.mirror is not None:
            self.mirror.publish(delta)
        else:
            self.backlog.append(delta)
        if self.teller is not None:
            self.channels.follow(reachable(delta.after))
            self.send(self.teller.published(delta))
        else:
            self.untold.append(delta)

    def _note_what_surveys_miss(self, delta: Delta) -> None:
        """Brokers that came back have to be asked again what they have."""
        for broker in delta.brokers:
            old, new = delta.before.brokers.get(broker), delta.after.brokers.get(broker)
            if old is None or new is None or old.epoch != new.epoch:
                self.now.surveys.pop(broker, None)

    def wrote(self, position: Position) -> None:
        """ZooKeeper has everything up to here."""
        self.now.dual_write_at = position
        self.divergence.written(position.offset)

    def on_applied(self, position: Position) -> None:
        self.wrote(position)
        if self.teller is not None:
            self.send(self.teller.mirrored(position))
        self._changed.set()

    def on_claim(self, claim: Claim) -> None:
        self.now.claim = claim

    def on_broken(self, reason: str) -> None:
        self.mirror = None
        self.wait_because(f"ZooKeeper did not take a write ({reason}); reading and comparing again")
        self.interrupt(Happened.MIRROR_BROKEN)

    def send(self, orders: list[Order]) -> None:
        """Queue orders; full ones are awaited by TELLING_BROKERS until each broker answered all three."""
        full = [order for order in orders if order.kind is Kind.FULL]
        for broker in {order.broker for order in full}:
            self.unanswered_full[broker] = sum(order.broker == broker for order in full)
        self.channels.send(orders)

    def _on_answer(self, order: Order, problem: str | None) -> None:
        if problem is None:
            if order.kind is Kind.FULL and self._is_current(order):
                self.unanswered_full[order.broker] -= 1
                if not self.unanswered_full[order.broker]:
                    self._refusals.pop(order.broker, None)
            self._changed.set()
            return
        self.wait_because(f"broker {order.broker} refused a request: {problem}")
        self.look_at_claim()
        if order.api_key == LEADER_AND_ISR and problem == refused_whole(UNKNOWN_SERVER_ERROR):
            self._ill.add(order.broker)
        if order.broker not in self._retries:  # one refused send has many refused orders
            times = self._refusals[order.broker] = self._refusals.get(order.broker, 0) + 1
            pause_s = min(REFUSED_AGAIN_S * 2.0 ** (times - 1), REFUSED_AGAIN_MAX_S)
            retry = self._loop.call_later(pause_s, self._tell_again, order.broker, order.broker_epoch)
            self._retries[order.broker] = retry

    def _is_current(self, order: Order) -> bool:
        """Whether this full send is the one that is waited for: not of an earlier epoch of the broker."""
        told = {} if self.teller is None else self.teller.audience()
        return told.get(order.broker) == order.broker_epoch and self.unanswered_full.get(order.broker, 0) > 0

    def _tell_again(self, broker: int, broker_epoch: int) -> None:
        self._retries.pop(broker, None)
        if broker in self._ill:
            self._ill.discard(broker)
            self._healing = self._loop.create_task(self._heal(broker, broker_epoch), name=f"heal-{broker}")
            self._healing.add_done_callback(self._watch_task)
        else:
            self._tell_everything(broker, broker_epoch)

    def _tell_everything(self, broker: int, broker_epoch: int, leftovers: list[tuple[str, int]] | None = None) -> None:
        """leftovers: given, what it has to be healed of first."""
        if self.teller is None or self.teller.audience().get(broker) != broker_epoch:
            return
        first = [] if leftovers is None else self.teller.heal(broker, leftovers)
        self.unanswered_full.pop(broker, None)
        self.send([*first, *self.teller.refused(broker, broker_epoch)])

    async def _heal(self, broker: int, broker_epoch: int) -> None:
        """It refused the FULL LeaderAndIsr: what it has tells what it must be rid of before the next one."""
        image, gone = self.controller.image, self.controller.removals
        asked = [each for each in reachable(image) if each.id == broker]
        listener = self.config.inter_broker_listener
        surveys, _ = await survey_brokers(asked, listener, str(self.config.node_id), self.to_brokers)
        found = [left_over(each, self.controller.image, gone.topics, gone.replicas) for each in surveys.values()]
        log.info("broker.healed", broker=broker, leftovers=len(found[0]) if found else None)
        self._tell_everything(broker, broker_epoch, found[0] if found else [])

    # --- the claim -----------------------------------------------------------------------------------------

    async def seen_claim(self) -> Seen:
        """The claim as it stands, as soon as ZooKeeper answers."""
        while True:
            try:
                return await asyncio.to_thread(self._read_claim_of_now)
            except FindingError as error:
                self.wait_because(f"ZooKeeper has to answer before the claim is known: {error}")
                self.now.trouble = error.occurrence
                self.backlog.clear()  # the comparison and the full send begin with what is committed then
                self.untold.clear()
                await asyncio.sleep(LOOK_S)

    def _read_claim_of_now(self) -> Seen:
        """After `sync`: a server that lags behind would say that what it does not know yet never happened."""
        self.session.sync()
        return read_claim(self.session)

    def look_at_claim(self) -> None:
        """Look soon whether the claim is still ours; called from any thread's watch through the loop."""
        if self._claim_look is None and self.now.claim is not None:
            self._claim_look = self._loop.call_later(CLAIM_LOOK_S, self._begin_claim_look)

    def _begin_claim_look(self) -> None:
        self._looking = self._loop.create_task(self._check_claim(), name="claim-look")
        self._looking.add_done_callback(self._watch_task)

    def _watch_fired(self) -> None:
        self._loop.call_soon_threadsafe(self.look_at_claim)

    def session_changed(self, what: str) -> None:
        """Called from the session's thread. After a reconnect every watch is gone, so look at once.

        Nothing more is written for a session that ended: the claim is read again first, in SYNCING.
        """
        log.info("zookeeper.session", state=what)
        self._loop.call_soon_threadsafe(self._changed.set)
        if what == "connected":
            self._watch_fired()
        elif what == "lost":
            self._loop.call_soon_threadsafe(self._session_ended)

    def _session_ended(self) -> None:
        if self.mirror is not None:
            self.mirror.break_off("the session with ZooKeeper ended")

    async def _check_claim(self) -> None:
        self._claim_look = None
        claim = self.now.claim
        if claim is None:
            return
        try:
            seen = await asyncio.to_thread(self._look_twice, claim)
        except FindingError as error:
            log.info("claim.not_seen", reason=str(error))
            return  # the session tells when it is connected again
        now = self.now.claim
        if now is None or now.kraft_epoch != claim.kraft_epoch:
            return  # what was seen says nothing about a later leadership
        if not still_ours(seen, now):
            self.claim_touched(seen)
        elif self.controller.image.migration is MigrationState.MIGRATION:
            await self._mark_migration(str(seen.migration_born))

    def _look_twice(self, claim: Claim) -> Seen:
        """On a thread. The znodes are read one by one: a claim that came in between is seen whole by a second look."""
        seen = read_claim(self.session, self._watch_fired)
        if not still_ours(seen, claim):
            self.session.sync()
            seen = read_claim(self.session, self._watch_fired)
        return seen

    async def _mark_migration(self, born: str) -> None:
        """Note by which `/migration` this log is in migration; never of a claim that was given back again."""
        if self.controller.newest.marks.get(Mark.MIGRATION) != born:
            with suppress(LeadershipLost):  # then the next leader looks
                await self.controller.mark(Mark.MIGRATION, born)

    def claim_touched(self, seen: Seen) -> Happened:
        """What that means, also for an act that noticed it itself."""
        claim = self.now.claim
        if claim is not None and self._is_our_successor(seen, claim):
            log.warning("claim.succeeded", by=seen.controller.brokerid if seen.controller else -1)
            self.controller.resign()
            return self._interrupted(Happened.LEADERSHIP_LOST)
        holder = "nobody" if seen.controller is None else f"node {seen.controller.brokerid}"
        expected = "nobody" if claim is None else f"node {claim.node}, epoch {claim.zk_epoch}"
        log.error("claim.touched", found=holder, controller_epoch=seen.epoch, expected=expected)
        is_gone = seen.controller is None or seen.controller.kraft_epoch <= 0
        is_way_back = may_abort(self.now.state) or self.now.fresh_copy
        if is_gone and is_way_back and claim is not None and claim.ephemeral:
            self.now.finding = CLAIM_EXPIRED.found(controller=holder)
        else:
            self.now.finding = FENCED.found(found=f"{holder}, epoch {seen.epoch}", expected=expected)
        self.now.reason = self.now.finding.text
        no_broker_knows = is_gone and self.now.fresh_copy
        return self._interrupted(Happened.MUST_GO_BACK if no_broker_knows else Happened.CLAIM_TOUCHED)

    def _interrupted(self, happened: Happened) -> Happened:
        self.interrupt(happened)
        return happened

    def _is_our_successor(self, seen: Seen, claim: Claim) -> bool:
        """Another voter of this quorum was elected and has claimed; this node has not heard of it yet."""
        held = seen.controller
        return (
            held is not None
            and held.brokerid in self.config.voter_ids
            and held.brokerid != claim.node
            and held.kraft_epoch > max(claim.kraft_epoch, self.controller.epoch or 0)
        )

    # --- the end of this log -------------------------------------------------------------------------------

    def foreign_voters(self) -> tuple[str, ...]:
        """Voters that are not known to run our software now."""
        return self._quorum.foreign_voters()

    async def voters_enabled(self) -> Mapping[int, bool]:
        """Voters that are known, and whether each has the migration enabled (gate.voters_enabled)."""
        image = self.controller.image
        asked = {} if can_register(image) else await self._quorum.migration_enabled()
        return voters_enabled(image, {self.config.node_id: self.config.migration_enabled, **asked})

    def refuse_beside_stock(self) -> None:
        """A stock voter does not know our marks: with this log it would take the cluster over again."""
        stock, foreign = self._quorum.stock_voters(), self.foreign_voters()
        if stock:
            raise HAND_BACK_NOT_POSSIBLE.error(reason=f"voters {stock} are Kafka's; put ours in their place first")
        ours, voters = len(self.config.voters) - len(foreign), len(self.config.voters)
        if ours <= voters // 2:
            reason = f"{ours} of {voters} voters are there; {', '.join(foreign)}"
            raise HAND_BACK_NOT_POSSIBLE.error(reason=reason)

    async def retire_log(self, text: str) -> None:
        """Write into the log, for every voter, that it is never used again; then wait a moment for them to know it."""
        await self.controller.mark(Mark.HANDED_BACK, text)
        await asyncio.to_thread(self.retired_mark.write, text)
        await self._quorum.known_to_all(SPREAD_S, self.wait_because)

    # --- the loop ------------------------------------------------------------------------------------------

    async def run(self, acts: Mapping[State, Callable[[], Awaitable[Happened]]]) -> None:
        """Run one act after the other, for ever. An act that raises a finding before the commit fails the window."""
        while True:
            happened = await self._next(acts.get(self.now.state))
            following = move(self.now.state, happened)
            if following is None:
                continue
            await self._enter(following, happened)

    async def _next(self, act: Callable[[], Awaitable[Happened]] | None) -> Happened:
        """The act's own end, or an interrupt that means something in this state."""
        task = None if act is None else asyncio.create_task(self._guarded(act), name=f"act-{self.now.state}")
        try:
            while True:
                interrupt = asyncio.create_task(self._interrupts.get())
                waiting = {interrupt} if task is None else {interrupt, task}
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if interrupt in done:
                    happened = interrupt.result()
                    if isinstance(happened, BaseException):
                        raise happened
                    if move(self.now.state, happened) is not None:
                        return happened
                else:
                    interrupt.cancel()
                if task is not None and task in done:
                    return task.result()
        finally:
            if task is not None and not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _guarded(self, act: Callable[[], Awaitable[Happened]]) -> Happened:
        """Expected trouble inside the window ends the window, or the window's guard does when ZooKeeper is away;
        elsewhere the act is tried again.
        """
        pause_s = AGAIN_S
        while True:
            try:
                return await act()
            except LeadershipLost:
                return Happened.LEADERSHIP_LOST
            except FindingError as error:
                if in_copy(self.now.state) and error.code == ZOOKEEPER_LOST.code:
                    happened = await self._ride_out(error)
                    if happened is None:
                        continue
                    return happened
                if may_abort(self.now.state):
                    self.now.finding = error.occurrence
                    self.now.reason = str(error)
                    log.warning("window.failed", state=self.now.state.value, reason=str(error))
                    return Happened.WINDOW_FAILED
                self.wait_because(str(error))
                self.now.trouble = error.occurrence
                if self.must_go_back():
                    return self.too_late()
                await asyncio.sleep(pause_s)
                pause_s = AGAIN_S if self.now.window is not None else min(2 * pause_s, AGAIN_MAX_S)

    async def _ride_out(self, error: FindingError) -> Happened | None:
        """Nothing is appended yet, so the same can be read once more, as long as the claim stands. None: do so."""
        claim = self.now.claim
        assert claim is not None
        log.warning("window.interrupted", state=self.now.state.value, reason=str(error))
        self.wait_because(str(error))
        self.now.trouble = error.occurrence
        await asyncio.sleep(RIDE_AGAIN_S)
        seen = await self.seen_claim()
        if not still_ours(seen, claim):
            return self.claim_touched(seen)
        self.now.trouble = None
        return None

    async def _enter(self, state: State, happened: Happened) -> None:
        before = self.now.state
        self.now.state = state
        self.now.trouble = None
        self.now.since_ms = self.now_ms()
        keeps_reason = state in (State.ABORTING, State.HELD, State.FENCED, State.RETIRED)
        reason = self.now.reason if keeps_reason else happened.value
        self.now.reason = reason
        self._moves += 1
        self.now.history.append(
            {"number": self._moves, "at": time.time(), "from": before.value, "to": state.value, "reason": reason}
        )
        log.info("driver.state", **{"from": before.value, "to": state.value, "reason": reason})
        if in_window(state) or state is State.RESUMING:
            self._calm.begin()
        else:
            self._calm.end()
        if state in (State.FENCED, State.IDLE, State.RETIRED, State.ABORTING):
            await self._stop_telling()
        if state is State.IDLE:
            self._forget_leadership()
        if state is State.RESUMING:
            self.divergence.resume()
        if state is State.ABORTING:
            self.now.wish_takeover = False
            self.now.exported = None
        if state is State.DUAL_WRITE and self.now.window is not None:
            self._close_window()
        if state is State.RETIRED:
            self._on_retired(self.now.finding)

    def _forget_leadership(self) -> None:
        """What this node held, learned or was asked for as a leader means nothing when it leads again."""
        now = self.now
        now.claim = now.window = None
        now.dual_write_at = NOWHERE
        now.wish_takeover = now.wish_hand_back = now.fresh_copy = False
        now.unreadable = {}
        now.surveys.clear()

    def _close_window(self) -> None:
        window = self.now.window
        assert window is not None
        self.now.window_ms = self.now_ms() - window.opened_ms
        self.now.window = None
        log.info("dual_write.entered", window_ms=self.now.window_ms)

    async def _stop_telling(self) -> None:
        if self.mirror is not None:
            self.mirror.stop()
            self.mirror = None
        self.teller = None
        self.divergence.forget()
        self.backlog.clear()
        self.untold.clear()
        self.unanswered_full.clear()
        for retry in self._retries.values():
            retry.cancel()
        self._retries.clear()
        self._refusals.clear()
        self._ill.clear()
        await self.channels.close()

    async def changed(self, timeout_s: float) -> None:
        """Wait until something worth looking at happened, at most so long."""
        self._changed.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    def must_go_back(self) -> bool:
        """Committed, no broker was told, and the cluster has been without a controller for as long as is allowed."""
        window = self.now.window
        return self.now.fresh_copy and window is not None and window.overdue(self.now_ms())

    def too_late(self) -> Happened:
        """No broker was told within the limit, because of what is or was in the way."""
        trouble, limit_ms = self.now.trouble, self.config.takeover_max_ms
        reason = "no trouble was met; it only took long" if trouble is None else f"{trouble.code} {trouble.text}"
        self.now.finding = TOLD_TOO_LATE.found(limit_ms=limit_ms, reason=reason)
        self.now.reason = self.now.finding.text
        return Happened.MUST_GO_BACK

    def without_controller_ms(self) -> int | None:
        """How long the cluster has had no controller; None outside the window."""
        if self.now.window is None or not in_window(self.now.state):
            return None
        return self.now_ms() - self.now.window.opened_ms
