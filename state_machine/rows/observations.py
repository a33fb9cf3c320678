"""Keep what a look saw: the observation, each node, open findings, exports, and why nothing happens now.

In:   an observation with what follows from it.
Out:  rows; all of one look in one transaction.
Elsewhere: looking (observe.py), changing the phase (transition.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Table, func, select, update
from sqlalchemy.orm import Session

from migrator.findings.catalogue import CATALOGUE
from migrator.findings.finding import Occurrence, Severity
from state_machine.clusters.observe import Observation
from state_machine.policy.outcome import Outcome
from state_machine.rows.database import without_nul
from state_machine.rows.store import OBSERVATION, Store, a_cursor, a_node, find_migration, note_cluster
from state_machine.rows.tables import Backup, FindingRow, Migration, ObservationRow, ObservedNode


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A finding as somebody told it: from our own code, a driver's status, or the JSON of `zk2kraft check`."""

    code: str
    says: str
    severity: str
    means: str
    remedy: str

    @classmethod
    def of(cls, occurrence: Occurrence) -> ReportedFinding:
        return cls.of_json(occurrence.as_json())

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> ReportedFinding:
        """A code that this release does not know keeps its words."""
        known = CATALOGUE.get(str(document["code"]))
        return cls(
            code=str(document["code"]),
            says=str(document["says"]),
            severity=str(document.get("severity", known.severity if known else "blocks")),
            means=str(document.get("means", known.means if known else "")),
            remedy=str(document.get("remedy", known.remedy if known else "")),
        )


@dataclass(frozen=True, slots=True)
class RoundObservation:
    """What one round of the loop leaves behind. findings: those open now, by source; a source left out is kept."""

    observation: Observation
    findings: Mapping[str, Iterable[ReportedFinding]] = field(default_factory=dict)


def record_observation(store: Store, migration_id: int, look: RoundObservation) -> None:
    with store.writing() as session:
        find_migration(session, migration_id)
        observed = look.observation
        document = msgspec.to_builtins(observed)
        _record_observation_row(session, migration_id, observed.at, document)
        note_cluster(session, migration_id, observed.zookeeper.cluster_id)
        _record_nodes(session, migration_id, observed)
        _record_findings(
            session, migration_id, {source: list(told) for source, told in look.findings.items()}, observed.at
        )


def record_outcome(store: Store, migration_id: int, outcome: Outcome, *, at: float) -> None:
    """Also for a migration whose own row cannot be read."""
    table = Migration.__table__
    assert isinstance(table, Table)
    with store.writing() as session:
        row = update(table).where(table.c.id == migration_id)
        session.execute(row.values(waiting=outcome.words, outcome=outcome.kind))
        _record_findings(
            session, migration_id, {"service": [ReportedFinding.of(each) for each in outcome.problems]}, at
        )


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Open findings of one code. first: the earliest few of them. since: when the earliest was seen first."""

    code: str
    count: int
    since: float
    first: tuple[FindingRow, ...]


def finding_groups(store: Store, migration_id: int, shown: int) -> list[FindingGroup]:
    """Those that block first, then as they were found. shown: how many rows of each."""
    table = FindingRow.__table__.c
    opened = (table.migration_id == migration_id, table.open)
    query = select(table.code, func.count(), func.min(table.first_seen)).where(*opened).group_by(table.code)
    groups = []
    with store.reading() as session:
        find_migration(session, migration_id)
        for code, count, since in session.execute(query).all():
            rows = select(FindingRow).where(*opened, FindingRow.code == code).order_by(FindingRow.id).limit(shown)
            groups.append(FindingGroup(code, count, since, tuple(session.scalars(rows))))
    observed = [each for each in groups if each.first]  # the last of a code may be closed between the two questions
    return sorted(observed, key=lambda each: (each.first[0].severity != Severity.BLOCKS, each.since, each.code))


def findings(
    store: Store, migration_id: int, *, only_open: bool = False, code: str | None = None, limit: int = 200
) -> list[FindingRow]:
    """Open ones first, then those seen last. code: only those of this one."""
    query = select(FindingRow).where(FindingRow.migration_id == migration_id)
    if only_open:
        query = query.where(FindingRow.open)
    if code is not None:
        query = query.where(FindingRow.code == code)
    with store.reading() as session:
        find_migration(session, migration_id)
        order = (FindingRow.open.desc(), FindingRow.last_seen.desc(), FindingRow.id)
        return list(session.scalars(query.order_by(*order).limit(limit)))


def nodes(store: Store, migration_id: int, kind: str) -> list[ObservedNode]:
    query = (
        select(ObservedNode)
        .where(ObservedNode.migration_id == migration_id, ObservedNode.kind == kind)
        .order_by(ObservedNode.node_id)
    )
    with store.reading() as session:
        return list(session.scalars(query))


def backups(store: Store, migration_id: int) -> list[Backup]:
    with store.reading() as session:
        return list(session.scalars(select(Backup).where(Backup.migration_id == migration_id).order_by(Backup.id)))


def _record_nodes(session: Session, migration_id: int, observed: Observation) -> None:
    """Nodes that are not seen now keep their last observation, with its time."""
    answering = observed.answering
    told = () if answering is None or answering.status is None else answering.status.brokers
    for broker in {each.id: each for each in told}.values():
        node = a_node(session, migration_id, "broker", broker.id)
        node.seen_at, node.document = observed.at, msgspec.to_builtins(broker)
    for controller in observed.controllers:
        if controller.status is None:
            continue
        a_cursor(session, migration_id, controller.status.run)
        node = a_node(session, migration_id, "controller", controller.node_id)
        node.seen_at = observed.at
        quorum = msgspec.to_builtins(controller.status.quorum)
        node.document = {"pid": controller.pid, "quorum": quorum, "run": controller.status.run}
        _record_export(session, migration_id, controller.status.export, observed.at)


def _record_export(session: Session, migration_id: int, file: str | None, at: float) -> None:
    if file is None:
        return
    query = select(Backup).where(Backup.migration_id == migration_id, Backup.file == file)
    if session.scalar(query) is None:
        session.add(Backup(migration_id=migration_id, file=file, seen_at=at))


def _record_observation_row(session: Session, migration_id: int, at: float, document: dict[str, Any]) -> None:
    """Without reading the one before, which is as large."""
    table = ObservationRow.__table__
    assert isinstance(table, Table)
    same = update(table).where(table.c.migration_id == migration_id, table.c.kind == OBSERVATION)
    if session.connection().execute(same.values(at=at, document=document)).rowcount == 0:
        session.add(ObservationRow(migration_id=migration_id, kind=OBSERVATION, at=at, document=document))


def _record_findings(session: Session, migration_id: int, told: Mapping[str, list[ReportedFinding]], at: float) -> None:
    """Open what is told, close what is not told any more. One finding told twice by a source is one row.

    told: by source; findings of other sources stay as they are.
    """
    query = select(FindingRow).where(FindingRow.migration_id == migration_id, FindingRow.source.in_(told))
    known = {(row.source, row.code, row.says): row for row in session.scalars(query)}
    wanted = {(source, each.code, without_nul(each.says)): each for source, those in told.items() for each in those}
    for (source, code, says), each in wanted.items():
        row = known.pop((source, code, says), None)
        if row is None:
            row = FindingRow(
                migration_id=migration_id,
                source=source,
                code=each.code,
                severity=each.severity,
                says=says,
                means=each.means,
                remedy=each.remedy,
                first_seen=at,
            )
            session.add(row)
        row.last_seen, row.open = at, True
    for row in known.values():
        if row.open:
            row.open = False
