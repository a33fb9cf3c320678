"""Before the first act on a host: is it the one of the inventory, and has it ended before its file is written?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from migrator.findings.finding import FindingError
from migrator.findings.fleet import ACT_FAILED, HOST_NOT_REACHED, NODE_IS_ANOTHER
from migrator.findings.road import BROKERS_DIFFER
from migrator.fleet.actuator import ProcessState, ProcessStatus
from migrator.fleet.by_others import ByOthers
from migrator.fleet.inventory import Node
from state_machine.nodes.fleet import FleetNode
from state_machine.nodes.identity import confirm, is_file_of, named_file, not_ended
from state_machine.policy.gates_forward import may_replace_controllers, may_roll_brokers
from state_machine.policy.phases import Phase
from state_machine.rows.tables import Migration
from tests.support.hosts import FakeHost
from tests.unit.state_machine.policy.test_road_gates import closed, codes, evidence
from tests.unit.state_machine.rolling.test_rolling import Rolling

FILE = "/etc/kafka/server.properties"
META = "/data/kafka/meta.properties"
JAVA = ("/usr/bin/java", "-Xmx1G", "-Dlog4j.configuration=file:/etc/kafka/log4j.properties", "-cp", "/opt/kafka/libs/*")


@dataclass
class Host(FakeHost):
    command: tuple[str, ...] = ()

    def status(self) -> ProcessStatus:
        return ProcessStatus(ProcessState.RUNNING, 4711, self.command)


def a_host(
    meta: str = "version=0\ncluster.id=cluster\nbroker.id=1\n",
    file: str = "broker.id=1\nzookeeper.connect=zk2:2181,zk1:2181/kafka\n",
    command: tuple[str, ...] = (),
    **more: str,
) -> Host:
    files = {META: meta, FILE: file, **{f"/{name}.properties": text for name, text in more.items()}}
    return Host(1, {path: text.encode() for path, text in files.items()}, command=command)


def a_node(host: Host, role: str = "broker") -> FleetNode:
    return FleetNode(role, Node(id=1, host="b1", properties=FILE, log_dirs=("/data/kafka", "/data/empty")), host)


def said(host: Host) -> str:
    return confirm(a_node(host), "cluster", "zk1:2181/kafka")


def test_a_host_that_says_what_the_inventory_says_is_confirmed_and_only_read() -> None:
    host = a_host(command=(*JAVA, "kafka.Kafka", FILE))
    assert said(host) == "1 of its directories are of this cluster and node; its process runs with this file"
    assert host.acts == []


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (a_host(meta="version=0\ncluster.id=other\nbroker.id=1\n"), f"{META} has cluster.id other, and cluster is"),
        (a_host(meta="version=0\ncluster.id=cluster\nbroker.id=2\n"), f"{META} has broker.id 2, and 1 is expected"),
        (a_host(meta="version=1\ncluster.id=cluster\nnode.id=2\n"), f"{META} has node.id 2, and 1 is expected"),
        (a_host(file="broker.id=2\n"), f"{FILE} has broker.id 2, and 1 is expected"),
        (a_host(file="broker.id=1\nzookeeper.connect=zk1:2181/other\n"), "zookeeper.connect /other, and /kafka is"),
        (a_host(file="broker.id=1\nzookeeper.connect=zk1:2181\n"), "zookeeper.connect /, and /kafka is"),
        (
            a_host(command=(*JAVA, "kafka.Kafka", "/two.properties"), two="broker.id=2\n"),
            f"its process has the file /two.properties, and {FILE} is expected",
        ),
        (
            a_host(command=(*JAVA, "kafka.Kafka", FILE, "--override", "broker.id=2")),
            "its command line has broker.id 2, and 1 is expected",
        ),
    ],
)
def test_a_host_of_another_node_or_cluster_is_refused_with_both_values(host: Host, words: str) -> None:
    with pytest.raises(FindingError) as refused:
        said(host)
    assert refused.value.code == NODE_IS_ANOTHER.code == "Z2K-7056"
    assert words in str(refused.value)
    assert host.acts == []


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (a_host(meta="version=0\n"), "the command line of its process is not known"),
        (a_host(file="broker.id=-1\n"), "1 of its directories"),
        (a_host(file="broker.id=${env:ID}\nzookeeper.connect=${file:/x:zk}\n"), "1 of its directories"),
        (
            a_host(command=(*JAVA, "kafka.Kafka", "/link.properties"), link="broker.id=1\nzookeeper.connect=zk/kafka\n",
                   file="broker.id=1\nzookeeper.connect=zk/kafka\n"),
            "/link.properties, whose content is the same",
        ),
        (a_host(command=(*JAVA, "kafka.Kafka", "/in/container.properties")), "which this host does not have"),
        (a_host(command=("/bin/sh", "-c", "exec kafka-server-start.sh /x/server.properties")), "is not known"),
    ],
)  # fmt: skip
def test_what_a_host_does_not_say_is_said_and_stops_nothing(host: Host, words: str) -> None:
    assert words in said(host)


def test_directories_that_cannot_be_read_are_no_proof_and_no_hindrance() -> None:
    host = a_host()
    del host.files[META]
    assert said(host).startswith("no meta.properties was read, so whose directories these are is not known")


def test_a_connection_that_is_lost_while_it_is_compared_is_not_taken_for_silence() -> None:
    class Lost(Host):
        def read(self, path: str) -> bytes | None:
            if path == META:
                raise HOST_NOT_REACHED.error(act=f"read {path}", node=1, reason="Connection reset by peer")
            return super().read(path)

    with pytest.raises(FindingError, match="Z2K-7046"):
        said(Lost(1, a_host().files))


def test_a_process_whose_state_cannot_be_asked_for_stops_nothing() -> None:
    class NoSuchContainer(Host):
        def status(self) -> ProcessStatus:
            raise ACT_FAILED.error(act="status", node=1, reason="No such container")

    assert "the command line of its process is not known" in said(NoSuchContainer(1, a_host().files))


def test_a_file_of_the_running_process_that_cannot_be_read_is_not_taken_for_the_one_of_the_inventory() -> None:
    class Denied(Host):
        def read(self, path: str) -> bytes | None:
            if path == "/two.properties":
                raise ACT_FAILED.error(act=f"read {path}", node=1, reason="Permission denied")
            return super().read(path)

    host = a_host(command=(*JAVA, "kafka.Kafka", "/two.properties"))
    with pytest.raises(FindingError, match=r"/two\.properties"):
        said(Denied(1, host.files, command=host.command))


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ((*JAVA, "kafka.Kafka", FILE), FILE),
        ((*JAVA, "kafka.Kafka", "/etc/kafka/broker.conf", "--override", "a=b"), "/etc/kafka/broker.conf"),
        (("/bin/bash", "/opt/kafka/bin/kafka-server-start.sh", "-daemon", "config/server.properties"),
         "config/server.properties"),
        (("/usr/bin/python3", "/usr/bin/zk2kraft", "controller", "/etc/zk2kraft/c.properties"),
         "/etc/zk2kraft/c.properties"),
        (("/usr/sbin/runsvdir",), None),
        ((), None),
    ],
)  # fmt: skip
def test_the_file_of_a_command_line_is_found(command: tuple[str, ...], file: str | None) -> None:
    assert named_file(command) == file


@pytest.mark.parametrize(
    ("named", "same"),
    [
        ("/etc/kafka/../kafka/server.properties", True),
        ("../etc/kafka/server.properties", True),
        ("kafka/server.properties", True),
        ("fka/server.properties", False),
        ("/etc/kafka2/server.properties", False),
        ("server2.properties", False),
    ],
)
def test_a_relative_file_is_the_same_when_the_path_ends_with_it(named: str, same: bool) -> None:
    assert is_file_of(named, FILE) is same


@pytest.mark.parametrize(
    ("process", "gone", "role", "written"),
    [
        (ProcessState.STOPPED, True, "broker", True),
        (ProcessState.STOPPED, False, "broker", False),
        (ProcessState.NOT_READ, True, "broker", False),
        (ProcessState.STOPPED, False, "controller", True),
        (ProcessState.NOT_READ, True, "controller", False),
    ],
)
def test_a_file_is_written_when_host_and_cluster_say_that_its_node_has_ended(
    process: ProcessState, gone: bool, role: str, written: bool
) -> None:
    assert (not_ended(a_node(a_host(), role), process, gone=gone) == "") is written


def test_a_host_that_only_a_person_reaches_is_ended_by_the_word_of_the_cluster(tmp_path: Path) -> None:
    node = FleetNode("broker", a_node(a_host()).node, ByOthers("manual", 1, "b1", "kafka.service", tmp_path))
    assert not_ended(node, ProcessState.NOT_READ, gone=True) == ""
    assert "the cluster counts it as present" in not_ended(node, ProcessState.NOT_READ, gone=False)


# --- the inventory and the cluster ------------------------------------------------------------------------


@pytest.mark.parametrize("gate", [may_roll_brokers, may_replace_controllers])
@pytest.mark.parametrize(
    ("named", "words"),
    [
        ((0, 1), "the cluster has broker 2, which the inventory lacks"),
        ((0, 1, 2, 7, 8), "the inventory has brokers [7, 8], which the cluster lacks"),
        (None, "was not compared yet"),
    ],
)
def test_no_gate_opens_while_inventory_and_cluster_differ_in_a_broker(
    gate: object, named: tuple[int, ...] | None, words: str
) -> None:
    assert callable(gate)
    verdict = gate(evidence({"named": named}))
    assert closed(verdict) == ["the inventory names the brokers that the cluster has"]
    assert codes(verdict) == {BROKERS_DIFFER.code} == {"Z2K-4241"}
    assert words in verdict.reason()


# --- with the service -------------------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Rolling]:
    found = Rolling(tmp_path)
    yield found
    found.store.close()


async def to_rolling(world: Rolling) -> None:
    """The service has read the id of the cluster in ZooKeeper."""
    await world.to_dual_write()
    world.zookeeper.observed = msgspec.structs.replace(world.zookeeper.observed, cluster_id="cluster")
    await world.rounds()
    with world.store.writing() as session:
        session.get_one(Migration, world.id).phase = Phase.ROLLING_BROKERS


def test_a_host_with_directories_of_another_cluster_is_not_stopped(world: Rolling) -> None:
    """The inventory was copied from a cluster with the same ids."""
    (world.hosts.home / "0/logs/meta.properties").write_text("version=0\ncluster.id=other\nbroker.id=0\n")

    async def story() -> None:
        await to_rolling(world)
        await world.until(lambda: world.step(0) == "FAILED")
        await world.turn(3)

    asyncio.run(story())
    assert world.acts == []
    assert world.journal[0].code == "Z2K-7056"
    assert "cluster.id other, and cluster is expected" in world.waiting


def test_a_broker_that_the_cluster_still_has_is_not_written_though_its_host_says_stopped(world: Rolling) -> None:
    """The units of two brokers were swapped: the one whose file it is runs on."""
    before = world.hosts.file(0).read_text()

    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "PREPARED")
        world.unfenced = {0}
        await world.until(lambda: world.step(0) == "STOPPED")
        await world.turn(20)
        assert world.step(0) == "STOPPED"
        assert world.hosts.file(0).read_text() == before
        assert "the cluster counts it as present" in world.waiting
        world.unfenced = set()
        await world.until(lambda: world.rolled)

    asyncio.run(story())


def test_the_journal_says_what_was_compared(world: Rolling) -> None:
    for number in (0, 1, 2):
        meta = f"version=0\ncluster.id=cluster\nbroker.id={number}\n"
        (world.hosts.home / f"{number}/logs/meta.properties").write_text(meta)

    async def story() -> None:
        await to_rolling(world)
        await world.until(lambda: world.rolled)

    asyncio.run(story())
    assert "1 of its directories are of this cluster and node" in world.journal[0].detail
