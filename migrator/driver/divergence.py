"""How far ZooKeeper may be behind the log before somebody hears of it, and what happens then (R-866-12).

In:   the declared limits, and at every look: the time, and how many records ZooKeeper lacks.
Out:  a `Level`: NEAR from half of a limit on, OVER at it.
Elsewhere: who looks (node.driver_node), what a refused administrator is told (controller.requests).
Rule: nothing is lost by being behind. The log is the truth, and ZooKeeper is caught up afterwards. What grows with the
distance is what a hand-back would have to wait for, and what ZooKeeper-mode brokers that restart would not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

BLOCK: Final = "block"
ALARM: Final = "alarm"
POLICIES: Final = (BLOCK, ALARM)


class Level(IntEnum):
    """Where ZooKeeper stands with respect to the limits."""

    WITHIN = 0
    NEAR = 1
    OVER = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """policy: what happens at a limit: changes of administrators are refused ("block"), or only said ("alarm")."""

    seconds: int = 60
    records: int = 10_000
    policy: str = BLOCK


@dataclass(slots=True)
class Divergence:
    """Remembers since when ZooKeeper has been behind without a pause."""

    limits: Limits
    level: Level = Level.WITHIN
    records: int = 0
    behind_ms: int = 0
    blocking_ms: int = 0
    """How long administrators have had to wait."""
    _since_ms: int | None = None
    _blocking_since_ms: int | None = None

    def look(self, now_ms: int, records: int) -> Level:
        """records: how many of the log's records ZooKeeper does not have; 0 ends the time."""
        self.records = records
        if records <= 0:
            self._since_ms = None
        elif self._since_ms is None:
            self._since_ms = now_ms
        self.behind_ms = 0 if self._since_ms is None else now_ms - self._since_ms
        share = max(self.behind_ms / (1_000 * self.limits.seconds), records / self.limits.records)
        self.level = Level.OVER if share >= 1 else Level.NEAR if share >= 0.5 else Level.WITHIN
        if not self.blocks:
            self._blocking_since_ms = None
        elif self._blocking_since_ms is None:
            self._blocking_since_ms = now_ms
        self.blocking_ms = 0 if self._blocking_since_ms is None else now_ms - self._blocking_since_ms
        return self.level

    @property
    def blocks(self) -> bool:
        """Whether administrators have to wait."""
        return self.level is Level.OVER and self.limits.policy == BLOCK
