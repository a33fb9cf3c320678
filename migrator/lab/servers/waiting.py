"""Waiting with a name, a deadline and a reason: the only loop of the laboratory that polls.

In:   a function that answers None when it is so, else why not yet.
Out:  the seconds it took; while waiting, one line every few seconds says for what.
Errors: Z2K-6003 at the deadline, or at once when the process waited for has ended.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from migrator.findings.laboratory import PROCESS_NOT_READY

REMIND_EVERY_S: Final = 3.0
POLL_EVERY_S: Final = 0.02
"""A look costs well under a millisecond; 20 ms keeps the wait from being part of what is measured."""
COSTS_MUCH_S: Final = 0.005
REST: Final = 4.0
"""After a look that costs more (every partition in ZooKeeper, a view of the service) comes a pause so many times as
long: who is waited for needs the processor too."""
REST_MAX_S: Final = 0.5

Say: TypeAlias = Callable[[str], None]


class Watched(Protocol):
    """What a wait needs to know of a process: whether it still lives, and where its words are."""

    @property
    def alive(self) -> bool: ...
    @property
    def log(self) -> Path: ...
    def log_tail(self) -> str: ...


def say_on_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def wait_until(
    why_not: Callable[[], str | None],
    *,
    name: str,
    deadline_s: float,
    process: Watched | None = None,
    say: Say = say_on_stderr,
    poll_every_s: float = POLL_EVERY_S,
) -> float:
    """Ask `why_not` until it answers None; return the seconds that took.

    name:    who or what is waited for, as it should appear in the line and in the finding.
    process: when it ends first, the wait ends with it, quoting the end of its log.
    poll_every_s: the least pause between two looks.

    Raises Z2K-6003 with the last reason.
    """
    started = time.monotonic()
    reminded = started
    looked = started
    while (reason := why_not()) is not None:
        now = time.monotonic()
        if process is not None and not process.alive:
            raise _not_ready(name, now - started, f"it ended ({process.log_tail()})", process)
        if now - started > deadline_s:
            raise _not_ready(name, deadline_s, reason, process)
        if now - reminded >= REMIND_EVERY_S:
            say(f"waiting: {name}: {reason} ({now - started:.0f} s)")
            reminded = now
        rest_s = min(REST * (now - looked), REST_MAX_S) if now - looked > COSTS_MUCH_S else 0.0
        time.sleep(max(poll_every_s, rest_s))
        looked = time.monotonic()
    return time.monotonic() - started


def _not_ready(name: str, seconds: float, reason: str, process: Watched | None) -> Exception:
    log = process.log if process is not None else "none"
    return PROCESS_NOT_READY.error(name=name, seconds=round(seconds, 1), reason=reason, log=log)
