"""A gatekeeper of the active controller that a test sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from migrator.findings.finding import Occurrence
from migrator.model.image import Image
from migrator.wire.schema import Message


@dataclass
class Allows:
    """Everything follows into ZooKeeper, and nothing is blocked."""

    writes: bool = True
    served: bool = False

    def writes_allowed(self, image: Image) -> bool:
        return self.writes

    def brokers_served(self) -> bool:
        return self.served

    def blocked(self) -> str | None:
        return None

    async def unmirrored(self, request: Message, image: Image) -> Mapping[str, Occurrence]:
        return {}
