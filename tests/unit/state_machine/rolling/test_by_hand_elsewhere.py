"""Hands that obey bundles only, in the rolls that test_by_hand.py has not: brokers that join, and controllers, to
the finalize.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase
from state_machine.rows.observations import findings
from state_machine.work import acts_after_dual_write
from tests.support.hands import Hands
from tests.unit.state_machine.evidence.test_joining import FLAG, PLAIN, Joining
from tests.unit.state_machine.finish.test_before_finalize import Finalizing
from tests.unit.state_machine.rolling.test_rolling import BROKERS
from tests.unit.state_machine.under_stock import NODES, UnderStock
from tests.unit.state_machine.world import World

FROZEN = {"tool": "ansible", "by": "ops", "since": "2026-11-01T00:00:00Z"}
WHO = pytest.mark.parametrize("who", ["manual", "external"])


def give_to(who: str, directory: Path, role: str, waivers: tuple[str, ...] = ()) -> None:
    """Nodes of this role are reached by nobody. waivers: for each of them, as the documentation wants them."""
    file = directory / "fleets/orders.yaml"
    inventory: dict[str, Any] = json.loads(file.read_text())
    for each in inventory[role]:
        each["actuator"] = {"kind": who, "exchange": str(directory / "exchange")}
        each |= {"frozen": FROZEN} if who == "external" else {}
    inventory["waivers"] = [
        {"what": what, "node": each["id"], "owner": "Ada", "reason": "by hand", "end": "2099-01-01T00:00:00Z"}
        for each in inventory[role]
        for what in waivers
    ]
    file.write_text(json.dumps(inventory))


class ByBundles(World):
    """Before a world with hosts: nobody reaches them, and a person does what bundles say, after each round."""

    hosts: Any
    """Those of the world that stands after this class."""

    def __init__(self, directory: Path, who: str, role: str, waivers: tuple[str, ...] = ()) -> None:
        super().__init__(directory)
        self.hands = Hands(
            directory / "exchange", lambda node: self.act("stop", node), lambda node: self.act("start", node)
        )
        give_to(who, directory, role, waivers)

    def act(self, word: str, number: int) -> None:
        self.hosts.state(number, "running" if word == "start" else "stopped")
        with self.hosts.acts.open("a") as file:
            file.write(f"{word} {number}\n")

    async def turn(self, count: int = 1, seconds: float = 1.0) -> None:
        after_this_class: Any = super()
        for _ in range(count):
            await after_this_class.turn(seconds=seconds)
            said = [each.says for each in findings(self.store, self.id, only_open=True)]
            self.hands.copy_what_is_wanted(self.waiting, *said)
            self.hands.obey()


class JoiningByHand(ByBundles, Joining):
    def __init__(self, directory: Path, who: str) -> None:
        super().__init__(directory, who, "brokers")


class ControllersByHand(ByBundles, UnderStock):
    """Stock controllers that nobody reaches; ours are the service's own processes."""

    def __init__(self, directory: Path, who: str) -> None:
        super().__init__(directory, who, "controllers", ("Z2K-7040", "Z2K-4215"))


class FinalizingByHand(ByBundles, Finalizing):
    def __init__(self, directory: Path, who: str) -> None:
        super().__init__(directory, who, "controllers", ("Z2K-7040", "Z2K-4215"))


@WHO
def test_brokers_join_by_bundles_alone(tmp_path: Path, who: str) -> None:
    world = JoiningByHand(tmp_path, who)

    async def story() -> None:
        await world.to_joining()
        await world.advance()
        await world.until(lambda: world.phase is Phase.READY)

    asyncio.run(story())
    assert world.acts == [f"{act} {number}" for number in (0, 2, 1) for act in ("stop", "start")]
    for number in BROKERS:
        file = world.hosts.file(number)
        assert FLAG in file.read_text()
        (kept,) = file.parent.glob("server.properties.zk2kraft-*")
        assert kept.read_text() == PLAIN.format(id=number, port=9100 + number, logs=file.parent / "logs")


@WHO
def test_controllers_are_replaced_restarted_in_the_soak_and_put_back_by_bundles_alone(tmp_path: Path, who: str) -> None:
    world = ControllersByHand(tmp_path, who)

    async def story() -> int:
        await world.to_replacing()
        await world.until(lambda: world.phase is Phase.SOAK, 900)
        for node in NODES:
            assert world.hosts.runs(node)
            assert "zk2kraft." not in world.files[node].read_text()
        await world.until(lambda: {row.step for row in world.nodes_of(Roll.SOAK)} == {"WHOLE"}, 900)
        known = len(world.acts)
        await world.ask_back()
        await world.to_the_start()
        return known

    known = asyncio.run(story())
    there = world.acts_on(NODES)[: len(NODES) * 4]
    assert [act.split()[0] for act in there] == ["stop", "start"] * len(NODES) * 2, "one at a time"
    assert all(there.count(f"{act} {node}") == 2 for node in NODES for act in ("stop", "start"))
    assert sorted(world.acts_on(NODES, known)) == [f"stop {node}" for node in NODES], "the service starts ours"
    for node in NODES:
        assert world.files[node].read_text() == world.ours[node]
        assert not world.hosts.runs(node)


@WHO
def test_the_finalize_is_made_by_bundles_alone(tmp_path: Path, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = FinalizingByHand(tmp_path, who)
    monkeypatch.setattr(acts_after_dual_write, "write_intent", world.write_intent)

    async def story() -> None:
        await world.to_finalizing()
        await world.until(lambda: world.steps_of_final == {"WHOLE"}, 900)

    asyncio.run(story())
    acts = [each.split(" of ") for each in world.hands.did]
    assert len(world.intents) == 1
    for node in NODES:
        assert "migration.enable" not in world.files[node].read_text()
        assert world.hosts.runs(node)
        assert [act for act, of in acts if of == str(node)], "each one by a bundle of its own"
