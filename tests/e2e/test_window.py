"""The window without a controller: it ends by itself, and nobody has to be awake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.proof import prove
from migrator.zk.multi import Create, Multi
from migrator.zk.session import ZkSession
from tests.e2e.quorums import start, three_controllers
from tests.e2e.support import (
    HANGS_AFTER_S,
    assert_same,
    controller_of,
    copies,
    ready_cluster,
    spoil,
    unspoil,
    wait_for,
    wait_zookeeper_rules,
    zookeeper_rules,
)
from tests.e2e.test_lab_traffic import RECORDS, assert_all_good, assert_nothing_lost

pytestmark = [pytest.mark.lab, pytest.mark.alone]


def stalled(mark: Path) -> None:
    wait_for(lambda: None if mark.exists() else "not stalled yet", "the controller stalls")


def test_a_stalled_copy_is_rolled_back_at_the_deadline_and_not_tried_again(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    mark, limit_s = tmp_path / "mark", 3
    with ready_cluster(laboratory, extra={"zk2kraft.takeover.max.ms": limit_s * 1000}) as (cluster, controller):
        spoil(controller, mark, stall_before="read")
        controller.launch()
        stalled(mark)
        wait_zookeeper_rules(cluster, deadline_s=limit_s + 5)
        controller.wait_state("ABORTED")
        status = controller.status()["driver"]
        assert status["finding"]["code"] == "Z2K-2015"
        assert status["window_ms"] >= limit_s * 1000, "aborted at the limit, and not for another reason before it"
        cluster.create_topics(["decided-by-zookeeper"])
        assert cluster.zk.read("/migration") is None
        assert copies(controller) == 0


def test_a_broker_that_dies_in_the_window_ends_it_and_nothing_is_lost(laboratory: Laboratory, tmp_path: Path) -> None:
    """Nobody can shrink an ISR then, and producers want two replicas in sync."""
    mark, topics = tmp_path / "mark", [f"topic-{number}" for number in range(3)]
    limit = {"zk2kraft.takeover.max.ms": 60000}
    with ready_cluster(laboratory, extra=limit, broker_extra={"min.insync.replicas": 2}) as (cluster, controller):
        traffic = Traffic(laboratory, cluster.bootstrap_servers)
        traffic.start(topics)
        traffic.wait_flowing()
        spoil(controller, mark, stall_before="audit")
        controller.launch()
        stalled(mark)
        dying = cluster.brokers[2]
        dying.kill()
        wait_zookeeper_rules(cluster)
        controller.wait_state("ABORTED")
        finding = controller.status()["driver"]["finding"]
        assert finding["code"] == "Z2K-2016"
        assert finding["values"]["broker"] == dying.broker_id
        dying.start()
        dying.wait_ready()
        cluster.wait_isr_whole(topics)
        traffic.wait_acknowledged(RECORDS, deadline_s=HANGS_AFTER_S)
        traffic.wait_aborted(deadline_s=HANGS_AFTER_S)
        assert_nothing_lost(traffic.stop())
        assert_all_good(prove(cluster, traffic.ledger))


def test_a_write_between_copy_and_audit_makes_the_migration_rollback_by_itself(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    mark, go = tmp_path / "mark", tmp_path / "go"
    with ready_cluster(laboratory) as (cluster, controller):
        spoil(controller, mark, stall_before="audit", go=str(go))
        controller.launch()
        stalled(mark)
        with ZkSession(cluster.zookeeper_connect) as bystander:
            data = json.dumps({"version": 1, "config": {"retention.ms": "77"}}).encode()
            assert bystander.apply(Multi((Create("/config/brokers/1", data),))).applied
        go.touch()
        wait_zookeeper_rules(cluster)
        controller.wait_state("ABORTED")
        finding = controller.status()["driver"]["finding"]
        assert finding["code"] == "Z2K-2011"
        assert "broker configs 1" in finding["says"]
        assert copies(controller) == 0

        controller.ask("takeover")
        controller.wait_dual_write()
        assert_same(cluster, controller.data)


def test_an_operator_aborts_a_takeover(laboratory: Laboratory, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with ready_cluster(laboratory, extra={"zk2kraft.takeover.max.ms": 60000}) as (cluster, controller):
        spoil(controller, mark, stall_before="audit")
        controller.launch()
        stalled(mark)
        controller.ask("abort", "the operator has second thoughts")
        wait_zookeeper_rules(cluster, deadline_s=5)
        controller.wait_state("ABORTED")
        finding = controller.status()["driver"]["finding"]
        assert finding["code"] == "Z2K-2020"
        assert "second thoughts" in finding["says"]


def test_a_full_send_that_lacks_one_partition_is_never_sent(laboratory: Laboratory, tmp_path: Path) -> None:
    with ready_cluster(laboratory) as (cluster, controller):
        spoil(controller, tmp_path / "mark", drop={"topic": "topic-1", "partition": 2})
        controller.launch()
        controller.wait_ready()
        controller.wait_state("RETIRED")
        wait_zookeeper_rules(cluster)
        refused = [event for event in controller.events() if event.get("event") == "brokers.not_updated"]
        assert refused
        assert any("topic-1-2" in text for text in refused[0]["findings"])
        assert not [event for event in controller.events() if event.get("event") == "brokers.updated"]
        assert not list(laboratory.directory.glob("broker-*/data-*/*-stray"))
        cluster.create_topics(["goes-on"])
        assert controller_of(cluster)["kraftControllerEpoch"] == -1


def test_a_leader_that_loses_its_majority_in_the_window_lets_the_claim_go_in_time(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """Nobody can be elected, so nobody can give the claim back; the old leader's session still holds it."""
    mark, limit_s = tmp_path / "mark", 8
    with three_controllers(laboratory, {"zk2kraft.takeover.max.ms": limit_s * 1000}) as (cluster, ours):
        for each in ours:
            spoil(each, mark, stall_before="read")
        start(ours)
        stalled(mark)
        leader = next(each for each in ours if each.status()["driver"]["state"] == "COPYING")
        others = [each for each in ours if each is not leader]
        for each in others:
            each.kill()
        wait_zookeeper_rules(cluster, deadline_s=limit_s + 5)
        assert leader.is_running
        assert "let go" in leader.status()["driver"]["reason"]
        cluster.create_topics(["decided-by-zookeeper"])

        for each in others:
            each.start()
        wait_for(
            lambda: None if any(each.state() == "ABORTED" for each in ours) else "no driver is ABORTED",
            "the next leader does not try again by itself",
        )
        assert zookeeper_rules(cluster) is None
        cluster.create_topics(["decided-by-zookeeper-again"])


def test_a_controller_killed_while_copying_leaves_the_cluster_to_zookeeper_and_does_not_try_again(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    with ready_cluster(laboratory, extra={"zookeeper.session.timeout.ms": 6000}) as (cluster, controller):
        spoil(controller, mark, stall_before="encode")
        controller.launch()
        stalled(mark)
        assert controller_of(cluster)["brokerid"] == controller.spec.node_id
        controller.kill()
        took = wait_zookeeper_rules(cluster)
        assert took < 9, took
        cluster.create_topics(["after-the-crash"])

        unspoil(controller)
        controller.start()
        controller.wait_state("ABORTED")
        assert controller_of(cluster)["kraftControllerEpoch"] == -1
        assert controller.status()["driver"]["finding"]["code"] == "Z2K-2017"

        controller.ask("takeover")
        controller.wait_dual_write()
        assert copies(controller) == 1
        assert_same(cluster, controller.data)
