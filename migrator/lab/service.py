"""Our service as a process of the laboratory, spoken to by REST like anybody would.

In:   a laboratory; a TOML file is written for it.
Out:  `LabService`: its address, its answers as documents, waiting for a phase; history rows as they come.
Elsewhere: what the service does (state_machine, api); nothing of it is imported here.
Controllers outlive the service on purpose, so each one that it starts is adopted into the laboratory's book.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from migrator.findings.finding import FindingError
from migrator.findings.laboratory import TOOL_FAILED
from migrator.findings.service import GATE_CLOSED
from migrator.http.addresses import AGREEMENT, AUDIT, AUDITS, BASE, MIGRATION, MIGRATIONS, STEPS
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import IN_THE_LABORATORY, PROGRAM, OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.processes import STOP_DEADLINE_S, Process
from migrator.lab.servers.server import READY_DEADLINE_S

TIMEOUT_S: Final = 60.0
KEPT_OPEN_S: Final = 1.0
"""The server closes a connection that was idle for 5 s; one that we use in that moment would be reset."""
POLL_EVERY_S: Final = 0.25
"""A view of a migration takes its time from those who are waited for."""
PHASE_DEADLINE_S: Final = 180.0
INSPECTION_DEADLINE_S: Final = 960.0
"""Longer than the service itself lets a command run; on a busy machine an audit takes minutes."""

OnRow = Callable[[Mapping[str, Any]], None]


def _whole(path: str) -> str:
    """An address, also as it stands below the base of all."""
    return path if path.startswith(f"{BASE}/") else BASE + path


def nothing(row: Mapping[str, Any]) -> None:
    """For those who do not follow the history."""


class LabService:
    """One `zk2kraft serve`. name: of the process and its directory.

    settings: keys of its TOML file beside the directory and the port.
    """

    def __init__(
        self, laboratory: Laboratory, name: str = "service", **settings: str | float | bool | list[str]
    ) -> None:
        self.laboratory = laboratory
        self.name = name
        self.directory = laboratory.directory / name
        self.url = ""
        self.on_row: OnRow = nothing
        self.environment: dict[str, str] = dict(IN_THE_LABORATORY)
        """What it has beside ours, from the next start on."""
        self._settings = settings
        self._port = laboratory.ports.reserve()
        self._process: Process | None = None
        limits = httpx.Limits(keepalive_expiry=KEPT_OPEN_S)
        self._http = httpx.Client(timeout=TIMEOUT_S, trust_env=False, limits=limits)
        self._rows_seen: dict[int, int] = {}
        laboratory.on_close.callback(self._http.close)

    @property
    def process(self) -> Process:
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    def start(self) -> None:
        """Start it and wait until it answers. A second start goes on with the same directory and port."""
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "serve.toml"
        settings = self.settings()
        file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
        command = [sys.executable, *PROGRAM, "serve", "--config", str(file)]
        environment = {**os.environ, **self.environment, "TMPDIR": str(self.directory)}
        self._process = self.laboratory.processes.start(self.name, command, environment=environment)
        self.url = f"http://127.0.0.1:{self._port}"
        self._http.headers.pop("authorization", None)
        self.laboratory.wait(self._why_silent, name=self.name, deadline_s=READY_DEADLINE_S, process=self.process)

    def settings(self) -> dict[str, str | int | float | bool | list[str]]:
        """What its TOML file says, from the next start on."""
        return {
            "port": self._port,
            "directory": str(self.directory / "data"),
            "roots": [str(self.laboratory.directory)],
            **self._settings,
        }

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> float:
        """SIGTERM. Controllers go on."""
        return self.process.stop(deadline_s)

    # --- REST ----------------------------------------------------------------------------------------------

    def get(self, path: str) -> dict[str, Any]:
        return self._document(self._http.get(f"{self.url}{_whole(path)}"))

    def page_of(self, path: str) -> str:
        """A page below the API, as HTML."""
        return self._http.get(f"{self.url}{_whole(path)}").raise_for_status().text

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._document(self._http.post(f"{self.url}{_whole(path)}", json=dict(body)))

    def create(
        self, name: str, cluster: LabCluster, controllers: Iterable[OurController], engine: str = "zk2kraft"
    ) -> int:
        """A migration of this cluster by these controllers, formatted and not started; with engine `stock` by Kafka's
        own, of which only the files are there. Returns its number.
        """
        inventory = {
            "name": name,
            "zookeeper": cluster.zookeeper_connect,
            "bootstrap_servers": cluster.bootstrap_servers,
            "controllers": [self.entry_of(each) for each in controllers],
            "brokers": [{"id": broker.broker_id, "host": broker.address} for broker in cluster.brokers],
            "engine": engine,
        }
        return int(self.post(MIGRATIONS(), inventory)["id"])

    def entry_of(self, controller: OurController) -> dict[str, str | int]:
        """What its inventory says of one controller."""
        return {
            "node_id": controller.spec.node_id,
            "properties": str(controller.properties_file),
            "data": str(controller.data),
        }

    def view(self, migration: int) -> dict[str, Any]:
        """Everything about it; rows of its history that were not seen yet go to `on_row`."""
        view = self.get(MIGRATION(number=migration))
        for each in view["quorum"]:
            if each["pid"] is not None:
                self.laboratory.processes.adopt(each["pid"])
        seen = self._rows_seen.get(migration, 0)
        for row in view["events"][seen:]:
            self.on_row(row)
        self._rows_seen[migration] = len(view["events"])
        return view

    def operation(
        self, migration: int, word: str, to: str | None = None, reason: str = "", who: str = "laboratory"
    ) -> dict[str, Any]:
        """advance, approve, abort or rollback; returns the operation as it was recorded.

        Raises Z2K-6007 when it was refused.
        """
        body = {"to": to, "reason": reason, "who": who}
        if word == "approve":  # as somebody does who reads it first
            body["digest"] = self.get(AGREEMENT(number=migration, to=to))["digest"]
        return self.post(STEPS[word](number=migration), {k: v for k, v in body.items() if v})

    def ask(self, migration: int, word: str, to: str, reason: str) -> bool:
        """As `operation`; False where its gate is closed at this moment (`was_closed` tells where it closes later)."""
        try:
            self.operation(migration, word, to, reason)
        except FindingError as error:
            if f"{GATE_CLOSED.code} " not in str(error):
                raise
            return False
        return True

    @staticmethod
    def was_closed(operation: dict[str, Any]) -> bool:
        """Refused by its gate, and by nothing else: a heartbeat or a fetch came late, and it may be asked again."""
        verdict = operation.get("verdict")
        return operation["state"] == "refused" and verdict is not None and not verdict["holds"]

    def wait_phase(self, migration: int, *phases: str, deadline_s: float = PHASE_DEADLINE_S) -> dict[str, Any]:
        """Wait until it is in one of these phases. Returns the view."""
        return self.wait_view(
            migration,
            lambda view: None if view["phase"] in phases else f"{view['phase']}: {view['waiting']}",
            deadline_s=deadline_s,
        )

    def wait_gate(
        self, migration: int, to: str, deadline_s: float = INSPECTION_DEADLINE_S, *, but: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Wait until a person may go on to this phase. Returns the view. but: codes that may close it."""

        def why_not(view: dict[str, Any]) -> str | None:
            edge = next((each for each in view["gates"] if each["to"] == to), None)
            if edge is None:
                return f"{view['phase']} does not lead to {to}: {view['waiting']}"
            closed = [
                f"{each['name']}: {each['message']}"
                for each in edge["conditions"]
                if each["status"] != "True" and not set(each["codes"]) & set(but)
            ]
            return "; ".join(closed) or None

        return self.wait_view(migration, why_not, deadline_s=deadline_s)

    def wait_view(
        self, migration: int, why_not: Callable[[dict[str, Any]], str | None], *, deadline_s: float
    ) -> dict[str, Any]:
        latest: list[dict[str, Any]] = []

        def reason() -> str | None:
            latest[:] = [self.view(migration)]
            return why_not(latest[0])

        self.laboratory.wait(
            reason, name=self.name, deadline_s=deadline_s, process=self.process, poll_every_s=POLL_EVERY_S
        )
        return latest[0]

    def audit(self, migration: int, engine: str, deadline_s: float = INSPECTION_DEADLINE_S) -> dict[str, Any]:
        """Ask for an audit and wait for its end."""
        asked = self.post(AUDITS(number=migration), {"engine": engine, "who": "laboratory"})
        latest = [asked]

        def why_not() -> str | None:
            self.view(migration)
            latest[:] = [self.get(AUDIT(number=asked["id"]))]
            state = latest[0]["state"]
            return f"audit {asked['id']} by {engine} is {state}" if state in ("asked", "running") else None

        self.laboratory.wait(why_not, name="audit", deadline_s=deadline_s, process=self.process, poll_every_s=0.2)
        return latest[0]

    def _document(self, answer: httpx.Response) -> dict[str, Any]:
        document: dict[str, Any] = answer.json()
        if answer.is_error:
            checks = "; ".join(f"{each['name']}: {each['message']}" for each in document.get("conditions", []))
            said = f"{document.get('code')} {document.get('detail')} {checks}".strip()
            tool = f"{self.name} {answer.request.url.path}"
            raise TOOL_FAILED.error(tool=tool, exit_code=answer.status_code, output=said)
        return document

    @property
    def token_file(self) -> Path:
        """Of this service, which makes it at its first start."""
        return self.directory / "data" / "token"

    @property
    def page(self) -> str:
        """A link that opens the page without asking for the token."""
        return f"{self.url}/login?token={self.token_file.read_text().strip()}"

    def _why_silent(self) -> str | None:
        try:
            self._http.headers["authorization"] = f"Bearer {self.token_file.read_text().strip()}"
            self.get(MIGRATIONS())
        except (httpx.HTTPError, ValueError, OSError) as error:
            return f"no answer ({type(error).__name__})"
        return None
