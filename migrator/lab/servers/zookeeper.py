"""Real ZooKeeper servers: one alone, or an ensemble; and a client to look into them.

In:   a laboratory, ports, a directory each.
Out:  `ZooKeeper`: the servers, their connect string, `client(chroot)`.
Elsewhere: what Kafka stores there (migrator/zk).
Source: ZooKeeper administrator's guide 3.8, "Configuration Parameters".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from migrator.findings.laboratory import PROCESS_NOT_READY
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.probe import why_zookeeper_does_not_answer, zookeeper_mode
from migrator.lab.servers.properties import Value
from migrator.lab.servers.server import READY_DEADLINE_S, Server, start_together
from migrator.lab.servers.sessions import end_session

TICK_MS: Final = 1000
"""Sessions end on a multiple of this: short, so that a test that waits for an expiry does not wait long."""

SESSION_MS_MIN: Final = 2000
SESSION_MS_MAX: Final = 300_000
CLIENT_TIMEOUT_S: Final = 20.0
NETTY: Final = "org.apache.zookeeper.server.NettyServerCnxnFactory"
"""The only way of a server to speak TLS."""
RECONNECT: Final = {"max_tries": -1, "max_delay": 0.5}
"""By default kazoo rests up to a minute between two tries: 26 s after an outage of as much, longer than a question may
take."""


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EnsembleMember:
    """One line `server.N` of an ensemble: its number and the ports for its peers."""

    number: int
    peer_port: int
    election_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSpec:
    """The configuration of one server. ensemble: all members, or nothing when it stands alone."""

    port: int
    data_directory: str
    number: int = 1
    ensemble: tuple[EnsembleMember, ...] = ()
    heap_mb: int = 256
    read_only: bool = False
    """Without a majority, serve those who say that they only want to read."""
    secure_port: int | None = None
    """Where it speaks TLS, beside its plain port."""
    extra: Mapping[str, Value] = field(default_factory=dict)

    def properties(self) -> dict[str, Value]:
        properties: dict[str, Value] = {
            "dataDir": self.data_directory,
            "clientPort": self.port,
            "clientPortAddress": HOST,
            "tickTime": TICK_MS,
            "minSessionTimeout": SESSION_MS_MIN,
            "maxSessionTimeout": SESSION_MS_MAX,
            "maxClientCnxns": 0,
            "admin.enableServer": False,
            "4lw.commands.whitelist": "*",
        }
        if self.ensemble:
            properties |= {"initLimit": 20, "syncLimit": 10}
        if self.secure_port is not None:
            properties |= {"serverCnxnFactory": NETTY, "secureClientPort": self.secure_port}
            properties |= {"secureClientPortAddress": HOST}
        for member in self.ensemble:
            properties[f"server.{member.number}"] = f"{HOST}:{member.peer_port}:{member.election_port}"
        return {**properties, **self.extra}


class ZooKeeperServer(Server):
    """One ZooKeeper process."""

    main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

    def __init__(self, laboratory: Laboratory, name: str, spec: ZooKeeperSpec) -> None:
        super().__init__(laboratory, name)
        self.spec = spec

    @property
    def heap_mb(self) -> int:
        return self.spec.heap_mb

    def properties(self) -> dict[str, Value]:
        return self.spec.properties()

    def jvm_options(self) -> tuple[str, ...]:
        return (*self.options, *(("-Dreadonlymode.enabled=true",) if self.spec.read_only else ()))

    def why_not_ready(self) -> str | None:
        return why_zookeeper_does_not_answer(self.spec.port)

    def mode(self) -> str | None:
        """leader, follower, standalone or read-only, as it says itself; None while it serves nobody."""
        return zookeeper_mode(self.spec.port)

    def before_start(self) -> None:
        super().before_start()
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        if self.spec.ensemble:
            (data / "myid").write_text(f"{self.spec.number}\n")


class ZooKeeper:
    """One ZooKeeper service of one or three servers.

    servers: 1 or 3.   extra: further properties of every server.   read_only: a server that lost the majority serves
    readers.   secure: its keys and certificates (`ssl.…`): it speaks TLS as well, on a port of its own.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        *,
        servers: int = 1,
        extra: Mapping[str, Value] | None = None,
        read_only: bool = False,
        secure: Mapping[str, Value] | None = None,
        name: str = "zookeeper",
    ) -> None:
        assert servers in (1, 3), f"an ensemble has 1 or 3 servers here, not {servers}"
        reserve = laboratory.ports.reserve
        members = tuple(EnsembleMember(number, reserve(), reserve()) for number in range(1, servers + 1))
        self.laboratory = laboratory
        self.servers: list[ZooKeeperServer] = []
        for member in members:
            server_name = name if servers == 1 else f"{name}-{member.number}"
            spec = ZooKeeperSpec(
                port=reserve(),
                data_directory=str(laboratory.directory / server_name / "data"),
                number=member.number,
                ensemble=members if servers > 1 else (),
                read_only=read_only,
                secure_port=None if secure is None else reserve(),
                extra={**(extra or {}), **(secure or {})},
            )
            self.servers.append(ZooKeeperServer(laboratory, server_name, spec))
        self._clients: dict[str, ZooKeeperClient] = {}

    @property
    def hosts(self) -> str:
        return ",".join(f"{HOST}:{server.spec.port}" for server in self.servers)

    @property
    def hosts_for_kafka(self) -> str:
        """Where brokers and controllers connect: with TLS, where there is TLS."""
        return ",".join(f"{HOST}:{server.spec.secure_port or server.spec.port}" for server in self.servers)

    def start(self, deadline_s: float = READY_DEADLINE_S) -> None:
        """Start every server and wait until they serve requests."""
        start_together(self.servers, deadline_s)

    def stop(self) -> None:
        for server in self.servers:
            if server.is_running:
                server.stop()

    def leader(self) -> ZooKeeperServer:
        """Of an ensemble that has one, or is about to; a busy server may not answer the first question."""
        found: list[ZooKeeperServer] = []

        def why_not() -> str | None:
            found[:] = [each for each in self.servers if each.is_running and each.mode() == "leader"]
            return None if found else "no server says that it leads"

        self.laboratory.wait(why_not, name="the ensemble's leader", deadline_s=READY_DEADLINE_S)
        return found[0]

    def wait_led(self, deadline_s: float = READY_DEADLINE_S) -> float:
        """Wait until one leads and every other one that runs follows it."""

        def why_not() -> str | None:
            modes = [server.mode() for server in self.servers if server.is_running]
            led = modes.count("leader") == 1 and modes.count("follower") == len(modes) - 1
            return None if led else f"the servers are {modes}"

        return self.laboratory.wait(why_not, name="the ensemble", deadline_s=deadline_s)

    def client(self, chroot: str = "") -> ZooKeeperClient:
        """A client below `chroot` ("" or "/kafka"), one per chroot; the laboratory closes it."""
        if chroot not in self._clients:
            client = ZooKeeperClient(self.hosts, chroot)
            self.laboratory.on_close.callback(client.close)
            self._clients[chroot] = client
        return self._clients[chroot]


class ZooKeeperClient:
    """A look into ZooKeeper below a chroot, and the few writes that tests need. All calls block.

    A read whose connection or session ended is made again; a write is not: it may have arrived.
    """

    def __init__(self, hosts: str, chroot: str) -> None:
        self.connect = hosts + chroot
        self._hosts = hosts
        self._chroot = chroot
        again = {"max_tries": -1, "max_delay": 0.5, "deadline": CLIENT_TIMEOUT_S}
        self._kazoo = KazooClient(
            hosts=hosts, timeout=CLIENT_TIMEOUT_S, logger=logger, command_retry=again, connection_retry=RECONNECT
        )
        self._started = False

    def read(self, path: str) -> bytes | None:
        """The data of a znode; None when it does not exist."""
        data: bytes | None = self._ask(lambda kazoo, full: kazoo.retry(kazoo.get, full)[0], path)
        return data

    def exists(self, path: str) -> bool:
        return self._ask(lambda kazoo, full: kazoo.retry(kazoo.exists, full), path) is not None

    def created(self, path: str) -> int:
        """The transaction that created a znode; -1 when it does not exist."""
        stat = self._ask(lambda kazoo, full: kazoo.retry(kazoo.exists, full), path)
        return -1 if stat is None else int(stat.czxid)

    def children(self, path: str) -> list[str]:
        """The names below a znode, sorted; empty when it does not exist."""
        return sorted(self._ask(lambda kazoo, full: kazoo.retry(kazoo.get_children, full), path) or [])

    def delete(self, path: str) -> None:
        """Delete a znode if it is there."""
        self._ask(lambda kazoo, full: kazoo.delete(full), path)

    def create(self, path: str, data: bytes) -> None:
        """Create a persistent znode and what is missing above it."""
        self._ask(lambda kazoo, full: kazoo.create(full, data, makepath=True), path)

    def end_session_of(self, path: str) -> None:
        """End the session that holds an ephemeral znode, whose process was killed; none when there is no such znode."""
        stat = self._ask(lambda kazoo, full: kazoo.retry(kazoo.exists, full), path)
        if stat is not None and stat.ephemeralOwner:
            end_session(self._hosts, stat.ephemeralOwner)

    def close(self) -> None:
        if self._started:
            self._kazoo.stop()
            self._kazoo.close()
            self._started = False

    def _ask(self, question: Callable[[Any, str], Any], path: str) -> Any:
        """The answer, or None when there is no such znode. Raises Z2K-6003 when ZooKeeper does not answer."""
        try:
            if not self._started:
                self._kazoo.start(timeout=CLIENT_TIMEOUT_S)
                self._started = True
            return question(self._kazoo, self._chroot + path if path != "/" else self._chroot or "/")
        except NoNodeError:
            return None
        except (KazooException, KazooTimeoutError) as error:
            reason = f"{type(error).__name__} at {path}"
            raise PROCESS_NOT_READY.error(
                name=f"ZooKeeper at {self.connect}", seconds=CLIENT_TIMEOUT_S, reason=reason, log="of the server"
            ) from error
