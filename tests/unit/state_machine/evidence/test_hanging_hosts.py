"""Hosts that are slow, hang or are many: they are asked beside each other, and none of them holds a decision."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest

from migrator.model.image import EMPTY
from migrator.model.values import Topic
from state_machine.evidence.file_watch import read_files
from state_machine.nodes.disks import look_at_disks
from state_machine.nodes.fleet import Fleet, FleetNode
from state_machine.policy.fleet_evidence import BROKERS, Roll
from state_machine.rows.tables import JournalRow
from tests.unit.fleet.test_many import a_host
from tests.unit.state_machine.nodes.test_road_parts import Host, a_node, an_inventory_file
from tests.unit.state_machine.rolling.test_rolling import Rolling
from tests.unit.state_machine.world import World

FILE = b"broker.id=1\n"


@dataclass
class Together(Host):
    """It answers when as many hosts as the barrier has are asked at the same moment."""

    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(1))

    def read(self, path: str) -> bytes | None:
        self.barrier.wait(timeout=5)
        return FILE


def on_own_host(host: Host, number: int) -> FleetNode:
    node = a_node(host, BROKERS, number)
    return replace(node, node=msgspec.structs.replace(node.node, host=f"host{number}"))


def test_hosts_are_asked_beside_each_other(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)
    nodes = tuple(on_own_host(Together(barrier=barrier), number) for number in range(8))
    seen = read_files(World(tmp_path).snapshot, Fleet(an_inventory_file(), nodes, ""), 5.0)
    assert sorted(seen.checksums) == [f"broker {number}" for number in range(8)]


class Hanging(Rolling):
    """A word in a file keeps every host from saying whether its node runs."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.word = directory / "hangs"
        template = directory / "fleets/templates/local.yaml"
        document = json.loads(template.read_text())
        argv = document["acts"]["status"]["argv"]
        argv[2] = f"said=$({argv[2]}); while test -e {self.word}; do sleep 0.05; done; echo $said"
        template.write_text(json.dumps(document))

    def store_step(self, number: int, step: str) -> None:
        with self.store.writing() as session:
            session.get_one(JournalRow, (self.id, Roll.KRAFT, number)).step = step

    async def round(self) -> None:
        self.register()
        await asyncio.wait_for(self.reconciler.step(self.id), 20)
        self.clock.pass_by(1.0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Hanging]:
    world = Hanging(tmp_path)
    yield world
    world.word.unlink(missing_ok=True)


def test_a_host_that_hangs_holds_no_round_so_that_a_pause_is_settled(world: Hanging) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STARTED")
        world.word.touch()
        await world.round()
        asked = world.operation("PAUSE")
        await world.round()
        assert world.store.operation(world.id, asked.id).state == "succeeded"
        await world.round()
        assert "broker 0: its host is looked at" in world.waiting
        assert world.step(0) == "STARTED"
        world.word.unlink()
        await world.until(lambda: world.step(0) == "WHOLE")
        await world.turn(5)

    asyncio.run(story())
    assert world.acts == ["stop 0", "start 0"]
    assert "paused before broker 1" in world.waiting


def test_what_a_hanging_look_found_counts_only_for_the_step_in_which_it_was_asked_for(world: Hanging) -> None:
    """A person resumes or sends it back meanwhile: the row is another one, and its host is looked at again."""

    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STARTED")
        world.word.touch()
        await world.round()
        world.store_step(0, "STOPPED")
        world.hosts.state(0, "stopped")  # the look on its way has seen it run
        await world.round()
        world.word.unlink()
        await world.until(lambda: world.rolled)

    asyncio.run(story())
    assert [act for act in world.acts if act.endswith(" 0")] == ["stop 0", "start 0", "start 0"]


def test_the_topic_ids_of_twelve_directories_take_two_commands(tmp_path: Path) -> None:
    """Before, each topic of each directory was a command: 2,400 of them before each stop."""
    commands = tmp_path / "commands"
    image = EMPTY
    for number in range(36):
        topic = Topic(f"t{number}", number.to_bytes(16, "big"), ())
        image = msgspec.structs.replace(
            image, topics=image.topics.set(topic.id, topic), topic_ids=image.topic_ids.set(topic.name, topic.id)
        )
        log = tmp_path / f"disk{number % 12}" / f"{topic.name}-0"
        log.mkdir(parents=True)
        said = base64.urlsafe_b64encode(topic.id).decode().rstrip("=")
        (log / "partition.metadata").write_text(f"version: 0\ntopic_id: {said}\n")
    disks = tuple(str(tmp_path / f"disk{number}") for number in range(12))
    node = a_node(Host())
    host = a_host(commands=commands)
    node = replace(node, node=msgspec.structs.replace(node.node, log_dirs=disks), actuator=host)
    assert look_at_disks(node, image, with_ids=True).said == "no stray directory; 36 topic ids equal"
    assert commands.read_text().split() == ["read_many", "read_many"]
