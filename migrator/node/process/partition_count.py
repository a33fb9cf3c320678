"""The figures of partitions for the status, without holding up the loop.

In:   the image of a status that is asked for.
Out:  the newest figures that are ready, with the offset they are of; None before the first ones.
Elsewhere: what is counted (model.partition_figures), what is shown of it (status.py).
Rule: little is counted at once, on the loop: 5,000 partitions take some 10 ms. More is counted on a thread, one count
at a time, and not again before `PAUSE_S` passed; meanwhile the figures before it stand, with their own offset.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from migrator.model.at_a_stop import MIN_ISR
from migrator.model.image import Image
from migrator.model.partition_figures import PartitionCounter, PartitionFigures

log = structlog.get_logger()

AT_ONCE_PARTITIONS: Final = 5_000
AT_ONCE_TOPICS: Final = 5_000
"""A look at each topic takes 0.3 microseconds."""
PAUSE_S: Final = 1.0
LATER_AT_MOST_S: Final = 15.0
"""For how long a count waits for the cluster to have its controller: ZooKeeper may be away for hours meanwhile."""


def min_isr_default(given: Mapping[str, str]) -> int:
    """What the controller's file says, as stock's controller takes it; brokers' files are not known here."""
    value = given.get(MIN_ISR, "1")
    return int(value) if value.isdecimal() else 1


class PartitionCount:
    """The count of partitions of one process, on its loop."""

    def __init__(self, min_isr_default: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._counter = PartitionCounter(min_isr_default)
        self._clock = clock
        self._image: Image | None = None
        self._figures: PartitionFigures | None = None
        self._counted_at = -PAUSE_S
        self._counting: asyncio.Task[None] | None = None
        self._later_since: float | None = None

    def of(self, image: Image, *, later: bool = False) -> tuple[PartitionFigures, int] | None:
        """The newest figures, and for how many milliseconds they have been out of date: 0 when they are of `image`.

        later: what takes a thread is not begun for a while, since the cluster waits for what the processor does beside
            it.
        """
        self._later_since = (self._later_since or self._clock()) if later else None
        if self._is_due(image):
            if len(image.topics) <= AT_ONCE_TOPICS and self._counter.changed(image) <= AT_ONCE_PARTITIONS:
                self._counted(image, self._counter.count(image))
            elif not self._waits() and self._clock() - self._counted_at >= PAUSE_S:
                self._counting = asyncio.get_running_loop().create_task(self._count(image), name="partition-count")
        if self._figures is None:
            return None
        is_current = self._image is not None and self._image.position == image.position
        return self._figures, 0 if is_current else round((self._clock() - self._counted_at) * 1000)

    def _waits(self) -> bool:
        return self._later_since is not None and self._clock() - self._later_since < LATER_AT_MOST_S

    def _is_due(self, image: Image) -> bool:
        return self._counting is None and (self._image is None or self._image.position != image.position)

    async def _count(self, image: Image) -> None:
        try:
            self._counted(image, await asyncio.to_thread(self._counter.count, image))
        except Exception:  # the status goes on without figures, and gates read None as unknown
            log.exception("partitions.not_counted")
            self._figures, self._image = None, None
            self._counted_at = self._clock()
        finally:
            self._counting = None

    def _counted(self, image: Image, figures: PartitionFigures) -> None:
        self._image, self._figures, self._counted_at = image, figures, self._clock()
