"""Whether the claim still stands: observed when something changed.

In:   watches on the three znodes of the claim, and every part that has a reason to look.
Out:  `Happened.CLAIM_TOUCHED`, `CLAIM_LOST`, `MUST_ROLL_BACK` or `LEADERSHIP_LOST`, once to the act that noticed and
      once as an interrupt; and `Mark.MIGRATION` and `Mark.CLAIM` in the log, by which a later process knows its own
      `/migration` and whether anybody was elected since.
Elsewhere: how the znodes are read (claims.py), what a change means (driver.touched), taking the claim (claiming.py),
deleting it (rollback.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

import structlog

from migrator.driver.claim import Claim, ClaimObservation, still_ours
from migrator.driver.claim_table import ClaimedBefore, brokers_of
from migrator.driver.machine import LOG_IS_TRUTH, Happened, writes_allowed
from migrator.driver.touched import touched
from migrator.findings.driver import CLAIM_CHANGED
from migrator.findings.finding import FindingError
from migrator.model.image import Image
from migrator.model.values import Mark, MigrationState
from migrator.node.background import AGAIN_MAX_S, AGAIN_S, alarm_name, unexpected
from migrator.node.driver.act import ActReporter, Concluded, DriverView, WindowAbandoned
from migrator.node.driver.event_queue import LOOK_S, EventQueue
from migrator.node.leader.active_controller import ActiveController
from migrator.node.leader.pending_appends import LeadershipLost
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.kraft_brokers import KraftBrokersNoted
from migrator.node.zookeeper.presence import Shown
from migrator.zk.session import ZkSession

log = structlog.get_logger()

CLAIM_LOOK_S: Final = 0.05
"""Our own writes wake the watch on /migration; looks closer together than this are joined."""


class ClaimWatch:
    """Watches the claim of one driver, on its loop. voters: ids of this quorum."""

    def __init__(
        self,
        now: DriverView,
        progress: ActReporter,
        controller: ActiveController,
        session: ZkSession,
        voters: Collection[int],
        events: EventQueue,
        *,
        on_outage: Callable[[], None],
        shown: Shown,
        noted: KraftBrokersNoted,
    ) -> None:
        """shown: the znode by which others see that this process leads.
        noted: the znode that names brokers in KRaft mode.
        on_outage: called before each pause of `observed`; what is committed until ZooKeeper answers is read again.
        """
        self._now = now
        self._progress = progress
        self._controller = controller
        self._session = session
        self._voters = voters
        self._events = events
        self._on_outage = on_outage
        self._shown = shown
        self._noted = noted
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._again_s = AGAIN_S

    # --- for the act that runs -----------------------------------------------------------------------------

    async def observed(self) -> ClaimObservation:
        """The claim as it stands, as soon as ZooKeeper answers."""
        while True:
            try:
                return await asyncio.to_thread(self._read_claim_of_now)
            except FindingError as error:
                self._progress.waiting(f"ZooKeeper has to answer before the claim is known: {error}")
                self._progress.trouble(error.occurrence)
                self._on_outage()
                await asyncio.sleep(LOOK_S)

    def _read_claim_of_now(self) -> ClaimObservation:
        """After `sync`: a server that lags behind would say that what it does not know yet never happened."""
        self._session.sync()
        return read_claim(self._session)

    # --- in the background ---------------------------------------------------------------------------------

    def look(self) -> None:
        """Look soon whether the claim is still ours."""
        if self._timer is None and self._now.claim is not None:
            self._timer = self._loop.call_later(CLAIM_LOOK_S, self._begin_look)

    def fired(self) -> None:
        """The same from any thread: a watch fired, or ZooKeeper is connected again."""
        self._loop.call_soon_threadsafe(self.look)

    def _begin_look(self) -> None:
        self._looking = self._loop.create_task(self._look(), name="claim-look")
        self._looking.add_done_callback(self._events.watch_task)

    async def _look(self) -> None:
        """What is read there, the next leader reads too. Once the log is the truth a look that fails is one that has to
        be made again: no write leaves without the claim meanwhile, since each names the version of `/migration`.
        """
        self._timer = None
        try:
            await self._check()
        except Exception as fault:
            if self._now.state not in LOG_IS_TRUTH or self._now.fresh_copy:
                raise
            log.exception("claim.observation_failed")
            self._progress.alarm(alarm_name("the look at the claim"), unexpected("the look at the claim", fault))
            self._timer = self._loop.call_later(self._again_s, self._begin_look)
            self._again_s = min(2 * self._again_s, AGAIN_MAX_S)
        else:
            self._progress.alarm(alarm_name("the look at the claim"), None)
            self._again_s = AGAIN_S

    async def _check(self) -> None:
        claim = self._now.claim
        if claim is None:
            return
        try:
            observed = await asyncio.to_thread(self._look_twice, claim)
        except FindingError as error:
            log.info("claim.not_seen", reason=str(error))
            return  # the session reports when it is connected again
        now = self._now.claim
        if now is None or now.kraft_epoch != claim.kraft_epoch:
            return  # what was seen says nothing about a later leadership
        if not still_ours(observed, now):
            self.touched(observed)
        elif self._controller.image.migration is MigrationState.MIGRATION:
            await self._mark(Mark.MIGRATION, str(observed.migration_born))
            await self._mark(Mark.CLAIM, ClaimedBefore(now.zk_epoch, now.epoch_version).text())
            with suppress(FindingError):  # the session reports when it is connected again
                await asyncio.to_thread(self._shown.show, now.kraft_epoch)
                in_kraft_mode = [each.id for each in self._controller.image.brokers.values() if not each.migrating]
                await asyncio.to_thread(self._noted.note, in_kraft_mode)

    def _look_twice(self, claim: Claim) -> ClaimObservation:
        """On a thread. The znodes are read one by one: a claim that came in between is seen whole by a second look."""
        observed = read_claim(self._session, self.fired)
        if not still_ours(observed, claim):
            self._session.sync()
            observed = read_claim(self._session, self.fired)
        return observed

    async def _mark(self, mark: Mark, text: str) -> None:
        """Note by which `/migration` this log is in migration, and its newest claim; never one that was deleted."""

        def is_due(image: Image) -> bool:
            return image.marks.get(mark) != text and writes_allowed(self._now.state)

        if is_due(self._controller.newest):
            with suppress(LeadershipLost):  # then the next leader looks
                await self._controller.mark(mark, text, is_due)

    # --- it changed ----------------------------------------------------------------------------------------

    def touched(self, observed: ClaimObservation) -> Happened:
        """Report what a change means, as an interrupt, and to the act that noticed it."""
        now = self._now
        means = touched(
            observed,
            now.claim,
            self._voters,
            self._controller.epoch or 0,
            may_abort=now.may_abort,
            fresh_copy=now.fresh_copy,
            brokers=brokers_of(self._controller.image),
        )
        if means.finding is None:
            log.warning("claim.succeeded", by=observed.controller.brokerid if observed.controller else -1)
            self._controller.resign()
        elif means.happened is Happened.CLAIM_LOST:
            self._progress.alarm(CLAIM_CHANGED.code, means.finding)
        else:
            log.error("claim.touched", found=means.holder, controller_epoch=observed.epoch, expected=means.expected)
            self._progress.changed(Concluded(means.finding))
        if means.happened is Happened.WINDOW_FAILED:
            self._progress.changed(WindowAbandoned())  # at once: the append may be the next step of the act
        self._events.interrupt(means.happened)
        return means.happened
