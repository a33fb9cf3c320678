"""Who ends the time without a controller by itself: a broker that leaves, a broker that is silent, the limit."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.control_api.states import State
from migrator.driver.machine import TimeWithoutController
from migrator.findings.finding import Occurrence
from migrator.findings.zookeeper import ZOOKEEPER_LOST
from migrator.node.driver import window_guard
from migrator.zk import paths
from tests.support.driver_acts import window_guard as guard_of
from tests.support.driver_acts import with_parts
from tests.support.voter_on_disk import comes_about
from tests.unit.node.driver.test_driver_acts import a_driver, story

HEARTBEAT_MS = 2_000
ALL = ["1", "2", "3"]


class Looks:
    """What `/brokers/ids` says at each look; the last one stays. An occurrence is raised."""

    def __init__(self, *looks: list[str] | Occurrence) -> None:
        self.looks = list(looks)
        self.count = 0

    def children(self, path: str) -> list[str]:
        assert path == paths.BROKER_IDS
        self.count += 1
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, Occurrence):
            raise look.finding.error(**look.values)
        return look


def guarded(looks: Looks, *, state: State = State.COPYING, ages: dict[int, int] | None = None) -> tuple[Any, list[str]]:
    """A driver in the window, and what its window was failed with."""
    driver = a_driver(state, session=looks, now_ms=lambda: 1_000)
    driver.parts.config.broker_heartbeat_interval_ms = HEARTBEAT_MS
    driver.parts.config.takeover_max_ms = 15_000
    driver.parts.controller.heartbeat_ages_ms = lambda: ages or {}
    driver.now.window = TimeWithoutController(0, 15_000)
    failed: list[str] = []

    def fail(reason: str, found: Occurrence) -> None:
        failed.append(f"{found.code} {reason}")

    driver.fail_window = fail
    return driver, failed


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_guard, "LOOK_S", 0.001)


LOST = ZOOKEEPER_LOST.found(path=paths.BROKER_IDS, reason="not connected")


@pytest.mark.parametrize(
    "looks",
    [Looks(ALL, ["1", "3"]), Looks(ALL, LOST, ["1", "3"]), Looks(LOST, ALL, ALL, ["1", "3"])],
    ids=["at the next look", "after a look that failed", "after a first look that failed"],
)
def test_a_broker_that_leaves_zookeeper_ends_the_window(looks: Looks) -> None:
    """Its heartbeats are young still: a broker that is killed is missed there first."""

    async def told() -> None:
        driver, failed = guarded(looks)
        guard = guard_of(driver)
        guard.watch()
        await comes_about(lambda: bool(failed))
        guard.stop()
        assert failed == [f"Z2K-2016 Broker 2 left {paths.BROKER_IDS} while the cluster had no controller."]

    story(told)


def test_a_broker_that_came_and_all_that_stay_end_nothing() -> None:
    async def told() -> None:
        looks = Looks(["1", "2"], ALL, [*ALL, "not a number"])
        driver, failed = guarded(looks, ages={1: 2 * HEARTBEAT_MS})
        guard = guard_of(driver)
        guard.watch()
        await comes_about(lambda: looks.count >= 6)
        guard.stop()
        assert failed == []

    story(told)


def test_a_silent_broker_ends_the_window_although_it_stands_in_zookeeper() -> None:
    async def told() -> None:
        age_ms = 2 * HEARTBEAT_MS + HEARTBEAT_MS // 2 + 1
        driver, failed = guarded(Looks(ALL), ages={2: age_ms})
        guard = guard_of(driver)
        guard.watch()
        await comes_about(lambda: bool(failed))
        guard.stop()
        assert failed[0].startswith(f"Z2K-2016 Broker 2 sent no heartbeat for {age_ms} ms")

    story(told)


def test_the_limit_ends_the_window_also_while_zookeeper_hangs() -> None:
    class Hanging(Looks):
        def children(self, path: str) -> list[str]:
            self.count += 1
            released.wait(60)
            return ALL

    released = threading.Event()

    async def told() -> None:
        driver, failed = guarded(Hanging(ALL))
        clock = SimpleNamespace(ms=14_999)
        with_parts(driver, now_ms=lambda: clock.ms)
        guard = guard_of(driver)
        guard.watch()
        await comes_about(lambda: driver.parts.session.count == 1)
        assert failed == []
        clock.ms = 15_000
        await comes_about(lambda: bool(failed))
        released.set()
        assert failed[0].startswith("Z2K-2015")

    story(told)


def test_after_the_commit_nothing_is_failed() -> None:
    """From then on the log is the truth, and an abort would lose what was committed."""

    async def told() -> None:
        driver, failed = guarded(Looks(ALL, ["1"]), state=State.SYNCING, ages={2: 60_000})
        guard = guard_of(driver)
        guard.watch()
        (task,) = (each for each in asyncio.all_tasks() if each.get_name() == "window-guard")
        await task
        assert failed == []

    story(told)
