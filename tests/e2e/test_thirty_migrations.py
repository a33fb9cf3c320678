"""Thirty migrations in one service, ten of them broken in ten ways, and the service killed: the twenty go on.

One real ZooKeeper with a chroot for each; no brokers. What is asked is whether one migration's trouble reaches another.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from migrator.control_api.control_file import CONTROL_FILE
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.processes import Process
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.zk.multi import Create, Multi
from migrator.zk.session import ZkSession
from tests.e2e.support import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.alone]

HEALTHY = 20
WATCHED_S = 10.0
LOOK_AGE_MAX_S = 1.0
LOAD_MAX = 1.0
"""By processor, in the minute before: above it somebody else takes the machine, and its pace says nothing of ours."""
BROKEN = (
    "nobody listens at its ZooKeeper",
    "its ZooKeeper accepts and never answers",
    "its ZooKeeper's name does not exist",
    "its chroot does not exist",
    "its controller's file is missing",
    "its controller's file names no voters",
    "its control file is a pipe",
    "its row is damaged",
    "its phase is one of a later release",
    "it is a second migration of a cluster",
)
DAMAGE = {
    "its row is damaged": "UPDATE migration SET inventory = 'torn {' WHERE id = ?",
    "its phase is one of a later release": "UPDATE migration SET phase = 'LATER_RELEASE' WHERE id = ?",
}


@pytest.fixture
def zookeeper(laboratory: Laboratory, kafka_artifacts: Artifacts) -> ZooKeeper:
    server = ZooKeeper(laboratory)
    server.start(60)
    return server


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that accepts connections and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=128)) as listening:
        yield int(listening.getsockname()[1])


class Served:
    """`zk2kraft serve`, killed and started again on the same directory."""

    def __init__(self, laboratory: Laboratory) -> None:
        self.laboratory = laboratory
        self.directory = laboratory.directory / "service"
        self.config = laboratory.directory / "serve.toml"
        self.config.write_text(
            f'port = 0\ndirectory = "{self.directory}"\nroots = ["{laboratory.directory}"]\naudit_engine = "quick"\n'
        )
        self.http = httpx.Client(trust_env=False, timeout=60)
        laboratory.on_close.callback(self.http.close)
        self.process: Process | None = None

    def start(self) -> None:
        (self.directory / "serve.json").unlink(missing_ok=True)
        environment = {**os.environ, "HOME": str(self.laboratory.directory)}
        command = [sys.executable, "-m", "api", "serve", "--config", str(self.config)]
        self.process = self.laboratory.processes.start("serve", command, environment=environment)
        wait_for(self._why_not_ready, "the service is ready")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()

    def _why_not_ready(self) -> str | None:
        assert self.process is not None
        assert self.process.alive, self.process.log_tail()
        try:
            self.http.headers["authorization"] = f"Bearer {(self.directory / 'token').read_text().strip()}"
            self.url = json.loads((self.directory / "serve.json").read_text())["url"]
            answer = self.http.get(self.url + "/readyz")
        except (OSError, ValueError, httpx.HTTPError) as error:
            return str(error)
        return None if answer.status_code == 200 else answer.text

    def get(self, path: str) -> Any:
        answer = self.http.get(f"{self.url}/api/v1{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def create(self, name: str, zookeeper: str, *, good_file: bool = True) -> int:
        home = self.laboratory.directory / "controllers" / name
        data = home / "data"
        data.mkdir(parents=True)
        (data / "meta.properties").write_text(f"version=1\ncluster.id={name}\nnode.id=3000\n")
        voters = "controller.quorum.voters=3000@127.0.0.1:9093\n" if good_file else ""
        (home / "controller.properties").write_text(
            "process.roles=controller\nnode.id=3000\ncontroller.listener.names=CONTROLLER\n"
            f"listeners=CONTROLLER://127.0.0.1:9093\nlog.dirs={data}\nzookeeper.connect={zookeeper}\n"
            f"zookeeper.metadata.migration.enable=true\nzk2kraft.gates=pause\n{voters}"
        )
        entry = {"node_id": 3000, "properties": str(home / "controller.properties"), "data": str(data)}
        inventory = {"name": name, "zookeeper": zookeeper, "bootstrap_servers": "k:9092", "controllers": [entry]}
        answer = self.http.post(f"{self.url}/api/v1/migrations", json=inventory)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    def advance(self, number: int, **body: Any) -> None:
        answer = self.http.post(f"{self.url}/api/v1/migrations/{number}/advance", json={"who": "test", **body})
        assert answer.status_code == 202, answer.text

    def ages(self) -> dict[str, float]:
        """How old each migration's last look is, by name; none of those never looked at."""
        text = self.http.get(self.url + "/metrics").text
        lines = [line for line in text.splitlines() if line.startswith("zk2kraft_look_age_seconds{")]
        return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


def a_cluster(session: ZkSession, name: str) -> None:
    """As much of a ZooKeeper-mode cluster as a look reads."""
    for path in (f"/{name}/cluster", f"/{name}/brokers/ids"):
        session.ensure_path(path)
    controller = b'{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
    identity = b'{"version":"1","id":"%s"}' % name.encode()
    created = (
        Create(f"/{name}/cluster/id", identity),
        Create(f"/{name}/controller", controller),
        Create(f"/{name}/controller_epoch", b"1"),
    )
    assert session.apply(Multi(created)).applied


def break_one(served: Served, how: str, hosts: str, silent: int) -> int:
    """A migration that is broken in this way, and was created while it could be."""
    name = f"broken-{BROKEN.index(how)}"
    with socket.create_server(("127.0.0.1", 0)) as ends_soon:
        listened = f"127.0.0.1:{ends_soon.getsockname()[1]}"
        zookeeper = {
            "nobody listens at its ZooKeeper": listened,
            "its ZooKeeper accepts and never answers": f"127.0.0.1:{silent}",
            "its ZooKeeper's name does not exist": f"no-such-host.invalid:2181,{listened}",
            "its chroot does not exist": f"{hosts}/no/such/chroot",
            "it is a second migration of a cluster": f"{hosts}/good-0",
        }.get(how, f"{hosts}/{name}")
        number = served.create(name, zookeeper, good_file=how != "its controller's file names no voters")
    home = served.laboratory.directory / "controllers" / name
    if how == "its controller's file is missing":
        (home / "controller.properties").unlink()
    if how == "its control file is a pipe":
        os.mkfifo(home / "data" / CONTROL_FILE)
    return number


def damage(database: Path, numbers: dict[str, int]) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        for how, statement in DAMAGE.items():
            connection.execute(statement, (numbers[how],))


def test_ten_broken_migrations_stop_none_of_the_twenty_others(
    laboratory: Laboratory, zookeeper: ZooKeeper, silent: int
) -> None:
    good = [f"good-{number}" for number in range(HEALTHY)]
    with ZkSession(zookeeper.hosts) as session:
        for name in [*good, *(f"broken-{number}" for number in range(len(BROKEN)))]:
            a_cluster(session, name)
    served = Served(laboratory)
    served.start()
    numbers = {name: served.create(name, f"{zookeeper.hosts}/{name}") for name in good}
    broken = {how: break_one(served, how, zookeeper.hosts, silent) for how in BROKEN}
    for name in good[: HEALTHY // 2]:
        served.advance(numbers[name], to="PREFLIGHT")
    for how in BROKEN[4:]:
        served.advance(broken[how], to="PREFLIGHT")
    wait_for(lambda: _not_all_looked_at(served, good), "every good one is looked at")

    served.kill()
    damage(served.directory / "zk2kraft.db", broken)
    served.start()
    for name in good[HEALTHY // 2 :]:
        served.advance(numbers[name], to="PREFLIGHT")
    wait_for(lambda: _not_in_preflight(served, good), "every good one is in PREFLIGHT")
    wait_for(lambda: _not_updated(served, broken), "what is broken is named")

    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    oldest, ends = 0.0, time.monotonic() + WATCHED_S
    while time.monotonic() < ends:
        ages = served.ages()
        assert set(good) <= set(ages)
        oldest = max(oldest, *(ages[name] for name in good))
        time.sleep(0.25)
    print(f"oldest look of {HEALTHY} good migrations beside {len(BROKEN)} broken ones: {oldest:.2f} s; load {busy:.1f}")
    assert oldest < LOOK_AGE_MAX_S or busy > LOAD_MAX
    assert served.process is not None
    assert served.process.alive
    for name in good[1:3]:
        answer = served.http.delete(f"{served.url}/api/v1/migrations/{numbers[name]}")
        assert answer.status_code == 204, answer.text


def _not_all_looked_at(served: Served, good: list[str]) -> str | None:
    ages = served.ages()
    missing = [name for name in good if ages.get(name, 0.0) <= 0.0]
    return f"not looked at: {missing}" if missing else None


def _not_in_preflight(served: Served, good: list[str]) -> str | None:
    phases = {each["name"]: each["phase"] for each in served.get("/migrations")["items"]}
    behind = {name: phases.get(name) for name in good if phases.get(name) != "PREFLIGHT"}
    return f"not in PREFLIGHT: {behind}" if behind else None


def _not_updated(served: Served, broken: dict[str, int]) -> str | None:
    """Each of the ten says what is wrong with it, in its own place."""
    lines = {each["id"]: each for each in served.get("/migrations")["items"]}
    for how in DAMAGE:
        if "Z2K-4102" not in lines[broken[how]]["waiting"]:
            return f"{how}: {lines[broken[how]]['waiting']}"
    for how in BROKEN[:4]:
        says = served.get(f"/migrations/{broken[how]}")["active_controller"]["says"]
        if how != BROKEN[3] and "not" not in says.lower():
            return f"{how}: {says}"
    for how in BROKEN[4:6]:
        codes = [each["code"] for each in served.get(f"/migrations/{broken[how]}/findings")["items"]]
        if not {"Z2K-3010", "Z2K-3011", "Z2K-3017"} & set(codes):
            return f"{how}: {codes}"
    pipe = served.get(f"/migrations/{broken[BROKEN[6]]}/quorum")["items"][0]["problem"]
    if "no regular file" not in pipe:
        return f"{BROKEN[6]}: {pipe}"
    gates = served.get(f"/migrations/{broken[BROKEN[9]]}")
    shown = json.dumps(gates["standing"]) + json.dumps(gates["gates"]) + gates["waiting"]
    return None if "belongs to migration" in shown and "good-0" in shown else f"{BROKEN[9]}: {shown}"
