"""What happens to a driver from outside while an act runs: interrupts in their order, faults, and wake-ups.

In:   what the quorum, a person, a watch or a task in the background reports.
Out:  `get`, which the driver's loop waits for; `changed`, which an act waits for whose look costs nothing; `called`,
which one waits for whose look reads ZooKeeper or asks brokers.
Elsewhere: what it leads to (driver.machine, driver_node.py).
"""

from __future__ import annotations

import asyncio
from typing import Final

from migrator.driver.machine import Happened

LOOK_S: Final = 0.5
"""Longest pause between two observations of something that no event announces."""


class EventQueue:
    """The events of one driver, on its loop."""

    def __init__(self) -> None:
        self._interrupts: asyncio.Queue[Happened | BaseException] = asyncio.Queue()
        self._changed = asyncio.Event()
        self._called = asyncio.Event()

    def interrupt(self, happened: Happened) -> None:
        self._interrupts.put_nowait(happened)

    def watch_task(self, task: asyncio.Task[None]) -> None:
        """An unexpected fault in the background ends the driver's loop, and with it the process; it is not only
        logged (K-24).
        """
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._interrupts.put_nowait(error)

    async def get(self) -> Happened | BaseException:
        """The next interrupt, or the fault of a watched task."""
        return await self._interrupts.get()

    def wake(self) -> None:
        """Something worth looking at happened; each commit is, and there is one every half second."""
        self._changed.set()

    def call(self) -> None:
        """An operation was requested, or a broker came or went: nobody may be kept waiting for it."""
        self._changed.set()
        self._called.set()

    async def changed(self, timeout_s: float) -> None:
        """Wait until something worth looking at happened, at most so long."""
        self._changed.clear()
        await _set(self._changed, timeout_s)

    async def called(self, timeout_s: float) -> bool:
        """Wait until the act was called, at most so long; whether it was. One from before it waits counts."""
        called = await _set(self._called, timeout_s)
        self._called.clear()
        return called


async def _set(event: asyncio.Event, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            return await event.wait()
    except TimeoutError:
        return False
