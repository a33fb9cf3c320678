"""A Kafka cluster without ZooKeeper: brokers in KRaft mode, on controllers of ours or of Kafka's.

In:   a laboratory, whose controllers, how many of what.
Out:  `KraftCluster`: start it, talk to it (`admin`, `bootstrap_servers`), look at who leads what.
Elsewhere: clusters that begin in ZooKeeper mode (cluster.py); single servers (servers/broker.py, servers/controller.py,
ours.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    AdminClient,
    NewTopic,
)

from migrator.lab.admin import ADMIN_TIMEOUT_S, Administered, by_new_clients
from migrator.lab.ours import OurController
from migrator.lab.servers.broker import IBP, BrokerMode, BrokerProcess, BrokerSpec
from migrator.lab.servers.controller import StockController, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.lab.servers.server import READY_DEADLINE_S
from migrator.lab.servers.tools import format_storage, random_cluster_id

METADATA_TIMEOUT_S: Final = 5.0

logger = logging.getLogger(__name__)


class Whose(StrEnum):
    """Who made the controllers."""

    OURS = "ours"
    STOCK = "stock"


class Led(NamedTuple):
    """One partition as clients are told of it."""

    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


class KraftBroker(BrokerProcess):
    """A broker whose directories are formatted before its first start."""

    def __init__(self, laboratory: Laboratory, spec: BrokerSpec, cluster_id: str) -> None:
        super().__init__(laboratory, spec, None)
        self._cluster_id = cluster_id

    def before_start(self) -> None:
        super().before_start()
        if not (self.directory / "data-0" / "meta.properties").exists():
            format_storage(self.laboratory, self.properties_file, self._cluster_id, IBP)


class KraftCluster(Administered):
    """One cluster that never knew ZooKeeper.

    bootstrap_only: brokers are told of the quorum by `controller.quorum.bootstrap.servers` alone.
    extra:          further properties of every broker. controller_extra: of every controller.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        whose: Whose = Whose.OURS,
        *,
        controllers: int = 3,
        brokers: int = 3,
        log_directories: int = 1,
        bootstrap_only: bool = False,
        extra: Mapping[str, Value] | None = None,
        controller_extra: Mapping[str, Value] | None = None,
    ) -> None:
        self.laboratory = laboratory
        self.cluster_id = random_cluster_id()
        specs = quorum_specs(
            laboratory, count=controllers, zookeeper_connect="", migrating=False, extra=controller_extra
        )
        made = OurController if whose is Whose.OURS else StockController
        self.controllers: list[OurController | StockController] = [
            made(laboratory, each, self.cluster_id) for each in specs
        ]
        self.brokers = [
            KraftBroker(
                laboratory,
                BrokerSpec(
                    broker_id=broker_id,
                    port=laboratory.ports.reserve(),
                    directory=laboratory.directory / f"broker-{broker_id}",
                    mode=BrokerMode.KRAFT,
                    voters=specs[0].voters,
                    bootstrap_only=bootstrap_only,
                    log_directories=log_directories,
                    replication=min(3, brokers),
                    extra=extra or {},
                ),
                self.cluster_id,
            )
            for broker_id in range(brokers)
        ]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    @property
    def client(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap_servers}

    def start(self, deadline_s: float = READY_DEADLINE_S) -> None:
        """Controllers, then brokers; returns when clients are told of every broker."""
        for controller in self.controllers:
            controller.launch() if isinstance(controller, OurController) else controller.start()
        for controller in self.controllers:
            controller.wait_ready(deadline_s)
        for broker in self.brokers:
            broker.start()
        for broker in self.brokers:
            broker.wait_ready(deadline_s)
        self.laboratory.wait(self._why_not_whole, name="cluster", deadline_s=deadline_s)

    def stop(self) -> None:
        """Brokers cleanly, then controllers."""
        running = [broker for broker in self.brokers if broker.is_running]
        for broker in running:
            broker.process.ask_to_stop()
        for broker in running:
            broker.stop()
        for controller in self.controllers:
            if controller.is_running:
                controller.stop()

    def admin(self) -> AdminClient:
        """A new one for each use: one that lives on waits for brokers that were restarted."""
        return self.new_admin()

    def new_admin(self) -> AdminClient:
        return AdminClient(dict(self.client), logger=logger)

    def create_topics(
        self, names: Iterable[str], *, partitions: int = 4, config: Mapping[str, str] | None = None
    ) -> None:
        """Create topics with up to three replicas; returns when every replica is in sync."""
        wanted = list(names)
        factor = min(3, len(self.brokers))
        new = [NewTopic(each, partitions, factor, config=dict(config or {})) for each in wanted]

        def ask(admin: AdminClient) -> None:
            for future in admin.create_topics(new, operation_timeout=ADMIN_TIMEOUT_S).values():
                future.result(ADMIN_TIMEOUT_S)

        by_new_clients(self.new_admin, ask, "the creation of topics", deadline_s=2 * ADMIN_TIMEOUT_S)
        self.wait_isr_whole(wanted)

    def partitions(self) -> dict[str, Led]:
        """Every partition by its name ("orders-3"), as a broker tells clients now. Raises KafkaException."""
        topics = self.admin().list_topics(timeout=ADMIN_TIMEOUT_S).topics
        return {
            f"{name}-{number}": Led(each.leader, tuple(each.isrs), tuple(each.replicas))
            for name, topic in topics.items()
            for number, each in topic.partitions.items()
        }

    def wait_isr_whole(self, topics: Iterable[str], deadline_s: float = READY_DEADLINE_S) -> float:
        """Wait until every partition of these topics has a leader, and all its replicas in sync."""
        names = set(topics)

        def why_not() -> str | None:
            try:
                seen = self.partitions()
            except KafkaException as error:
                return f"no metadata ({error.args[0]})"
            mine = {key: led for key, led in seen.items() if key.rpartition("-")[0] in names}
            if {key.rpartition("-")[0] for key in mine} != names:
                return f"clients are told of {len(mine)} partitions"
            bad = {key: led for key, led in mine.items() if led.leader < 0 or set(led.isr) != set(led.replicas)}
            return None if not bad else f"{len(bad)} not whole, for instance {next(iter(bad.items()))}"

        return self.laboratory.wait(why_not, name="replicas", deadline_s=deadline_s)

    def _why_not_whole(self) -> str | None:
        wanted = {broker.broker_id for broker in self.brokers if broker.is_running}
        try:
            named = set(self.admin().list_topics(timeout=METADATA_TIMEOUT_S).brokers)
        except KafkaException as error:
            return f"no metadata ({error.args[0]})"
        return None if named >= wanted else f"clients are told of brokers {sorted(named)}, not of {sorted(wanted)}"
