"""Work beside the acts, begun again after a fault that nobody thought of: it ends that work alone, and no process.

In:   a name, and what makes the work anew.
Out:  the work, until it returns; while it fails, an alarm under its name and pauses that become longer.
Elsewhere: faults of acts (driver_node.py), of what is done by the clock (periodic_tasks.py), of writes to the log and
of a claim that is not settled: these end what they end (raft_node.py, ephemeral_claim.py).
Rules: the next leader reads the same input. What ends this process for it ends all of them, one after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from migrator.findings.driver import UNEXPECTED
from migrator.findings.finding import Occurrence

log = structlog.get_logger()

Alarm = Callable[[str, Occurrence | None], None]

AGAIN_S: Final = 1.0
AGAIN_MAX_S: Final = 30.0
"""Pause before the work is begun again: doubled with each fault."""
CALM_S: Final = 60.0
"""After so long without a fault it counts as cured."""


def unexpected(where: str, error: Exception) -> Occurrence:
    return UNEXPECTED.found(where=where, reason=f"{type(error).__name__}: {error}")


def alarm_name(work: str) -> str:
    return f"fault of {work}"


async def kept(name: str, work: Callable[[], Awaitable[None]], alarm: Alarm) -> None:
    """Do the work until it returns. alarm: told of each fault, and with None once it is over."""
    pause_s = AGAIN_S
    while True:
        began = time.monotonic()
        calm = asyncio.get_running_loop().call_later(CALM_S, alarm, alarm_name(name), None)
        try:
            await work()
            alarm(alarm_name(name), None)
            return
        except Exception as fault:
            log.exception("background.fault", work=name)
            alarm(alarm_name(name), unexpected(name, fault))
        finally:
            calm.cancel()
        if time.monotonic() - began >= CALM_S:
            pause_s = AGAIN_S
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, AGAIN_MAX_S)


async def attempted(name: str, work: Callable[[], Awaitable[None]], alarm: Alarm) -> None:
    """Do the work once; its caller comes again. A fault is an alarm until an attempt passes."""
    try:
        await work()
    except Exception as fault:
        log.exception("background.fault", work=name)
        alarm(alarm_name(name), unexpected(name, fault))
    else:
        alarm(alarm_name(name), None)
