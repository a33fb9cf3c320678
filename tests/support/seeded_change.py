"""A migration in the service's database, as far as one wants it: planned, in the middle, completed, or rolled back.

In:   a directory, a stage, how many brokers. Out: store, settings and the number of the migration.
The rows are those that the service writes, by its own functions where it has some; files are rendered by the product
from the files below. Nothing ran: hosts, times and checksums of registrations are made up.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from migrator.fleet.files import checksum_of
from migrator.fleet.inventory import Inventory, Node, parse_inventory, wanted_of
from migrator.fleet.properties_file import parse_properties
from migrator.fleet.render import FileKind, render
from migrator.model.verdict import Condition, Verdict
from state_machine.clusters.inventory import BrokerEntry, ClusterInventory, ControllerEntry
from state_machine.clusters.observe import Gap, Observation
from state_machine.facts.accepted import WaiverFact
from state_machine.facts.canary import CanaryFact, CanaryFigures
from state_machine.facts.nodes import AboutNode
from state_machine.nodes.fleet import FleetNode
from state_machine.nodes.restart_evidence import file_change, ready_before, whole_since
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phase_table import WAY_FORWARD
from state_machine.policy.phases import Phase, Trigger
from state_machine.policy.rolls import facts_of
from state_machine.rolling import journal
from state_machine.rows.documents import (
    CANARY,
    FILES,
    RESTARTS,
    ZNODES,
    ZOOKEEPER_END,
    FilesDocument,
    RestartsDocument,
    ZnodeList,
    ZnodeRow,
    ZnodesDocument,
    ZooKeeperEndDocument,
)
from state_machine.rows.observations import RoundObservation, record_observation
from state_machine.rows.store import Store
from state_machine.rows.tables import Approval, AuditRun, Migration, Operation, PhaseEvent
from state_machine.settings import ServiceSettings
from tests.support.stores import a_store

BEGAN: Final = 1_795_500_000.0
"""2026-11-24T06:00:00Z."""
SECRET: Final = "hunter2-never-shown"
FAMILY: Final = {"family": "topics", "compared": 412, "equal": 412, "expected": 0, "different": 0, "not_read": 0}
BROKER_FILE: Final = """# kept by hand; the old password was {secret}
broker.id={id}
listeners=SASL_SSL://:9092
advertised.listeners=SASL_SSL://{host}:9092
zookeeper.connect=zk1:2181,zk2:2181/kafka
inter.broker.protocol.version=3.9
log.dirs=/data/kafka
ssl.keystore.location=/etc/kafka/keystore.p12
ssl.keystore.password={secret}
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.example.Login required password="{secret}";
some.plugin.api.token={secret}
"""
CONTROLLER_FILE: Final = """process.roles=controller
node.id={id}
controller.quorum.voters=3000@c1:9093,3001@c2:9093,3002@c3:9093
controller.listener.names=CONTROLLER
listeners=CONTROLLER://:9093
log.dirs=/var/lib/controller
zookeeper.connect=zk1:2181,zk2:2181/kafka
zookeeper.metadata.migration.enable=true
zk2kraft.gates=pause
ssl.keystore.password={secret}
"""


class Stage(StrEnum):
    PLANNED = "planned"
    MIDDLE = "middle"
    COMPLETED = "completed"
    ROLLED_BACK = "rolled back"


WAY: Final = {
    Stage.PLANNED: WAY_FORWARD[: WAY_FORWARD.index(Phase.BROKERS_JOINING) + 1],
    Stage.MIDDLE: WAY_FORWARD[: WAY_FORWARD.index(Phase.ROLLING_BROKERS) + 1],
    Stage.COMPLETED: WAY_FORWARD,
    Stage.ROLLED_BACK: (
        *WAY_FORWARD[: WAY_FORWARD.index(Phase.ROLLING_BROKERS) + 1],
        Phase.ROLLING_BACK,
        Phase.ROLLED_BACK,
    ),
}
ROLLS: Final = {
    Stage.PLANNED: (),
    Stage.MIDDLE: (Roll.JOIN, Roll.KRAFT),
    Stage.COMPLETED: (Roll.JOIN, Roll.KRAFT, Roll.STOCK, Roll.SOAK, Roll.FINAL),
    Stage.ROLLED_BACK: (Roll.JOIN, Roll.KRAFT, Roll.BACK, Roll.ORIGINAL),
}
PHASE_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class SeededChange:
    store: Store
    settings: ServiceSettings
    id: int
    now: float


def seeded_change(directory: Path, stage: Stage, *, brokers: int = 3, hostile: str = "") -> SeededChange:
    """hostile: a text that stands wherever people or files may bring one."""
    directory.mkdir(parents=True, exist_ok=True)
    document = inventory_document(brokers, hostile)
    (directory / "fleets").mkdir()
    (directory / "fleets" / "orders-prod.yaml").write_text(json.dumps(document))
    inventory = parse_inventory(json.dumps(document).encode(), "orders-prod.yaml")
    store = a_store(directory)
    made = ClusterInventory(
        name="orders-prod",
        zookeeper=inventory.cluster.zookeeper,
        bootstrap_servers=inventory.cluster.bootstrap_servers,
        controllers=tuple(
            ControllerEntry(each.id, each.properties, each.metadata_directory) for each in inventory.controllers
        ),
        brokers=tuple(BrokerEntry(each.id, each.host) for each in inventory.brokers),
        audit_engine="quick",
    )
    number = store.create(made, who="Ada", at=BEGAN)[0].id
    seed = _Seed(store, number, inventory, hostile)
    seed.phases(stage)
    seed.observed(stage)
    for roll in ROLLS[stage]:
        seed.roll(roll, stage)
    seed.people(stage)
    now = BEGAN + PHASE_SECONDS * (len(WAY[stage]) + 1)
    seed.documents(stage, now)
    settings = ServiceSettings(directory=directory / "service", audit_engine="quick", fleets=directory / "fleets")
    return SeededChange(store, settings, number, now)


def inventory_document(brokers: int, hostile: str = "") -> dict[str, Any]:
    waiver = {
        "what": "Z2K-7040",
        "node": 3002,
        "reason": f"its host tells nothing {hostile}".strip(),
        "owner": f"Grace {hostile}".strip(),
        "end": "2026-12-24T00:00:00Z",
    }
    return {
        "version": 1,
        "cluster": {
            "name": "orders-prod",
            "zookeeper": "zk1:2181,zk2:2181/kafka",
            "bootstrap_servers": "b1:9092,b2:9092",
            "quorum": {"voters": "3000@c1:9093,3001@c2:9093,3002@c3:9093", "super_users": ["User:broker"]},
        },
        "actuator": {"kind": "exec", "template": "ssh-systemd.yaml", "settings": {"login": "kafka"}},
        "brokers": [
            {
                "id": each,
                "host": f"b{each}",
                "rack": f"r{each % 3 + 1}",
                "properties": "/etc/kafka/server.properties",
                "log_dirs": ["/data/kafka"],
                "unit": "kafka.service",
            }
            for each in range(1, brokers + 1)
        ],
        "controllers": [
            {
                "id": 2999 + each,
                "host": f"c{each}",
                "properties": "/etc/kafka/controller.properties",
                "log_dirs": ["/var/lib/controller"],
                "unit": "kafka-controller.service",
                "guard": "/usr/local/lib/zk2kraft/zk2kraft-guard",
            }
            for each in (1, 2, 3)
        ],
        "canary": {},
        "maintenance_windows": [{"start": "22:00", "end": "04:00", "days": ["mon", "tue", "wed"]}],
        "waivers": [waiver, {**waiver, "what": "Z2K-4215", "end": "2026-11-01T00:00:00Z"}],
    }


@dataclass
class _Seed:
    store: Store
    id: int
    inventory: Inventory
    hostile: str

    def entered(self, phase: Phase, stage: Stage) -> float:
        return BEGAN + PHASE_SECONDS * WAY[stage].index(phase)

    def phases(self, stage: Stage) -> None:
        way = WAY[stage]
        with self.store.writing() as session:
            for version, (before, after) in enumerate(pairwise(way), 2):
                at = self.entered(after, stage)
                session.add(
                    PhaseEvent(
                        migration_id=self.id,
                        version=version,
                        from_phase=before,
                        to_phase=after,
                        trigger=Trigger.ROLL_BACK if after is Phase.ROLLING_BACK else Trigger.ADVANCE,
                        who=f"Ada {self.hostile}".strip(),
                        reason=f"as planned {self.hostile}".strip(),
                        at=at,
                        recorded_at=at,
                        source_run="service",
                        source_number=version,
                        operation_id=None,
                        verdict={"holds": True, "conditions": []},
                    )
                )
            row = session.get_one(Migration, self.id)
            row.phase, row.since, row.version = way[-1], self.entered(way[-1], stage), len(way)

    def observed(self, stage: Stage) -> None:
        at = BEGAN + PHASE_SECONDS * len(WAY[stage])
        taken = [] if stage is Stage.PLANNED else [Gap(self.entered(Phase.DUAL_WRITE, stage), 0.412)]
        gaps = (
            [] if stage is not Stage.COMPLETED else [Gap(self.entered(Phase.REPLACING_CONTROLLERS, stage) + 300, 1.2)]
        )
        look = Observation(at, windows=tuple(taken), gaps=tuple(gaps))
        record_observation(self.store, self.id, RoundObservation(look))

    def roll(self, roll: Roll, stage: Stage) -> None:
        role = facts_of(roll).role
        nodes = self.inventory.brokers if role == "broker" else self.inventory.controllers
        phase = {
            Roll.JOIN: Phase.BROKERS_JOINING,
            Roll.KRAFT: Phase.ROLLING_BROKERS,
            Roll.STOCK: Phase.REPLACING_CONTROLLERS,
            Roll.SOAK: Phase.SOAK,
            Roll.FINAL: Phase.FINALIZING,
            Roll.BACK: Phase.ROLLING_BACK,
            Roll.ORIGINAL: Phase.ROLLING_BACK,
        }[roll]
        began = self.entered(phase, stage) + (1200 if roll is Roll.ORIGINAL else 60)
        fleet = [FleetNode(role, each, cast("Any", None)) for each in nodes]
        journal.begin(self.store, self.id, roll, fleet, at=began)
        for turn, node in enumerate(nodes):
            if stage is Stage.MIDDLE and roll is Roll.KRAFT and turn >= len(nodes) - 1:
                self.fails(roll, node, began + 100.0 * turn)
            else:
                self.restarts(roll, role, node, began + 100.0 * turn)

    def restarts(self, roll: Roll, role: str, node: Node, at: float) -> None:
        kind = facts_of(roll).file
        wanted = wanted_of(self.inventory, node)
        text = BROKER_FILE if role == "broker" else CONTROLLER_FILE
        present = parse_properties(text.format(id=node.id, host=node.host, secret=SECRET).encode(), node.properties)
        if roll in (Roll.KRAFT, Roll.BACK, Roll.ORIGINAL):
            before = present
            present = render(role, present, FileKind.MIGRATION, wanted).document
            if roll is Roll.BACK:
                before, present = present, render(role, present, FileKind.KRAFT, wanted).document
        else:
            before = None
        if roll is Roll.FINAL:
            present = render(role, present, FileKind.STOCK, wanted).document
        rendered = (
            None if kind is None else render(role, present, kind, wanted, before if roll is not Roll.KRAFT else None)
        )
        columns: dict[str, Any] = {"step": "PREPARED", "detail": "its disks have no stray directory"}
        if rendered is not None:
            columns |= {"kind": str(kind), "rendered_from": checksum_of(present.content), "checksum": rendered.checksum}
            columns["evidence"] = file_change(rendered)
        journal.record(self.store, self.id, roll, node.id, at=at, **columns)
        ready = _held(
            ("nothing was under-replicated for 60 s", "every partition has been fully replicated for 84 s"),
            ("canary traffic is within its error budget", "0 of 600 records failed in ten minutes"),
        )
        stopping = {"step": "STOPPING", "began_at": at, "incarnation": f"run-{node.id}"}
        journal.record(self.store, self.id, roll, node.id, at=at, **stopping, evidence=ready_before(ready, at))
        ends = at + 31.0 + node.id % 7
        whole = _held(
            (f"the {role} registered anew", f"incarnation run-{node.id}-2 {self.hostile}".strip()),
            ("every partition is fully replicated", "under-replicated partitions: 0"),
        )
        ended = {"step": "WHOLE", "log_end": 8_000 + node.id}
        journal.record(self.store, self.id, roll, node.id, at=ends, **ended, evidence=whole_since(whole, ends))

    def fails(self, roll: Roll, node: Node, at: float) -> None:
        cause = f"Its process ended after it was started. {self.hostile}".strip()
        columns: dict[str, Any] = {
            "step": "FAILED",
            "failed_in": "STARTED",
            "began_at": at,
            "code": "Z2K-4202",
            "cause": cause,
        }
        journal.record(self.store, self.id, roll, node.id, at=at + 40, **columns)

    def people(self, stage: Stage) -> None:
        with self.store.writing() as session:
            for phase in WAY[stage][1:]:
                at = self.entered(phase, stage) - 5
                session.add(_operation(self.id, phase, at, f"Ada {self.hostile}".strip(), self.hostile))
            if stage is Stage.COMPLETED:
                at = self.entered(Phase.FINALIZING, stage) - 600
                session.add(
                    Approval(
                        migration_id=self.id,
                        to_phase=Phase.FINALIZING,
                        who=f"Grace {self.hostile}".strip(),
                        reason=f"seen in the board {self.hostile}".strip(),
                        at=at,
                        digest="a3" * 32,
                        document={},
                    )
                )
            self.audits(session, stage)
        if stage is not Stage.PLANNED:
            self.store.record_backup(
                self.id,
                file="/var/lib/zk2kraft/backups/ROLLING_BROKERS-20261124T133000Z",
                phase=Phase.ROLLING_BROKERS,
                sha256="5c" * 32,
                size_bytes=48_000_000,
                at=self.entered(Phase.ROLLING_BROKERS, stage) - 900,
            )

    def audits(self, session: Any, stage: Stage) -> None:
        if stage is not Stage.PLANNED:
            session.add(_audit(self.id, "rehearsal", "passed", self.entered(Phase.READY, stage) + 300))
            at = self.entered(Phase.DUAL_WRITE, stage)
            session.add(_audit(self.id, "schedule", "incomplete", at + 900))
            session.add(_audit(self.id, "schedule", "passed", at + 1800))

    def documents(self, stage: Stage, now: float) -> None:
        nodes: Iterable[tuple[str, Node]] = [
            *(("broker", each) for each in self.inventory.brokers),
            *(("controller", each) for each in self.inventory.controllers),
        ]
        files = FilesDocument(
            at=now - 20,
            checksums={f"{role} {each.id}": checksum_of(f"{role} {each.id}".encode()) for role, each in nodes},
            not_read=(
                AboutNode("controller", 3002, "/etc/kafka/controller.properties: its actuator cannot read files"),
            ),
            named=tuple(each.id for each in self.inventory.brokers),
            waivers=tuple(
                WaiverFact(each.what, each.node, each.reason, each.owner, each.end.timestamp())
                for each in self.inventory.waivers
            ),
        )
        figures = CanaryFigures(now - 2, last_error="" if stage is Stage.PLANNED else "message timed out")
        answered = 0 if stage is Stage.PLANNED else 43_200
        canary = CanaryFact(True, figures, answered=answered, failed=min(answered, 3))
        documents: list[tuple[str, Any]] = [(FILES, files), (RESTARTS, RestartsDocument(now - 20)), (CANARY, canary)]
        if stage is Stage.COMPLETED:
            since = self.entered(Phase.COMPLETED, stage) + 600
            problem = f"Z2K-2001 ZooKeeper does not answer: no answer in 5 s {self.hostile}".strip()
            end = ZooKeeperEndDocument(now - 20, False, 30.0, problem, unreachable_since=since, unobserved_s=1800.0)
            documents.append((ZOOKEEPER_END, end))
        if stage is Stage.ROLLED_BACK:
            documents.append((ZNODES, self.znodes(stage)))
        for kind, value in documents:
            self.store.record_document(self.id, kind, msgspec.to_builtins(value), at=now)

    def znodes(self, stage: Stage) -> ZnodesDocument:
        before = (
            ZnodeRow("/kafka/controller", 0, data='{"version":2,"brokerid":3000,"kraftControllerEpoch":4}'),
            ZnodeRow("/kafka/controller_epoch", 7, data="8"),
            ZnodeRow("/kafka/migration", 912, data='{"version":0,"kraft_controller_id":3000}'),
            ZnodeRow("/kafka/cluster/zk2kraft_finalize"),
            ZnodeRow("/kafka/cluster/zk2kraft_road", 0, ephemeral=True, data=f"service {self.hostile}".strip()),
            ZnodeRow("/kafka/cluster/zk2kraft-3000", 0, ephemeral=True, data='{"node":3000}'),
        )
        after = (
            ZnodeRow("/kafka/controller", 0, ephemeral=True, data='{"brokerid":2,"kraftControllerEpoch":-1}'),
            ZnodeRow("/kafka/controller_epoch", 8, data="9"),
            *(ZnodeRow(each.path) for each in before[2:]),
        )
        return ZnodesDocument(
            ZnodeList(self.entered(Phase.ROLLING_BACK, stage) - 30, Phase.ROLLING_BROKERS, before),
            ZnodeList(self.entered(Phase.ROLLED_BACK, stage) + 90, Phase.ROLLED_BACK, after),
        )


def _held(*facts: tuple[str, str]) -> Verdict:
    return Verdict(tuple(Condition(name, True, message) for name, message in facts))


def _operation(migration: int, phase: Phase, at: float, who: str, hostile: str) -> Operation:
    back = phase is Phase.ROLLING_BACK
    return Operation(
        migration_id=migration,
        name=Trigger.ROLL_BACK if back else Trigger.ADVANCE,
        to_phase=phase,
        who=who,
        reason=f"the board agreed {hostile}".strip(),
        at=at,
        expected_version=1,
        idempotency_key=None,
        fingerprint="",
        state="succeeded",
        controller_run=None,
        ended_at=at + 5,
        answer=f"to {phase}",
        verdict=None,
    )


def _audit(migration: int, purpose: str, result: str, at: float) -> AuditRun:
    passed = result == "passed"
    families = [{**FAMILY, "not_read": 0 if passed else 4}]
    return AuditRun(
        migration_id=migration,
        purpose=purpose,
        engine="quick",
        state="done",
        who="service",
        asked_at=at - 8,
        finished_at=at,
        kraft=None,
        directory=None,
        same=passed,
        families=families,
        seconds={"total": 7.9},
        position={},
        rehearsal=None,
        problem="",
        idempotency_key=None,
        fingerprint=None,
    )
