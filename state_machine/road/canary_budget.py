"""The error budget of canary traffic: what became of each record, and whether the next restart may begin.

In:   records as they are sent and answered, times in seconds by a steady clock. Out: `CanaryFigures`.
Elsewhere: the traffic itself (canary.py), the condition (policy/road_conditions.py).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import msgspec

WINDOW_S: Final = 600.0
NEVER_ANSWERED: Final = "the client was replaced and had not answered"
ANSWERS_MAX: Final = 100_000
"""Ten minutes of the highest rate at three brokers would be more; then the window is shorter."""


class CanaryFigures(msgspec.Struct, frozen=True):
    """Of the last ten minutes. waiting_s: the age of the oldest record without answer. partitions: that never answered.

    problem: why there is no traffic; empty while there is.
    """

    at: float
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    longest_s: float = 0.0
    waiting_s: float = 0.0
    silent: tuple[int, ...] = ()
    problem: str = ""
    last_error: str = ""


@dataclass(slots=True)
class CanaryBudget:
    """partitions: all of the topic."""

    partitions: int
    _waiting: dict[int, float] = field(default_factory=dict)
    _answers: deque[tuple[float, float, bool]] = field(default_factory=lambda: deque(maxlen=ANSWERS_MAX))
    _heard: set[int] = field(default_factory=set)
    _last_error: str = ""
    answered_ever: int = 0
    failed_ever: int = 0

    def sent(self, number: int, now: float) -> None:
        self._waiting[number] = now

    def answered(self, number: int, partition: int, now: float, error: str = "") -> None:
        """A record that nobody knows, of a client before, is ignored."""
        began = self._waiting.pop(number, None)
        if began is None:
            return
        self._answers.append((now, now - began, not error))
        self.answered_ever += 1
        self.failed_ever += bool(error)
        self._last_error = error or self._last_error
        if not error:
            self._heard.add(partition)

    def give_up(self, now: float) -> None:
        """The client goes; what it has not answered has failed, and waits no longer."""
        for began in self._waiting.values():
            self._answers.append((now, now - began, False))
        self.answered_ever += len(self._waiting)
        self.failed_ever += len(self._waiting)
        self._last_error = NEVER_ANSWERED if self._waiting else self._last_error
        self._waiting.clear()

    def figures(self, now: float, at: float) -> CanaryFigures:
        """at: the wall time of it."""
        while self._answers and now - self._answers[0][0] > WINDOW_S:
            self._answers.popleft()
        good = sum(1 for _, _, fine in self._answers if fine)
        oldest = min(self._waiting.values(), default=now)
        return CanaryFigures(
            at=at,
            sent=len(self._answers) + len(self._waiting),
            acknowledged=good,
            failed=len(self._answers) - good,
            longest_s=round(max((took for _, took, _ in self._answers), default=0.0), 3),
            waiting_s=round(now - oldest, 3),
            silent=tuple(each for each in range(self.partitions) if each not in self._heard),
            last_error=self._last_error,
        )
