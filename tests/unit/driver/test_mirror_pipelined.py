"""Commits are mirrored without waiting for each other: behind one that was refused, nothing more may be applied."""

from __future__ import annotations

import pytest

from migrator.driver.mirror import Shape, plan
from migrator.model.diff import diff
from migrator.model.image import EMPTY, Position
from migrator.zk import paths
from migrator.zk.multi import Check
from tests.support.builders import a_topic, an_image
from tests.unit.driver.test_mirror import a_cluster

MANY = 400
"""Topics of the second commit: more than one multi holds."""


@pytest.mark.parametrize("refused", [True, False])
def test_behind_a_refused_commit_no_multi_of_a_later_one_is_applied(refused: bool) -> None:
    ensemble, session, claim = a_cluster()
    first = an_image(a_topic("orders"))
    second = an_image(a_topic("orders"), *(a_topic(f"many-{number}") for number in range(MANY)))
    planned = plan(diff(EMPTY, first), claim, Position(5, 10), Shape())
    behind = plan(diff(first, second), planned.claim, Position(5, 20), Shape(planned.configs))
    assert len(behind.multis) >= 2
    if refused:
        ensemble.create(paths.topic("orders"))
    before = ensemble.tree()
    outcomes = [session.apply(multi).applied for multi in (*planned.multis, *behind.multis)]
    assert set(outcomes) == {not refused}
    assert (ensemble.tree() == before) is refused


def test_every_multi_but_the_last_checks_how_far_the_mirror_is() -> None:
    _, _, claim = a_cluster()
    image = an_image(*(a_topic(f"many-{number}") for number in range(MANY)))
    multis = plan(diff(EMPTY, image), claim, Position(5, 10), Shape()).multis
    guards = [Check(paths.CONTROLLER_EPOCH, claim.epoch_version), Check(paths.MIGRATION, claim.migration_version)]
    assert [list(multi.operations[:2]) for multi in multis[:-1]] == [guards] * (len(multis) - 1)
