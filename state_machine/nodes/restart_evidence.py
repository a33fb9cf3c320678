"""What is kept of each restart beside its row of the journal: the change of its file, and what held before and after.

In:   a rendered file, verdicts. Out: fields of a `RestartDocument`, one row of JSON per roll and node.
Elsewhere: the steps themselves (rolling/journal.py), who decides (loop.py there), who shows it (state_machine/change).
Rules: the diff is the one of `zk2kraft render --diff`: secrets are hidden before anything is stored, and comments are
left out. A later attempt takes the place of an earlier one. Gates do not read these rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from migrator.fleet.render import Rendered
from migrator.model.verdict import Verdict
from state_machine.rows.store import OF_A_RESTART
from state_machine.rows.tables import ObservationRow

DIFF_LINES_MAX: Final = 400
"""Of one file; more is a file that was replaced, and its checksums say so."""


class Held(msgspec.Struct, frozen=True):
    """A condition that was True, with what was observed."""

    name: str
    message: str


class RestartDocument(msgspec.Struct, frozen=True):
    """diff: lines, secrets hidden. before: what held when the stop was ordered. after: what held when it was whole."""

    diff: tuple[str, ...] = ()
    before: tuple[Held, ...] = ()
    before_at: float | None = None
    after: tuple[Held, ...] = ()
    after_at: float | None = None


def file_change(rendered: Rendered) -> dict[str, Any]:
    lines = [_without_comment(line) for line in rendered.diff()]
    more = len(lines) - DIFF_LINES_MAX
    shown = lines if more <= 0 else [*lines[:DIFF_LINES_MAX], f"and {more} more lines"]
    return {"diff": shown}


def _without_comment(line: str) -> str:
    """People write into comments what no rule recognises; a report that travels leaves them out."""
    return f"{line[:1]}# (a comment)" if line[1:].lstrip().startswith(("#", "!")) else line


def ready_before(verdict: Verdict, at: float) -> dict[str, Any]:
    return {"before": _held(verdict), "before_at": at, "after": [], "after_at": None}


def whole_since(verdict: Verdict, at: float) -> dict[str, Any]:
    return {"after": _held(verdict), "after_at": at}


def _held(verdict: Verdict) -> list[dict[str, str]]:
    return [{"name": each.name, "message": each.message} for each in verdict.conditions if each.holds]


def add_evidence(
    session: Session, migration_id: int, roll: str, node_id: int, fields: Mapping[str, Any], at: float
) -> None:
    """Keep what held at a restart, in the transaction of the step that it belongs to."""
    kind = f"{OF_A_RESTART}{roll} {node_id}"
    row = session.get(ObservationRow, (migration_id, kind))
    if row is None:
        session.add(ObservationRow(migration_id=migration_id, kind=kind, at=at, document=dict(fields)))
    else:
        row.at, row.document = at, {**row.document, **fields}


def restart_documents(session: Session, migration_id: int) -> dict[tuple[str, int], RestartDocument]:
    """What was kept of each restart, by roll and node id."""
    query = select(ObservationRow).where(
        ObservationRow.migration_id == migration_id, ObservationRow.kind.startswith(OF_A_RESTART)
    )
    found = {}
    for row in session.scalars(query):
        roll, _, node = row.kind.removeprefix(OF_A_RESTART).rpartition(" ")
        found[roll, int(node)] = msgspec.convert(row.document, RestartDocument)
    return found
