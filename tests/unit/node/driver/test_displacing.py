"""A first claim where a ZooKeeper-mode broker is controller: displaced, asked, and only then fenced (K-27)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.control_api.states import State
from migrator.driver.machine import Happened
from migrator.findings.driver import NOT_STEPPED_DOWN
from migrator.findings.finding import FindingError
from migrator.model.image import Image
from migrator.model.values import Mark
from migrator.node.driver import claiming
from migrator.node.driver.driver_node import DriverNode
from migrator.node.quorum.hooks import Hooks
from migrator.zk.multi import Multi, MultiOutcome
from tests.support.builders import an_image
from tests.support.driver_acts import claim_acts, done
from tests.unit.node.driver.test_driver_acts import story
from tests.unit.node.driver.test_leaderships import VOTERS, a_voters_driver, found

RULING = 1
REFUSED = MultiOutcome(failed_at=0, error="bad_version")


class Told:
    """What was sent to ZooKeeper and asked of the broker, in order. answers: of ZooKeeper, then nothing but yes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: MultiOutcome, stays: bool = False) -> None:
        self.story: list[str] = []
        self._answers = list(answers)
        self._stays = stays
        monkeypatch.setattr(claiming, "read_claim", lambda session: found(RULING, -1, None))
        monkeypatch.setattr(claiming, "wait_stepped_down", self._accepted)

    def driver(self) -> DriverNode:
        async def before(effect: str) -> None: ...

        async def mark(mark: Mark, text: str, is_due: Callable[[Image], bool] = lambda _: True) -> None:
            self.story.append(f"mark {mark.name} {'set' if text else 'taken back'}")

        config = SimpleNamespace(
            **vars(VOTERS),
            takeover_max_ms=15_000,
            inter_broker_listener="PLAINTEXT",
            broker_heartbeat_interval_ms=2_000,
        )
        session = SimpleNamespace(apply=self._apply, children=lambda path: [str(RULING)])
        hooks = Hooks(before=before)
        driver = a_voters_driver(State.TAKING_OVER, hooks=hooks, config=config, session=session)
        driver.claim_watch.look = lambda: None  # type: ignore[method-assign]
        driver.parts.controller.image = an_image()
        driver.parts.controller.heartbeat_ages_ms = dict  # type: ignore[method-assign]
        driver.parts.controller.mark = mark  # type: ignore[method-assign]
        return driver

    def _apply(self, multi: Multi) -> MultiOutcome:
        self.story.append("; ".join(multi.describe()))
        return self._answers.pop(0) if self._answers else MultiOutcome()

    async def _accepted(self, broker: Any, *whom: Any, limit_s: float) -> None:
        self.story.append(f"broker {broker.id} is asked for {limit_s} s")
        if self._stays:
            raise NOT_STEPPED_DOWN.error(broker=broker.id, limit_ms=1, reason="it is busy")


async def take_over(driver: DriverNode) -> Happened:
    acts = claim_acts(driver)
    try:
        return await done(driver, acts.take_over())
    finally:
        acts.close()
        await asyncio.sleep(0)


def test_k27_the_old_controller_is_displaced_and_asked_before_the_epoch_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def told() -> None:
        heard = Told(monkeypatch)
        driver = heard.driver()
        assert await take_over(driver) is Happened.CLAIMED
        latch, displaced, asked, raised = heard.story
        assert latch == "mark TAKEOVER set"
        assert displaced.startswith("check /controller_epoch")
        assert asked == "broker 1 is asked for 7.5 s"
        assert raised.startswith("set /controller_epoch")
        assert driver.now.claim is not None
        assert driver.now.claim.zk_epoch == 10

    story(told)


def test_k27_a_controller_that_does_not_step_down_is_not_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        heard = Told(monkeypatch, stays=True)
        driver = heard.driver()
        with pytest.raises(FindingError, match="Z2K-2060"):
            await take_over(driver)
        assert len(heard.story) == 3
        assert driver.now.claim is None

    story(told)


def test_k27_a_place_that_somebody_took_meanwhile_ends_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        driver = Told(monkeypatch, MultiOutcome(), REFUSED).driver()
        with pytest.raises(FindingError, match="Z2K-2005"):
            await take_over(driver)

    story(told)


def test_k27_nothing_is_displaced_where_zookeeper_moved_since(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        heard = Told(monkeypatch, REFUSED)
        driver = heard.driver()
        assert await take_over(driver) is Happened.CLAIM_REFUSED
        assert heard.story[-1] == "mark TAKEOVER taken back"
        assert driver.now.window is None

    story(told)
