"""What is done by the clock is done when it is due, and as often as there is something to do."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from migrator.node.config.properties import parse_config
from migrator.node.leader import periodic_tasks
from migrator.node.leader.periodic_tasks import run_periodic_tasks

FILE = """process.roles=controller
node.id=3000
controller.quorum.voters=3000@localhost:9093
controller.listener.names=CONTROLLER
listeners=CONTROLLER://localhost:9093
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=/nowhere
unclean.leader.election.interval.ms=60000
"""


class Over(Exception):
    """The time of the story is over."""


class Clock:
    """Time passes only while somebody sleeps."""

    def __init__(self, end_s: float) -> None:
        self.now_s = 0.0
        self._end_s = end_s

    def monotonic(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self.now_s > self._end_s:
            raise Over


class Controller:
    """Notes when it is asked to elect unclean leaders; the first `busy` times there is something to do."""

    def __init__(self, clock: Clock, busy: int) -> None:
        self._clock = clock
        self._busy = busy
        self.asked_s: list[int] = []

    def append_noop_when_idle(self, idle_ms: int) -> None:
        """Not looked at here."""

    async def append_unasked(self, duty: Any, is_due: Any = None) -> bool:
        if duty is not periodic_tasks._unclean_leaders:
            return False
        self.asked_s.append(round(self._clock.now_s))
        return len(self.asked_s) <= self._busy


@pytest.mark.parametrize(("busy", "asked_s"), [(0, [60, 120, 180]), (2, [60, 60, 60, 120, 180])])
def test_unclean_leaders_are_elected_every_interval_and_in_as_many_rounds_as_it_takes(
    monkeypatch: pytest.MonkeyPatch, busy: int, asked_s: list[int]
) -> None:
    clock = Clock(end_s=200)
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    controller = Controller(clock, busy)
    with pytest.raises(Over):
        asyncio.run(run_periodic_tasks(controller, parse_config(FILE)))  # type: ignore[arg-type]
    assert controller.asked_s == asked_s
