"""ZooKeeper away, the leading controller killed, then a broker: fenced, its leaderships moved, and mirrored later."""

from __future__ import annotations

import json
from typing import Any

import pytest

from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.quorums import PATIENT, TOPICS, leading, start, three_controllers, wait_ruling
from tests.e2e.support import produce, wait_for

pytestmark = pytest.mark.lab


def broker_in(status: dict[str, Any], broker: int) -> dict[str, Any]:
    (found,) = [each for each in status["brokers"] if each["id"] == broker]
    return dict(found)


def led_by(cluster: LabCluster, broker: int) -> str | None:
    """None when no partition in ZooKeeper is led by it."""
    for name in TOPICS:
        for partition in range(4):
            state = json.loads(cluster.zk.read(f"/brokers/topics/{name}/partitions/{partition}/state") or b"{}")
            if state.get("leader") == broker:
                return f"{name}-{partition} is led by {broker}"
    return None


def test_a_broker_that_dies_while_nobody_can_claim_is_fenced_and_its_leaderships_move(laboratory: Laboratory) -> None:
    with three_controllers(laboratory, PATIENT) as (cluster, ours):
        start(ours)
        wait_ruling(ours)
        produce(cluster, TOPICS[0], 50)
        first = wait_ruling(ours)
        cluster.zookeeper.stop()
        first.kill()
        alive = [each for each in ours if each is not first]
        _leader(alive)
        dead = cluster.brokers[0]
        dead.kill()

        def why_not_fenced() -> str | None:  # the two may elect again meanwhile
            leader = leading(alive)
            status = next((each for each in alive if each.spec.node_id == leader), alive[0]).status()
            return None if broker_in(status, dead.broker_id)["fenced"] else f"not fenced; the leader is {leader}"

        wait_for(why_not_fenced, "it is fenced")
        _leader(alive)
        assert all(each.is_running for each in alive)

        cluster.zookeeper.start()
        wait_ruling(alive)
        wait_for(lambda: led_by(cluster, dead.broker_id), "ZooKeeper has the new leaders")
        produce(cluster, TOPICS[0], 50)


def _leader(alive: list[OurController]) -> OurController:
    found: list[OurController] = []

    def why_not() -> str | None:
        leader = leading(alive)
        for each in alive:
            if each.spec.node_id == leader and each.state() == "RESUMING":
                found.append(each)
                return None
        return f"the leader is {leader}"

    wait_for(why_not, "another leads")
    return found[-1]
