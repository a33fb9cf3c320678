"""A broker that hangs, or is busy, while the active controller dies: nobody else waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.errors import Error
from migrator.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.e2e.quorums import start, three_controllers, wait_ruling
from tests.e2e.support import HANGS_AFTER_S, wait_for

pytestmark = pytest.mark.lab

SILENT = 2

FOR_A_MOMENT = {Error.REQUEST_TIMED_OUT, Error.NOT_CONTROLLER}
"""What a broker answers that has not heard of the new controller in time."""
CREATED = {Error.NONE, Error.TOPIC_ALREADY_EXISTS}
"""It exists where an answer was lost by an election: a broker sends again what it forwards, and so do we."""


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
    await create_topics(address, [name], brokers=(0, 1))


async def create_topics(
    address: str, names: Sequence[str], partitions: int = 1, brokers: tuple[int, ...] = (0, 1, 2)
) -> None:
    """Through this broker: librdkafka may take the one that hangs for the controller."""
    host, _, port = address.rpartition(":")
    connection = BrokerConnection(host, int(port), "a-test")
    assignments = tuple(CreatableReplicaAssignment(each, brokers) for each in range(partitions))
    topics = tuple(CreatableTopic(name, -1, -1, assignments=assignments) for name in names)
    request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
    ends = time.monotonic() + HANGS_AFTER_S
    codes: set[int] = set(FOR_A_MOMENT)
    try:
        while codes & FOR_A_MOMENT and time.monotonic() < ends:
            answer = await connection.ask(request, 7, CreateTopicsResponse, timeout_s=HANGS_AFTER_S)
            codes = {each.error_code for each in answer.topics}
            await asyncio.sleep(0.1)
    finally:
        connection.close()
    assert codes <= CREATED, answer


def test_a_fail_over_does_not_wait_for_a_broker_that_hangs(laboratory: Laboratory) -> None:
    """The others are told before the session of the silent one ends; then it is fenced like any other."""
    with three_controllers(laboratory, {"broker.session.timeout.ms": 60_000}) as (cluster, ours):
        start(ours)
        leader = wait_ruling(ours)
        silent = cluster.brokers[SILENT]
        silent.pause()
        leader.kill()
        began = time.monotonic()
        rest = [each for each in ours if each is not leader]

        silent_one: dict[str, Any] = {}

        def why_not() -> str | None:
            seen = brokers_of(rest)
            told = seen and all(seen[broker]["updated"] for broker in (0, 1))
            if told:
                silent_one.update(seen[SILENT])
            return None if told else str({broker: each["not_updated"] for broker, each in seen.items()})

        told_s = wait_for(why_not, "the other brokers are told")
        assert not silent_one["fenced"], "told only after the silent broker was fenced"
        assert silent_one["not_updated"]["reason"]
        print(f"the others are told after {told_s:.1f} s")

        asyncio.run(create_topic(cluster.brokers[0].address, "made-meanwhile"))
        mirrored = "/brokers/topics/made-meanwhile"
        wait_for(lambda: None if cluster.zk.exists(mirrored) else "not in ZooKeeper", "the change is mirrored")
        print(f"an admin change is in ZooKeeper after {time.monotonic() - began:.1f} s")

        silent.resume()
        wait_for(
            lambda: None if brokers_of(rest).get(SILENT, {}).get("updated") else "not told", "the silent broker is told"
        )
        assert wait_ruling(rest) in rest
