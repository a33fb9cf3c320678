"""docker/compose.yaml, from a cluster in ZooKeeper mode to the end, operated by the service through the engine.

The `exec` template is docker/actuators/docker.yaml as it is shipped. Clients are on the host, on published ports.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.docker.composition import PORT, Composition
from tests.docker.road import assert_nothing_lost, start_traffic, to_dual_write, to_soak

pytestmark = [pytest.mark.docker, pytest.mark.timeout(3600)]

SPARK_DEADLINE_S: Final = 1000.0
"""Longer than the service lets it run: a busy machine takes minutes where an idle one takes ten seconds."""


def test_the_service_answers_outside_its_container_only_with_its_token_and_under_a_declared_name(
    composition: Composition,
) -> None:
    assert composition.request("GET", "/api/v1/migrations").status_code == 200
    closed = composition.request("GET", "/api/v1/migrations", token="")
    assert (closed.status_code, closed.json()["code"]) == (401, "Z2K-4111")
    for headers in ({"host": "evil.example"}, {"host": f"localhost:{PORT}"}, {"host": "127.0.0.1:1"}):
        foreign = composition.request("GET", "/api/v1/migrations", headers=headers)
        assert (foreign.status_code, foreign.json()["code"]) == (403, "Z2K-4023"), headers
    page = composition.request("POST", "/api/v1/migrations", json={}, headers={"origin": "http://evil.example"})
    assert (page.status_code, page.json()["code"]) == (403, "Z2K-4023")


def test_containers_are_healthy_without_root_and_published_on_loopback_only(composition: Composition) -> None:
    composition.wait_healthy("zk2kraft-serve")
    for name in composition.running():
        found = composition.inspect(name)
        bound = [each for ports in found["HostConfig"]["PortBindings"].values() for each in ports]
        assert {each["HostIp"] for each in bound} <= {"127.0.0.1"}, name
        assert found["HostConfig"]["Privileged"] is False
        assert "Uid:\t10001" in composition.engine.docker("exec", name, "cat", "/proc/self/status"), name


def test_a_cluster_of_containers_is_migrated_to_the_end(composition: Composition) -> None:
    traffic = start_traffic(composition)
    migration = to_dual_write(composition)
    audit = composition.post(f"/migrations/{migration}/audits", {"engine": "spark", "who": "first person"})

    def not_audited() -> str | None:
        found = composition.get(f"/audits/{audit['id']}")
        return f"the audit is {found['state']}" if found["state"] in ("asked", "running") else None

    composition.wait(not_audited, "an audit by Spark", SPARK_DEADLINE_S)
    assert composition.get(f"/audits/{audit['id']}")["passed"]
    to_soak(composition, migration)
    composition.advance(migration, "FINALIZING")
    view = composition.wait_phase(migration, "COMPLETED")

    road = view["road"]
    assert (road["migration_state"], road["kraft"], road["zookeeper"]) == ("POST_MIGRATION", [1, 2, 3], [])
    assert road["drifted"] == road["not_read"] == []
    rolls = {row["roll"] for row in road["nodes"] if row["step"] == "WHOLE"}
    assert {"join", "kraft", "stock", "soak", "final"} <= rolls
    # every stop and start went through the engine, which is told to keep them running again
    for name in ("zk2kraft-kafka-1", "zk2kraft-kafka-controller-3000"):
        assert composition.inspect(name)["HostConfig"]["RestartPolicy"]["Name"] == "unless-stopped"
    composition.engine.docker("stop", "zk2kraft-zookeeper")
    traffic.stop()
    assert_nothing_lost(composition, traffic)
