"""The decisions that a later release stands for, for REST and the command line.

In:   a snapshot, the decisions, the time. Out: `RaiseView`s.
Elsewhere: what has to hold (state_machine/policy/raises.py), lines for a terminal (lines.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from api.models import RaiseView
from api.views import verdict_view
from migrator.findings.road import FINALIZE_NOT_APPROVED
from migrator.model.features.raises import Raise, changes_of, level_words, undo_of_raise
from state_machine.evidence.of_gates import evidence
from state_machine.policy.gates_forward import may_raise_version
from state_machine.policy.phases import PEOPLE, Phase, Trigger
from state_machine.policy.raises import facts_in_words
from state_machine.rows.store import Snapshot


def raise_views(snapshot: Snapshot, wanted: Iterable[Raise], now: float) -> list[RaiseView]:
    """Show them in COMPLETED, in the order in which they are decided."""
    return [_view(snapshot, each, now) for each in wanted]


def _view(snapshot: Snapshot, wanted: Raise, now: float) -> RaiseView:
    observed = evidence(snapshot, now, wanted)
    found = None if observed.road is None else observed.road.raising
    assert found is not None, "the phase is COMPLETED"
    verdict = may_raise_version(observed)
    word = PEOPLE[Trigger.RAISE_VERSION]
    return RaiseView(
        feature=wanted.feature,
        level=wanted.level,
        now=level_words(wanted.feature, found.now),
        to=level_words(wanted.feature, wanted.level),
        done=found.now >= wanted.level,
        changes=changes_of(wanted.feature),
        undo=undo_of_raise(wanted.feature),
        facts=list(facts_in_words(found)),
        holds=all(each.holds for each in verdict.conditions if FINALIZE_NOT_APPROVED.code not in each.codes),
        conditions=verdict_view(verdict).conditions,
        approve=f"zk2kraft approve --migration {snapshot.id} --to {Phase.COMPLETED} --feature {wanted.text}",
        command=f"zk2kraft {word} --migration {snapshot.id} --feature {wanted.text}",
    )
