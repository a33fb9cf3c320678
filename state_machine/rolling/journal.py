"""The journal of rolling restarts: one row per node and roll, changed in one transaction per step.

In:   rows and what changed. Out: rows.
Elsewhere: what the steps mean (migrator.fleet.roll), who decides (loop.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy.orm import Session

from migrator.fleet.roll import RollEntry, RollStep
from state_machine.nodes.fleet import FleetNode
from state_machine.nodes.restart_evidence import add_evidence
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.rolls import ROLLS, facts_of
from state_machine.rows.store import Store
from state_machine.rows.tables import JournalRow


def begin(
    store: Store, migration_id: int, roll: Roll, nodes: Iterable[FleetNode], *, at: float, away: Mapping[int, str] = {}
) -> None:
    """Every node of the roll, PENDING; nodes that are there already stay as they are.

    away: nodes that another roll has left half-way, with their incarnation; they go on with their stop, before any
    other one.
    """
    with store.writing() as session:
        for each in nodes:
            if session.get(JournalRow, (migration_id, roll, each.id)) is not None:
                continue
            session.add(
                JournalRow(
                    migration_id=migration_id,
                    roll=roll,
                    node_id=each.id,
                    role=each.role,
                    rack=each.node.rack,
                    step=RollStep.STOPPING if each.id in away else RollStep.PENDING,
                    failed_in="",
                    path=each.path,
                    kind=str(ROLLS[roll].file) if ROLLS[roll].back else "",
                    rendered_from="",
                    checksum="",
                    incarnation=away.get(each.id, ""),
                    instruction="",
                    cause="",
                    code="",
                    detail="",
                    log_end=0,
                    began_at=at if each.id in away else None,
                    changed_at=at,
                )
            )


def record(
    store: Store,
    migration_id: int,
    roll: str,
    node_id: int,
    *,
    at: float,
    evidence: Mapping[str, Any] | None = None,
    **columns: Any,
) -> None:
    """evidence: fields of `RestartDocument` that are new with this step."""
    with store.writing() as session:
        if evidence:
            add_evidence(session, migration_id, roll, node_id, evidence, at)
        row = session.get_one(JournalRow, (migration_id, roll, node_id))
        for name, value in columns.items():
            setattr(row, name, value)
        row.changed_at = at


def record_together(
    store: Store,
    migration_id: int,
    roll: str,
    columns: Mapping[int, Mapping[str, Any]],
    evidence: Mapping[str, Any],
    at: float,
) -> None:
    """Records several nodes in one transaction, columns by node: either all of them are under way, or none is."""
    with store.writing() as session:
        for node_id, values in columns.items():
            add_evidence(session, migration_id, roll, node_id, evidence, at)
            row = session.get_one(JournalRow, (migration_id, roll, node_id))
            for name, value in values.items():
                setattr(row, name, value)
            row.changed_at = at


def entry_of(row: JournalRow, now: float, turn: int = 0) -> RollEntry:
    alone = is_sent_back(row)
    return RollEntry(
        id=row.node_id,
        role=row.role,
        step=RollStep(row.step),
        rack=row.rack,
        began_s=0.0 if row.began_at is None else max(now - row.began_at, 0.0),
        instruction=row.instruction,
        cause=f"{row.code} {row.cause}".strip(),
        back=alone or facts_of(row.roll).back,
        alone=alone,
        turn=turn,
    )


def is_sent_back(row: JournalRow) -> bool:
    """Whether a person sent this node back alone: a broker to its previous file; of the roll OURS, to stock."""
    alone = facts_of(row.roll).alone
    return alone is not None and row.kind == alone


def send_back(session: Session, row: JournalRow, incarnation: str, *, at: float) -> None:
    """A failed node leaves the roll: from here it is stopped, gets its previous file, and is started.

    incarnation: as registered now, so that the next one is noticed.
    """
    alone = facts_of(row.roll).alone
    assert alone is not None, f"nobody leaves the roll {row.roll} alone"
    row.step, row.kind, row.incarnation = RollStep.STOPPING, alone, incarnation
    row.failed_in = row.cause = row.code = row.instruction = ""
    row.began_at = row.changed_at = at
