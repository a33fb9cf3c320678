"""The nodes of a migration as they can be operated: from the inventory file that the service's owner wrote.

In:   the directory `fleets` of the configuration: `<name of the migration>.yaml`, and `templates/` for actuators.
Out:  a `Fleet`, or why there is none.
Elsewhere: the form of the file (migrator.fleet.inventory), actuators (migrator.fleet.actuators).
Rule: no request names a file or a command: who may write into that directory decides what the service runs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.road import NO_FLEET
from migrator.fleet.actuator import Actuator
from migrator.fleet.actuators import actuator_for, transfer_findings
from migrator.fleet.files import Present
from migrator.fleet.inventory import Inventory, Node, read_inventory, require_inventory, wanted_of
from migrator.fleet.render import FileKind, Rendered, render
from state_machine.policy.road_observations import BROKERS, CONTROLLERS, Roll

TEMPLATES: Final = "templates"
KIND_OF: Final = {
    Roll.JOIN: FileKind.MIGRATION,
    Roll.KRAFT: FileKind.KRAFT,
    Roll.STOCK: FileKind.STOCK,
    Roll.SOAK: None,
    Roll.FINAL: FileKind.FINALIZED,
    Roll.OURS: FileKind.BACK,
    Roll.BACK: FileKind.BACK,
    Roll.ORIGINAL: FileKind.ORIGINAL,
}
"""The file that a node gets in a roll; None: it keeps its own."""
ROLE_OF: Final = {
    Roll.JOIN: BROKERS,
    Roll.KRAFT: BROKERS,
    Roll.STOCK: CONTROLLERS,
    Roll.SOAK: CONTROLLERS,
    Roll.FINAL: CONTROLLERS,
    Roll.OURS: CONTROLLERS,
    Roll.BACK: BROKERS,
    Roll.ORIGINAL: BROKERS,
}


@dataclass(frozen=True, slots=True)
class FleetNode:
    """One process with the way to its host."""

    role: str
    node: Node
    actuator: Actuator

    @property
    def id(self) -> int:
        return self.node.id

    @property
    def name(self) -> str:
        return f"{self.role} {self.node.id}"

    @property
    def path(self) -> str:
        return self.node.properties


@dataclass(frozen=True, slots=True)
class Fleet:
    """All nodes of one inventory file. digest: SHA-256 of that file. unproven: Z2K-7043 of its templates."""

    inventory: Inventory
    nodes: tuple[FleetNode, ...]
    digest: str
    unproven: tuple[Occurrence, ...] = ()

    def of(self, role: str) -> tuple[FleetNode, ...]:
        return tuple(each for each in self.nodes if each.role == role)

    def node(self, role: str, node_id: int) -> FleetNode | None:
        return next((each for each in self.nodes if (each.role, each.id) == (role, node_id)), None)

    def render(self, node: FleetNode, present: Present, kind: FileKind, *, passwords_encoded: bool = False) -> Rendered:
        """Raises the first finding that forbids to write it. passwords_encoded: also where the inventory does not say
        so."""
        wanted = wanted_of(self.inventory, node.node)
        wanted = replace(wanted, passwords_encoded=wanted.passwords_encoded or passwords_encoded)
        return render(node.role, present.document, kind, wanted).require()


class Fleets:
    """Of every migration; a file is read again when it changed."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._known: dict[str, tuple[tuple[int, int], Fleet]] = {}

    def fleet(self, name: str) -> Fleet:
        """Blocks on a disk. Raises Z2K-4207, or what is wrong with the file."""
        if self._directory is None:
            raise NO_FLEET.error(name=name, reason="`fleets` is not set in the service's configuration")
        file = self._directory / f"{name}.yaml"
        try:
            found = file.stat()
        except OSError as error:
            raise NO_FLEET.error(name=name, reason=f"{file}: {error.strerror}") from error
        mark = (found.st_mtime_ns, found.st_size)
        known = self._known.get(name)
        if known is None or known[0] != mark:
            known = (mark, self._read(name, file))
            self._known[name] = known
        return known[1]

    def _read(self, name: str, file: Path) -> Fleet:
        assert self._directory is not None
        inventory = require_inventory(read_inventory(file), str(file), datetime.now(UTC))
        if inventory.cluster.name != name:
            raise NO_FLEET.error(name=name, reason=f"{file} is about the cluster {inventory.cluster.name}")
        templates = self._directory / TEMPLATES
        nodes = [
            FleetNode(role, node, actuator_for(inventory, node, templates))
            for role, those in ((BROKERS, inventory.brokers), (CONTROLLERS, inventory.controllers))
            for node in those
        ]
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        return Fleet(inventory, tuple(nodes), digest, transfer_findings(inventory, templates))


def trouble_of(error: FindingError) -> str:
    """In one line, with its code."""
    return f"{error.code} {error.occurrence.text}"
