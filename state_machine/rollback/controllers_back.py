"""Our controllers in the place of stock again, the first part of a rollback: which ones.

In:   a `Snapshot`. Out: node ids.
Elsewhere: how one of them gets there (rolling/ours.py), when that is possible (policy/gates_back.py).
Rules: only controllers that were stopped for stock go back. Everything follows from the journal, so that a service that
dies goes on.
"""

from __future__ import annotations

from migrator.fleet.roll import UNDER_WAY, UNTOUCHED, RollStep
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.rolls import ROLLS
from state_machine.rows.store import Snapshot, reached


def to_put_back(snapshot: Snapshot) -> tuple[int, ...]:
    """Controllers that were stopped for stock, and in whose place ours is not whole again."""
    back = {row.node_id for row in snapshot.nodes_of(Roll.OURS) if row.step == RollStep.WHOLE}
    stopped = {row.node_id for row in snapshot.nodes_of(Roll.STOCK) if reached(row) not in UNTOUCHED}
    return tuple(sorted(stopped - back))


def left_half_way(snapshot: Snapshot) -> tuple[int, ...]:
    """Controllers that a roll of stock has stopped and not brought to its end."""
    found = []
    for node in to_put_back(snapshot):
        rows = [row for roll in ROLLS[Roll.OURS].undoes for row in snapshot.nodes_of(roll) if row.node_id == node]
        begun = [row for row in rows if reached(row) not in UNTOUCHED]
        if reached(begun[-1]) in UNDER_WAY:
            found.append(node)
    return tuple(found)
