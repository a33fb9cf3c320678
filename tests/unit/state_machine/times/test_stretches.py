"""Times that gates rest on: only what was observed counts, and no clock makes it longer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_machine.times.stretches import UNOBSERVED_S, Moment, ObservedTime, gone_on, passed
from tests.unit.state_machine.rolling.test_rolling import Rolling
from tests.unit.state_machine.under_stock import UnderStock
from tests.unit.state_machine.world import Clock

steps = st.tuples(st.floats(0, 50), st.floats(-4000, 4000), st.booleans())


@given(st.lists(steps, max_size=30))
def test_a_time_is_never_longer_than_the_observed_part_of_it(story: list[tuple[float, float, bool]]) -> None:
    """Each step: seconds that passed, by how much the wall clock was set meanwhile, whether the service restarted."""
    now, life = Moment(1000.0, 5.0, "0"), 0
    stretch, least = gone_on(None, None, holds=True), 0.0
    for seconds, set_by, restarted in story:
        life += restarted
        following = Moment(now.wall + seconds + set_by, now.steady + seconds, str(life))
        stretch = gone_on(stretch, passed(now, following), holds=True)
        least = 0.0 if restarted or seconds > UNOBSERVED_S else least + seconds
        assert stretch is not None
        assert stretch.seconds <= least + 1e-6
        assert stretch.longest_s <= UNOBSERVED_S
        now = following


def test_a_host_that_slept_begins_the_time_anew_although_its_steady_clock_stood() -> None:
    assert passed(Moment(100.0, 10.0, "a"), Moment(3700.0, 11.0, "a")) is None
    assert passed(Moment(100.0, 10.0, "a"), Moment(101.0, 11.0, "b")) is None
    assert passed(Moment(100.0, 10.0, "a"), Moment(40.0, 11.0, "a")) == 1.0
    assert passed(None, Moment(101.0, 11.0, "a")) is None
    assert ObservedTime(5.0, 6, 1.25).text == "6 observations, at most 1.2 s apart"


class Restarted(Rolling):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.settings = self.settings.model_copy(update={"settle_s": 20.0})
        self.start_service()


def test_a_broker_that_crashed_while_the_service_was_down_is_not_taken_for_settled(tmp_path: Path) -> None:
    """Before: the next stop came a second after the start, "fully replicated for 3663 s" (found by a review)."""
    world = Restarted(tmp_path)

    async def first() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "WHOLE")

    async def second() -> list[str]:
        world.crashes[1] += 1  # and is back
        await world.turn(5)
        return list(world.acts)

    asyncio.run(first())
    world.clock.pass_by(3_600.0)
    world.start_service()
    assert asyncio.run(second()) == ["stop 0", "start 0"]
    assert "nothing was under-replicated for 20 s" in world.waiting
    assert "observations, at most 1.0 s apart" in world.waiting


def test_a_broker_that_restarts_between_two_observations_begins_the_time_anew(tmp_path: Path) -> None:
    world = Restarted(tmp_path)

    async def story() -> None:
        await world.to_rolling()
        await world.turn(12)
        world.crashes[1] += 1
        await world.turn(12)

    asyncio.run(story())
    assert world.acts == []


def test_a_clock_that_is_set_forward_settles_nothing(tmp_path: Path) -> None:
    world = Restarted(tmp_path)
    steady = Clock()
    world.clock_steady = steady
    world.start_service()

    async def turn(count: int) -> None:
        for _ in range(count):
            await world.turn()
            steady.pass_by(1.0)

    async def story() -> None:
        await world.to_rolling()
        await turn(4)
        world.clock.pass_by(60.0)
        await turn(4)

    asyncio.run(story())
    assert world.acts == []


@pytest.mark.parametrize("gap_s", [3_600.0, 10.0])
def test_a_soak_goes_on_after_a_time_that_was_not_observed_and_does_not_count_it(tmp_path: Path, gap_s: float) -> None:
    world = UnderStock(tmp_path)

    async def first() -> float:
        await world.to_soak()
        await world.turn(10)
        return soaked(world)

    async def second() -> float:
        await world.turn(5)
        return soaked(world)

    before = asyncio.run(first())
    world.clock.pass_by(gap_s)
    world.start_service()
    after = asyncio.run(second())
    assert before > 5.0
    assert before <= after <= before + 5.0
    road = world.evidence.road
    assert road is not None
    assert road.soak is not None
    assert road.soak.missed_s > gap_s


def soaked(world: UnderStock) -> float:
    road = world.evidence.road
    assert road is not None
    assert road.soak is not None
    return road.soak.age_s
