"""The brokers of one rack are restarted together where the inventory asks for it and no partition needs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from migrator.model.at_a_stop import MIN_ISR, lost_without
from migrator.model.values import Partition
from state_machine.rows.store import find_migration
from tests.support.builders import a_partition, a_topic, an_image
from tests.unit.state_machine.rollback.test_rolling_back import RollingBack
from tests.unit.state_machine.rolling.test_rolling import BROKERS, Rolling, codes

RACKS = {0: "a", 1: "a", 2: "b"}
SPREAD = (a_partition(0, replicas=(0, 2)), a_partition(1, replicas=(2, 1)))


class Racks(Rolling):
    """Brokers 0 and 1 are in rack a, broker 2 is in rack b."""

    def __init__(self, directory: Path, *partitions: Partition, at_once: str = "rack") -> None:
        super().__init__(directory)
        self.log.image = an_image(a_topic("orders", partitions or SPREAD), brokers=BROKERS)
        file = directory / "fleets" / "orders.yaml"
        inventory = json.loads(file.read_text())
        file.write_text(json.dumps({**inventory, "at_once": at_once}))
        self.away: set[frozenset[int]] = set()

    def register(self) -> None:
        super().register()
        brokers = tuple(msgspec.structs.replace(each, rack=RACKS[each.id]) for each in self.log.observed.brokers)
        self.log.observed = msgspec.structs.replace(self.log.observed, brokers=brokers)
        self.away.add(frozenset(each for each in BROKERS if not self.hosts.runs(each)))


def under_way(world: Rolling) -> set[int]:
    return {row.node_id for row in world.journal if row.step in ("STOPPING", "STOPPED", "WRITTEN", "STARTED")}


def run(world: Racks, until: Callable[[], bool] | None = None) -> None:
    async def story() -> None:
        if not world.journal:
            await world.to_rolling()
        await world.until(until or (lambda: world.rolled))

    asyncio.run(story())


# --- what is judged ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "isr", "minimum", "lost"),
    [
        ((0, 1, 2), (0, 1, 2), 1, False),
        ((0, 1, 2), (0, 1, 2), 2, True),
        ((0, 2, 3), (0, 2, 3), 2, False),
        ((0, 2, 3), (0, 2), 2, True),
        ((0, 1), (0, 1), 1, True),
        ((0,), (0,), 1, True),
        ((2, 3), (2,), 2, False),
    ],
)
def test_a_partition_is_lost_where_too_few_are_in_sync_outside_of_the_rack(
    replicas: tuple[int, ...], isr: tuple[int, ...], minimum: int, lost: bool
) -> None:
    """Judged for all brokers of the rack together: each alone would do no harm to three replicas with a minimum of 2.
    A partition that has no replica in the rack is no reason.
    """
    image = an_image(a_topic("orders", [a_partition(0, replicas=replicas, isr=isr, leader=isr[0])]))
    assert lost_without(image, minimum, (0, 1)).count == int(lost)
    own = an_image(a_topic("o", [a_partition(0, replicas=replicas, isr=isr)]), topic_configs={"o": {MIN_ISR: "1"}})
    assert lost_without(own, minimum, (0, 1)).count == int(not set(isr) - {0, 1})


# --- the roll ---------------------------------------------------------------------------------------------


def test_brokers_of_a_rack_are_stopped_written_and_started_together_and_then_the_next_rack(tmp_path: Path) -> None:
    world = Racks(tmp_path)
    run(world)
    order = [act for act in world.acts if act.split()[1] in "01"]
    assert {*order[:2]} == {"stop 0", "stop 1"}
    assert {*order[2:]} == {"start 0", "start 1"}
    assert world.acts[-2:] == ["stop 2", "start 2"]
    assert all("process.roles=broker" in world.hosts.file(each).read_text() for each in BROKERS)


def test_without_the_option_racks_are_an_order_and_nothing_more(tmp_path: Path) -> None:
    world = Racks(tmp_path, at_once="node")
    run(world)
    assert world.acts == [f"{act} {number}" for number in BROKERS for act in ("stop", "start")]


def test_a_rack_that_a_partition_needs_is_restarted_one_by_one_and_says_why(tmp_path: Path) -> None:
    world = Racks(tmp_path, a_partition(0, replicas=(0, 1)), *SPREAD[1:])
    run(world, lambda: world.step(0) == "STARTED")
    assert "Z2K-4240" in codes(world)
    run(world)
    assert world.acts == [f"{act} {number}" for number in BROKERS for act in ("stop", "start")]
    assert all(len(each) < 2 for each in world.away)


@pytest.mark.parametrize("step", ["PREPARED", "STOPPING", "STOPPED", "WRITTEN", "STARTED"])
def test_a_service_that_dies_in_the_middle_of_a_rack_goes_on_with_it_and_touches_no_other(
    tmp_path: Path, step: str
) -> None:
    world = Racks(tmp_path)
    run(world, lambda: world.step(0) == step)
    world.start_service()
    run(world, lambda: under_way(world) > {0, 1} or world.step(2) != "PENDING")
    assert (world.step(0), world.step(1)) == ("WHOLE", "WHOLE")
    run(world)
    assert world.acts[-2:] == ["stop 2", "start 2"]


@pytest.mark.parametrize("back", [False, True])
def test_a_broker_that_fails_leaves_the_others_of_its_rack_to_come_up_and_stops_the_roll(
    tmp_path: Path, *, back: bool
) -> None:
    """And goes on from there when a person has mended it."""
    world = Racks(tmp_path)
    run(world, lambda: {world.step(0), world.step(1)} == {"STARTED"})
    world.hosts.state(1, "stopped")
    run(world, lambda: (world.step(0), world.step(1)) == ("WHOLE", "FAILED"))

    async def story() -> None:
        await world.turn(10)
        assert world.step(2) == "PENDING"
        assert world.waiting.startswith("blocked: ")
        assert "broker 1" in world.waiting
        if back:
            await world.run_operation("BACK", who="Ada", reason="its disk is slow")
            await world.until(lambda: world.step(1) == "BACK")
        await world.run_operation("RESUME", who="Ada", reason="its disk is mended")
        await world.until(lambda: world.rolled)

    asyncio.run(story())
    assert world.acts[-2:] == ["stop 2", "start 2"]


def test_a_pause_lets_the_rack_come_up_and_begins_no_other(tmp_path: Path) -> None:
    world = Racks(tmp_path)
    run(world, lambda: world.step(0) == "STOPPED")
    with world.store.writing() as session:
        find_migration(session, world.id).paused = "somebody wants to look"
    run(world, lambda: (world.step(0), world.step(1)) == ("WHOLE", "WHOLE"))

    async def story() -> None:
        await world.turn(10)

    asyncio.run(story())
    assert world.step(2) in ("PENDING", "PREPARED")
    assert "stop 2" not in world.acts


def test_all_of_a_rack_is_in_the_journal_before_the_first_stop(tmp_path: Path) -> None:
    world = Racks(tmp_path)
    seen: list[tuple[set[int], int]] = []
    original = world.hosts.acts

    def stopping() -> bool:
        seen.append((under_way(world), original.read_text().count("stop")))
        return world.step(0) == "WRITTEN"

    run(world, stopping)
    assert all(begun == {0, 1} for begun, stops in seen if stops)


class RacksBack(Racks, RollingBack):
    """And the way back."""


@pytest.mark.parametrize("step", ["STOPPED", "STARTED"])
def test_a_rollback_in_the_middle_of_a_rack_brings_its_brokers_back_one_after_the_other(
    tmp_path: Path, step: str
) -> None:
    world = RacksBack(tmp_path)

    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == step)
        assert under_way(world) == {0, 1}
        operation = await world.run_operation("ROLL_BACK", who="Ada", reason="not today")
        assert operation.state == "succeeded", operation.answer
        await world.to_the_start()

    asyncio.run(story())
    for number in BROKERS:
        assert world.hosts.runs(number)
        assert world.hosts.file(number).read_text() == world.file_of(number)
    assert "stop 2" not in world.acts


def test_a_rack_is_judged_after_the_lock_of_the_cluster_was_waited_for(tmp_path: Path) -> None:
    """Meanwhile an ISR may have shrunk."""
    world = Racks(tmp_path)

    class Slow:
        def hold(self, *_: object) -> None:
            if (world.step(0), world.step(1)) == ("PREPARED", "PREPARED"):
                partitions = (a_partition(0, replicas=(0, 1)), *SPREAD[1:])
                world.log.image = an_image(a_topic("orders", partitions), brokers=BROKERS)

        def release(self, *_: object) -> None:
            return None

    slow: Any = Slow()
    acts: Any = world.reconciler._acts

    async def story() -> None:
        await world.to_rolling()
        acts._road._roller._acts._locks = slow
        await world.until(lambda: world.rolled)

    asyncio.run(story())
    assert all(len(each) < 2 for each in world.away)
