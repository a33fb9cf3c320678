"""The service as a process of its own, with a real cluster and a real controller of ours, driven by REST alone.

One test goes the whole way and back; the other kills the service with SIGKILL in TAKEOVER, COPY, AUDIT and DUAL_WRITE.
Controllers outlive the service by design, so they are stopped here by the process id in their control file.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from migrator.findings.road import LOSS_NOT_ACCEPTED
from migrator.findings.service import AGREED_TO_ANOTHER, GATE_CLOSED
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import CONTROL_FILE, OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.processes import Process
from migrator.lab.servers.properties import Value, write
from migrator.lab.service import LabService
from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from state_machine.clusters.inventory import ControllerEntry
from tests.e2e.support import controller_of, ready_cluster, spoil, wait_for, wait_zookeeper_rules
from tests.unit.state_machine.fakes import OPEN, FakeController

pytestmark = pytest.mark.lab

HELD: dict[str, Value] = {"zk2kraft.gates": "pause"}
STEP_DEADLINE_S = 240.0


class ServiceUnderTest:
    """`zk2kraft serve`, its REST, and the one migration that it looks after."""

    def __init__(
        self,
        laboratory: Laboratory,
        cluster: LabCluster,
        controller: OurController,
        *,
        engine: str = "quick",
        deadline_s: float = STEP_DEADLINE_S,
        database: str = "",
    ) -> None:
        self.deadline_s = deadline_s
        self.laboratory = laboratory
        self.cluster = cluster
        self.controller = controller
        self.directory = laboratory.directory / "service"
        self.config = laboratory.directory / "serve.toml"
        self.config.write_text(
            f'port = 0\ndirectory = "{self.directory}"\nroots = ["{laboratory.directory}"]\n'
            f'audit_engine = "{engine}"\nobserve_every_s = 0.4\ndatabase = "{database}"\n'
        )
        self.process: Process | None = None
        self.http = httpx.Client(trust_env=False, timeout=60)
        laboratory.on_close.callback(self.http.close)
        laboratory.on_close.callback(self.stop_controller)

    def start(self) -> None:
        (self.directory / "serve.json").unlink(missing_ok=True)
        command = [sys.executable, "-m", "api", "serve", "--config", str(self.config)]
        environment = {**os.environ, "ZK2KRAFT_LAB": "1"}
        self.process = self.laboratory.processes.start("serve", command, environment=environment)
        wait_for(self._why_not_ready, "the service is ready")

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()

    def stop(self) -> None:
        """SIGTERM; it has to end by itself, in order."""
        assert self.process is not None
        self.process.ask_to_stop()
        assert self.process.wait_for_exit(STEP_DEADLINE_S)
        assert self.process.exit_code == 0, self.process.log_tail()
        self.process.kill()

    def _why_not_ready(self) -> str | None:
        assert self.process is not None
        assert self.process.alive, self.process.log_tail()
        try:
            self.url = json.loads((self.directory / "serve.json").read_text())["url"]
            self.http.headers["authorization"] = f"Bearer {(self.directory / 'token').read_text().strip()}"
            answer = self.http.get(self.url + "/readyz")
        except (OSError, ValueError, httpx.HTTPError) as error:
            return str(error)
        return None if answer.status_code == 200 else answer.text

    def create(self) -> None:
        entry = {
            "node_id": self.controller.spec.node_id,
            "properties": str(self.controller.properties_file),
            "data": str(self.controller.data),
        }
        inventory = {
            "name": "lab",
            "zookeeper": self.cluster.zookeeper_connect,
            "bootstrap_servers": self.cluster.bootstrap_servers,
            "controllers": [entry],
            "brokers": [{"id": broker.broker_id} for broker in self.cluster.brokers],
        }
        answer = self.http.post(self.url + "/api/v1/migrations", json=inventory)
        assert answer.status_code == 201, answer.text

    def get(self, path: str = "") -> Any:
        answer = self.http.get(f"{self.url}/api/v1/migrations/1{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ask(self, word: str, **body: Any) -> httpx.Response:
        return self.http.post(f"{self.url}/api/v1/migrations/1/{word}", json={"who": "test", **body})

    def step(self, word: str, phase: str, **body: Any) -> None:
        """As an operator does: again where the gate closed before the request was taken or carried out (a broker's
        heartbeat was 3 s old), and only there.
        """
        asked: list[int] = []

        def why_not() -> str | None:
            view = self.get()
            if view["phase"] == phase:
                return None
            if asked and not any(LabService.was_closed(each) for each in view["operations"] if each["id"] == asked[-1]):
                return f"{view['phase']}: {view['waiting']}"
            answer = self.ask(word, **body)
            if answer.status_code == 409 and answer.json()["code"] == GATE_CLOSED.code:
                return answer.text
            assert answer.status_code == 202, answer.text
            asked.append(answer.json()["operation"]["id"])
            return "asked"

        wait_for(why_not, phase, deadline_s=self.deadline_s)

    def wait_phase(self, phase: str) -> None:
        def why_not() -> str | None:
            view = self.get()
            return None if view["phase"] == phase else f"{view['phase']}: {view['waiting']}"

        wait_for(why_not, phase, deadline_s=self.deadline_s)

    def wait_open(self, signal_: str) -> None:
        """Until the gate of a step is open."""

        def why_not() -> str | None:
            edge = next(each for each in self.get("/gates")["items"] if each["trigger"] == signal_)
            return None if edge["holds"] else str([check for check in edge["conditions"] if check["status"] != "True"])

        wait_for(why_not, f"{signal_} is open", deadline_s=self.deadline_s)

    def to_ready(self) -> None:
        self.step("advance", "PREFLIGHT", to="PREFLIGHT")
        self.wait_open("advance")
        self.step("advance", "READY", to="QUORUM")
        self.wait_open("advance")

    def rows(self) -> list[tuple[str, str]]:
        return [(event["from_phase"], event["to_phase"]) for event in self.get("/events")["items"]]

    def controller_pid(self) -> int | None:
        with suppress(OSError, ValueError):
            return int(json.loads((self.controller.data / CONTROL_FILE).read_text())["pid"])
        return None

    def stop_controller(self) -> None:
        pid = self.controller_pid()
        if pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


ROAD = ("CREATED", "PREFLIGHT", "QUORUM", "BROKERS_JOINING", "READY", "TAKEOVER", "COPY", "AUDIT", "DUAL_WRITE")
BACK = ("DUAL_WRITE", "ROLLING_BACK", "ROLLED_BACK")


def links(*phases: str) -> list[tuple[str, str]]:
    return list(pairwise(phases))


def keys(document: Any, at: str = "") -> set[str]:
    """Every key with its way to it; items of lists under []."""
    if isinstance(document, dict):
        found = {f"{at}.{key}" for key in document} - {f"{at}.0", f"{at}.1", f"{at}.2"}
        return found.union(*(keys(value, f"{at}.{key}") for key, value in document.items() if not key.isdigit()))
    if isinstance(document, list):
        return set().union(*(keys(value, f"{at}[]") for value in document))
    return set()


def test_a_cluster_goes_to_dual_write_and_back_through_rest(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory, topics=3, chroot="/kafka", extra=HELD) as (cluster, controller):
        write(controller.properties_file, controller.spec.properties())
        controller.format()
        service = ServiceUnderTest(laboratory, cluster, controller)
        service.start()
        service.create()
        refused = service.ask("abort")
        assert (refused.status_code, refused.json()["code"]) == (409, "Z2K-4003")

        service.to_ready()
        assert controller_of(cluster) is not None
        service.step("advance", "DUAL_WRITE", to="DUAL_WRITE", reason="the rehearsal is passed")
        holder = controller_of(cluster)
        assert holder is not None
        assert holder["brokerid"] == controller.spec.node_id

        audit = service.http.post(f"{service.url}/api/v1/migrations/1/audits", json={}).headers["location"]
        wait_for(lambda: _why_not_done(service, audit), "the audit is done")
        assert service.http.get(service.url + audit).json()["passed"] is True
        assert_the_fake_has_the_real_keys(controller)
        page = service.http.get(f"{service.url}/migrations/1").text
        assert f"controller {controller.spec.node_id} (zk2kraft, KRaft mode)" in page

        assert_a_loss_needs_consent(service)
        service.step("rollback", "ROLLED_BACK", reason="and back")
        wait_zookeeper_rules(cluster)
        assert service.rows() == [*links(*ROAD), *links(*BACK)]
        report = service.get("/report")
        assert report["takeover_s"] < 15
        wait_for(lambda: "it still runs" if service.controller_pid() else None, "the retired controller ended")
        service.stop()


CLIENT_METRICS = 16
ONLY_KRAFT = "configuration of client-metrics push"


def subscribe(controller: OurController, *, removes: bool = False) -> None:
    """A subscription of client metrics; clients of the laboratory have no enumeration of this kind of resource.

    removes: it is taken away again.
    """
    values = {"interval.ms": "60000", "metrics": "*"}
    changes = tuple(IncrementalAlterableConfig(key, int(removes), each) for key, each in values.items())
    request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(CLIENT_METRICS, "push", changes),), False)

    async def ask() -> IncrementalAlterConfigsResponse:
        connection = BrokerConnection("127.0.0.1", controller.spec.port, "a test")
        try:
            return await connection.ask(request, 1, IncrementalAlterConfigsResponse)
        finally:
            connection.close()

    assert [each.error_code for each in asyncio.run(ask()).responses] == [0]


def assert_a_loss_needs_consent(service: ServiceUnderTest) -> None:
    """In DUAL_WRITE, without a way to lose something, the gate is open; then it is closed until somebody consents."""
    service.wait_open("rollback")
    assert service.get()["road"]["back"]["lost"] == []
    subscribe(service.controller)
    wait_for(lambda: None if service.get()["road"]["back"]["lost"] else "nothing is listed", "the loss is listed")
    view = service.get()
    assert view["road"]["back"]["lost"] == [ONLY_KRAFT]
    assert view["undo"]["lost"].startswith(ONLY_KRAFT)
    assert ONLY_KRAFT in service.http.get(f"{service.url}/migrations/1").text
    refused = service.ask("rollback")
    assert (refused.status_code, refused.json()["code"]) == (409, GATE_CLOSED.code)
    assert ONLY_KRAFT in refused.text
    assert LOSS_NOT_ACCEPTED.code in refused.text
    assert service.get()["phase"] == "DUAL_WRITE"
    assert service.ask("approve", to="ROLLING_BACK").json()["code"] == AGREED_TO_ANOTHER.code
    read = service.get("/agreement?to=ROLLING_BACK")
    assert read["says"] == [f"lost: {ONLY_KRAFT}"]
    assert service.ask("approve", to="ROLLING_BACK", digest=read["digest"]).status_code == 202
    service.wait_open("rollback")
    assert service.get()["road"]["back"]["consented_by"] == "test"


def _why_not_done(service: ServiceUnderTest, audit: str) -> str | None:
    found = service.http.get(service.url + audit).json()
    return None if found["state"] == "done" else f"{found['state']} {found['problem']}"


def assert_the_fake_has_the_real_keys(controller: OurController) -> None:
    """What the unit tests fake is what a controller says; keys of an audit's report are the audit's business."""
    entry = ControllerEntry(controller.spec.node_id, "", "")
    fake = FakeController(entry, time.time, gate=OPEN)
    fake.move("DUAL_WRITE")
    real, faked = controller.status(), fake.status()
    for document in (real, faked):
        document["claim"] = document["audit"] = None
    assert keys(faked) == keys(real)


STALLS = (("claim", "TAKEOVER"), ("encode", "COPY"), ("audit", "AUDIT"))
"""What the controller waits before, and the phase that this keeps the migration in."""


@pytest.mark.long
def test_a_service_killed_in_every_phase_of_the_takeover_writes_one_row_per_transition(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    patient = {**HELD, "zk2kraft.takeover.max.ms": 60_000}  # a service starts within the window, also on a slow machine
    with ready_cluster(laboratory, topics=3, extra=patient) as (cluster, controller):
        service = ServiceUnderTest(laboratory, cluster, controller)
        expected = links(*ROAD[: ROAD.index("READY") + 1])
        for effect, phase in STALLS:
            mark, go = tmp_path / effect, tmp_path / f"{effect}-go"
            spoil(controller, mark, stall_before=effect, go=str(go))
            controller.start()
            service.start()
            if effect == "claim":
                service.create()
                service.to_ready()
                assert service.get("/quorum")["items"][0]["pid"] == controller.process.pid, "it was adopted"
            service.step("advance", phase, to="TAKEOVER")
            wait_for(lambda mark=mark: None if mark.exists() else "not yet", f"{phase} is stalled")  # type: ignore[misc]
            service.kill()
            service.start()
            assert service.get()["phase"] == phase
            expected += links(*ROAD[ROAD.index("READY") : ROAD.index(phase) + 1])
            if phase != "AUDIT":
                service.step("abort", "READY", reason="the next phase, please")
                expected += links(phase, "ABORTING", "READY")
                service.kill()
                controller.stop()
        service.kill()
        go.touch()
        controller.wait_dual_write()
        service.start()
        service.wait_phase("DUAL_WRITE")
        service.kill()
        service.start()
        expected += links("AUDIT", "DUAL_WRITE")
        assert service.rows() == expected
        assert_sound(service.get("/events")["items"])
        states = {each["state"] for each in service.get()["operations"] if not LabService.was_closed(each)}
        assert states == {"succeeded"}, "every operation was fulfilled, none was handed over twice"

        service.step("rollback", "ROLLED_BACK")
        wait_zookeeper_rules(cluster)
        assert service.rows() == [*expected, *links(*BACK)]
        service.stop()


def assert_sound(events: list[dict[str, Any]]) -> None:
    """In order, without a gap, each from its own entry of a history."""
    assert [event["version"] for event in events] == list(range(2, len(events) + 2))
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)
    sources = [(event["source"], event["to_phase"]) for event in events]
    assert len(set(sources)) == len(sources)
