"""Stock KRaft controllers: Kafka's own, formatted by Kafka's own tool, with and without the migration.

In:   a `ControllerSpec` per voter.
Out:  `StockController`, and `StockQuorum`: all voters, `voters` for the brokers, `wait_dual_write`.
Elsewhere: the script that drives a stock migration (stock.py); our own controllers (node).
Source: KIP-866; the log lines are those of KRaftMigrationDriver in Kafka 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from migrator.lab.servers.broker import CONTROLLER_LISTENER, IBP, LISTENER, PROTOCOL_MAP
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.probe import tls_of, why_kafka_does_not_answer
from migrator.lab.servers.properties import Value, write
from migrator.lab.servers.server import READY_DEADLINE_S, Server, start_together
from migrator.lab.servers.tools import format_storage

FIRST_CONTROLLER_ID: Final = 3000
"""Node ids of brokers and controllers share one namespace; brokers count from 0."""

DUAL_WRITE: Final = "DUAL_WRITE"
DRIVER_STATE: Final = re.compile(r"transitioning from (\w+) to (\w+) state")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSpec:
    """The configuration of one voter.

    migrating: the migration flag; `zookeeper_connect` (with chroot) is needed with it.
    release:   what `metadata.version` the log begins with; it must equal the brokers' IBP.
    """

    node_id: int
    port: int
    directory: Path
    voters: str
    migrating: bool = True
    zookeeper_connect: str = ""
    release: str = IBP
    heap_mb: int = 256
    extra: Mapping[str, Value] = field(default_factory=dict)

    def why_not_answering(self) -> str | None:
        """None when whoever runs with this spec answers on its port; with TLS where the spec says so."""
        return why_kafka_does_not_answer(self.port, tls=tls_of(self.properties(), self.port))

    def properties(self) -> dict[str, Value]:
        properties: dict[str, Value] = {
            "process.roles": "controller",
            "node.id": self.node_id,
            "controller.quorum.voters": self.voters,
            "controller.listener.names": CONTROLLER_LISTENER,
            "listeners": f"{CONTROLLER_LISTENER}://{HOST}:{self.port}",
            "listener.security.protocol.map": PROTOCOL_MAP,
            "inter.broker.listener.name": LISTENER,
            "log.dirs": str(self.directory / "data"),
        }
        if self.migrating:
            assert self.zookeeper_connect, f"controller {self.node_id} cannot migrate without zookeeper.connect"
            properties["zookeeper.metadata.migration.enable"] = True
            properties["zookeeper.connect"] = self.zookeeper_connect
        return {**properties, **self.extra}


class StockController(Server):
    """One stock controller process."""

    main_class = "kafka.Kafka"

    def __init__(self, laboratory: Laboratory, spec: ControllerSpec, cluster_id: str) -> None:
        super().__init__(laboratory, f"controller-{spec.node_id}")
        assert spec.directory == self.directory, f"{self.name} lives in {self.directory}, not in {spec.directory}"
        self.spec = spec
        self.cluster_id = cluster_id

    @property
    def heap_mb(self) -> int:
        return self.spec.heap_mb

    @property
    def address(self) -> str:
        return f"{HOST}:{self.spec.port}"

    @property
    def metadata_log(self) -> Path:
        """The directory with segments and snapshots."""
        return self.directory / "data" / "__cluster_metadata-0"

    def properties(self) -> dict[str, Value]:
        return self.spec.properties()

    def why_not_ready(self) -> str | None:
        return self.spec.why_not_answering()

    def format(self) -> None:
        """Give an empty directory to the cluster, once. Raises Z2K-6007 when Kafka's tool refuses."""
        if (self.directory / "data" / "meta.properties").exists():
            return
        write(self.properties_file, self.properties())
        format_storage(self.laboratory, self.properties_file, self.cluster_id, self.spec.release)

    def before_start(self) -> None:
        super().before_start()
        self.format()

    def driver_state(self) -> str:
        """The latest state of the migration driver that this run has logged; "" before the first."""
        states = DRIVER_STATE.findall(self.process.log_text())
        return str(states[-1][1]) if states else ""


class StockQuorum:
    """All stock controllers of one cluster. Is a controller under test in the sense of stock.py."""

    def __init__(self, controllers: Iterable[StockController]) -> None:
        self.controllers = list(controllers)

    @property
    def voters(self) -> str:
        """`controller.quorum.voters`."""
        return self.controllers[0].spec.voters

    @property
    def addresses(self) -> str:
        return ",".join(controller.address for controller in self.controllers)

    def start(self) -> None:
        for controller in self.controllers:
            controller.format()
        start_together(self.controllers)

    def wait_dual_write(self, deadline_s: float = READY_DEADLINE_S) -> float:
        """Wait until one of them writes to both sides, as their logs tell. Returns the seconds waited."""
        laboratory = self.controllers[0].laboratory
        return laboratory.wait(
            self._why_not_dual_write, name="stock quorum", deadline_s=deadline_s, process=self, poll_every_s=0.05
        )

    @property
    def alive(self) -> bool:
        """Whether a majority of the processes lives."""
        return sum(controller.is_running for controller in self.controllers) * 2 > len(self.controllers)

    @property
    def log(self) -> Path:
        return self._answering.process.log

    def log_tail(self) -> str:
        return self._answering.process.log_tail()

    def stop(self) -> None:
        for controller in self.controllers:
            if controller.is_running:
                controller.stop()

    def finalize(self) -> None:
        """Restart each without the migration flag: the next active one ends the migration for good."""
        for controller in self.controllers:
            controller.stop()
            controller.spec = replace(controller.spec, migrating=False)
            controller.start()
            controller.wait_ready()

    def _why_not_dual_write(self) -> str | None:
        states = {controller.name: controller.driver_state() for controller in self.controllers}
        if DUAL_WRITE in states.values():
            return None
        return "drivers: " + ", ".join(f"{name} {state or 'silent'}" for name, state in states.items())

    @property
    def _answering(self) -> StockController:
        """The controller whose log explains most: one that ended, else the first."""
        return next((controller for controller in self.controllers if not controller.is_running), self.controllers[0])


def quorum_specs(
    laboratory: Laboratory,
    *,
    count: int,
    zookeeper_connect: str,
    migrating: bool = True,
    release: str = IBP,
    extra: Mapping[str, Value] | None = None,
) -> list[ControllerSpec]:
    """Specs of a new quorum of `count` voters, with ports of their own; ours can be started from them as well."""
    ports = {FIRST_CONTROLLER_ID + n: laboratory.ports.reserve() for n in range(count)}
    voters = ",".join(f"{node_id}@{HOST}:{port}" for node_id, port in ports.items())
    return [
        ControllerSpec(
            node_id=node_id,
            port=port,
            directory=laboratory.directory / f"controller-{node_id}",
            voters=voters,
            migrating=migrating,
            zookeeper_connect=zookeeper_connect,
            release=release,
            extra=extra or {},
        )
        for node_id, port in ports.items()
    ]
