"""Say which requests were denied, without a line for each of them.

In:   denied requests with their principals.
Out:  a log line for the first of its kind, then one a minute with how many there were.
Elsewhere: who may do what (controller.permissions).
A peer that is not allowed asks again some dozens of times a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger()

SAY_AGAIN_S: Final = 60.0
KINDS_MAX: Final = 1_000
"""Whoever may connect chooses the host; what is beyond is said as one kind."""


class Denials:
    """By request and principal. clock: steady, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._said: dict[tuple[str, str], tuple[float, int]] = {}

    def denied(self, request: str, principal: str, host: str) -> None:
        kind = (request, principal)
        if kind not in self._said and len(self._said) >= KINDS_MAX:
            kind = ("", "")
        at, unsaid = self._said.get(kind, (None, 0))
        now = self._clock()
        if at is not None and now - at < SAY_AGAIN_S:
            self._said[kind] = (at, unsaid + 1)
            return
        self._said[kind] = (now, 0)
        log.warning("request.denied", request=request, principal=principal, host=host, not_said=unsaid)
