"""The way back, with controllers that die or do not lead: what may rule is kept alive, what rules nothing stops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from migrator.node.log.storage import RetiredMark
from state_machine.clusters.observe import ZooKeeperObservation
from state_machine.policy.gates import Evidence, Holder, ours_may_rule
from state_machine.policy.phases import Phase
from state_machine.rows.store import NewOperation
from tests.unit.state_machine.world import World, a_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as made:
        yield made


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path, voters=3) as made:
        yield made


async def begin_rollback(world: World) -> None:
    await world.to_dual_write()
    world.controller.on_ask = lambda operation: world.controller.move("ROLLING_BACK")
    await world.run_operation("ROLL_BACK")
    await world.rounds()
    assert world.phase is Phase.ROLLING_BACK


def test_a_controller_killed_while_it_rolls_back_is_started_again_and_left_alone(world: World) -> None:
    """Its claim stands, and it answers IDLE until it leads again."""

    async def story() -> None:
        await begin_rollback(world)
        world.controller.kill()
        await world.rounds(6)

    asyncio.run(story())
    assert world.launcher.launched == [3000, 3000]
    assert world.launcher.stopped == []
    assert "the cluster may depend on our controllers" in world.waiting


def test_it_resumes_dual_write_from_where_a_rollback_can_be_asked_for_again(world: World) -> None:
    async def story() -> None:
        await begin_rollback(world)
        world.controller.kill()
        await world.rounds(3)
        world.controller.move("RESUMING", "SYNCING", "UPDATING_BROKERS", "DUAL_WRITE")
        await world.rounds()
        assert world.phase is Phase.DUAL_WRITE
        world.controller.on_ask = lambda operation: world.rollback()
        await world.run_operation("ROLL_BACK")
        await world.rounds(2)

    asyncio.run(story())
    assert world.phase is Phase.ROLLED_BACK


def test_followers_are_not_stopped_while_their_leader_misses_a_look(quorum: World) -> None:
    async def story() -> None:
        await begin_rollback(quorum)
        quorum.controller.alive = False
        await quorum.rounds(2)
        for each in quorum.controllers[1:]:
            each.follow(None)
        await quorum.rounds(2)

    asyncio.run(story())
    assert quorum.launcher.stopped == []
    assert all(each.alive for each in quorum.controllers), "the one that died is started again"


def test_nothing_is_stopped_nor_started_while_zookeeper_does_not_answer_and_nobody_leads(world: World) -> None:
    async def story() -> None:
        await world.to_ready()
        world.controller.follow(None)
        world.zookeeper.observed = ZooKeeperObservation(problem="zk:2181 has not answered for 2 s")
        await world.run_operation("ROLL_BACK")
        await world.rounds(3)
        assert world.launcher.stopped == []
        assert "ZooKeeper does not answer" in world.waiting
        world.zookeeper.broker_rules()
        await world.rounds(3)

    asyncio.run(story())
    assert world.phase is Phase.ROLLED_BACK
    assert not world.controller.alive


def test_what_claimed_nothing_is_stopped_while_zookeeper_does_not_answer(quorum: World) -> None:
    async def story() -> None:
        await quorum.to_ready()
        quorum.zookeeper.observed = ZooKeeperObservation(problem="zk:2181 has not answered for 2 s")
        await quorum.run_operation("ROLL_BACK")
        await quorum.rounds(3)
        assert not any(each.alive for each in quorum.controllers)
        assert "controllers are stopped once" not in quorum.waiting, "they are"
        assert "ZooKeeper does not answer" in quorum.waiting
        quorum.zookeeper.broker_rules()
        await quorum.rounds()

    asyncio.run(story())
    assert quorum.phase is Phase.ROLLED_BACK
    assert quorum.launcher.launched == [3000, 3001, 3002]


def test_a_leader_that_claimed_nothing_is_not_stopped_beside_a_log_in_migration(quorum: World) -> None:
    """It may be the leader of yesterday, and ZooKeeper cannot be asked."""

    async def story() -> None:
        await quorum.to_ready()
        quorum.zookeeper.observed = ZooKeeperObservation(problem="gone")
        quorum.controllers[1].migration = "MIGRATION"
        await quorum.run_operation("ROLL_BACK")
        await quorum.rounds(3)

    asyncio.run(story())
    assert quorum.phase is Phase.ROLLING_BACK
    assert quorum.launcher.stopped == []


def test_a_controller_that_died_is_started_while_zookeeper_does_not_answer_and_the_log_is_in_migration(
    quorum: World,
) -> None:
    async def story() -> None:
        await begin_rollback(quorum)
        for each in quorum.controllers:
            each.migration = "MIGRATION"
        quorum.zookeeper.observed = ZooKeeperObservation(problem="gone")
        quorum.controllers[2].kill()
        await quorum.rounds(2)

    asyncio.run(story())
    assert quorum.launcher.launched == [3000, 3001, 3002, 3002]
    assert quorum.launcher.stopped == []


# --- killed between the mark and the last step ---------------------------------------------------------------


def mark_and_kill(world: World) -> None:
    RetiredMark(Path(world.controller.entry.data)).write("{}")
    world.controller.kill()
    world.launcher.ends_at_once = True
    world.launcher.said = "Z2K-2008 the log of this controller was rolled back"


def test_a_rollback_killed_after_its_mark_is_finished_by_a_start(world: World) -> None:
    async def story() -> None:
        await begin_rollback(world)
        mark_and_kill(world)
        await world.rounds()
        assert world.launcher.launched == [3000, 3000]
        assert world.waiting == "waiting: controller 3000 finishes the rollback (0 s)"
        await world.rounds()  # which looked just before the claim was deleted
        assert "went to finish the rollback and ended (Z2K-2008" in world.waiting
        world.zookeeper.nobody_rules()
        await world.rounds(2, seconds=0.1)
        world.zookeeper.broker_rules()
        await world.rounds()

    asyncio.run(story())
    assert world.phase is Phase.ROLLED_BACK
    assert world.launcher.launched == [3000, 3000]
    assert world.snapshot.processes[3000].quick_ends == 0


def test_a_rollback_is_finished_however_many_starts_it_takes(world: World) -> None:
    async def story() -> None:
        await begin_rollback(world)
        mark_and_kill(world)
        world.launcher.said = "Z2K-2001 zk:2181 does not answer"
        await world.rounds(120)

    asyncio.run(story())
    assert len(world.launcher.launched) == 1 + 12, "one every five seconds"
    assert world.waiting.startswith("waiting: controller 3000 went to finish the rollback and ended (Z2K-2001")
    assert world.snapshot.processes[3000].quick_ends == 0


def test_one_that_died_before_the_service_saw_it_rollback_finishes_it_too(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        mark_and_kill(world)
        await world.rounds()
        world.zookeeper.broker_rules()
        await world.rounds()

    asyncio.run(story())
    assert world.launcher.launched == [3000, 3000]
    assert world.phase is Phase.ROLLED_BACK


def test_a_log_that_was_rolled_back_is_not_started_where_the_claim_is_not_ours(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        mark_and_kill(world)
        world.zookeeper.broker_rules(migration_offset=9)
        await world.rounds()

    asyncio.run(story())
    assert world.launcher.launched == [3000]
    assert world.waiting.startswith("blocked: controller 3000 is not started: Z2K-2008")


# --- beside a /migration of somebody else ------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.CREATED, Phase.PREFLIGHT])
@pytest.mark.parametrize("has_controller", [True, False])
def test_a_rollback_starts_no_controller_that_never_ran(world: World, phase: Phase, has_controller: bool) -> None:
    async def story() -> None:
        if phase is Phase.PREFLIGHT:
            await world.to_preflight()
        world.zookeeper.broker_rules(migration_offset=123)
        if not has_controller:
            world.zookeeper.observed = msgspec.structs.replace(
                world.zookeeper.observed, holder=Holder.NOBODY, holder_id=None
            )
        await world.run_operation("ROLL_BACK")
        await world.rounds(3)

    asyncio.run(story())
    assert world.launcher.launched == []
    assert world.phase is Phase.ROLLING_BACK
    assert "/migration names no committed log: it names one (Z2K-2006)" in world.waiting


@pytest.mark.parametrize("state", ["WAIT_QUORUM", "WAIT_BROKERS", "ABORTED"])
@pytest.mark.parametrize("holder", [Holder.ZOOKEEPER_BROKER, Holder.ANOTHER])
def test_controllers_that_claimed_nothing_are_stopped_whatever_migration_says(
    quorum: World, state: str, holder: Holder
) -> None:
    async def story() -> None:
        await quorum.to_ready()
        quorum.zookeeper.broker_rules(migration_offset=123)
        quorum.zookeeper.observed = msgspec.structs.replace(quorum.zookeeper.observed, holder=holder)
        quorum.controller.move(state)
        await quorum.run_operation("ROLL_BACK")
        await quorum.rounds(4)
        assert not any(each.alive for each in quorum.controllers)
        assert "Z2K-2006" in quorum.waiting
        quorum.zookeeper.broker_rules()
        await quorum.rounds(2)

    asyncio.run(story())
    assert quorum.launcher.launched == [3000, 3001, 3002], "none is started again"
    assert quorum.phase is Phase.ROLLED_BACK


# --- after it ---------------------------------------------------------------------------------------------


async def another_migration(world: World) -> int:
    """The same files and directories under another name, as far as controllers that run."""
    inventory = msgspec.structs.replace(world.inventory, name="orders again")
    second = world.store.create(inventory, who="Ada", at=world.clock())[0].id
    for _ in range(2):
        world.store.record_operation(second, NewOperation(name="ADVANCE", who="Ada", reason="again"), at=world.clock())
        for _ in range(4):
            for number in world.store.numbers():
                await world.reconciler.step(number)
            await world.inspections_end()
            world.clock.pass_by(0.5)
    return second


def test_a_migration_that_is_over_leaves_the_controllers_of_the_next_one_alone(world: World) -> None:
    async def story() -> int:
        await world.to_ready()
        await world.run_operation("ROLL_BACK")
        await world.rounds(3)
        assert world.phase is Phase.ROLLED_BACK
        return await another_migration(world)

    second = asyncio.run(story())
    assert world.store.snapshot(second).phase is Phase.BROKERS_JOINING
    assert world.launcher.launched == [3000, 3000]
    assert world.launcher.stopped == [4712], "that was the first migration's own"
    assert world.phase is Phase.ROLLED_BACK
    assert world.waiting.startswith("done:")
    assert world.events[-1].to_phase == "ROLLED_BACK"


def test_a_retired_controller_of_ones_own_is_stopped_after_a_restart_of_the_service_too(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        world.controller.on_ask = lambda operation: world.rollback()
        await world.run_operation("ROLL_BACK")
        await world.reconciler.step(world.id)
        world.start_service()
        world.controller.since_ms = 61_000
        await world.rounds(3)

    asyncio.run(story())
    assert world.phase is Phase.ROLLED_BACK
    assert not world.controller.alive


@pytest.mark.parametrize(
    ("change", "may_rule"),
    [
        ({"holder": Holder.OURS}, True),
        ({"holder": Holder.NOBODY, "committed_migration": True}, True),
        ({"holder": Holder.UNKNOWN, "log_in_migration": True}, True),
        ({"holder": Holder.UNKNOWN}, False),
        ({"holder": Holder.ZOOKEEPER_BROKER, "committed_migration": False, "log_in_migration": True}, False),
        ({"holder": Holder.NOBODY, "committed_migration": False}, False),
        ({"holder": Holder.ZOOKEEPER_BROKER, "committed_migration": True}, False),
        ({"holder": Holder.ZOOKEEPER_BROKER, "committed_migration": True, "log_in_migration": True}, True),
        ({"holder": Holder.ANOTHER, "committed_migration": True}, False),
    ],
)
def test_ours_may_rule(change: dict[str, object], may_rule: bool) -> None:
    assert ours_may_rule(replace(Evidence(observation_age_s=0.1), **change)) is may_rule  # type: ignore[arg-type]
