"""A service with everything around it faked: one migration, one controller, a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx
from sqlalchemy import select

from migrator.fleet.inventory import Inventory
from state_machine.audits.inspections import Inspections
from state_machine.children.supervisor import Supervisor
from state_machine.clusters.control import ControlClient
from state_machine.clusters.inventory import BrokerEntry, ClusterInventory, ControllerEntry
from state_machine.clusters.observe import ClusterObserver
from state_machine.evidence.of_gates import evidence
from state_machine.finish.soak import SoakActs
from state_machine.finish.version_raise import VersionRaise
from state_machine.nodes.fleet import Fleet, Fleets
from state_machine.nodes.replicas import ReplicasSeen
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.gates import Evidence
from state_machine.policy.phases import OperationName, Phase
from state_machine.rolling.loop import Roller
from state_machine.rows.documents import RestartFound, RestartsDocument
from state_machine.rows.store import NewOperation, Snapshot, Store, find_migration
from state_machine.rows.tables import JournalRow, Operation, PhaseEvent
from state_machine.settings import ServiceSettings
from state_machine.work.acts import Acts
from state_machine.work.acts_after_dual_write import ActsAfterDualWrite
from state_machine.work.agreement import agreement
from state_machine.work.operations import Operations
from state_machine.work.reconcile import Reconciler
from tests.support.stores import a_store
from tests.unit.state_machine.fakes import (
    OPEN,
    FakeController,
    FakeLauncher,
    FakeLog,
    FakeNetwork,
    FakePartitions,
    FakeRunner,
    FakeZooKeeper,
)

NODE = 3000
ROAD_OF_A_TAKEOVER = ("TAKING_OVER", "COPYING", "AUDITING", "COMMITTING", "SYNCING", "UPDATING_BROKERS", "DUAL_WRITE")
COPY_AUDIT = {"same": True, "families": [{"compared": 16, "different": 0, "not_read": 0}]}


class Clock:
    def __init__(self, at: float = 1_000_000.0) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at

    def pass_by(self, seconds: float) -> None:
        self.at += seconds

    def ahead_s(self) -> float:
        """Of the wall clock; it is the wall clock."""
        return 0.0


def an_entry(directory: Path, node: int = NODE, voters: int = 1) -> ControllerEntry:
    """A properties file and a formatted directory, as far as the service looks at them."""
    name = "" if node == NODE else f"-{node}"
    data, file = directory / f"data{name}", directory / f"controller{name}.properties"
    data.mkdir(parents=True, exist_ok=True)
    (data / "meta.properties").write_text(f"version=1\ncluster.id=cluster\nnode.id={node}\n")
    file.write_text(properties(data, node=node, voters=voters))
    return ControllerEntry(node, str(file), str(data))


def an_inventory(directory: Path, *, voters: int = 1, **changes: Any) -> ClusterInventory:
    fields: dict[str, Any] = {
        "name": "orders",
        "zookeeper": "zk:2181/kafka",
        "bootstrap_servers": "kafka:9092",
        "controllers": tuple(an_entry(directory, NODE + each, voters) for each in range(voters)),
        "brokers": (BrokerEntry(0), BrokerEntry(1), BrokerEntry(2)),
        "audit_engine": "quick",
    }
    return ClusterInventory(**{**fields, **changes})


def properties(
    data: Path, gates: str = "pause", zookeeper: str = "zk:2181/kafka", node: int = NODE, voters: int = 1
) -> str:
    named = [NODE + each for each in range(voters)] if voters > 1 else [node]
    quorum = ",".join(f"{each}@127.0.0.1:9093" for each in named)
    return "\n".join(
        [
            "process.roles=controller",
            f"node.id={node}",
            f"controller.quorum.voters={quorum}",
            "controller.listener.names=CONTROLLER",
            "listeners=CONTROLLER://127.0.0.1:9093",
            f"log.dirs={data}",
            f"zookeeper.connect={zookeeper}",
            "zookeeper.metadata.migration.enable=true",
            f"zk2kraft.gates={gates}",
        ]
    )


class World:
    """Rounds are run by the test; nothing happens between them. controller: the first voter, the one that leads."""

    make_clock: ClassVar[Callable[[], Any]] = Clock
    made_by: type[FakeController] = FakeController

    def __init__(
        self,
        directory: Path,
        store: Store | None = None,
        voters: int = 1,
        controllers: tuple[ControllerEntry, ...] = (),
    ) -> None:
        self.clock = type(self).make_clock()
        self.clock_steady = self.clock
        self.store = store or a_store(directory)
        given = {"controllers": controllers} if controllers else {}
        self.inventory = an_inventory(directory, voters=voters, **given)
        self.controllers = [self.made_by(each, self.clock) for each in self.inventory.controllers]
        self.controller = self.controllers[0]
        self.zookeeper = FakeZooKeeper()
        self.zookeeper.broker_rules()
        self.launcher = FakeLauncher({each.entry.node_id: each for each in self.controllers})
        self.runner = FakeRunner()
        self.log = FakeLog()
        self.partitions = FakePartitions()
        self.waits_for_restart: tuple[RestartFound, ...] = ()
        self.settings = ServiceSettings(
            directory=directory / "service", audit_engine="quick", roots=(directory, Path("/etc"), Path("/var/data"))
        )
        self.id = self.store.create(self.inventory, who="test", at=self.clock())[0].id
        self.start_service()

    def start_service(self) -> None:
        """A new life of the service on the same rows."""
        http = httpx.AsyncClient(transport=FakeNetwork(self.controllers))
        control = ControlClient(http)
        observer = ClusterObserver(
            control,
            self.clock,
            lambda connect: self.zookeeper,
            lambda inventory: self.log,
            lambda connect: self.partitions,
            self.clock_steady,
        )
        self.inspections = Inspections(self.store, self.runner, self.settings, self.clock)
        supervisor = Supervisor(self.store, self.launcher, clock=self.clock, steady=self.clock_steady)
        fleets = Fleets(self.settings.fleets)
        times = (self.clock, self.clock_steady)
        roller = Roller(self.store, fleets, observer, self.launcher, self.settings, *times, replicas=self.replicas)
        soak = SoakActs(self.store, fleets, observer, *times)
        raises = VersionRaise(self.store, observer, *times)
        road = ActsAfterDualWrite(self.store, fleets, roller, soak, self.settings, *times, raises, self.restarts)
        self._beside = (roller, road, soak, raises)
        acts = Acts(
            self.store, control, supervisor, self.inspections, self.settings, road, *times, ahead_s=self.clock.ahead_s
        )
        operations = Operations(self.store, control, self.inspections, raises, self.clock)
        self.reconciler = Reconciler(
            self.store,
            observer,
            operations,
            acts,
            self.inspections,
            pause_s=0.5,
            clock=self.clock,
            operates=self.settings.fleets is not None,
        )

    def restarts(self, snapshot: Snapshot, fleet: Fleet, now: float, *_: Any) -> RestartsDocument:
        """What brokers' next restarts would change: `self.waits_for_restart`."""
        return RestartsDocument(now, found=self.waits_for_restart)

    def replicas(self, inventory: Inventory) -> ReplicasSeen:
        """As clients see the brokers: all of them, and everything is whole."""
        return ReplicasSeen(tuple(each.id for each in inventory.brokers))

    async def rounds(self, count: int = 1, seconds: float = 0.5) -> None:
        """Rounds of the loop; between them inspections and acts come to their end and time passes."""
        for _ in range(count):
            await self.reconciler.step(self.id)
            await self.inspections_end()
            await self.acts_end()
            self.clock.pass_by(seconds)

    async def inspections_end(self) -> None:
        tasks = [task for task, _ in self.inspections._running.values()]
        await asyncio.gather(*tasks, return_exceptions=True)
        self.inspections.reap(self.id)

    async def acts_end(self) -> None:
        """Acts on hosts and looks at files, which go on beside the rounds: in real time, unlike the clock of a test."""
        roller, road, soak, raises = self._beside
        begun: list[asyncio.Task[Any] | None] = [*raises._asking.values()]
        begun += [each.task for work in roller._work.values() for each in work.running.values()]
        begun += [each.task for work in roller._work.values() for each in work.looks.values()]
        begun += [None if work.replicas is None else work.replicas._task for work in roller._work.values()]
        begun += [task for work in road._work.values() for task in (work.files, work.restarts, work.backup)]
        begun += [work.snapshots for work in soak._work.values()]
        running = [task for task in begun if task is not None and not task.done()]
        if running:
            await asyncio.wait(running)

    def operation(self, name: str, **fields: Any) -> Operation:
        """An approval is about what is there now, unless the test says what its sender read."""
        if name == OperationName.APPROVE and "digest" not in fields:
            fields["digest"] = agreement(self.snapshot, fields.get("to", Phase.FINALIZING)).digest
        order = NewOperation(**{"name": name, "who": "Ada", "reason": "it is time", **fields})
        return self.store.record_operation(self.id, order, at=self.clock())[0]

    async def run_operation(self, name: str, **fields: Any) -> Operation:
        """An operation, and the round that looks at it."""
        operation = self.operation(name, **fields)
        await self.rounds()
        return self.store.operation(self.id, operation.id)

    @property
    def snapshot(self) -> Snapshot:
        return self.store.snapshot(self.id)

    # Tests ask for these after every round, and a snapshot costs much of what a round does.

    @property
    def phase(self) -> Phase:
        return Phase(self.store.phase(self.id))

    @property
    def waiting(self) -> str:
        with self.store.reading() as session:
            return find_migration(session, self.id).waiting

    def nodes_of(self, roll: Roll) -> tuple[JournalRow, ...]:
        """The journal of one rolling restart, as `Snapshot.nodes_of`."""
        with self.store.reading() as session:
            of_it = (JournalRow.migration_id == self.id, JournalRow.roll == roll)
            return tuple(session.scalars(select(JournalRow).where(*of_it).order_by(JournalRow.node_id)))

    @property
    def evidence(self) -> Evidence:
        return evidence(self.snapshot, self.clock())

    @property
    def events(self) -> list[PhaseEvent]:
        return self.store.events(self.id)

    @property
    def steps(self) -> list[str]:
        return [event.to_phase for event in self.events]

    # --- ways to a phase -----------------------------------------------------------------------------------

    async def to_preflight(self) -> None:
        await self.run_operation("ADVANCE")
        await self.rounds(2)

    async def to_ready(self) -> None:
        await self.to_preflight()
        await self.run_operation("ADVANCE")
        await self.rounds(2)
        if len(self.controllers) > 1:
            self.elect()
        await self.rounds()
        self.brokers_join()
        await self.rounds(4)
        assert self.phase is Phase.READY, self.waiting

    def elect(self) -> None:
        """The first voter leads, the others that live follow it."""
        for each in self.controllers[1:]:
            each.follow(NODE)
        self.controller.elect()

    def brokers_join(self) -> None:
        self.controller.gate = OPEN
        self.controller.reason = "the takeover is paused"

    def take_over(self, *, until: str = "DUAL_WRITE") -> None:
        """The driver does it, faster than any look."""
        for state in ROAD_OF_A_TAKEOVER[: ROAD_OF_A_TAKEOVER.index(until) + 1]:
            self.controller.move(state)
            self.clock.pass_by(0.01)
        if until not in ("TAKING_OVER", "COPYING"):
            self.controller.audit = COPY_AUDIT
        if until in ("COMMITTING", "SYNCING", "UPDATING_BROKERS", "DUAL_WRITE"):
            self.controller.migration = "MIGRATION"
        self.zookeeper.ours_rules()

    async def to_dual_write(self) -> None:
        await self.to_ready()
        self.controller.on_ask = lambda operation: self.take_over()
        await self.run_operation("ADVANCE")
        await self.rounds()
        self.controller.on_ask = lambda operation: None
        assert self.phase is Phase.DUAL_WRITE, self.waiting

    def rollback(self) -> None:
        self.controller.move("ROLLING_BACK", "RETIRED")
        self.zookeeper.broker_rules()


@contextmanager
def a_world(directory: Path, voters: int = 1) -> Iterator[World]:
    world = World(directory, voters=voters)
    yield world
    world.store.close()
