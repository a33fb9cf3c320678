"""The lineage of leader epochs answers as the log itself would, record by record."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.raft.epochs import EpochCache, EpochEnd

record_epochs = st.lists(st.integers(1, 6), max_size=12).map(sorted)
"""The epoch of each record of a log, by offset."""


def lineage_of(epochs: list[int]) -> EpochCache:
    firsts = [(epoch, next(members)[0]) for epoch, members in groupby(enumerate(epochs), key=lambda each: each[1])]
    return EpochCache(firsts)


def end_of_plainly(epochs: list[int], epoch: int) -> EpochEnd | None:
    """Kafka's `endOffsetForEpoch`, asked of the records instead of a cache."""
    if not epochs or epoch > max(epochs):
        return None
    known = [each for each in epochs if each <= epoch]
    return EpochEnd(max(known, default=epoch), len(known))


@given(epochs=record_epochs, asked=st.integers(0, 8))
def test_where_an_epoch_ended_is_what_the_records_say(epochs: list[int], asked: int) -> None:
    lineage = lineage_of(epochs)
    assert lineage.end_of(asked, len(epochs)) == end_of_plainly(epochs, asked)
    for offset, epoch in enumerate(epochs):
        assert lineage.epoch_at(offset) == epoch
    assert lineage.latest == (max(epochs) if epochs else None)


@given(epochs=record_epochs, end=st.integers(0, 12))
def test_a_log_cut_short_has_the_lineage_of_what_is_left(epochs: list[int], end: int) -> None:
    lineage = lineage_of(epochs)
    lineage.truncate_to(end)
    assert lineage.entries == lineage_of(epochs[:end]).entries


def test_an_epoch_without_records_leaves_no_trace() -> None:
    lineage = EpochCache([(1, 0), (2, 10)])
    assert lineage.assign(3, 10)  # epoch 2 ended before it wrote anything
    assert lineage.entries == [(1, 0), (3, 10)]
    assert not lineage.assign(3, 15)
    assert lineage.entries == [(1, 0), (3, 10)]


def test_epochs_never_go_back() -> None:
    with pytest.raises(AssertionError, match="epoch 4 after 5"):
        EpochCache([(5, 0), (4, 10)])


def test_before_the_lineage_begins_nothing_is_known() -> None:
    lineage = EpochCache([(3, 100)])
    assert lineage.epoch_at(99) is None
    assert lineage.first_start() == EpochEnd(3, 100)
    assert EpochCache().first_start() is None
    assert EpochCache().end_of(1, 0) is None
