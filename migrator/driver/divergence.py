"""How far ZooKeeper may be behind the log before an alarm, and what happens then (R-866-12).

In:   the declared limits; what was committed and what ZooKeeper has, by the offset of the last record.
Out:  a `Level`: NEAR from half of a limit on, OVER at it. Measured are how many records ZooKeeper lacks, and the age of
      the oldest of them.
Elsewhere: who looks (node.driver.divergence_watch), the answer to a refused administrator (controller.requests).
Rule: nothing is lost by being behind. The log is the truth, and ZooKeeper is caught up afterwards. What grows with the
distance is what a rollback would have to wait for, and what ZooKeeper-mode brokers that restart would not know.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
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
class DivergenceLimits:
    """policy: what happens at a limit: changes of administrators are refused ("block"), or only said ("alarm").

    records: a restarted broker moves every leader of a large cluster at once; that is no divergence yet.
    """

    seconds: int = 60
    records: int = 100_000
    policy: str = BLOCK


@dataclass(slots=True)
class _Commits:
    """Commits that ZooKeeper does not have, up to the record `last`; the oldest of them came at `at_ms`."""

    last: int
    at_ms: int


@dataclass(slots=True)
class Divergence:
    """How far ZooKeeper is behind in one leadership. Times are of one monotonic clock.

    records:     how many ZooKeeper lacks.
    behind_ms:   how long it has lacked the oldest of them.
    blocking_ms: how long administrators have had to wait.
    """

    limits: DivergenceLimits
    level: Level = Level.WITHIN
    records: int = 0
    behind_ms: int = 0
    blocking_ms: int = 0
    only_alarms: bool = False
    """Whatever the policy is: no broker in ZooKeeper mode is left that would need what ZooKeeper lacks."""
    _lacking: deque[_Commits] = field(default_factory=deque)
    _newest: int = -1
    _written: int = -1
    _blocking_since_ms: int | None = None

    def committed(self, offset: int, now_ms: int) -> None:
        """The log has records up to `offset`. Commits within a hundredth of the limit are kept as one."""
        if self._written < 0:
            self._written = offset - 1
        self._newest = offset
        if self._lacking and now_ms - self._lacking[-1].at_ms < 10 * self.limits.seconds:
            self._lacking[-1].last = offset
        else:
            self._lacking.append(_Commits(offset, now_ms))

    def written(self, offset: int) -> None:
        """ZooKeeper has everything up to `offset`."""
        self._written = max(self._written, offset)
        while self._lacking and self._lacking[0].last <= offset:
            self._lacking.popleft()

    def lacked(self, offset: int, since_ms: int) -> None:
        """An earlier leader left ZooKeeper without the record `offset` and what followed."""
        self._written = offset - 1
        self.committed(offset, since_ms)

    def forget(self) -> None:
        """ZooKeeper is not this node's to bring up any more."""
        self._lacking.clear()
        self._newest = self._written = -1

    @property
    def first_lacking(self) -> int:
        """The offset of the oldest record that ZooKeeper does not have."""
        return self._written + 1

    def look(self, now_ms: int) -> Level:
        """Where ZooKeeper stands now."""
        self.records = self._newest - self._written if self._lacking else 0
        self.behind_ms = now_ms - self._lacking[0].at_ms if self._lacking else 0
        share = max(self.behind_ms / (1_000 * self.limits.seconds), self.records / self.limits.records)
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
        return self.level is Level.OVER and self.limits.policy == BLOCK and not self.only_alarms
