"""What becomes of a migration when ZooKeeper is in trouble, by phase: the table of docs/zookeeper-trouble.md.

In:   nothing.
Out:  `ENDINGS`: for each phase and each trouble the state in which the driver ends, and the code that it names.
Elsewhere: who brings a controller there (tests/e2e/trouble_stage.py), the page (tests/unit/test_trouble_page.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """Where a controller is when the trouble begins. With an effect: right before it."""

    WAITING = "waiting for brokers, reading ahead"
    CLAIMING = "about to claim"
    COPYING = "reading again in the window"
    AUDITING = "about to compare in the window"
    COMMITTED = "committed, the claim not made to last"
    SYNCING = "about to bring ZooKeeper up to the log"
    UPDATING = "about to tell the brokers"
    DUAL_WRITE = "dual-write"
    ROLLING_BACK = "rolling back, both sides compared"
    LEAVING = "rolling back, the log retired"


EFFECTS: Final = {
    Phase.CLAIMING: "claim",
    Phase.COPYING: "read",
    Phase.AUDITING: "audit",
    Phase.COMMITTED: "persist",
    Phase.SYNCING: "reconcile",
    Phase.UPDATING: "update",
    Phase.ROLLING_BACK: "mark rolled back",
    Phase.LEAVING: "roll back",
}
"""Names of `migrator.node.quorum.hooks.EFFECTS`."""


class Trouble(StrEnum):
    RESTART = "restart of every server"
    LEADER_LOST = "the ensemble's leader is killed"
    EXPIRED = "the session expires"
    OUTAGE = "30 s without ZooKeeper"
    READ_ONLY = "no majority, one server read-only"
    NOT_READABLE = "one topic may not be read"
    NOT_WRITABLE = "one topic may not be changed"


@dataclass(frozen=True, slots=True)
class Ending:
    """state: in which the driver rests; there may be two. code: what it names there, or meanwhile."""

    states: tuple[str, ...]
    code: str | None = None


WAITS: Final = Ending(("WAIT_BROKERS",), "Z2K-2002")
GOES_ON: Final = Ending(("DUAL_WRITE",))
CATCHES_UP: Final = Ending(("DUAL_WRITE",), "Z2K-2002")
RETIRES: Final = Ending(("RETIRED",))
EITHER: Final = Ending(("WAIT_BROKERS", "DUAL_WRITE"))

_SHORT: Final = {
    Phase.WAITING: WAITS,
    Phase.CLAIMING: WAITS,
    Phase.COPYING: CATCHES_UP,
    Phase.AUDITING: CATCHES_UP,
    Phase.COMMITTED: CATCHES_UP,
    Phase.SYNCING: CATCHES_UP,
    Phase.UPDATING: CATCHES_UP,
    Phase.DUAL_WRITE: CATCHES_UP,
    Phase.ROLLING_BACK: RETIRES,
    Phase.LEAVING: RETIRES,
}
_LONG: Final = _SHORT | {
    Phase.COPYING: Ending(("ABORTED",), "Z2K-2015"),
    Phase.AUDITING: Ending(("ABORTED",), "Z2K-2015"),
    Phase.COMMITTED: Ending(("RETIRED",), "Z2K-2052"),
    Phase.SYNCING: Ending(("RETIRED",), "Z2K-2052"),
}
_BY_TROUBLE: Final = {
    Trouble.RESTART: _SHORT,
    Trouble.LEADER_LOST: _SHORT
    | dict.fromkeys((Phase.COPYING, Phase.AUDITING, Phase.COMMITTED, Phase.SYNCING), GOES_ON)
    | {Phase.WAITING: Ending(("WAIT_BROKERS",)), Phase.CLAIMING: EITHER, Phase.UPDATING: GOES_ON}
    | {Phase.DUAL_WRITE: GOES_ON},
    Trouble.EXPIRED: {
        Phase.WAITING: Ending(("WAIT_BROKERS",)),
        Phase.CLAIMING: EITHER,
        Phase.COPYING: Ending(("ABORTED",), "Z2K-2051"),
        Phase.AUDITING: Ending(("ABORTED",), "Z2K-2051"),
        Phase.COMMITTED: Ending(("RETIRED",), "Z2K-2051"),
        Phase.SYNCING: GOES_ON,
        Phase.UPDATING: GOES_ON,
        Phase.DUAL_WRITE: GOES_ON,
        Phase.ROLLING_BACK: RETIRES,
        Phase.LEAVING: RETIRES,
    },
    Trouble.OUTAGE: _LONG,
    Trouble.READ_ONLY: _LONG,
    Trouble.NOT_READABLE: {
        Phase.WAITING: Ending(("WAIT_BROKERS",), "Z2K-2004"),
        Phase.CLAIMING: Ending(("ABORTED",), "Z2K-2004"),
        Phase.COPYING: Ending(("ABORTED",), "Z2K-2004"),
        Phase.AUDITING: Ending(("ABORTED",), "Z2K-2004"),
        Phase.COMMITTED: Ending(("RETIRED",), "Z2K-2052"),
        Phase.SYNCING: Ending(("RETIRED",), "Z2K-2052"),
        Phase.UPDATING: GOES_ON,
        Phase.DUAL_WRITE: Ending(("DUAL_WRITE",), "Z2K-2004"),
        Phase.ROLLING_BACK: RETIRES,
        Phase.LEAVING: RETIRES,
    },
    Trouble.NOT_WRITABLE: {
        Phase.WAITING: Ending(("WAIT_BROKERS",), "Z2K-1045"),
        **dict.fromkeys(list(Phase)[1:7], GOES_ON),
        Phase.DUAL_WRITE: Ending(("DUAL_WRITE",), "Z2K-2050"),
        Phase.ROLLING_BACK: RETIRES,
        Phase.LEAVING: RETIRES,
    },
}
ENDINGS: Final = {(phase, trouble): found[phase] for trouble, found in _BY_TROUBLE.items() for phase in Phase}
