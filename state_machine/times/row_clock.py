"""The time of the service's rows: it never goes back, in one life nor from one to the next.

In:   the wall clock, a steady clock, the newest time of the database. Out: seconds since 1970, and how far they are
      ahead of the wall clock.
Elsewhere: who compares them (an approval with its phase, a reading of files with the journal, a backup, an audit).
Why: rows say by their times what came after what. A wall clock that is set back would make each new row older than the
ones before it, and close the road for as long as the step. So the times of rows go on from the newest one, as fast as
the steady clock. A wall clock that is set forward is followed: ages only become longer by that, which closes gates.
Times that belong to others (maintenance windows, waivers, certificates) are of the wall clock itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

AHEAD_WORTH_SAYING_S: Final = 5.0
"""Less than that is the slow correction of a time service."""


class RowClock:
    """May be asked by any thread. newest: of the rows that stand."""

    def __init__(
        self,
        newest: float = 0.0,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._turn = threading.Lock()
        self._wall, self._steady = wall, steady
        self._at, self._was = max(newest, wall()), steady()

    def __call__(self) -> float:
        with self._turn:
            steady = self._steady()
            flowed = self._at + max(steady - self._was, 0.0)
            self._at, self._was = max(flowed, self._wall()), steady
            return self._at

    def ahead_s(self) -> float:
        """By how much rows are ahead of the wall clock, since that was set back. At least 0."""
        return max(self() - self._wall(), 0.0)
