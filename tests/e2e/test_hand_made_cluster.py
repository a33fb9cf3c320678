"""A cluster of one's own, from ZooKeeper to dual-write and back, by README, docs/drop-in.md and docs/service.md alone.

Properties files, `java` and Kafka's own tools (hand_made.py), a chroot, SASL/SCRAM and AclAuthorizer; ours by its
command line and REST alone. Nothing of the laboratory runs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from kazoo.exceptions import NoNodeError

from api.client import REFUSED
from migrator.lab.ours import CONTROL_FILE
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.ports import PortBook
from tests.e2e.hand_made import BROKERS, CONTROLLERS, HandMade, Traffic, until

pytestmark = pytest.mark.lab

COMMAND_S = 400
"""A step waits 300 s for its end, and says then what it waits for."""
ANY = tuple(range(1, 100))


class Operator:
    """A person with a shell: `zk2kraft`, and curl for the one thing that has no command."""

    def __init__(self, cluster: HandMade) -> None:
        self.cluster = cluster
        self.directory = cluster.directory / "service"
        self._service: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.migration = 0

    def run(self, *arguments: object, codes: tuple[int, ...] = (0,)) -> str:
        """One command; its output, errors included. A traceback is never an answer."""
        code, said = self._ran(*arguments)
        assert code in codes, f"{arguments} ended with {code}:\n{said}"
        return said

    def run_until_done(self, *arguments: object, again: tuple[int, ...] = (REFUSED,)) -> str:
        """A command that ends with 0, once more after one of `again`: a gate that was open is closed for a moment, as a
        voter is a record behind.
        """
        said = ""

        def is_done() -> bool:
            nonlocal said
            code, said = self._ran(*arguments)
            assert code in (0, *again), f"{arguments} ended with {code}:\n{said}"
            if code != 0:
                print(said)
            return code == 0

        until(is_done, f"{arguments} ends with 0")
        return said

    def _ran(self, *arguments: object) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "api", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            cwd=self.cluster.directory,
            env=self._environment(),
        )
        said = done.stdout + done.stderr
        assert "Traceback" not in said, said
        return done.returncode, said

    def _environment(self) -> dict[str, str]:
        found = {key: value for key, value in os.environ.items() if not key.startswith("ZK2KRAFT")}
        if self.url:
            found["ZK2KRAFT_URL"] = self.url
            found["ZK2KRAFT_TOKEN_FILE"] = str(self.directory / "token")
        return found

    def serve(self) -> None:
        config = self.cluster.directory / "serve.toml"
        config.write_text(
            f'port = 0\ndirectory = "{self.directory}"\nroots = ["{self.cluster.directory}"]\naudit_engine = "quick"\n'
        )
        self.directory.mkdir(exist_ok=True)
        (self.directory / "serve.json").unlink(missing_ok=True)
        with (self.cluster.directory / "serve.out").open("ab") as out:
            command = [sys.executable, "-m", "api", "serve", "--config", str(config)]
            self._service = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.cluster.directory)
        until((self.directory / "serve.json").exists, "the service listens")
        self.url = json.loads((self.directory / "serve.json").read_text())["url"]

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        token = (self.directory / "token").read_text().strip()
        with httpx.Client(trust_env=False, timeout=120, headers={"authorization": f"Bearer {token}"}) as client:
            return client.request(method, f"{self.url}/api/v1/{path}", json=body)

    def inventory(self, **changed: object) -> dict[str, object]:
        cluster = self.cluster
        controllers = [
            {"node_id": each, "properties": str(cluster.directory / f"controller-{each}.properties"), "data": str(data)}
            for each in CONTROLLERS
            for data in [cluster.data(each)]
        ]
        brokers = [{"id": each, "host": "127.0.0.1"} for each in BROKERS]
        found = {"zookeeper": cluster.zookeeper, "bootstrap_servers": cluster.bootstrap, "controllers": controllers}
        return {"name": "prod", **found, "brokers": brokers, **changed}

    def create(self, **changed: object) -> int:
        answer = self.ask("POST", "migrations", self.inventory(**changed))
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    def status(self) -> dict[str, Any]:
        return dict(self.ask("GET", f"migrations/{self.migration}").json())

    def wait_phase(self, phase: str) -> None:
        until(lambda: self.status()["phase"] == phase, f"{phase}, but {self.status()}")

    def wait_open(self) -> None:
        """Until the way forward is open."""

        def checks() -> list[dict[str, Any]]:
            edges = self.ask("GET", f"migrations/{self.migration}/gates").json()["items"]
            forward = next(each for each in edges if each["trigger"] == "advance")
            return [check for check in forward["conditions"] if check["status"] != "True"]

        until(lambda: not checks(), "the gate is open")

    def wait_shown(self, words: str, command: str, migration: int, codes: tuple[int, ...] = (0,)) -> None:
        """Until the command (`gates` or `status`) shows these words: a person looks at the page first, which costs less
        than a process for each look.
        """
        address = f"migrations/{migration}" + ("/gates" if command == "gates" else "")
        until(lambda: words in self.ask("GET", address).text, f"{words} at {address}")
        until(lambda: words in self.run(command, "-m", migration, codes=codes), f"{words} by {command}")

    def kill_service(self) -> None:
        assert self._service is not None
        self._service.kill()
        self._service.wait(120)

    def close(self) -> None:
        """The service first, then the controllers, which outlive it by design."""
        if self._service is not None:
            self._service.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._service.wait(120)
            self._service.kill()
        self.end_controllers()

    def end_controllers(self) -> None:
        """Retired ones run on for a minute (so that what they say can be read)."""
        pids = []
        for controller in CONTROLLERS:
            with suppress(OSError, ValueError):
                pids.append(int(json.loads((self.cluster.data(controller) / CONTROL_FILE).read_text())["pid"]))
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not any(is_alive(pid) for pid in pids), "controllers of ours are gone")


def is_alive(pid: int) -> bool:
    """A dead one that nobody has waited for is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def zookeeper_rules(cluster: HandMade) -> bool:
    """A claim that was given back may be nobody's for a moment."""
    try:
        return b'"kraftControllerEpoch":-1' in cluster.znode("/controller")
    except NoNodeError:
        return False


@pytest.fixture
def cluster(tmp_path: Path, kafka_artifacts: Artifacts) -> Iterator[HandMade]:
    book = PortBook()
    made = HandMade(tmp_path, kafka_artifacts.class_path, [book.reserve() for _ in range(7)], kafka_artifacts.archive)
    try:
        made.make()
        yield made
    finally:
        made.close()
        book.close()


@pytest.fixture
def operator(cluster: HandMade) -> Iterator[Operator]:
    person = Operator(cluster)
    try:
        yield person
    finally:
        person.close()


@pytest.mark.timeout(2400)
def test_a_hand_made_cluster_goes_to_dual_write_and_back_by_the_documents(
    cluster: HandMade, operator: Operator, tmp_path: Path
) -> None:
    traffic = Traffic(cluster.client("app"), "orders")
    operator.run("check", "--zookeeper", cluster.zookeeper, codes=(0, 1))
    mistakes_before_anything_started(cluster, operator, tmp_path)
    format_controllers(cluster, operator)
    cluster.allow("migrator", "--cluster", "--operation", "Describe", "--operation", "DescribeConfigs")

    operator.run("rehearse", "--zookeeper", cluster.zookeeper, "--out", tmp_path / "copy")
    compare = ("--kraft", tmp_path / "copy", "--engine", "quick", "--allow-moved")
    operator.run("audit", "--zookeeper", cluster.zookeeper, *compare)

    operator.serve()
    migrations_that_cannot_be(cluster, operator)
    operator.migration = operator.create()
    operator.run("advance", "--to", "PREFLIGHT")
    operator.wait_open()
    operator.run_until_done("advance", "--to", "QUORUM", "--no-wait")
    operator.wait_phase("BROKERS_JOINING")
    restart_brokers(cluster, traffic)
    operator.wait_phase("READY")
    operator.wait_shown("denies this controller's principal ClusterAction", "gates", operator.migration, (0, 4))
    operator.wait_shown("it denies Describe on", "gates", operator.migration, (0, 4))
    cluster.allow("migrator", "--cluster", "--operation", "ClusterAction")
    cluster.allow("migrator", "--topic", "*", "--operation", "Describe")
    operator.wait_open()
    operator.run_until_done("advance", "--to", "DUAL_WRITE", "--reason", "the rehearsal is passed")
    assert b'"kraftControllerEpoch":-1' not in cluster.znode("/controller")

    admin = cluster.admin_file()
    create = ("--create", "--if-not-exists", "--topic", "made-in-dual-write")
    until(lambda: cluster.ran("org.apache.kafka.tools.TopicCommand", *admin, *create), "a topic is made in dual-write")
    until(lambda: has_id(cluster, "made-in-dual-write"), "the topic is in ZooKeeper")
    assert "DUAL_WRITE" in operator.run("status")
    mistakes_in_dual_write(cluster, operator)

    operator.run_until_done("rollback", "--reason", "and back")
    assert operator.status()["phase"] == "ROLLED_BACK"
    until(lambda: zookeeper_rules(cluster), "a broker in ZooKeeper mode is controller")
    traffic.stop()
    assert not traffic.failed
    assert len(traffic.acknowledged) > 1_000
    assert traffic.lost() == set()
    print(f"{len(traffic.acknowledged):,} records acknowledged, 0 lost")

    # The same ZooKeeper once more: the service goes on with both.
    operator.end_controllers()
    for controller in CONTROLLERS:
        shutil.rmtree(cluster.data(controller))
    again = operator.create(name="again")
    operator.run("advance", "-m", again, "--to", "PREFLIGHT", codes=(0, 1, 4, 5))
    assert operator.ask("GET", "migrations").status_code == 200
    assert operator.status()["phase"] == "ROLLED_BACK"


def mistakes_before_anything_started(cluster: HandMade, operator: Operator, directory: Path) -> None:
    """Each is refused with a finding that says what to do; nothing of it is started, nothing is formatted."""
    controller, zookeeper = cluster.controller_file(3000), ("--zookeeper", cluster.zookeeper)
    said = operator.run("storage", "format", "-t", "wrong", "-c", controller, "-r", "3.9", codes=ANY)
    assert "Z2K-4198" in said
    said = operator.run("rehearse", "--zookeeper", f"{cluster.zookeeper}-prd", "--out", directory / "x", codes=ANY)
    assert "Z2K-" in said
    said = operator.run("rehearse", *zookeeper, "--out", "/proc/nobody/may", codes=ANY)
    assert "Z2K-" in said
    assert "OSError" not in said
    began = time.monotonic()
    said = operator.run("check", "--zookeeper", "zookeeper.invalid:2181", codes=ANY)
    assert "zookeeper.invalid" in said
    print(f"a mistyped name is refused after {time.monotonic() - began:.1f} s")
    said = operator.run("check", *zookeeper, "--controllers", directory / "missing.properties", codes=ANY)
    assert "missing.properties" in said
    assert "Add the key" not in said
    # a server that stands still for 2 s does not answer what it takes, which is a finding
    said = operator.run_until_done("check", *zookeeper, "--controllers", controller, again=(1, 2))
    assert "the files of voters [3001, 3002]" in said
    assert "not formatted, or on another machine" in said


def migrations_that_cannot_be(cluster: HandMade, operator: Operator) -> None:
    """Each shows what is wrong with it, and none of them stops the service or another migration."""
    inventory = operator.inventory()["controllers"]
    assert isinstance(inventory, list)
    missing = {**inventory[0], "properties": str(cluster.directory / "missing.properties")}
    broken = {"missing.properties": [missing, *inventory[1:]], "names nodes [3000, 3001, 3002]": inventory[:1]}
    for number, (reason, controllers) in enumerate(broken.items()):
        migration = operator.create(name=f"broken-{number}", controllers=controllers)
        operator.run("advance", "-m", migration, "--to", "PREFLIGHT")
        operator.wait_shown(reason, "gates", migration, (4,))
        if number == 0:
            operator.kill_service()
            operator.serve()
        operator.run("delete", "-m", migration)
    wrong = operator.ask("POST", "migrations", operator.inventory(name="mistyped", zookeeper="127.0.0.1:1/kafka-prd"))
    assert wrong.status_code == 422
    assert "Z2K-2001" in wrong.text


def mistakes_in_dual_write(cluster: HandMade, operator: Operator) -> None:
    """A second migration of the cluster, a rollback without controllers, somebody who is denied, the service killed."""
    twin = operator.create(name="twin")
    operator.run("advance", "-m", twin, "--to", "PREFLIGHT")
    operator.wait_shown("Z2K-4104", "gates", twin, (4,))
    said = operator.run("rollback", "--without-controllers", "--zookeeper", cluster.zookeeper, "--execute", codes=ANY)
    assert "Z2K-1118" in said
    for controller in CONTROLLERS:
        cluster.denied(controller)
    operator.wait_shown("User:migrator", "status", operator.migration)
    operator.kill_service()
    operator.serve()
    assert "DUAL_WRITE" in operator.run("status", "-m", operator.migration)
    operator.run("delete", "-m", twin)


def format_controllers(cluster: HandMade, operator: Operator) -> None:
    cluster_id = json.loads(cluster.znode("/cluster/id"))["id"]
    for controller in CONTROLLERS:
        path = cluster.controller_file(controller)
        operator.run("storage", "format", "-t", cluster_id, "-c", path, "-r", "3.9")


def restart_brokers(cluster: HandMade, traffic: Traffic) -> None:
    """One by one, with the settings of a migration; the next one when records are acknowledged again by all."""
    for broker in BROKERS:
        cluster.broker_file(broker, migrating=True)
        cluster.stop(f"broker-{broker}")
        cluster.start_broker(broker)
        until(lambda broker=broker: cluster.is_registered(broker), f"broker {broker} is back")
        until(lambda: cluster.why_not_in_sync() is None, "its replicas are in sync")
        until(lambda: not under_replicated(cluster), "everything is in sync")
        before = len(traffic.acknowledged)
        until(lambda before=before: len(traffic.acknowledged) > before + 30, "records go on")


def has_id(cluster: HandMade, topic: str) -> bool:
    """Ours answers before ZooKeeper has it: ZooKeeper holds up no answer."""
    with suppress(Exception):
        return b"topic_id" in cluster.znode(f"/brokers/topics/{topic}")
    return False


def under_replicated(cluster: HandMade) -> str:
    """A broker that has just come back may know no topic yet: then the tool ends with an error."""
    admin = cluster.admin_file()
    try:
        return cluster.tool(
            "org.apache.kafka.tools.TopicCommand", *admin, "--describe", "--under-replicated-partitions"
        ).strip()
    except AssertionError as error:
        return str(error)
