"""Every 30 s: are the files of all nodes what was rendered for them?

In:   a snapshot and its fleet. Out: a `FilesDocument`, kept as a row; findings.
Elsewhere: rendering and writing (roller.py), what closes because of it (policy/road_gates.py).
Rules: reading blocks, on a thread. A file that was not rendered yet is compared with what was read first. A node whose
file is being written is left out.
"""

from __future__ import annotations

from typing import Final

from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.road import FILE_DRIFTED, FLAG_REMOVED_EARLY
from migrator.fleet.files import checksum_of
from migrator.fleet.properties_file import parse_properties
from migrator.fleet.render import FLAG
from migrator.fleet.roll import UNDER_WAY, RollStep
from state_machine.policy.phases import Phase
from state_machine.policy.road_observations import CONTROLLERS, Roll
from state_machine.road.documents import FILES, FilesDocument, document
from state_machine.road.fleet import KIND_OF, Fleet, FleetNode
from state_machine.store import Snapshot

ZOOKEEPER_KEY: Final = "zookeeper."


def read_files(snapshot: Snapshot, fleet: Fleet, now: float) -> FilesDocument:
    """Blocks on every host, one after the other."""
    before = document(snapshot, FILES, FilesDocument) or FilesDocument(0.0)
    checksums: dict[str, str] = {}
    baseline = dict(before.baseline)
    drifted, not_read, zookeeper = [], [], []
    flags: dict[bool, list[int]] = {True: [], False: []}
    for node in fleet.nodes:
        try:
            content = node.actuator.read(node.path)
        except FindingError as error:
            not_read.append(f"{node.name}: {node.path}: {error.occurrence.text}")
            continue
        if content is None:
            not_read.append(f"{node.name}: {node.path}: its actuator cannot read files")
            continue
        found = checksums[node.name] = checksum_of(content)
        if _being_written(snapshot, node):
            continue
        rendered = expected(snapshot, node)
        if rendered is None:
            baseline.setdefault(node.name, found)
        if found != (rendered or baseline[node.name]):
            drifted.append(f"{node.name}: {node.path}")
        try:
            keys = parse_properties(content, node.path).values
        except FindingError as error:
            drifted.append(f"{node.name}: {error.occurrence.text}")
            continue
        if any(key.startswith(ZOOKEEPER_KEY) for key in keys):
            zookeeper.append(f"{node.name}: {node.path}")
        if node.role == CONTROLLERS:
            flags[keys.get(FLAG, "").strip().lower() == "true"].append(node.id)
    return FilesDocument(
        at=now,
        fleet=fleet.digest,
        checksums=checksums,
        baseline=baseline,
        drifted=tuple(drifted),
        not_read=tuple(not_read),
        with_flag=tuple(flags[True]),
        without_flag=tuple(flags[False]),
        with_zookeeper=tuple(zookeeper),
    )


def expected(snapshot: Snapshot, node: FleetNode) -> str | None:
    """The checksum of the last file that was written for it; None before the first one."""
    newest = None
    for roll, kind in KIND_OF.items():
        for row in snapshot.nodes_of(roll):
            if kind is None or (row.role, row.node_id) != (node.role, node.id):
                continue
            step = row.failed_in if row.step == RollStep.FAILED else row.step
            if step in (RollStep.WRITTEN, RollStep.STARTED, RollStep.WHOLE):
                newest = row.checksum
    return newest


def _being_written(snapshot: Snapshot, node: FleetNode) -> bool:
    rows = (row for row in snapshot.road if (row.role, row.node_id) == (node.role, node.id))
    return any(RollStep(row.step) in UNDER_WAY or row.step == RollStep.FAILED for row in rows)


def file_findings(snapshot: Snapshot, files: FilesDocument | None) -> tuple[Occurrence, ...]:
    """Drift, and above all a controller whose next start would finalize."""
    if files is None:
        return ()
    found = []
    for each in files.drifted:
        node, _, path = each.partition(": ")
        found.append(FILE_DRIFTED.found(node=node, path=path))
    if snapshot.phase in (Phase.REPLACING_CONTROLLERS, Phase.SOAK):
        whole = {row.node_id: row for row in snapshot.nodes_of(Roll.STOCK) if row.step == RollStep.WHOLE}
        found += [
            FLAG_REMOVED_EARLY.found(node=node, path=whole[node].path) for node in files.without_flag if node in whole
        ]
    return tuple(found)
