"""The simulator finds what it is there for: each deliberate bug is found by the seed that is noted with it."""

from __future__ import annotations

import pytest

from tests.sim.mutants import MUTANTS, Mutant
from tests.sim.runner import run_seed

SEEDS_MAX = 500
"""A change of the core moves what a seed does; then the noted seed may be dull, and the search goes on from 0."""


def first_found(mutant: Mutant) -> int | None:
    with mutant.at_work():
        seeds: list[int] = [mutant.first_seed, *range(SEEDS_MAX)]
        for seed in seeds:
            if run_seed(seed).rule.startswith(("safety", "liveness")):
                return seed
    return None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_deliberate_bug_is_found(mutant: Mutant) -> None:
    assert first_found(mutant) is not None, f"not found in {SEEDS_MAX} seeds"
    result = run_seed(mutant.first_seed)
    assert not result.rule, f"without the bug: {result.report}"


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= 10
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
