"""Kafka's own parser is asked before a node is stopped; where it cannot be, that is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.findings.fleet import KAFKA_REFUSES_FILE
from migrator.fleet.asked_parser import kafka_says
from migrator.fleet.properties_file import Document, parse_properties
from migrator.fleet.render import FileKind, Rendered, Wanted, render
from state_machine.nodes.fleet import Fleet
from state_machine.policy.fleet_evidence import CONTROLLERS, Roll
from state_machine.rolling import round
from state_machine.rolling.table import KINDS
from tests.unit.state_machine.nodes.test_road_parts import Host, a_node, a_task, an_inventory_file
from tests.unit.state_machine.world import World

FILE = b"broker.id=1\nzookeeper.connect=zk1:2181\ninter.broker.protocol.version=3.9\nlog.dirs=/srv/k\n"
RENDERED = render(
    "broker",
    parse_properties(FILE, "server.properties"),
    FileKind.MIGRATION,
    Wanted(voters="3000@c:9093", controller_listener="CONTROLLER"),
)


def refusing(document: Document, *_: Any) -> str | None:
    raise KAFKA_REFUSES_FILE.error(file=document.name, reason="broker.id is too high")


def test_what_kafka_refuses_is_raised_and_what_it_takes_is_said(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def accepting(_: Document, class_path: str, java: str) -> str | None:
        asked.append((class_path, java))
        return None

    (tmp_path / "libs").mkdir()
    assert kafka_says(RENDERED, tmp_path, lambda _: "/jdk/java", accepting) == "Kafka's own parser accepts it"
    assert asked == [(f"{tmp_path}/libs/*", "/jdk/java")]
    with pytest.raises(FindingError, match=r"Z2K-7035|too high") as raised:
        kafka_says(RENDERED, tmp_path, lambda _: "/jdk/java", refusing)
    assert raised.value.code == "Z2K-7035"


def test_where_kafka_cannot_be_asked_it_is_said_and_nothing_stops(tmp_path: Path) -> None:
    for kafka in (None, tmp_path / "kafka"):
        assert "was not asked" in kafka_says(RENDERED, kafka, lambda _: "/jdk/java", refusing)
    assert "no java" in kafka_says(RENDERED, tmp_path, lambda _: None, refusing)
    said = kafka_says(RENDERED, tmp_path, lambda _: "java", lambda *_: "not tried: config.providers")
    assert said.endswith("not asked: not tried: config.providers")


def test_a_roll_asks_kafka_while_the_node_still_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = b"process.roles=controller\nnode.id=3000\ncontroller.quorum.voters=3000@c:9093,3001@d:9093\n"
    ours += b"zookeeper.connect=zk:2181\n"
    node = a_node(Host({"/etc/kafka.properties": ours}), CONTROLLERS, 3000)
    fleet = Fleet(an_inventory_file(), (node,), "")
    world = World(tmp_path)
    settings = world.settings.model_copy(update={"fleets": tmp_path / "fleets"})
    world.settings, stock = settings, KINDS[Roll.STOCK]
    task = a_task(world, world.snapshot, Roll.STOCK, fleet, node)
    prepared = stock.prepare(task)
    assert f"not asked: {tmp_path / 'fleets' / 'kafka'} is no directory" in prepared["detail"]

    def says(rendered: Rendered, kafka: Path | None) -> str:
        assert kafka == tmp_path / "fleets" / "kafka"
        return str(refusing(rendered.document))

    monkeypatch.setattr(round, "kafka_says", says)
    with pytest.raises(FindingError, match="too high"):
        stock.prepare(task)
