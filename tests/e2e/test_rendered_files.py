"""Kafka's own parser accepts what was rendered from the laboratory's files, and refuses what we refuse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from migrator.fleet.kafka_parser import why_kafka_refuses
from migrator.fleet.properties_file import Document, parse_properties
from migrator.fleet.render import FLAG, FileKind, Rendered, Wanted, render
from migrator.lab.servers.artifacts import kafka_artifacts
from migrator.lab.servers.broker import BrokerSpec
from migrator.lab.servers.controller import ControllerSpec
from migrator.lab.servers.properties import render as text_of

pytestmark = pytest.mark.lab

VOTERS = "3000@127.0.0.1:29093"
WANTED = Wanted(
    voters=VOTERS, controller_listener="CONTROLLER", super_users=("User:ANONYMOUS",), metadata_version="3.9"
)


def refused(document: Document) -> str | None:
    kafka = kafka_artifacts()
    return why_kafka_refuses(document, os.path.join(kafka.libs, "*"), kafka.java.path)


def of_broker(directory: Path, *more: str) -> Document:
    spec = BrokerSpec(broker_id=1, port=29092, directory=directory, zookeeper_connect="127.0.0.1:2181/k")
    return parse_properties((text_of(spec.properties()) + "".join(f"{line}\n" for line in more)).encode(), "broker")


def accepted(rendered: Rendered) -> Document:
    assert refused(rendered.require().document) is None
    return rendered.document


def test_kafka_accepts_a_broker_on_its_way_there_and_back(tmp_path: Path) -> None:
    present = of_broker(
        tmp_path,
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
        "control.plane.listener.name=CP",
        "advertised.listeners=PLAINTEXT://127.0.0.1:29092,CP://127.0.0.1:29095",
        "listeners=PLAINTEXT://127.0.0.1:29092,CP://127.0.0.1:29095",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CP:PLAINTEXT",
        "broker.id.generation.enable=true",
    )
    assert refused(present) is None
    migration = accepted(render("broker", present, FileKind.MIGRATION, WANTED))
    kraft = accepted(render("broker", migration, FileKind.KRAFT, WANTED))
    assert accepted(render("broker", kraft, FileKind.BACK, WANTED, migration)).content == migration.content


def test_kafka_accepts_a_controller_from_ours_to_the_end(tmp_path: Path) -> None:
    spec = ControllerSpec(
        node_id=3000, port=29093, directory=tmp_path, voters=VOTERS, zookeeper_connect="127.0.0.1:2181/k",
        extra={"zk2kraft.gates": "pause"},
    )  # fmt: skip
    ours = parse_properties(text_of(spec.properties()).encode(), "controller")
    stock = accepted(render("controller", ours, FileKind.STOCK, Wanted(node=3000)))
    assert stock.value(FLAG) == "true"
    accepted(render("controller", stock, FileKind.FINALIZED, Wanted(node=3000)))


def test_kafka_refuses_what_a_rule_prevents(tmp_path: Path) -> None:
    kraft = render("broker", of_broker(tmp_path), FileKind.KRAFT, WANTED).require().document
    assert "control.plane.listener.name" in (refused(kraft.with_values({"control.plane.listener.name": "CP"})) or "")
    migration = render("broker", of_broker(tmp_path), FileKind.MIGRATION, WANTED).require().document
    without = migration.without(lambda key: key in ("controller.listener.names", "listener.security.protocol.map"))
    assert refused(without) is not None
