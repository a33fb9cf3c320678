"""Change or remove a migration: only one that holds no claim and runs no controller.

In:   the number of a migration, and who asks.
Out:  another inventory, or a migration that is gone from every list; its rows stay for the history.
Elsewhere: that no round of the loop runs meanwhile (reconcile.py, `alone_with`), how a migration goes back
(work/acts.py).
Errors: Z2K-4004, Z2K-4015 (the name is taken), Z2K-4106 with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from migrator.findings.finding import FindingError
from migrator.findings.service import MIGRATION_UNREADABLE, NOT_REMOVABLE, VERSION_MOVED
from state_machine.clusters.inventory import ClusterInventory
from state_machine.policy.gates import Holder
from state_machine.policy.phase_table import PHASES, PhaseStage, phases_where
from state_machine.policy.phases import Phase
from state_machine.policy.rivals import is_over
from state_machine.rows.store import Snapshot, Store
from state_machine.rows.tables import ObservedNode, PhaseEvent
from state_machine.times.process_mark import process_mark

UNCLAIMED: Final = (*phases_where(lambda row: row.before_takeover), Phase.ROLLING_BACK)
"""Phases of a migration that may never have come to a claim: a rollback begins before the takeover as well."""


def remove(store: Store, migration_id: int, *, who: str, at: float) -> None:
    """Take it from every list. Raises Z2K-4004, Z2K-4106."""
    try:
        snapshot = store.snapshot(migration_id)
    except FindingError as error:
        if error.code != MIGRATION_UNREADABLE.code:
            raise
        reason = _claimed(store.phase(migration_id), store.events(migration_id))
        name = f"number {migration_id}"
    else:
        reason, name = why_it_stays(snapshot, store.events(migration_id)), snapshot.migration.name
    if reason is not None:
        raise NOT_REMOVABLE.error(name=name, what="removed", reason=reason)
    store.remove(migration_id, who=who, at=at)


def change(
    store: Store,
    migration_id: int,
    fields: dict[str, object],
    *,
    who: str,
    reason: str,
    at: float,
    expected_version: int | None = None,
) -> None:
    """Give it another inventory, in part. fields: of `ClusterInventory`, in its own shape.

    Raises the same, and Z2K-4006.
    """
    snapshot = store.snapshot(migration_id)
    name, version = snapshot.migration.name, snapshot.migration.version
    if expected_version not in (None, version):
        raise VERSION_MOVED.error(found=version, expected=expected_version)
    if PHASES[snapshot.phase].stage is not PhaseStage.READING:
        reading = " and ".join(phases_where(lambda row: row.stage is PhaseStage.READING))
        why = f"it is in {snapshot.phase}; only {reading} have started nothing"
        raise NOT_REMOVABLE.error(name=name, what="changed", reason=why)
    why_not = why_it_stays(snapshot, store.events(migration_id))
    if why_not is not None:
        raise NOT_REMOVABLE.error(name=name, what="changed", reason=why_not)
    inventory = msgspec.convert({**msgspec.to_builtins(snapshot.inventory), **fields}, ClusterInventory)
    store.change_inventory(migration_id, inventory, who=who, reason=reason, at=at, expected_version=version)


def why_it_stays(
    snapshot: Snapshot, events: list[PhaseEvent], mark: Callable[[int], str | None] = process_mark
) -> str | None:
    """What keeps it from being removed; None when nothing does."""
    claimed = _claimed(snapshot.migration.phase, events)
    if claimed is not None or is_over(snapshot.phase):
        return claimed
    look = snapshot.observation
    if look is not None:
        answering = [each.node_id for each in look.controllers if each.status is not None]
        if answering:
            return f"controllers {answering} answer"
        if look.zookeeper.holder is Holder.OURS and snapshot.rival is None:
            return f"controller {look.zookeeper.holder_id} of it holds /controller"
    running = [node.node_id for node in snapshot.processes.values() if _runs(node, mark)]
    return f"controllers {running} run" if running else None


def _claimed(phase: str, events: list[PhaseEvent]) -> str | None:
    """Why a claim of this migration may stand: it came to one, and was not rolled back. None: there is none."""
    if is_over(phase):
        return None
    reached = next((each.to_phase for each in events if each.to_phase not in UNCLAIMED), None)
    if reached is None and phase in UNCLAIMED:
        return None
    return f"it reached {reached or phase} and is in {phase} now"


def _runs(node: ObservedNode, mark: Callable[[int], str | None]) -> bool:
    return node.pid is not None and node.pid > 1 and mark(node.pid) == (node.process_mark or "")
