"""STOCK: stock controllers take the place of ours.

In:   a `Round`, a `NodeTask`. Out: as the methods of `RollKind`.
Elsewhere: what all rolls of stock share is `StockControllers`; ours again (ours.py).
"""

from __future__ import annotations

from typing import Any

from migrator.fleet.actuator import ProcessState
from state_machine.policy.fleet_evidence import Roll
from state_machine.rolling.kind import RollKind
from state_machine.rolling.our_processes import ours_runs, stop_with_ours
from state_machine.rolling.round import NodeSeen, NodeTask, Round
from state_machine.rows.tables import JournalRow


class StockControllers(RollKind):
    """What is started is stock: its registration may never be sent."""

    def registers_never(self, round: Round, row: JournalRow, seen: NodeSeen) -> bool:
        return seen.rendered is True and round.work.unsent.is_due(row, round.log, round.means.steady())


class StockRoll(StockControllers):
    roll = Roll.STOCK

    def see(self, round: Round, row: JournalRow, seen: NodeSeen) -> None:
        """A controller of ours has its process elsewhere than the host's supervisor says."""
        if ours_runs(round.means.launcher, round.snapshot, row.node_id):
            seen.process = ProcessState.RUNNING

    def stop(self, task: NodeTask) -> dict[str, Any]:
        return stop_with_ours(task)
