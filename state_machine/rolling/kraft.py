"""KRAFT: brokers go into KRaft mode.

In:   a `NodeTask`. Out: as the methods of `RollKind`.
Elsewhere: what a broker that goes back alone gets (rollback/previous_file.py).
"""

from __future__ import annotations

from typing import Any

from migrator.findings.road import NODE_NOT_AS_JOURNAL
from migrator.fleet.files import Present
from state_machine.policy.fleet_evidence import Roll
from state_machine.rolling.kind import RollKind
from state_machine.rolling.round import NodeTask


class KraftRoll(RollKind):
    roll = Roll.KRAFT

    def found(self, task: NodeTask, present: Present | None) -> dict[str, Any] | None:
        if present is not None and present.document.value("process.roles") is not None:
            found = f"{task.node.path} is a file of KRaft mode already"
            raise NODE_NOT_AS_JOURNAL.error(node=task.node.name, step="PENDING", found=found)
        return None
