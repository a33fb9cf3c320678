"""The operations that an operator requested from the driver, and for how long they count.

In:   a request at the control port, and the driver's state at that moment.
Out:  whether it is accepted; what still stands, for the act that carries it out and for the status.
Rules: an operation that cannot be accepted is refused at once, so that no operator waits for it. The operation for a
takeover expires when the gate stays closed: otherwise it would be carried out long after it was meant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from migrator.control_api.operations import KEPT_IN, TAKEOVER_KEPT_S, DriverOperation
from migrator.control_api.states import State
from migrator.driver.machine import in_window
from migrator.node.driver.act import DriverView

log = structlog.get_logger()

GOING_BACK: Final = frozenset({State.ROLLING_BACK, State.ROLLING_BACK_EARLY, State.RETIRED})

TAKEOVER_KEPT_MS: Final = round(1000 * TAKEOVER_KEPT_S)


class DriverOperations:
    """The operations that one driver keeps, on its loop."""

    def __init__(self, now: DriverView, now_ms: Callable[[], int]) -> None:
        self._now = now
        self._now_ms = now_ms
        self._takeover_ends_ms: int | None = None
        self._rollback = False

    # --- requested -----------------------------------------------------------------------------------------

    def request_takeover(self) -> bool:
        """Whether it is accepted. Requested again while it runs or is done, this is true and changes nothing."""
        if self._now.state in KEPT_IN[DriverOperation.TAKE_OVER]:
            self._takeover_ends_ms = self._now_ms() + TAKEOVER_KEPT_MS
            return True
        return in_window(self._now.state) or self._now.state is State.DUAL_WRITE

    def cancel_takeover(self) -> bool:
        """Whether there was one that had not begun."""
        stood = self.takeover
        self._takeover_ends_ms = None
        return stood

    def request_rollback(self) -> bool:
        """Whether it is accepted. Requested again while it runs or is done, this is true and changes nothing."""
        self._rollback = self._now.state in KEPT_IN[DriverOperation.ROLL_BACK]
        return self._rollback or self._now.state in GOING_BACK

    def wait_longer(self, ms: int) -> None:
        """Add the time that was spent on the way to it: the export of a large tree takes its time."""
        if self._takeover_ends_ms is not None:
            self._takeover_ends_ms += ms

    # --- carried out, or not -------------------------------------------------------------------------------

    @property
    def takeover(self) -> bool:
        """Whether a takeover is requested and has not expired."""
        ends_ms = self._takeover_ends_ms
        if ends_ms is not None and self._now_ms() >= ends_ms:
            log.warning("takeover.operation_expired", after_ms=TAKEOVER_KEPT_MS, reason=self._now.reason)
            self._takeover_ends_ms = None
        return self._takeover_ends_ms is not None

    @property
    def rollback(self) -> bool:
        return self._rollback

    def begun(self) -> None:
        """What was requested is being done, or has become impossible."""
        self._takeover_ends_ms = None
        self._rollback = False

    def standing(self) -> list[DriverOperation]:
        """What was requested and has not begun."""
        return [DriverOperation.TAKE_OVER] * self.takeover + [DriverOperation.ROLL_BACK] * self._rollback
