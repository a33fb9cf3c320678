"""A broker that hangs while the active controller dies: nobody else waits for it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from migrator.errors import FindingError
from migrator.lab.laboratory import Laboratory
from migrator.lab.ours import OurController
from migrator.node.broker_client import BrokerConnection
from migrator.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.e2e.quorums import start, three_controllers, wait_ruling
from tests.e2e.support import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.alone]

SILENT = 2


def brokers_of(controllers: list[OurController]) -> dict[int, dict[str, Any]]:
    """As the controller that leads shows them; empty while nobody does."""
    for each in controllers:
        try:
            status = each.status()
        except (OSError, ValueError, FindingError):
            continue
        if status["quorum"]["leader"] == each.spec.node_id and status["claim"] is not None:
            return {broker["id"]: broker for broker in status["brokers"]}
    return {}


async def create_topic(address: str, name: str) -> None:
    """Through this broker: librdkafka may take the one that hangs for the controller."""
    host, _, port = address.rpartition(":")
    connection = BrokerConnection(host, int(port), "a-test")
    topic = CreatableTopic(name, -1, -1, assignments=(CreatableReplicaAssignment(0, (0, 1)),))
    try:
        answer = await connection.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=30_000), 7, CreateTopicsResponse)
    finally:
        connection.close()
    assert [each.error_code for each in answer.topics] == [0], answer


def test_a_fail_over_does_not_wait_for_a_broker_that_hangs(laboratory: Laboratory) -> None:
    """The others are told before the session of the silent one ends; then it is fenced like any other."""
    with three_controllers(laboratory) as (cluster, ours):
        start(ours)
        leader = wait_ruling(ours, 40)
        silent = cluster.brokers[SILENT]
        silent.pause()
        leader.kill()
        began = time.monotonic()
        rest = [each for each in ours if each is not leader]

        def why_not() -> str | None:
            seen = brokers_of(rest)
            told = seen and all(seen[broker]["told"] for broker in (0, 1))
            return None if told else str({broker: each["not_told"] for broker, each in seen.items()})

        told_s = wait_for(why_not, 60, "the other brokers are told")
        seen = brokers_of(rest)[SILENT]
        assert not seen["fenced"], "told only after the silent broker was fenced"
        assert seen["not_told"]["reason"]
        print(f"the others are told after {told_s:.1f} s")

        asyncio.run(create_topic(cluster.brokers[0].address, "made-meanwhile"))
        mirrored = "/brokers/topics/made-meanwhile"
        wait_for(lambda: None if cluster.zk.exists(mirrored) else "not in ZooKeeper", 60, "the change is mirrored")
        print(f"an admin change is in ZooKeeper after {time.monotonic() - began:.1f} s")

        silent.resume()
        wait_for(lambda: None if brokers_of(rest)[SILENT]["told"] else "not told", 60, "the silent broker is told")
        assert wait_ruling(rest) in rest
