"""Log lines about unknown peers: one a minute of each, however often they come.

In:   an event of the log, who it is about.
Out:  a line, or nothing.
Why:  whoever may open connections without a token could fill the disk with lines about them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger()

SAYS_EVERY_S: Final = 60.0
KEPT_MAX: Final = 1_000
"""Of those that are remembered; with more of them it begins again."""


class SaidOnce:
    """Warns of one event, at most once a minute for each subject. It belongs to one thread."""

    def __init__(self, event: str, clock: Callable[[], float] = time.monotonic, **always: str) -> None:
        """always: values of every line."""
        self._event = event
        self._clock = clock
        self._always = always
        self._said: dict[str, float] = {}

    def say(self, whom: str, **values: str) -> None:
        """A warning, unless there was one of the same in the last minute."""
        now = self._clock()
        if now - self._said.get(whom, -SAYS_EVERY_S) < SAYS_EVERY_S:
            return
        if len(self._said) >= KEPT_MAX:
            self._said.clear()
        self._said[whom] = now
        log.warning(self._event, **self._always, **values)
