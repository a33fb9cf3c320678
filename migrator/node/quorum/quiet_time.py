"""Calm: while the cluster has no controller, this process does nothing that may as well come later.

In:   `begin` at the claim, `end` when dual-write is entered or the window is given up.
Out:  meanwhile no cycle collection, and no snapshot of the log (`over` is what those who write one wait for).
Elsewhere: which states are inside the window (driver.machine).
With a million partitions the collector goes again and again through values that all stay: a fifth of the window. What
lived through it is never looked at again; reference counts free it all the same.
"""

from __future__ import annotations

import asyncio
import gc
from typing import Final

LONGEST_S: Final = 60.0
"""A window that stays open, as with a broker that never answers, must not keep snapshots waiting for ever."""


class QuietTime:
    """The quiet time of one process, on its loop. `begin` and `end` may be called again and again."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        self._longest_s = longest_s
        self._over = asyncio.Event()
        self._over.set()
        self._limit: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        if self._limit is None:
            gc.disable()
            self._over.clear()
            self._limit = asyncio.get_running_loop().call_later(self._longest_s, self._end_early)

    def end(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
            self._end_early()

    def _end_early(self) -> None:
        """The limit stays set, so that only `end` makes the next calm possible."""
        if not self._over.is_set():
            self._over.set()
            gc.freeze()
            gc.enable()

    async def over(self) -> None:
        await self._over.wait()
