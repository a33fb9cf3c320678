"""The acts of a driver in tests: made of the parts that the driver has at that moment, and ended as the loop ends them.

In:   a `DriverNode` on stand-ins; `with_parts` gives it others before its acts are made.
Out:  the real acts; `done` assigns what an act changed, and answers what happened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from typing import Any

from migrator.driver.machine import Happened
from migrator.node.driver.act import Act, ActEnded, DriverParts
from migrator.node.driver.claiming import ClaimActs
from migrator.node.driver.copying import CopyActs
from migrator.node.driver.driver_acts import DriverActs
from migrator.node.driver.dual_write import DualWriteActs
from migrator.node.driver.reconciling import ReconcileActs
from migrator.node.driver.rollback import RollbackActs
from migrator.node.driver.takeover_gate import GateActs
from migrator.node.driver.updating_brokers import UpdateActs
from migrator.node.driver.window_guard import WindowGuard


async def nothing() -> None: ...


def only_parts(**known: Any) -> DriverParts:
    """For an act that uses no others."""
    parts: dict[str, Any] = {each.name: None for each in fields(DriverParts)}
    return DriverParts(**parts | known)


def with_parts(driver: Any, **parts: Any) -> Any:
    """The same driver; acts that are made from now on get these parts."""
    driver.parts = replace(driver.parts, **parts)
    return driver


def acts_of(driver: Any, **besides: Any) -> DriverActs:
    """besides: what `DriverActs` takes."""
    return DriverActs(driver, **{"retired_mark": None, "close_listener": nothing, "laboratory": False} | besides)


async def done(driver: Any, act: Awaitable[ActEnded]) -> Happened:
    """How it ended; what it changed is assigned in the same step."""
    return Happened(driver._take(await act))


def gate_acts(driver: Any, audit: Any) -> GateActs:
    gate = acts_of(driver).gate
    gate.copy_audit = audit
    return gate


def claim_acts(driver: Any, **besides: Any) -> ClaimActs:
    return acts_of(driver, **besides).claim


def copy_acts(driver: Any) -> CopyActs:
    return acts_of(driver).copy


def reconcile_acts(driver: Any) -> ReconcileActs:
    return acts_of(driver).reconcile


def update_acts(driver: Any) -> UpdateActs:
    return acts_of(driver).updates


def dual_write_acts(driver: Any) -> DualWriteActs:
    return acts_of(driver).dual_write


def rollback_acts(driver: Any, **besides: Any) -> RollbackActs:
    return acts_of(driver, **besides).rollback


def window_guard(driver: Any) -> WindowGuard:
    return acts_of(driver).claim.guard


async def persisted(driver: Any, position: Any) -> Happened:
    """How persisting the claim ended."""
    return await done(driver, acts_of(driver).copy.persistence.persist(position))


def as_act(happens: Callable[[], Awaitable[Happened]]) -> Act:
    """An act that changes nothing."""

    async def act() -> ActEnded:
        return ActEnded(await happens())

    return act
