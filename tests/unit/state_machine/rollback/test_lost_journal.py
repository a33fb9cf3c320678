"""A journal that lost its last steps, or a cluster that went back by hand: the hosts are asked, and named."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase
from state_machine.rolling.journal import record
from state_machine.rows.tables import JournalRow
from tests.unit.state_machine.evidence.test_joining import Joining
from tests.unit.state_machine.rollback.test_rolling_back import RollingBack
from tests.unit.state_machine.rolling.test_rolling import codes


@pytest.fixture
def world(tmp_path: Path) -> RollingBack:
    return RollingBack(tmp_path)


def ours_are_dead_and_a_broker_is_controller(world: RollingBack) -> None:
    """`zk2kraft rollback --without-controllers --execute`."""
    world.controller.kill()
    world.launcher.ends_at_once = True
    world.zookeeper.broker_rules()


@pytest.mark.parametrize("step", ["STOPPED", "WRITTEN"])
def test_rolled_back_is_not_said_while_a_broker_is_down_that_the_service_stopped(world: RollingBack, step: str) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == step)
        ours_are_dead_and_a_broker_is_controller(world)
        await world.turn(5)
        assert world.phase is Phase.ROLLING_BROKERS
        assert not world.hosts.runs(0)
        assert "broker 0 is not as the journal says" in world.waiting
        assert "`zk2kraft rollback`" in world.waiting
        assert "Z2K-4239" in codes(world)
        operation = await world.run_operation("ROLL_BACK", who="Ada", reason="as the status says")
        assert operation.state == "succeeded", operation.answer
        await world.to_the_start()

    asyncio.run(story())
    assert world.hosts.runs(0)
    assert world.hosts.file(0).read_text() == world.file_of(0)


def test_a_broker_that_a_person_brought_back_by_hand_holds_nothing(world: RollingBack) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STOPPED")
        ours_are_dead_and_a_broker_is_controller(world)
        await world.turn(3)
        assert world.phase is Phase.ROLLING_BROKERS
        world.hosts.file(0).write_text(world.file_of(0))
        world.hosts.state(0, "running")
        await world.turn(3)

    asyncio.run(story())
    assert world.phase is Phase.ROLLED_BACK


def test_a_stop_that_the_journal_lost_is_named_at_the_start_of_the_service_and_resume_goes_on_with_it(
    world: RollingBack,
) -> None:
    """The last transaction is lost: an asynchronous copy of the database, or one that was put back."""

    async def first() -> None:
        await world.to_rolling()
        await world.rolled_until((0,))
        await world.until(lambda: world.step(1) == "STOPPED")

    async def second() -> None:
        await world.until(lambda: "Z2K-4239" in codes(world))
        await world.turn(20)
        assert world.step(1) == "PREPARED", "nobody but a person decides"
        assert not world.hosts.runs(1)
        await world.run_operation("RESUME", who="Ada", reason="as the status says")
        await world.until(lambda: world.rolled)

    asyncio.run(first())
    record(world.store, world.id, Roll.KRAFT, 1, at=world.clock(), step="PREPARED", began_at=None)
    world.start_service()
    asyncio.run(second())
    assert world.hosts.runs(1)


def test_a_kraft_file_that_the_journal_does_not_know_is_never_taken_for_the_file_of_before(world: RollingBack) -> None:
    """Else the way back would have no file to go back to."""

    async def first() -> None:
        await world.to_rolling()
        await world.rolled_until((0,))
        await world.run_operation("PAUSE", who="Ada")
        await world.turn(3)

    async def second() -> None:
        await world.until(lambda: "Z2K-4239" in codes(world))
        await world.run_operation("RESUME", who="Ada")
        await world.until(lambda: world.step(0) == "FAILED")
        assert "is a file of KRaft mode already" in world.journal[0].cause

    asyncio.run(first())
    with world.store.writing() as session:
        session.delete(session.get_one(JournalRow, (world.id, Roll.KRAFT, 0)))
    world.start_service()
    asyncio.run(second())


def test_a_broker_that_failed_while_it_joined_is_named_before_the_rollback_says_that_it_is_over(tmp_path: Path) -> None:
    """Nothing was taken over, and no broker restarts in this rollback: a person starts the one that is down."""
    world = Joining(tmp_path)

    async def story() -> None:
        await world.to_joining()
        await world.advance()
        await world.until(lambda: world.step(0) == "STARTED")
        world.hosts.state(0, "stopped")
        await world.until(lambda: world.step(0) == "FAILED")
        operation = await world.run_operation("ROLL_BACK", who="Ada")
        assert operation.state == "succeeded", operation.answer
        await world.turn(5)
        assert world.phase is Phase.ROLLING_BACK
        assert "broker 0 is not as the journal says" in world.waiting
        assert "start what the service stopped" in world.waiting
        world.hosts.state(0, "running")
        await world.turn(5)

    asyncio.run(story())
    assert world.phase is Phase.ROLLED_BACK
