"""Who hears that ZooKeeper is behind, and what the next leader knows of it (R-866-12)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from migrator.driver.divergence import DivergenceLimits, Level
from migrator.model.values import Mark
from migrator.node.driver.divergence_watch import DivergenceWatch

LIMITS = DivergenceLimits(seconds=10, records=100)


class Log:
    """The marks of a log, as the active controller shows and changes them."""

    def __init__(self) -> None:
        self.marks: dict[Mark, str] = {}
        self.appended: list[str] = []
        image: Any = SimpleNamespace(marks=self.marks, brokers={})
        self.image = self.newest = image

    async def mark(self, mark: Mark, text: str, is_due: Callable[[Any], bool]) -> None:
        assert is_due(self.newest)
        self.appended.append(text)
        if text:
            self.marks[mark] = text
        else:
            del self.marks[mark]


class Node:
    """One node with its own monotonic clock; the wall clock is everybody's."""

    def __init__(self, log: Any, started_ms: int = 0) -> None:
        self.wall_ms = started_ms
        self.leads = True
        self.log = log
        self.watch = DivergenceWatch(
            LIMITS,
            now_ms=lambda: self.wall_ms - started_ms,
            wall_ms=lambda: self.wall_ms,
            may_mark=lambda image: self.leads,
        )

    def passes(self, ms: int) -> None:
        self.wall_ms += ms
        self.watch.look()
        asyncio.run(self.watch.keep_mark(self.log))


def test_a_refusal_names_the_code_the_distance_and_what_to_do() -> None:
    node = Node(Log())
    node.watch.written(9)
    node.watch.committed(12)
    assert node.watch.refusal() is None
    node.passes(6_000)
    assert node.watch.finding is not None, "the alarm comes at half"
    assert node.watch.refusal() is None
    node.passes(4_000)
    refusal = node.watch.refusal()
    assert refusal is not None
    assert refusal.startswith("Z2K-2041 ZooKeeper lacks 3 records, the oldest for 10 s;")
    assert "zk2kraft status" in refusal
    node.watch.written(12)
    assert node.watch.refusal() is None, "at once, not at the next look of the clock"


def test_the_next_leader_goes_on_counting_and_ends_it_when_zookeeper_has_everything() -> None:
    log = Log()
    first = Node(log)
    first.watch.written(9)
    first.watch.committed(12)
    first.passes(5_000)
    assert json.loads(log.marks[Mark.BEHIND]) == {"offset": 10, "since_ms": 0}
    first.passes(6_000)
    assert len(log.appended) == 1, "noted once"

    second = Node(log, started_ms=12_000)
    second.watch.resume(second.log.image)
    assert second.watch.refusal() is not None
    second.watch.committed(20)
    assert second.watch.look().records == 11
    second.passes(250)
    assert Mark.BEHIND in log.marks
    second.watch.written(20)
    second.passes(250)
    assert second.watch.look().level is Level.WITHIN
    assert Mark.BEHIND not in log.marks

    third = Node(log, started_ms=20_000)
    third.watch.resume(third.log.image)
    assert third.watch.refusal() is None


def test_who_may_not_write_leaves_the_mark_alone() -> None:
    log = Log()
    log.marks[Mark.BEHIND] = json.dumps({"offset": 10, "since_ms": 0})
    follower = Node(log)
    follower.leads = False
    follower.passes(60_000)
    assert log.appended == []
