"""Our controller as a process of the laboratory: what stock runs with, with our program in its place.

In:   the spec of a stock controller (servers/controller.py); the very same properties file and formatted directory.
Out:  `OurController`, a controller under test in the sense of stock.py; its status over its control port.
Elsewhere: what it does (node); nothing of it is imported here, it is started like anybody's program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from migrator.findings.finding import FindingError
from migrator.findings.laboratory import CONTROL_REFUSED, TOOL_FAILED
from migrator.lab.cluster import LabCluster
from migrator.lab.servers.controller import ControllerSpec, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.processes import STOP_DEADLINE_S, Process
from migrator.lab.servers.properties import Value, write
from migrator.lab.servers.server import READY_DEADLINE_S
from migrator.lab.servers.tools import format_storage

PROGRAM: Final = ("-m", "api")
CONTROL_FILE: Final = "zk2kraft-control.json"
CONTROL_TIMEOUT_S: Final = 60.0
FORMAT_DEADLINE_S: Final = 90.0
IN_THE_LABORATORY: Final = {"ZK2KRAFT_LAB": "1"}
"""Without it a quorum of one does not take over."""
UNHURRIED: Final[Mapping[str, Value]] = {
    "controller.quorum.election.timeout.ms": 3_000,
    "controller.quorum.fetch.timeout.ms": 6_000,
}
"""On a busy machine a vote may take longer than the second of Kafka's default: then nobody leads for long."""


class OurController:
    """One process of ours. program: what follows the Python interpreter (tests put a spoiled one in its place)."""

    def __init__(
        self, laboratory: Laboratory, spec: ControllerSpec, cluster_id: str, program: Iterable[str] = PROGRAM
    ) -> None:
        self.laboratory = laboratory
        self.spec = spec
        self.cluster_id = cluster_id
        self.name = f"controller-{spec.node_id}"
        self.environment: dict[str, str] = dict(IN_THE_LABORATORY)
        self.program = tuple(program)
        self._process: Process | None = None

    # --- a controller under test ---------------------------------------------------------------------------

    @property
    def voters(self) -> str:
        return self.spec.voters

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def wait_dual_write(self, deadline_s: float = READY_DEADLINE_S) -> float:
        return self.wait_state("DUAL_WRITE", deadline_s=deadline_s)

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> float:
        return self.process.stop(deadline_s)

    # --- the process ---------------------------------------------------------------------------------------

    @property
    def process(self) -> Process:
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.alive

    @property
    def listens(self) -> bool:
        """Whether a process, whoever started it, has its control port open by the file that it leaves."""
        try:
            pid = int(json.loads((self.data / CONTROL_FILE).read_text())["pid"])
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (OSError, ValueError, KeyError):
            return False

    @property
    def directory(self) -> Path:
        return self.spec.directory

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def metadata_log(self) -> Path:
        return self.data / "__cluster_metadata-0"

    def format(self) -> None:
        """By Kafka's own tool, once."""
        if not (self.data / "meta.properties").exists():
            format_storage(self.laboratory, self.properties_file, self.cluster_id, self.spec.release)

    def prepare(self) -> None:
        """Write the file and format the directory with our own tool, for somebody else to start it."""
        write(self.properties_file, self.spec.properties())
        words = ("-c", str(self.properties_file), "-t", self.cluster_id, "-r", self.spec.release)
        command = [sys.executable, *PROGRAM, "storage", "format", *words]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=FORMAT_DEADLINE_S,
            check=False,
            env={**os.environ, **self.environment},
        )
        if done.returncode != 0:
            raise TOOL_FAILED.error(tool="storage format", exit_code=done.returncode, output=done.stderr)

    def launch(self) -> None:
        """Write the file, format the directory if nobody did, start the process; does not wait."""
        assert not self.is_running, f"{self.name} runs already"
        write(self.properties_file, self.spec.properties())
        self.format()
        (self.data / CONTROL_FILE).unlink(missing_ok=True)
        command = [sys.executable, *self.program, "controller", str(self.properties_file)]
        environment = {**os.environ, **self.environment}
        self._process = self.laboratory.processes.start(self.name, command, environment=environment)

    def wait_ready(self, deadline_s: float = READY_DEADLINE_S) -> float:
        def why_not() -> str | None:
            if not (self.data / CONTROL_FILE).exists():
                return "its control port is not open"
            return self.spec.why_not_answering()

        return self.laboratory.wait(why_not, name=self.name, deadline_s=deadline_s, process=self.process)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def events(self) -> list[dict[str, Any]]:
        """What it logged in all its runs, oldest first; lines that are no events are left out."""
        events = []
        for line in self.process.log.read_text(errors="replace").splitlines():
            with suppress(ValueError):  # still being written, or torn by a kill
                if line.startswith("{"):
                    events.append(json.loads(line))
        return events

    def driver_states(self) -> list[str]:
        return [event["to"] for event in self.events() if event.get("event") == "driver.state"]

    # --- the control port ----------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        return dict(self._control("GET", "/v1/status"))

    def state(self) -> str:
        return str(self.status()["driver"]["state"])

    def metrics(self) -> dict[str, float]:
        """What Prometheus would store: values by name, with the label where there is one (`zk2kraft_role{leader}`).

        Asked with the token, so that they are of this moment.
        """
        found = {}
        for family in text_string_to_metric_families(self._scrape()):
            for sample in family.samples:
                label = ",".join(sample.labels.values())
                found[f"{sample.name}{{{label}}}" if label else sample.name] = sample.value
        return found

    def _scrape(self) -> str:
        control = json.loads((self.data / CONTROL_FILE).read_text())
        headers = {"Authorization": f"Bearer {control['token']}"}
        request = urllib.request.Request(f"{control['url']}/metrics", headers=headers)
        with urllib.request.urlopen(request, timeout=CONTROL_TIMEOUT_S) as answer:
            return str(answer.read().decode())

    def ask(self, operation: str, reason: str = "a test asks") -> None:
        """operation: takeover, abort or rollback. Raises Z2K-6012 when it is refused."""
        self._control("POST", f"/v1/{operation}", {"reason": reason})

    def wait_state(self, *states: str, deadline_s: float = READY_DEADLINE_S) -> float:
        """Wait until the driver is in one of these states."""

        def why_not() -> str | None:
            try:
                driver = self.status()["driver"]
            except (OSError, ValueError, FindingError) as error:  # on a busy machine its loop may stand still
                return f"no status ({error})"
            return None if driver["state"] in states else f"{driver['state']}: {driver['reason']}"

        return self.laboratory.wait(
            why_not, name=self.name, deadline_s=deadline_s, process=self.process, poll_every_s=0.05
        )

    def _control(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        control = json.loads((self.data / CONTROL_FILE).read_text())
        request = urllib.request.Request(
            control["url"] + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"authorization": f"Bearer {control['token']}", "content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=CONTROL_TIMEOUT_S) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise CONTROL_REFUSED.error(operation=path, reason=error.read().decode(errors="replace")) from error


def ready_to_migrate(
    cluster: LabCluster, topics: Iterable[str], extra: Mapping[str, Value] | None = None
) -> OurController:
    """Get the running brokers of a ZooKeeper-mode cluster ready, and make a controller for them; does not start it.

    topics: whose replicas have to be in sync again after the brokers' restart.
    """
    names = list(topics)
    controller = our_controller(cluster, extra)
    cluster.restart_as(lambda spec: spec.as_migrating(controller.voters))
    cluster.wait_isr_whole(names)
    return controller


def start_ready_to_migrate(
    cluster: LabCluster, count: int = 1, extra: Mapping[str, Value] | None = None
) -> list[OurController]:
    """Start a new cluster in ZooKeeper mode whose brokers have the migration on from their first start, and make
    controllers for it; does not start those. Half as many broker starts as with `ready_to_migrate`.
    """
    specs = _specs(cluster, count, extra)
    for broker in cluster.brokers:
        broker.spec = broker.spec.as_migrating(specs[0].voters)
    cluster.start()
    return _controllers(cluster, specs)


def our_quorum(cluster: LabCluster, count: int, extra: Mapping[str, Value] | None = None) -> list[OurController]:
    """Controllers of ours for a cluster whose brokers ran once, voters of one quorum."""
    return _controllers(cluster, _specs(cluster, count, extra))


def _specs(cluster: LabCluster, count: int, extra: Mapping[str, Value] | None) -> list[ControllerSpec]:
    return quorum_specs(cluster.laboratory, count=count, zookeeper_connect=cluster.zookeeper_connect, extra=extra)


def _controllers(cluster: LabCluster, specs: Iterable[ControllerSpec]) -> list[OurController]:
    return [OurController(cluster.laboratory, spec, cluster.cluster_id) for spec in specs]


def our_controller(cluster: LabCluster, extra: Mapping[str, Value] | None = None) -> OurController:
    """A controller of ours for a cluster whose brokers ran once; a quorum of one."""
    (controller,) = our_quorum(cluster, 1, extra)
    return controller
