"""An act on a host that fails once is no failed node: a connection that was lost says nothing about the node.

Hosts are those of test_rolling.py; a file beside a host says how often its next acts fail, and with which exit code.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.unit.state_machine.rolling.test_rolling import Rolling, codes

LOST = (
    'f="$0.$1"; shift; if test -s "$f"; then code=$(head -n 1 "$f"); sed -i 1d "$f"; '
    'echo "Connection reset by peer" >&2; exit "$code"; fi; exec "$@"'
)


class Unreliable(Rolling):
    """Before each act its host looks whether this act is to fail."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        file = directory / "fleets/templates/local.yaml"
        template = json.loads(file.read_text())
        for name, act in template["acts"].items():
            act["argv"] = ["/bin/sh", "-c", LOST, f"{self.hosts.home}/lost.{name}", "{id}", *act["argv"]]
        file.write_text(json.dumps(template))

    def lose(self, act: str, number: int, times: int, code: int = 255) -> None:
        (self.hosts.home / f"lost.{act}.{number}").write_text(f"{code}\n" * times)


@pytest.fixture
def world(tmp_path: Path) -> Unreliable:
    return Unreliable(tmp_path)


@pytest.mark.parametrize("act", ["stop", "write", "start"])
def test_a_connection_that_is_lost_in_an_act_leaves_no_broker_down(world: Unreliable, act: str) -> None:
    world.lose(act, 0, times=4)
    seen: list[str] = []

    def whole() -> bool:
        seen.append(world.waiting)
        assert world.step(0) != "FAILED"
        return world.step(0) == "WHOLE"

    async def story() -> None:
        await world.to_rolling()
        await world.until(whole, seconds=3.0)

    asyncio.run(story())
    assert world.hosts.runs(0)
    assert any("again in" in each and "Z2K-7046" in each for each in seen), seen


def test_one_status_that_is_not_read_after_the_stop_leaves_no_broker_down(world: Unreliable) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "PREPARED")
        world.lose("status", 0, times=1)
        await world.until(lambda: world.step(0) in ("WHOLE", "FAILED"))

    asyncio.run(story())
    assert world.step(0) == "WHOLE"


def test_a_lost_connection_before_the_stop_keeps_the_broker_running_and_the_roll_goes_on_by_itself(
    world: Unreliable,
) -> None:
    world.lose("read", 0, times=5)

    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.rolled, seconds=2.0)

    asyncio.run(story())


def test_a_host_that_refuses_is_asked_three_times_and_then_a_person_decides(world: Unreliable) -> None:
    world.lose("start", 0, times=50, code=4)

    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "FAILED", seconds=3.0)
        await world.turn(3)

    asyncio.run(story())
    assert "Z2K-7021" in world.journal[0].cause
    assert "Z2K-4204" in codes(world)
    left = (world.hosts.home / "lost.start.0").read_text().count("\n")
    assert left == 47


def test_a_host_that_never_answers_fails_its_broker_when_the_time_of_a_node_is_over(world: Unreliable) -> None:
    world.lose("start", 0, times=1_000)

    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "FAILED", seconds=10.0)

    asyncio.run(story())
    assert world.journal[0].code == "Z2K-4201"
    assert "Connection reset by peer" in world.journal[0].cause


def test_a_person_may_go_back_while_an_act_waits_for_its_repetition(world: Unreliable) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STOPPED")
        world.lose("write", 0, times=1_000)
        await world.until(lambda: "again in" in world.waiting)
        operation = await world.run_operation("ROLL_BACK", who="Ada", reason="not today")
        assert operation.state == "succeeded", operation.answer

    asyncio.run(story())
