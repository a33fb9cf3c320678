"""Which requests were denied, to whom and why, without a line for each of them.

In:   denied requests: the operation that is lacked, the principal, and where it asks from.
Out:  a log line for the first of its kind, then one a minute with how many there were; what was denied lately, for the
      status of the controller; a finding for each principal that lacks what brokers and controllers need.
Elsewhere: who may do what (controller.security.permissions).
A peer that is not allowed asks again some dozens of times a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import structlog

from migrator.findings.finding import Occurrence
from migrator.findings.preflight import PEER_DENIED
from migrator.model.values import AclOperation

log = structlog.get_logger()

SAY_AGAIN_S: Final = 60.0
STANDS_S: Final = 120.0
"""It is shown for so long after the last one; a peer that waits between its tries waits less."""
KINDS_MAX: Final = 1_000
"""Whoever may connect chooses the host; what is beyond is said as one kind."""
SHOWN: Final = 20
OTHERS: Final = "other principals"


class _Kind:
    """Denied requests of one principal, for one operation. Times of the steady clock in seconds."""

    def __init__(self, since: float) -> None:
        self.since = self.last = since
        self.count = 0
        self.requests: set[str] = set()
        self.host = ""


class Denials:
    """What was denied in one process, on all listeners together. clock: steady; wall: of day; both in seconds."""

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._wall = wall
        self._said: dict[tuple[str, str], tuple[float, int]] = {}
        self._kinds: dict[tuple[str, AclOperation], _Kind] = {}

    def denied(self, request: str, operation: AclOperation, principal: str, host: str) -> None:
        now = self._clock()
        self._count(now, request, operation, principal, host)
        kind = (request, principal)
        if kind not in self._said and len(self._said) >= KINDS_MAX:
            kind = ("", "")
        at, unsaid = self._said.get(kind, (None, 0))
        if at is not None and now - at < SAY_AGAIN_S:
            self._said[kind] = (at, unsaid + 1)
            return
        self._said[kind] = (now, 0)
        lacks = kafka_name(operation)
        log.warning("request.denied", request=request, principal=principal, lacks=lacks, host=host, not_said=unsaid)

    def _count(self, now: float, request: str, operation: AclOperation, principal: str, host: str) -> None:
        key = (principal, operation)
        if key not in self._kinds and len(self._kinds) >= KINDS_MAX:
            key = (OTHERS, operation)
        kind = self._kinds.get(key)
        if kind is None or now - kind.last > STANDS_S:
            kind = self._kinds[key] = _Kind(now)
        kind.last, kind.host = now, host
        kind.count += 1
        kind.requests.add(request)

    def _standing(self) -> list[tuple[str, AclOperation, _Kind]]:
        """Those of the last two minutes, the most frequent first."""
        now = self._clock()
        found = [(*key, kind) for key, kind in self._kinds.items() if now - kind.last <= STANDS_S]
        return sorted(found, key=lambda each: (-each[2].count, each[0], each[1]))[:SHOWN]

    def as_json(self) -> list[dict[str, Any]]:
        """since, last: seconds since 1970."""
        behind = self._wall() - self._clock()
        return [
            {
                "principal": principal,
                "operation": kafka_name(operation),
                "requests": sorted(kind.requests),
                "host": kind.host,
                "count": kind.count,
                "since": round(behind + kind.since, 3),
                "last": round(behind + kind.last, 3),
            }
            for principal, operation, kind in self._standing()
        ]

    @property
    def findings(self) -> list[Occurrence]:
        """Clients ask for what they may not do, too; only brokers and controllers ask for what needs ClusterAction."""
        return [
            PEER_DENIED.found(principal=principal, operation=kafka_name(operation))
            for principal, operation, _ in self._standing()
            if operation is AclOperation.CLUSTER_ACTION
        ]


def kafka_name(operation: AclOperation) -> str:
    """The name that kafka-acls.sh writes."""
    return operation.name.title().replace("_", "")
