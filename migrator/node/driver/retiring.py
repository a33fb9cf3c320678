"""Retiring a log: the mark that ends its use, in the log for every voter and beside it on this disk.

In:   the text of the mark. Out: the mark committed, written to this disk, and known to the voters that answer in time.
Elsewhere: when that has to be (rollback.py, claiming.py), what a voter does that finds it (process.retirement).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from migrator.model.values import Mark
from migrator.node.driver.act import HasParts
from migrator.node.log.storage import RetiredMark

SPREAD_S = 2.0
"""How long a rollback waits for voters that lag: a majority has the mark in any case."""


@dataclass(kw_only=True)
class Retirement(HasParts):
    """Retires the log of one driver."""

    retired_mark: RetiredMark

    async def retire(self, text: str) -> None:
        """Returns when a majority has the mark, and all voters have it or the time is over."""
        await self.controller.mark(Mark.RETIRED, text)
        await asyncio.to_thread(self.retired_mark.write, text)
        await self.parts.quorum.known_to_all(SPREAD_S, self.progress.waiting)
