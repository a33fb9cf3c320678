"""What undo costs in each phase: the command, the brokers that restart, what is lost.

In:   a phase. Out: its row, as `zk2kraft status`, the page and the report show it.
Elsewhere: the steps themselves (phases.py). Kept true by the end-to-end tests of the rollback and the abort.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from migrator.model.verdict import Verdict
from state_machine.policy.finalize_gates import can_be_given_up
from state_machine.policy.gates import Evidence
from state_machine.policy.later import NO_LATER, LaterObserved
from state_machine.policy.phases import BEFORE_TAKEOVER, LED_BACK_FROM, TRANSITIONS, Phase, Trigger
from state_machine.policy.road_observations import RoadEvidence, WayBack
from state_machine.policy.way_back_gates import brokers_may_return, controllers_may_return


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
    "from the start of the takeover to the end of the abort",
)
_RETIRED: Final = (
    "the metadata log is retired: another migration needs a fresh quorum and a restart of every broker first"
)
_DUAL_WRITE: Final = Undo(
    "zk2kraft rollback",
    "a ZooKeeper-mode broker becomes controller (if none of our controllers runs: "
    "`zk2kraft rollback --without-controllers`)",
    "none",
    f"what only KRaft has: configuration of client metrics, which needs consent before; {_RETIRED}",
    "under 1 s",
)
_UNDER_WAY: Final = Undo("", "the rollback or abort is running", "none", "nothing", "under 1 s")
_CANCEL: Final = Undo(
    "zk2kraft advance --to ROLLING_BROKERS",
    "the rollback is running. Until the driver begins its own, it can be cancelled: brokers that are in ZooKeeper "
    "mode again restart into KRaft mode, and stock controllers that are still in place stay",
    "those that went back",
    "nothing",
    "0 s",
)
_NOTHING: Final = Undo("", "there is nothing to undo", "none", "nothing", "0 s")

_ROLLING_BROKERS: Final = Undo(
    "zk2kraft rollback",
    "the service restarts the brokers in KRaft mode with their migration file, one by one, the last one first; then "
    "the cluster is rolled back as in DUAL_WRITE; then brokers whose migration file the service wrote get "
    "their original file",
    "those that were restarted into KRaft mode, once; afterwards those with a migration file of the service, once",
    "what only KRaft has: directory assignments, and what needs consent before",
    "under 1 s",
)
_STOCK: Final = Undo(
    "zk2kraft rollback",
    "the service puts our controllers in the place of stock again, one by one, the active one last; then it restarts "
    "the brokers with their migration file, one by one; then the cluster is rolled back as in DUAL_WRITE; then brokers "
    "whose migration file the service wrote get their original file",
    "every broker, once; afterwards those with a migration file of the service, once",
    "what only KRaft has: directory assignments, and what needs consent before",
    "about 2 s at the change of the active controller, under 1 s at the rollback",
)
_FINAL: Final = Undo(
    "",
    "nothing can be undone from the first start of a controller without the migration flag on",
    "none",
    "everything that was written since, if ZooKeeper is used again",
    "0 s",
)


_NOT_BEGUN: Final = Undo(
    "zk2kraft abort",
    "the finalize is given up, and the migration is in SOAK again; a controller that is stopped gets its kept file "
    "first. That is possible until the first start of a controller without the migration flag",
    "the controller that is stopped, if there is one",
    "nothing; another person approves the next finalize",
    "0 s",
)
"""Of FINALIZING, while every controller runs with the flag."""


_LATER: Final = Undo(
    "",
    "nothing can be undone while this is so. Stop that controller: one that still has the migration in its log leads "
    "on then, and the way back opens (runbook of Z2K-4233)",
    "none",
    "what was changed since then, if ZooKeeper is used again",
    "0 s",
)
"""A Kafka without ZooKeeper leads, or the log lost the migration by it."""


def undo_of(
    phase: Phase, back: WayBack | None, later: LaterObserved = NO_LATER, road: RoadEvidence | None = None
) -> Undo:
    """back: what a rollback would do and lose now. road: tells whether a finalize can still be given up."""
    if phase is Phase.FINALIZING and can_be_given_up(road):
        return _NOT_BEGUN
    if later.has_ended_dual_write and phase not in NO_RETURN:
        return replace(_LATER, does=f"{later.why_ended}: {_LATER.does}")
    if back is not None and phase is Phase.DUAL_WRITE:
        lost = "; ".join(back.lost) or "nothing that ZooKeeper lacks"
        return replace(UNDO[phase], lost=f"{lost}; {_RETIRED}")
    if back is not None and phase is Phase.ROLLING_BACK:
        return _CANCEL
    if back is None or phase not in LED_BACK_FROM:
        return UNDO[phase]
    first, again = list(back.restarts), list(back.again)
    restarts = f"controllers {list(back.controllers)} are ours again, then " if back.controllers else ""
    restarts += f"brokers {first} into ZooKeeper mode" if first else "none into ZooKeeper mode"
    restarts += f", then brokers {again} with their original file" if again else ""
    lost = "; ".join(back.lost) or "directory assignments only"
    return replace(UNDO[phase], restarts=restarts, lost=lost)


def readiness(phase: Phase, evidence: Evidence) -> Verdict:
    """Of a rollback: its gate; once the service leads it, the same conditions for what is left of it."""
    edge = TRANSITIONS.get((phase, Trigger.ROLL_BACK))
    if edge is not None:
        return edge.gate(evidence)
    back = None if evidence.road is None else evidence.road.back
    return controllers_may_return(evidence) if back is not None and back.controllers else brokers_may_return(evidence)


UNDO: Final[Mapping[Phase, Undo]] = {
    **dict.fromkeys(BEFORE_TAKEOVER, _BEFORE),
    Phase.TAKEOVER: _WINDOW,
    Phase.COPY: _WINDOW,
    Phase.AUDIT: _WINDOW,
    Phase.ABORTING: _UNDER_WAY,
    Phase.DUAL_WRITE: _DUAL_WRITE,
    Phase.ROLLING_BACK: _UNDER_WAY,
    Phase.ROLLED_BACK: _NOTHING,
    Phase.ROLLING_BROKERS: _ROLLING_BROKERS,
    Phase.REPLACING_CONTROLLERS: _STOCK,
    Phase.SOAK: _STOCK,
    Phase.FINALIZING: _FINAL,
    Phase.COMPLETED: _FINAL,
}

IRREVERSIBLE: Final = "irreversible from here"
"""Said by the command line, the page and the change report, before and after the step to FINALIZING."""
NO_RETURN: Final = (Phase.FINALIZING, Phase.COMPLETED)
"""Phases that nothing leads back from; of FINALIZING, from the first start without the migration flag on."""


def is_irreversible(phase: Phase, later: LaterObserved = NO_LATER, road: RoadEvidence | None = None) -> bool:
    """Also while a Kafka without ZooKeeper has ended dual-write, in whatever phase."""
    if phase is Phase.FINALIZING and can_be_given_up(road):
        return False
    return phase in NO_RETURN or later.has_ended_dual_write
