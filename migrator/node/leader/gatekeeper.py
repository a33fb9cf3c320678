"""Who says whether the active controller may change metadata now: the driver of a migration, or nothing at all.

In:   a request. Out: whether it may be carried out, and what of it cannot follow into ZooKeeper.
Elsewhere: the driver's answer (driver.gatekeeper), the refusals (controller.requests).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from migrator.findings.finding import Occurrence
from migrator.model.image import Image
from migrator.model.values import ConfigType
from migrator.wire.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from migrator.wire.schema import Message


class Gatekeeper(Protocol):
    """Asked at every request, on the loop's thread."""

    def writes_allowed(self, image: Image) -> bool:
        """Whether requests may change metadata. image: with what is not committed yet."""

    def brokers_served(self) -> bool:
        """Whether brokers get their leaders and ISRs where writes are not allowed (`driver.machine.serves_brokers`)."""

    def blocked(self) -> str | None:
        """Why administrators may change nothing now; None while they may."""

    async def unmirrored(self, request: Message, image: Image) -> Mapping[str, Occurrence]:
        """What of the request could not follow into ZooKeeper, by broker ("" for all).

        Asked twice of a request that `is_looked_into`: what takes long is done the first time, outside its turn.
        """


def is_looked_into(request: Message) -> bool:
    """Whether brokers' settings are asked for, which may be passwords: others always follow into ZooKeeper."""
    return isinstance(request, (AlterConfigsRequest, IncrementalAlterConfigsRequest)) and any(
        each.resource_type == ConfigType.BROKER for each in request.resources
    )


@dataclass(frozen=True, slots=True)
class NoDriver:
    """Stands in where there is no driver: nothing is written with the migration enabled, and everything without it."""

    migration_enabled: bool

    def writes_allowed(self, image: Image) -> bool:
        return not self.migration_enabled

    def brokers_served(self) -> bool:
        return False

    def blocked(self) -> str | None:
        return None

    async def unmirrored(self, request: Message, image: Image) -> Mapping[str, Occurrence]:
        return {}
