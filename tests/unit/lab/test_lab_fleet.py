"""The laboratory's stock controllers start behind the shipped guard, as the road's gate wants it of every host."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.fleet.actuators import actuator_for
from migrator.fleet.guard import Proof, guard_proof
from migrator.fleet.inventory import read_inventory
from migrator.lab.fleet import LabFleet
from migrator.lab.ours import CONTROL_FILE, OurController
from migrator.lab.servers.controller import ControllerSpec


@pytest.fixture
def fleet(tmp_path: Path) -> Any:
    with ExitStack() as on_close:
        directory = tmp_path / "controller-3000"
        spec = ControllerSpec(
            node_id=3000, port=1, directory=directory, voters="3000@127.0.0.1:1", zookeeper_connect="127.0.0.1:2"
        )
        libs = tmp_path / "kafka"
        libs.mkdir()
        (libs / "kafka_2.13-3.9.2.jar").touch()
        laboratory: Any = SimpleNamespace(directory=tmp_path, on_close=on_close, artifacts=SimpleNamespace(libs=libs))
        broker = SimpleNamespace(
            broker_id=0, directory=tmp_path, properties_file=tmp_path / "b", spec=SimpleNamespace(log_directories=1)
        )
        cluster: Any = SimpleNamespace(
            laboratory=laboratory, brokers=[broker], zookeeper_connect="127.0.0.1:2", bootstrap_servers="127.0.0.1:3"
        )
        ours: Any = SimpleNamespace(
            spec=spec, cluster_id="c", properties_file=directory / "server.properties", data=directory / "data"
        )
        found = LabFleet(cluster, [ours])
        found.serve()
        found.write("orders")
        yield found


def test_the_laboratory_proves_the_guard_as_a_host_does(fleet: LabFleet) -> None:
    inventory = read_inventory(fleet.directory / "orders.yaml")
    (node,) = inventory.controllers
    actuator = actuator_for(inventory, node, fleet.directory / "templates")
    assert guard_proof(actuator, node.guard, node.properties).state is Proof.PROVEN
    later: Any = SimpleNamespace(libs=fleet.directory / "later")
    later.libs.mkdir()
    (later.libs / "kafka-server-4.0.0.jar").touch()
    fleet.stock[3000].kafka = later  # an upgrade
    assert "Z2K-7042" in guard_proof(actuator, node.guard, node.properties).reason
    fleet.stock[3000].kafka = None
    fleet.stock[3000].behind = ()  # somebody starts it without
    assert guard_proof(actuator, node.guard, node.properties).state is Proof.NOT_PROVEN
    assert fleet.stock[3000].why_not_ready() is not None
    assert isinstance(fleet._socket, socket.socket)


def test_a_controller_of_ours_that_is_put_back_is_not_down_any_more(fleet: LabFleet) -> None:
    """The service starts it, by no act of the fleet; its control file tells, while its process lives."""
    ours = OurController(fleet.cluster.laboratory, fleet.ours[0].spec, "c")
    fleet.ours[0] = ours
    fleet.act("stop", 3000)
    assert (fleet._down, fleet.most_down) == ({3000}, 1)
    ours.data.mkdir(parents=True)
    ended = subprocess.Popen(["/bin/true"])
    ended.wait(60)
    (ours.data / CONTROL_FILE).write_text(f'{{"pid": {ended.pid}}}')
    listens = ours.listens
    assert not listens
    (ours.data / CONTROL_FILE).write_text(f'{{"pid": {os.getpid()}}}')
    assert ours.listens
    fleet.servers[0] = fleet.servers[3000]
    fleet._locks[0] = fleet._locks[3000]
    fleet.act("stop", 0)
    assert (fleet._down, fleet.most_down) == ({0}, 1)
