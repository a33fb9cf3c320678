"""What a phase wants of the cluster's nodes: with it page, status and metrics say whether a node is right.

In:   nothing. Out: `WantedModes`.
Elsewhere: which phase wants what (phase_table.py), what is observed of the nodes (api/nodes.py), what a step requires
(gates.py, gates_forward.py).
Rules: a node is wrong only by what its phase wants. A broker in KRaft mode is wrong before the takeover and right after
its restart; stock controllers answer at no control port, and that is no fault of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

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

    zookeeper: it has to answer.
    """

    brokers: frozenset[str]
    voters: Voters
    zookeeper: bool = True
