"""The composition as its operator drives it: files on the host, compose, and the service by REST.

In:   an engine, a directory for this run, pytest-docker's services.
Out:  `Composition`: its token, its views, steps through their gates.
Elsewhere: fixtures (conftest.py), what is asserted (test_*.py).
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from migrator.findings.service import GATE_CLOSED
from migrator.lab.flaws import flawed_brokers
from migrator.lab.servers.laboratory import Laboratory
from tests.docker.engine import Engine
from tests.docker.images import DOCKER

PROJECT: Final = "zk2krafttest"
NAME: Final = "containers"
BROKERS: Final = {1: 19091, 2: 19092, 3: 19093}
BOOTSTRAP: Final = ",".join(f"127.0.0.1:{port}" for port in BROKERS.values())
CONTROLLERS: Final = (3000, 3001, 3002)
PORT: Final = 8085
OWN_SETTINGS: Final = """
audit_engine = "quick"
settle_s = 1.0
soak_s = 5.0
brokers_gone_s = 2.0
audit_every_s = 60.0
node_deadline_s = 300.0
drift_every_s = 5
"""
"""A whole road in minutes, in place of days."""
STEP_DEADLINE_S: Final = 420.0
"""In a roll: since the last node that was whole; the service itself ends the wait for one after node_deadline_s."""
NOT_APPROVED: Final = "Z2K-4210"
LOOKS_FOR_FLAWS_S: Final = 30.0

logger = logging.getLogger(__name__)


def prepared_files(directory: Path) -> tuple[Path, Path]:
    """As docker/prepare lays them out, with settings for a short road. Returns where the files are, and the data."""
    etc, data = directory / "etc", directory / "data"
    subprocess.run([DOCKER / "prepare", etc, data], check=True, capture_output=True)
    with (etc / "serve.toml").open("a") as settings:
        settings.write(OWN_SETTINGS)
    return etc, data


@dataclass
class Composition:
    """services: pytest-docker's. address: where published ports are reached."""

    engine: Engine
    directory: Path
    address: str
    services: Any
    laboratory: Laboratory

    @property
    def url(self) -> str:
        return f"http://{self.address}:{PORT}"

    @property
    def token(self) -> str:
        return (self.directory / "data" / "service" / "token").read_text().strip()

    def compose(self, words: str) -> str:
        return str(self.services._docker_compose.execute(words).decode(errors="replace"))

    # --- before the service --------------------------------------------------------------------------------

    def cluster_id(self) -> str:
        """As its first broker wrote it down."""
        written = self.directory / "data" / "kafka-1" / "meta.properties"
        self.wait(lambda: None if written.exists() else f"{written.name} is not there yet", "broker 1")
        found = re.search(r"(?m)^cluster\.id=(\S+)$", written.read_text())
        assert found is not None, written.read_text()
        return found[1]

    def format_controllers(self) -> None:
        cluster = self.cluster_id()
        for node in CONTROLLERS:
            file = f"/etc/zk2kraft/controller-{node}/controller.properties"
            self.compose(f"run --rm --no-deps -T controller-{node} storage format -t {cluster} -c {file} -r 3.9")

    def wait_served(self) -> None:
        def why_not() -> str | None:
            try:
                answer = self.get("/migrations", as_is=True)
            except (httpx.HTTPError, OSError) as error:
                return f"no answer ({type(error).__name__})"
            return None if answer.status_code == 200 else answer.text

        self.wait(why_not, "the service")

    # --- REST ----------------------------------------------------------------------------------------------

    def request(self, method: str, path: str, *, token: str | None = None, **arguments: Any) -> httpx.Response:
        """token: None: the service's own; empty: none."""
        given = self.token if token is None else token
        headers = {**({"authorization": f"Bearer {given}"} if given else {}), **arguments.pop("headers", {})}
        with httpx.Client(trust_env=False, timeout=60) as http:
            return http.request(method, f"{self.url}{path}", headers=headers, **arguments)

    def get(self, path: str, *, as_is: bool = False) -> Any:
        answer = self.request("GET", f"/api/v1{path}")
        return answer if as_is else document_of(answer)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return document_of(self.request("POST", f"/api/v1{path}", json=dict(body)))

    def create(self) -> int:
        etc, data = "/etc/zk2kraft", "/var/lib/zk2kraft"
        inventory = {
            "name": NAME,
            "zookeeper": "zookeeper:2181/kafka",
            "bootstrap_servers": "kafka-1:9092,kafka-2:9092,kafka-3:9092",
            "controllers": [
                {
                    "node_id": node,
                    "properties": f"{etc}/controller-{node}/controller.properties",
                    "data": f"{data}/controller-{node}",
                }
                for node in CONTROLLERS
            ],
            "brokers": [{"id": node, "host": f"kafka-{node}"} for node in BROKERS],
        }
        return int(self.post("/migrations", inventory)["id"])

    def advance(self, migration: int, phase: str) -> None:
        """As an operator does: when the gate is open, and once more when it was shut by then; where a second person has
        to approve, that person does.
        """

        def not_taken(view: dict[str, Any]) -> str | None:
            closed = self._why_closed(migration, view, phase)
            if closed is not None:
                return closed
            body = {"to": phase, "who": "first person"}
            answer = self.request("POST", f"/api/v1/migrations/{migration}/advance", json=body)
            if answer.is_error and answer.json().get("code") == GATE_CLOSED.code:
                return str(answer.json()["detail"])
            document_of(answer)
            return None

        self.wait_view(migration, not_taken, f"the gate to {phase}")

    def wait_phase(self, migration: int, phase: str) -> dict[str, Any]:
        return self.wait_view(
            migration, lambda view: None if view["phase"] == phase else f"{view['phase']}: {view['waiting']}", phase
        )

    def wait_view(self, migration: int, why_not: Callable[[dict[str, Any]], str | None], what: str) -> dict[str, Any]:
        latest: dict[str, Any] = {}

        def reason() -> str | None:
            latest.clear()
            latest.update(self.get(f"/migrations/{migration}"))
            return why_not(latest)

        self.wait(reason, what, far=lambda: (latest["phase"], _whole_nodes(latest)))
        return latest

    def _why_closed(self, migration: int, view: dict[str, Any], phase: str) -> str | None:
        edge = next((each for each in view["gates"] if (each["to"], each["trigger"]) == (phase, "advance")), None)
        if edge is None:
            return f"{view['phase']}: {view['waiting']}"
        closed = [each for each in edge["conditions"] if each["status"] != "True"]
        if closed and all(NOT_APPROVED in each["codes"] for each in closed):
            read = self.get(f"/migrations/{migration}/agreement?to={phase}")["digest"]
            body = {"to": phase, "reason": "seen", "who": "second person", "digest": read}
            self.post(f"/migrations/{migration}/approve", body)
            return "approved just now"
        return "; ".join(f"{each['name']}: {each['message']}" for each in closed) or None

    # --- containers ----------------------------------------------------------------------------------------

    def start_controllers(self) -> None:
        """Ours; the service starts none, and adopts these."""
        self.compose(f"up -d --no-build {' '.join(f'controller-{node}' for node in CONTROLLERS)}")

    def wait_healthy(self, *containers: str) -> None:
        def unhealthy() -> str | None:
            found = {name: self.inspect(name)["State"]["Health"]["Status"] for name in containers}
            return None if set(found.values()) == {"healthy"} else str(found)

        self.wait(unhealthy, "health")

    def inspect(self, container: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.engine.docker("inspect", container))[0]
        return found

    def running(self) -> set[str]:
        return set(
            self.engine.docker(
                "ps", "--filter", f"label=com.docker.compose.project={PROJECT}", "--format", "{{.Names}}"
            ).split()
        )

    def restart_flawed(self) -> None:
        """Do what the runbook of Z2K-2043 asks of an operator, on the broker that met the flaw of docs/undo.md."""
        names = sorted({f"zk2kraft-kafka-{node}" for node in BROKERS} & self.running())
        for name in flawed_brokers({name: self.engine.docker("logs", name, merged=True) for name in names}):
            logger.warning("%s met the flaw of docs/undo.md and is restarted", name)
            self.engine.docker("restart", "--time", "60", name)

    def wait(
        self,
        why_not: Callable[[], str | None],
        what: str,
        deadline_s: float = STEP_DEADLINE_S,
        far: Callable[[], object] = lambda: None,
    ) -> None:
        """far: how far it is, after each look; the deadline counts from its last change."""
        ends, reached = time.monotonic() + deadline_s, None
        while (reason := why_not()) is not None:
            now, is_at = time.monotonic(), far()
            if is_at != reached:
                ends, reached = now + deadline_s, is_at
            assert now < ends, f"{what}: {reason}"
            time.sleep(0.3)


def _whole_nodes(view: dict[str, Any]) -> int:
    return sum(each["step"] == "WHOLE" for each in (view["road"] or {"nodes": []})["nodes"])


def document_of(answer: httpx.Response) -> dict[str, Any]:
    document: dict[str, Any] = answer.json()
    if answer.is_error:
        conditions = "; ".join(f"{each['name']}: {each['message']}" for each in document.get("conditions", []))
        raise AssertionError(f"{answer.request.url.path}: {document.get('code')} {document.get('detail')} {conditions}")
    return document
