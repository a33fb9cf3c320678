"""Hands that obey bundles only, and one host on which nobody can do anything any more: the way back stays open.

World and hosts are those of test_by_hand.py and test_by_hand_elsewhere.py.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from migrator.findings.road import NODE_HOLDS_WAY_BACK
from state_machine.policy.phases import Phase
from state_machine.rollback.stops import MAJORITY
from tests.unit.state_machine.rollback.test_dead_hosts import waive
from tests.unit.state_machine.rolling.test_by_hand import ByHand
from tests.unit.state_machine.rolling.test_by_hand_elsewhere import WHO, ControllersByHand
from tests.unit.state_machine.rolling.test_rolling import BROKERS, codes
from tests.unit.state_machine.under_stock import NODES


def dies(world: ByHand | ControllersByHand, node: int) -> None:
    world.hands.dead.add(node)
    world.hosts.state(node, "stopped")


async def back_without(world: ByHand, node: int) -> None:
    """Asks, and gives up the node by name once the status says that it holds the way back."""
    await world.ask_back()
    await world.until(lambda: NODE_HOLDS_WAY_BACK.code in codes(world) or world.step_back(node) == "FAILED", 900)
    waive(world, NODE_HOLDS_WAY_BACK.code, node)
    await world.to_the_start()


@pytest.mark.parametrize(
    ("who", "at"), [("manual", "WHOLE"), ("external", "WHOLE"), ("manual", "STOPPED"), ("external", "WRITTEN")]
)
def test_a_broker_that_dies_on_the_way_there_is_left_out_by_name(tmp_path: Path, who: str, at: str) -> None:
    """In KRaft mode, or in the middle of its restart."""
    world = ByHand(tmp_path, who)

    async def story() -> None:
        await world.to_rolling()
        await world.rolled_until((0,))
        await world.until(lambda: world.step(1) == at, 900)
        dies(world, 1)
        await back_without(world, 1)

    asyncio.run(story())
    for number in set(BROKERS) - {1}:
        assert world.hosts.file(number).read_text() == world.file_of(number)
        assert world.hosts.runs(number)
    assert "broker 1, by Ada" in world.events[-1].reason


@WHO
def test_a_broker_that_dies_in_its_restart_back_is_left_out_by_name(tmp_path: Path, who: str) -> None:
    world = ByHand(tmp_path, who)

    async def story() -> None:
        await world.to_rolling()
        await world.rolled_until((0, 1))
        await world.ask_back()
        await world.until(lambda: world.step_back(1) == "STOPPED", 900)
        dies(world, 1)
        await world.until(lambda: world.step_back(1) == "FAILED", 900)
        waive(world, NODE_HOLDS_WAY_BACK.code, 1)
        await world.to_the_start()

    asyncio.run(story())
    assert world.hosts.file(0).read_text() == world.file_of(0)
    assert world.hosts.runs(0)


@pytest.mark.parametrize(("who", "phase"), [("external", Phase.REPLACING_CONTROLLERS), ("manual", Phase.SOAK)])
def test_a_stock_controller_that_dies_is_left_out_by_name(tmp_path: Path, who: str, phase: Phase) -> None:
    """Of three one is dead: while another one is exchanged nobody leads, which has to be accepted too."""
    world = ControllersByHand(tmp_path, who)
    dead = NODES[0]

    async def story() -> None:
        await world.to_replacing()
        await world.until(lambda: world.phase is phase and world.stock_step(dead) == "WHOLE", 900)
        dies(world, dead)
        waive(world, NODE_HOLDS_WAY_BACK.code, dead)
        for node in set(NODES) - {dead}:
            waive(world, MAJORITY, node)
        await world.ask_back()
        await world.to_the_start()

    asyncio.run(story())
    for node in set(NODES) - {dead}:
        assert not world.hosts.runs(node)
    assert f"controller {dead}, by Ada" in world.events[-1].reason
