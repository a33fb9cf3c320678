"""About how long the change takes, with the source of each figure.

In:   `ChangeFacts` and restarts. Out: `Span`s: one per phase with restarts, the takeover, the soak, and their sum.
Rules: what the journal measured counts before what is assumed: of the same rolling restart, else of the same role. A
range is from the shortest to the longest of them, times the restarts that are left. Waiting for people is not in it.
Elsewhere: the same of going back (way_back_times.py).
Source of the assumptions: docs/performance.md (the road beside stock), and the timeouts of the inventory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from migrator.fleet.inventory import Inventory, Timeouts
from migrator.fleet.roll import RollStep
from state_machine.change.document import Restart, Span
from state_machine.change.facts import ChangeFacts
from state_machine.change.plan import DONE, place
from state_machine.policy.fleet_evidence import BROKERS, SHORTEST_RESTART_S, Roll
from state_machine.policy.phase_table import PHASE_OF, PHASES
from state_machine.policy.phases import Phase
from state_machine.policy.rolls import ROLLS

LABORATORY: Final = "docs/performance.md, three brokers and three controllers on one machine"
TAKEOVER_S: Final = (0.4, 60.0)
"""From the claim to dual-write: measured there, and the largest value of zk2kraft.takeover.max.ms."""
ELECTION_S: Final = 15.0
"""At least between two elections of SOAK, docs/to-the-end.md."""


def durations_of(facts: ChangeFacts, restarts: Sequence[Restart]) -> tuple[tuple[Span, ...], Span]:
    """What is left from here, by phase, and the sum. A phase that is over has what it took."""
    rolls = {roll: span for roll in ROLLS if (span := _roll(facts, restarts, roll)) is not None}
    others = [each for each in (_takeover(facts), _soak(facts)) if each is not None]
    left = [*(span for roll, span in rolls.items() if _left(restarts, roll)), *others]
    total = Span(
        what="all that is left",
        restarts=sum(each.restarts for each in left),
        low_s=round(sum(each.low_s for each in left), 1),
        high_s=round(sum(each.high_s for each in left), 1),
        measured=bool(left) and all(each.measured for each in left),
        source="the sum of the lines above that are not done; waiting for people and maintenance windows is not in it"
        + ("" if facts.inventory is not None else ", nor are restarts: no inventory names the nodes"),
    )
    return (*rolls.values(), *others), total


def _left(restarts: Sequence[Restart], roll: Roll) -> list[Restart]:
    return [each for each in restarts if each.roll == roll and each.step not in DONE]


def _roll(facts: ChangeFacts, restarts: Sequence[Restart], roll: Roll) -> Span | None:
    mine = [each for each in restarts if each.roll == roll]
    if not mine:
        return None
    what = f"{PHASE_OF[roll]}: {len(mine)} {mine[0].role}s restart ({roll})"
    done = [each.seconds for each in mine if each.seconds is not None]
    left = _left(restarts, roll)
    if not left:
        took = round(sum(done), 1)
        return Span(what=f"done: {what}", restarts=len(done), low_s=took, high_s=took, measured=True, source="journal")
    low, high, source, measured = time_of_one(facts, restarts, roll, mine[0].role)
    return Span(
        what=what if len(left) == len(mine) else f"{what}, {len(left)} of them left",
        restarts=len(left),
        low_s=round(low * len(left), 1),
        high_s=round(high * len(left), 1),
        measured=measured,
        source=source,
    )


def time_of_one(
    facts: ChangeFacts, restarts: Sequence[Restart], roll: Roll, role: str
) -> tuple[float, float, str, bool]:
    """Shortest and longest restart of one node, where that is from, and whether it was measured."""
    whole = [each for each in restarts if each.step == RollStep.WHOLE and each.seconds is not None]
    for those, said in (
        ([each for each in whole if each.roll == roll], f"of the same rolling restart ({roll})"),
        ([each for each in whole if each.role == role], f"of a {role}"),
    ):
        took = [each.seconds for each in those if each.seconds is not None]
        if took:
            return min(took), max(took), f"measured: {len(took)} restarts {said}, from the journal", True
    low, high, source = assumed_time_of_one(facts.inventory, facts.limits.settle_s, role)
    return low, high, source, False


def assumed_time_of_one(inventory: Inventory | None, settle: float, role: str) -> tuple[float, float, str]:
    """The same where nothing was measured. settle: `settle_s`, in seconds."""
    timeouts = Timeouts() if inventory is None else inventory.timeouts
    shortest = SHORTEST_RESTART_S[role]
    in_sync = timeouts.in_sync if role == BROKERS else 0
    high = settle + timeouts.stop + timeouts.start + in_sync
    parts = "stop, start and in_sync" if role == BROKERS else "stop and start"
    source = (
        f"assumed for one restart: at least {shortest:g} s ({LABORATORY}) and settle_s ({settle:g} s); at most "
        f"settle_s and the timeouts {parts} of the inventory. Log recovery after a hard stop takes longer"
    )
    return shortest + settle, high, source


def _takeover(facts: ChangeFacts) -> Span | None:
    """The time in which the cluster has no controller."""
    if not PHASES[facts.snapshot.phase].before_takeover:
        return None
    low, high = TAKEOVER_S
    source = f"assumed: {low:g} s ({LABORATORY}); at most zk2kraft.takeover.max.ms, whose largest value is {high:g} s"
    return Span(
        what=f"{Phase.TAKEOVER}: until {Phase.DUAL_WRITE}, without controller",
        restarts=0,
        low_s=low,
        high_s=high,
        measured=False,
        source=source,
    )


def _soak(facts: ChangeFacts) -> Span | None:
    """Time that has to pass, whatever happens; the restarts in it are counted apart."""
    if place(facts.snapshot.phase) > place(Phase.SOAK):
        return None
    limits = facts.limits
    road = facts.observed.road
    lasted = 0.0 if road is None or road.soak is None else road.soak.age_s
    left = max(limits.soak_s - lasted, 0.0)
    elections = ELECTION_S * _controllers(facts.inventory)
    return Span(
        what=f"{Phase.SOAK}: the time itself, elections, and an empty /brokers/ids",
        restarts=0,
        low_s=round(left, 1),
        high_s=round(left + elections + limits.brokers_gone_s, 1),
        measured=False,
        source=f"settings: soak_s ({limits.soak_s:g} s), brokers_gone_s ({limits.brokers_gone_s:g} s); "
        f"{ELECTION_S:g} s for each election (docs/to-the-end.md)",
    )


def _controllers(inventory: Inventory | None) -> int:
    return 3 if inventory is None else len(inventory.controllers)
