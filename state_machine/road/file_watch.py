"""Every 30 s: are the files of all nodes what was rendered for them, and would a restart change anything else?

In:   a snapshot and its fleet. Out: a `FilesDocument` and a `RestartsDocument`, kept as rows; findings.
Elsewhere: rendering and writing (roller.py), what closes because of it (policy/road_conditions.py), what ZooKeeper says
and brokers have not applied (migrator.node.tools.restarts).
Rules: reading blocks, on a thread. A file that was not rendered yet is compared with what was read first. A node whose
file is being written is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from migrator.driver.checks.restarts import Applied, file_changes
from migrator.findings.catalogue import CATALOGUE
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.fleet import GUARD_NOT_PROVEN, KAFKA_WITHOUT_ZOOKEEPER, TRANSFER_NOT_PROVEN
from migrator.findings.preflight import APPLIED_UNKNOWN
from migrator.findings.road import FILE_DRIFTED, FILES_NOT_READ, FLAG_REMOVED_EARLY
from migrator.fleet.files import checksum_of, predecessor_path
from migrator.fleet.guard import Proof, guard_proof
from migrator.fleet.inventory import wanted_of
from migrator.fleet.properties_file import Document, parse_properties
from migrator.fleet.render import FLAG, FileKind, render
from migrator.fleet.roll import UNDER_WAY, RollStep
from migrator.fleet.takeover_settings import forbidding_findings
from migrator.model.broker_settings import NOT_KNOWN, ControllerFileSettings
from migrator.model.connect_string import chroot_of
from migrator.node.config.properties import controller_settings, read_config
from migrator.node.tools.restarts import read_restarts
from state_machine.clusters.observe import first_config
from state_machine.policy.phases import LED_BACK_FROM, Phase
from state_machine.policy.road_observations import BROKERS, CONTROLLERS, Roll
from state_machine.road.broker_back import is_kept
from state_machine.road.documents import (
    FILES,
    FilesDocument,
    GuardRow,
    RestartFound,
    RestartsDocument,
    WaiverRow,
    document,
)
from state_machine.road.fleet import KIND_OF, Fleet, FleetNode
from state_machine.store import Snapshot

ZOOKEEPER_KEY: Final = "zookeeper."
GUARDED: Final = (Phase.DUAL_WRITE, Phase.ROLLING_BROKERS, Phase.REPLACING_CONTROLLERS, Phase.SOAK)
"""Phases in which a start without the flag is an accident. In a rollback it is one while a controller is stock."""
BEFORE_RESTARTS: Final = (Phase.BROKERS_JOINING, Phase.DUAL_WRITE, Phase.ROLLING_BROKERS, Phase.ROLLING_BACK)
"""Phases in which the service restarts brokers, or is asked to."""
UNDER_STOCK: Final = (Phase.REPLACING_CONTROLLERS, Phase.SOAK, Phase.ROLLING_BACK)


def read_files(snapshot: Snapshot, fleet: Fleet, now: float) -> FilesDocument:
    """Blocks on every host, one after the other."""
    before = document(snapshot, FILES, FilesDocument) or FilesDocument(0.0)
    checksums: dict[str, str] = {}
    baseline = dict(before.baseline)
    drifted, not_read, zookeeper, forbidden = [], [], [], list[str]()
    flags: dict[bool, list[int]] = {True: [], False: []}
    not_kept = _not_kept(snapshot, fleet) if snapshot.phase in (*LED_BACK_FROM, Phase.ROLLING_BACK) else []
    guarded = snapshot.phase in GUARDED or (snapshot.phase is Phase.ROLLING_BACK and bool(snapshot.replaced))
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
        if being_written(snapshot, node):
            continue
        rendered = expected(snapshot, node)
        if rendered is None:
            baseline.setdefault(node.name, found)
        if found != (rendered or baseline[node.name]):
            drifted.append(f"{node.name}: {node.path}")
        try:
            written = parse_properties(content, node.path)
        except FindingError as error:
            drifted.append(f"{node.name}: {error.occurrence.text}")
            continue
        keys = written.values
        if node.role == BROKERS and snapshot.phase is Phase.BROKERS_JOINING:
            found_in = forbidding_findings(written, node.id, _controllers_side(snapshot))
            forbidden += [f"{each.code} {each.text}" for each in found_in]
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
        guards=tuple(map(_guard, fleet.of(CONTROLLERS))) if guarded else (),
        waivers=tuple(
            WaiverRow(each.what, each.node, each.reason, each.owner, each.end.timestamp())
            for each in fleet.inventory.waivers
        ),
        not_kept=tuple(not_kept),
        forbidden=tuple(forbidden),
        unproven=tuple(each.as_json()["values"] for each in fleet.unproven),
    )


def _controllers_side(snapshot: Snapshot) -> ControllerFileSettings:
    """What brokers' settings are compared with; as far as it is known before the quorum is asked."""
    look = snapshot.observation
    level = (look.log.metadata_version or None) if look is not None and look.log.known else None
    try:
        config = read_config(Path(snapshot.inventory.controllers[0].properties))
    except FindingError:
        return replace(NOT_KNOWN, chroot=chroot_of(snapshot.inventory.zookeeper), level=level)
    return replace(controller_settings(config), level=level)


def _not_kept(snapshot: Snapshot, fleet: Fleet) -> list[str]:
    """Nodes that could not go back with the previous file."""
    found = []
    for row in (*snapshot.nodes_of(Roll.KRAFT), *snapshot.nodes_of(Roll.STOCK)):
        node = fleet.node(row.role, row.node_id)
        step = row.failed_in if row.step == RollStep.FAILED else row.step
        if node is None or step not in (RollStep.WRITTEN, RollStep.STARTED, RollStep.WHOLE):
            continue
        kept = is_kept(node, row.rendered_from)
        if kept is not True:
            path = predecessor_path(node.path, row.rendered_from)
            found.append(f"{node.name}: {path} {'cannot be read' if kept is None else 'is not the previous file'}")
    return found


def _guard(node: FleetNode) -> GuardRow:
    """Whether a start of this controller without the flag would be refused on its host."""
    proof = guard_proof(node.actuator, node.node.guard, node.path)
    return GuardRow(node.id, proof.state, proof.reason)


def expected(snapshot: Snapshot, node: FleetNode) -> str | None:
    """The checksum of the last file that was written for it; None before the first one."""
    newest = None
    for roll, kind in KIND_OF.items():
        for row in snapshot.nodes_of(roll):
            if kind is None or (row.role, row.node_id) != (node.role, node.id):
                continue
            step = row.failed_in if row.step == RollStep.FAILED else row.step
            if row.checksum and step in (RollStep.WRITTEN, RollStep.STARTED, RollStep.WHOLE, RollStep.BACK):
                newest = row.checksum
    return newest


def being_written(snapshot: Snapshot, node: FleetNode) -> bool:
    """Or it failed: what it runs with and what its file says need not be the same then."""
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
    for each in files.not_read:
        node, _, reason = each.partition(": ")
        found.append(FILES_NOT_READ.found(node=node, reason=reason))
    found += [TRANSFER_NOT_PROVEN.found(**each) for each in files.unproven]
    if snapshot.phase in UNDER_STOCK:
        stock = [row for row in snapshot.nodes_of(Roll.STOCK) if row.node_id in snapshot.replaced]
        whole = {row.node_id: row for row in stock if row.step == RollStep.WHOLE}
        found += [
            FLAG_REMOVED_EARLY.found(node=node, path=whole[node].path) for node in files.without_flag if node in whole
        ]
        waived = {each.node for each in files.waivers if each.what == GUARD_NOT_PROVEN.code and files.at < each.end}
        found += [
            GUARD_NOT_PROVEN.found(node=each.node, reason=each.reason)
            for each in files.guards
            if each.state not in (Proof.PROVEN, Proof.KAFKA_NOT_SEEN)
            and not (waived & {each.node, None} and KAFKA_WITHOUT_ZOOKEEPER.code not in each.reason)
        ]
    return tuple(found)


# --- what brokers run with --------------------------------------------------------------------------------


def read_changes(snapshot: Snapshot, fleet: Fleet, now: float) -> RestartsDocument:
    """Asks ZooKeeper, every broker and every host. Blocks; raises as `read_restarts`."""
    reading = read_restarts(snapshot.inventory.zookeeper, first_config(snapshot.inventory), "zk2kraft-service")
    found = list(reading.found)
    for node in fleet.of(BROKERS):
        if node.id in reading.applied and not being_written(snapshot, node):
            found += compared_file(fleet, node, reading.applied[node.id])
    return RestartsDocument(now, found=tuple(RestartFound(each.code, each.as_json()["values"]) for each in found))


def compared_file(fleet: Fleet, node: FleetNode, applied: Applied) -> Iterator[Occurrence]:
    """Its file against what it runs with. A file that cannot be read is not known to be the same."""
    try:
        content = node.actuator.read(node.path)
        if content is None:
            raise APPLIED_UNKNOWN.error(broker=node.id, reason=f"{node.path}: its actuator cannot read files")
        file = parse_properties(content, node.path).values
    except FindingError as error:
        own = error.occurrence
        known = own.code == APPLIED_UNKNOWN.code
        yield own if known else APPLIED_UNKNOWN.found(broker=node.id, reason=f"{node.path}: {own.text}")
        return
    yield from file_changes(node.id, node.path, file, applied, _meant(fleet, node, applied))


def _meant(fleet: Fleet, node: FleetNode, applied: Applied) -> Mapping[str, str]:
    """What the migration makes of the settings that it runs with. A secret is not known, and no rule is about one."""
    running = {key: value for key, value in applied.static.items() if value is not None}
    document = Document(node.path, ()).with_values(running)
    return render(BROKERS, document, FileKind.MIGRATION, wanted_of(fleet.inventory, node.node)).document.values


def restart_occurrences(document: RestartsDocument | None) -> tuple[Occurrence, ...]:
    return () if document is None else tuple(CATALOGUE[each.code].found(**each.values) for each in document.found)
