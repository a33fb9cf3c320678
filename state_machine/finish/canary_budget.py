"""The error budget of canary traffic: what became of each record, and whether the next restart may begin.

In:   records as they are sent and answered, times in seconds by a steady clock. Out: `CanaryFigures`.
Elsewhere: the traffic itself (canary.py), the condition (policy/conditions.py).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from state_machine.facts.canary import CanaryFigures

WINDOW_S: Final = 600.0
ANSWERS_MAX: Final = 100_000
"""Ten minutes of the highest rate at three brokers would be more; then the window is shorter."""


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

    def client_ended(self, now: float) -> None:
        """What its client left unanswered counts as failed; otherwise it would be waited for as long as this runs."""
        for number in list(self._waiting):
            self.answered(number, 0, now, "its client ended before it was answered")

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
