"""Which act is done in which state of the driver, and which parts of the driver each kind of act gets.

In:   a `DriverNode`. Out: the table for `DriverNode.run`; states without an act wait for an interrupt.
Elsewhere: the acts (takeover_gate.py, claiming.py, copying.py, reconciling.py, updating_brokers.py, dual_write.py,
rollback.py, after_rollback.py), what they share with the loop (act.py).
"""

from __future__ import annotations

from collections.abc import Mapping

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


class DriverActs:
    """The acts of one driver, and what they opened."""

    def __init__(self, driver: DriverNode) -> None:
        self._audit = CopyAudit(driver.config)
        self._claim = claim_acts(driver)
        gate, copy = gate_acts(driver, self._audit), copy_acts(driver, self._audit)
        updates = update_acts(driver)
        reconcile, dual, back = reconcile_acts(driver, updates), dual_write_acts(driver), rollback_acts(driver)
        self.table: Mapping[State, Act] = {
            State.WAIT_QUORUM: gate.wait_quorum,
            State.WAIT_BROKERS: gate.wait_brokers,
            State.TAKING_OVER: self._claim.take_over,
            State.COPYING: copy.copy,
            State.AUDITING: copy.audit,
            State.COMMITTING: copy.commit,
            State.RESUMING: self._claim.resume,
            State.SYNCING: reconcile.reconcile,
            State.UPDATING_BROKERS: updates.update_brokers,
            State.DUAL_WRITE: dual.dual_write,
            State.ABORTED: gate.wait_aborted,
            State.ABORTING: back.abort_takeover,
            State.ROLLING_BACK: back.rollback,
            State.ROLLING_BACK_EARLY: back.roll_back_early,
            State.RETIRED: after_rollback(driver).watch_brokers,
        }

    async def close(self) -> None:
        self._claim.close()
        await self._audit.close()


def gate_acts(driver: DriverNode, audit: CopyAudit) -> GateActs:
    return GateActs(
        now=driver.now,
        progress=driver.progress,
        config=driver.config,
        controller=driver.controller,
        session=driver.session,
        quorum=driver.quorum,
        claim_watch=driver.claim_watch,
        operations=driver.operations,
        events=driver.events,
        copy_audit=audit,
        passwords=driver.passwords,
        to_brokers=driver.to_brokers,
        laboratory=driver.laboratory,
        now_ms=driver.now_ms,
    )


def claim_acts(driver: DriverNode) -> ClaimActs:
    return ClaimActs(
        now=driver.now,
        progress=driver.progress,
        config=driver.config,
        controller=driver.controller,
        session=driver.session,
        hooks=driver.hooks,
        divergence=driver.divergence,
        claim_watch=driver.claim_watch,
        ephemeral=driver.ephemeral,
        guard=window_guard(driver),
        retirement=retirement(driver),
        to_brokers=driver.to_brokers,
        now_ms=driver.now_ms,
        wall_ms=driver.wall_ms,
    )


def copy_acts(driver: DriverNode, audit: CopyAudit) -> CopyActs:
    return CopyActs(
        now=driver.now,
        progress=driver.progress,
        config=driver.config,
        controller=driver.controller,
        session=driver.session,
        hooks=driver.hooks,
        claim_watch=driver.claim_watch,
        persistence=claim_persistence(driver),
        claim_audit=audit,
        passwords=driver.passwords,
        now_ms=driver.now_ms,
        wall_ms=driver.wall_ms,
    )


def update_acts(driver: DriverNode) -> UpdateActs:
    return UpdateActs(
        now=driver.now,
        progress=driver.progress,
        config=driver.config,
        controller=driver.controller,
        hooks=driver.hooks,
        mirroring=driver.mirroring,
        propagator=driver.propagator,
        events=driver.events,
        to_brokers=driver.to_brokers,
        now_ms=driver.now_ms,
    )


def reconcile_acts(driver: DriverNode, updates: UpdateActs) -> ReconcileActs:
    return ReconcileActs(
        now=driver.now,
        progress=driver.progress,
        config=driver.config,
        controller=driver.controller,
        session=driver.session,
        hooks=driver.hooks,
        claim_watch=driver.claim_watch,
        mirroring=driver.mirroring,
        propagator=driver.propagator,
        updates=updates,
        passwords=driver.passwords,
        now_ms=driver.now_ms,
    )


def dual_write_acts(driver: DriverNode) -> DualWriteActs:
    return DualWriteActs(
        now=driver.now,
        progress=driver.progress,
        controller=driver.controller,
        session=driver.session,
        hooks=driver.hooks,
        mirroring=driver.mirroring,
        propagator=driver.propagator,
        passwords=driver.passwords,
        operations=driver.operations,
        events=driver.events,
        now_ms=driver.now_ms,
    )


def rollback_acts(driver: DriverNode) -> RollbackActs:
    return RollbackActs(
        now=driver.now,
        progress=driver.progress,
        config=driver.config,
        controller=driver.controller,
        session=driver.session,
        quorum=driver.quorum,
        hooks=driver.hooks,
        claim_watch=driver.claim_watch,
        ephemeral=driver.ephemeral,
        mirroring=driver.mirroring,
        propagator=driver.propagator,
        operations=driver.operations,
        retirement=retirement(driver),
        events=driver.events,
        close_listener=driver.close_listener,
        now_ms=driver.now_ms,
    )


def after_rollback(driver: DriverNode) -> AfterRollback:
    return AfterRollback(
        progress=driver.progress, config=driver.config, controller=driver.controller, to_brokers=driver.to_brokers
    )


def window_guard(driver: DriverNode) -> WindowGuard:
    return WindowGuard(
        now=driver.now,
        config=driver.config,
        controller=driver.controller,
        session=driver.session,
        now_ms=driver.now_ms,
        fail=driver.fail_window,
    )


def claim_persistence(driver: DriverNode) -> ClaimPersistence:
    return ClaimPersistence(
        now=driver.now,
        progress=driver.progress,
        session=driver.session,
        claim_watch=driver.claim_watch,
        ephemeral=driver.ephemeral,
        now_ms=driver.now_ms,
        wall_ms=driver.wall_ms,
    )


def retirement(driver: DriverNode) -> Retirement:
    return Retirement(
        progress=driver.progress, controller=driver.controller, retired_mark=driver.retired_mark, quorum=driver.quorum
    )
