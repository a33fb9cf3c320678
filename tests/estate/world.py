"""The service on an estate: its real code, rows, actuators and templates; the cluster behind it is played.

In:   a directory on a fast disk. Out: `EstateWorld`: hosts that run, a service that observes them, rounds.
Elsewhere: fakes of log, ZooKeeper and ours (tests/unit/state_machine), hosts (hosts.py), calls and faults (calls.py).
Rules: what the log and ZooKeeper say follows from which processes run on the hosts, with which file each of them was
started. A broker that crashed stays registered for its session; one that stopped in order does not. Stock ends the
migration as Kafka 3.9 does: by the flag of the one controller that becomes active.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import select

from migrator.fleet.connections.control_directory import control_directory
from migrator.fleet.inventory import Inventory
from migrator.fleet.strict_yaml import load_yaml
from state_machine.clusters.inventory import ControllerEntry
from state_machine.clusters.log_observer import LogBroker, LogController, LogObservation, LogVoter
from state_machine.finish import backups
from state_machine.finish.intent import FinalizeIntent
from state_machine.nodes.replicas import ReplicasSeen
from state_machine.policy.gates import Holder
from state_machine.policy.phases import Phase
from state_machine.rows.tables import JournalRow, Migration
from state_machine.times.row_clock import RowClock
from state_machine.work import acts_after_dual_write
from tests.estate.calls import LIFE, Calls, LifeEnded
from tests.estate.faults import Plan
from tests.estate.hosts import UNIT, Host, build_network
from tests.estate.links import Links
from tests.support.stores import a_store
from tests.unit.state_machine.fakes import FakeController
from tests.unit.state_machine.world import NODE, World

BROKERS: Final = (0, 1, 2)
NODES: Final = (NODE, NODE + 1, NODE + 2)
SHIPPED: Final = Path(__file__).resolve().parents[2] / "docker" / "actuators" / "ssh-systemd.yaml"
UNPROVEN: Final = "unproven-write"
ACT_S: Final = 20
"""Of real time, also on a machine with much other work. Only a call that hangs takes so long."""
SESSION_S: Final = 9.0
"""A broker that crashed is fenced after so long, and its znode is gone."""
VOTERS: Final = ",".join(f"{node}@127.0.0.1:9093" for node in NODES)
BROKER_FILE: Final = """# kept by hand
broker.id={id}
zookeeper.connect=zk:2181/kafka
zookeeper.metadata.migration.enable=true
inter.broker.protocol.version=3.9
listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
{filling}
log.dirs={logs}
"""
OF_THE_MIGRATION: Final = ("zookeeper.metadata.migration.enable=", "controller.")
"""Begins of the lines of BROKER_FILE that a broker does not have before it joins."""
FILLING: Final = "\n".join(
    f"# {number:03} what an estate's own tools write into each file, line by line" for number in range(60)
)
CONTROLLER_FILE: Final = """process.roles=controller
node.id={id}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:9093
listener.security.protocol.map=CONTROLLER:PLAINTEXT
log.dirs={logs}
zookeeper.connect=zk:2181/kafka
zookeeper.metadata.migration.enable=true
zk2kraft.gates=pause
"""
SSH_CONFIG: Final = """Host *
  IdentitiesOnly yes
  IdentityFile {home}/user_key
  UserKnownHostsFile {home}/known_hosts
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
  LogLevel ERROR
  KexAlgorithms curve25519-sha256
  Ciphers aes128-gcm@openssh.com
"""
LOGIN: Final = "root"
UNPROVEN_WRITE: Final = (
    'set -- {path:q}; set -e; umask 077; new="$1.zk2kraft-new.$$"; rm -f -- "$1".zk2kraft-new*; cat > "$new"; '
    'mv -f -- "$new" "$1"'
)
"""Planted: the end of its input is the end of the file, also when the connection was lost."""
CONFIGURED_IN: Final = "/etc/ssh/ssh_config"
"""Another file lies there, in this mount namespace only."""


class ServiceClock:
    """The service's host: its wall clock is set by a fault. Called, it is the time of rows, as the service makes it."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_000_000.0, 5_000.0
        self.live_anew(0.0)

    def live_anew(self, newest: float) -> None:
        """newest: of the rows that the next life finds."""
        self._rows = RowClock(newest, lambda: self.wall, lambda: self.steady)

    def __call__(self) -> float:
        return self._rows()

    def ahead_s(self) -> float:
        return self._rows.ahead_s()

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def set(self, seconds: float) -> None:
        self.wall += seconds


class EstateController(FakeController):
    """Ours; it has found nothing that stops a stock controller."""

    def status(self) -> dict[str, Any]:
        found = super().status()
        found["driver"]["replacing"] = []
        return found


class EstateWorld(World):
    """hosts: by node id. One run after the other: `begin` sets everything back. plant: a fault that has to be found."""

    made_by = EstateController
    make_clock = ServiceClock
    directory: Path

    def __init__(self, home: Path, plant: str = "") -> None:
        self.home = home
        self.plant = plant
        self.aloud = False
        self.life = 0
        self.hosts = {
            node: Host(f"host{number}", number, number % 2, home) for number, node in enumerate((*BROKERS, *NODES), 1)
        }
        self.run_number = 0
        self.killed: asyncio.Event | None = None

    # --- the estate, once ----------------------------------------------------------------------------------

    def build(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.home / "user_key")], check=True)
        subprocess.run(["ip", "addr", "add", "10.98.0.1/16", "dev", "lo"], check=True)
        build_network()
        for node, host in self.hosts.items():
            host.build()
            if node in BROKERS:
                command = f"{host.tree}/bin/kafka-server-start.sh {host.properties}"
                host.install("broker", command=command, enabled=True)
            else:
                start = f"{host.tree}/bin/zk2kraft-guard {host.tree}/bin/kafka-server-start.sh {host.properties}"
                host.install("controller", command=start, enabled=False)
        self.links = Links(tuple(self.hosts.values()))
        (self.home / "ssh_config").write_text(SSH_CONFIG.format(home=self.home))
        subprocess.run(["mount", "--bind", str(self.home / "ssh_config"), CONFIGURED_IN], check=True)
        os.environ["RUNTIME_DIRECTORY"] = str(self.home)  # where the sockets of shared connections are
        self.known_hosts()

    def connect_anew(self, host: Host) -> None:
        """The next call opens a connection of its own: the socket of the shared one, ssh's `%C`, is gone."""
        address = self.links.by_name[host.name].address
        name = hashlib.sha1(f"{socket.gethostname()}{address}22{LOGIN}".encode(), usedforsecurity=False).hexdigest()
        (Path(control_directory()) / name).unlink(missing_ok=True)
        self.links.drop(host)

    def known_hosts(self, foreign: Host | None = None) -> None:
        """foreign: a host whose key is not the one that is known."""
        keys = {each.name: each.public_key for each in self.hosts.values()}
        if foreign is not None:
            keys[foreign.name] = next(key for name, key in keys.items() if name != foreign.name)
        lines = [f"{self.links.by_name[each.name].address} {keys[each.name]}\n" for each in self.hosts.values()]
        (self.home / "known_hosts").write_text("".join(lines))

    # --- a run ---------------------------------------------------------------------------------------------

    def begin(self, plan: Plan) -> None:
        """Hosts as before any migration, and a service with empty rows."""
        self.run_number += 1
        if self.run_number > 1:
            self.store.close()
            shutil.rmtree(self.directory)
        self.directory = self.home / f"run{self.run_number}"
        self.directory.mkdir()
        self.joins = plan.joins
        self.known_hosts()
        for node, host in self.hosts.items():
            host.cut_power()
            self.connect_anew(host)
            host.link(True)
            host.free_disk()
            host.skew(plan.skews[list(self.hosts).index(node)])
            shutil.rmtree(host.data)
            host.data.mkdir()
            for each in host.properties.parent.iterdir():
                each.unlink()
            self._first_files(node, host)
            host.enable(node in BROKERS)
            host.boot()
        entries = tuple(
            ControllerEntry(node, str(self.hosts[node].properties), str(self.hosts[node].data)) for node in NODES
        )
        self.life = 0
        self.leader: int | None = NODES[0]
        self.epoch, self.migration, self.offset = 5, "PRE_MIGRATION" if plan.joins else "MIGRATION", 100
        self.sessions: dict[int, tuple[str, str, float]] = {}
        self.with_flag: set[str] = set()
        """Incarnations of brokers that registered with a KRaft controller, too."""
        self.registrations: dict[int, tuple[str, bool]] = {}
        """Of controllers; the log keeps the last one of each."""
        self.violations: list[str] = []
        self.left_out: set[int] = set()
        """Nodes that an operator gave up by name: that they are down holds nobody."""
        self.retired = False
        World.__init__(self, self.directory, voters=len(NODES), controllers=entries)
        self.settings = self.settings.model_copy(
            update={
                "roots": (self.home, self.directory),
                "settle_s": SESSION_S
                + 3.0,  # the service waits longer than a crash stays unknown, as it does by itself
                "node_deadline_s": 600.0,
                "soak_s": 20.0,
                "brokers_gone_s": 10.0,
                "drift_every_s": 60.0,
                "audit_every_s": 60.0,
            }
        )
        self.clock_steady = lambda: self.clock.steady
        self.calls = Calls(
            self.hosts,
            self.links,
            plan,
            kill=self.kill,
            why_not_stop=self.why_not_stop,
            clock=self.clock.set,
            known_hosts=self._set_key,
            connect_anew=self.connect_anew,
        )
        self.calls.aloud = self.aloud
        self.calls.remember_files()
        self.copy = self.directory / "before.db"
        self.start_service()

    def _set_key(self, host: Host, right: bool) -> None:
        self.known_hosts(None if right else host)

    def first_file(self, node: int) -> str:
        """As the run finds it."""
        form = BROKER_FILE if node in BROKERS else CONTROLLER_FILE
        text = form.format(id=node, port=9100 + node, voters=VOTERS, logs=self.hosts[node].data, filling=FILLING)
        if node not in BROKERS or not self.joins:
            return text
        lines = [each for each in text.splitlines(keepends=True) if not each.startswith(OF_THE_MIGRATION)]
        return "".join(lines).replace(",CONTROLLER:PLAINTEXT", "")

    def _first_files(self, node: int, host: Host) -> None:
        broker = node in BROKERS
        host.properties.write_text(self.first_file(node))
        meta = (
            "version=0\nbroker.id={}\ncluster.id=cluster\n" if broker else "version=1\nnode.id={}\ncluster.id=cluster\n"
        )
        (host.data / "meta.properties").write_text(meta.format(node))
        if not broker:
            (host.data / "__cluster_metadata-0").mkdir()

    def _write_fleet(self) -> Path:
        fleets = self.directory / f"fleets{self.life}"
        (fleets / "templates").mkdir(parents=True, mode=0o700)
        fleets.chmod(0o700)
        (fleets / "templates" / "ssh.yaml").write_bytes(self._template())
        nodes = {
            node: {
                "id": node,
                "host": self.links.by_name[host.name].address,
                "properties": str(host.properties),
                "log_dirs": [str(host.data)],
                "unit": UNIT,
            }
            for node, host in self.hosts.items()
        }
        inventory = {
            "version": 1,
            "cluster": {
                "name": "orders",
                "zookeeper": "zk:2181/kafka",
                "bootstrap_servers": "kafka:9092",
                "quorum": {"voters": VOTERS},
            },
            "actuator": {"kind": "exec", "template": "ssh.yaml", "settings": {"login": LOGIN, LIFE: str(self.life)}},
            "timeouts": {"act": ACT_S, "stop": 2 * ACT_S, "start": ACT_S},
            "brokers": [nodes[each] for each in BROKERS],
            "controllers": [{**nodes[each], "guard": f"{self.hosts[each].tree}/bin/zk2kraft-guard"} for each in NODES],
        }
        (fleets / "orders.yaml").write_text(json.dumps(inventory))
        for each in (fleets / "orders.yaml", fleets / "templates" / "ssh.yaml"):
            each.chmod(0o600)
        return fleets

    def _template(self) -> bytes:
        """As it is shipped, word for word, unless a fault is planted."""
        shipped = SHIPPED.read_bytes()
        if self.plant != UNPROVEN:
            return shipped
        template = load_yaml(shipped)
        template["acts"]["write"]["argv"][-1] = UNPROVEN_WRITE
        return json.dumps(template).encode()

    # --- what the cluster says -----------------------------------------------------------------------------

    def register(self) -> None:
        """Log and ZooKeeper, as the processes on the hosts make them."""
        now = self.clock_steady()
        for number in BROKERS:
            self._session(number, now)
        brokers = []
        for number, (mode, incarnation, until) in sorted(self.sessions.items()):
            if incarnation in self.with_flag:
                brokers.append(LogBroker(number, incarnation, mode, fenced=until < now))
        down = sum(until < now for _, _, until in self.sessions.values())
        if self.joins:
            self._join(tuple(each.id for each in brokers if not each.fenced))
        running = {node: self._controller(node) for node in NODES}
        self.registrations.update({node: found for node, found in running.items() if found is not None})
        self._elect(running)
        leads = self.leader is not None
        self.log.observed = LogObservation(
            problem="" if leads else "no voter leads",
            no_leader=not leads,
            leader=self.leader,
            epoch=self.epoch,
            high_watermark=self.offset,
            migration=self.migration,
            brokers=tuple(brokers),
            controllers=tuple(LogController(node, *found) for node, found in self.registrations.items()),
            voters=tuple(_voter(node, self.offset, running[node] is not None) for node in NODES),
            under_replicated=9 * down,
            under_min_isr=3 if down > 1 else 0,
            leaderless=3 if down > 1 else 0,
        )
        ids = tuple(
            number for number, (mode, _, until) in self.sessions.items() if mode == "ZooKeeper" and until >= now
        )
        holder = self.zookeeper.observed.holder
        self.zookeeper.observed = msgspec.structs.replace(
            self.zookeeper.observed,
            brokers=ids,
            holder_id=self.leader if holder is Holder.OURS and leads else self.zookeeper.observed.holder_id,
        )

    def _join(self, joined: tuple[int, ...]) -> None:
        """What ours say of the brokers before the takeover, and the takeover, as fast as a driver is at best."""
        self.controller.brokers = joined
        if self.phase is Phase.BROKERS_JOINING and len(joined) == len(BROKERS):
            self.brokers_join()
        if self.phase is Phase.READY:
            self.controller.on_ask = lambda operation: self.take_over()
        if self.migration == "PRE_MIGRATION":
            self.migration = self.controller.migration

    def _session(self, number: int, now: float) -> None:
        """One broker's registration. A new incarnation waits for the end of the session before, if that one crashed."""
        host, before = self.hosts[number], self.sessions.get(number)
        found = host.registered() if host.linked else None
        if found is not None:
            if found.flag or found.mode == "KRaft":
                self.with_flag.add(found.incarnation)
            new = before is None or before[1] != found.incarnation
            if before is None or not new or before[2] < now:
                self.sessions[number] = (found.mode, found.incarnation, now + SESSION_S)
        elif before is not None and host.on and host.linked and host.ended_in_order():
            self.sessions[number] = (before[0], before[1], min(before[2], now - 0.1))

    def _controller(self, node: int) -> tuple[str, bool] | None:
        """Who runs under this id: the incarnation, and whether it has the flag. None: nobody."""
        ours = next(each for each in self.controllers if each.entry.node_id == node)
        host = self.hosts[node]
        stock = host.registered()
        if ours.alive and stock is not None:
            self.violate(f"ours and stock run as controller {node} at once")
        if ours.alive:
            return f"ours-{ours.pid}", True
        return (stock.incarnation, stock.flag) if stock is not None and host.linked else None

    def _elect(self, running: dict[int, tuple[str, bool] | None]) -> None:
        """The leader stays until it ends; a majority elects the next one."""
        wanted = self.log.asked_to_lead.pop() if self.log.asked_to_lead else None
        there = [node for node in NODES if running[node] is not None]
        before = self.leader
        if len(there) < 2:
            self.leader = None
        elif wanted in there:
            self.leader = wanted
        elif self.leader not in there:
            self.leader = there[0]
        if self.leader is not None and self.leader != before:
            self.epoch += 1
            found = running[self.leader]
            if found is not None and not found[1] and self.migration == "MIGRATION":
                self.migration = "POST_MIGRATION"
                if self.phase is not Phase.FINALIZING:
                    self.violate(f"the migration was finalized in {self.phase}")
        for each in self.controllers:
            if not each.alive or self.phase in BEFORE_ROAD:
                continue
            each.migration = self.migration
            each.kraft = tuple(broker for broker, (mode, _, _) in sorted(self.sessions.items()) if mode == "KRaft")
            if each.entry.node_id != self.leader:
                each.follow(self.leader)
            elif not self.retired and each.state not in ("DUAL_WRITE", "ROLLING_BACK", "RETIRED"):
                each.move("RESUMING", "SYNCING", "UPDATING_BROKERS", "DUAL_WRITE")
            each.on_ask = self._asked

    def _asked(self, operation: str) -> None:
        if operation == "rollback":
            leader = next(each for each in self.controllers if each.entry.node_id == self.leader)
            self.retired = True
            leader.move("ROLLING_BACK", "RETIRED")
            ids = self.zookeeper.observed.brokers
            self.zookeeper.broker_rules(ids[0] if ids else 0)
            self.zookeeper.observed = msgspec.structs.replace(self.zookeeper.observed, brokers=ids)

    def replicas(self, inventory: Inventory) -> ReplicasSeen:
        there = (each for each in BROKERS if self.hosts[each].linked and self.hosts[each].registered() is not None)
        return ReplicasSeen(tuple(there))

    def why_not_stop(self, node: int) -> str:
        """Of what the cluster said when this round began. On the way back, what others broke holds nobody."""
        kind = BROKERS if node in BROKERS else NODES
        alive = {each.entry.node_id for each in self.controllers if each.alive}
        ours = {each for each in self.calls.stopped - alive if not self.hosts[each].runs()}
        counted = ours - self.left_out if self.phase is Phase.ROLLING_BACK else self.down | ours
        down = sorted(counted & set(kind) - {node})
        return f"nodes {down} were down" if down else ""

    def violate(self, what: str) -> None:
        if what not in self.violations:
            self.violations.append(what)

    # --- lives of the service ------------------------------------------------------------------------------

    def kill(self) -> None:
        """From any thread: nothing of this life goes on."""
        self.calls.life += 1

    @property
    def is_killed(self) -> bool:
        return self.life != self.calls.life

    def live_anew(self) -> None:
        """The next life, on the rows of the life before or on those from before its last round."""
        if self.calls.database_back:
            self.calls.database_back = False
            self.store.close()
            file = self.directory / "service.db"
            for each in self.directory.glob("service.db*"):
                each.unlink()
            shutil.copy(self.copy, file)
            self.store = a_store(self.directory)
        self.life = self.calls.life
        self.clock.live_anew(self.store.newest_time())
        if self.settings.fleets is not None:
            self._with_fleet()
        self.start_service()

    def _with_fleet(self) -> None:
        """From the inventory of this life, so that every actuator says whose it is."""
        self.settings = self.settings.model_copy(update={"fleets": self._write_fleet()})

    def keep_copy(self) -> None:
        with (
            closing(sqlite3.connect(self.directory / "service.db")) as source,
            closing(sqlite3.connect(self.copy)) as target,
        ):
            source.backup(target)

    async def turn(self, seconds: float = 1.0) -> None:
        """One round. Raises LifeEnded when the service was killed in it."""
        if self.calls.copies_wanted:
            self.keep_copy()
        self.register()
        self.down = self._known_down()
        await self.reconciler.step(self.id)
        await self.inspections_end()
        await self.acts_end()
        self.clock.pass_by(seconds)
        self.offset += 1
        if self.is_killed:
            raise LifeEnded

    async def rounds(self, count: int = 1, seconds: float = 0.5) -> None:
        for _ in range(count):
            await self.turn(seconds)

    def _known_down(self) -> set[int]:
        """As the cluster counts them: that a broker crashed is not known before the end of its session."""
        fenced = {each.id for each in self.log.observed.brokers if each.fenced}
        return fenced | {each.id for each in self.log.observed.voters if each.lag}

    # --- what a run needs to know --------------------------------------------------------------------------

    @property
    def journal(self) -> list[JournalRow]:
        with self.store.reading() as session:
            return list(session.scalars(select(JournalRow).where(JournalRow.migration_id == self.id)))

    async def to_joining(self) -> None:
        """The service restarts no broker before somebody requests it."""
        self._with_fleet()
        self.start_service()
        await self.to_preflight()
        await self.run_operation("ADVANCE")
        await self.rounds(2)
        self.elect()
        await self.rounds(3)
        assert self.phase is Phase.BROKERS_JOINING, self.waiting

    async def to_rolling(self) -> None:
        """Past the gates before, which other tests are about: without an inventory until then."""
        await self.to_dual_write()
        self._with_fleet()
        self.start_service()
        self.enter(Phase.ROLLING_BROKERS)

    def enter(self, phase: Phase) -> None:
        """Past a gate that another test is about."""
        with self.store.writing() as session:
            row = session.get_one(Migration, self.id)
            row.phase, row.since = phase, self.clock()


BEFORE_ROAD: Final = (
    Phase.CREATED,
    Phase.PREFLIGHT,
    Phase.QUORUM,
    Phase.BROKERS_JOINING,
    Phase.READY,
    Phase.TAKEOVER,
    Phase.COPY,
    Phase.AUDIT,
)


def _voter(node: int, offset: int, there: bool) -> LogVoter:
    return LogVoter(node, offset, 0 if there else 7, 0 if there else 60_000, 0 if there else 60_000)


class _NoSession:
    def __init__(self, connect: str) -> None:
        pass

    def __enter__(self) -> None:
        return None

    def __exit__(self, *given: object) -> None:
        return None


@contextmanager
def without_zookeeper(world: EstateWorld) -> Iterator[None]:
    """What the service writes into ZooKeeper, or reads there for a backup, is played."""

    def exported(session: object, file: Path, pace: object) -> None:
        file.write_text("played")

    def intended(connect: str, intent: FinalizeIntent) -> str:
        text = world.zookeeper.observed.intent or msgspec.json.encode(intent).decode()
        world.zookeeper.observed = msgspec.structs.replace(world.zookeeper.observed, intent=text)
        return text

    of_backups: Any = backups
    of_acts: Any = acts_after_dual_write
    before = (of_backups.ZkSession, of_backups.export, of_acts.write_intent)
    of_backups.ZkSession, of_backups.export, of_acts.write_intent = _NoSession, exported, intended
    try:
        yield
    finally:
        of_backups.ZkSession, of_backups.export, of_acts.write_intent = before
