"""Audits of dual-write by a schedule, with a real cluster: a difference planted in ZooKeeper closes the way forward."""

from __future__ import annotations

import json
from typing import Any

import pytest

from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import write
from tests.e2e.support import AUDIT_DEADLINE_S, ready_cluster, wait_for, wait_zookeeper_rules
from tests.e2e.test_service import HELD, ServiceUnderTest

pytestmark = pytest.mark.lab

EVERY_S = 8
PLANTED = "/config/clients/planted"
OF_AUDITS = {"Z2K-4025", "Z2K-4026", "Z2K-4065", "Z2K-4066"}
"""Other conditions of this gate stay closed here: this service has no inventory of nodes."""


def edge(service: ServiceUnderTest, signal: str) -> dict[str, Any]:
    return next(each for each in service.get("/gates")["items"] if each["trigger"] == signal)


def codes(service: ServiceUnderTest) -> set[str]:
    """What keeps steps forward closed."""
    return {
        code for check in edge(service, "advance")["conditions"] if check["status"] != "True" for code in check["codes"]
    }


def found(service: ServiceUnderTest) -> set[str]:
    return {each["code"] for each in service.get()["findings"]}


def why_not(service: ServiceUnderTest, **wanted: Any) -> str | None:
    seen = service.get()["audit_schedule"]
    return None if all(seen[key] == value for key, value in wanted.items()) else str(seen)


def test_a_planted_difference_closes_the_way_forward_alone_until_it_is_gone(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory, topics=3, extra=HELD) as (cluster, controller):
        write(controller.properties_file, controller.spec.properties())
        controller.format()
        service = ServiceUnderTest(laboratory, cluster, controller)
        service.config.write_text(service.config.read_text() + f"audit_every_s = {EVERY_S}\n")
        service.start()
        service.create()
        service.to_ready()
        service.step("advance", "DUAL_WRITE", to="DUAL_WRITE")

        wait_for(lambda: why_not(service, result="passed", diverged_twice=False), "an audit passed")
        wait_for(lambda: why_not(service, brokers="passed"), "and every broker says what the log says")
        asked = service.get()["audits"][0]["brokers"]["asked"]
        assert [each["mode"] for each in asked] == ["ZooKeeper"] * len(cluster.brokers), asked
        wait_for(lambda: None if not codes(service) & OF_AUDITS else str(codes(service)), "all audited")
        cluster.zk.create(PLANTED, json.dumps({"version": 1, "config": {"producer_byte_rate": "4711"}}).encode())
        wait_for(lambda: why_not(service, result="diverged", diverged_twice=True, differences=1), "two diverged")
        assert "Z2K-4025" in codes(service)
        wait_for(lambda: None if "Z2K-4025" in found(service) else str(found(service)), "the finding is open")
        service.wait_open("rollback")
        back = edge(service, "rollback")
        assert any("1 different" in each["message"] for each in back["conditions"])
        metrics = service.http.get(service.url + "/metrics").text
        assert 'zk2kraft_audit_diverged_twice{migration="lab"} 1.0' in metrics
        assert "diverged" in service.http.get(f"{service.url}/migrations/1").text

        service.kill()
        service.start()
        assert "Z2K-4025" in codes(service), "a restart forgets nothing"
        cluster.zk.delete(PLANTED)
        cluster.brokers[2].kill()
        wait_for(
            lambda: None if "Z2K-4066" in found(service) & codes(service) else str(found(service)), "one is silent"
        )
        service.wait_open("rollback")
        cluster.brokers[2].start()
        wait_for(lambda: why_not(service, result="passed", diverged_twice=False), "it passed again")
        wait_for(lambda: None if not codes(service) & OF_AUDITS else str(codes(service)), "the finding is gone")
        service.step("rollback", "ROLLED_BACK")
        wait_zookeeper_rules(cluster)
        service.stop()


def test_ready_does_not_wait_for_spark_which_confirms_the_rehearsal_beside_it(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory, topics=3, extra=HELD) as (cluster, controller):
        write(controller.properties_file, controller.spec.properties())
        controller.format()
        service = ServiceUnderTest(laboratory, cluster, controller, engine="spark", deadline_s=AUDIT_DEADLINE_S)
        service.start()
        service.create()
        service.to_ready()

        def confirmation() -> dict[str, Any] | None:
            runs = service.get("/audits")["items"]
            return next((run for run in runs if run["purpose"] == "confirmation"), None)

        first = service.get("/audits")["items"][-1]
        assert (first["purpose"], first["engine"], first["passed"]) == ("rehearsal", "quick", True)
        assert (confirmation() or {"finished_at": None})["finished_at"] is None, "the gate was open before Spark ended"
        wait_for(
            lambda: None if (confirmation() or {}).get("passed") else str(confirmation()),
            "Spark confirmed",
            deadline_s=AUDIT_DEADLINE_S,
        )
        found = confirmation()
        assert found is not None
        print(f"the gate opened {found['finished_at'] - first['finished_at']:.1f} s before Spark had confirmed")
        assert found["engine"] == "spark"
        service.step("rollback", "ROLLED_BACK")
        service.stop()
