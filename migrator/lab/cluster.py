"""A whole Kafka cluster in a laboratory: ZooKeeper, brokers, taps in front of them, stock controllers.

In:   a laboratory and how much of what.
Out:  `LabCluster`: start it, talk to it (`admin`, `bootstrap_servers`, `zookeeper_connect`), change its modes.
Elsewhere: single servers (servers/zookeeper.py, servers/broker.py, servers/controller.py); what a tap writes down
(frames.py); its configurations (admin.py).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    AdminClient,
    NewTopic,
)

from migrator.lab.admin import ADMIN_TIMEOUT_S, Administered, never_connected
from migrator.lab.flaws import flawed_brokers
from migrator.lab.frames import Recorder
from migrator.lab.servers.broker import IBP, BrokerProcess, BrokerSpec
from migrator.lab.servers.controller import StockController, StockQuorum, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.lab.servers.server import READY_DEADLINE_S, start_together
from migrator.lab.servers.waiting import wait_until
from migrator.lab.servers.zookeeper import ZooKeeper, ZooKeeperClient
from migrator.lab.tap import Tap

METADATA_TIMEOUT_S: Final = 2.0
LOOKS_FOR_FLAWS_S: Final = 10.0
DID_NOTHING: Final = (KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.NOT_CONTROLLER)
"""Refusals of a creation that pass by themselves."""

logger = logging.getLogger(__name__)


class LabCluster(Administered):
    """One cluster that begins in ZooKeeper mode.

    chroot:   "" or "/name": where Kafka's tree hangs in ZooKeeper.
    recorder: given, every broker advertises a tap that records into it, named like its broker ("broker-0").
    ibp:      inter.broker.protocol.version of every broker.
    extra:    further properties of every broker.
    client:   how clients log in, as librdkafka's keys.
    secure:   keys and certificates of ZooKeeper, whose TLS port brokers and controllers then use; the laboratory itself
              looks at it through the plain one.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        *,
        brokers: int = 3,
        zookeepers: int = 1,
        chroot: str = "",
        recorder: Recorder | None = None,
        log_directories: int = 1,
        ibp: str = IBP,
        extra: Mapping[str, Value] | None = None,
        client: Mapping[str, str] | None = None,
        secure: Mapping[str, Value] | None = None,
    ) -> None:
        self.laboratory = laboratory
        self._client = dict(client or {})
        self.zookeeper = ZooKeeper(laboratory, servers=zookeepers, secure=secure)
        self.chroot = chroot
        self.recorder = recorder
        self.taps: dict[int, Tap] = {}
        self._admin: AdminClient | None = None
        self._admin_since: list[int] = []
        self.brokers: list[BrokerProcess] = []
        for broker_id in range(brokers):
            port = laboratory.ports.reserve()
            spec = BrokerSpec(
                broker_id=broker_id,
                port=port,
                advertised_port=None if recorder is None else laboratory.ports.reserve(),
                directory=laboratory.directory / f"broker-{broker_id}",
                zookeeper_connect=self.zookeeper_connect,
                log_directories=log_directories,
                ibp=ibp,
                replication=min(3, brokers),
                extra=extra or {},
            )
            self.brokers.append(BrokerProcess(laboratory, spec, self.zk))

    @property
    def zookeeper_connect(self) -> str:
        """`zookeeper.connect`, chroot included."""
        return self.zookeeper.hosts_for_kafka + self.chroot

    @property
    def zk(self) -> ZooKeeperClient:
        """A look into Kafka's tree; paths are below the chroot."""
        return self.zookeeper.client(self.chroot)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    @property
    def login(self) -> dict[str, str]:
        """How clients log in, as librdkafka's keys; empty where nobody does."""
        return dict(self._client)

    @property
    def client(self) -> dict[str, str]:
        """What a client is made with, as librdkafka's keys."""
        return {"bootstrap.servers": self.bootstrap_servers, **self._client}

    @property
    def cluster_id(self) -> str:
        """What the first broker wrote to `/cluster/id`."""
        data = self.zk.read("/cluster/id")
        assert data is not None, "the cluster was never started"
        return str(json.loads(data)["id"])

    def start(self, deadline_s: float = READY_DEADLINE_S) -> None:
        """Start ZooKeeper, taps and brokers; wait until every broker knows every other and one is controller."""
        self.zookeeper.start(deadline_s)
        if self.recorder is not None:
            for broker in self.brokers:
                self._start_tap(broker, self.recorder)
        start_together(self.brokers, deadline_s)
        self.wait_whole(deadline_s)

    def stop(self) -> None:
        """Stop cleanly: brokers at the same time, then ZooKeeper. Leaving the laboratory does not need it."""
        self._stop_brokers()
        self.zookeeper.stop()

    def wait_whole(self, deadline_s: float = READY_DEADLINE_S) -> float:
        """Wait until a controller is elected and the running brokers name each other to clients."""
        return self.laboratory.wait(self._why_not_whole, name="cluster", deadline_s=deadline_s)

    def wait_isr_whole(self, topics: Iterable[str], deadline_s: float = READY_DEADLINE_S) -> float:
        """Wait until ZooKeeper shows a leader and all replicas in sync for every partition of these topics."""
        names = list(topics)
        looked = time.monotonic()

        def why_not() -> str | None:
            nonlocal looked
            reason = next(filter(None, map(self._why_isr_not_whole, names)), None)
            if reason is not None and time.monotonic() - looked > LOOKS_FOR_FLAWS_S:
                self.restart_flawed()
                looked = time.monotonic()
            return reason

        return self.laboratory.wait(why_not, name="replicas", deadline_s=deadline_s)

    def restart_flawed(self) -> int:
        """Do what docs/undo.md asks of an operator: restart brokers that met Kafka's flaw, with the files that they
        have. Returns how many did.

        Raises RuntimeError when a thread ended for another reason, or in more than one broker: a flaw that few restarts
        meet is not all that is wrong then.
        """
        flawed = flawed_brokers(
            {
                broker.name: broker.process.log.read_text(errors="replace")
                for broker in self.brokers
                if broker.is_running
            }
        )
        for broker in (each for each in self.brokers if each.name in flawed):
            logger.warning("%s met the flaw of docs/undo.md and is restarted", broker.name)
            broker.stop()
            broker.start_as_written()
            broker.wait_ready()
        return len(flawed)

    def create_topics(
        self, names: Iterable[str], *, partitions: int = 4, config: Mapping[str, str] | None = None
    ) -> None:
        """Create topics with up to three replicas, as an administrator does; returns when they can be written to."""
        wanted = list(names)
        factor = min(3, len(self.brokers))
        new = {each: NewTopic(each, partitions, factor, config=dict(config or {})) for each in wanted}
        wait_until(partial(self._why_not_created, new), name="the topics are created", deadline_s=2 * ADMIN_TIMEOUT_S)
        self.wait_isr_whole(wanted)

    def _why_not_created(self, new: dict[str, NewTopic]) -> str | None:
        """Why some are not created yet; what is created leaves `new`.

        A ZooKeeper-mode broker that became controller a moment ago knows no other broker yet, and refuses; one that is
        controller no more does nothing. A client that never connected asked nobody. Raises every other refusal.
        """
        refusals = []
        for name, future in self.admin().create_topics([*new.values()], operation_timeout=ADMIN_TIMEOUT_S).items():
            try:
                future.result(ADMIN_TIMEOUT_S)
                del new[name]
            except KafkaException as error:
                if error.args[0].code() not in DID_NOTHING and not never_connected(error):
                    raise
                refusals.append(error.args[0].str())
        if refusals:
            self._forget_admin()
        return "; ".join(refusals) or None

    def admin(self) -> AdminClient:
        """An administrator's client, a new one after any broker was restarted.

        One that lives on serves most requests. One for a certain broker (its configuration) then waits until its
        time-out for a connection that librdkafka does not begin, in three of four tries: those go by `admin_for`.
        """
        now = [broker.process.pid for broker in self.brokers]
        if self._admin is None:
            self.laboratory.on_close.callback(self._forget_admin)
        if self._admin is None or now != self._admin_since:
            self._admin = self.new_admin()
            self._admin_since = now
        return self._admin

    def new_admin(self) -> AdminClient:
        return AdminClient(dict(self.client), logger=logger)

    def quorum(
        self, count: int = 1, *, migrating: bool = True, extra: Mapping[str, Value] | None = None
    ) -> StockQuorum:
        """A new quorum of stock controllers, not started; the brokers must have run once (cluster id)."""
        specs = quorum_specs(
            self.laboratory, count=count, zookeeper_connect=self.zookeeper_connect, migrating=migrating, extra=extra
        )
        cluster_id = self.cluster_id
        return StockQuorum(StockController(self.laboratory, spec, cluster_id) for spec in specs)

    def restart_as(self, change: Callable[[BrokerSpec], BrokerSpec], deadline_s: float = READY_DEADLINE_S) -> None:
        """Restart all brokers at the same time with changed configurations: quick, and an outage.

        change: for instance `lambda spec: spec.as_migrating(voters)`. One at a time: `BrokerProcess.restart_as`.
        """
        self._stop_brokers()
        for broker in self.brokers:
            broker.become(change(broker.spec))
        for broker in self.brokers:
            broker.wait_ready(deadline_s)
        self.wait_whole(deadline_s)

    def _stop_brokers(self) -> None:
        running = [broker for broker in self.brokers if broker.is_running]
        for broker in running:
            broker.process.ask_to_stop()
        for broker in running:
            broker.stop()

    def _start_tap(self, broker: BrokerProcess, recorder: Recorder) -> None:
        port = broker.spec.advertised_port
        assert port is not None
        tap = Tap(broker.name, port=port, target_port=broker.spec.port, recorder=recorder)
        self.laboratory.on_close.callback(tap.close)
        self.taps[broker.broker_id] = tap

    def _why_not_whole(self) -> str | None:
        if self.zk.read("/controller") is None:
            return "nobody is controller"
        wanted = {broker.broker_id for broker in self.brokers if broker.is_running}
        try:
            named = set(self.admin().list_topics(timeout=METADATA_TIMEOUT_S).brokers)
        except KafkaException as error:
            return f"no metadata ({error.args[0]})"
        return None if named >= wanted else f"clients are told of brokers {sorted(named)}, not of {sorted(wanted)}"

    def _why_isr_not_whole(self, topic: str) -> str | None:
        data = self.zk.read(f"/brokers/topics/{topic}")
        if data is None:
            return f"{topic} is not in ZooKeeper"
        for partition, replicas in json.loads(data)["partitions"].items():
            state = self.partition_state(topic, int(partition))
            if state is None or state["leader"] < 0 or set(state["isr"]) != set(replicas):
                return f"{topic}-{partition} has replicas {replicas} and in sync {state and state['isr']}"
        return None

    def partition_state(self, topic: str, partition: int) -> dict[str, Any] | None:
        """The state of a partition as ZooKeeper has it; None before it has one."""
        data = self.zk.read(f"/brokers/topics/{topic}/partitions/{partition}/state")
        return None if data is None else dict(json.loads(data))

    def _forget_admin(self) -> None:
        self._admin = None
