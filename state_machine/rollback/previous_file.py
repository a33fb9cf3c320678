"""One node back to its previous file: a broker into ZooKeeper mode or to its original file, a controller of ours.

In:   a node that is stopped, and its row of the journal. Out: columns of the journal.
Elsewhere: when that is possible (policy/gates_back.py), the order of acts (migrator.fleet.roll), starting a
controller of ours (controllers_back.py).
Rules: nothing is removed: a broker with the migration flag deletes its own metadata log at each start. Every file that
is replaced lies beside the new one. All of it may be repeated.
Source: Kafka 3.9 `KafkaServer.startup`, `MetaPropertiesEnsemble`; failure case F-41.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from migrator.findings.finding import FindingError
from migrator.findings.fleet import FILE_ABSENT
from migrator.findings.road import FILE_OF_BEFORE_LOST, STEP_FAILED
from migrator.fleet.actuator import Instruction
from migrator.fleet.files import Present, checksum_of, predecessor_path, read_present, write_file
from migrator.fleet.properties_file import Document, parse_properties
from migrator.fleet.render import FileKind, Rendered, Wanted, render
from migrator.fleet.ruins import is_ruin
from state_machine.nodes.fleet import Fleet, FleetNode
from state_machine.nodes.restart_evidence import file_change
from state_machine.policy.fleet_evidence import BROKERS
from state_machine.rows.tables import JournalRow

META: Final = "meta.properties"


def write_back(fleet: Fleet, node: FleetNode, row: JournalRow) -> dict[str, Any]:
    """Write the previous file of a broker that goes back alone: its row has it. Raises as `write_before`."""
    return write_before(fleet, node, FileKind.BACK, row.rendered_from, needs_kept=False)


def write_before(
    fleet: Fleet, node: FleetNode, kind: FileKind, kept: str, *, needs_kept: bool = True
) -> dict[str, Any]:
    """Blocks on the host. kept: checksum of the previous file. needs_kept: it has to be there (Z2K-4231).

    Raises Z2K-4204, or what the host refuses.
    """
    said, told = _disks_of_version_0(node) if node.role == BROKERS else ("the previous file", [])
    present = _present(node, "write")
    rendered = _rendered(fleet, node, kind, kept, present, "write", needs_kept)
    written = write_file(node.actuator, node.id, node.path, rendered.content, present)
    told += [written.text] if isinstance(written, Instruction) else []
    columns = {"checksum": rendered.checksum, "detail": f"{kind}: {said}", "evidence": file_change(rendered)}
    return {**columns, "instruction": " Then: ".join(told)} if told else columns


def _rendered(
    fleet: Fleet, node: FleetNode, kind: FileKind, kept: str, present: Present, act: str, needs_kept: bool
) -> Rendered:
    """The next file, derived from the present one and the one that was kept."""
    before = _before(node, kind, kept, present, act)
    wanted = fleet.wanted(node)
    if before is not None and _is_cut(node, present, before, wanted):
        present = Present(present.path, before.content)
    if before is None and needs_kept and present.document.value("process.roles") is not None:
        path = predecessor_path(node.path, kept) if kept else "this migration did not write its present file"
        raise FILE_OF_BEFORE_LOST.error(node=node.name, reason=path)
    return render(node.role, present.document, kind, wanted, before).require()


def _is_cut(node: FleetNode, present: Present, before: Document, wanted: Wanted) -> bool:
    """Whether a write, there or back, cut the file. Then the kept file stands for it."""
    kinds = (FileKind.KRAFT, FileKind.BACK, FileKind.MIGRATION) if node.role == BROKERS else (FileKind.STOCK,)
    known = [render(node.role, before, each, wanted).content for each in kinds]
    return is_ruin(present.content, before.content, *known)


def prepare_before(
    fleet: Fleet, node: FleetNode, kind: FileKind, kept: str, ask: Callable[[Rendered], str]
) -> dict[str, Any]:
    """While the node runs: what its previous file is. Only reads. ask: Kafka's own parser, where a broker gets it.

    Raises Z2K-4204, Z2K-4231 or Z2K-7035.
    """
    present = _present(node, "prepare")
    rendered = _rendered(fleet, node, kind, kept, present, "prepare", needs_kept=True)
    changed = ", ".join(sorted(set(_differing(present.document, rendered.document))))
    detail = f"{kind} file: {changed or 'nothing'} changes"
    return {
        "rendered_from": present.checksum,
        "checksum": rendered.checksum,
        "detail": f"{detail}; {ask(rendered)}" if node.role == BROKERS else detail,
        "evidence": file_change(rendered),
    }


def _present(node: FleetNode, act: str) -> Present:
    present = read_present(node.actuator, node.path)
    if present is None:
        raise STEP_FAILED.error(act=act, node=node.name, reason=f"{node.path} cannot be read by its actuator")
    return present


def _differing(one: Document, other: Document) -> list[str]:
    return [key for key in {*one.values, *other.values} if one.value(key) != other.value(key)]


def _before(node: FleetNode, kind: FileKind, kept: str, present: Present, act: str) -> Document | None:
    """What its KRaft file was rendered from; None when nobody kept it.

    Of an original file it is what the migration file was rendered from, which has to be there.
    """
    if present.checksum == kept:
        return present.document
    path = predecessor_path(node.path, kept)
    try:
        found = read_present(node.actuator, path) if kept else None
    except FindingError as error:
        if error.code != FILE_ABSENT.code:
            raise
        found = None
    if found is not None and found.checksum != kept:
        if kind is FileKind.BACK and present.document.value("process.roles") is None:
            return None  # back already: the kept file is not needed
        reason = f"{path} is not the file that was kept (SHA-256 {checksum_of(found.content)})"
        raise STEP_FAILED.error(act=act, node=node.name, reason=reason)
    return None if found is None else found.document


def is_kept(node: FleetNode, kept: str) -> bool | None:
    """Whether the previous file lies beside the present one. None: its actuator cannot read it. Blocks."""
    try:
        found = read_present(node.actuator, predecessor_path(node.path, kept))
    except FindingError as error:
        return False if error.code == FILE_ABSENT.code else None
    return None if found is None else found.checksum == kept


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
