"""The acts of a driver in tests: made of the driver's parts, and done as the loop does them.

In:   a `DriverNode`, whose parts a test may replace.
Out:  the acts; an act that ended has its changes assigned, and answers what happened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any

from migrator.driver.machine import Happened
from migrator.node.driver import driver_acts
from migrator.node.driver.act import Act, ActEnded
from migrator.node.driver.driver_node import DriverNode


class Done:
    """Acts of one kind. Before each use they get the parts that the driver has by then."""

    def __init__(self, driver: DriverNode, acts: Any) -> None:
        self.__dict__.update(_driver=driver, acts=acts)

    def __getattr__(self, name: str) -> Any:
        self._refresh(self.acts)
        found = getattr(self.acts, name)
        return self._as_the_loop(found) if callable(found) else found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.acts, name, value)

    def _as_the_loop(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            result = act(*arguments, **named)
            return self._ended(result) if isinstance(result, Awaitable) else result

        return call

    async def _ended(self, running: Awaitable[Any]) -> Any:
        ended = await running
        return self._driver._take(ended) if isinstance(ended, ActEnded) else ended

    def _refresh(self, acts: Any) -> None:
        for each in fields(acts):
            if each.name in ("updates", "retirement", "persistence", "guard"):
                self._refresh(getattr(acts, each.name))
            elif each.init and each.name not in ("copy_audit", "claim_audit", "fail"):
                setattr(acts, each.name, getattr(self._driver, each.name))


def gate_acts(driver: Any, audit: Any) -> Any:
    return Done(driver, driver_acts.gate_acts(driver, audit))


def claim_acts(driver: Any) -> Any:
    return Done(driver, driver_acts.claim_acts(driver))


def copy_acts(driver: Any, audit: Any) -> Any:
    return Done(driver, driver_acts.copy_acts(driver, audit))


def reconcile_acts(driver: Any) -> Any:
    return Done(driver, driver_acts.reconcile_acts(driver, driver_acts.update_acts(driver)))


def update_acts(driver: Any) -> Any:
    return Done(driver, driver_acts.update_acts(driver))


def dual_write_acts(driver: Any) -> Any:
    return Done(driver, driver_acts.dual_write_acts(driver))


def rollback_acts(driver: Any) -> Any:
    return Done(driver, driver_acts.rollback_acts(driver))


async def persisted(driver: Any, position: Any) -> Happened:
    """How persisting the claim ended."""
    return Happened(driver._take(await driver_acts.claim_persistence(driver).persist(position)))


def as_act(happens: Callable[[], Awaitable[Happened | ActEnded]]) -> Act:
    """An act that changes nothing."""

    async def act() -> ActEnded:
        happened = await happens()
        return happened if isinstance(happened, ActEnded) else ActEnded(happened)

    return act
