"""One cluster is one migration: which of several that are about the same cluster may go on.

In:   a migration and the others with the same `/cluster/id`.
Out:  the one that keeps it from going on, if any.
Elsewhere: how a cluster id is read (observe.py), what closes by it (gates.py, work/acts.py).
Rule: the one that is further has the cluster; of two that are as far, the older one. One that went back has nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from migrator.findings.finding import Occurrence
from migrator.findings.service import CLUSTER_TAKEN
from state_machine.policy.phase_table import PhaseStage, row_of


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
    ahead = [each for each in others if not is_over(each.phase) and (-_rank(each.phase), each.number) < mine]
    return min(ahead, key=lambda each: (-_rank(each.phase), each.number), default=None)


def _rank(phase: str) -> int:
    """A phase that this release does not know counts as one that holds a claim."""
    row = row_of(phase)
    if row is None or not (row.before_takeover or row.stage is PhaseStage.OVER):
        return 2
    return 1 if row.stage is PhaseStage.STARTED else 0


def is_over(phase: str) -> bool:
    row = row_of(phase)
    return row is not None and row.stage is PhaseStage.OVER
