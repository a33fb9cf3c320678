"""Flaws of Kafka's own migration driver that show themselves, as findings (`engine: stock`).

In:   a snapshot and the time. Out: occurrences of findings, each with the flaw's number in docs/better-than-stock.md.
Elsewhere: a leader that writes nothing (Z2K-4244), credentials that a restart loses (Z2K-4224), what
`check` finds before; docs/stock-engine.md has the whole list: flaw, sign, finding, what mends it.
Rules: a sign is what log, ZooKeeper or brokers show. Nothing is said of what nobody outside can see.
Source: Kafka 3.9 `KRaftMigrationDriver`, `KafkaZkClient.tryRegisterKRaftControllerAsActiveController`.
"""

from __future__ import annotations

from typing import Final

from migrator.control_api.states import State
from migrator.findings.finding import Occurrence
from migrator.findings.road import STOCK_CANNOT_COMPARE, STOCK_STANDS_STILL
from state_machine.evidence.stock_driver import StockDriver, stock_driver
from state_machine.rows.store import Snapshot

STANDS_S: Final = 60.0
"""A copy of 100,000 partitions takes stock some 20 s; it shows itself as an open transaction meanwhile."""
NOT_BEGUN: Final = 1
NOT_NOTED: Final = 2


def flaw_findings(snapshot: Snapshot, now: float) -> tuple[Occurrence, ...]:
    """Those that stand now."""
    look = snapshot.observation
    if look is None or not look.log.known or not snapshot.inventory.has_stock:
        return ()
    found = [] if look.log.migration == "POST_MIGRATION" else [_of_configuration(look.log.only_kraft)]
    found.append(_of_standing(snapshot, stock_driver(look), now))
    return tuple(each for each in found if each is not None)


def _of_configuration(only_kraft: tuple[str, ...]) -> Occurrence | None:
    return STOCK_CANNOT_COMPARE.found(what="; ".join(only_kraft)) if only_kraft else None


def _of_standing(snapshot: Snapshot, driver: StockDriver, now: float) -> Occurrence | None:
    """By how long this phase has lasted: each of these states takes a moment, or as long as its copy."""
    look = snapshot.observation
    seconds = now - snapshot.migration.since
    if look is None or seconds < STANDS_S:
        return None
    signs = {
        State.COPYING: (NOT_BEGUN, "it has begun no metadata transaction since its claim"),
        State.SYNCING: (NOT_NOTED, "its copy is committed, and /migration names no offset of it"),
    }
    flaw, sign = signs.get(driver.state, (0, "")) if driver.state is not None else (0, "")
    if not flaw:
        return None
    node = look.zookeeper.holder_id
    return STOCK_STANDS_STILL.found(node=node, seconds=f"{seconds:.0f}", sign=sign, flaw=flaw)
