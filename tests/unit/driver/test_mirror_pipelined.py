"""Commits are mirrored without waiting for each other: behind one that was refused, nothing more may be applied."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrator.driver.mirror import Shape, plan
from migrator.model.diff import diff
from migrator.model.image import EMPTY, Position
from migrator.node.zookeeper.claims import read_claim
from migrator.zk import paths
from migrator.zk.multi import Create
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


@pytest.mark.parametrize("refused", range(3))
def test_behind_a_refused_multi_no_other_one_of_the_same_commit_is_applied(refused: int) -> None:
    """Else `/migration` would say that all of the commit is in ZooKeeper, and a release would believe it."""
    ensemble, session, claim = a_cluster()
    names = [f"many-{number:03}" for number in range(MANY)]
    multis = plan(diff(EMPTY, an_image(*map(a_topic, names))), claim, Position(5, 10), Shape()).multis
    assert len(multis) == 2
    taken = multis[min(refused, 1)].operations[2 + refused // 2]
    assert isinstance(taken, Create)
    ensemble.create(taken.path)
    outcomes = [session.apply(multi).applied for multi in multis]
    assert outcomes == [refused > 0, False]
    observed = read_claim(session)
    assert observed.migration is not None
    assert observed.migration.kraft_metadata_offset == claim.at.offset
    again = plan(
        diff(EMPTY, an_image(a_topic("later"))),
        replace(claim, migration_version=claim.migration_version + len(multis)),
        Position(5, 20),
        Shape(),
    )
    assert not session.apply(again.multis[0]).applied


def test_a_commit_in_several_multis_leaves_the_version_that_the_next_one_names() -> None:
    _, session, claim = a_cluster()
    first = an_image(*(a_topic(f"many-{number}") for number in range(MANY)))
    planned = plan(diff(EMPTY, first), claim, Position(5, 10), Shape())
    assert all(session.apply(multi).applied for multi in planned.multis)
    assert read_claim(session).migration_version == planned.claim.migration_version
