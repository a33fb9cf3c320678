"""A controller that the service did not start, cannot signal and whose directory it does not read: HTTPS and a token.

The certificates are of a company's authority that both sides trust; in dual-write another authority takes its place,
and nothing is restarted for it.
"""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest

from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.tls.renewal import LOOK_EVERY_S
from tests.e2e.support import ready_cluster, wait_for, wait_zookeeper_rules
from tests.e2e.test_service import HELD, ServiceUnderTest
from tests.support.certificates import Authority
from tests.support.remote_controllers import TOKEN, ServiceFiles, remote_port

pytestmark = pytest.mark.lab


class RemoteService(ServiceUnderTest):
    """It may read its own files alone: a copy of the controller's file, and the certificates."""

    def __init__(
        self, laboratory: Laboratory, cluster: LabCluster, controller: OurController, authority: Authority, port: int
    ) -> None:
        super().__init__(laboratory, cluster, controller)
        self.address = f"https://localhost:{port}"
        self.files = ServiceFiles(laboratory.directory / "files-of-the-service", authority)
        settings = self.files.settings(port)
        self.config.write_text(
            f'port = 0\ndirectory = "{self.directory}"\nroots = ["{self.files.directory}"]\naudit_engine = "quick"\n'
            "observe_every_s = 0.2\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        )

    def inventory(self) -> dict[str, Any]:
        copy = self.files.copy_of(self.controller.properties_file, "controller")
        entry = {"node_id": self.controller.spec.node_id, "properties": str(copy), "data": str(self.controller.data)}
        return {
            "name": "lab",
            "zookeeper": self.cluster.zookeeper_connect,
            "bootstrap_servers": self.cluster.bootstrap_servers,
            "controllers": [{**entry, "control": self.address}],
            "brokers": [{"id": broker.broker_id} for broker in self.cluster.brokers],
        }

    def create(self) -> None:
        answer = self.http.post(self.url + "/api/v1/migrations", json=self.inventory())
        assert answer.status_code == 201, answer.text

    def audit(self) -> dict[str, Any]:
        where = self.http.post(f"{self.url}/api/v1/migrations/1/audits", json={}).headers["location"]

        def why_not_done() -> str | None:
            found = self.http.get(self.url + where).json()
            return None if found["state"] == "done" else f"{found['state']} {found['problem']}"

        wait_for(why_not_done, "the audit is done")
        return dict(self.http.get(self.url + where).json())

    def why_not_renewed(self) -> str | None:
        assert self.process is not None
        return None if "certificates.renewed" in self.process.log_text() else "not yet"

    def sees_the_controller(self) -> str | None:
        (seen,) = self.get("/quorum")["items"]
        return None if seen["answers"] else str(seen)


def ask(address: str, authority: Authority, shown: Path | None, token: str) -> int | str:
    """The status code of an operation that is asked for from another host, or how TLS ended."""
    context = ssl.create_default_context(cafile=str(authority.trusted))
    if shown is not None:
        context.load_cert_chain(shown)
    try:
        with httpx.Client(verify=context, trust_env=False, timeout=30) as http:
            return http.post(
                f"{address}/v1/rollback", headers={"authorization": f"Bearer {token}"}, json={}
            ).status_code
    except httpx.TransportError as error:
        return type(error).__name__


def why_not_left_alone(service: RemoteService, cluster: LabCluster) -> str | None:
    """A broker may meet the flaw of docs/undo.md; then our controller is right to run on until it is restarted."""
    waiting = str(service.get()["waiting"])
    if "until every broker forwards requests" in waiting:
        return f"{waiting}; {cluster.restart_flawed()} brokers restarted"
    return None if "still run on other hosts" in waiting else waiting


def test_a_controller_on_another_host_is_adopted_driven_audited_and_not_stopped(laboratory: Laboratory) -> None:
    authority, renewed = Authority(laboratory.directory / "authority"), Authority(laboratory.directory / "renewed")
    stranger = Authority(laboratory.directory / "stranger")
    port = laboratory.ports.reserve()
    extra = {**HELD, **remote_port(laboratory.directory, authority, port)}
    with ready_cluster(laboratory, topics=3, extra=extra) as (cluster, controller):
        controller.start()
        service = RemoteService(laboratory, cluster, controller, authority, port)
        shown = authority.sign("somebody").pem
        assert ask(service.address, authority, None, TOKEN) in ("ReadError", "RemoteProtocolError", "ConnectError")
        assert ask(service.address, authority, stranger.sign("x").pem, TOKEN) in (
            "ReadError", "RemoteProtocolError", "ConnectError"
        )  # fmt: skip
        assert ask(service.address, authority, shown, "another-token") == 401
        assert ask(service.address, authority, shown, TOKEN) == 409, "nothing can be rolled back yet"

        service.start()
        service.create()
        wait_for(service.sees_the_controller, "the controller is adopted")
        service.to_ready()
        service.step("advance", "DUAL_WRITE", to="DUAL_WRITE")
        cluster.create_topics(["made-in-dual-write"])
        audited = service.audit()
        assert audited["passed"] is True, json.dumps(audited)
        kept = [each.name for each in (service.directory / "migrations" / "1").iterdir()]
        assert not [each for each in kept if each.startswith("log-of-quorum-")], "it was read for this audit alone"

        authority.trusted.with_name("controller.pem").write_text(renewed.sign("controller").pem.read_text())
        authority.trusted.write_text(renewed.trusted.read_text())
        service.files.take_certificates(renewed)
        wait_for(
            lambda: None if ask(service.address, renewed, renewed.sign("y").pem, "z") == 401 else "the old certificate",
            "the controller shows its new certificate",
            deadline_s=10 * LOOK_EVERY_S,
        )
        wait_for(service.why_not_renewed, "the service has read its new certificate")
        wait_for(service.sees_the_controller, "and sees the controller with it")
        service.kill()
        service.start()
        wait_for(service.sees_the_controller, "the next service sees it too")

        service.step("rollback", "ROLLED_BACK", reason="and back")
        wait_zookeeper_rules(cluster)
        wait_for(
            lambda: why_not_left_alone(service, cluster),
            "the service says that the controller is not its own to stop",  # a minute after the rollback
        )
        assert controller.process.alive
        controller.stop()
        wait_for(
            lambda: "it is still named" if "other hosts" in service.get()["waiting"] else None,
            "it is seen to have ended",
        )
        service.stop()
