"""What only KRaft has by the time of dual-write is listed before a rollback, and lost only with consent (F-51)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from api.lines import status_lines
from api.views import migration_view
from migrator.findings.finding import FindingError
from state_machine.children.commands import Result
from state_machine.policy.gates_back import cluster_may_return
from state_machine.policy.phases import Phase
from state_machine.rollback.plan import NOT_KNOWN
from state_machine.work.operations import may_consent
from tests.unit.state_machine.fakes import red_audit
from tests.unit.state_machine.world import World, a_world

ONE = "configuration of client-metrics m1"
TWO = "configuration of client-metrics m2"
LOST = "somebody consented to what is lost"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as made:
        yield made


def closed_by(world: World) -> dict[str, tuple[str, ...]]:
    return {each.name: each.codes for each in cluster_may_return(world.evidence).failed}


def lines(world: World) -> list[str]:
    return status_lines(migration_view(world.store, world.id, world.clock()))


async def rolls_back(world: World) -> None:
    world.controller.on_ask = lambda operation: world.rollback()
    await world.run_operation("ROLL_BACK")
    await world.rounds(2)
    assert world.phase is Phase.ROLLED_BACK


def test_a_rollback_that_loses_nothing_is_one_command(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        await world.rounds()
        assert closed_by(world) == {}
        assert "rollback  possible; restarts no node; lost: nothing that ZooKeeper lacks" in lines(world)
        await rolls_back(world)

    asyncio.run(story())
    assert world.controller.asked == ["takeover", "rollback"]


def test_what_only_kraft_has_needs_consent_to_exactly_that_list(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        world.controller.only_kraft = [ONE]
        await world.rounds()
        assert closed_by(world) == {LOST: ("Z2K-4230",)}
        refused = await world.run_operation("ROLL_BACK")
        assert (refused.state, ONE in refused.answer) == ("refused", True)
        consented = await world.run_operation("APPROVE", to=Phase.ROLLING_BACK)
        assert consented.state == "succeeded", consented.answer
        world.controller.only_kraft = [ONE, TWO]
        await world.rounds()
        refused = await world.run_operation("ROLL_BACK")
        assert (refused.state, TWO in refused.answer) == ("refused", True)
        assert "rollback" not in world.controller.asked
        assert world.phase is Phase.DUAL_WRITE
        await world.run_operation("APPROVE", to=Phase.ROLLING_BACK)
        await rolls_back(world)

    asyncio.run(story())


def test_the_loss_is_shown_before_and_who_consented(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        world.controller.only_kraft = [ONE]
        await world.rounds()

    asyncio.run(story())
    view = migration_view(world.store, world.id, world.clock())
    assert view.road is not None
    assert view.road.back is not None
    assert (view.road.back.possible, view.road.back.lost, view.road.back.consented_by) == (False, [ONE], None)
    assert view.undo.lost.startswith(f"{ONE}; the metadata log is retired")
    (edge,) = [each for each in view.gates if each.trigger == "rollback"]
    (condition,) = [each for each in edge.conditions if each.name == LOST]
    assert (condition.status, condition.codes) == ("False", ["Z2K-4230"])
    assert any(
        each.startswith("rollback  not possible now: ") and each.endswith(f"lost: {ONE}") for each in lines(world)
    )

    asyncio.run(world.run_operation("APPROVE", to=Phase.ROLLING_BACK))
    assert "approved  ROLLING_BACK by Ada" in lines(world)
    assert f"rollback  possible; restarts no node; lost: {ONE}" in lines(world)


def test_a_consent_ends_after_four_hours(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        world.controller.only_kraft = [ONE]
        await world.rounds()
        await world.run_operation("APPROVE", to=Phase.ROLLING_BACK)
        assert closed_by(world) == {}
        world.clock.pass_by(4 * 3600.0)
        await world.rounds()
        assert closed_by(world) == {LOST: ("Z2K-4230",)}

    asyncio.run(story())


def test_while_dual_write_could_not_be_proved_it_is_the_same(world: World) -> None:
    world.runner.results["audit"] = Result(0, red_audit("orders-0"), "")

    async def story() -> None:
        await world.to_preflight()
        await world.run_operation("ADVANCE")
        await world.rounds(2)
        world.take_over()
        world.controller.audit, world.controller.only_kraft = None, [ONE]
        await world.rounds(3)
        assert world.phase is Phase.AUDIT
        assert (await world.run_operation("ROLL_BACK")).state == "refused"
        await world.run_operation("APPROVE", to=Phase.ROLLING_BACK)
        await rolls_back(world)

    asyncio.run(story())


def test_of_a_controller_that_does_not_tell_the_log_is_read_and_what_nobody_knows_needs_consent(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        world.controller.only_kraft = None
        await world.rounds()
        assert may_consent(world.snapshot) == (NOT_KNOWN,)
        assert closed_by(world) == {LOST: ("Z2K-4230",)}
        world.log.observed = msgspec.structs.replace(
            world.log.observed, problem="", migration="MIGRATION", only_kraft=(ONE,)
        )
        await world.rounds()
        assert may_consent(world.snapshot) == (ONE,)
        world.log.observed = msgspec.structs.replace(world.log.observed, only_kraft=())
        await world.rounds()
        await rolls_back(world)

    asyncio.run(story())


def test_before_the_takeover_there_is_nothing_to_consent_to(world: World) -> None:
    asyncio.run(world.to_ready())
    with pytest.raises(FindingError, match="Z2K-4003"):
        may_consent(world.snapshot)
