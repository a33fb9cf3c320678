"""What each phase wants of the cluster's nodes: one row per phase.

In:   nothing. Out: `WANTED`; with it page, status and metrics say whether a node is right.
Elsewhere: what is observed of the nodes (api/nodes.py), what a step requires (gates.py, road_gates.py).
Rules: a node is wrong only by what its phase wants. A broker in KRaft mode is wrong before the takeover and right after
its restart; stock controllers answer at no control port, and that is no fault of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from state_machine.policy.phases import Phase
from state_machine.policy.road_observations import Roll

ZOOKEEPER_MODE: Final = frozenset({"ZooKeeper"})
KRAFT_MODE: Final = frozenset({"KRaft"})
EITHER_MODE: Final = ZOOKEEPER_MODE | KRAFT_MODE
"""While a rolling restart takes brokers from one to the other."""


class Voters(StrEnum):
    """Whose processes the voters are. NONE: nobody has to run. SOME_STOCK: those that were replaced are stock."""

    NONE = "none"
    OURS = "ours"
    SOME_STOCK = "ours, and stock where it replaced ours"
    STOCK = "stock"


@dataclass(frozen=True, slots=True)
class WantedModes:
    """brokers: modes in which a registered broker is right; empty: nobody has to be registered with KRaft controllers.

    rolls: the rolling restarts of the phase; one with a failed node goes on only after a person's order.
    zookeeper: it has to answer.
    """

    brokers: frozenset[str]
    voters: Voters
    rolls: tuple[Roll, ...] = ()
    zookeeper: bool = True


_NOTHING_YET: Final = WantedModes(frozenset(), Voters.NONE)
_OURS: Final = WantedModes(ZOOKEEPER_MODE, Voters.OURS)

WANTED: Final[Mapping[Phase, WantedModes]] = {
    Phase.CREATED: _NOTHING_YET,
    Phase.PREFLIGHT: _NOTHING_YET,
    Phase.QUORUM: _OURS,
    Phase.BROKERS_JOINING: WantedModes(ZOOKEEPER_MODE, Voters.OURS, (Roll.JOIN,)),
    Phase.READY: _OURS,
    Phase.TAKEOVER: _OURS,
    Phase.COPY: _OURS,
    Phase.AUDIT: _OURS,
    Phase.DUAL_WRITE: _OURS,
    Phase.ROLLING_BROKERS: WantedModes(EITHER_MODE, Voters.OURS, (Roll.KRAFT,)),
    Phase.REPLACING_CONTROLLERS: WantedModes(KRAFT_MODE, Voters.SOME_STOCK, (Roll.STOCK,)),
    Phase.SOAK: WantedModes(KRAFT_MODE, Voters.STOCK, (Roll.SOAK,)),
    Phase.FINALIZING: WantedModes(KRAFT_MODE, Voters.STOCK, (Roll.FINAL,)),
    Phase.COMPLETED: WantedModes(KRAFT_MODE, Voters.STOCK, zookeeper=False),
    Phase.ABORTING: _OURS,
    Phase.ROLLING_BACK: WantedModes(EITHER_MODE, Voters.SOME_STOCK, (Roll.OURS, Roll.BACK, Roll.ORIGINAL)),
    Phase.ROLLED_BACK: _NOTHING_YET,
}
