"""A cluster as a person makes it: properties files and `java`, nothing of the laboratory.

In:   a directory, the class path of Kafka, free ports.
Out:  ZooKeeper with a chroot, three brokers with SASL/SCRAM and AclAuthorizer, a client's counts.
Elsewhere: what is done with it (test_hand_made_cluster.py).
Users: `broker` (brokers, a super user), `migrator` (our controllers towards brokers), `app` (a client), and on the
controllers' own listener `controller`.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

logger = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
CHROOT: Final = "/kafka-prod"
BROKERS: Final = (1, 2, 3)
CONTROLLERS: Final = (3000, 3001, 3002)
SCRAM: Final = "SCRAM-SHA-256"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
READY_S: Final = 240.0
STOPS_S: Final = 180.0
"""A broker that is killed instead cannot start again before ZooKeeper has ended its session."""
DELIVERED_S: Final = 240
"""A record may wait so long for a leader: a broker that restarts on a busy machine is away for a while."""
RECORDS_PER_S: Final = 10
"""Of the client: enough to have some under way at every moment. As many as brokers take would keep the machine busy."""
PATIENT: Final = {"controller.quorum.fetch.timeout.ms": 6_000, "zk2kraft.takeover.max.ms": 60_000}
"""On a busy machine a leader that stays may be silent for 2 s, and a takeover may last longer than 15 s."""
MIGRATION_PROTOCOLS: Final = "BROKER:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"


def secret(user: str) -> str:
    return f"{user}-secret"


def login(module: str, user: str, *known: str) -> str:
    users = "".join(f' user_{each}="{secret(each)}"' for each in known)
    return f'{module} required username="{user}" password="{secret(user)}"{users};'


def write(path: Path, lines: Mapping[str, object]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path


@dataclass
class HandMade:
    """Everything of it lives in `directory`; `close` stops every process by its pid."""

    directory: Path
    class_path: str
    ports: list[int]
    archive: Path | None = None
    """Of loaded classes, as a flag of `java`: a matter of speed alone."""
    extra_of_controllers: dict[str, object] = field(default_factory=dict)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def zookeeper(self) -> str:
        return f"{HOST}:{self.ports[0]}{CHROOT}"

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{self.ports[each]}" for each in BROKERS)

    # --- files -----------------------------------------------------------------------------------------------

    def voters(self) -> str:
        return ",".join(f"{each}@{HOST}:{self.ports[4 + index]}" for index, each in enumerate(CONTROLLERS))

    def broker_file(self, broker: int, *, migrating: bool = False) -> Path:
        listener = f"BROKER://{HOST}:{self.ports[broker]}"
        lines: dict[str, object] = {
            "broker.id": broker,
            "listeners": listener,
            "advertised.listeners": listener,
            "inter.broker.listener.name": "BROKER",
            "listener.security.protocol.map": MIGRATION_PROTOCOLS if migrating else "BROKER:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": SCRAM,
            "sasl.mechanism.inter.broker.protocol": SCRAM,
            "listener.name.broker.scram-sha-256.sasl.jaas.config": login(SCRAM_MODULE, "broker"),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:broker;User:controller",
            "zookeeper.connect": self.zookeeper,
            "log.dirs": self.directory / f"broker-{broker}",
            "inter.broker.protocol.version": "3.9",
            "offsets.topic.replication.factor": 3,
            "default.replication.factor": 3,
            "min.insync.replicas": 2,
        }
        if migrating:
            lines |= {
                "zookeeper.metadata.migration.enable": "true",
                "controller.quorum.voters": self.voters(),
                "controller.listener.names": "CONTROLLER",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.controller.plain.sasl.jaas.config": login(PLAIN_MODULE, "broker"),
            }
        return write(self.directory / f"server-{broker}.properties", lines)

    def controller_file(self, controller: int, **changed: object) -> Path:
        users = ("controller", "broker", "migrator")
        lines: dict[str, object] = {
            "process.roles": "controller",
            "node.id": controller,
            "controller.quorum.voters": self.voters(),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://{HOST}:{self.ports[4 + CONTROLLERS.index(controller)]}",
            "listener.security.protocol.map": MIGRATION_PROTOCOLS,
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": login(PLAIN_MODULE, "controller", *users),
            "inter.broker.listener.name": "BROKER",
            "sasl.mechanism.inter.broker.protocol": SCRAM,
            "listener.name.broker.sasl.enabled.mechanisms": SCRAM,
            "listener.name.broker.scram-sha-256.sasl.jaas.config": login(SCRAM_MODULE, "migrator"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:broker;User:controller",
            "zookeeper.metadata.migration.enable": "true",
            "zookeeper.connect": self.zookeeper,
            "log.dirs": self.data(controller),
            "zk2kraft.gates": "pause",
            **PATIENT,
            **self.extra_of_controllers,
            **{key.replace("_", "."): value for key, value in changed.items()},
        }
        return write(self.directory / f"controller-{controller}.properties", lines)

    def data(self, controller: int) -> Path:
        return self.directory / f"controller-{controller}"

    def client(self, user: str) -> dict[str, str | int | float | bool]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": SCRAM,
            "sasl.username": user,
            "sasl.password": secret(user),
        }

    # --- processes -------------------------------------------------------------------------------------------

    def java(self, *arguments: object, heap_mb: int = 512) -> list[str]:
        quiet = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")  # a tool's output is read
        archived = () if self.archive is None else (f"-XX:SharedArchiveFile={self.archive}", *quiet)
        flags = (f"-Xmx{heap_mb}m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", *archived)
        return ["java", *flags, "-cp", self.class_path, *map(str, arguments)]

    def start(self, name: str, *arguments: object) -> None:
        with (self.directory / f"{name}.out").open("ab") as out:
            self._running[name] = subprocess.Popen(
                self.java(*arguments), stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.directory
            )

    def stop(self, name: str) -> None:
        process = self._running.pop(name)
        process.terminate()
        try:
            process.wait(STOPS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)

    def close(self) -> None:
        for name in list(reversed(self._running)):
            self.stop(name)

    def start_zookeeper(self) -> None:
        data = self.directory / "zookeeper"
        data.mkdir()
        lines = {"dataDir": data, "clientPort": self.ports[0], "clientPortAddress": HOST, "admin.enableServer": "false"}
        path = write(self.directory / "zookeeper.properties", {**lines, "maxClientCnxns": 0})
        self.start("zookeeper", "org.apache.zookeeper.server.quorum.QuorumPeerMain", path)

    def znode(self, path: str) -> bytes:
        again = {"max_tries": -1, "max_delay": 0.5, "deadline": READY_S}
        client = KazooClient(f"{HOST}:{self.ports[0]}", timeout=60, command_retry=again)
        client.start(READY_S)
        try:
            return bytes(client.retry(client.get, CHROOT + path)[0])
        finally:
            client.stop()
            client.close()

    def is_registered(self, broker: int) -> bool:
        with suppress(NoNodeError):
            return bool(self.znode(f"/brokers/ids/{broker}"))
        return False

    def why_not_in_sync(self) -> str | None:
        """As the super user of the brokers is told; a look that costs less than one of Kafka's tools."""
        try:
            topics = AdminClient(self.client("broker"), logger=logger).list_topics(timeout=10).topics
        except KafkaException as error:
            return str(error)
        found = [each for topic in topics.values() for each in topic.partitions.values()]
        behind = [each for each in found if each.leader < 0 or set(each.isrs) != set(each.replicas)]
        return f"{len(behind)} of {len(found)} partitions" if behind or not found else None

    def start_broker(self, broker: int) -> None:
        self.start(f"broker-{broker}", "kafka.Kafka", self.directory / f"server-{broker}.properties")

    def tool(self, main: str, *arguments: object) -> str:
        """One of Kafka's command line tools; its output."""
        done = subprocess.run(
            self.java(main, *arguments, heap_mb=256),
            capture_output=True,
            text=True,
            timeout=READY_S,
            cwd=self.directory,
        )
        assert done.returncode == 0, f"{main} {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def make(self) -> None:
        """A running cluster in ZooKeeper mode, with users and one topic of twelve partitions."""
        self.start_zookeeper()
        client = KazooClient(f"{HOST}:{self.ports[0]}")
        client.start(READY_S)
        client.ensure_path(CHROOT)
        client.stop()
        client.close()
        for user in ("broker", "migrator", "app"):
            change = ("--alter", "--add-config", f"{SCRAM}=[password={secret(user)}]", "--entity-type", "users")
            self.tool("kafka.admin.ConfigCommand", "--zookeeper", self.zookeeper, *change, "--entity-name", user)
        for broker in BROKERS:
            self.broker_file(broker)
            self.start_broker(broker)
        until(lambda: all(self.is_registered(broker) for broker in BROKERS), "the brokers are registered")
        admin = self.admin_file()
        create = ("--create", "--if-not-exists", "--topic", "orders", "--partitions", 12, "--replication-factor", 3)
        until(lambda: self.ran("org.apache.kafka.tools.TopicCommand", *admin, *create), "a topic can be made")
        self.allow("app", "--operation", "All", "--topic", "*")
        self.allow("app", "--operation", "All", "--group", "*")

    def admin_file(self) -> tuple[object, ...]:
        """Options of Kafka's tools for the super user of the brokers."""
        path = self.directory / "admin.properties"
        lines = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": SCRAM}
        write(path, {**lines, "sasl.jaas.config": login(SCRAM_MODULE, "broker")})
        return "--bootstrap-server", self.bootstrap, "--command-config", path

    def denied(self, controller: int) -> None:
        """Somebody who may log in to the controllers asks one of them for what he may not."""
        path = self.directory / "stranger.properties"
        lines = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        # Kafka's client asks a controller that denies it again and again, for a minute by default
        lines |= {"default.api.timeout.ms": "20000", "request.timeout.ms": "20000"}
        write(path, {**lines, "sasl.jaas.config": login(PLAIN_MODULE, "migrator")})
        where = f"{HOST}:{self.ports[4 + CONTROLLERS.index(controller)]}"
        options = ("--bootstrap-controller", where, "--command-config", path, "describe", "--status")
        assert not self.ran("org.apache.kafka.tools.MetadataQuorumCommand", *options)

    def allow(self, user: str, *what: object) -> None:
        principal = ("--add", "--allow-principal", f"User:{user}")
        self.tool("kafka.admin.AclCommand", *self.admin_file(), *principal, *what)

    def disallow(self, user: str, *what: object) -> None:
        principal = ("--remove", "--force", "--allow-principal", f"User:{user}")
        self.tool("kafka.admin.AclCommand", *self.admin_file(), *principal, *what)

    def ran(self, main: str, *arguments: object) -> bool:
        try:
            self.tool(main, *arguments)
        except (AssertionError, subprocess.TimeoutExpired):
            return False
        return True


def until(holds: object, what: str, deadline_s: float = READY_S) -> None:
    assert callable(holds)
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < deadline_s, f"not after {deadline_s} s: {what}"
        time.sleep(0.3)


class Traffic:
    """One producer that wants every record acknowledged by all in sync; the counts of what was."""

    def __init__(self, settings: Mapping[str, str | int | float | bool], topic: str) -> None:
        self._settings = dict(settings)
        self._topic = topic
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.acknowledged: set[int] = set()
        self.failed: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        producer = Producer({**self._settings, "enable.idempotence": True, "delivery.timeout.ms": DELIVERED_S * 1000})
        number = 0
        while not self._stop.wait(1 / RECORDS_PER_S):
            try:
                producer.produce(self._topic, str(number).encode(), on_delivery=self._delivered)
                number += 1
            except (BufferError, KafkaException):  # the same number again: a broker that just started knows no topic
                pass
            producer.poll(0)
        producer.flush(DELIVERED_S)

    def _delivered(self, error: object, message: object) -> None:
        with self._lock:
            if error is not None:
                self.failed.append(str(error))
            else:
                self.acknowledged.add(int(message.value()))  # type: ignore[attr-defined]

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(DELIVERED_S + 30)
        assert not self._thread.is_alive(), "the producer did not end"

    def lost(self) -> set[int]:
        """Acknowledged records that a consumer does not find."""
        consumer = Consumer({**self._settings, "group.id": f"proof-{os.getpid()}", "enable.auto.commit": False})
        left = set(self.acknowledged)
        try:
            ends: dict[int, int] = {}
            until(lambda: self._read_ends(consumer, ends), "every partition says where it ends")
            partitions = [TopicPartition(self._topic, each, 0) for each in ends]
            consumer.assign(partitions)
            began = time.monotonic()
            while left and time.monotonic() - began < READY_S:
                for message in consumer.consume(1000, timeout=1.0):
                    if message.error():
                        raise KafkaException(message.error())
                    left.discard(int(message.value() or b"-1"))
                if all(each.offset >= ends[each.partition] for each in consumer.position(partitions)):
                    break
        finally:
            consumer.close()
        return left

    def _read_ends(self, consumer: Consumer, ends: dict[int, int]) -> bool:
        """A partition whose leader moves gives no answer."""
        try:
            for each in consumer.list_topics(self._topic, timeout=30).topics[self._topic].partitions:
                ends[each] = consumer.get_watermark_offsets(TopicPartition(self._topic, each, 0), timeout=30)[1]
        except KafkaException:
            return False
        return bool(ends)
