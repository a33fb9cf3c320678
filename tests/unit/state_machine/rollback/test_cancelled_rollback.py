"""A rollback that the service leads is cancelled: the road goes on from what it finds, and nothing is started twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from state_machine.policy.fleet_evidence import Roll, RollbackPlan
from state_machine.policy.phases import Phase, Trigger, by_name, possible
from state_machine.policy.undo import undo_of
from tests.unit.state_machine.rollback.test_rolling_back import RollingBack
from tests.unit.state_machine.rolling.test_rolling import BROKERS
from tests.unit.state_machine.under_stock import NODES, UnderStock


@pytest.fixture
def world(tmp_path: Path) -> RollingBack:
    return RollingBack(tmp_path)


@pytest.fixture
def stock(tmp_path: Path) -> UnderStock:
    return UnderStock(tmp_path)


async def cancel(world: RollingBack) -> None:
    operation = await world.run_operation("ADVANCE", who="Ada", reason="not back after all", to=Phase.ROLLING_BROKERS)
    assert operation.state == "succeeded", operation.answer


@pytest.mark.parametrize("back", [0, 1, 2])
def test_brokers_that_went_back_go_over_again_and_the_others_stay(world: RollingBack, back: int) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.rolled_until((0, 1))
        await world.run_operation("PAUSE", who="Ada")
        await world.turn(3)
        await world.ask_back()
        if back:
            await world.run_operation("RESUME", who="Ada")
            await world.until(lambda: world.step_back(2 - back) == "WHOLE")
            await world.run_operation("PAUSE", who="Ada")
            await world.turn(2)
        await cancel(world)
        assert world.phase is Phase.ROLLING_BROKERS
        assert not world.nodes_of(Roll.BACK)
        await world.run_operation("RESUME", who="Ada")
        await world.until(lambda: world.rolled)

    asyncio.run(story())
    assert all("process.roles" in world.hosts.file(each).read_text() for each in BROKERS)
    again = [act for act in world.acts[4:] if act.startswith("start")]
    assert len(again) == 2 * back + 1, "there and back each, and broker 2 for the first time"


def test_a_rollback_after_a_cancelled_one_leads_to_the_start(world: RollingBack) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.rolled_until((0, 1))
        await world.ask_back()
        await world.until(lambda: world.step_back(1) == "WHOLE")
        await world.run_operation("PAUSE", who="Ada")
        await world.until(lambda: world.step_back(0) not in ("STOPPING", "STOPPED", "WRITTEN", "STARTED"))
        await cancel(world)
        await world.ask_back()
        await world.run_operation("RESUME", who="Ada")
        await world.to_the_start()

    asyncio.run(story())
    for number in BROKERS:
        assert world.hosts.file(number).read_text() == world.file_of(number)


def test_it_is_refused_while_a_broker_is_away_and_once_the_driver_rolls_back(world: RollingBack) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.rolled_until((0, 1))
        await world.ask_back()
        await world.until(lambda: world.step_back(1) == "STOPPED")
        refused = await world.run_operation("ADVANCE", who="Ada", to=Phase.ROLLING_BROKERS)
        assert refused.state == "refused"
        assert "nodes [1] are stopped or not whole" in refused.answer
        world.controller.on_ask = lambda operation: world.controller.move("ROLLING_BACK")
        await world.until(lambda: world.controller.state == "ROLLING_BACK")
        refused = await world.run_operation("ADVANCE", who="Ada", to=Phase.ROLLING_BROKERS)
        assert "the driver has not begun its rollback" in refused.answer
        world.rollback()
        await world.to_the_start()

    asyncio.run(story())


@pytest.mark.parametrize("ours", [0, 1])
def test_from_the_soak_it_leads_to_the_soak_again_and_ours_are_never_started_beside_stock(
    stock: UnderStock, ours: int
) -> None:
    async def story() -> int:
        await stock.to_soak()
        launched = len(stock.launcher.launched)
        await stock.run_operation("PAUSE", who="Ada")
        await stock.turn(2)
        await stock.ask_back()
        if ours:
            await stock.run_operation("RESUME", who="Ada")
            await stock.until(lambda: "WHOLE" in {stock.ours_step(each) for each in NODES})
            await stock.run_operation("PAUSE", who="Ada")
            away = ("STOPPING", "STOPPED", "WRITTEN", "STARTED")
            await stock.until(lambda: not {stock.ours_step(each) for each in NODES} & {*away})
        await cancel(stock)
        await stock.run_operation("RESUME", who="Ada")
        await stock.until(lambda: stock.phase is Phase.SOAK, 600)
        return launched

    launched = asyncio.run(story())
    assert not any(each.alive for each in stock.controllers)
    assert all(stock.hosts.runs(node) for node in NODES)
    assert len(stock.launcher.launched) - launched <= ours + 1
    assert not stock.nodes_of(Roll.OURS)


def test_the_command_is_told() -> None:
    assert possible(Phase.ROLLING_BACK) == ("advance",)
    with pytest.raises(FindingError, match="advance --to ROLLING_BROKERS, which cancels the rollback"):
        by_name(Phase.ROLLING_BACK, Trigger.ADVANCE, None)
    by_name(Phase.ROLLING_BACK, Trigger.ADVANCE, Phase.ROLLING_BROKERS)
    by_name(Phase.SOAK, Trigger.ROLL_BACK, None)
    assert undo_of(Phase.ROLLING_BACK, RollbackPlan()).command == "zk2kraft advance --to ROLLING_BROKERS"
    assert undo_of(Phase.ROLLING_BACK, None).command == ""
