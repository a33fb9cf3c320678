"""One host that gives no answer, or one broker that is dead, does not close the way back, in any phase.

Hosts are those of test_rolling.py and under_stock.py; a dead one answers every act with exit code 255, as ssh does.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase
from tests.unit.state_machine.rollback.test_rolling_back import RollingBack
from tests.unit.state_machine.rolling.test_rolling import BROKERS, codes
from tests.unit.state_machine.under_stock import NODES, UnderStock

DEAD = 'test -e "$1/$2/dead" && exit 255; shift 2; exec "$@"'
AT_STAKE = "its stop takes no partition offline or below its minimum ISR"
MAJORITY = "a majority of the voters follows without it"


def can_die(world: RollingBack) -> None:
    """Acts on a host that is dead get no answer."""
    file = world.hosts.home.parent / "fleets/templates/local.yaml"
    template = json.loads(file.read_text())
    for act in template["acts"].values():
        act["argv"] = ["/bin/sh", "-c", DEAD, "sh", str(world.hosts.home), "{id}", *act["argv"]]
    file.write_text(json.dumps(template))


def dies(world: RollingBack, node: int, *, serves: bool = False) -> None:
    """serves: its process runs on; only the way to its host is cut."""
    (world.hosts.home / str(node) / "dead").touch()
    if not serves:
        world.hosts.state(node, "stopped")


def waive(world: RollingBack, what: str, node: int, end: str = "2099-01-01T00:00:00Z") -> None:
    file = world.hosts.home.parent / "fleets/orders.yaml"
    inventory: dict[str, Any] = json.loads(file.read_text())
    mine = {"what": what, "node": node, "reason": "its disk is dead", "owner": "Ada", "end": end}
    file.write_text(json.dumps({**inventory, "waivers": [*inventory.get("waivers", ()), mine]}))


@pytest.fixture
def world(tmp_path: Path) -> RollingBack:
    made = RollingBack(tmp_path)
    can_die(made)
    return made


@pytest.fixture
def stock(tmp_path: Path) -> UnderStock:
    made = UnderStock(tmp_path)
    can_die(made)
    return made


async def paused_after(world: RollingBack, whole: tuple[int, ...]) -> None:
    await world.to_rolling()
    await world.rolled_until(whole)
    await world.run_operation("PAUSE", who="Ada")
    await world.turn(3)


async def with_silent_host(world: RollingBack) -> None:
    await world.until(lambda: bool(world.snapshot.documents.get("files", {}).get("no_answer")))


def test_an_untouched_broker_dies_in_rolling_brokers_and_the_rollback_ends_and_names_it(world: RollingBack) -> None:
    async def story() -> None:
        await paused_after(world, (0, 1))
        dies(world, 2)
        await with_silent_host(world)
        await world.ask_back()
        await world.run_operation("RESUME", who="Ada")
        await world.to_the_start()
        await world.turn()

    asyncio.run(story())
    assert world.acts[4:] == ["stop 1", "start 1", "stop 0", "start 0"]
    assert "brokers [2] are not in /brokers/ids" in world.waiting
    for number in (0, 1):
        assert world.hosts.file(number).read_text() == world.file_of(number)


@pytest.mark.parametrize("mended", ["its host comes back", "it is left out by name"])
@pytest.mark.parametrize("serves", [True, False])
def test_a_broker_in_kraft_mode_whose_host_is_gone_goes_last_and_may_be_left_out(
    world: RollingBack, mended: str, serves: bool
) -> None:
    """It was restarted last, so that its turn back would have been the first one."""

    async def story() -> None:
        await paused_after(world, (0, 1))
        dies(world, 1, serves=serves)
        await with_silent_host(world)
        await world.ask_back()
        await world.run_operation("RESUME", who="Ada")
        await world.until(lambda: world.step_back(0) == "WHOLE")
        await world.turn(5)
        assert "before broker 1: the host of the next node answers" in world.waiting
        assert "Z2K-4237" in codes(world)
        assert world.phase is Phase.ROLLING_BACK
        if mended == "its host comes back":
            (world.hosts.home / "1/dead").unlink()
        else:
            waive(world, "Z2K-4237", 1)
        await world.to_the_start()
        await world.turn()

    asyncio.run(story())
    if mended == "its host comes back":
        assert world.acts[4:] == ["stop 0", "start 0", "stop 1", "start 1"]
        return
    assert world.acts[4:] == ["stop 0", "start 0"]
    assert "left out by name: broker 1, by Ada (its disk is dead)" in world.waiting
    assert "Z2K-4238" in codes(world)
    assert "broker 1, by Ada" in world.events[-1].reason


def test_a_broker_that_dies_in_its_restart_back_is_left_out_by_name_and_the_others_go_on(world: RollingBack) -> None:
    async def story() -> None:
        await paused_after(world, (0, 1))
        await world.ask_back()
        await world.run_operation("RESUME", who="Ada")
        await world.until(lambda: world.step_back(1) == "STOPPED")
        dies(world, 1)
        await world.until(lambda: world.step_back(1) == "FAILED", 900)
        waive(world, "Z2K-4237", 1)
        await world.to_the_start()

    asyncio.run(story())
    assert world.acts[-2:] == ["stop 0", "start 0"]


def test_a_waiver_that_ends_brings_its_node_back_into_the_roll_and_never_two_are_away(world: RollingBack) -> None:
    """The clock of the test is in 1970."""

    async def story() -> None:
        await paused_after(world, (0, 1))
        await world.ask_back()
        await world.run_operation("RESUME", who="Ada")
        await world.until(lambda: world.step_back(1) == "STOPPED")
        dies(world, 1)
        waive(world, "Z2K-4237", 1)
        await world.until(lambda: world.step_back(0) == "STOPPED", 900)
        (world.hosts.home / "1/dead").unlink()
        file = world.hosts.home.parent / "fleets/orders.yaml"
        file.write_text(json.dumps({**json.loads(file.read_text()), "waivers": []}))
        await world.run_operation("PAUSE", who="Ada")
        await world.until(lambda: world.step_back(0) == "WHOLE" and not world.snapshot.documents["files"]["waivers"])
        await world.run_operation("RESUME", who="Ada")
        await world.to_the_start()

    asyncio.run(story())
    for number in (0, 1):
        assert world.hosts.file(number).read_text() == world.file_of(number)
    assert world.acts[-1] == "start 1"


def test_a_stop_that_takes_a_partition_below_its_minimum_isr_waits_until_somebody_accepts_it(
    world: RollingBack,
) -> None:
    register = world.register

    def with_stakes() -> None:
        register()
        brokers = tuple(
            msgspec.structs.replace(each, at_stake=4 if each.id == 0 else 0) for each in world.log.observed.brokers
        )
        world.log.observed = msgspec.structs.replace(world.log.observed, brokers=brokers)

    world.register = with_stakes  # type: ignore[method-assign]

    async def story() -> None:
        await paused_after(world, (0, 1))
        dies(world, 2)
        await world.ask_back()
        await world.run_operation("RESUME", who="Ada")
        await world.until(lambda: world.step_back(1) == "WHOLE")
        await world.turn(10)
        assert f"before broker 0: {AT_STAKE}: 4 that lack replicas already" in world.waiting
        assert "stop 0" not in world.acts[4:]
        waive(world, AT_STAKE, 0)
        await world.to_the_start()

    asyncio.run(story())
    assert world.acts[4:] == ["stop 1", "start 1", "stop 0", "start 0"]


@pytest.mark.parametrize("serves", [True, False])
def test_from_the_soak_one_silent_host_of_a_broker_does_not_close_the_way_back(stock: UnderStock, serves: bool) -> None:
    async def story() -> None:
        await stock.to_soak()
        dies(stock, 1, serves=serves)
        await with_silent_host(stock)
        await stock.ask_back()
        await stock.until(lambda: {stock.step_back(each) for each in (0, 2)} == {"WHOLE"}, 900)
        await stock.turn(5)
        assert "before broker 1: the host of the next node answers" in stock.waiting
        waive(stock, "Z2K-4237", 1)
        await stock.to_the_start()

    asyncio.run(story())
    assert all(each.alive for each in stock.controllers), "they ask brokers for a minute"


def test_a_stock_controller_whose_host_is_lost_is_left_out_by_name_and_a_missing_majority_is_accepted(
    stock: UnderStock,
) -> None:
    """Of three one is dead: while another one is exchanged nobody leads, which has to be accepted too."""

    async def story() -> int:
        await stock.to_soak()
        known = len(stock.acts)
        dies(stock, 3002)
        await with_silent_host(stock)
        refused = await stock.run_operation("ROLL_BACK", who="Ada")
        assert refused.state == "refused"
        assert "the guard of controller 3002 is proven" in refused.answer
        waive(stock, "Z2K-4237", 3002)
        await stock.with_files()
        await stock.ask_back()
        await stock.turn(20)
        assert MAJORITY in stock.waiting
        assert stock.acts[known:] == []
        for node in (3000, 3001):
            waive(stock, MAJORITY, node)
        await stock.to_the_start()
        return known

    known = asyncio.run(story())
    assert {act for act in stock.acts[known:] if int(act.split()[1]) in NODES} == {"stop 3000", "stop 3001"}
    assert "controller 3002, by Ada" in stock.events[-1].reason
    for number in BROKERS:
        assert stock.hosts.file(number).read_text() == stock.file_of(number)
    assert not stock.nodes_of(Roll.OURS) or stock.ours_step(3002) == ""
