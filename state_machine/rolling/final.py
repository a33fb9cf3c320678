"""FINAL: stock controllers restart without the migration flag. The first of these starts cannot be undone.

In:   a `Round`, a `NodeTask`. Out: as the methods of `RollKind`.
Elsewhere: the intent before the first stop (work/acts_after_dual_write.py), a finalize that is given up before any
start (finish/give_up.py): its nodes are put back to their file with the flag.
"""

from __future__ import annotations

import posixpath
from typing import Any

from migrator.findings.road import STEP_FAILED
from migrator.fleet.actuator import Instruction
from migrator.fleet.guard import finalize_token
from migrator.model.verdict import Condition
from state_machine.finish import give_up
from state_machine.policy.fleet_evidence import Roll
from state_machine.rolling.node_conditions import controller_whole
from state_machine.rolling.round import NodeTask, Round
from state_machine.rolling.stock import StockControllers
from state_machine.rows.tables import JournalRow


class FinalRoll(StockControllers):
    roll = Roll.FINAL

    def is_asked_before_stop(self, row: JournalRow) -> bool:
        """Not of one on its way back to its kept file: that stop finalizes nothing."""
        return not give_up.is_put_back(row)

    def whole_by_role(self, round: Round, row: JournalRow, *, beside: bool) -> tuple[Condition, ...]:
        """The claim says nothing any more: the first one may have ended the migration."""
        return controller_whole(round, row, flag=give_up.is_put_back(row))

    def write(self, task: NodeTask) -> dict[str, Any]:
        if not give_up.is_put_back(task.row):
            return super().write(task)
        approval = task.round.snapshot.approval
        return give_up.write_kept(task.node, task.row, "" if approval is None else approval.digest)

    def allow(self, task: NodeTask, content: bytes) -> Instruction | None:
        """The guard of this host lets exactly this file start without the flag, from now on.

        The token is written while the controller is stopped and before its file, so that a file without the flag never
        stands where no plan allows it.
        """
        node, approval = task.node, task.round.snapshot.approval
        if node.node.guard is None:
            return None
        if approval is None:
            reason = "no approval of FINALIZING is recorded, whose digest its guard wants"
            raise STEP_FAILED.error(act="write", node=node.name, reason=reason)
        path, token = finalize_token(approval.digest, node.id, content, posixpath.dirname(node.path))
        answer = node.actuator.write(path, token)
        return answer if isinstance(answer, Instruction) else None

    def taken_over(self, task: NodeTask) -> dict[str, Any]:
        """The guard of the host lets only the file start that was written."""
        return {}
