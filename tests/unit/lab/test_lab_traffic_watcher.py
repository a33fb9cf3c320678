"""The watcher's timeline: who was controller when, and for how long nobody was."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.findings.finding import FindingError
from migrator.lab.watcher import (
    ClaimHolder,
    ClaimSample,
    Reign,
    absence_between,
    first_reign,
    longest_absence_s,
    observation_of,
    read_observations,
    reigns,
    unseen_s,
)

A_TAKEOVER = [
    ClaimSample(10.0, ClaimHolder.ZOOKEEPER, node=1, epoch=4, created_zxid=7),
    ClaimSample(12.0, ClaimHolder.KRAFT, node=3000, epoch=5, created_zxid=8),
    ClaimSample(12.5, ClaimHolder.KRAFT, node=3000, epoch=6, created_zxid=8),
    ClaimSample(20.0, ClaimHolder.ABSENT, epoch=6),
    ClaimSample(20.25, ClaimHolder.ZOOKEEPER, node=2, epoch=7, created_zxid=9),
    ClaimSample(25.0, ClaimHolder.ZOOKEEPER, node=2, epoch=7, created_zxid=9),
]
ITS_REIGNS = [
    Reign(10.0, 12.0, ClaimHolder.ZOOKEEPER, 1),
    Reign(12.0, 20.0, ClaimHolder.KRAFT, 3000),
    Reign(20.0, 20.25, ClaimHolder.ABSENT, None),
    Reign(20.25, 25.0, ClaimHolder.ZOOKEEPER, 2),
]


def test_a_takeover_and_a_rollback_are_four_reigns() -> None:
    assert reigns(A_TAKEOVER) == ITS_REIGNS


def test_the_absence_is_the_time_between_the_controllers() -> None:
    assert longest_absence_s(ITS_REIGNS) == 0.25
    assert longest_absence_s(ITS_REIGNS, end=20.0) == 0.0
    assert longest_absence_s(ITS_REIGNS, start=20.125) == 0.125


def test_a_controller_that_registers_anew_begins_a_new_reign() -> None:
    again = [
        ClaimSample(1.0, ClaimHolder.ZOOKEEPER, node=1, created_zxid=3),
        ClaimSample(2.0, ClaimHolder.ZOOKEEPER, node=1, created_zxid=4),
    ]
    assert [reign.end for reign in reigns([*again, again[1]])] == [2.0]
    assert len(reigns([*again, ClaimSample(3.0, ClaimHolder.ZOOKEEPER, node=1, created_zxid=4)])) == 2


def test_time_without_zookeeper_is_unknown_and_not_absence() -> None:
    observations = [
        ClaimSample(1.0, ClaimHolder.ZOOKEEPER, node=1),
        ClaimSample(2.0, ClaimHolder.UNKNOWN),
        ClaimSample(5.0, ClaimHolder.ZOOKEEPER, node=1),
    ]
    known = reigns(observations)
    assert unseen_s(known) == 3.0
    assert longest_absence_s(known) == 0.0


def test_the_first_controller_of_a_kind_is_found() -> None:
    assert first_reign(ITS_REIGNS, ClaimHolder.KRAFT) == ITS_REIGNS[1]
    assert first_reign(ITS_REIGNS, ClaimHolder.ZOOKEEPER, after=11.0) == ITS_REIGNS[3]
    assert first_reign(ITS_REIGNS, ClaimHolder.KRAFT, after=21.0) is None


kinds = st.sampled_from(list(ClaimHolder))


@given(st.lists(st.tuples(st.integers(1, 9), kinds, st.integers(0, 2)), max_size=30))
def test_reigns_cover_the_whole_time_and_each_moment_is_what_was_seen(
    steps: list[tuple[int, ClaimHolder, int]],
) -> None:
    observations, now = [], 0.0
    for pause, kind, node in steps:
        now += pause
        observations.append(ClaimSample(now, kind, node=node))
    known = reigns(observations)
    assert all(one.end == other.start for one, other in pairwise(known))
    assert sum(reign.seconds for reign in known) == (observations[-1].at - observations[0].at if observations else 0.0)
    for observation, later in pairwise(observations):
        middle = (observation.at + later.at) / 2
        (reign,) = [reign for reign in known if reign.start <= middle < reign.end]
        assert (reign.kind, reign.node) == (observation.kind, observation.node)


def test_a_controller_of_kraft_is_known_by_its_epoch() -> None:
    stat = SimpleNamespace(ctime=1500, czxid=8)
    kraft = b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":2}'
    old = b'{"version":1,"brokerid":1,"timestamp":"1"}'
    assert observation_of(2.0, (kraft, stat), 5) == ClaimSample(
        2.0, ClaimHolder.KRAFT, 3000, 5, created=1.5, created_zxid=8
    )
    assert observation_of(2.0, (old, stat), None) == ClaimSample(
        2.0, ClaimHolder.ZOOKEEPER, 1, None, created=1.5, created_zxid=8
    )
    assert observation_of(2.0, None, 5) == ClaimSample(2.0, ClaimHolder.ABSENT, epoch=5)


def test_an_absence_between_two_looks_is_seen_and_a_transaction_is_none() -> None:
    before = ClaimSample(10.0, ClaimHolder.KRAFT, 3000, 5, created=9.0, created_zxid=8)
    after = ClaimSample(11.0, ClaimHolder.ZOOKEEPER, 1, 6, created=10.75, created_zxid=9)
    assert absence_between(before, after, deleted_at=10.5) == ClaimSample(10.5, ClaimHolder.ABSENT, epoch=5)
    assert absence_between(before, after, deleted_at=10.76) is None  # created in the same transaction
    assert absence_between(before, after, deleted_at=9.5) is None  # an earlier deletion
    assert absence_between(before, before, deleted_at=10.5) is None
    assert absence_between(None, after, deleted_at=10.5) is None
    assert (
        absence_between(before, ClaimSample(11.0, ClaimHolder.ABSENT), deleted_at=10.5) is None
    )  # it will be written by itself


def test_what_was_seen_is_read_back_without_a_torn_last_line(tmp_path: Path) -> None:
    file = tmp_path / "sights"
    file.write_text('{"at":1.0,"kind":"kraft","node":3000}\n{"at":2.0,"kind":"absent"}\n{"at":3.0,"ki')
    assert read_observations(file) == [
        ClaimSample(1.0, ClaimHolder.KRAFT, node=3000),
        ClaimSample(2.0, ClaimHolder.ABSENT),
    ]
    file.write_text('{"at":1.0,"kind":"king"}\n')
    with pytest.raises(FindingError, match="line 1") as caught:
        read_observations(file)
    assert caught.value.code == "Z2K-6014"
