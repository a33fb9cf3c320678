"""Operations at the same moment leave log and answers of one serial order: a sample of `tests.interleavings`."""

from __future__ import annotations

import pytest

from migrator.node.leader.active_controller import ActiveController
from migrator.wire.messages.partitions import AlterPartitionRequest
from tests.interleavings.__main__ import judged
from tests.interleavings.operations import KINDS
from tests.interleavings.trial import CLOSED, LOST, UNTROUBLED, ViolationError, judge, plan, run

SAMPLE = 600


def test_operations_at_the_same_moment_are_those_of_one_serial_order() -> None:
    tally = judged(range(SAMPLE))
    assert not tally.violations, "\n".join(report for _, report in tally.violations)
    assert set(tally.troubles) == {UNTROUBLED, CLOSED, LOST}
    assert set(tally.kinds) == set(KINDS)


def test_a_seed_is_one_run() -> None:
    seed = 17
    assert run(plan(seed)) == run(plan(seed))


def test_a_situation_that_is_taken_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: the image of the moment at which the request came."""
    stale = ActiveController._begin_apart

    def begin_early(self: ActiveController, decided: object, request: object) -> object:
        early = decided({})  # type: ignore[operator]
        return stale(self, lambda _: early, request)  # type: ignore[arg-type]

    monkeypatch.setattr(ActiveController, "_begin_apart", begin_early)
    assert judged(range(SAMPLE)).violations


def test_a_violation_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.interleavings.trial.explained", lambda trial, outcome: False)
    with pytest.raises(ViolationError, match=r"(?s)alter partition.*--first 79 --count 1"):
        judge(79)
    assert any(isinstance(each.request, AlterPartitionRequest) for each in plan(79).operations)
