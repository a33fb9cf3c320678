"""Brokers that live in ZooKeeper and do not follow our quorum.

In:   who is in `/brokers/ids`, the image, the time; look after look.
Out:  the finding for the first such broker, once it has been one for long enough.
Elsewhere: when to look (node.driver.dual_write).
In dual-write only a registered broker gets updates. One that was started without the migration (or is new, or asks
another quorum) is in `/brokers/ids` like any other, and clients that reach it are served from what it knew before:
nothing else in the cluster says so.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from migrator.findings.driver import BROKER_DOES_NOT_FOLLOW
from migrator.findings.finding import Occurrence
from migrator.model.image import Image

SETTLED_MS: Final = 15_000
"""A broker that starts is in ZooKeeper first, and registered and unfenced some seconds later."""


class NotFollowing:
    """Finds brokers that stay in ZooKeeper and do not follow this quorum. Times are milliseconds of any clock."""

    def __init__(self) -> None:
        self._since: dict[int, int] = {}

    def look(self, live: Collection[int], image: Image, now_ms: int) -> Occurrence | None:
        strange = sorted(broker for broker in live if broker not in image.brokers or image.brokers[broker].fenced)
        self._since = {broker: self._since.get(broker, now_ms) for broker in strange}
        settled = [broker for broker in strange if now_ms - self._since[broker] >= SETTLED_MS]
        if not settled:
            return None
        known = "registered and fenced" if settled[0] in image.brokers else "not registered"
        return BROKER_DOES_NOT_FOLLOW.found(broker=settled[0], count=len(settled), known=known)
