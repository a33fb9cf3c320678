"""A journal that lost its last steps of a controller: the hosts are asked, and nobody takes stock's file for ours."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from migrator.fleet.files import checksum_of
from state_machine.policy.fleet_evidence import Roll
from state_machine.rolling.journal import record
from state_machine.rows.tables import JournalRow
from state_machine.work import acts_after_dual_write
from tests.unit.state_machine.finish.test_before_finalize import Finalizing
from tests.unit.state_machine.rolling.test_rolling import codes
from tests.unit.state_machine.under_stock import NODES, UnderStock


@pytest.fixture
def world(tmp_path: Path) -> UnderStock:
    return UnderStock(tmp_path)


@pytest.fixture
def finalizing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Finalizing:
    made = Finalizing(tmp_path)
    monkeypatch.setattr(acts_after_dual_write, "write_intent", made.write_intent)
    return made


def step_of(world: UnderStock, roll: Roll, node: int) -> str:
    return next((row.step for row in world.nodes_of(roll) if row.node_id == node), "")


def lose(world: UnderStock, roll: Roll, node: int) -> None:
    """The database is that from before the stop of this node: an asynchronous copy, or one that was put back."""
    record(world.store, world.id, roll, node, at=world.clock(), step="PREPARED", began_at=None)
    world.start_service()


def file_of(world: UnderStock, node: int) -> str:
    return world.files[node].read_text()


def test_a_stock_controller_whose_stop_in_the_soak_was_lost_is_named_and_resume_goes_on_with_it(
    world: UnderStock,
) -> None:
    async def first() -> None:
        await world.to_soak()
        await world.until(lambda: step_of(world, Roll.SOAK, 3001) == "PREPARED")
        world.hosts.state(3001, "stopped")  # by the service; the step after that is lost

    async def second() -> None:
        await world.until(lambda: "Z2K-4239" in codes(world))
        await world.turn(20)
        assert step_of(world, Roll.SOAK, 3001) == "PREPARED", "nobody but a person decides"
        assert world.snapshot.documents["files"]["contradicting"][0]["found"] == "its process is stopped"
        await world.run_operation("RESUME", who="Ada", reason="as the status says")
        # nobody lists snapshots of these hosts, so that the roll itself goes no further
        await world.until(lambda: step_of(world, Roll.SOAK, 3001) in ("STARTED", "WHOLE"))

    asyncio.run(first())
    world.start_service()
    asyncio.run(second())
    assert world.hosts.runs(3001)


def test_a_stop_for_the_finalize_that_the_journal_lost_goes_on_by_resume_where_the_intent_stands(
    finalizing: Finalizing,
) -> None:
    world, node = finalizing, NODES[1]

    async def first() -> None:
        await world.to_finalizing()
        await world.until(lambda: "STOPPED" in world.steps_of_final)

    async def second() -> None:
        await world.until(lambda: "Z2K-4239" in codes(world))
        await world.run_operation("RESUME", who="Ada")
        await world.turn(10)
        assert step_of(world, Roll.FINAL, node) == "PREPARED", (
            "somebody else may have stopped it: all of the gate counts"
        )
        world.zookeeper.observed = msgspec.structs.replace(world.zookeeper.observed, intent=world.intents[-1])
        await world.turn(3)
        await world.run_operation("RESUME", who="Ada", reason="as the status says")
        await world.until(lambda: step_of(world, Roll.FINAL, node) in ("WRITTEN", "STARTED", "WHOLE"))

    asyncio.run(first())
    node = next(row.node_id for row in world.nodes_of(Roll.FINAL) if row.step == "STOPPED")
    lose(world, Roll.FINAL, node)
    asyncio.run(second())
    assert "migration.enable" not in file_of(world, node)


def test_a_controller_that_is_stock_already_is_named_and_resume_ends_its_replacement(world: UnderStock) -> None:
    async def first() -> None:
        await world.to_replacing()
        await world.until(lambda: step_of(world, Roll.STOCK, 3001) == "STARTED")

    async def second() -> int:
        launched = len(world.launcher.launched)
        await world.until(lambda: "Z2K-4239" in codes(world))
        await world.turn(20)
        assert step_of(world, Roll.STOCK, 3001) == "PREPARED", "nobody but a person decides"
        await world.run_operation("RESUME", who="Ada", reason="as the status says")
        await world.until(lambda: step_of(world, Roll.STOCK, 3001) == "WHOLE")
        return len(world.launcher.launched) - launched

    asyncio.run(first())
    lose(world, Roll.STOCK, 3001)
    assert asyncio.run(second()) == 0, "ours is not started where stock may run"
    assert world.hosts.runs(3001)


def test_resume_stops_no_running_stock_controller_of_a_lost_journal_while_another_voter_is_away(
    world: UnderStock,
) -> None:
    """Else nobody leads: of three voters one is left."""

    async def first() -> None:
        await world.to_replacing()
        await world.until(lambda: step_of(world, Roll.STOCK, 3001) == "STARTED")

    async def second() -> None:
        await world.until(lambda: "Z2K-4239" in codes(world))
        world.launcher.ends_at_once = True
        world.controllers[2].kill()
        await world.turn(2)
        known = len(world.acts)
        await world.run_operation("RESUME", who="Ada")
        await world.turn(5)
        assert world.acts[known:] == []
        assert step_of(world, Roll.STOCK, 3001) == "PREPARED"
        world.launcher.ends_at_once = False
        await world.run_operation("RESUME", who="Ada")  # which also starts ours again
        await world.until(lambda: world.controllers[2].alive)
        await world.turn(3)
        await world.run_operation("RESUME", who="Ada")
        await world.until(lambda: step_of(world, Roll.STOCK, 3001) == "WHOLE")

    asyncio.run(first())
    lose(world, Roll.STOCK, 3001)
    asyncio.run(second())


def test_stocks_file_that_the_journal_does_not_know_is_never_taken_for_ours(world: UnderStock) -> None:
    """Else a rollback would put it in the place of ours."""

    async def first() -> None:
        await world.to_replacing()
        await world.until(lambda: step_of(world, Roll.STOCK, 3001) == "WHOLE")

    async def second() -> None:
        await world.until(lambda: "Z2K-4239" in codes(world))
        await world.run_operation("RESUME", who="Ada")
        await world.turn(10)
        assert step_of(world, Roll.STOCK, 3001) in ("", "PENDING"), "stock's file is not what was there before"
        world.hosts.state(3001, "stopped")  # and the kept file is copied over it, as the runbook says
        world.files[3001].write_text(world.ours[3001])
        await world.until(lambda: step_of(world, Roll.STOCK, 3001) == "WHOLE")

    asyncio.run(first())
    with world.store.writing() as session:
        session.delete(session.get_one(JournalRow, (world.id, Roll.STOCK, 3001)))
    world.start_service()
    asyncio.run(second())
    row = next(row for row in world.nodes_of(Roll.STOCK) if row.node_id == 3001)
    assert row.rendered_from == checksum_of(world.ours[3001].encode())


def test_controllers_that_are_left_with_stocks_file_are_named_when_the_cluster_went_back_by_hand(
    world: UnderStock,
) -> None:
    """docs/undo.md, "Without zk2kraft controllers": their start would claim the cluster again."""

    async def story() -> None:
        await world.to_soak()
        for node in NODES:
            world.hosts.state(node, "stopped")
        world.zookeeper.broker_rules()
        for _ in range(12):
            world.register()
            world.log.observed = msgspec.structs.replace(world.log.observed, problem="nobody answers", leader=None)
            await world.rounds(1, seconds=10.0)

    asyncio.run(story())
    said = f"controllers {list(NODES)} have stock's file"
    assert said in world.events[-1].reason
    assert said in world.waiting
