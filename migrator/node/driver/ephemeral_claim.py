"""A claim that nobody settled ends with our session: when the window is over, a node that does not lead ends it.

In:   the window, from before the claim is sent until it is settled, refused or given back.
Out:  the session with ZooKeeper ended and begun anew, at most once for a window.
Elsewhere: while this node leads, the window is ended by window_guard.py and given back by rollback.py.
A node loses its leadership when it cannot reach a majority. Then nobody of its quorum can give the claim back, and
while its session lives no broker can be controller. A successor may go on with the claim until then. Ending the session
is right in every case: what a successor settled does not end with it, and what is still on its way comes from a session
that is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from migrator.control_api.states import State
from migrator.driver.machine import Window
from migrator.findings.finding import FindingError
from migrator.node.driver.driver_state import DriverState

log = structlog.get_logger()

LOOK_S: Final = 0.1
AGAIN_S: Final = 1.0
NOT_LEADING: Final = frozenset({State.IDLE, State.FENCED})


class EphemeralClaim:
    """Of one driver, on its loop. renew: ends the session and begins another; blocks."""

    def __init__(
        self,
        now: DriverState,
        now_ms: Callable[[], int],
        renew: Callable[[], None],
        watch_task: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self._now = now
        self._now_ms = now_ms
        self._renew = renew
        self._watch_task = watch_task
        self._task: asyncio.Task[None] | None = None

    def begin(self, window: Window) -> None:
        """A claim of ours may stand from now on."""
        self.end()
        self._task = asyncio.create_task(self._watch(window), name="ephemeral-claim")
        self._task.add_done_callback(self._watch_task)

    def end(self) -> None:
        """It was settled, refused or given back."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self, window: Window) -> None:
        while self._now.state not in NOT_LEADING or not window.overdue(self._now_ms()):
            await asyncio.sleep(LOOK_S)
        log.error("claim.let_go", limit_ms=window.limit_ms, state=self._now.state.value)
        self._now.wait_because("leadership was lost inside the window; the claim was let go, so that a broker can rule")
        while True:
            try:
                await asyncio.to_thread(self._renew)
                return
            except FindingError as error:
                log.warning("claim.not_let_go", reason=str(error))
                await asyncio.sleep(AGAIN_S)
