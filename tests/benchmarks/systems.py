"""Those that are compared, each as it would run in production: three nodes, their own defaults, fsync.

In:   a directory on a real disk, Kafka's jars.
Out:  `System`: started, warmed up, and one cell measured after the other.
Elsewhere: what a load is (kraft_load.py, zookeeper_load.py), the order of the cells (quorum.py).
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from migrator.lab.ours import OurController
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.controller import ControllerSpec, StockController, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value
from migrator.lab.servers.server import start_together
from migrator.lab.servers.tools import random_cluster_id
from migrator.lab.servers.zookeeper import ZooKeeper
from tests.benchmarks.figures import STOCK
from tests.benchmarks.zookeeper_load import Ensemble, config_change, creation
from tests.support import kraft_load
from tests.support.kraft_load import CONFIGURED_TOPICS, Address, ConfigChanges, Creations

STOCK_AT_ONCE: Final = f"{STOCK}, linger 0"
OURS: Final = "ours"
ENSEMBLE: Final = "ZooKeeper"
CREATE: Final = "create a topic"
CONFIGURE: Final = "change a config"

NODES: Final = 3
HEAP_MB: Final = 1024
"""What Kafka's own start scripts give a broker, a controller and (512) a ZooKeeper server."""

KAFKA_FLAGS: Final = (
    "-server",
    "-XX:-UseSerialGC",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""The collector of Kafka's start scripts; the laboratory's own choice is meant for many small processes."""

SILENT: Final[Mapping[str, str]] = {"kafka": "WARN", "org.apache.kafka": "WARN", "org.apache.zookeeper": "WARN"}
"""A stock controller writes a line for each topic; ours does not."""

FOREVER_MS: Final = 3_600_000
OF_THE_BENCHMARK: Final[Mapping[str, Value]] = {
    "broker.session.timeout.ms": FOREVER_MS,
    "auto.leader.rebalance.enable": False,
}
"""For stock and ours alike: the brokers are made up and report once, and nobody moves leaderships meanwhile."""


class System(Protocol):
    """One of those that are compared."""

    @property
    def name(self) -> str: ...

    def start(self) -> None:
        """Start the nodes and bring them into the state from which every cell begins."""

    def measure(self, change: str, in_flight: int, *, ramp_s: float, seconds: float) -> list[float]:
        """Put this load on it; the latencies in seconds. Afterwards what was created is deleted again."""


class KraftSystem:
    """Three KRaft controllers, stock's or ours."""

    def __init__(self, name: str, start: Callable[[str], dict[int, Address]], cluster_id: str) -> None:
        self.name = name
        self._start = start
        self._cluster_id = cluster_id
        self._voters: dict[int, Address] = {}
        self._topics: list[str] = []
        self._cells = itertools.count()

    def start(self) -> None:
        self._voters = self._start(self._cluster_id)
        self._topics = asyncio.run(self._prepare())

    async def _prepare(self) -> list[str]:
        return await kraft_load.prepare(await kraft_load.find_leader(self._voters), self._cluster_id)

    def measure(self, change: str, in_flight: int, *, ramp_s: float, seconds: float) -> list[float]:
        return asyncio.run(self._measure(change, in_flight, ramp_s, seconds))

    async def _measure(self, change: str, in_flight: int, ramp_s: float, seconds: float) -> list[float]:
        leader = await kraft_load.find_leader(self._voters)
        if change == CONFIGURE:
            load = ConfigChanges(self._topics)
            return await kraft_load.put_load(leader, load, in_flight, ramp_s=ramp_s, seconds=seconds)
        creations = Creations(f"created-{next(self._cells)}")
        latencies = await kraft_load.put_load(leader, creations, in_flight, ramp_s=ramp_s, seconds=seconds)
        await kraft_load.delete(leader, creations.names)
        return latencies


class ZooKeeperSystem:
    """Three ZooKeeper servers; the client is connected to the leader, as it is with the controllers."""

    name = ENSEMBLE

    def __init__(self, laboratory: Laboratory) -> None:
        self._service = ZooKeeper(laboratory, servers=NODES)
        for server in self._service.servers:
            server.log_levels = lambda: SILENT  # type: ignore[method-assign]
        self._topics = [f"configured-{number}" for number in range(CONFIGURED_TOPICS)]
        self._cells = itertools.count()

    def start(self) -> None:
        self._service.start()
        with Ensemble(self._leader()) as ensemble:
            ensemble.prepare(self._topics)

    def measure(self, change: str, in_flight: int, *, ramp_s: float, seconds: float) -> list[float]:
        with Ensemble(self._leader()) as ensemble:
            if change == CONFIGURE:
                fill = config_change(self._topics)
                latencies = ensemble.put_load(fill, in_flight, ramp_s=ramp_s, seconds=seconds)
                ensemble.delete_notes()
                return latencies
            names: list[str] = []
            fill = creation(f"created-{next(self._cells)}", names)
            latencies = ensemble.put_load(fill, in_flight, ramp_s=ramp_s, seconds=seconds)
            ensemble.delete_topics(names)
            return latencies

    def _leader(self) -> str:
        for server in self._service.servers:
            with socket.create_connection((HOST, server.spec.port), 5.0) as connection:
                connection.sendall(b"srvr")
                answer = connection.makefile("rb").read()
            if b"Mode: leader" in answer:
                return f"{HOST}:{server.spec.port}"
        raise AssertionError("no server of the ensemble says that it leads")


class _QuietController(StockController):
    """A stock controller with the heap and collector of Kafka's start scripts, without a line per topic."""

    def jvm_options(self) -> tuple[str, ...]:
        return KAFKA_FLAGS

    def log_levels(self) -> Mapping[str, str]:
        return SILENT


def stock(laboratory: Laboratory) -> System:
    return _stock(STOCK, laboratory, {})


def stock_at_once(laboratory: Laboratory) -> System:
    """Its leader gathers changes for 25 ms before it writes them, unless told otherwise; this one is told otherwise."""
    return _stock(STOCK_AT_ONCE, laboratory, {"controller.quorum.append.linger.ms": 0})


def _stock(name: str, laboratory: Laboratory, extra: Mapping[str, Value]) -> System:
    def start(cluster_id: str) -> dict[int, Address]:
        controllers = [_QuietController(laboratory, spec, cluster_id) for spec in _specs(laboratory, extra)]
        for each in controllers:
            each.format()
        start_together(controllers)
        return {each.spec.node_id: (HOST, each.spec.port) for each in controllers}

    return KraftSystem(name, start, random_cluster_id())


def ours(laboratory: Laboratory) -> System:
    def start(cluster_id: str) -> dict[int, Address]:
        controllers = [OurController(laboratory, spec, cluster_id) for spec in _specs(laboratory, {})]
        for each in controllers:
            each.launch()
        for each in controllers:
            each.wait_ready()
        return {each.spec.node_id: (HOST, each.spec.port) for each in controllers}

    return KraftSystem(OURS, start, random_cluster_id())


def _specs(laboratory: Laboratory, extra: Mapping[str, Value]) -> list[ControllerSpec]:
    both = {**OF_THE_BENCHMARK, **extra}
    specs = quorum_specs(laboratory, count=NODES, zookeeper_connect="", migrating=False, extra=both)
    return [replace(spec, heap_mb=HEAP_MB) for spec in specs]


def laboratory(directory: Path, artifacts: Artifacts) -> Laboratory:
    """One for each system, so that names do not meet; the JVM's better compiler, since throughput is measured."""
    return Laboratory(directory, artifacts, fast_start=False)


SYSTEMS: Final[Mapping[str, Callable[[Laboratory], System]]] = {
    ENSEMBLE: ZooKeeperSystem,
    STOCK: stock,
    STOCK_AT_ONCE: stock_at_once,
    OURS: ours,
}
