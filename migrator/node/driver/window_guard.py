"""What ends the window by itself: too much time, a broker that is gone, a broker that is silent.

In:   `watch`, once the cluster is without its controller.
Out:  one call of `fail` at most, and only before the append.
Elsewhere: what counts as trouble (driver.window), what is done in the window (claiming.py, copying.py), the abort that
follows (rollback.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from migrator.driver.window import window_trouble
from migrator.findings.driver import BROKER_LOST_IN_WINDOW
from migrator.findings.finding import Occurrence
from migrator.node.background import unexpected
from migrator.node.driver.act import HasParts
from migrator.zk import paths
from migrator.zk.session import ZkSession

log = structlog.get_logger()

LOOK_S: Final = 0.1


def live_brokers(session: ZkSession) -> set[int]:
    """Ids in `/brokers/ids`. Blocks."""
    return {int(name) for name in session.children(paths.BROKER_IDS) or [] if name.isdecimal()}


@dataclass(kw_only=True)
class WindowGuard(HasParts):
    """Guards each takeover of one driver. fail: ends the window, with the reason and the finding."""

    fail: Callable[[str, Occurrence], None]
    _task: asyncio.Task[None] | None = field(default=None, init=False)

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
            if self.now.may_abort:
                found = unexpected("the guard of the window", fault)
                self.fail(found.text, found)

    async def _watch(self) -> None:
        before: set[int] | None = None
        look: asyncio.Task[set[int]] | None = None
        try:
            while self.now.window is not None and self.now.may_abort:
                found = self._trouble()
                if look is not None and look.done():  # a look may hang with ZooKeeper; the clock does not wait for it
                    live = before if look.exception() is not None else look.result()
                    gone = sorted((before or set()) - (live or set()))
                    before, look = before or live, None
                    if gone and found is None:
                        found = BROKER_LOST_IN_WINDOW.found(broker=gone[0], what=f"left {paths.BROKER_IDS}")
                if found is not None and self.now.may_abort:
                    self.fail(found.text, found)
                    return
                if look is None:
                    look = asyncio.create_task(asyncio.to_thread(live_brokers, self.session), name="live-brokers")
                await asyncio.sleep(LOOK_S)
        finally:
            if look is not None:
                look.cancel()
                await asyncio.gather(look, return_exceptions=True)

    def _trouble(self) -> Occurrence | None:
        return window_trouble(
            self.now.window,
            self.now_ms(),
            self.controller.image.brokers,
            self.controller.heartbeat_ages_ms(),
            self.config.broker_heartbeat_interval_ms,
        )
