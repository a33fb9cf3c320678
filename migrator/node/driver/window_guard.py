"""Who ends the window by itself: too long, a broker gone, a broker silent.

In:   a `DriverNode`; `watch` once the cluster is without its controller.
Out:  `DriverNode.fail_window`, at most once, and only before the append.
Elsewhere: what is done in the window (claiming.py, copying.py), how its end is brought about (rollback.py).
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from migrator.findings.driver import BROKER_LOST_IN_WINDOW, WINDOW_OVERDUE
from migrator.findings.finding import Occurrence
from migrator.node.background import unexpected
from migrator.node.driver.driver_node import DriverNode
from migrator.zk import paths
from migrator.zk.session import ZkSession

log = structlog.get_logger()

LOOK_S: Final = 0.1
MISSED_HEARTBEATS: Final = 2


def live_brokers(session: ZkSession) -> set[int]:
    """Ids in `/brokers/ids`. Blocks."""
    return {int(name) for name in session.children(paths.BROKER_IDS) or [] if name.isdecimal()}


class WindowGuard:
    """Of one driver, for each of its takeovers."""

    def __init__(self, driver: DriverNode) -> None:
        self.d = driver
        self._task: asyncio.Task[None] | None = None

    def watch(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._guarded(), name="window-guard")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _guarded(self) -> None:
        """Without its guard no window goes on."""
        try:
            await self._watch()
        except Exception as fault:
            log.exception("window.not_guarded")
            if self.d.now.may_abort:
                found = unexpected("the guard of the window", fault)
                self.d.fail_window(found.text, found)

    async def _watch(self) -> None:
        d = self.d
        before: set[int] | None = None
        look: asyncio.Task[set[int]] | None = None
        try:
            while d.now.window is not None and d.now.may_abort:
                found = self._trouble()
                if look is not None and look.done():  # a look may hang with ZooKeeper; the clock does not wait for it
                    live = before if look.exception() is not None else look.result()
                    gone = sorted((before or set()) - (live or set()))
                    before, look = before or live, None
                    if gone and found is None:
                        found = BROKER_LOST_IN_WINDOW.found(broker=gone[0], what=f"left {paths.BROKER_IDS}")
                if found is not None and d.now.may_abort:
                    d.fail_window(found.text, found)
                    return
                if look is None:
                    look = asyncio.create_task(asyncio.to_thread(live_brokers, d.session), name="live-brokers")
                await asyncio.sleep(LOOK_S)
        finally:
            if look is not None:
                look.cancel()
                await asyncio.gather(look, return_exceptions=True)

    def _trouble(self) -> Occurrence | None:
        d = self.d
        window = d.now.window
        if window is not None and window.overdue(d.now_ms()):
            return WINDOW_OVERDUE.found(limit_ms=window.limit_ms)
        interval_ms = d.config.broker_heartbeat_interval_ms
        silent_ms = MISSED_HEARTBEATS * interval_ms + interval_ms // 2
        for broker, age in d.controller.heartbeat_ages_ms().items():
            known = d.controller.image.brokers.get(broker)
            if known is not None and not known.fenced and age > silent_ms:
                return BROKER_LOST_IN_WINDOW.found(broker=broker, what=f"sent no heartbeat for {age} ms")
        return None
