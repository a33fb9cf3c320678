"""What one round of a roll is about, handed on as a whole: to parts of the loop, to kinds of rolls, to acts on hosts.

In:   nothing. Out: `Round`, `NodeTask`, and what is kept of a migration from one round to the next.
Elsewhere: who makes them (loop.py), the kinds (kind.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from migrator.findings.finding import Occurrence
from migrator.fleet.actuator import ProcessState
from migrator.fleet.asked_parser import KAFKA, kafka_says
from migrator.fleet.inventory import Inventory
from migrator.fleet.render import Rendered
from migrator.fleet.repeatable import Repeats
from migrator.fleet.roll import NodeAct
from migrator.model.image import Image
from migrator.model.verdict import Condition
from state_machine.children.processes import Launcher
from state_machine.clusters.log_observer import LogObservation
from state_machine.facts.accepted import WaiverFact
from state_machine.nodes.calls import HostThreads
from state_machine.nodes.fleet import Fleet, FleetNode
from state_machine.nodes.replicas import ReplicasSeen, ReplicasWatch
from state_machine.policy.conditions import fleet_evidence_of
from state_machine.policy.fleet_evidence import FleetEvidence, Roll
from state_machine.policy.gates import Evidence
from state_machine.policy.rolls import ROLLS, RollRow
from state_machine.rollback.stops import Quiet
from state_machine.rolling.unsent_registrations import UnsentRegistrations
from state_machine.rows.store import Snapshot
from state_machine.rows.tables import JournalRow
from state_machine.settings import ServiceSettings


@dataclass(frozen=True, slots=True)
class Means:
    """What kinds of rolls need of the service. clock: of rows, in seconds since 1970. steady: only goes on."""

    launcher: Launcher
    settings: ServiceSettings
    hosts: HostThreads
    replicas: Callable[[Inventory], ReplicasSeen]
    clock: Callable[[], float]
    steady: Callable[[], float]

    def kafka_says(self, rendered: Rendered) -> str:
        """What Kafka's own parser says, before the node is stopped. Raises Z2K-7035."""
        return kafka_says(rendered, None if self.settings.fleets is None else self.settings.fleets / KAFKA)


@dataclass(slots=True)
class Running:
    """An act on its way."""

    roll: Roll
    node: int
    act: NodeAct
    task: asyncio.Task[dict[str, Any]]
    since: float


@dataclass(slots=True)
class NodeLook:
    """A look at a node's host on its way. row: what the journal had of the node when it began."""

    key: tuple[str, int]
    row: tuple[str, str]
    task: asyncio.Task[NodeSeen]
    since: float


@dataclass(slots=True)
class NodeSeen:
    """The last look at the node that is under way."""

    at: float
    process: ProcessState
    rendered: bool | None = None
    disks: Condition | None = None
    answered: bool | None = None


@dataclass(slots=True)
class RollWork:
    """What is kept of one migration, in this life of the service."""

    repeats: Repeats
    running: dict[int, Running] = field(default_factory=dict)
    """By node; more than one only of a rack that is restarted together."""
    looks: dict[tuple[str, int], NodeLook] = field(default_factory=dict)
    one_by_one: dict[tuple[str, str], tuple[list[int], Occurrence]] = field(default_factory=dict)
    """By roll and rack: brokers that are not restarted together, and why."""
    seen: dict[tuple[str, int], NodeSeen] = field(default_factory=dict)
    replicas: ReplicasWatch | None = None
    unsent: UnsentRegistrations = field(default_factory=UnsentRegistrations)
    moved: bool = False
    """A row was changed by an act that ended in this round."""
    quiet: Quiet = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Round:
    """One decision about one roll. out: nodes that a way back leaves out, by id. now: of rows, as it began."""

    snapshot: Snapshot
    evidence: Evidence
    roll: Roll
    fleet: Fleet
    work: RollWork
    means: Means
    now: float
    out: Mapping[int, WaiverFact]

    @property
    def row(self) -> RollRow:
        return ROLLS[self.roll]

    @property
    def road(self) -> FleetEvidence:
        return fleet_evidence_of(self.evidence)

    @property
    def log(self) -> LogObservation:
        return log_of(self.snapshot)

    @property
    def rows(self) -> tuple[JournalRow, ...]:
        """The journal of this roll."""
        return self.snapshot.nodes_of(self.roll)

    def node(self, row: JournalRow) -> FleetNode:
        node = self.fleet.node(row.role, row.node_id)
        assert node is not None, "nodes that are missing were refused"
        return node


@dataclass(frozen=True, slots=True)
class NodeTask:
    """An act on one node, on a thread. image: the metadata log as it was when the act began."""

    round: Round
    node: FleetNode
    row: JournalRow
    image: Image


def log_of(snapshot: Snapshot) -> LogObservation:
    return LogObservation() if snapshot.observation is None else snapshot.observation.log
