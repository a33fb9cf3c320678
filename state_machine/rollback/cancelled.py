"""A rollback that is cancelled: what the journal says from then on.

In:   the rows of a migration, in the transaction of the step. Out: the same rows, changed.
Elsewhere: when that is possible (policy/gates_back.py), the step itself (transition.py).
Rules: what went back goes over again, from its begin: a broker that is in ZooKeeper mode again is PENDING in the roll
into KRaft mode, a controller of ours that took its place again is PENDING in the roll of stock. What did not go back
stays as it is.
"""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from migrator.fleet.roll import UNTOUCHED, RollStep
from state_machine.policy.rolls import facts_of
from state_machine.rows.store import reached
from state_machine.rows.tables import JournalRow


def cancel(session: Session, migration_id: int, at: float) -> None:
    rows = list(session.scalars(select(JournalRow).where(JournalRow.migration_id == migration_id)))
    for row in rows:
        undoes = facts_of(row.roll).undoes
        if not undoes:
            continue
        if reached(row) not in UNTOUCHED:
            for each in rows:
                if each.node_id == row.node_id and each.roll in undoes:
                    _begin_anew(each, at)
        session.delete(row)


def _begin_anew(row: JournalRow, at: float) -> None:
    row.step, row.began_at, row.changed_at, row.log_end = RollStep.PENDING, None, at, 0
    row.kind = row.rendered_from = row.checksum = row.incarnation = ""
    row.failed_in = row.cause = row.code = row.instruction = row.detail = ""
