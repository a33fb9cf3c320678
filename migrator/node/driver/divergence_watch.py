"""Observes how far ZooKeeper is behind, reports it, and says why administrators are refused at a limit.

In:   what was committed and what ZooKeeper has, from the driver; the declared limits (driver.divergence).
Out:  `finding` for status and metrics while a limit is near or reached; `refusal` for a request that changes
      something; and `Mark.BEHIND` in the log, so that the next leader goes on counting where this one stopped.
Source: R-866-12.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from migrator.driver.divergence import Divergence, DivergenceLimits, Level
from migrator.driver.machine import all_in_kraft_mode
from migrator.findings.driver import ZOOKEEPER_FALLS_BEHIND
from migrator.findings.finding import Occurrence
from migrator.model.image import Image
from migrator.model.values import Mark
from migrator.node.leader.active_controller import ActiveController
from migrator.node.leader.pending_appends import LeadershipLost

log = structlog.get_logger()

LOOK_S: Final = 0.25


class DivergenceWatch:
    """Observes how far ZooKeeper is behind one driver's log.

    may_mark: whether the driver may append to the log now, with this image.
    """

    def __init__(
        self,
        limits: DivergenceLimits,
        *,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        may_mark: Callable[[Image], bool],
    ) -> None:
        self._divergence = Divergence(limits)
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._may_mark = may_mark

    # --- what the driver reports ---------------------------------------------------------------------------

    def committed(self, offset: int) -> None:
        self._divergence.committed(offset, self._now_ms())

    def written(self, offset: int) -> None:
        self._divergence.written(offset)

    def forget(self) -> None:
        self._divergence.forget()

    def resume(self, image: Image) -> None:
        """This node leads now: what ZooKeeper lacked under the leader before is in the log."""
        text = image.marks.get(Mark.BEHIND)
        if text is None:
            return
        try:
            mark = json.loads(text)
            offset, age_ms = int(mark["offset"]), max(0, self._wall_ms() - int(mark["since_ms"]))
        except (ValueError, TypeError, KeyError):  # every leader reads the same: counted from now on
            log.exception("zk.mark_not_read", mark=text)
            offset, age_ms = image.position.offset, 0
        self._divergence.lacked(offset, self._now_ms() - age_ms)

    def behind_by(self, mirrored: int, image: Image) -> None:
        """`/migration` says how far ZooKeeper is: counted from now on, where a snapshot of a stock controller dropped
        the mark. By time alone: how many of the records since are only NoOps is not known.

        mirrored: offset of the last record that ZooKeeper has; -1 when none was noted.
        """
        newest = image.position.offset
        if Mark.BEHIND not in image.marks and 0 <= mirrored < newest:
            self._divergence.committed(newest, self._now_ms())

    def brokers_are(self, image: Image) -> None:
        """Note the brokers' modes: while every broker runs in KRaft mode, a limit is an alarm and blocks nobody."""
        self._divergence.only_alarms = all_in_kraft_mode(image)

    # --- what others see -----------------------------------------------------------------------------------

    def look(self) -> Divergence:
        """How far it is behind now."""
        observed = self._divergence
        before = observed.level
        if observed.look(self._now_ms()) is not before:
            say = log.info if observed.level is Level.WITHIN else log.warning
            say("zk.divergence", stands=observed.level.name, records=observed.records, behind_ms=observed.behind_ms)
        return observed

    @property
    def finding(self) -> Occurrence | None:
        observed = self.look()
        if observed.level is Level.WITHIN:
            return None
        return ZOOKEEPER_FALLS_BEHIND.found(
            records=observed.records,
            seconds=observed.behind_ms // 1000,
            max_records=observed.limits.records,
            max_seconds=observed.limits.seconds,
        )

    def refusal(self) -> str | None:
        """Why changes are refused, in words for an administrator; None while they are taken."""
        finding = self.finding
        return finding.in_full if finding is not None and self._divergence.blocks else None

    # --- on the clock --------------------------------------------------------------------------------------

    async def run(self, controller: ActiveController) -> None:
        """Observe for ever. Whether a limit blocks administrators follows the brokers' modes within LOOK_S."""
        while True:
            self.brokers_are(controller.newest)
            self.look()
            await self.keep_mark(controller)
            await asyncio.sleep(LOOK_S)

    async def keep_mark(self, controller: ActiveController) -> None:
        """Note in the log that ZooKeeper is behind, or that it is no longer."""
        observed = self._divergence
        is_behind, is_marked = observed.level is not Level.WITHIN, Mark.BEHIND in controller.newest.marks
        if is_behind == is_marked or not self._may_mark(controller.newest):
            return
        since_ms = self._wall_ms() - observed.behind_ms
        text = json.dumps({"offset": observed.first_lacking, "since_ms": since_ms}) if is_behind else ""

        def is_due(image: Image) -> bool:
            return (Mark.BEHIND in image.marks) == is_marked and self._may_mark(image)

        with suppress(LeadershipLost):
            await controller.mark(Mark.BEHIND, text, is_due)
