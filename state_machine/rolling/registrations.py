"""What the log says of a node's registration: which one it is, whether it is another one, whether it is gone.

In:   a snapshot, a node or its row. Out: incarnations, columns of the journal.
"""

from __future__ import annotations

from typing import Any, Final

from state_machine.nodes.fleet import FleetNode
from state_machine.policy.fleet_evidence import BROKERS
from state_machine.rolling.round import log_of
from state_machine.rows.store import Snapshot
from state_machine.rows.tables import JournalRow

SILENT_MS: Final = 10_000
"""A voter that fetched nothing for so long is not counted as present."""


def incarnation(snapshot: Snapshot, role: str, node: int) -> str:
    """The incarnation that is registered now; empty when none is."""
    observed = log_of(snapshot)
    found: Any = observed.broker(node) if role == BROKERS else observed.controller(node)
    return "" if found is None else str(found.incarnation)


def registered_now(snapshot: Snapshot, row: JournalRow) -> dict[str, Any]:
    """The incarnation that a restart has to change: since it was prepared, its host may have started it again."""
    return {"incarnation": incarnation(snapshot, row.role, row.node_id)} if log_of(snapshot).known else {}


def registered_anew(snapshot: Snapshot, row: JournalRow) -> bool:
    """Whether a broker registered anew since its stop was ordered."""
    observed = log_of(snapshot)
    found = observed.broker(row.node_id) if observed.known and row.role == BROKERS else None
    return found is not None and row.incarnation not in ("", str(found.incarnation))


def is_gone(snapshot: Snapshot, node: FleetNode) -> bool:
    """The cluster does not count it as present."""
    observed = log_of(snapshot)
    if not observed.known:
        return False
    if node.role == BROKERS:
        broker = observed.broker(node.id)
        return broker is None or broker.fenced
    voter = observed.voter(node.id)
    return voter is None or voter.fetched_ms_ago is None or voter.fetched_ms_ago > SILENT_MS
