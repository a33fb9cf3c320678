"""What the active controller does by the clock: NoOps, sessions and tokens that end, leaders that come home, unclean
leaders where a topic allows them.

In:   time that passes. Out: appends, where this node leads and changes may be made.
Elsewhere: what is decided (controller).
Source: Kafka 3.9 `PeriodicTaskControlManager`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog

from migrator.controller.brokers import fence_longest_silent, somebody_is_silent
from migrator.controller.decision import Record, Situation
from migrator.controller.partitions.elections import preferred_leaders, unclean_leaders
from migrator.controller.security.tokens import expired_tokens
from migrator.node.background import AGAIN_MAX_S, AGAIN_S, Alarm, alarm_name, unexpected
from migrator.node.config.properties import NodeConfig
from migrator.node.leader.active_controller import ActiveController
from migrator.wire.messages.metadata import PartitionChangeRecord

log = structlog.get_logger()

TICK_S: Final = 0.1
SILENCE_LOOK_S: Final = 0.5

BALANCE_MAX: Final = 1_000
"""Preferred-leader changes, and unclean elections, per round."""


@dataclass(slots=True)
class Duty:
    """One thing that is due again and again. act: whether there is more of it at once."""

    name: str
    pause_s: float
    act: Callable[[], Awaitable[bool]]
    due_s: float
    faults: int = 0
    """In a row."""

    async def look(self, now_s: float, alarm: Alarm) -> None:
        """A fault that nobody thought of is named and ends this duty alone: the next leader has the same image."""
        if now_s < self.due_s:
            return
        try:
            again = await self.act()
        except Exception as fault:
            log.exception("duty.failed", duty=self.name)
            alarm(alarm_name(self.name), unexpected(self.name, fault))
            self.due_s = now_s + max(self.pause_s, min(AGAIN_S * 2.0**self.faults, AGAIN_MAX_S))
            self.faults += 1
            return
        if self.faults:
            alarm(alarm_name(self.name), None)
        self.faults = 0
        self.due_s = now_s if again else now_s + self.pause_s


async def run_periodic_tasks(
    controller: ActiveController, config: NodeConfig, alarm: Alarm = lambda name, found: None
) -> None:
    """Do the duties of a leader for ever. What the log refuses ends this node by itself (raft_node.py)."""
    duties = _duties(controller, config, time.monotonic())
    while True:
        await asyncio.sleep(TICK_S)
        for duty in duties:
            await duty.look(time.monotonic(), alarm)


def _duties(controller: ActiveController, config: NodeConfig, now_s: float) -> list[Duty]:
    async def idle() -> bool:
        controller.append_noop_when_idle(config.idle_interval_ms)
        return False

    async def fence() -> bool:
        await fence_silent(controller)
        return False

    async def balance() -> bool:
        await controller.append_unasked(_balanced_leaders)
        return False

    async def elect() -> bool:
        return await controller.append_unasked(_unclean_leaders)  # as many rounds as there are partitions for

    async def sweep() -> bool:
        await controller.append_unasked(_swept_tokens)
        return False

    balance_s, unclean_s = config.leader_imbalance_check_interval_s, config.unclean_check_interval_ms / 1000
    sweep_s = config.token_check_interval_ms / 1000
    balancing = (
        [Duty("balancing leaders", balance_s, balance, now_s + balance_s)] if config.auto_leader_rebalance else []
    )
    return [
        Duty("writing a NoOp", 0.0, idle, now_s),
        Duty("fencing silent brokers", SILENCE_LOOK_S, fence, now_s),
        *balancing,
        Duty("electing unclean leaders", unclean_s, elect, now_s + unclean_s),
        Duty("removing expired tokens", sweep_s, sweep, now_s + sweep_s),
    ]


async def fence_silent(controller: ActiveController) -> None:
    """Fence brokers whose session ended, one after the other. Not in pre-migration: another controller rules then."""
    while await controller.append_unasked(_fenced, somebody_is_silent):
        pass


def _fenced(situation: Situation) -> list[Record]:
    found = fence_longest_silent(situation)
    if found is None:
        return []
    broker, records = found
    log.warning("broker.fenced", broker=broker, partitions=len(records) - 1, reason="session ended")
    return records


def _balanced_leaders(situation: Situation) -> list[Record]:
    records = preferred_leaders(situation, BALANCE_MAX)
    if records:
        log.info("leaders.balanced", partitions=len(records))
    return records


def _unclean_leaders(situation: Situation) -> list[Record]:
    """Until this a partition whose topic began to allow it, or whose replica came back, waits without a leader."""
    records = unclean_leaders(situation, BALANCE_MAX)
    if records:
        log.error("leaders.unclean", partitions=len(records), topics=_topics(situation, records)[:10])
    return records


def _topics(situation: Situation, records: list[Record]) -> list[str]:
    changes = [message for message, _ in records if isinstance(message, PartitionChangeRecord)]
    return sorted({situation.image.topics[each.topic_id].name for each in changes})


def _swept_tokens(situation: Situation) -> list[Record]:
    """Delegation tokens that expired are removed, so that they are gone from ZooKeeper too."""
    records = expired_tokens(situation)
    if records:
        log.info("tokens.expired", tokens=len(records))
    return records
