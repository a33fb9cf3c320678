"""A stock controller and ours side by side, each a quorum of one without a migration: the same requests to both.

In:   a laboratory, what stands in both files.
Out:  `compared`: whatever a test asks of the two `Side`s, each with one pretended broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from migrator.lab.ours import OurController
from migrator.lab.servers.controller import StockController, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value
from migrator.lab.servers.tools import random_cluster_id
from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegistrationFeature,
    RegistrationListener,
)
from migrator.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from migrator.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.support.builders import an_id

TOPIC: Final = 2
HEARTBEATS_MAX: Final = 1_200
NEVER_FENCED: Final = {"broker.session.timeout.ms": "600000"}
Configs = tuple[tuple[str, str], ...]
T = TypeVar("T")


class Side:
    """One controller, asked over one connection."""

    def __init__(self, name: str, node_id: int, port: int, cluster_id: str) -> None:
        self.name = name
        self.node_id = node_id
        self.port = port
        self._cluster_id = cluster_id
        self.connection = BrokerConnection(HOST, port, "a test")

    async def join(self) -> None:
        """Pretend to be a broker in KRaft mode, until topics can be placed on it."""
        request = BrokerRegistrationRequest(
            broker_id=1,
            cluster_id=self._cluster_id,
            incarnation_id=an_id("run-1"),
            listeners=(RegistrationListener("PLAINTEXT", HOST, 9092, 0),),
            features=(RegistrationFeature("metadata.version", 1, 21), RegistrationFeature("kraft.version", 0, 1)),
            log_dirs=(an_id("dir-1"),),
        )
        for _ in range(HEARTBEATS_MAX):
            registered = await self.connection.ask(request, 4, BrokerRegistrationResponse)
            if not registered.error_code:
                break
            await asyncio.sleep(0.1)
        assert not registered.error_code, registered
        for _ in range(HEARTBEATS_MAX):
            beat = BrokerHeartbeatRequest(1, registered.broker_epoch, 1 << 40, False, False)
            answer = await self.connection.ask(beat, 1, BrokerHeartbeatResponse)
            if not answer.is_fenced:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{self.name} does not unfence its broker")

    async def incremental(self, changes: Sequence[tuple[str, Configs]], *, trial: bool = True) -> list[int]:
        """One resource per change; by topic name."""
        resources = tuple(
            IncrementalAlterConfigsResource(
                TOPIC, topic, tuple(IncrementalAlterableConfig(key, 0, value) for key, value in configs)
            )
            for topic, configs in changes
        )
        request = IncrementalAlterConfigsRequest(resources, trial)
        answer = await self.connection.ask(request, 1, IncrementalAlterConfigsResponse)
        codes = {each.resource_name: each.error_code for each in answer.responses}
        return [codes[topic] for topic, _ in changes]

    async def old_form(self, changes: Sequence[tuple[str, Configs]]) -> list[int]:
        resources = tuple(
            AlterConfigsResource(TOPIC, topic, tuple(AlterableConfig(key, value) for key, value in configs))
            for topic, configs in changes
        )
        answer = await self.connection.ask(AlterConfigsRequest(resources, True), 2, AlterConfigsResponse)
        codes = {each.resource_name: each.error_code for each in answer.responses}
        return [codes[topic] for topic, _ in changes]

    async def create(self, changes: Sequence[tuple[str, Configs]], *, trial: bool = True) -> list[int]:
        topics = tuple(
            CreatableTopic(topic, 1, 1, (), tuple(CreatableTopicConfig(key, value) for key, value in configs))
            for topic, configs in changes
        )
        answer = await self.connection.ask(CreateTopicsRequest(topics, 30_000, trial), 7, CreateTopicsResponse)
        codes = {each.name: each.error_code for each in answer.topics}
        return [codes[topic] for topic, _ in changes]

    def close(self) -> None:
        self.connection.close()


def compared(laboratory: Laboratory, extra: Mapping[str, Value], story: Callable[[Side, Side], Awaitable[T]]) -> T:
    """story: is given ours, then stock's."""
    cluster_id = random_cluster_id()
    both = quorum_specs(laboratory, count=2, zookeeper_connect="", migrating=False, extra={**NEVER_FENCED, **extra})
    spec, other = (replace(each, voters=f"{each.node_id}@{HOST}:{each.port}") for each in both)
    stock, ours = StockController(laboratory, spec, cluster_id), OurController(laboratory, other, cluster_id)
    stock.start()
    ours.start()
    stock.wait_ready()

    async def run() -> T:
        sides = (
            Side("ours", other.node_id, other.port, cluster_id),
            Side("stock", spec.node_id, spec.port, cluster_id),
        )
        try:
            for side in sides:
                await side.join()
            return await story(*sides)
        finally:
            for side in sides:
                side.close()

    return asyncio.run(run())
