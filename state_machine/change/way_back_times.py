"""About how long it takes to go back: from each phase of the way, and from where the migration is now.

In:   `ChangeFacts` and restarts. Out: a `Span` each; None where nothing leads back, or no inventory names the nodes.
Rules: a range is from the fewest restarts that going back from a phase can need to the most: of those that enter it, of
those that leave it. One restart takes what it takes on the way there (durations.py). Brokers restart a second time
where the service writes their migration file. Waiting for people, maintenance windows and audits is not in it.
Elsewhere: which nodes really go back (rollback/plan.py), what going back does and loses (policy/undo.py).
Source of the assumptions: docs/undo.md, docs/performance.md, and the timeouts of the inventory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from migrator.fleet.roll import RollStep
from state_machine.change.document import Restart, Span
from state_machine.change.durations import TAKEOVER_S, time_of_one
from state_machine.change.facts import ChangeFacts
from state_machine.change.plan import DONE
from state_machine.policy.fleet_evidence import BROKERS, CONTROLLERS, Roll, RollbackPlan
from state_machine.policy.phase_table import PHASES
from state_machine.policy.phases import Phase
from state_machine.policy.wanted import KRAFT_MODE, Voters

STOP_S: Final = (1.0, 10.0)
"""Our controllers stop, before the takeover."""
ROLLBACK_S: Final = (0.1, 30.0)
"""The rollback itself, without restarts: measured well under 1 s; step 2 may take so long."""
FOOT: Final = "waiting for people, maintenance windows and audits is not in it"


@dataclass(frozen=True, slots=True)
class _Restarts:
    """Of one rolling restart back: at least and at most so many."""

    roll: Roll
    role: str
    least: int
    most: int


def time_back(facts: ChangeFacts, restarts: Sequence[Restart], phase: Phase) -> Span | None:
    """From a phase of the way, at any moment in it."""
    row = PHASES[phase]
    if row.before_takeover:
        return _alone("our controllers stop", STOP_S, "assumed: seconds (docs/undo.md)")
    if row.without_controller:
        high = TAKEOVER_S[1]
        source = f"assumed: at most zk2kraft.takeover.max.ms, whose largest value is {high:g} s (docs/undo.md)"
        return _alone("the abort", (0.0, high), source)
    if phase is Phase.DUAL_WRITE:
        return _alone("the rollback", ROLLBACK_S, _of_rollback())
    if not row.led_back or facts.inventory is None:
        return None
    brokers, controllers = len(facts.inventory.brokers), len(facts.inventory.controllers)
    written = _migration_files(restarts)
    return _sum(
        facts,
        restarts,
        (
            _Restarts(
                Roll.OURS,
                CONTROLLERS,
                controllers if row.wanted.voters is Voters.STOCK else 0,
                0 if row.wanted.voters is Voters.OURS else controllers,
            ),
            _Restarts(Roll.BACK, BROKERS, brokers if row.wanted.brokers == KRAFT_MODE else 0, brokers),
            _Restarts(Roll.ORIGINAL, BROKERS, written, written),
        ),
    )


def time_back_now(facts: ChangeFacts, restarts: Sequence[Restart]) -> Span | None:
    """Of the nodes that would restart now; while a rollback runs, of those that are left."""
    road = facts.observed.road
    if road is None or road.back is None:
        return time_back(facts, restarts, facts.snapshot.phase)
    return _sum(facts, restarts, _exactly(road.back))


def _exactly(back: RollbackPlan) -> tuple[_Restarts, ...]:
    counts = (
        (Roll.OURS, CONTROLLERS, len(back.controllers)),
        (Roll.BACK, BROKERS, len(back.restarts)),
        (Roll.ORIGINAL, BROKERS, len(back.again)),
    )
    return tuple(_Restarts(roll, role, count, count) for roll, role, count in counts)


def _migration_files(restarts: Sequence[Restart]) -> int:
    """Brokers that get a migration file from the service, as planned or as done: one that had it keeps its own."""
    joins = [each for each in restarts if each.roll == Roll.JOIN and each.step != RollStep.BACK]
    return sum(
        each.step not in DONE or bool(each.checksum_before and each.checksum_after != each.checksum_before)
        for each in joins
    )


def _of_rollback() -> str:
    return f"assumed for the rollback itself: under 1 s, at most {ROLLBACK_S[1]:g} s (docs/undo.md)"


def _alone(what: str, seconds: tuple[float, float], source: str) -> Span:
    return Span(what=what, restarts=0, low_s=seconds[0], high_s=seconds[1], measured=False, source=source)


def _sum(facts: ChangeFacts, restarts: Sequence[Restart], rolls: Sequence[_Restarts]) -> Span:
    low, high = ROLLBACK_S
    said, measured = [], True
    sources: dict[str, list[str]] = {}
    needed = [each for each in rolls if each.most]
    for each in needed:
        one_low, one_high, source, known = time_of_one(facts, restarts, each.roll, each.role)
        low, high, measured = low + each.least * one_low, high + each.most * one_high, measured and known
        count = f"{each.most}" if each.least == each.most else f"{each.least} to {each.most}"
        said.append(f"{count} {each.role}s restart ({each.roll})")
        sources.setdefault(source, []).append(f"{each.role}s ({each.roll})")
    those = (f"{', '.join(nodes)}: {source}" for source, nodes in sources.items())
    return Span(
        what=", ".join((*said, "and the rollback itself") if said else ("the rollback",)),
        restarts=sum(each.most for each in needed),
        low_s=round(low, 1),
        high_s=round(high, 1),
        measured=bool(needed) and measured,
        source="; ".join((*those, _of_rollback(), FOOT)),
    )
