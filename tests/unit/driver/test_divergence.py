"""How far ZooKeeper may be behind (R-866-12)."""

from __future__ import annotations

import pytest

from migrator.controller.refusals import is_refusable
from migrator.controller.requests import OF_ADMINISTRATORS
from migrator.driver.divergence import ALARM, Divergence, Level, Limits
from migrator.node.divergence_watch import DivergenceWatch

LIMITS = Limits(seconds=10, records=100)


@pytest.mark.parametrize(
    ("looks", "level"),
    [
        ([(0, 0)], Level.WITHIN),
        ([(0, 49)], Level.WITHIN),
        ([(0, 50)], Level.NEAR),
        ([(0, 100)], Level.OVER),
        ([(0, 1), (4_999, 1)], Level.WITHIN),
        ([(0, 1), (5_000, 1)], Level.NEAR),
        ([(0, 1), (10_000, 1)], Level.OVER),
        ([(0, 1), (9_000, 0), (18_000, 1)], Level.WITHIN),  # it was caught up in between
        ([(0, 1), (10_000, 1), (10_001, 0)], Level.WITHIN),
    ],
)
def test_the_level_is_that_of_the_nearer_limit(looks: list[tuple[int, int]], level: Level) -> None:
    divergence = Divergence(LIMITS)
    for now_ms, records in looks:
        divergence.look(now_ms, records)
    assert divergence.level is level


def test_administrators_wait_at_the_limit_and_not_longer() -> None:
    now, behind = [0], [200]
    watch = DivergenceWatch(LIMITS, lambda: behind[0], lambda: now[0])
    assert watch.refusal() is None
    watch.look()
    refusal = watch.refusal()
    assert refusal is not None
    assert refusal.startswith("Z2K-2041")
    now[0] = 1_500
    watch.look()
    assert watch.now.blocking_ms == 1_500
    behind[0] = 60
    watch.look()
    assert watch.refusal() is None
    assert watch.finding is not None, "half of the limit is still worth an alarm"
    assert watch.now.blocking_ms == 0


def test_with_the_policy_alarm_nobody_waits() -> None:
    watch = DivergenceWatch(Limits(seconds=10, records=100, policy=ALARM), lambda: 100, lambda: 0)
    watch.look()
    assert watch.finding is not None
    assert watch.refusal() is None


def test_every_request_that_can_be_held_up_has_an_answer_for_it() -> None:
    assert all(map(is_refusable, OF_ADMINISTRATORS))
