"""The driver's loop: one act per state, and what interrupts it.

In:   leadership and commits of this node, changes of the session with ZooKeeper, operations.
Out:  the takeover, the copy, dual-write, the rollback; `now` shows where the driver is and why it waits.
Elsewhere: which state follows (driver.machine), the contract with the acts (act.py), the acts (driver_acts.py puts them
together), writing to ZooKeeper (mirror_node.py), broker updates (propagator.py), the claim (claim_watch.py).
Rules: the loop alone assigns the driver's state. An act returns how it ended and what it changed, and never decides
what comes next. Every wait has a reason that can be read.
Source: KIP-866; R-866-01, 06, 11, 15.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from migrator.control_api.states import State
from migrator.driver.claim import Claim, still_ours
from migrator.driver.machine import (
    LOG_IS_TRUTH,
    Happened,
    entry,
    in_copy,
    in_window,
    move,
)
from migrator.driver.only_kraft import OnlyKraft
from migrator.driver.unmirrored import Unmirrored
from migrator.driver.window import is_late, too_late
from migrator.findings.driver import NOT_MIRRORED, TAKEOVER_ABORTED, UNEXPECTED
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.zookeeper import ZOOKEEPER_LOST
from migrator.model.draft import Delta
from migrator.model.image import Position
from migrator.model.values import Mark, MigrationState
from migrator.node.background import unexpected
from migrator.node.driver.act import Act, ActEnded, Concluded, DriverParts
from migrator.node.driver.claim_watch import ClaimWatch
from migrator.node.driver.divergence_watch import DivergenceWatch
from migrator.node.driver.driver_state import DriverState, not_mirrored
from migrator.node.driver.ephemeral_claim import EphemeralClaim
from migrator.node.driver.mirror_node import Mirror, Mirroring
from migrator.node.driver.operations import DriverOperations
from migrator.node.driver.propagator import Propagator
from migrator.node.leader.pending_appends import LeadershipLost
from migrator.node.quorum.quiet_time import QuietTime
from migrator.node.zookeeper.kraft_brokers import KraftBrokersNoted
from migrator.node.zookeeper.presence import Shown

log = structlog.get_logger()

MIRRORS = frozenset({State.SYNCING, State.UPDATING_BROKERS, State.DUAL_WRITE, State.ROLLING_BACK})
"""Where ZooKeeper is brought to what the log has."""

RIDE_AGAIN_S = 0.2
"""Pause before something is read again within the window."""
FAULTS_NAMED = LOG_IS_TRUTH | {State.WAIT_QUORUM, State.WAIT_BROKERS, State.RETIRED}
"""Where an act that met an unexpected fault is tried again."""
AGAIN_S = 1.0
AGAIN_MAX_S = 10.0
"""Pause before an act that met trouble is tried again: doubled with each time, unless a window is open."""


class DriverNode:
    """Runs the driver of one controller process, for as long as it lives."""

    def __init__(
        self,
        parts: DriverParts,
        now: DriverState,
        divergence: DivergenceWatch,
        *,
        calm: QuietTime,
        on_retired: Callable[[Occurrence | None], None],
    ) -> None:
        """now: the state that `parts` shows and reports to; the gatekeeper of the active controller reads it too.

        divergence: as the gatekeeper has it. calm: when cycles of objects are not collected. on_retired: called with
        the finding once the log is retired.
        """
        session, config = parts.session, parts.config
        self.parts = parts
        self.now = now
        self.divergence = divergence
        self.only_kraft = OnlyKraft()
        self.mirroring = Mirroring(session, parts.passwords, self)
        self._quiet_time = calm
        self._on_retired = on_retired
        self._loop = asyncio.get_running_loop()
        self.operations = DriverOperations(now, parts.now_ms)
        self.ephemeral = EphemeralClaim(
            now, parts.progress, parts.now_ms, lambda: session.renew(), parts.events.watch_task
        )
        self.claim_watch = ClaimWatch(
            now,
            parts.progress,
            parts.controller,
            session,
            config.voter_ids,
            parts.events,
            on_outage=self._forget_commits,
            shown=Shown(session, config.node_id),
            noted=KraftBrokersNoted(session),
        )
        self.propagator = Propagator(
            config,
            parts.controller,
            parts.progress,
            parts.events,
            security=parts.to_brokers,
            now_ms=parts.now_ms,
            look_at_claim=self.claim_watch.look,
            full_updates=parts.hooks.full_updates,
        )

    @property
    def mirror(self) -> Mirror | None:
        """What writes commits to ZooKeeper now."""
        return self.mirroring.mirror

    # --- what happens from outside -------------------------------------------------------------------------

    def led(self, epoch: int) -> None:
        """This node leads and its first records are committed."""
        self.now.led_epoch = epoch
        image = self.parts.controller.image
        self.parts.events.interrupt(entry(image.migration, latched=Mark.TAKEOVER in image.marks))

    def lost_leadership(self) -> None:
        """An act that still runs keeps the old epoch: nothing that it sends in that epoch is accepted any more."""
        self.parts.events.interrupt(Happened.LEADERSHIP_LOST)

    def session_changed(self, what: str) -> None:
        """Called from the session's thread. After a reconnect every watch is gone, so look at once.

        Nothing more is written for a session that ended: the claim is read again first, in SYNCING.
        """
        log.info("zookeeper.session", state=what)
        self._loop.call_soon_threadsafe(self.parts.events.wake)
        if what == "connected":
            self.claim_watch.fired()
        elif what == "lost":
            self._loop.call_soon_threadsafe(self._session_ended)

    def _session_ended(self) -> None:
        self.mirroring.break_off("the session with ZooKeeper ended")

    # --- operations ----------------------------------------------------------------------------------------

    def request_takeover(self) -> bool:
        """An operator requests the takeover; False when the operation is refused."""
        self.parts.events.call()
        return self.operations.request_takeover()

    def cancel_takeover(self) -> bool:
        """An operator cancels the takeover; False when there was no operation, it has begun, or begins by itself."""
        withdrawn = self.operations.cancel_takeover()
        return withdrawn and (self.parts.config.gates != "auto" or self.now.state is State.ABORTED)

    def request_abort(self, reason: str) -> bool:
        """Abort the window; False when there is nothing to abort any more."""
        if not self.now.may_abort:
            return False
        aborted = TAKEOVER_ABORTED.found(reason=reason or "no reason given")
        self.fail_window(aborted.text, aborted)
        return True

    def request_rollback(self) -> bool:
        """An operator requests the rollback; False when the operation is refused."""
        kept = self.operations.request_rollback()
        if self.operations.rollback:
            self.parts.events.interrupt(Happened.ROLLBACK_REQUESTED)
        return kept

    # --- commits -------------------------------------------------------------------------------------------

    def published(self, delta: Delta) -> None:
        """A commit became visible: write it to ZooKeeper, and update brokers."""
        self.parts.events.wake()
        # The gate waits for brokers, and for nothing else that is committed: it need not look at each NoOp.
        if delta.brokers:
            self.parts.events.call()
        self._note_what_surveys_miss(delta)
        self.only_kraft.published(delta)
        if any(new is not None and not new.migrating for new in map(delta.after.brokers.get, delta.brokers)):
            self.claim_watch.look()  # which notes brokers in KRaft mode; some of them cause no write to ZooKeeper
        if self.now.state is State.RESUMING and not delta.is_empty:
            self.divergence.committed(delta.after.position.offset)
        if self.now.claim is None or self.parts.controller.image.migration is not MigrationState.MIGRATION:
            return
        if self.now.state is State.FENCED:
            return  # another process is the active controller: nothing is sent to ZooKeeper or to brokers from here
        if self.now.state in MIRRORS and not self.now.fresh_copy:  # a copy came from ZooKeeper
            self.divergence.committed(delta.after.position.offset)
        self.mirroring.published(delta)
        try:
            self.propagator.published(delta)
        except Exception as error:  # a commit reaches every voter: it may end none of them
            self._not_updated("updating brokers", delta.after.position.offset, error)

    def _not_updated(self, where: str, offset: int, error: Exception) -> None:
        """Brokers get a full update again, after the reconcile."""
        log.error("brokers.not_updated", offset=offset, exc_info=error)
        self.now.alarm(UNEXPECTED.code, unexpected(where, error))
        self.propagator.broker_updates = None
        self.mirroring.break_off(f"brokers could not be updated: {error}")

    def _note_what_surveys_miss(self, delta: Delta) -> None:
        """Brokers that registered again have to be asked again what they have."""
        for broker in delta.brokers:
            old, new = delta.before.brokers.get(broker), delta.after.brokers.get(broker)
            if old is None or new is None or old.epoch != new.epoch:
                self.now.surveys.pop(broker, None)

    def _forget_commits(self) -> None:
        """The comparison and the full send begin with what is committed when ZooKeeper answers again."""
        self.mirroring.forget_commits()
        self.propagator.forget_commits()

    # --- what the mirror reports (mirror_node.MirrorListener) ----------------------------------------------

    def on_claim(self, claim: Claim) -> None:
        self.now.claim = claim

    def on_started(self, position: Position) -> None:
        self.now.dual_write_at = position
        self.divergence.written(position.offset)

    def on_applied(self, position: Position) -> None:
        self.on_started(position)
        try:
            self.propagator.mirrored(position)
        except Exception as error:  # as of a commit
            self._not_updated("updating brokers from what ZooKeeper has now", position.offset, error)
        self.parts.events.wake()

    def on_unmirrored(self, found: tuple[Unmirrored, ...]) -> None:
        self.now.unmirrored = found
        self.now.alarm(NOT_MIRRORED.code, not_mirrored(found))

    def on_broken(self, reason: str) -> None:
        self.now.broken = reason
        self.now.wait_because(f"ZooKeeper did not take a write ({reason}); reading and comparing again")
        self.parts.events.interrupt(Happened.MIRROR_BROKEN)

    # --- the loop ------------------------------------------------------------------------------------------

    async def run(self, acts: Mapping[State, Act]) -> None:
        """Run one act after the other, for ever. An act that raises a finding before the commit fails the window."""
        while True:
            happened = await self._next(acts.get(self.now.state))
            following = move(self.now.state, happened)
            if following is None:
                continue
            await self._enter(following, happened)

    async def _next(self, act: Act | None) -> Happened:
        """The act's own end, or an interrupt that means something in this state."""
        task = None if act is None else asyncio.create_task(self._guarded(act), name=f"act-{self.now.state}")
        try:
            while True:
                interrupt = asyncio.create_task(self.parts.events.get())
                waiting = {interrupt} if task is None else {interrupt, task}
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if interrupt in done:
                    if task is not None and task in done:
                        task.result()  # a fault is not lost behind an interrupt (K-24)
                    happened = interrupt.result()
                    if isinstance(happened, BaseException):
                        raise happened
                    # The end of a window that comes after the append is too late: an abort would lose the copy.
                    late = is_late(happened, fresh_copy=self.now.fresh_copy)
                    if move(self.now.state, happened) is not None and not late:
                        return happened
                else:
                    interrupt.cancel()
                if task is not None and task in done:
                    return task.result()
        finally:
            if task is not None and not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _guarded(self, act: Act) -> Happened:
        """How the act ended; what it changed is assigned in the same step.

        Expected trouble inside the window ends the window, or the window's guard does when ZooKeeper is away;
        elsewhere the act is tried again.
        """
        pause_s = AGAIN_S
        while True:
            try:
                return self._take(await act())
            except LeadershipLost:
                return Happened.LEADERSHIP_LOST
            except Exception as fault:
                error = self._named(fault)
                # Nothing is appended yet, and ZooKeeper may answer again within the window.
                if in_copy(self.now.state) and error.code == ZOOKEEPER_LOST.code:
                    happened = await self._ride_out(error)
                    if happened is None:
                        continue
                    return happened
                if self.now.may_abort:
                    self.now.finding = error.occurrence
                    self.now.reason = str(error)
                    log.warning("window.failed", state=self.now.state.value, reason=str(error))
                    return Happened.WINDOW_FAILED
                self.now.wait_because(str(error))
                self.now.trouble = error.occurrence
                late = too_late(self.now.window, self.parts.now_ms(), error.occurrence, fresh_copy=self.now.fresh_copy)
                if late is not None:
                    return self._take(ActEnded(Happened.MUST_ROLL_BACK, (Concluded(late),)))
                await asyncio.sleep(pause_s)
                pause_s = AGAIN_S if self.now.window is not None else min(2 * pause_s, AGAIN_MAX_S)

    def _take(self, ended: ActEnded) -> Happened:
        self.parts.progress.changed(*ended.changed)
        return ended.happened

    def _named(self, error: Exception) -> FindingError:
        """An unexpected fault is named: the acts of the next leader would meet it too. Before the claim and once the
        log is the truth the act is tried again; in between it ends the takeover. While the claim is being deleted it
        ends the process, and with it the claim.
        """
        if isinstance(error, FindingError):
            return error
        if self.now.state not in FAULTS_NAMED and not self.now.may_abort:
            raise error
        log.exception("driver.fault", state=self.now.state.value)
        found = unexpected(self.now.state.value, error)
        self.now.alarm(UNEXPECTED.code, found)
        return FindingError(found)

    async def _ride_out(self, error: FindingError) -> Happened | None:
        """Nothing is appended yet, so the same can be read once more, as long as the claim stands. None: do so."""
        claim = self.now.claim
        assert claim is not None
        log.warning("window.interrupted", state=self.now.state.value, reason=str(error))
        self.now.wait_because(str(error))
        self.now.trouble = error.occurrence
        await asyncio.sleep(RIDE_AGAIN_S)
        observed = await self.claim_watch.observed()
        if not still_ours(observed, claim):
            return self.claim_watch.touched(observed)
        self.now.trouble = None
        return None

    async def _enter(self, state: State, happened: Happened) -> None:
        self.now.enter(state, happened, self.parts.now_ms())
        if state is State.TAKING_OVER:
            self.now.abandoned = False
        # The cluster may be waiting for its controller: a collection of cycles would make it wait longer.
        if in_window(state) or state is State.RESUMING:
            self._quiet_time.begin()
        else:
            self._quiet_time.end()
        if state in (State.FENCED, State.IDLE, State.RETIRED, State.ABORTING) or happened is Happened.CLAIM_LOST:
            await self._stop_updating()
            self.operations.begun()  # or never will be
        if state is State.IDLE:
            self.now.forget_leadership()
        if happened is Happened.CLAIM_LOST:
            self.now.drop_claim()
        if state is State.RESUMING:
            self.divergence.resume(self.parts.controller.image)
        if state is State.ABORTING:
            self.now.exported = None
        if state is State.ABORTED:
            self._close_window()
        if state is State.DUAL_WRITE and self.now.window is not None:
            self._close_window()
            log.info("dual_write.entered", window_ms=self.now.window_ms)
        if state is State.RETIRED:
            self._on_retired(self.now.finding)

    async def _stop_updating(self) -> None:
        self.mirroring.stop()
        self.divergence.forget()
        await self.propagator.stop()

    # --- the window ----------------------------------------------------------------------------------------

    def fail_window(self, reason: str, finding: Occurrence | None = None) -> None:
        """End the takeover: nothing is appended any more."""
        log.warning("window.failed", state=self.now.state.value, reason=reason)
        self.now.reason = reason
        self.now.finding = finding
        self.now.abandoned = True
        self.parts.events.interrupt(Happened.WINDOW_FAILED)

    def _close_window(self) -> None:
        window = self.now.window
        self.now.window_ms = None if window is None else self.parts.now_ms() - window.opened_ms
        self.now.window = None
