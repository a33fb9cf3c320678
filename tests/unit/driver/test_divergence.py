"""How far ZooKeeper may be behind (R-866-12)."""

from __future__ import annotations

import pytest

from migrator.driver.divergence import ALARM, Divergence, DivergenceLimits, Level

LIMITS = DivergenceLimits(seconds=10, records=100)

Step = tuple[str, int, int]
"""What happened, the last offset that it is about, and when (ms)."""


def after(*steps: Step, limits: DivergenceLimits = LIMITS) -> Divergence:
    divergence = Divergence(limits)
    now_ms = 0
    for what, offset, now_ms in steps:
        match what:
            case "committed":
                divergence.committed(offset, now_ms)
            case "written":
                divergence.written(offset)
            case "lacked":
                divergence.lacked(offset, now_ms)
            case "looked":
                divergence.look(now_ms)
    divergence.look(now_ms)
    return divergence


@pytest.mark.parametrize(
    ("steps", "level"),
    [
        ([("written", 9, 0)], Level.WITHIN),
        ([("written", 9, 0), ("committed", 58, 1)], Level.WITHIN),
        ([("written", 9, 0), ("committed", 59, 1)], Level.NEAR),
        ([("written", 9, 0), ("committed", 109, 1)], Level.OVER),
        ([("written", 9, 0), ("committed", 109, 1), ("written", 30, 2)], Level.NEAR),
        ([("written", 9, 0), ("committed", 10, 0), ("looked", 0, 4_999)], Level.WITHIN),
        ([("written", 9, 0), ("committed", 10, 0), ("looked", 0, 5_000)], Level.NEAR),
        ([("written", 9, 0), ("committed", 10, 0), ("looked", 0, 10_000)], Level.OVER),
        ([("written", 9, 0), ("committed", 10, 0), ("looked", 0, 10_000), ("written", 10, 10_001)], Level.WITHIN),
        # it goes on writing, and what it lacks now is young, although it was never without anything to write
        ([("written", 9, 0), ("committed", 10, 0), ("committed", 11, 9_000), ("written", 10, 9_900)], Level.WITHIN),
        # the oldest counts, not the newest
        ([("written", 9, 0), ("committed", 10, 0), ("committed", 11, 9_000), ("looked", 0, 10_000)], Level.OVER),
        # a later write says nothing about what follows it
        ([("written", 9, 0), ("committed", 10, 0), ("committed", 11, 2_000), ("written", 10, 3_000)], Level.WITHIN),
        # a leader before this one left it behind
        ([("lacked", 10, 0), ("looked", 0, 10_000)], Level.OVER),
        ([("lacked", 10, 0), ("committed", 30, 9_000), ("written", 30, 10_000)], Level.WITHIN),
    ],
)
def test_the_level_is_that_of_the_nearer_limit(steps: list[Step], level: Level) -> None:
    assert after(*steps).level is level


def test_the_records_that_zookeeper_lacks_are_counted_and_the_oldest_is_timed() -> None:
    divergence = after(
        ("written", 9, 0),
        ("committed", 14, 1_000),
        ("committed", 20, 3_000),
        ("written", 14, 4_000),
        ("looked", 0, 4_500),
    )
    assert (divergence.records, divergence.behind_ms, divergence.first_lacking) == (6, 1_500, 15)


def test_a_cluster_that_never_rests_is_not_behind_while_each_write_arrives() -> None:
    divergence = Divergence(LIMITS)
    for now_ms in range(0, 60_000, 10):  # a commit every 10 ms, each written 20 ms later: one is always on its way
        divergence.committed(now_ms // 10, now_ms)
        divergence.written(now_ms // 10 - 2)
        assert divergence.look(now_ms) is Level.WITHIN
    assert divergence.records == 2
    assert len(divergence._lacking) <= 2


def test_long_behind_keeps_no_more_than_a_hundred_times_for_each_limit_of_time() -> None:
    divergence = Divergence(LIMITS)
    for offset in range(10_000):
        divergence.committed(offset, now_ms=offset)
    assert len(divergence._lacking) <= 101


def test_administrators_wait_from_the_limit_on_and_not_longer() -> None:
    divergence = after(("written", 9, 0), ("committed", 109, 0))
    blocks_at_first = divergence.blocks
    assert blocks_at_first
    divergence.look(1_500)
    assert divergence.blocking_ms == 1_500
    divergence.written(40)
    divergence.look(1_600)
    assert divergence.level is Level.NEAR, "half of the limit is still worth an alarm"
    assert not divergence.blocks
    assert divergence.blocking_ms == 0


def test_with_the_policy_alarm_nobody_waits() -> None:
    divergence = after(("written", 9, 0), ("committed", 109, 0), limits=DivergenceLimits(10, 100, ALARM))
    assert divergence.level is Level.OVER
    assert not divergence.blocks


def test_what_was_lacking_is_forgotten_with_the_leadership() -> None:
    divergence = after(("written", 9, 0), ("committed", 500, 0))
    divergence.forget()
    assert divergence.look(60_000) is Level.WITHIN
    divergence.committed(900, 60_000)  # under the next leadership, whoever wrote what lies between
    assert (divergence.look(60_000), divergence.records) == (Level.WITHIN, 1)
