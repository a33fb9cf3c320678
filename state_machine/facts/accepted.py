"""What the inventory says of a cluster beside its nodes: accepted exceptions, and times as they are configured."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class WaiverFact:
    """A waiver of the inventory. what: a condition's name or a finding's code. node: None for the cluster.

    end: seconds since 1970.
    """

    what: str
    node: int | None
    reason: str
    owner: str
    end: float


class Limits(msgspec.Struct, frozen=True):
    """Times as the service is configured, in seconds, and whether one person may approve alone."""

    settle_s: float = 60.0
    soak_s: float = 86_400.0
    brokers_gone_s: float = 60.0
    single_operator: bool = False
