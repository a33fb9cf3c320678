"""The journal of rolling restarts: one row per node and roll, changed in one transaction per step.

In:   rows and what changed. Out: rows.
Elsewhere: what the steps mean (migrator.fleet.roll), who decides (roller.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy.orm import Session

from migrator.fleet.render import FileKind
from migrator.fleet.roll import RollEntry, RollStep
from state_machine.road.fleet import FleetNode
from state_machine.store import Store
from state_machine.tables import RoadNode


def begin(store: Store, migration_id: int, roll: str, nodes: Iterable[FleetNode], *, at: float) -> None:
    """Every node of the roll, PENDING; nodes that are there already stay as they are."""
    with store.writing() as session:
        for each in nodes:
            if session.get(RoadNode, (migration_id, roll, each.id)) is not None:
                continue
            session.add(
                RoadNode(
                    migration_id=migration_id,
                    roll=roll,
                    node_id=each.id,
                    role=each.role,
                    rack=each.node.rack,
                    step=RollStep.PENDING,
                    failed_in="",
                    path=each.path,
                    kind="",
                    rendered_from="",
                    checksum="",
                    incarnation="",
                    instruction="",
                    cause="",
                    code="",
                    detail="",
                    log_end=0,
                    began_at=None,
                    changed_at=at,
                )
            )


def record(store: Store, migration_id: int, roll: str, node_id: int, *, at: float, **columns: Any) -> None:
    with store.writing() as session:
        row = session.get_one(RoadNode, (migration_id, roll, node_id))
        for name, value in columns.items():
            setattr(row, name, value)
        row.changed_at = at


def entry_of(row: RoadNode, now: float) -> RollEntry:
    return RollEntry(
        id=row.node_id,
        role=row.role,
        step=RollStep(row.step),
        rack=row.rack,
        began_s=0.0 if row.began_at is None else max(now - row.began_at, 0.0),
        instruction=row.instruction,
        cause=f"{row.code} {row.cause}".strip(),
        back=row.kind == FileKind.BACK,
    )


def send_back(session: Session, row: RoadNode, incarnation: str, *, at: float) -> None:
    """A failed broker leaves the roll: from here it is stopped, gets its previous file, and is started.

    incarnation: as registered now, so that the next one is noticed.
    """
    row.step, row.kind, row.incarnation = RollStep.STOPPING, FileKind.BACK, incarnation
    row.failed_in = row.cause = row.code = row.instruction = ""
    row.began_at = row.changed_at = at
