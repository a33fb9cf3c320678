"""A wall clock that is set while the service runs, or between two of its lives: the order of rows holds."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from state_machine.evidence.after_dual_write import digest_of
from state_machine.policy.gates_back import controllers_may_return
from state_machine.policy.phases import Phase
from state_machine.service import open_service
from state_machine.settings import ServiceSettings
from state_machine.times.row_clock import RowClock
from state_machine.work import acts_after_dual_write
from tests.unit.state_machine.finish.test_before_finalize import Finalizing, old_approval
from tests.unit.state_machine.rolling.test_rolling import codes
from tests.unit.state_machine.under_stock import UnderStock
from tests.unit.state_machine.world import an_inventory


class SetClock:
    """A host: its steady clock only goes on, its wall clock is set by a test. Called, it is what the service uses."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_000_000.0, 50.0
        self._rows = RowClock(0.0, lambda: self.wall, lambda: self.steady)

    def __call__(self) -> float:
        return self._rows()

    def ahead_s(self) -> float:
        return self._rows.ahead_s()

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def set(self, seconds: float) -> None:
        self.wall += seconds


class Stepped(UnderStock):
    make_clock = SetClock


class SteppedFinalizing(Finalizing):
    make_clock = SetClock


@pytest.mark.parametrize("seconds", [-3600.0, 120.0])
def test_the_way_back_stays_open_when_the_clock_is_set(tmp_path: Path, seconds: float) -> None:
    """Before: refused for as long as the step, "the service read no host in the last 2 minutes" (E22)."""
    world = Stepped(tmp_path)

    async def story() -> None:
        await world.to_soak()
        await world.until(lambda: controllers_may_return(world.evidence).holds, 60)
        world.clock.set(seconds)
        await world.turn(10)
        await world.until(lambda: controllers_may_return(world.evidence).holds, 60)
        assert (await world.run_operation("ROLL_BACK")).state == "succeeded"

    asyncio.run(story())
    assert world.phase is Phase.ROLLING_BACK
    assert ("Z2K-4236" in codes(world)) == (seconds < 0)


@pytest.mark.parametrize("seconds", [-3600.0, 120.0])
def test_an_approval_counts_that_is_given_after_the_clock_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    world = SteppedFinalizing(tmp_path)
    monkeypatch.setattr(acts_after_dual_write, "write_intent", world.write_intent)

    async def story() -> None:
        await world.to_finalizing()
        old_approval(world)
        await world.turn(3)
        world.clock.set(seconds)
        await world.turn(10)
        digest = digest_of(world.snapshot)
        operation = await world.run_operation("APPROVE", who="bo", to=Phase.FINALIZING, digest=digest)
        assert operation.state == "succeeded", operation.answer
        await world.until(lambda: "STOPPING" in world.steps_of_final, 60)

    asyncio.run(story())
    assert len(world.intents) == 1


def test_times_of_rows_go_on_as_fast_as_ever_when_the_clock_is_set_back() -> None:
    host = SetClock()
    first = host()
    host.set(-3600.0)
    host.pass_by(7.0)
    assert host() == first + 7.0
    assert host.ahead_s() == 3600.0
    host.set(5000.0)
    assert host() == host.wall
    assert host.ahead_s() == 0.0


def test_another_life_of_the_service_goes_on_behind_the_newest_row(tmp_path: Path) -> None:
    settings = ServiceSettings(directory=tmp_path, audit_engine="quick")
    service = open_service(settings)
    later = time.time() + 3600.0
    service.store.create(an_inventory(tmp_path), who="test", at=later)
    assert service.store.newest_time() == later
    asyncio.run(service.close())
    service = open_service(settings)
    assert service.clock() >= later
    assert 3590.0 < service.clock.ahead_s() <= 3600.0
    asyncio.run(service.close())
