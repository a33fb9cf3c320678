"""The time without a controller: what ends it, and when a committed copy has to be rolled back because of it.

In:   the window, the clock, the brokers and the age of their heartbeats, the trouble that was met.
Out:  a finding, or None while the window may go on.
Elsewhere: who observes this (node.driver.window_guard and the acts), what follows (machine.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from migrator.driver.machine import Happened, TimeWithoutController
from migrator.findings.driver import BROKER_LOST_IN_WINDOW, UPDATED_TOO_LATE, WINDOW_OVERDUE
from migrator.findings.finding import Occurrence
from migrator.model.values import Broker

MISSED_HEARTBEATS: Final = 2

TAKEOVER_MAX_MS: Final = 60_000
"""No window without a controller may be configured longer than this."""


def window_trouble(
    window: TimeWithoutController | None,
    now_ms: int,
    brokers: Mapping[int, Broker],
    heartbeat_ages_ms: Mapping[int, int],
    heartbeat_interval_ms: int,
) -> Occurrence | None:
    """Why the takeover has to end before the append; None while nothing is wrong."""
    if window is not None and window.overdue(now_ms):
        return WINDOW_OVERDUE.found(limit_ms=window.limit_ms)
    silent_ms = MISSED_HEARTBEATS * heartbeat_interval_ms + heartbeat_interval_ms // 2
    for broker, age in heartbeat_ages_ms.items():
        known = brokers.get(broker)
        if known is not None and not known.fenced and age > silent_ms:
            return BROKER_LOST_IN_WINDOW.found(broker=broker, what=f"sent no heartbeat for {age} ms")
    return None


def too_late(
    window: TimeWithoutController | None, now_ms: int, trouble: Occurrence | None, *, fresh_copy: bool
) -> Occurrence | None:
    """Why a committed copy has to be rolled back before the first broker update; None while there is time.

    fresh_copy: the copy is appended, and no broker has an update that was made from it.
    """
    if not fresh_copy or window is None or not window.overdue(now_ms):
        return None
    reason = "no trouble was met; it only took long" if trouble is None else f"{trouble.code} {trouble.text}"
    return UPDATED_TOO_LATE.found(limit_ms=window.limit_ms, reason=reason)


def is_late(happened: Happened, *, fresh_copy: bool) -> bool:
    """Whether this reports the end of a window whose copy is appended already."""
    return happened is Happened.WINDOW_FAILED and fresh_copy
