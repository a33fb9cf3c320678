"""Again and again: are the files of all nodes what was rendered for them, would a restart change anything else?

In:   a snapshot and its fleet. Out: a `FilesDocument` and a `RestartsDocument`, kept as rows; findings.
Elsewhere: rendering and writing (rolling/), what closes because of it (policy/conditions.py), what ZooKeeper
says and brokers have not applied (migrator.node.tools.restarts).
Rules: reading blocks, on threads of its migration, and hosts are asked beside each other. A file that was not rendered
yet is compared with what was read first. A node whose file is being written is left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from migrator.driver.checks.restarts import Applied, file_changes, is_true
from migrator.findings.catalogue import CATALOGUE
from migrator.findings.finding import FindingError, Occurrence, Severity
from migrator.findings.fleet import (
    CONTROLLER_FILES_DIFFER,
    GUARD_NOT_PROVEN,
    HOST_UNANSWERED,
    HOSTS_TOO_SLOW,
    KAFKA_WITHOUT_ZOOKEEPER,
    TRANSFER_NOT_PROVEN,
    WAIVER_ENDED,
)
from migrator.findings.preflight import APPLIED_UNKNOWN, BROKER_SETTING_FORBIDS
from migrator.findings.road import CONTROLLER_WITHOUT_TIERS, FILE_DRIFTED, FILES_NOT_READ, FLAG_REMOVED_EARLY
from migrator.fleet.connections.many import read_ahead
from migrator.fleet.files import checksum_of, predecessor_path
from migrator.fleet.guard import Proof, guard_proof
from migrator.fleet.properties_file import Document, parse_properties
from migrator.fleet.render import FLAG, FileKind, render
from migrator.fleet.repeatable import gave_no_answer
from migrator.fleet.roll import UNDER_WAY, RollStep
from migrator.fleet.takeover_settings import forbidding_findings
from migrator.model.at_a_stop import KAFKA_MIN_ISR, MIN_ISR, whole_number
from migrator.model.broker_settings import NOT_KNOWN, ControllerFileSettings
from migrator.model.connect_string import chroot_of
from migrator.model.topic_rules import REMOTE_SYSTEM
from migrator.node.config.properties import controller_settings, read_config
from migrator.node.tools.restarts import read_restarts
from state_machine.clusters.observe import first_config
from state_machine.facts.guards import GuardFact
from state_machine.facts.nodes import AboutNode
from state_machine.nodes.calls import HostCalls
from state_machine.nodes.controller_files import differing_files
from state_machine.nodes.fleet import Fleet, FleetNode, waivers_in
from state_machine.nodes.readings import NodeReading, NodeReadings
from state_machine.policy.fleet_evidence import BROKERS, CONTROLLERS, Roll
from state_machine.policy.freshness import CEILING_S, limit_s
from state_machine.policy.phases import Phase
from state_machine.policy.rolls import ROLLS
from state_machine.rollback.previous_file import is_kept
from state_machine.rollback.reconciled import contradiction_findings, contradiction_of, is_missed, is_stopped
from state_machine.rows.documents import (
    FILES,
    DifferingFiles,
    FilesDocument,
    NoAnswer,
    NotAsNoted,
    RestartFound,
    RestartsDocument,
    document,
)
from state_machine.rows.store import Snapshot
from state_machine.rows.tables import JournalRow

ZOOKEEPER_KEY: Final = "zookeeper."
VOTERS: Final = "controller.quorum.voters"
HAS_NEW_FILE: Final = (RollStep.WRITTEN, RollStep.STARTED, RollStep.WHOLE)


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """What one host said of its node. content: of its file; None: `problem` says why.

    kept: whether the previous file lies beside it; None where that is unknown, or was not asked. is_silent: the host
    gave no answer. is_stopped: its process is; asked only of a broker that the cluster misses.
    """

    content: bytes | None
    problem: str = ""
    kept: bool | None = None
    guard: GuardFact | None = None
    is_silent: bool = False
    is_stopped: bool = False


def read_files(
    snapshot: Snapshot,
    fleet: Fleet,
    now: float,
    readings: NodeReadings[NodeFiles] | None = None,
    calls: HostCalls | None = None,
    every_s: float = 30.0,
) -> FilesDocument:
    """Blocks until each host answered or lost its patience. every_s: pause between two of these rounds.

    readings: those of the rounds before. now: wall time.
    """
    began = time.monotonic()
    readings = NodeReadings(lambda: now) if readings is None else readings
    with nullcontext(calls) if calls is not None else closing(HostCalls("files")) as threads:
        said = readings.round(threads, snapshot, fleet.nodes, partial(_ask, snapshot))
    found = _compared(snapshot, fleet, now, said)
    took = time.monotonic() - began
    return msgspec.structs.replace(found, round_s=round(took, 1), limit_s=limit_s(every_s, took))


def _ask(snapshot: Snapshot, node: FleetNode) -> NodeFiles:
    """Blocks on its host. Raises nothing that a host can cause."""
    row, guarded = _written(snapshot, node), node.role == CONTROLLERS and _is_guarded(snapshot)
    kept = [] if row is None else [predecessor_path(node.path, row.rendered_from)]
    guards = [node.node.guard] if guarded and node.node.guard is not None else []
    node = replace(node, actuator=read_ahead(node.actuator, [node.path, *kept, *guards]))
    content, problem, silent = None, f"{node.path}: its actuator cannot read files", False
    try:
        content = node.actuator.read(node.path)
    except FindingError as error:
        problem, silent = f"{node.path}: {error.occurrence.text}", gave_no_answer(error)
    return NodeFiles(
        content,
        "" if content is not None else problem,
        kept=None if row is None else is_kept(node, row.rendered_from),
        guard=_guard(node) if guarded else None,
        is_silent=silent,
        is_stopped=not silent and is_missed(snapshot, node) and is_stopped(node),
    )


def _is_guarded(snapshot: Snapshot) -> bool:
    """With Kafka's own controllers from before their first start on."""
    row = snapshot.phase_row
    if row.guarded or (snapshot.phase is Phase.ROLLING_BACK and bool(snapshot.replaced)):
        return True
    return snapshot.inventory.has_stock and not row.no_return


def _compared(
    snapshot: Snapshot, fleet: Fleet, now: float, said: Mapping[str, NodeReading[NodeFiles]]
) -> FilesDocument:
    before = document(snapshot, FILES, FilesDocument) or FilesDocument(0.0)
    checksums: dict[str, str] = {}
    baseline = dict(before.baseline)
    drifted, not_read, zookeeper = list[AboutNode](), list[AboutNode](), list[AboutNode]()
    forbidden = list[Occurrence]()
    no_answer, contradicting = list[NoAnswer](), list[NotAsNoted]()
    differing = list[DifferingFiles]()
    min_isr = dict(before.min_isr)
    min_isr_of_controllers = dict(before.min_isr_of_controllers)
    with_voters = list[str]()
    flags: dict[bool, list[int]] = {True: [], False: []}
    unjoined = list[int]()
    with_tiers, without_tiers = list[int](), list[AboutNode]()
    lacked = {each.node for each in before.without_tiers}
    answers = {node.name: answer_of(snapshot, node, said[node.name]) for node in fleet.nodes}
    for node in fleet.nodes:
        content, waits = answers[node.name].content, said[node.name].unanswered_s
        if answers[node.name].is_silent or waits:
            no_answer.append(NoAnswer(node.id, _silence(said[node.name]) if waits else answers[node.name].problem))
        if content is None:
            not_read.append(AboutNode(node.role, node.id, answers[node.name].problem))
            continue
        found = checksums[node.name] = checksum_of(content)
        _note_min_isr(min_isr if node.role == BROKERS else min_isr_of_controllers, node, content)
        if being_written(snapshot, node):
            continue
        written, unreadable = _parsed(content, node)
        keys = written.values
        tiers = is_true(keys.get(REMOTE_SYSTEM))
        with_voters += [f"{node.role} {node.id}"] if keys.get(VOTERS) else []
        rendered = expected(snapshot, node)
        if rendered is None:
            baseline.setdefault(node.name, found)
            if node.role == CONTROLLERS and tiers and node.id in lacked and before.with_tiers:
                baseline[node.name] = found  # what Z2K-4223 asks for is no drift
        if found != (rendered or baseline[node.name]):
            drifted.append(AboutNode(node.role, node.id, node.path))
        if unreadable is not None:
            drifted.append(AboutNode(node.role, node.id, unreadable))
            continue
        if node.role == BROKERS:
            with_tiers += [node.id] if tiers else []
        elif not tiers:
            without_tiers.append(AboutNode(node.role, node.id, node.path))
        against = contradiction_of(snapshot, node, keys, stopped=answers[node.name].is_stopped)
        contradicting += [] if against is None else [against]
        against_ours = differing_files(snapshot, node, written)
        differing += [DifferingFiles(node.id, each.as_json()["values"]) for each in against_ours]
        if node.role == BROKERS and snapshot.phase is Phase.BROKERS_JOINING:
            forbidden += _refused(snapshot, fleet, node, written)
        if any(key.startswith(ZOOKEEPER_KEY) for key in keys):
            zookeeper.append(AboutNode(node.role, node.id, node.path))
        flagged = keys.get(FLAG, "").strip().lower() == "true"
        if node.role == CONTROLLERS:
            flags[flagged].append(node.id)
        elif not flagged:
            unjoined.append(node.id)
    return FilesDocument(
        at=now,
        fleet=fleet.digest,
        checksums=checksums,
        baseline=baseline,
        drifted=tuple(drifted),
        not_read=tuple(not_read),
        unjoined=tuple(unjoined),
        with_flag=tuple(flags[True]),
        without_flag=tuple(flags[False]),
        with_zookeeper=tuple(zookeeper),
        guards=tuple(
            msgspec.structs.replace(each.guard, read_at=known_at(said[name]))
            for name, each in answers.items()
            if each.guard is not None
        ),
        waivers=waivers_in(fleet.inventory),
        not_kept=tuple(_not_kept(snapshot, fleet, answers)),
        forbidden=tuple(f"{each.code} {each.text}" for each in forbidden),
        forbidden_codes=tuple(sorted({each.code for each in forbidden})),
        unproven=tuple(each.as_json()["values"] for each in fleet.unproven),
        no_answer=tuple(no_answer),
        contradicting=tuple(contradicting),
        read_at={name: known_at(each) for name, each in said.items()},
        unanswered={name: round(each.unanswered_s) for name, each in said.items() if each.unanswered_s},
        named=tuple(each.id for each in fleet.of(BROKERS)),
        differing=tuple(differing),
        with_tiers=tuple(with_tiers),
        without_tiers=tuple(without_tiers),
        min_isr=tuple((each.id, min_isr[each.id]) for each in fleet.of(BROKERS) if each.id in min_isr),
        min_isr_of_controllers=tuple(
            (each.id, min_isr_of_controllers[each.id])
            for each in fleet.of(CONTROLLERS)
            if each.id in min_isr_of_controllers
        ),
        with_voters=tuple(with_voters),
    )


def _parsed(content: bytes, node: FleetNode) -> tuple[Document, str | None]:
    """The document; or an empty one, and why the file cannot be understood."""
    try:
        return parse_properties(content, node.path), None
    except FindingError as error:
        return Document(node.path, ()), error.occurrence.text


def _note_min_isr(known: dict[int, int], node: FleetNode, content: bytes) -> None:
    """Kafka's default where the file sets none. What is no number, such as the name of a provider, is not known."""
    known.pop(node.id, None)
    try:
        text = parse_properties(content, node.path).values.get(MIN_ISR)
    except FindingError:
        return
    value = KAFKA_MIN_ISR if text is None else whole_number(text)
    if value is not None:
        known[node.id] = value


def answer_of(snapshot: Snapshot, node: FleetNode, reading: NodeReading[NodeFiles]) -> NodeFiles:
    """What it said, or that it said nothing."""
    if reading.answer is not None:
        return reading.answer
    guarded = node.role == CONTROLLERS and _is_guarded(snapshot)
    waited = f"{node.path}: {_silence(reading)}"
    return NodeFiles(None, waited, guard=GuardFact(node.id, Proof.NOT_READ, waited) if guarded else None)


def _silence(reading: NodeReading[Any]) -> str:
    return f"its host has not answered for {reading.unanswered_s:.0f} s"


def known_at(reading: NodeReading[NodeFiles]) -> float:
    """As of when it holds; that a file could not be read is known when the host did not give it."""
    answer = reading.answer
    return reading.at if answer is not None and answer.content is not None else reading.ended_at


def _refused(snapshot: Snapshot, fleet: Fleet, node: FleetNode, written: Document) -> Iterator[Occurrence]:
    """What the takeover gate would refuse, and what keeps a broker's migration file from being written: the brokers
    before it in the order would be restarted, and its own restart would fail when its turn comes.
    """
    yield from forbidding_findings(written, node.id, _controllers_side(snapshot))
    rendered = render(node.role, written, FileKind.MIGRATION, fleet.wanted(node))
    for each in rendered.findings:
        if each.finding.severity is Severity.BLOCKS and each.code != BROKER_SETTING_FORBIDS.code:
            yield each


def _controllers_side(snapshot: Snapshot) -> ControllerFileSettings:
    """What brokers' settings are compared with; as far as it is known before the quorum is asked."""
    look = snapshot.observation
    level = (look.log.metadata_version or None) if look is not None and look.log.known else None
    try:
        file = Path(snapshot.inventory.controllers[0].properties)
        config = read_config(file, stock=snapshot.inventory.has_stock)
    except FindingError:
        return replace(NOT_KNOWN, chroot=chroot_of(snapshot.inventory.zookeeper), level=level)
    return replace(controller_settings(config), level=level)


def _written(snapshot: Snapshot, node: FleetNode) -> JournalRow | None:
    """Its row, where a way back needs its previous file."""
    if not snapshot.phase_row.keeps_previous_files:
        return None
    rows = snapshot.nodes_of(Roll.KRAFT if node.role == BROKERS else Roll.STOCK)
    for row in rows:
        step = row.failed_in if row.step == RollStep.FAILED else row.step
        if (row.role, row.node_id) == (node.role, node.id) and step in HAS_NEW_FILE:
            return row
    return None


def _not_kept(snapshot: Snapshot, fleet: Fleet, answers: Mapping[str, NodeFiles]) -> list[AboutNode]:
    """Nodes whose previous file is lost. One that cannot be read is not known to be: before its stop it is read."""
    found = []
    for node in fleet.nodes:
        row = _written(snapshot, node)
        if row is not None and answers[node.name].kept is False:
            path = predecessor_path(node.path, row.rendered_from)
            found.append(AboutNode(node.role, node.id, f"{path} is not the previous file"))
    return found


def _guard(node: FleetNode) -> GuardFact:
    """Whether a start of this controller without the flag would be refused on its host."""
    proof = guard_proof(node.actuator, node.node.guard, node.path)
    return GuardFact(node.id, proof.state, proof.reason, code=proof.code)


def expected(snapshot: Snapshot, node: FleetNode) -> str | None:
    """The checksum of the last file that was written for it; None before the first one."""
    newest = None
    for roll, facts in ROLLS.items():
        for row in snapshot.nodes_of(roll):
            if facts.file is None or (row.role, row.node_id) != (node.role, node.id):
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
    found = [FILE_DRIFTED.found(node=each.name, path=each.said) for each in files.drifted]
    found += [FILES_NOT_READ.found(node=each.name, reason=each.said) for each in files.not_read]
    found += [TRANSFER_NOT_PROVEN.found(**each) for each in files.unproven]
    found += contradiction_findings(files)
    found += [HOST_UNANSWERED.found(node=node, seconds=f"{for_s:g}") for node, for_s in files.unanswered.items()]
    if files.limit_s >= CEILING_S:
        found.append(HOSTS_TOO_SLOW.found(seconds=f"{files.round_s:.0f}", limit=f"{files.limit_s:g}"))
    found += _ended(f"{snapshot.migration.name}.yaml", files)
    found += [CONTROLLER_FILES_DIFFER.found(**each.values) for each in files.differing]
    if files.with_tiers:
        brokers = list(files.with_tiers)
        found += [
            CONTROLLER_WITHOUT_TIERS.found(node=each.node, path=each.said, brokers=brokers)
            for each in files.without_tiers
        ]
    if snapshot.phase_row.may_have_stock:
        stock = [row for row in snapshot.stock_rows if row.node_id in snapshot.replaced]
        whole = {row.node_id: row for row in stock if row.step == RollStep.WHOLE}
        found += [
            FLAG_REMOVED_EARLY.found(node=node, path=whole[node].path) for node in files.without_flag if node in whole
        ]
        waived = {each.node for each in files.waivers if each.what == GUARD_NOT_PROVEN.code and files.at < each.end}
        found += [
            GUARD_NOT_PROVEN.found(node=each.node, reason=each.reason)
            for each in files.guards
            if each.state not in (Proof.PROVEN, Proof.KAFKA_NOT_SEEN)
            and not (waived & {each.node, None} and each.code != KAFKA_WITHOUT_ZOOKEEPER.code)
        ]
    return tuple(found)


def _ended(name: str, files: FilesDocument) -> Iterator[Occurrence]:
    for number, each in enumerate(files.waivers):
        if each.end <= files.at:
            node, end = "of the cluster" if each.node is None else each.node, datetime.fromtimestamp(each.end, UTC)
            where = f"waivers[{number}]"
            yield WAIVER_ENDED.found(file=name, where=where, what=each.what, node=node, end=end.isoformat())


# --- what brokers run with --------------------------------------------------------------------------------


def read_changes(
    snapshot: Snapshot,
    fleet: Fleet,
    now: float,
    readings: NodeReadings[bytes | None] | None = None,
    calls: HostCalls | None = None,
    every_s: float = 30.0,
) -> RestartsDocument:
    """Asks ZooKeeper, every broker and every host. Blocks; raises as `read_restarts`."""
    began = time.monotonic()
    readings = NodeReadings(lambda: now) if readings is None else readings
    reading = read_restarts(snapshot.inventory.zookeeper, first_config(snapshot.inventory), "zk2kraft-service")
    found = list(reading.found)
    nodes = [each for each in fleet.of(BROKERS) if each.id in reading.applied and not being_written(snapshot, each)]
    with nullcontext(calls) if calls is not None else closing(HostCalls("restarts")) as threads:
        said = readings.round(threads, snapshot, nodes, lambda node: node.actuator.read(node.path))
    for node in nodes:
        found += compared_file(fleet, node, reading.applied[node.id], said[node.name])
    took = time.monotonic() - began
    return RestartsDocument(
        now,
        found=tuple(RestartFound(each.code, each.as_json()["values"]) for each in found),
        oldest_at=min([now, *(each.at for each in said.values())]),
        limit_s=limit_s(every_s, took),
    )


def compared_file(
    fleet: Fleet, node: FleetNode, applied: Applied, said: NodeReading[bytes | None]
) -> Iterator[Occurrence]:
    """Its file against what it runs with. A file that cannot be read is not known to be the same."""
    try:
        if said.error is not None:
            raise said.error
        if said.answer is None:
            reason = _silence(said) if said.unanswered_s else "its actuator cannot read files"
            raise APPLIED_UNKNOWN.error(broker=node.id, reason=f"{node.path}: {reason}")
        file = parse_properties(said.answer, node.path).values
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
    return render(BROKERS, document, FileKind.MIGRATION, fleet.wanted(node)).document.values


def restart_occurrences(document: RestartsDocument | None) -> tuple[Occurrence, ...]:
    return () if document is None else tuple(CATALOGUE[each.code].found(**each.values) for each in document.found)
