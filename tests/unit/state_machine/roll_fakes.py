"""A roller over hosts in memory: no shell, no cluster, one round per call.

In:   which roll, and what the cluster is to look like. Out: a `Fakes`: its rounds, its journal, what was decided by.
Rules: hosts do what they are told at once; a process registers when it is started. Everything else is the product.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from migrator.findings.fleet import FILE_ABSENT
from migrator.fleet.actuator import Done, Performed, ProcessState, ProcessStatus
from migrator.fleet.files import checksum_of
from migrator.fleet.inventory import parse_inventory
from migrator.fleet.roll import Decision, RollEntry, RollNow, decide, decide_each
from migrator.model.image import EMPTY
from migrator.model.verdict import Verdict
from state_machine.clusters.log_observer import LogBroker, LogController, LogObservation, LogVoter
from state_machine.clusters.observe import Observation, ZooKeeperObservation
from state_machine.nodes.fleet import Fleet, FleetNode
from state_machine.nodes.replicas import ReplicasSeen
from state_machine.nodes.restart_evidence import ready_before
from state_machine.policy.fleet_evidence import BROKERS, CONTROLLERS, Roll
from state_machine.policy.gates import Evidence, Holder
from state_machine.policy.outcome import Outcome
from state_machine.policy.phase_table import PHASE_OF
from state_machine.policy.rolls import ROLLS
from state_machine.rolling import acts, journal, loop
from state_machine.rolling.loop import Roller
from state_machine.rows.store import Snapshot
from state_machine.rows.tables import JournalRow, Migration
from tests.unit.state_machine.world import World

NODES: Final = (3000, 3001, 3002)
IDS: Final = (0, 1, 2)
VOTERS: Final = ",".join(f"{each}@127.0.0.1:9093" for each in NODES)
BROKER_FILE: Final = f"""broker.id={{id}}
zookeeper.connect=zk:2181/kafka
zookeeper.metadata.migration.enable=true
inter.broker.protocol.version=3.9
listeners=PLAINTEXT://b{{id}}:9092
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.voters={VOTERS}
controller.listener.names=CONTROLLER
log.dirs=/data
"""
INVENTORY: Final = f"""
version: 1
cluster: {{name: orders, zookeeper: "zk:2181/kafka", bootstrap_servers: "k:9092", quorum: {{voters: "{VOTERS}"}}}}
actuator: {{kind: exec, template: t.yaml}}
brokers: [{", ".join(f"{{id: {each}, host: b{each}, properties: /etc/k, log_dirs: [/data]}}" for each in IDS)}]
controllers: [{", ".join(f"{{id: {each}, host: c{each}, properties: /etc/k, log_dirs: [/meta]}}" for each in NODES)}]
"""


@dataclass
class MemoryHost:
    """An actuator on a dict. acts: of all hosts, as `stop 1`."""

    number: int
    files: dict[str, bytes]
    acts: list[str]
    state: ProcessState = ProcessState.RUNNING
    starts: int = 0
    kind: str = "exec"

    def read(self, path: str) -> bytes | None:
        if path not in self.files:
            raise FILE_ABSENT.error(path=path, node=self.number)
        return self.files[path]

    def list(self, directory: str) -> tuple[str, ...] | None:
        return ()

    def write(self, path: str, content: bytes) -> Performed:
        if path in self.files:  # its predecessor, which is written before it, is a new one
            self.acts.append(f"write {self.number}")
        self.files[path] = content
        return Done()

    def stop(self) -> Performed:
        self.acts.append(f"stop {self.number}")
        self.state = ProcessState.STOPPED
        return Done()

    def start(self) -> Performed:
        self.acts.append(f"start {self.number}")
        self.state, self.starts = ProcessState.RUNNING, self.starts + 1
        return Done()

    def status(self) -> ProcessStatus:
        return ProcessStatus(self.state)


@dataclass
class Judged:
    """What the loop decided by, newest last. before_stop: what held when a stop was ordered."""

    looks: list[RollNow] = field(default_factory=list)
    entries: list[Sequence[RollEntry]] = field(default_factory=list)
    before_stop: list[Verdict] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)


class Fakes:
    """One roll. evidence: of the cluster, the same in each round. Changes of `world.clock` are steady time, too."""

    def __init__(self, directory: Path, roll: Roll, evidence: Evidence, **zookeeper: Any) -> None:
        self.roll, self.evidence = roll, evidence
        self.world = World(directory, voters=len(NODES))
        with self.world.store.writing() as session:
            session.get_one(Migration, self.world.id).phase = PHASE_OF[roll]
        self.zookeeper = ZooKeeperObservation(**{"holder": Holder.OURS, "brokers": IDS, **zookeeper})
        self.acts: list[str] = []
        self.hosts = {
            each: MemoryHost(each, {"/etc/k": BROKER_FILE.format(id=each).encode()}, self.acts) for each in IDS
        }
        for entry in self.world.inventory.controllers:
            files = {"/etc/k": Path(entry.properties).read_bytes()}
            self.hosts[entry.node_id] = MemoryHost(entry.node_id, files, self.acts)
        inventory = parse_inventory(INVENTORY.encode(), "orders.yaml")
        nodes = [
            FleetNode(role, node, self.hosts[node.id])
            for role, those in ((BROKERS, inventory.brokers), (CONTROLLERS, inventory.controllers))
            for node in those
        ]
        self.fleet = Fleet(inventory, tuple(nodes), "digest")
        fleets: Any = SimpleNamespace(fleet=lambda name: self.fleet)
        observer: Any = SimpleNamespace(log_of=lambda number: SimpleNamespace(image=EMPTY))
        settings = self.world.settings.model_copy(update={"settle_s": 2.0, "node_deadline_s": 300.0})
        times = (self.world.clock, self.world.clock)
        launcher: Any = self.world.launcher
        self.roller = Roller(
            self.world.store, fleets, observer, launcher, settings, *times, replicas=lambda _: ReplicasSeen(IDS)
        )

    @property
    def snapshot(self) -> Snapshot:
        return replace(self.world.snapshot, observation=self.look())

    def look(self) -> Observation:
        """What those that run have registered: another incarnation after each start, the mode of their file."""
        hosts = self.hosts
        broker = [
            LogBroker(
                each,
                f"run-{hosts[each].starts}",
                "KRaft" if b"process.roles" in hosts[each].files["/etc/k"] else "ZooKeeper",
                fenced=hosts[each].state is not ProcessState.RUNNING,
            )
            for each in IDS
        ]
        controllers = [LogController(each, f"run-{hosts[each].starts}", zk_migration_ready=True) for each in NODES]
        log = LogObservation(
            at=self.world.clock(),
            problem="",
            leader=NODES[0],
            epoch=5,
            high_watermark=100,
            migration="MIGRATION",
            brokers=tuple(broker),
            controllers=tuple(controllers),
            voters=tuple(LogVoter(each, 100, 0, 0) for each in NODES),
        )
        return Observation(self.world.clock(), zookeeper=self.zookeeper, log=log)

    def begin(self, **steps: str) -> None:
        """Its journal. steps: of nodes, as `n0="STARTED"`; all others are PENDING."""
        at, store, number = self.world.clock(), self.world.store, self.world.id
        journal.begin(store, number, self.roll, self.fleet.of(ROLLS[self.roll].role), at=at)
        for name, step in steps.items():
            self.at_step(int(name[1:]), step)

    def at_step(self, node: int, step: str, **columns: Any) -> None:
        at = self.world.clock()
        content = self.hosts[node].files["/etc/k"]
        fields = {"checksum": checksum_of(content), "rendered_from": "before", "incarnation": "before", **columns}
        began = None if step in ("PENDING", "PREPARED") else at
        journal.record(self.world.store, self.world.id, self.roll, node, at=at, step=step, began_at=began, **fields)

    async def round(self, seconds: float = 2.0) -> Outcome | None:
        """One round; acts and looks come to their end."""
        said = await self.roller.step(self.snapshot, self.evidence, self.roll)
        for work in self.roller._work.values():
            begun = [*(each.task for each in work.running.values()), *(each.task for each in work.looks.values())]
            begun += [] if work.replicas is None or work.replicas._task is None else [work.replicas._task]
            await asyncio.gather(*begun, return_exceptions=True)
        self.world.clock.pass_by(seconds)
        return said

    async def until(self, ready: Callable[[], bool], most: int = 200) -> None:
        for _ in range(most):
            if ready():
                return
            said = await self.round()
        raise AssertionError(f"not within {most} rounds: {said}")

    def steps(self, roll: Roll | None = None) -> dict[int, str]:
        return {row.node_id: row.step for row in self.rows(roll)}

    def rows(self, roll: Roll | None = None) -> tuple[JournalRow, ...]:
        return self.world.nodes_of(roll or self.roll)


def judged_by(monkeypatch: pytest.MonkeyPatch) -> Judged:
    """Notes what the loop asks with, and lets it go on."""
    noted = Judged()

    def one(entries: Sequence[RollEntry], now: RollNow) -> Decision:
        noted.looks.append(now)
        noted.entries.append(entries)
        noted.decisions.append(decide(entries, now))
        return noted.decisions[-1]

    def several(entries: Sequence[RollEntry], now: RollNow) -> dict[int, Decision]:
        noted.looks.append(now)
        noted.entries.append(entries)
        said = decide_each(entries, now)
        noted.decisions.extend(said.values())
        return said

    def before(verdict: Verdict, at: float) -> dict[str, Any]:
        noted.before_stop.append(verdict)
        return ready_before(verdict, at)

    monkeypatch.setattr(loop, "decide", one)
    monkeypatch.setattr(loop, "decide_each", several)
    monkeypatch.setattr(acts, "ready_before", before)
    return noted
