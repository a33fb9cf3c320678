"""Where replicas go: spread over racks and brokers, whatever the cluster looks like."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.controller.partitions.placement import PlacementRefused, place
from migrator.model.values import Broker
from tests.support.builders import a_broker


@st.composite
def clusters(draw: st.DrawFn) -> list[Broker]:
    """One to ten brokers, some fenced, in up to four racks or none; at least one of them can lead."""
    racks = draw(st.sampled_from([(None,), ("a",), ("a", "b"), ("a", "b", "c"), (None, "a", "b", "c")]))
    count = draw(st.integers(1, 10))
    able = draw(st.integers(0, count - 1))
    return [
        a_broker(each, fenced=each != able and draw(st.booleans()), rack=draw(st.sampled_from(racks)))
        for each in range(count)
    ]


@settings(max_examples=200, deadline=None)
@given(brokers=clusters(), data=st.data(), partitions=st.integers(1, 30), seed=st.integers(0, 99))
def test_replicas_lie_on_different_brokers_and_on_as_many_racks_as_there_are(
    brokers: list[Broker], data: st.DataObject, partitions: int, seed: int
) -> None:
    replicas = data.draw(st.integers(1, len(brokers)))
    by_id = {broker.id: broker for broker in brokers}
    racks = {broker.rack for broker in brokers}
    placed = place(brokers, partitions, replicas, Random(seed))
    assert len(placed) == partitions
    for chosen in placed:
        assert len(set(chosen)) == len(chosen) == replicas
        assert not by_id[chosen[0]].fenced
        assert len({by_id[each].rack for each in chosen}) == min(replicas, len(racks))
    assert placed == place(brokers, partitions, replicas, Random(seed))  # chance comes from the argument alone


@given(brokers=st.integers(1, 9), rounds=st.integers(1, 4), replicas=st.integers(1, 3), seed=st.integers(0, 99))
def test_in_one_rack_every_broker_leads_once_before_any_leads_twice(
    brokers: int, rounds: int, replicas: int, seed: int
) -> None:
    alive = [a_broker(each) for each in range(brokers)]
    placed = place(alive, brokers * rounds, min(replicas, brokers), Random(seed))
    for first in range(0, brokers * rounds, brokers):
        assert sorted(chosen[0] for chosen in placed[first : first + brokers]) == list(range(brokers))
    hosted = Counter(each for chosen in placed for each in chosen)
    assert len(set(hosted.values())) == 1


def test_a_fenced_broker_follows_only_where_no_other_is_left() -> None:
    brokers = [a_broker(1), a_broker(2), a_broker(3, fenced=True)]
    assert all(3 not in chosen for chosen in place(brokers, 50, 2, Random(7)))
    assert all(chosen[2] == 3 for chosen in place(brokers, 50, 3, Random(7)))


@pytest.mark.parametrize(
    ("brokers", "replicas", "reason"),
    [
        ([a_broker(1)], 0, "must be positive"),
        ([a_broker(1, fenced=True)], 1, "All brokers are currently fenced"),
        ([], 1, "All brokers are currently fenced"),
        ([a_broker(1), a_broker(2, fenced=True)], 3, "replication factor of 3 cannot be reached because only 2"),
    ],
)
def test_what_has_no_room_is_refused_with_the_reason(brokers: list[Broker], replicas: int, reason: str) -> None:
    with pytest.raises(PlacementRefused, match=reason):
        place(brokers, 1, replicas, Random(1))
