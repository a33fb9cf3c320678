"""The whole road and back where no service reaches a host: a person obeys bundles, and the service believes evidence.

World and hosts are those of test_rolling_back.py; a person's hands take the place of commands.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from state_machine.policy.phases import Phase
from state_machine.rows.observations import findings
from tests.support.hands import Hands, leave, now
from tests.unit.state_machine.rollback.test_rolling_back import BEFORE, STEPS, RollingBack
from tests.unit.state_machine.rolling.test_rolling import BROKERS, FILE

FROZEN = {"tool": "ansible", "by": "ops", "since": "2026-11-01T00:00:00Z"}
META = "version=0\nbroker.id={id}\ncluster.id=cluster\ndirectory.id=d{id}\n"


class ByHand(RollingBack):
    """Brokers that nobody reaches. idle: the person does nothing."""

    def __init__(self, directory: Path, who: str, *, joined: bool = False) -> None:
        super().__init__(directory)
        self.joined = joined
        self.idle = False
        self.hands = Hands(directory / "exchange", self.stop_broker, self.start_broker)
        file = directory / "fleets/orders.yaml"
        inventory = json.loads(file.read_text())
        for each in inventory["brokers"]:
            each["actuator"] = {"kind": who, "exchange": str(self.hands.exchange)}
            if who == "external":
                each["frozen"] = FROZEN
        file.write_text(json.dumps(inventory))
        for number in BROKERS:
            self.meta(number).write_text(META.format(id=number))

    def meta(self, number: int) -> Path:
        return self.hosts.home / f"{number}/logs/meta.properties"

    def stop_broker(self, number: int) -> None:
        self.hosts.state(number, "stopped")
        self.note(f"stop {number}")

    def start_broker(self, number: int) -> None:
        """As Kafka: in KRaft mode it makes meta.properties version 1; with that, ZooKeeper mode does not start."""
        self.hosts.state(number, "running")
        self.note(f"start {number}")
        kraft = "process.roles" in self.hosts.file(number).read_text()
        meta = self.meta(number).read_text()
        if kraft:
            self.meta(number).write_text(meta.replace("version=0", "version=1").replace("broker.id", "node.id"))
        else:
            assert meta.startswith("version=0\nbroker.id="), meta

    def note(self, act: str) -> None:
        with self.hosts.acts.open("a") as file:
            file.write(f"{act}\n")

    async def turn(self, count: int = 1, seconds: float = 1.0) -> None:
        for _ in range(count):
            await super().turn(seconds=seconds)
            if not self.idle:
                said = [each.says for each in findings(self.store, self.id, only_open=True)]
                self.hands.copy_what_is_wanted(self.waiting, *said)
                self.hands.obey()


@pytest.fixture(params=["manual", "external"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> ByHand:
    return ByHand(tmp_path, request.param)


def test_a_person_moves_every_broker_there_and_back_by_bundles_alone(world: ByHand) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.rolled, 600)
        for number in BROKERS:
            assert "process.roles=broker" in world.hosts.file(number).read_text()
            (kept,) = world.hosts.file(number).parent.glob("server.properties.zk2kraft-*")
            assert kept.read_text() == world.file_of(number)
        await world.ask_back()
        await world.to_the_start()

    asyncio.run(story())
    there = [f"{act} {number}" for number in BROKERS for act in ("stop", "start")]
    back = [f"{act} {number}" for number in reversed(BROKERS) for act in ("stop", "start")]
    assert world.acts == [*there, *back]
    for number in BROKERS:
        assert world.hosts.file(number).read_text() == world.file_of(number, FILE)
        assert world.meta(number).read_text().startswith("version=0\nbroker.id=")
    assert world.steps[-1] == Phase.ROLLED_BACK


def test_a_person_brings_back_the_files_from_before_the_migration_too(tmp_path: Path) -> None:
    world = ByHand(tmp_path, "manual", joined=True)

    async def story() -> None:
        await world.to_rolling()
        await world.rolled_until((0, 1))
        await world.ask_back()
        await world.to_the_start()

    asyncio.run(story())
    for number in BROKERS:
        assert world.hosts.file(number).read_text() == world.file_of(number, BEFORE)


def test_nothing_is_reached_where_nobody_did_anything_not_even_by_a_crash(world: ByHand) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "PREPARED")
        world.idle = True
        await world.until(lambda: world.step(0) == "STOPPING")
        await world.turn(3)
        assert "a person has to act on broker 0" in world.waiting
        world.hosts.state(0, "stopped")  # it crashed
        await world.turn(10)
        assert world.step(0) == "STOPPING"
        world.hands.obey()
        await world.until(lambda: world.step(0) == "STOPPED")
        await world.turn(10)
        assert world.step(0) == "STOPPED"
        assert "server.properties.zk2kraft-" in world.waiting, "the predecessor is asked for first"
        for bundle in world.hands.open_bundles():
            leave(bundle, {"by": "Ada", "at": now(), "cluster_id": "cluster", "sha256": "0" * 64})
        await world.turn(10)
        assert world.step(0) == "STOPPED"
        assert "Z2K-7026" in world.waiting
        assert "process.roles" not in world.hosts.file(0).read_text()

    asyncio.run(story())


def test_a_service_that_dies_at_every_step_asks_for_nothing_twice(tmp_path: Path) -> None:
    world = ByHand(tmp_path, "manual")

    async def first() -> None:
        await world.to_rolling()

    async def life(step: str) -> None:
        behind = STEPS[STEPS.index(step) :]
        await world.until(lambda: world.step(1) in behind, 600)

    async def back() -> None:
        await world.rolled_until((0, 1))
        await world.ask_back()
        await world.to_the_start()

    asyncio.run(first())
    for step in STEPS:
        world.start_service()
        asyncio.run(life(step))
    there = [act for act in world.acts if act.endswith((" 0", " 1"))]
    assert there[:4] == ["stop 0", "start 0", "stop 1", "start 1"]
    world.start_service()
    asyncio.run(back())
    for number in BROKERS:
        assert world.hosts.file(number).read_text() == world.file_of(number, FILE)


def test_a_broker_whose_start_failed_goes_back_alone_by_bundles(tmp_path: Path) -> None:
    world = ByHand(tmp_path, "manual")
    world.settings = world.settings.model_copy(update={"node_deadline_s": 60.0})
    world.start_service()

    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "WRITTEN")
        world.idle = True
        await world.until(lambda: world.step(0) == "FAILED", 100)  # nobody starts it
        world.idle = False
        operation = await world.run_operation("BACK", who="Ada", reason="it does not start")
        assert operation.state == "succeeded", operation.answer
        await world.until(lambda: world.step(0) == "BACK", 100)

    asyncio.run(story())
    assert world.hosts.file(0).read_text() == world.file_of(0, FILE)
    assert world.meta(0).read_text().startswith("version=0\nbroker.id=")
