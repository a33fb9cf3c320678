"""Real Kafka brokers: in ZooKeeper mode, in ZooKeeper mode ready to migrate, and in KRaft mode.

In:   a `BrokerSpec`: id, ports, directory, mode.
Out:  `BrokerProcess`: the process, and `restart_as(spec)`, which changes a broker's mode on the same directory and
      ports.
Elsewhere: which brokers make a cluster (cluster.py).
Source: KIP-866 and Kafka 3.9's KafkaConfig: a broker without the migration flag must not name controller listeners,
one with it must; a KRaft broker must not name ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, assert_never

from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.probe import tls_of, why_kafka_does_not_answer
from migrator.lab.servers.properties import Value
from migrator.lab.servers.server import READY_DEADLINE_S, Server
from migrator.lab.servers.zookeeper import ZooKeeperClient

LISTENER: Final = "PLAINTEXT"
CONTROLLER_LISTENER: Final = "CONTROLLER"
PROTOCOL_MAP: Final = f"{LISTENER}:PLAINTEXT,{CONTROLLER_LISTENER}:PLAINTEXT"
IBP: Final = "3.9"
FINDS_NO_LEADER_MS: Final = 600_000
"""A broker of Kafka 3.9 that has found no leader for this long asks on without a pause, and uses a core for it: three
of them take a machine of two cores until a controller answers. It never stands for election. By default 1 to 2 s.
Source: `KafkaRaftClient.pollUnattachedAsObserver`.
"""
SESSION_TIMEOUT_MS: Final = 9000
"""As long as a KRaft broker's session, and half of Kafka's default: a broker killed -9 can be back that much sooner."""

SMALL: Final[Mapping[str, Value]] = {
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "transaction.state.log.min.isr": 1,
    "log.index.size.max.bytes": 65536,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    "group.initial.rebalance.delay.ms": 0,
    "controlled.shutdown.retry.backoff.ms": 500,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "auto.create.topics.enable": False,
}
"""What lets three brokers live on a laptop: few internal partitions, small maps, no waiting for more group members."""

QUIET: Final[Mapping[str, str]] = {
    "state.change.logger": "WARN",
    "kafka.cluster.Partition": "WARN",
    "kafka.log": "WARN",
    "kafka.server.ReplicaFetcherManager": "WARN",
    "kafka.server.ReplicaFetcherThread": "WARN",
}
"""Loggers with a line or more for each partition; with 5,000 of them writing it takes longer than the work."""


class BrokerMode(StrEnum):
    """Who a broker takes its metadata from."""

    ZOOKEEPER = "zookeeper"
    MIGRATING = "migrating"
    KRAFT = "kraft"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """The configuration of one broker.

    port:              where it listens.
    advertised_port:   what it tells others, None when the same; a tap stands there.
    zookeeper_connect: with chroot; needed in both ZooKeeper modes.
    voters:            `controller.quorum.voters`; needed in the migrating and the KRaft mode.
    bootstrap_only:    the same addresses as `controller.quorum.bootstrap.servers`, so that the broker knows no ids.
    replication:       replicas of internal topics, at most the number of brokers.
    extra:             further properties; they win.
    log_levels:        logger name to level; they win over QUIET.
    """

    broker_id: int
    port: int
    directory: Path
    mode: BrokerMode = BrokerMode.ZOOKEEPER
    zookeeper_connect: str = ""
    voters: str = ""
    bootstrap_only: bool = False
    advertised_port: int | None = None
    ibp: str = IBP
    log_directories: int = 1
    replication: int = 1
    heap_mb: int = 512
    extra: Mapping[str, Value] = field(default_factory=dict)
    log_levels: Mapping[str, str] = field(default_factory=dict)

    def as_zookeeper(self) -> BrokerSpec:
        return replace(self, mode=BrokerMode.ZOOKEEPER, voters="")

    def as_migrating(self, voters: str) -> BrokerSpec:
        return replace(self, mode=BrokerMode.MIGRATING, voters=voters)

    def as_kraft(self, voters: str) -> BrokerSpec:
        return replace(self, mode=BrokerMode.KRAFT, voters=voters)

    def properties(self) -> dict[str, Value]:
        return {**self._of_mode(), **self._of_every_mode(), **self.extra}

    def _of_every_mode(self) -> dict[str, Value]:
        directories = ",".join(str(self.directory / f"data-{n}") for n in range(self.log_directories))
        return {
            "listeners": f"{LISTENER}://{HOST}:{self.port}",
            "advertised.listeners": f"{LISTENER}://{HOST}:{self.advertised_port or self.port}",
            "log.dirs": directories,
            "offsets.topic.replication.factor": self.replication,
            "transaction.state.log.replication.factor": self.replication,
            **SMALL,
        }

    def _of_mode(self) -> dict[str, Value]:
        match self.mode:
            case BrokerMode.ZOOKEEPER:
                return self._in_zookeeper()
            case BrokerMode.MIGRATING:
                assert self.voters, f"broker {self.broker_id} cannot migrate without controller.quorum.voters"
                return {
                    **self._in_zookeeper(),
                    **self._of_quorum(),
                    "zookeeper.metadata.migration.enable": True,
                }
            case BrokerMode.KRAFT:
                assert self.voters, f"broker {self.broker_id} cannot be KRaft without controller.quorum.voters"
                return {"process.roles": "broker", "node.id": self.broker_id, **self._of_quorum()}
            case _:
                assert_never(self.mode)

    def _in_zookeeper(self) -> dict[str, Value]:
        assert self.zookeeper_connect, f"broker {self.broker_id} needs zookeeper.connect"
        return {
            "broker.id": self.broker_id,
            "zookeeper.connect": self.zookeeper_connect,
            "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
            "inter.broker.protocol.version": self.ibp,
        }

    def _of_quorum(self) -> dict[str, Value]:
        servers = ",".join(voter.partition("@")[2] for voter in self.voters.split(","))
        quorum = {"controller.quorum.bootstrap.servers": servers}
        return {
            **(quorum if self.bootstrap_only else {"controller.quorum.voters": self.voters}),
            "controller.listener.names": CONTROLLER_LISTENER,
            "listener.security.protocol.map": PROTOCOL_MAP,
            "controller.quorum.election.timeout.ms": FINDS_NO_LEADER_MS,
        }


class BrokerProcess(Server):
    """One broker process.

    zookeeper: a client below the cluster's chroot, to see the broker register and leave.
    """

    main_class = "kafka.Kafka"

    def __init__(self, laboratory: Laboratory, spec: BrokerSpec, zookeeper: ZooKeeperClient | None) -> None:
        super().__init__(laboratory, f"broker-{spec.broker_id}")
        assert spec.directory == self.directory, f"{self.name} lives in {self.directory}, not in {spec.directory}"
        self.spec = spec
        self.zookeeper = zookeeper

    @property
    def broker_id(self) -> int:
        return self.spec.broker_id

    @property
    def address(self) -> str:
        """Where clients go: the advertised one."""
        return f"{HOST}:{self.spec.advertised_port or self.spec.port}"

    @property
    def heap_mb(self) -> int:
        return self.spec.heap_mb

    def properties(self) -> dict[str, Value]:
        return self.spec.properties()

    def log_levels(self) -> Mapping[str, str]:
        return {**QUIET, **self.spec.log_levels}

    def why_not_ready(self) -> str | None:
        """It answers ApiVersions and, in both ZooKeeper modes, is registered in ZooKeeper."""
        reason = why_kafka_does_not_answer(self.spec.port, tls=tls_of(self.properties(), self.spec.port))
        if reason is None and self._is_in_zookeeper and not self.is_registered():
            return f"not in {self._registration}"
        return reason

    def is_registered(self) -> bool:
        """Whether `/brokers/ids/<id>` exists."""
        assert self.zookeeper is not None
        return self.zookeeper.exists(self._registration)

    def before_start(self) -> None:
        """A broker refuses to start while the session of its killed predecessor still holds the registration, so that
        session ends now: until here the broker was as much away, and as much registered, as after any power cut.
        """
        super().before_start()
        if self._is_in_zookeeper:
            assert self.zookeeper is not None
            self.zookeeper.end_session_of(self._registration)
            self.laboratory.wait(
                lambda: f"{self._registration} of the run before is still there" if self.is_registered() else None,
                name=self.name,
                deadline_s=3 * SESSION_TIMEOUT_MS / 1000,
            )

    def restart_as(self, spec: BrokerSpec, deadline_s: float = READY_DEADLINE_S) -> float:
        """Stop, start with another configuration on the same directory and ports, and wait until it is ready.

        Returns the seconds from the order to stop until ready.
        """
        stopped = self.become(spec)
        return stopped + self.wait_ready(deadline_s)

    def become(self, spec: BrokerSpec) -> float:
        """Stop and start with another configuration, without waiting for ready. Returns the seconds of the stop."""
        same = ("broker_id", "port", "directory", "advertised_port", "log_directories")
        changed = [name for name in same if getattr(spec, name) != getattr(self.spec, name)]
        assert not changed, f"{self.name} keeps its {changed}: this is a restart, not another broker"
        stopped = self.stop() if self.is_running else 0.0
        self.spec = spec
        self.start()
        return stopped

    @property
    def _registration(self) -> str:
        return f"/brokers/ids/{self.broker_id}"

    @property
    def _is_in_zookeeper(self) -> bool:
        return self.spec.mode is not BrokerMode.KRAFT
