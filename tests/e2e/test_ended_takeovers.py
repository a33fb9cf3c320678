"""Takeovers that end by themselves for a cause, whatever the pace of the machine: the cluster is where it was.

Elsewhere: those that end after a time (test_window.py).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.proof import prove
from migrator.zk.multi import Create, Multi
from migrator.zk.session import ZkSession
from tests.e2e.support import (
    HANGS_AFTER_S,
    LONG_WINDOW,
    assert_same,
    controller_of,
    copies,
    ready_cluster,
    spoil,
    wait_zookeeper_rules,
)
from tests.e2e.test_lab_traffic import RECORDS, assert_all_good, assert_nothing_lost
from tests.e2e.test_window import stalled

pytestmark = pytest.mark.lab


def test_a_broker_that_dies_in_the_window_ends_it_and_nothing_is_lost(laboratory: Laboratory, tmp_path: Path) -> None:
    """Nobody can shrink an ISR then, and producers want two replicas in sync."""
    mark, topics = tmp_path / "mark", [f"topic-{number}" for number in range(3)]
    with ready_cluster(laboratory, extra=LONG_WINDOW, broker_extra={"min.insync.replicas": 2}) as (cluster, controller):
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


def test_a_write_between_copy_and_audit_makes_the_migration_roll_back_by_itself(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    mark, go = tmp_path / "mark", tmp_path / "go"
    with ready_cluster(laboratory, extra=LONG_WINDOW) as (cluster, controller):
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


def test_a_full_send_that_lacks_one_partition_is_never_sent(laboratory: Laboratory, tmp_path: Path) -> None:
    with ready_cluster(laboratory) as (cluster, controller):
        spoil(controller, tmp_path / "mark", drop={"topic": "topic-1", "partition": 2})
        controller.launch()
        controller.wait_ready()
        controller.wait_state("RETIRED")
        wait_zookeeper_rules(cluster)
        refused = [event for event in controller.events() if event.get("event") == "brokers.not_updated"]
        assert refused  # a broker may be late to say what it has: the first refusal may be for that
        assert any("topic-1-2" in text for event in refused for text in event["findings"])
        assert not [event for event in controller.events() if event.get("event") == "brokers.updated"]
        assert not list(laboratory.directory.glob("broker-*/data-*/*-stray"))
        cluster.create_topics(["goes-on"])
        assert (controller_of(cluster) or {})["kraftControllerEpoch"] == -1
