"""The nodes of a migration as they can be operated: from the inventory file that the service's owner wrote.

In:   the directory `fleets` of the configuration: `<name of the migration>.yaml`, and `templates/` for actuators.
Out:  a `Fleet`, or why there is none.
Elsewhere: the form of the file (migrator.fleet.inventory), actuators (migrator.fleet.actuators).
Rule: no request names a file or a command: who may write into that directory decides what the service runs.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.findings.fleet import INVENTORY_NOT_OWNED, INVENTORY_UNREADABLE
from migrator.findings.road import NO_FLEET
from migrator.fleet.actuator import Actuator
from migrator.fleet.actuators import actuator_for, transfer_findings
from migrator.fleet.by_others import ByOthers
from migrator.fleet.files import Present
from migrator.fleet.inventory import Inventory, Node, parse_inventory, require_inventory, wanted_of
from migrator.fleet.render import FileKind, Rendered, Wanted, render
from migrator.fleet.templates import owned_content
from state_machine.facts.accepted import WaiverFact
from state_machine.policy.fleet_evidence import BROKERS, CONTROLLERS

TEMPLATES: Final = "templates"
INVENTORY_BYTES_MAX: Final = 8 << 20
"""A thousand nodes with every field are below 1 MiB."""


def waivers_in(inventory: Inventory) -> tuple[WaiverFact, ...]:
    return tuple(
        WaiverFact(each.what, each.node, each.reason, each.owner, each.end.timestamp()) for each in inventory.waivers
    )


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
    """All nodes of one inventory file. digest: SHA-256 of that file. unproven: Z2K-7043 of its templates.

    has_stock: Kafka's own controllers take over (`engine: stock`).
    """

    inventory: Inventory
    nodes: tuple[FleetNode, ...]
    digest: str
    unproven: tuple[Occurrence, ...] = ()
    has_stock: bool = False

    def of(self, role: str) -> tuple[FleetNode, ...]:
        return tuple(each for each in self.nodes if each.role == role)

    def node(self, role: str, node_id: int) -> FleetNode | None:
        return next((each for each in self.nodes if (each.role, each.id) == (role, node_id)), None)

    def of_cluster(self, cluster_id: str | None, *, has_stock: bool = False) -> Fleet:
        """Where persons act, they have to say of which cluster the host is. None: it is not known."""
        nodes = [
            replace(each, actuator=replace(each.actuator, cluster_id=cluster_id or ""))
            if isinstance(each.actuator, ByOthers)
            else each
            for each in self.nodes
        ]
        return replace(self, nodes=tuple(nodes), has_stock=has_stock)

    def wanted(self, node: FleetNode) -> Wanted:
        """What its files have to say."""
        return replace(wanted_of(self.inventory, node.node), stock=self.has_stock)

    def render(self, node: FleetNode, present: Present, kind: FileKind, *, passwords_encoded: bool = False) -> Rendered:
        """Raises the first finding that forbids to write it. passwords_encoded: also where the inventory does not say
        so."""
        wanted = self.wanted(node)
        wanted = replace(wanted, passwords_encoded=wanted.passwords_encoded or passwords_encoded)
        return render(node.role, present.document, kind, wanted).require()


Mark: TypeAlias = tuple[tuple[int, ...], ...]


class Fleets:
    """Of every migration; read again when the inventory or any template changed."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._known: dict[str, tuple[Mark, Fleet]] = {}

    def fleet(self, name: str) -> Fleet:
        """Blocks on a disk. Raises Z2K-4207, or what is wrong with the file."""
        if self._directory is None:
            raise NO_FLEET.error(name=name, reason="`fleets` is not set in the service's configuration")
        file = self._directory / f"{name}.yaml"
        try:
            mark = (_mark_of(file.stat()), *self._templates())
        except OSError as error:
            raise NO_FLEET.error(name=name, reason=f"{file}: {error.strerror}") from error
        known = self._known.get(name)
        if known is None or known[0] != mark:
            known = (mark, self._read(name, file))
            self._known[name] = known
        return known[1]

    def _templates(self) -> Mark:
        """A template that is corrected after an act failed is used by its repetition; who may write one counts too."""
        assert self._directory is not None
        directory = self._directory / TEMPLATES
        found = sorted(directory.iterdir()) if directory.is_dir() else []
        return tuple(_mark_of(each.stat()) for each in (directory, *found) if each.exists())

    def _read(self, name: str, file: Path) -> Fleet:
        assert self._directory is not None
        content = self._content(file)
        inventory = require_inventory(parse_inventory(content, str(file)), str(file), datetime.now(UTC))
        if inventory.cluster.name != name:
            raise NO_FLEET.error(name=name, reason=f"{file} is about the cluster {inventory.cluster.name}")
        templates = self._directory / TEMPLATES
        nodes = [
            FleetNode(role, node, actuator_for(inventory, node, templates))
            for role, those in ((BROKERS, inventory.brokers), (CONTROLLERS, inventory.controllers))
            for node in those
        ]
        digest = hashlib.sha256(content).hexdigest()
        return Fleet(inventory, tuple(nodes), digest, transfer_findings(inventory, templates))

    def _content(self, file: Path) -> bytes:
        """As templates are read: it names commands too. Raises Z2K-7001, Z2K-7047."""
        assert self._directory is not None
        try:
            return owned_content(file, self._directory, INVENTORY_BYTES_MAX)
        except OSError as error:
            raise INVENTORY_UNREADABLE.error(file=str(file), reason=error.strerror or words_of(error)) from error
        except ValueError as error:
            raise INVENTORY_NOT_OWNED.error(file=str(file), reason=words_of(error)) from error


def _mark_of(found: os.stat_result) -> tuple[int, ...]:
    """The time of its last change too, which nobody sets back: a copy may keep the time of its content."""
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def trouble_of(error: FindingError) -> str:
    """In one line, with its code."""
    return f"{error.code} {error.occurrence.text}"
