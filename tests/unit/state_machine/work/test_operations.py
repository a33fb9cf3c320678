"""Operations that a driver was asked: each one ends, and none is carried out when nobody means it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from migrator.findings.finding import FindingError
from migrator.model.verdict import Condition, Verdict
from state_machine.clusters.observe import ZooKeeperObservation
from state_machine.evidence.of_gates import evidence
from state_machine.policy.gates import takeover_is_asked
from state_machine.policy.phases import Phase
from state_machine.rows.tables import Operation
from tests.unit.state_machine.world import World, a_world

CLOSED = Verdict((Condition("every replica is in sync", False, "demo-0: in sync (0, 1)"),))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as made:
        yield made


def again(world: World, operation: Operation) -> Operation:
    return world.store.operation(world.id, operation.id)


async def asked_in_dual_write(world: World) -> Operation:
    await world.to_dual_write()
    operation = await world.run_operation("ROLL_BACK")
    assert operation.state == "accepted"
    return operation


# --- a driver that let go of an operation -----------------------------------------------------------------------


def restart(world: World) -> None:
    world.controller.kill()
    world.controller.start("run-2")
    world.controller.move("RESUMING", "SYNCING", "UPDATING_BROKERS", "DUAL_WRITE")


def lose_the_lead(world: World) -> None:
    """The same process, which leads again later."""
    world.controller.move("IDLE", "RESUMING", "SYNCING", "UPDATING_BROKERS", "DUAL_WRITE")


@pytest.mark.parametrize("loses", [restart, lose_the_lead])
def test_a_rollback_that_the_driver_forgot_is_refused_and_can_be_asked_for_again(
    world: World, loses: Callable[[World], None]
) -> None:
    async def story() -> Operation:
        operation = await asked_in_dual_write(world)
        loses(world)
        await world.rounds(6)
        assert world.controller.asked.count("rollback") == 1, "nothing is handed on by itself"
        world.controller.on_ask = lambda _: world.rollback()
        await world.run_operation("ROLL_BACK")
        await world.rounds(2)
        return again(world, operation)

    operation = asyncio.run(story())
    assert (operation.state, operation.answer[:8]) == ("refused", "Z2K-4060")
    assert world.phase is Phase.ROLLED_BACK


def test_a_takeover_that_the_driver_let_go_of_is_refused_and_rehearsals_go_on(world: World) -> None:
    async def story() -> Operation:
        await world.to_ready()
        operation = await world.run_operation("ADVANCE")
        world.controller.move("IDLE", "WAIT_QUORUM", "WAIT_BROKERS")
        await world.rounds(6)
        before = world.runner.count("rehearse")
        await world.rounds(2, seconds=400)
        assert world.runner.count("rehearse") > before
        return again(world, operation)

    operation = asyncio.run(story())
    assert (operation.state, operation.answer[:8]) == ("refused", "Z2K-4060")
    assert world.controller.asked == ["takeover"]


def test_an_operation_that_the_driver_keeps_stays_asked(world: World) -> None:
    async def story() -> Operation:
        operation = await asked_in_dual_write(world)
        await world.rounds(10, seconds=60)
        return again(world, operation)

    assert asyncio.run(story()).state == "accepted"


def test_an_operation_of_a_controller_that_does_not_tell_stays_asked(world: World) -> None:
    async def story() -> Operation:
        await world.to_dual_write()
        world.controller.tells_operations = False
        operation = await world.run_operation("ROLL_BACK")
        await world.rounds(10)
        return again(world, operation)

    assert asyncio.run(story()).state == "accepted"


def test_an_abort_that_the_commit_overtook_is_refused_and_a_rollback_can_be_asked_for(world: World) -> None:
    async def story() -> tuple[Operation, Operation]:
        await world.to_ready()
        world.controller.on_ask = lambda _: world.take_over(until="AUDITING")
        await world.run_operation("ADVANCE")
        world.controller.on_ask = lambda _: None
        await world.rounds()
        abort = await world.run_operation("ABORT")
        await world.rounds(6, seconds=0.1)
        assert again(world, abort).state == "accepted", "it may still come in time"
        world.controller.move("COMMITTING", "SYNCING", "UPDATING_BROKERS")
        await world.rounds(5, seconds=0.1)
        world.controller.audit = None
        world.controller.move("DUAL_WRITE")
        await world.rounds()
        return again(world, abort), await world.run_operation("ROLL_BACK")

    abort, rollback = asyncio.run(story())
    assert (abort.state, abort.answer[:8]) == ("refused", "Z2K-4060")
    assert rollback.state == "accepted"


def test_a_driver_that_does_not_keep_an_operation_refuses_it(world: World) -> None:
    async def story() -> Operation:
        await world.to_dual_write()
        operation = world.operation("ROLL_BACK")
        world.controller.refuses = True
        await world.rounds()
        return again(world, operation)

    operation = asyncio.run(story())
    assert (operation.state, operation.answer[:8]) == ("refused", "Z2K-6012")


def test_a_rollback_takes_the_place_of_one_that_does_not_begin(world: World) -> None:
    async def story() -> tuple[Operation, Operation]:
        first = await asked_in_dual_write(world)
        second = await world.run_operation("ROLL_BACK")
        return again(world, first), second

    first, second = asyncio.run(story())
    assert (first.state, first.answer) == ("cancelled", "Ada requested rollback again")
    assert second.state == "accepted"


@pytest.mark.parametrize("undo", ["ROLL_BACK", "ABORT"])
def test_an_undo_takes_the_takeover_that_it_replaces_back_from_the_driver(world: World, undo: str) -> None:
    """Also where it then stops nothing: that there is nothing to abort yet, or that ZooKeeper does not answer."""

    async def story() -> Operation:
        await world.to_ready()
        advance = await world.run_operation("ADVANCE")
        assert list(world.controller.operations) == ["takeover"]
        world.zookeeper.observed = ZooKeeperObservation(problem="zk:2181 has not answered for 2 s")
        world.controller.migration = "MIGRATION"  # nothing is stopped
        await world.run_operation(undo)
        return again(world, advance)

    assert asyncio.run(story()).state == "cancelled"
    assert world.controller.alive
    assert world.controller.operations == {}


def test_an_abort_before_the_takeover_takes_it_back_and_the_migration_stays_ready(world: World) -> None:
    async def story() -> tuple[Operation, Operation]:
        await world.to_ready()
        advance = await world.run_operation("ADVANCE")
        assert list(world.controller.operations) == ["takeover"]
        assert abort_is_offered(world)
        abort = await world.run_operation("ABORT")
        await world.rounds(3)
        return again(world, advance), abort

    advance, abort = asyncio.run(story())
    assert (advance.state, abort.state) == ("cancelled", "succeeded")
    assert abort.answer == "the requested takeover is cancelled; nothing begins"
    assert world.controller.operations == {}
    assert world.phase is Phase.READY
    assert not abort_is_offered(world)


def test_an_abort_that_comes_as_the_takeover_begins_aborts_it(world: World) -> None:
    """The look that it was asked by did not show it yet."""

    async def story() -> Operation:
        await world.to_ready()
        await world.run_operation("ADVANCE")
        abort = world.operation("ABORT")
        world.controller.operations.clear()
        world.controller.move("TAKING_OVER")
        await world.rounds(1)
        assert world.controller.asked == ["takeover", "abort"]
        return abort

    asyncio.run(story())
    assert world.phase is Phase.TAKEOVER


def test_an_abort_says_so_when_the_controller_that_keeps_the_takeover_is_silent(world: World) -> None:
    async def story() -> Operation:
        await world.to_ready()
        await world.run_operation("ADVANCE")
        world.controller.app = unreachable_for_operations(world.controller.app)  # type: ignore[method-assign]
        return await world.run_operation("ABORT")

    abort = asyncio.run(story())
    assert abort.state == "refused"
    assert "Z2K-4021" in abort.answer


def test_an_abort_in_ready_is_refused_where_nobody_asked_for_a_takeover(world: World) -> None:
    async def story() -> Operation:
        await world.to_ready()
        return await world.run_operation("ABORT")

    abort = asyncio.run(story())
    assert abort.state == "refused"
    assert "Z2K-4003" in abort.answer


def abort_is_offered(world: World) -> bool:
    return takeover_is_asked(evidence(world.snapshot, world.clock())).holds


def test_a_rollback_goes_on_beside_a_controller_that_takes_nothing_back(world: World) -> None:
    async def story() -> None:
        await world.to_ready()
        await world.run_operation("ADVANCE")
        world.controller.app = unreachable_for_operations(world.controller.app)  # type: ignore[method-assign]
        await world.run_operation("ROLL_BACK")
        await world.rounds(2)

    asyncio.run(story())
    assert world.phase is Phase.ROLLED_BACK


def test_a_rollback_that_nobody_looked_at_yet_is_not_replaced(world: World) -> None:
    asyncio.run(world.to_dual_write())
    world.operation("ROLL_BACK")
    with pytest.raises(FindingError, match="Z2K-4009"):
        world.operation("ROLL_BACK")


# --- a takeover that waits --------------------------------------------------------------------------------


def test_a_takeover_recorded_while_the_service_was_down_for_long_is_not_begun(world: World) -> None:
    async def story() -> Operation:
        await world.to_ready()
        operation = world.operation("ADVANCE")
        world.clock.pass_by(61)
        world.start_service()
        await world.rounds()
        return again(world, operation)

    operation = asyncio.run(story())
    assert (operation.state, operation.answer[:8]) == ("refused", "Z2K-4061")
    assert world.controller.asked == []


def test_a_takeover_is_kept_through_closed_gates_and_taken_back_after_a_minute(world: World) -> None:
    async def story() -> Operation:
        await world.to_ready()
        operation = world.operation("ADVANCE")
        world.clock.pass_by(10)
        await world.rounds(seconds=9)
        world.controller.gate = CLOSED
        await world.rounds(5, seconds=9)
        assert again(world, operation).state == "accepted"
        assert list(world.controller.operations) == ["takeover"]
        await world.rounds()
        return again(world, operation)

    operation = asyncio.run(story())
    assert operation.state == "expired"
    assert "Z2K-4061" in operation.answer
    assert world.controller.operations == {}


def test_a_takeover_that_did_not_arrive_is_asked_again_only_on_a_gate_that_holds(world: World) -> None:
    async def story(gate: Verdict) -> Operation:
        await world.to_ready()
        ask = world.controller.app
        world.controller.app = unreachable_for_operations(ask)  # type: ignore[method-assign]
        operation = await world.run_operation("ADVANCE")
        assert (operation.state, world.controller.asked) == ("accepted", [])
        world.controller.app = ask  # type: ignore[method-assign]
        world.controller.gate = gate
        await world.rounds()
        return again(world, operation)

    operation = asyncio.run(story(CLOSED))
    assert operation.state == "refused"
    assert "every replica is in sync" in operation.answer
    assert world.controller.asked == []


def unreachable_for_operations(app: Callable[[], Starlette]) -> Callable[[], Any]:
    def broken() -> Any:
        routes = app()

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            if scope["method"] == "POST":
                raise httpx.ReadTimeout("no answer")
            await routes(scope, receive, send)

        return answer

    return broken


# --- hold -------------------------------------------------------------------------------------------------


async def held_after_an_abort(world: World) -> Operation:
    """The driver unlatches, and waits at its own gate."""
    await world.to_ready()
    world.controller.move("ABORTED", reason="an earlier takeover did not end well")
    await world.rounds()
    return await world.run_operation("ADVANCE")


def test_a_hold_takes_back_a_takeover_that_has_not_begun(world: World) -> None:
    async def story() -> tuple[Operation, Operation]:
        advance = await held_after_an_abort(world)
        pause = await world.run_operation("PAUSE", reason="lunch")
        return again(world, advance), pause

    advance, pause = asyncio.run(story())
    assert world.controller.operations == {}
    assert advance.state == "cancelled"
    assert pause.state == "succeeded"
    assert pause.answer.endswith("the takeover that Ada requested is cancelled; nothing begins")


def test_a_hold_that_comes_too_late_says_that_the_takeover_has_begun(world: World) -> None:
    async def story() -> Operation:
        await world.to_ready()
        world.controller.on_ask = lambda _: world.take_over(until="COPYING")
        world.operation("ADVANCE")
        return await world.run_operation("PAUSE")

    operation = asyncio.run(story())
    assert "has begun" in operation.answer
    assert "nothing will begin" not in operation.answer


def test_a_hold_inside_the_window_says_that_it_does_not_stop_it(world: World) -> None:
    async def story() -> Operation:
        await world.to_ready()
        world.controller.on_ask = lambda _: world.take_over(until="COPYING")
        await world.run_operation("ADVANCE")
        await world.rounds()
        return await world.run_operation("PAUSE")

    assert "`zk2kraft abort` ends it" in asyncio.run(story()).answer


def test_a_hold_that_cannot_reach_the_controller_says_so_and_tries_again(world: World) -> None:
    async def story() -> tuple[Operation, Operation]:
        advance = await held_after_an_abort(world)
        world.controller.deaf = True
        pause = await world.run_operation("PAUSE")
        assert again(world, advance).state == "accepted"
        world.controller.deaf = False
        await world.rounds()
        return again(world, advance), pause

    advance, pause = asyncio.run(story())
    assert "may still begin" in pause.answer
    assert "Z2K-4021" in pause.answer
    assert advance.state == "cancelled", "as soon as it answers"
    assert world.controller.operations == {}


def test_a_hold_says_when_an_older_controller_cannot_take_an_operation_back(world: World) -> None:
    async def story() -> Operation:
        await world.to_ready()
        world.controller.tells_operations = False
        await world.run_operation("ADVANCE")
        return await world.run_operation("PAUSE")

    assert "may still begin" in asyncio.run(story()).answer


def test_a_hold_with_nothing_under_way_only_holds(world: World) -> None:
    async def story() -> Operation:
        await world.to_ready()
        return await world.run_operation("PAUSE", reason="lunch")

    assert asyncio.run(story()).answer == "paused by Ada: lunch"
