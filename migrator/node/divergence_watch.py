"""Looks at how far ZooKeeper is behind while it is written to, says so, and tells administrators to wait at the limit.

In:   the driver, whose state says what ZooKeeper has; the declared limits (driver.divergence).
Out:  `finding` for status and metrics while a limit is near or reached; `refusal` for whoever asks for a change.
Source: R-866-12.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from migrator.driver.divergence import Divergence, Level, Limits
from migrator.errors import ZOOKEEPER_FALLS_BEHIND, Occurrence

log = structlog.get_logger()

LOOK_S: Final = 0.25


class DivergenceWatch:
    """behind: records that ZooKeeper lacks, 0 while nothing is mirrored."""

    def __init__(self, limits: Limits, behind: Callable[[], int], now_ms: Callable[[], int]) -> None:
        self.now = Divergence(limits)
        self._behind = behind
        self._now_ms = now_ms

    async def run(self) -> None:
        """For ever."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        before = self.now.level
        level = self.now.look(self._now_ms(), self._behind())
        if level is not before:
            say = log.info if level is Level.WITHIN else log.warning
            say("zk.divergence", level=level.name, records=self.now.records, behind_ms=self.now.behind_ms)

    @property
    def finding(self) -> Occurrence | None:
        if self.now.level is Level.WITHIN:
            return None
        limits = self.now.limits
        return ZOOKEEPER_FALLS_BEHIND.found(
            records=self.now.records,
            seconds=self.now.behind_ms // 1000,
            max_records=limits.records,
            max_seconds=limits.seconds,
        )

    def refusal(self) -> str | None:
        """In words for an administrator; None while changes are taken."""
        finding = self.finding
        return None if finding is None or not self.now.blocks else f"{finding.code} {finding.text}"
