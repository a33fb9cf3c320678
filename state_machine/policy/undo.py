"""What undo costs at this moment: the command, the brokers that restart, what is lost.

In:   a phase and what a rollback would do. Out: an `Undo`, as `zk2kraft status`, the page and the report show it.
Elsewhere: what it is in each phase (phase_table.py, undo_texts.py), the steps themselves (phases.py).
Kept true by the end-to-end tests of the rollback and the abort.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from migrator.model.verdict import Verdict
from state_machine.facts.engines import ControllerEngine
from state_machine.policy.finalize_gates import can_be_given_up
from state_machine.policy.fleet_evidence import FleetEvidence, RollbackPlan
from state_machine.policy.gates import Evidence
from state_machine.policy.gates_back import brokers_may_return, controllers_may_return
from state_machine.policy.later import NO_LATER, LaterObserved
from state_machine.policy.phase_table import PHASES, ROWS
from state_machine.policy.phases import STEPS, Phase, Trigger
from state_machine.policy.stock_gates import stock_may_return
from state_machine.policy.undo_texts import CANCEL, LATER, NOT_BEGUN, RETIRED, Undo


def undo_of(
    phase: Phase,
    back: RollbackPlan | None,
    later: LaterObserved = NO_LATER,
    road: FleetEvidence | None = None,
    engine: ControllerEngine = ControllerEngine.OURS,
) -> Undo:
    """back: what a rollback would do and lose now. road: tells whether a finalize can still be given up."""
    row = ROWS[engine][phase]
    if phase is Phase.FINALIZING and can_be_given_up(road):
        return NOT_BEGUN
    if later.has_ended_dual_write and not row.no_return:
        return replace(LATER, does=f"{later.why_ended}: {LATER.does}")
    if back is not None and phase is Phase.DUAL_WRITE:
        lost = "; ".join(back.lost) or "nothing that ZooKeeper lacks"
        return replace(row.undo, lost=f"{lost}; {RETIRED}")
    if back is not None and phase is Phase.ROLLING_BACK:
        return CANCEL
    if back is None or not row.led_back:
        return row.undo
    first, again = list(back.restarts), list(back.again)
    restarts = f"controllers {list(back.controllers)} are ours again, then " if back.controllers else ""
    restarts += f"brokers {first} into ZooKeeper mode" if first else "none into ZooKeeper mode"
    restarts += f", then brokers {again} with their original file" if again else ""
    lost = "; ".join(back.lost) or "directory assignments only"
    return replace(row.undo, restarts=restarts, lost=lost)


def readiness(phase: Phase, evidence: Evidence) -> Verdict:
    """Of a rollback: its gate; once the service leads it, the same conditions for what is left of it."""
    edge = STEPS[evidence.engine].get((phase, Trigger.ROLL_BACK))
    if edge is not None:
        return edge.gate(evidence)
    if evidence.engine is ControllerEngine.STOCK:
        return stock_may_return(evidence)
    back = None if evidence.road is None else evidence.road.back
    return controllers_may_return(evidence) if back is not None and back.controllers else brokers_may_return(evidence)


IRREVERSIBLE: Final = "irreversible from here"
"""Said by the command line, the page and the change report, before and after the step to FINALIZING."""


def is_irreversible(phase: Phase, later: LaterObserved = NO_LATER, road: FleetEvidence | None = None) -> bool:
    """Also while a Kafka without ZooKeeper has ended dual-write, in whatever phase."""
    if phase is Phase.FINALIZING and can_be_given_up(road):
        return False
    return PHASES[phase].no_return or later.has_ended_dual_write
