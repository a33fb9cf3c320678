"""A voter that learned from the log that the cluster was rolled back retires.

In:   the mark, as the log has it.
Out:  the mark on the disk, listeners closed, the quorum left, the rollback finished.
Elsewhere: rolling back, and its last step (rollback.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from migrator.findings.finding import FindingError
from migrator.node.config.properties import NodeConfig
from migrator.node.driver.retiring import SPREAD_S
from migrator.node.driver.rollback import finish
from migrator.node.log.storage import RetiredMark
from migrator.node.quorum.raft_node import RaftNode

log = structlog.get_logger()

RETIRE_AFTER_S: Final = 2 * SPREAD_S
"""A voter that learned of a rollback goes on fetching so long, so that the others learn of it through the leader."""
RETIRE_PAUSE_MAX_S: Final = 30.0


async def retire(
    config: NodeConfig, mark: RetiredMark, text: str, raft: RaftNode, close_listeners: Callable[[], Awaitable[None]]
) -> None:
    """The voter that wrote the mark does the last step; when it died before, this one does."""
    await asyncio.to_thread(mark.write, text)
    await asyncio.sleep(RETIRE_AFTER_S)
    await close_listeners()
    await raft.leave()
    pause_s = RETIRE_AFTER_S
    while True:
        try:
            await asyncio.to_thread(finish, config, text)
            break
        except FindingError as error:
            log.warning("retirement.waits", reason=str(error))
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETIRE_PAUSE_MAX_S)
