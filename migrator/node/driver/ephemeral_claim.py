"""An ephemeral claim ends with the session: when the window is over, a node that does not lead ends the session.

In:   the window, from before the claim is sent until it is persisted, refused or deleted.
Out:  the session with ZooKeeper ended and begun anew, at most once for a window.
Elsewhere: while this node leads, the window is ended by window_guard.py, and the claim is deleted by rollback.py.
A node loses its leadership when it cannot reach a majority. Then no node of its quorum can delete the claim, and no
broker can be controller while the session lives. A successor may go on with the claim until then. Ending the session is
right in every case: a claim that a successor persisted does not end with it, and writes that are still on their way
come from a session that is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from migrator.control_api.states import State
from migrator.driver.machine import TimeWithoutController
from migrator.findings.finding import FindingError
from migrator.node.driver.act import ActReporter, DriverView

log = structlog.get_logger()

LOOK_S: Final = 0.1
AGAIN_S: Final = 1.0
NOT_LEADING: Final = frozenset({State.IDLE, State.FENCED})


class EphemeralClaim:
    """Ends the session of an ephemeral claim in time, on the loop of one driver.

    renew: ends the session and begins another; blocks.
    """

    def __init__(
        self,
        now: DriverView,
        progress: ActReporter,
        now_ms: Callable[[], int],
        renew: Callable[[], None],
        watch_task: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self._now = now
        self._progress = progress
        self._now_ms = now_ms
        self._renew = renew
        self._watch_task = watch_task
        self._task: asyncio.Task[None] | None = None

    def begin(self, window: TimeWithoutController) -> None:
        """A claim of this node may stand from now on."""
        self.end()
        self._task = asyncio.create_task(self._watch(window), name="ephemeral-claim")
        self._task.add_done_callback(self._watch_task)

    def end(self) -> None:
        """It was persisted, refused or deleted."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self, window: TimeWithoutController) -> None:
        while self._now.state not in NOT_LEADING or not window.overdue(self._now_ms()):
            await asyncio.sleep(LOOK_S)
        log.error("claim.let_go", limit_ms=window.limit_ms, state=self._now.state.value)
        self._progress.waiting(
            "leadership was lost inside the window; the claim was let go, so that a broker takes over"
        )
        while True:
            try:
                await asyncio.to_thread(self._renew)
                return
            except FindingError as error:
                log.warning("claim.not_let_go", reason=str(error))
                await asyncio.sleep(AGAIN_S)
