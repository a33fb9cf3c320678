"""Places where a test may stall, kill or spoil a controller. The product itself sets none of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from migrator.driver.update_requests import BrokerUpdate
from migrator.raft.effects import AnswerFetch


async def _go_on(effect: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Hooks:
    """before: awaited with the name of each effect of the driver, right before it; the names are `EFFECTS`."""

    before: Callable[[str], Awaitable[None]] = _go_on
    full_updates: Callable[[list[BrokerUpdate]], list[BrokerUpdate]] = lambda orders: orders
    answer_fetch: Callable[[AnswerFetch], AnswerFetch] = lambda answer: answer


EFFECTS = (
    "latch",
    "claim",
    "raise epoch",
    "read",
    "encode",
    "audit",
    "append",
    "persist",
    "reconcile",
    "update",
    "enter dual-write",
    "mark rolled back",
    "close listener",
    "roll back",
    "abandon",
)
"""In the order of a migration: what a crash may come before."""
