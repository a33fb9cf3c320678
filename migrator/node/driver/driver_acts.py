"""Which act is done in which state of the driver, and what each kind of act has besides the driver's parts.

In:   a `DriverNode`. Out: the table for `DriverNode.run`; states without an act wait for an interrupt.
Elsewhere: the acts (takeover_gate.py, claiming.py, copying.py, reconciling.py, updating_brokers.py, dual_write.py,
rollback.py, after_rollback.py), their parts and what they share with the loop (act.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from migrator.control_api.states import State
from migrator.node.driver.act import Act
from migrator.node.driver.after_rollback import AfterRollback
from migrator.node.driver.claiming import ClaimActs
from migrator.node.driver.copy_audit import CopyAudit
from migrator.node.driver.copying import CopyActs
from migrator.node.driver.driver_node import DriverNode
from migrator.node.driver.dual_write import DualWriteActs
from migrator.node.driver.persisting import ClaimPersistence
from migrator.node.driver.reconciling import ReconcileActs
from migrator.node.driver.retiring import Retirement
from migrator.node.driver.rollback import RollbackActs
from migrator.node.driver.takeover_gate import GateActs
from migrator.node.driver.updating_brokers import UpdateActs
from migrator.node.driver.window_guard import WindowGuard
from migrator.node.log.storage import RetiredMark


class DriverActs:
    """The acts of one driver, and what they opened."""

    def __init__(
        self,
        driver: DriverNode,
        *,
        retired_mark: RetiredMark,
        close_listener: Callable[[], Awaitable[None]],
        laboratory: bool,
    ) -> None:
        """close_listener: afterwards brokers reach this node no more. laboratory: fewer than three voters may do it."""
        parts, watch, operations, ephemeral = driver.parts, driver.claim_watch, driver.operations, driver.ephemeral
        mirroring, propagator = driver.mirroring, driver.propagator
        self.copy_audit = CopyAudit(parts.config)
        retirement = Retirement(parts=parts, retired_mark=retired_mark)
        self.gate = GateActs(
            parts=parts,
            claim_watch=watch,
            operations=operations,
            copy_audit=self.copy_audit,
            laboratory=laboratory,
        )
        self.claim = ClaimActs(
            parts=parts,
            claim_watch=watch,
            divergence=driver.divergence,
            ephemeral=ephemeral,
            guard=WindowGuard(parts=parts, fail=driver.fail_window),
            retirement=retirement,
        )
        self.copy = CopyActs(
            parts=parts,
            claim_watch=watch,
            persistence=ClaimPersistence(parts=parts, claim_watch=watch, ephemeral=ephemeral),
            claim_audit=self.copy_audit,
        )
        self.updates = UpdateActs(parts=parts, mirroring=mirroring, propagator=propagator)
        self.reconcile = ReconcileActs(
            parts=parts, claim_watch=watch, mirroring=mirroring, propagator=propagator, updates=self.updates
        )
        self.dual_write = DualWriteActs(parts=parts, mirroring=mirroring, propagator=propagator, operations=operations)
        self.rollback = RollbackActs(
            parts=parts,
            claim_watch=watch,
            ephemeral=ephemeral,
            mirroring=mirroring,
            propagator=propagator,
            operations=operations,
            retirement=retirement,
            close_listener=close_listener,
        )
        self.after_rollback = AfterRollback(parts=parts)
        self.table: Mapping[State, Act] = {
            State.WAIT_QUORUM: self.gate.wait_quorum,
            State.WAIT_BROKERS: self.gate.wait_brokers,
            State.TAKING_OVER: self.claim.take_over,
            State.COPYING: self.copy.copy,
            State.AUDITING: self.copy.audit,
            State.COMMITTING: self.copy.commit,
            State.RESUMING: self.claim.resume,
            State.SYNCING: self.reconcile.reconcile,
            State.UPDATING_BROKERS: self.updates.update_brokers,
            State.DUAL_WRITE: self.dual_write.dual_write,
            State.ABORTED: self.gate.wait_aborted,
            State.ABORTING: self.rollback.abort_takeover,
            State.ROLLING_BACK: self.rollback.rollback,
            State.ROLLING_BACK_EARLY: self.rollback.roll_back_early,
            State.RETIRED: self.after_rollback.watch_brokers,
        }

    async def close(self) -> None:
        self.claim.close()
        await self.copy_audit.close()
