"""FINALIZING until its first controller is stopped: nothing is final yet, and all of the gate holds or nothing begins.

In:   a snapshot. Out: whether a controller was stopped for the finalize; since when approval and backup count; why
      not even the first one is stopped.
Elsewhere: the gate (policy/gates_forward.py), who asks it again (work/acts_after_dual_write.py), the stop itself
(rolling/acts.py).
Why: hours may lie between the order and the first stop, by a pause or by the maintenance windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from migrator.findings.road import FINALIZE_WAITS
from migrator.fleet.roll import UNTOUCHED, RollStep
from migrator.model.verdict import Condition, Verdict
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.outcome import Outcome, Waiting
from state_machine.policy.phases import Phase
from state_machine.rows.documents import SOAK, SoakDocument, document
from state_machine.rows.store import Snapshot
from state_machine.rows.tables import JournalRow


def is_begun(snapshot: Snapshot) -> bool:
    """Whether the stop of a controller was ordered for the finalize. What was only prepared runs as before."""
    return snapshot.phase is Phase.COMPLETED or any(map(_is_touched, snapshot.nodes_of(Roll.FINAL)))


def _is_touched(row: JournalRow) -> bool:
    step = RollStep(row.failed_in if row.step == RollStep.FAILED else row.step)
    return row.began_at is not None or step not in UNTOUCHED


def is_waiting(snapshot: Snapshot) -> bool:
    """FINALIZING, and every controller runs as in the soak."""
    return snapshot.phase is Phase.FINALIZING and not is_begun(snapshot)


def gate_since(snapshot: Snapshot) -> float:
    """Since when what the next step wants may have been made. Until the first stop that is the begin of the soak."""
    soak = document(snapshot, SOAK, SoakDocument) if is_waiting(snapshot) else None
    return snapshot.migration.since if soak is None else soak.began


def never_asked(snapshot: Snapshot, who: str) -> Verdict:
    return Verdict((Condition("the gate is asked again", False, "nobody can ask it"),))


def not_now(verdict: Verdict) -> Outcome:
    """Of a gate that does not hold any more."""
    found = FINALIZE_WAITS.found(reason=verdict.reason())
    return Waiting(f"{found.code} {found.text}", (found,))


ASKED_AGAIN_S: Final = 30.0
"""Rounds ask every second. After a pause the question is a new one."""


@dataclass(slots=True)
class FreshFiles:
    """Whether all files were read since the rest of the gate holds. Times are of a clock that never goes back."""

    asked: float | None = None
    asked_last: float = -1e9
    begun: float = -1e9
    read: float = -1e9

    def ask(self, now: float) -> bool:
        """Whether this question is a new one, so that the files have to be read now."""
        new = self.asked is None or now - self.asked_last > ASKED_AGAIN_S
        self.asked, self.asked_last = now if new else self.asked, now
        return new

    def forget(self) -> None:
        """Something else closes the gate."""
        self.asked = None

    def are_begun(self, now: float) -> None:
        self.begun = now

    def are_read(self) -> None:
        """The reading that was begun last is kept."""
        self.read = self.begun

    @property
    def are_known(self) -> bool:
        return self.asked is not None and self.read >= self.asked
