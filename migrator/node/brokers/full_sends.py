"""Full sends after the first one: each broker is asked what it has, and the guard compares that with the bytes.

In:   the brokers that wait for a full send: newcomers, those that refused a request, after a fail-over all of them.
Out:  guarded updates for one or more brokers at once; why a broker still waits, and since when.
Elsewhere: who waits and for what (driver.broker_updates), what is dangerous (driver.guard), queues and answers
(driver.propagator).
Rules: brokers wait for themselves only; a silent one delays no other. What changes while a full send is encoded is kept
here and leaves behind it. A full send that was not compared with a survey of the broker's present life never leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from migrator.controller.removals import Removals
from migrator.driver.broker_updates import BrokerUpdates, FullSendPlan
from migrator.driver.guard import Guarded, Survey, guard
from migrator.driver.update_requests import BrokerUpdate
from migrator.findings.driver import FULL_UPDATE_NOT_BUILT, SURVEY_FAILED
from migrator.findings.finding import Occurrence, words_of
from migrator.node.background import Alarm, kept
from migrator.node.on_thread import on_thread

log = structlog.get_logger()

GATHER_S: Final = 0.2
"""How long brokers that answered wait for others that are being asked: they share most of the bytes."""
AGAIN_S: Final = 0.5
AGAIN_MAX_S: Final = 10.0
"""Pause before a broker is asked again: doubled each time, up to the longest."""

HELD_BACK: Final = "ZooKeeper does not have yet what was committed before this broker registered"
ASKED: Final = "the broker is being asked which logs it has"
ENCODING: Final = "its full update is being encoded"

SILENT_AFTER_MS: Final = 1_000
"""A broker that was not heard of for so long is named, and no state waits for it any more."""

Ask = Callable[[int], Awaitable[tuple[dict[int, Survey], dict[int, str]]]]


@dataclass(slots=True)
class PendingFullSend:
    """One broker, in one of its lives, that waits for a full send. since_ms: on the clock of `now_ms`."""

    epoch: int
    since_ms: int
    reason: str = ASKED
    finding: Occurrence | None = None
    survey: Survey | None = None
    asking: asyncio.Task[None] | None = None
    again: asyncio.TimerHandle | None = None
    tries: int = 0

    def stop(self) -> None:
        if self.asking is not None:
            self.asking.cancel()
        if self.again is not None:
            self.again.cancel()
            self.again = None


class FullSends:
    """The later full sends of one propagator; it works from `begin` to `stop`."""

    def __init__(
        self,
        ask: Ask,
        removals: Callable[[], Removals],
        *,
        queue: Callable[[Iterable[BrokerUpdate]], None],
        full_updates: Callable[[list[BrokerUpdate]], list[BrokerUpdate]],
        alarm: Alarm,
        on_change: Callable[[], None],
        now_ms: Callable[[], int],
    ) -> None:
        """full_updates: spoils them, in tests.

        on_change: called when a full send left for a broker, or the broker waits for another reason.
        """
        self._ask = ask
        self._removals = removals
        self._queue = queue
        self._full_updates = full_updates
        self._alarm = alarm
        self._on_change = on_change
        self._now_ms = now_ms
        self._waits: dict[int, PendingFullSend] = {}
        self._kept: dict[int, list[BrokerUpdate]] = {}
        """By broker whose full send is being encoded: what leaves behind it."""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, broker_updates: BrokerUpdates) -> None:
        if self._task is not None:
            self._task.cancel()  # of broker updates that met a fault
        running = kept("full-sends", lambda: self._run(broker_updates), self._alarm)
        self._task = asyncio.get_running_loop().create_task(running, name="full-sends")

    async def stop(self) -> None:
        task, self._task = self._task, None
        for wait in self._waits.values():
            wait.stop()
        self._waits.clear()
        self._kept.clear()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def look(self) -> None:
        """Who waits, or for what, may have changed."""
        self._wake.set()

    def waits(self) -> Mapping[int, PendingFullSend]:
        """Brokers that wait for a full send, and why."""
        return self._waits

    def underway(self, broker_updates: BrokerUpdates) -> list[int]:
        """Brokers to which the full send is about to leave: those that are silent, or refused, are not among them."""
        new = set(broker_updates.waiting()) - set(self._waits)
        return sorted(new | {broker for broker, wait in self._waits.items() if self._is_underway(wait)})

    def _is_underway(self, wait: PendingFullSend) -> bool:
        is_ours = wait.survey is not None  # what is left is encoding
        return is_ours or (wait.finding is None and self._now_ms() - wait.since_ms < SILENT_AFTER_MS)

    def keep(self, update: BrokerUpdate) -> bool:
        """Whether the order has to leave behind a full send that is still being encoded; then it is kept."""
        kept = self._kept.get(update.broker)
        if kept is None:
            return False
        kept.append(update)
        return True

    # --- the loop ------------------------------------------------------------------------------------------

    async def _run(self, broker_updates: BrokerUpdates) -> None:
        loop = asyncio.get_running_loop()
        gathered_at: float | None = None
        while True:
            self._wake.clear()
            self._follow(broker_updates)
            ready = self._ready(broker_updates)
            if not ready:
                gathered_at = None
                await self._wake.wait()
                continue
            gathered_at = gathered_at or loop.time() + GATHER_S
            # Each send encodes the whole image: brokers that answer shortly one after the other share one.
            if self._is_asking() and loop.time() < gathered_at:
                await self._woken(gathered_at - loop.time())
                continue
            gathered_at = None
            await self._send(broker_updates, ready)

    async def _woken(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _follow(self, broker_updates: BrokerUpdates) -> None:
        """Forget brokers that do not wait any more, ask those that may get their full send."""
        waiting, admissible = broker_updates.waiting(), broker_updates.admissible()
        for broker, wait in list(self._waits.items()):
            if waiting.get(broker) != wait.epoch:
                wait.stop()
                del self._waits[broker]
        for broker, epoch in waiting.items():
            wait = self._waits.setdefault(broker, PendingFullSend(epoch, self._now_ms()))
            if broker not in admissible:
                wait.reason = HELD_BACK
            elif wait.survey is None and wait.asking is None and wait.again is None:
                self._begin_asking(broker, wait)

    def _ready(self, broker_updates: BrokerUpdates) -> dict[int, PendingFullSend]:
        admissible = broker_updates.admissible()
        return {
            broker: wait
            for broker, wait in self._waits.items()
            if wait.survey is not None and admissible.get(broker) == wait.epoch
        }

    def _is_asking(self) -> bool:
        return any(wait.asking is not None for wait in self._waits.values())

    # --- asking --------------------------------------------------------------------------------------------

    def _begin_asking(self, broker: int, wait: PendingFullSend) -> None:
        if not wait.tries:
            wait.reason = ASKED
        name = f"survey-{broker}"
        asking = kept(name, lambda: self._ask_one(broker, wait), self._alarm)
        wait.asking = asyncio.get_running_loop().create_task(asking, name=name)

    async def _ask_one(self, broker: int, wait: PendingFullSend) -> None:
        try:
            surveys, failed = await self._ask(broker)
        except Exception as error:  # whatever a broker says or is called: it concerns this broker alone
            log.exception("broker.survey_failed", broker=broker)
            surveys, failed = {}, {broker: words_of(error)}
        wait.asking = None
        if broker in surveys:
            wait.survey = surveys[broker]
        else:
            self._refuse(broker, wait, SURVEY_FAILED.found(broker=broker, reason=failed.get(broker, "no answer")))
        self._wake.set()

    def _refuse(self, broker: int, wait: PendingFullSend, finding: Occurrence) -> None:
        """Not now: name it, and ask the broker again after a pause."""
        if wait.finding is None or wait.finding.text != finding.text:
            log.warning("broker.not_updated", broker=broker, code=finding.code, reason=finding.text)
        wait.finding, wait.reason, wait.survey = finding, finding.text, None
        wait.again = asyncio.get_running_loop().call_later(
            min(AGAIN_S * 2.0**wait.tries, AGAIN_MAX_S), self._ask_again, wait
        )
        wait.tries += 1
        self._on_change()

    def _ask_again(self, wait: PendingFullSend) -> None:
        wait.again = None
        self._wake.set()

    # --- sending -------------------------------------------------------------------------------------------

    async def _send(self, broker_updates: BrokerUpdates, ready: dict[int, PendingFullSend]) -> None:
        """One full send to all of them: encoded and compared on a thread."""
        try:
            self._leave(broker_updates, ready, await self._compared(broker_updates, ready))
        except Exception as error:  # the next leader would meet it too: it concerns whom it is about, and ends nothing
            self._kept = {}
            await self._not_built(broker_updates, ready, error)

    def _leave(self, broker_updates: BrokerUpdates, ready: dict[int, PendingFullSend], guarded: Guarded) -> None:
        """What the guard lets pass, to those that still live the same life; behind it what was kept."""
        behind, self._kept = self._kept, {}
        audience = broker_updates.audience()
        alive = {broker: wait for broker, wait in ready.items() if audience.get(broker) == wait.epoch}
        for broker, wait in alive.items():
            findings = guarded.against(broker)
            if findings:
                broker_updates.withhold(broker, wait.epoch)
                self._refuse(broker, wait, findings[0])
                del behind[broker]
            else:
                del self._waits[broker]
        self._queue(update for update in guarded.leaving() if update.broker in alive)
        self._queue(update for broker in alive for update in behind.get(broker, ()))
        self._on_change()

    async def _compared(self, broker_updates: BrokerUpdates, ready: dict[int, PendingFullSend]) -> Guarded:
        plan = broker_updates.welcome(ready)
        self._kept = {broker: [] for broker in ready}
        for wait in ready.values():
            wait.reason = ENCODING
        surveys = {broker: wait.survey for broker, wait in ready.items() if wait.survey is not None}
        return await on_thread(self._guarded, plan, surveys)

    async def _not_built(
        self, broker_updates: BrokerUpdates, ready: dict[int, PendingFullSend], error: Exception
    ) -> None:
        """Each of several brokers is tried alone; one alone is named, and asked again after a pause."""
        log.error("full_send.not_built", brokers=sorted(ready), exc_info=error)
        for broker, wait in ready.items():
            broker_updates.withhold(broker, wait.epoch)
            self._waits[broker] = wait
        for broker, wait in ready.items():
            if len(ready) > 1:
                await self._send(broker_updates, {broker: wait})
            else:
                reason = words_of(error)
                self._refuse(broker, wait, FULL_UPDATE_NOT_BUILT.found(broker=broker, reason=reason))

    def _guarded(self, plan: FullSendPlan, surveys: Mapping[int, Survey]) -> Guarded:
        gone = self._removals()
        updates = self._full_updates(plan.updates())
        return guard(updates, surveys, gone.topics, gone.replicas, after_fail_over=True)
