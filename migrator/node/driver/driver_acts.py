"""Which act is done in which state of the driver.

In:   a `DriverNode`. Out: the table for `DriverNode.run`; states without an act wait for an interrupt.
Elsewhere: the acts (takeover_gate.py, claiming.py, copying.py, dual_write.py, rollback.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from migrator.control_api.states import State
from migrator.driver.machine import Happened
from migrator.node.driver.claiming import ClaimActs
from migrator.node.driver.copy_audit import CopyAudit
from migrator.node.driver.copying import CopyActs
from migrator.node.driver.driver_node import DriverNode
from migrator.node.driver.dual_write import DualWriteActs
from migrator.node.driver.rollback import RollbackActs
from migrator.node.driver.takeover_gate import GateActs


class DriverActs:
    """The acts of one driver, and what they opened."""

    def __init__(self, driver: DriverNode) -> None:
        self._audit = CopyAudit(driver.config)
        self._claim = ClaimActs(driver)
        gate, copy = GateActs(driver, self._audit), CopyActs(driver, self._audit)
        dual, back = DualWriteActs(driver), RollbackActs(driver)
        self.table: Mapping[State, Callable[[], Awaitable[Happened]]] = {
            State.WAIT_QUORUM: gate.wait_quorum,
            State.WAIT_BROKERS: gate.wait_brokers,
            State.TAKING_OVER: self._claim.take_over,
            State.COPYING: copy.copy,
            State.AUDITING: copy.audit,
            State.COMMITTING: copy.commit,
            State.RESUMING: self._claim.resume,
            State.SYNCING: dual.reconcile,
            State.UPDATING_BROKERS: dual.update_brokers,
            State.DUAL_WRITE: dual.dual_write,
            State.ABORTED: gate.hold,
            State.ABORTING: back.abort_takeover,
            State.ROLLING_BACK: back.rollback,
            State.ROLLING_BACK_EARLY: back.give_up,
        }

    async def close(self) -> None:
        self._claim.close()
        await self._audit.close()
