"""The act of the first full update: every broker gets all metadata, compared with what it has.

In:   the claim, and ZooKeeper equal to the log.
Out:  how the act ended; the propagator at work, and the copy shared with brokers.
Elsewhere: what is sent (driver.broker_updates), what it is compared with (driver.guard), channels and retries
(propagator.py), the reconcile before (reconciling.py), dual-write after (dual_write.py).
Nothing is sent to a broker that would destroy what it has. A broker that is silent delays no other broker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass

import structlog

from migrator.driver.broker_updates import BrokerUpdates
from migrator.driver.copy import nobody_is_updated, takeover_mark
from migrator.driver.guard import Guarded, guard
from migrator.driver.machine import Happened
from migrator.driver.update_requests import reachable
from migrator.driver.window import too_late
from migrator.findings.driver import FULL_SEND_INCOMPLETE, SURVEY_FAILED, UPDATED_FIRST
from migrator.model.values import Mark
from migrator.node.brokers.survey import survey_brokers
from migrator.node.driver.act import (
    ActEnded,
    ActReporter,
    BrokersSurveyed,
    Concluded,
    CopyShared,
    Found,
    HasParts,
)
from migrator.node.driver.event_queue import LOOK_S
from migrator.node.driver.mirror_node import Mirroring
from migrator.node.driver.propagator import Propagator

log = structlog.get_logger()

GUARD_TRIES = 3
NOT_UPDATED = (FULL_SEND_INCOMPLETE, SURVEY_FAILED)
"""Why a broker may get no full update."""


@dataclass(kw_only=True)
class UpdateActs(HasParts):
    """The act of one driver, and the update that leaves while ZooKeeper cannot be reconciled."""

    mirroring: Mirroring
    propagator: Propagator

    async def update_brokers(self) -> ActEnded:
        """The full update, compared before it leaves.

        Right after a copy it leaves for all brokers or for none; a broker that is silent is updated once it answers.
        After a fail-over each broker is updated as soon as it has said what it has (full_sends.py).
        """
        started = self.now_ms()
        broker_updates = self.propagator.broker_updates
        if broker_updates is not None:  # begun before ZooKeeper had to be compared again
            return await self._updated(broker_updates, started)
        # A fail-over: brokers may act on this quorum's updates already, so none has to wait for another.
        if not self.now.fresh_copy:
            return await self._updated(await self._begin(), started)
        return await self._first_update(started)

    async def _first_update(self, started: int) -> ActEnded:
        for tries in range(1, GUARD_TRIES + 1):
            silent = await self._survey_missing()
            if self.mirroring.mirror is None:
                return ActEnded(Happened.MIRROR_BROKEN)
            broker_updates = await self._prepare()
            guarded = await asyncio.to_thread(self._guarded, broker_updates, silent)
            findings = guarded.findings
            late = too_late(self.now.window, self.now_ms(), self.now.trouble, fresh_copy=self.now.fresh_copy)
            if not findings:
                if late is not None:
                    return ActEnded(Happened.MUST_ROLL_BACK, (Concluded(late),))
                await self._note_updating()
                self.progress.changed(CopyShared())  # before the first update is queued
                self.propagator.begin(broker_updates, guarded)
                return await self._updated(broker_updates, started)
            log.error("brokers.not_updated", findings=[found.text for found in findings[:5]], tries=tries)
            self.progress.changed(Found(findings[0]))
            self.progress.waiting(findings[0].text)
            if late is not None or tries == GUARD_TRIES:
                break
            self.progress.changed(BrokersSurveyed({}))
            await asyncio.sleep(LOOK_S)
        return ActEnded(Happened.MUST_ROLL_BACK)

    async def update_first(self, why: Exception) -> None:
        """ZooKeeper cannot be brought to what the log says: brokers need their leaders all the same.

        What waits for ZooKeeper waits on. A broker whose update would destroy something waits too (full_sends.py).
        """
        if self.now.fresh_copy or self.now.claim is None or self.propagator.broker_updates is not None:
            return
        await self._begin()
        self.progress.alarm(UPDATED_FIRST.code, UPDATED_FIRST.found(reason=str(why)))

    async def _begin(self) -> BrokerUpdates:
        """Every broker waits for its own full update, and for no other broker's."""
        await self._note_updating()
        broker_updates = await self._prepare()
        everything = broker_updates.everything(withheld=self.controller.image.brokers)
        self.propagator.begin(broker_updates, Guarded(tuple(everything), ()))
        return broker_updates

    async def _note_updating(self) -> None:
        """Before the first update: the next leader may not leave any more as if no broker had heard of this quorum."""
        if nobody_is_updated(self.controller.newest.marks.get(Mark.TAKEOVER)):
            await self.controller.mark(Mark.TAKEOVER, takeover_mark(self.now.epoch, time.time(), updating=True))

    async def _prepare(self) -> BrokerUpdates:
        await self.parts.hooks.before("update")
        self.propagator.forget_commits()
        claim = self.now.claim
        assert claim is not None
        return BrokerUpdates(claim, self.config.inter_broker_listener, self.controller.image)

    async def _survey_missing(self) -> dict[int, str]:
        """Ask brokers that were not asked since they registered; returns who did not answer, and why."""
        brokers = [broker for broker in reachable(self.controller.image) if broker.id not in self.now.surveys]
        node = str(self.config.node_id)
        try:
            async with asyncio.timeout(self._patience_s()):
                surveys, failed = await survey_brokers(
                    brokers, self.config.inter_broker_listener, node, self.parts.to_brokers
                )
        except TimeoutError:
            surveys, failed = {}, {broker.id: "no answer while there was time" for broker in brokers}
        self.progress.changed(BrokersSurveyed({**self.now.surveys, **surveys}))
        return failed

    def _patience_s(self) -> float | None:
        """Half of what is left of the window: a broker that is silent gets its update later, and costs no rollback."""
        window = self.now.window
        return None if window is None else (window.opened_ms + window.limit_ms - self.now_ms()) / 2000

    def _guarded(self, broker_updates: BrokerUpdates, silent: Collection[int]) -> Guarded:
        """On a thread."""
        gone = self.controller.removals
        updates = self.parts.hooks.full_updates(broker_updates.everything(withheld=silent))
        fail_over = not self.now.fresh_copy
        return guard(updates, self.now.surveys, gone.topics, gone.replicas, after_fail_over=fail_over)

    async def _updated(self, broker_updates: BrokerUpdates, started: int) -> ActEnded:
        """The first takeover waits for every answer. Later the update has to be on its way to all that answer."""
        while True:
            if self.mirroring.mirror is None:
                return ActEnded(Happened.MIRROR_BROKEN)
            is_first = Mark.TAKEOVER in self.controller.newest.marks
            waiting = self.propagator.not_updated() if is_first else self.propagator.not_sent()
            name_not_updated(self.propagator, self.progress)
            if not waiting:
                partitions, brokers = self.controller.image.partition_count(), len(broker_updates.audience())
                took_ms = self.now_ms() - started
                log.info("brokers.updated", brokers=brokers, partitions=partitions, took_ms=took_ms)
                return ActEnded(Happened.BROKERS_UPDATED)
            named = [self.now.alarms.get(finding.code) for finding in NOT_UPDATED]
            first = next((each.text for each in named if each is not None), None)
            self.progress.waiting(first or f"brokers {waiting} have not answered the full send yet")
            await self.parts.events.changed(LOOK_S)


def name_not_updated(propagator: Propagator, progress: ActReporter) -> None:
    """Name the brokers that get no full update before an operator looks at them."""
    waits = propagator.full_sends.waits().values()
    named = {wait.finding.code: wait.finding for wait in waits if wait.finding is not None}
    for finding in NOT_UPDATED:
        progress.alarm(finding.code, named.get(finding.code))
    if FULL_SEND_INCOMPLETE.code in named:
        progress.changed(Found(named[FULL_SEND_INCOMPLETE.code]))
