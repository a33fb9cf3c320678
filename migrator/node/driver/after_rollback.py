"""The act after a rollback: which brokers forward nothing to the controller that they have now.

In:   the brokers that the retired log knows.
Out:  an alarm (Z2K-2043) that names the brokers whose forwarding does not work, until each of them answers.
Elsewhere: how a broker is asked (brokers.survey); the flaw of Kafka's brokers that this is about (docs/undo.md).
Nothing is written anywhere, and the answers decide nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from migrator.driver.update_requests import reachable
from migrator.findings.driver import BROKERS_FORWARD_NOTHING
from migrator.node.brokers.survey import ask_forwarding
from migrator.node.driver.act import ActEnded, HasParts

LOOK_S = 15.0


@dataclass(kw_only=True)
class AfterRollback(HasParts):
    """Watches the brokers after a rollback."""

    _before: set[int] = field(default_factory=set, init=False)

    async def watch_brokers(self) -> ActEnded:
        """Look at the brokers again and again, for as long as this process runs."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Ask each broker once; silence at two looks running is named."""
        brokers = reachable(self.controller.image)
        answered, _ = await ask_forwarding(
            brokers, self.config.inter_broker_listener, str(self.config.node_id), self.parts.to_brokers
        )
        silent = {broker for broker, forwards in answered.items() if not forwards}
        lasting = sorted(silent & self._before)
        self._before = silent
        found = BROKERS_FORWARD_NOTHING.found(brokers=lasting, count=len(lasting)) if lasting else None
        self.progress.alarm(BROKERS_FORWARD_NOTHING.code, found)
