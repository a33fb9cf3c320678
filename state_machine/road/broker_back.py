"""One broker back into ZooKeeper mode: its previous file, and what its disks have to say for that.

In:   a broker that is stopped, and its row of the journal. Out: columns of the journal.
Elsewhere: when that is possible (policy/road_gates.py), the order of acts (migrator.fleet.roll).
Rules: nothing is removed: a broker with the migration flag deletes its own metadata log at each start. Every file that
is replaced lies beside the new one. All of it may be repeated.
Source: Kafka 3.9 `KafkaServer.startup`, `MetaPropertiesEnsemble`; failure case F-41.
"""

from __future__ import annotations

from typing import Any, Final

from migrator.findings.finding import FindingError
from migrator.findings.fleet import FILE_ABSENT
from migrator.findings.road import STEP_FAILED
from migrator.fleet.actuator import Instruction
from migrator.fleet.files import Present, checksum_of, predecessor_path, read_present, write_file
from migrator.fleet.inventory import wanted_of
from migrator.fleet.properties_file import Document, parse_properties
from migrator.fleet.render import FileKind, render
from state_machine.road.fleet import Fleet, FleetNode
from state_machine.tables import RoadNode

META: Final = "meta.properties"


def write_back(fleet: Fleet, node: FleetNode, row: RoadNode) -> dict[str, Any]:
    """Blocks on the host. Raises Z2K-4204, or what the host refuses."""
    said, told = _disks_of_version_0(node)
    present = read_present(node.actuator, node.path)
    if present is None:
        raise STEP_FAILED.error(act="write", node=node.name, reason=f"{node.path} cannot be read by its actuator")
    before = _before(node, row, present)
    wanted = wanted_of(fleet.inventory, node.node)
    rendered = render(node.role, present.document, FileKind.BACK, wanted, before).require()
    written = write_file(node.actuator, node.id, node.path, rendered.content, present)
    told += [written.text] if isinstance(written, Instruction) else []
    columns = {"checksum": rendered.checksum, "rendered_from": present.checksum, "detail": f"back: {said}"}
    return {**columns, "instruction": " Then: ".join(told)} if told else columns


def _before(node: FleetNode, row: RoadNode, present: Present) -> Document | None:
    """What its KRaft file was rendered from; None when the file is that one still, or nobody kept it."""
    if present.document.value("process.roles") is None:
        return None
    try:
        kept = read_present(node.actuator, predecessor_path(node.path, row.rendered_from))
    except FindingError as error:
        if error.code == FILE_ABSENT.code:
            return None
        raise
    if kept is not None and kept.checksum != row.rendered_from:
        reason = f"{kept.path} is not the file that was kept (SHA-256 {checksum_of(kept.content)})"
        raise STEP_FAILED.error(act="write", node=node.name, reason=reason)
    return None if kept is None else kept.document


def _disks_of_version_0(node: FleetNode) -> tuple[str, list[str]]:
    """Version 1 of meta.properties fails in ZooKeeper mode as soon as the flag is off. Returns what was done, and what
    a person has to do.
    """
    said, told = [], []
    for directory in dict.fromkeys((*node.node.log_dirs, *filter(None, (node.node.metadata_log_dir,)))):
        path = f"{directory}/{META}"
        try:
            present = read_present(node.actuator, path)
        except FindingError as error:
            if error.code != FILE_ABSENT.code:
                raise
            said.append(f"{path} does not exist")
            continue
        if present is None:
            said.append(f"{path} is not read")
            continue
        content = version_0(present)
        if content == present.content:
            said.append(f"{path} has version 0")
            continue
        written = write_file(node.actuator, node.id, path, content, present)
        told += [written.text] if isinstance(written, Instruction) else []
        said.append(f"{path} has version 0 again")
    return "; ".join(said), told


def version_0(present: Present) -> bytes:
    """The same ids of cluster and directory, with `broker.id`. Its own content when it has version 0."""
    document = parse_properties(present.content, present.path)
    if document.value("version") == "0":
        return present.content
    return document.with_values({"version": "0"}).renamed("node.id", "broker.id").content
