"""A partition whose only replica in sync is gone waits, until its topic allows an unclean leader: then it gets one."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.lab.cluster import LabCluster
from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.support import assert_same, produce, ready_cluster, wait_for
from tests.e2e.test_admin_requests import create

pytestmark = pytest.mark.lab

TOPIC = "waits"
SWEEP_S = 2.0


def state(cluster: LabCluster) -> dict[str, Any]:
    data = cluster.zk.read(f"/brokers/topics/{TOPIC}/partitions/0/state")
    return dict(json.loads(data or b"{}"))


def wait_leader(cluster: LabCluster, leader: int, isr: list[int]) -> None:
    def why_not() -> str | None:
        found = state(cluster)
        return None if (found.get("leader"), found.get("isr")) == (leader, isr) else str(found)

    wait_for(why_not, f"the partition has leader {leader} and ISR {isr}")


def allow_unclean(cluster: LabCluster) -> None:
    cluster.alter_configs(ResourceType.TOPIC, TOPIC, {"unclean.leader.election.enable": "true"})


def test_a_partition_without_leader_gets_an_unclean_one_once_its_topic_allows_it(laboratory: Laboratory) -> None:
    extra = {"unclean.leader.election.interval.ms": int(SWEEP_S * 1000)}
    with ready_cluster(laboratory, topics=1, extra=extra) as (cluster, controller):
        controller.start()
        controller.wait_dual_write()
        create(cluster, TOPIC, (0, 1))
        in_sync, behind = cluster.brokers[0], cluster.brokers[1]
        behind.kill()
        produce(cluster, TOPIC, 10)  # acknowledged by all in sync: the other had to leave
        wait_leader(cluster, 0, [0])
        in_sync.kill()
        wait_leader(cluster, -1, [0])
        behind.start()
        behind.wait_ready()
        time.sleep(3 * SWEEP_S)
        assert state(cluster)["leader"] == -1, "records could be lost, and nobody allowed that"
        allow_unclean(cluster)
        wait_leader(cluster, 1, [1])
        swept = [event for event in controller.events() if event.get("event") == "leaders.unclean"]
        assert [event["topics"] for event in swept] == [[TOPIC]]
        produce(cluster, TOPIC, 10)
        assert_same(cluster, controller.data)
