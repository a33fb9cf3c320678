"""A stock controller whose registration was never sent is started again, once; without that the roll would stand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from migrator.fleet.actuator import ProcessState
from migrator.fleet.roll import NodeAct, Perform, RollStep, Wait, decide
from state_machine.clusters.log_observer import LogController, LogObservation, LogVoter
from state_machine.policy.fleet_evidence import Roll
from state_machine.rolling.unsent_registrations import UNSENT_S, UnsentRegistrations, before_its_second_stop, is_unsent
from state_machine.rows.tables import JournalRow
from tests.unit.fleet.test_roll import NOT_READY, broker, now, seen
from tests.unit.state_machine.under_stock import UnderStock

NODE = 3002
FOLLOWS = LogObservation(
    problem="",
    leader=3001,
    controllers=(LogController(NODE, "before", zk_migration_ready=True),),
    voters=(LogVoter(3000, 100, 0, 300), LogVoter(3001, 100, 0), LogVoter(NODE, 100, 0, 300)),
)


@pytest.fixture
def world(tmp_path: Path) -> UnderStock:
    return UnderStock(tmp_path)


def a_row(step: str = "STARTED") -> JournalRow:
    return JournalRow(
        roll="final", node_id=NODE, role="controller", step=step, incarnation="before", detail="final file"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"controllers": (LogController(NODE, "after", zk_migration_ready=False),)},
        {"leader": None},
        {"problem": "no controller leads"},
        {"leader": NODE},
        {"voters": (LogVoter(NODE, 100, 3, 300),)},
        {"voters": (LogVoter(NODE, 100, 0, 60_000),)},
        {"voters": (LogVoter(NODE, 100, 0),)},
        {"voters": ()},
        {"voters": (LogVoter(3000, 100, 50, 900_000), *FOLLOWS.voters[1:])},
    ],
    ids=[
        "registered",
        "no leader",
        "not observed",
        "leads",
        "behind",
        "away",
        "unknown",
        "no voter",
        "another is away",
    ],
)
def test_only_one_that_follows_and_is_registered_as_before_is_meant(changes: dict[str, object]) -> None:
    assert is_unsent(a_row(), FOLLOWS)
    assert not is_unsent(a_row("WRITTEN"), FOLLOWS)
    assert not is_unsent(a_row(), msgspec.structs.replace(FOLLOWS, **changes))


def test_it_has_half_a_minute_and_is_started_again_once() -> None:
    unsent, row = UnsentRegistrations(), a_row()
    behind = msgspec.structs.replace(FOLLOWS, leader=None)
    assert not unsent.is_due(row, FOLLOWS, 0.0)
    assert not unsent.is_due(row, behind, UNSENT_S)
    assert not unsent.is_due(row, FOLLOWS, UNSENT_S + 1)
    assert not unsent.is_due(row, FOLLOWS, 2 * UNSENT_S)
    assert unsent.is_due(row, FOLLOWS, 2 * UNSENT_S + 1)
    row.detail = before_its_second_stop(row)["detail"]
    assert not unsent.is_due(row, FOLLOWS, 3 * UNSENT_S)
    assert not UnsentRegistrations().is_due(row, FOLLOWS, 0.0), "nor in another life of the service"


def test_a_record_on_its_way_does_not_begin_the_half_minute_anew() -> None:
    flickers = msgspec.structs.replace(FOLLOWS, voters=(LogVoter(NODE, 100, 1, 300, caught_up_ms_ago=600),))
    assert is_unsent(a_row(), flickers)


def test_it_is_stopped_as_any_node_before_its_start() -> None:
    entry = broker(NODE, RollStep.STARTED, role="controller")
    stuck = seen(ProcessState.RUNNING, registers_never=True)
    assert decide([entry], now(nodes={NODE: stuck})) == Perform(NODE, NodeAct.STOP)
    assert isinstance(decide([entry], now(nodes={NODE: stuck}, cluster=NOT_READY)), Wait)


def test_the_replacement_goes_on_by_itself(world: UnderStock) -> None:
    async def story() -> None:
        await world.to_replacing(3001)
        await world.run_operation("PAUSE", who="Ada")
        await world.turn(3)
        await world.with_files()
        world.unsent[NODE] = 1
        await world.run_operation("RESUME", who="Ada")
        await world.until(lambda: world.stock_step(NODE) == "WHOLE")

    asyncio.run(story())
    assert world.acts_on([NODE]) == [f"{act} {NODE}" for act in ("stop", "start", "stop", "start")]
    (row,) = [each for each in world.nodes_of(Roll.STOCK) if each.node_id == NODE]
    assert "never sent its registration (KAFKA-20247)" in row.detail
