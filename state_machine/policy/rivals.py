"""One cluster is one migration: which of several that are about the same cluster may go on.

In:   a migration and the others with the same `/cluster/id`.
Out:  the one that keeps it from going on, if any.
Elsewhere: how a cluster id is read (observe.py), what closes by it (gates.py, acts.py).
Rule: the one that is further has the cluster; of two that are as far, the older one. One that went back has nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from migrator.findings.finding import Occurrence
from migrator.findings.service import CLUSTER_TAKEN
from state_machine.policy.phases import Phase

STARTED: Final = frozenset({Phase.QUORUM, Phase.BROKERS_JOINING, Phase.READY})
OVER: Final = frozenset({Phase.ROLLED_BACK, Phase.COMPLETED})
ONLY_READ: Final = frozenset({Phase.CREATED, Phase.PREFLIGHT})


@dataclass(frozen=True, slots=True)
class Rival:
    """Another migration of the same cluster."""

    number: int
    name: str
    phase: str
    cluster: str

    def found(self) -> Occurrence:
        return CLUSTER_TAKEN.found(cluster=self.cluster, number=self.number, name=self.name, phase=self.phase)


def rival_of(number: int, phase: str, others: Iterable[Rival]) -> Rival | None:
    """others: with the same cluster id, without this one."""
    mine = (-_rank(phase), number)
    ahead = [each for each in others if each.phase not in OVER and (-_rank(each.phase), each.number) < mine]
    return min(ahead, key=lambda each: (-_rank(each.phase), each.number), default=None)


def _rank(phase: str) -> int:
    """A phase that this release does not know counts as one that holds a claim."""
    if phase in ONLY_READ or phase in OVER:
        return 0
    return 1 if phase in STARTED else 2
