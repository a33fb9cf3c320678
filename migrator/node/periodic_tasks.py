"""What the active controller does by the clock: NoOps, sessions and tokens that end, leaders that come home, unclean
leaders where a topic allows them.

In:   time that passes. Out: appends, where this node leads and changes may be made.
Elsewhere: what is decided (controller).
Source: Kafka 3.9 `PeriodicTaskControlManager`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

import structlog

from migrator.controller.brokers import fence_longest_silent, somebody_is_silent
from migrator.controller.decision import Record, Situation
from migrator.controller.elections import preferred_leaders, unclean_leaders
from migrator.controller.tokens import expired_tokens
from migrator.node.active_controller import ActiveController
from migrator.node.config import NodeConfig
from migrator.wire.messages.metadata import PartitionChangeRecord

log = structlog.get_logger()

TICK_S: Final = 0.1
SILENCE_LOOK_S: Final = 0.5

BALANCE_MAX: Final = 1_000
"""Preferred-leader changes, and unclean elections, per round."""


async def run_periodic_tasks(controller: ActiveController, config: NodeConfig) -> None:
    """For ever."""
    next_silence = time.monotonic()
    next_balance = next_silence + config.leader_imbalance_check_interval_s
    next_unclean = next_silence + config.unclean_check_interval_ms / 1000
    next_sweep = next_silence + config.token_check_interval_ms / 1000
    while True:
        await asyncio.sleep(TICK_S)
        now = time.monotonic()
        controller.append_noop_when_idle(config.idle_interval_ms)
        if now >= next_silence:
            await fence_silent(controller)
            next_silence = now + SILENCE_LOOK_S
        if config.auto_leader_rebalance and now >= next_balance:
            await controller.append_unasked(_balanced_leaders)
            next_balance = now + config.leader_imbalance_check_interval_s
        if now >= next_unclean:
            again = await controller.append_unasked(_unclean_leaders)  # as many rounds as there are partitions for
            next_unclean = now if again else now + config.unclean_check_interval_ms / 1000
        if now >= next_sweep:
            await controller.append_unasked(_swept_tokens)
            next_sweep = now + config.token_check_interval_ms / 1000


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
