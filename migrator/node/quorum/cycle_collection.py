"""Cycle collection with bounded pauses: what lived through one long full collection is not looked at by the next.

In:   `bound_pauses`, once in a process.
Out:  nothing; the event loop is not held up by the collector as the cluster grows.
Elsewhere: the window, in which nothing is collected at all (quiet_time.py).
Why: a full collection looks at every container of the process: 0.25 s at 300,000 partitions, again and again while
they change, of the leader and of every follower. Images are trees, which reference counts free, frozen or not.
The price: a cycle that was frozen and became garbage later (a closed connection, say) is kept until the next thaw.
Source: Python's `gc.freeze`, `gc.callbacks`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

FULL: Final = 2
LONG_S: Final = 0.02
"""A collection that is shorter holds nobody up, and nothing is frozen in a process whose collections are short."""
THAW_AFTER_S: Final = 86_400.0
"""So often everything is looked at again, in one long collection."""


class BoundedPauses:
    """A callback of the collector: `long_s` and `thaw_after_s` in seconds, as `clock` counts."""

    def __init__(
        self,
        long_s: float = LONG_S,
        thaw_after_s: float = THAW_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._long_s = long_s
        self._thaw_after_s = thaw_after_s
        self._clock = clock
        self._began = self._thawed = clock()

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        if info["generation"] != FULL:
            return
        now = self._clock()
        if phase == "start":
            self._began = now
            if now - self._thawed >= self._thaw_after_s:
                self._thawed = now
                gc.unfreeze()
        elif now - self._began > self._long_s:
            gc.freeze()


def bound_pauses() -> None:
    """Bound the collector's pauses for as long as this process lives.

    The collector calls from whichever thread it runs in, one at a time.
    """
    gc.callbacks.append(BoundedPauses())
