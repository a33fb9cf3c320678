"""What the driver says to the active controller: whether a request may change anything, and what cannot follow.

In:   the driver's state, the session with ZooKeeper, how far ZooKeeper is behind.
Out:  a `Gatekeeper` (leader.gatekeeper). It exists before the active controller and knows neither it nor the loop.
Elsewhere: in which states (driver.machine, driver.divergence), who asks (leader.active_controller).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from migrator.driver.machine import serves_brokers, writes_allowed, writes_without_claim
from migrator.findings.finding import Occurrence
from migrator.model.image import Image
from migrator.node.driver.act import DriverView
from migrator.node.driver.divergence_watch import DivergenceWatch
from migrator.node.driver.password_writes import unmirrored
from migrator.wire.schema import Message
from migrator.zk.passwords import PasswordEncoder


class Connected(Protocol):
    @property
    def connected(self) -> bool: ...


def may_write(now: DriverView, image: Image) -> bool:
    """Whether requests may change metadata, and the driver may append marks. image: with what is not committed yet."""
    return writes_allowed(now.state) or writes_without_claim(now.state, image)


class DriverGatekeeper:
    """Speaks for one driver. passwords: encodes as ZooKeeper has them."""

    def __init__(
        self, now: DriverView, session: Connected, divergence: DivergenceWatch, passwords: PasswordEncoder | None
    ) -> None:
        self._now = now
        self._session = session
        self._divergence = divergence
        self._passwords = passwords

    def writes_allowed(self, image: Image) -> bool:
        return may_write(self._now, image)

    def brokers_served(self) -> bool:
        return serves_brokers(self._now.state, zookeeper_answers=self._session.connected)

    def blocked(self) -> str | None:
        return self._divergence.refusal()

    async def unmirrored(self, request: Message, image: Image) -> Mapping[str, Occurrence]:
        return await unmirrored(request, image, self._passwords, self._now.unreadable)
