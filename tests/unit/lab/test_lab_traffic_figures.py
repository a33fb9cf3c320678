"""Percentiles, stalls and windows agree with their slow twins."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.findings.finding import FindingError
from migrator.lab.traffic.figures import (
    WINDOW_S,
    Latency,
    RecentLatencies,
    StallClock,
    figures_between,
    latency_of,
    longest_stall_ms,
    mark_us,
    percentile,
)
from migrator.lab.traffic.ledger import (
    NO_TRANSACTION,
    Acknowledged,
    Entry,
    Failed,
    Marked,
    TransactionEnded,
    TransactionOutcome,
)

numbers = st.integers(min_value=0, max_value=10_000)
times = st.lists(numbers, max_size=60)


def an_acknowledged(sent_us: int, acknowledged_us: int, offset: int = 0) -> Acknowledged:
    return Acknowledged("orders", 0, offset, "plain-0", offset, NO_TRANSACTION, sent_us, acknowledged_us)


@given(st.lists(numbers, min_size=1, max_size=60), st.floats(min_value=0, max_value=1))
def test_a_percentile_is_the_smallest_value_that_enough_values_do_not_exceed(values: list[int], share: float) -> None:
    enough = [value for value in values if sum(other <= value for other in values) >= share * len(values)]
    assert percentile(sorted(values), share) == min(enough)


def test_the_hundredth_percentile_is_the_maximum_and_no_records_have_none() -> None:
    assert latency_of([3.0, 1.0, 2.0]) == Latency(3, 2.0, 3.0, 3.0)
    assert latency_of([]) == Latency(0, None, None, None)


@given(times, numbers, numbers)
def test_the_stall_clock_finds_the_longest_gap(at: list[int], since: int, later: int) -> None:
    acknowledged = sorted(time for time in at if time >= since)
    now = max([since, *acknowledged]) + later
    clock = StallClock(since)
    for time in acknowledged:
        clock.acknowledged(time)
    points = [since, *acknowledged, now]
    assert clock.longest_s(now) == max(points[index + 1] - points[index] for index in range(len(points) - 1))


def test_an_acknowledgement_reported_late_does_not_move_the_stall_clock_back() -> None:
    clock = StallClock(0)
    for at in (10, 9, 11):
        clock.acknowledged(at)
    assert clock.longest_s(12) == 10


@given(times, numbers, numbers)
def test_the_longest_stall_of_a_window_is_found_moment_by_moment(at: list[int], one: int, other: int) -> None:
    start, end = sorted((one, other))

    def gap_around(moment: float) -> int:
        before = max((time for time in at if time <= moment), default=start)
        after = min((time for time in at if time > moment), default=end)
        return after - before

    edges = {start - 0.5, start, end, *(time for time in at if start <= time <= end)}
    moments = {moment for edge in edges for moment in (edge - 0.5, edge) if start - 0.5 <= moment <= end}
    assert longest_stall_ms(at, start, end) == round(max(0, *map(gap_around, moments)) / 1000, 1)


@given(st.lists(st.tuples(numbers, numbers), max_size=40), numbers, numbers)
def test_a_window_counts_every_record_under_way_in_it(spans: list[tuple[int, int]], one: int, other: int) -> None:
    start, end = sorted((one, other))
    records = [an_acknowledged(sent, sent + took, number) for number, (sent, took) in enumerate(spans)]
    under_way = [
        record
        for record in records
        if any(record.sent_us <= moment <= record.acknowledged_us for moment in (start, end))
        or start <= record.sent_us <= end
    ]
    figures = figures_between(records, start, end)
    slowest = max((one.acknowledged_us - one.sent_us for one in under_way), default=None)
    assert figures.acknowledgement.count == len(under_way)
    assert figures.acknowledgement.max_ms == (None if slowest is None else round(slowest / 1000, 1))
    assert figures.sent_inside.count == sum(start <= record.sent_us <= end for record in records)
    assert len(figures.slowest) == min(5, len(under_way))


def test_a_window_tells_failures_and_ends_of_transactions() -> None:
    entries: list[Entry] = [
        an_acknowledged(0, 100),
        Failed("orders", 0, "plain-0", 1, NO_TRANSACTION, 0, 150, "_MSG_TIMED_OUT"),
        Failed("orders", 0, "plain-0", 2, NO_TRANSACTION, 0, 900, "_MSG_TIMED_OUT"),
        TransactionEnded(0, TransactionOutcome.COMMITTED, 0, 100, 5_100),
        TransactionEnded(1, TransactionOutcome.UNKNOWN, 0, 100, 90_000),
        TransactionEnded(2, TransactionOutcome.COMMITTED, 0, 700, 800),
    ]
    figures = figures_between(entries, 100, 200)
    assert figures.failed == 1
    assert figures.transaction_end == Latency(1, 5.0, 5.0, 5.0)


@given(st.lists(st.tuples(st.floats(min_value=0, max_value=5), st.floats(min_value=0, max_value=99)), max_size=60))
def test_recent_latencies_are_those_of_the_last_seconds(steps: list[tuple[float, float]]) -> None:
    recent, now, samples = RecentLatencies(), 0.0, []
    for pause, latency_ms in steps:
        now += pause
        recent.add(now, latency_ms)
        samples.append((now, latency_ms))
        inside = [latency for at, latency in samples if at >= now - WINDOW_S]
        figures = recent.figures(now)
        assert figures.count == len(inside)
        assert figures.max_ms == round(max(inside), 1)
        assert figures.p50_ms == round(sorted(inside)[math.ceil(len(inside) / 2) - 1], 1)


def test_a_mark_that_was_set_twice_means_the_later_one_and_an_unknown_one_is_a_finding() -> None:
    entries: list[Entry] = [Marked("A", 5), an_acknowledged(0, 1), Marked("B", 6), Marked("A", 7)]
    assert mark_us(entries, "A") == 7
    with pytest.raises(FindingError, match="A, B") as caught:
        mark_us(entries, "C")
    assert caught.value.code == "Z2K-6015"
