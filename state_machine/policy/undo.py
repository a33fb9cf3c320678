"""What undo costs in each phase: the command, the brokers that restart, what is lost.

In:   a phase. Out: its row, as `zk2kraft status`, the page and the report show it.
Elsewhere: the steps themselves (phases.py). Kept true by the end-to-end tests of the rollback and the abort.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from state_machine.policy.phases import BEFORE_TAKEOVER, LATER, Phase


@dataclass(frozen=True, slots=True)
class Undo:
    """command: what to type, empty when nothing can or need be undone."""

    command: str
    does: str
    restarts: str
    lost: str
    without_controller: str


_BEFORE: Final = Undo("zk2kraft rollback", "our controllers are stopped", "none", "nothing", "0 s")
_WINDOW: Final = Undo(
    "zk2kraft abort",
    "the takeover is aborted; it also aborts by itself at its time limit, or when the ZooKeeper session ends",
    "none",
    "nothing",
    "from the begin of the takeover to the end of the abort",
)
_DUAL_WRITE: Final = Undo(
    "zk2kraft rollback",
    "a ZooKeeper-mode broker becomes controller (if none of our controllers runs: "
    "`zk2kraft rollback --without-controllers`)",
    "none",
    "records that only KRaft has (this release writes none); the metadata log is retired: another migration needs a "
    "fresh quorum and a restart of every broker first",
    "under 1 s",
)
_UNDER_WAY: Final = Undo("", "the rollback or abort is running", "none", "nothing", "under 1 s")
_NOTHING: Final = Undo("", "there is nothing to undo", "none", "nothing", "0 s")

UNDO: Final[Mapping[Phase, Undo]] = {
    **dict.fromkeys(BEFORE_TAKEOVER, _BEFORE),
    Phase.TAKEOVER: _WINDOW,
    Phase.COPY: _WINDOW,
    Phase.AUDIT: _WINDOW,
    Phase.ABORTING: _UNDER_WAY,
    Phase.DUAL_WRITE: _DUAL_WRITE,
    Phase.ROLLING_BACK: _UNDER_WAY,
    Phase.ROLLED_BACK: _NOTHING,
    **dict.fromkeys(LATER, _NOTHING),
}
