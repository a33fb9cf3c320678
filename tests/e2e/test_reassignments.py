"""Replicas that move while the controller changes: begun under ZooKeeper, ended by ours; begun anywhere, ended after
the way back.

A move is kept from ending by Kafka's own replication throttle, which is configuration and is copied like any other.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.lab.cluster import LabCluster
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.tools import cancel_reassignment, list_reassignments, reassign
from tests.e2e.support import HANGS_AFTER_S, assert_same, ready_cluster, wait_for
from tests.e2e.test_admin_requests import (
    assert_all_there,
    assignment,
    at_rest,
    create,
    leaders,
    rollback,
    wait_assignment,
    wait_logs,
)

pytestmark = pytest.mark.lab

MOVED = "moved"
RECORDS = 6_000
PADDING = b" " * 1_500
"""Of one partition far more than a follower takes with its first, unthrottled fetch (1 MiB)."""
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
SMALL_FETCHES = {"replica.fetch.max.bytes": 65_536}
"""A throttled follower gets one fetch of each partition every 11 s: the move would end after three of 1 MiB."""


def fill(cluster: LabCluster, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 20, "batch.size": 60_000}
    )
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), partition=number % 3, headers={"padding": PADDING})
        producer.poll(0)
    assert producer.flush(HANGS_AFTER_S) == 0


def throttle(cluster: LabCluster, topic: str) -> None:
    for broker in cluster.brokers:
        cluster.alter_configs(ResourceType.BROKER, str(broker.broker_id), dict.fromkeys(RATES, "1000"))
    cluster.alter_configs(ResourceType.TOPIC, topic, dict.fromkeys(REPLICAS, "*"))


def let_go(cluster: LabCluster, topic: str) -> None:
    """Fetches that are held back now come to an end in a while: the rate of the last seconds has to fall."""
    cluster.alter_configs(ResourceType.TOPIC, topic, dict.fromkeys(REPLICAS))
    for broker in cluster.brokers:
        cluster.alter_configs(ResourceType.BROKER, str(broker.broker_id), dict.fromkeys(RATES, "1000000000"))


MOVING = {
    "partitions": {"0": [0, 2, 1], "1": [2, 0, 1], "2": [2, 1, 0]},
    "adding_replicas": {"0": [2], "1": [2], "2": [2]},
    "removing_replicas": {"0": [1], "1": [1], "2": [0]},
}


def begin_to_move(cluster: LabCluster) -> None:
    """Three partitions get a replica on broker 2, which gets a part of it only. By ZooKeeper's controller."""
    create(cluster, MOVED, (0, 1), (1, 0), (0, 1))
    fill(cluster, MOVED)
    throttle(cluster, MOVED)
    plan = {(MOVED, 0): (0, 2), (MOVED, 1): (2, 0), (MOVED, 2): (2, 1)}
    reassign(cluster.laboratory, cluster.bootstrap_servers, plan)
    wait_for(lambda: None if assignment(cluster, MOVED) == MOVING else "not yet", "the moves are in ZooKeeper")


def test_moves_that_run_at_the_takeover_are_copied_and_ended(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory, topics=1, broker_extra=SMALL_FETCHES) as (cluster, controller):
        begin_to_move(cluster)
        controller.start()
        controller.wait_dual_write()
        assert assignment(cluster, MOVED) == MOVING
        assert_same(cluster, controller.data)
        text = list_reassignments(laboratory, cluster.bootstrap_servers)
        assert "moved-0: replicas: 0,2,1. adding: 2. removing: 1." in text, text

        cancel_reassignment(laboratory, cluster.bootstrap_servers, {(MOVED, 2): (2, 1)})
        let_go(cluster, MOVED)
        wait_assignment(cluster, MOVED, at_rest(p0=(0, 2), p1=(2, 0), p2=(1, 0)))
        wait_logs(cluster, MOVED, 0, {0, 2})
        wait_logs(cluster, MOVED, 2, {0, 1})
        assert leaders(cluster, MOVED, 3)[0] == 0
        assert not cluster.zk.exists("/admin/reassign_partitions")
        assert_same(cluster, controller.data)
        assert_all_there(cluster, MOVED, 3, RECORDS)


def test_moves_outlive_the_takeover_and_the_rollback(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory, topics=1, broker_extra=SMALL_FETCHES) as (cluster, controller):
        begin_to_move(cluster)
        controller.start()
        controller.wait_dual_write()
        rollback(cluster, controller)
        assert assignment(cluster, MOVED) == MOVING

        let_go(cluster, MOVED)  # by ZooKeeper's own controller
        wait_assignment(cluster, MOVED, at_rest(p0=(0, 2), p1=(2, 0), p2=(2, 1)))
        wait_logs(cluster, MOVED, 1, {0, 2})
        assert_all_there(cluster, MOVED, 3, RECORDS)
