"""The statistics of the benchmarks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.figures import STOCK, Measurement, between_markers, measurement, percentile, rows, table


def measured(system: str, repetition: int, p50_ms: float, per_second: float, in_flight: int = 16) -> Measurement:
    return Measurement(system, "create a topic", in_flight, repetition, 100, p50_ms, 2 * p50_ms, per_second)


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.001, 1))
def test_a_percentile_is_the_smallest_value_that_enough_do_not_exceed(values: list[float], share: float) -> None:
    found = percentile(sorted(values), share)
    enough = [value for value in sorted(values) if sum(each <= value for each in values) >= share * len(values) - 1e-9]
    assert found == enough[0]


def test_a_measurement_counts_what_was_answered_in_time() -> None:
    found = measurement(STOCK, "create a topic", 1, 0, [0.004, 0.002, 0.001, 0.003], seconds=2.0)
    assert (found.changes, found.per_second, found.p50_ms, found.p99_ms) == (4, 2.0, 2.0, 4.0)


def test_a_cell_in_which_nothing_was_answered_is_no_measurement() -> None:
    with pytest.raises(AssertionError, match="no change was answered"):
        measurement(STOCK, "create a topic", 1, 0, [], seconds=2.0)


def test_ratios_are_of_the_same_repetition_so_that_a_busy_minute_does_not_count() -> None:
    """The machine is ten times slower in the second repetition, for both."""
    found = rows(
        [
            *(measured(STOCK, turn, p50_ms, 1000 / p50_ms) for turn, p50_ms in enumerate((10.0, 100.0, 12.0))),
            *(measured("ours", turn, p50_ms, 1000 / p50_ms) for turn, p50_ms in enumerate((20.0, 200.0, 24.0))),
        ]
    )
    assert [row.system for row in found] == [STOCK, "ours"]
    assert (found[1].p50_ms, found[1].p50_ratio, found[1].p99_ratio, found[1].throughput_ratio) == (24.0, 2.0, 2.0, 0.5)
    assert found[0].p50_ratio == 1.0


def test_the_table_has_a_line_for_each_cell_and_system() -> None:
    found = rows([measured(name, 0, 5.0, 3000.0, flying) for flying in (1, 16) for name in (STOCK, "ours")])
    lines = table(found).splitlines()
    assert len(lines) == 2 + 4
    assert lines[2] == "| create a topic | 1 | stock KRaft | 5.0 | 10.0 | 3,000 | 1.00 | 1.00 | 1.00 |"


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    page = "before\n<!-- quorum -->\nold\n<!-- /quorum -->\nafter\n"
    assert between_markers(page, "quorum", "new") == "before\n<!-- quorum -->\nnew\n<!-- /quorum -->\nafter\n"
    with pytest.raises(AssertionError, match="needs"):
        between_markers("no markers", "quorum", "new")
