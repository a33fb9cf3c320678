"""What ends a takeover by itself, and until when a committed copy can still go to brokers."""

from __future__ import annotations

import pytest

from migrator.driver.machine import Happened, TimeWithoutController
from migrator.driver.window import is_late, too_late, window_trouble
from migrator.findings.driver import BROKER_LOST_IN_WINDOW, UPDATED_TOO_LATE, WINDOW_OVERDUE
from tests.support.builders import a_broker

WINDOW = TimeWithoutController(opened_ms=1_000, limit_ms=5_000)
INTERVAL_MS = 2_000
BROKERS = {1: a_broker(1), 2: a_broker(2, fenced=True)}


@pytest.mark.parametrize(
    ("now_ms", "ages_ms", "code"),
    [
        pytest.param(5_999, {1: 5_000}, None, id="in time, and two and a half intervals without a heartbeat"),
        pytest.param(6_000, {1: 0}, WINDOW_OVERDUE.code, id="the limit is reached"),
        pytest.param(6_000, {1: 5_001}, WINDOW_OVERDUE.code, id="the limit is named before a broker"),
        pytest.param(1_000, {1: 5_001}, BROKER_LOST_IN_WINDOW.code, id="a broker missed two heartbeats"),
        pytest.param(1_000, {2: 60_000}, None, id="a broker that was fenced before is silent"),
        pytest.param(1_000, {7: 60_000}, None, id="a broker that is not registered is silent"),
        pytest.param(1_000, {}, None, id="no broker sent a heartbeat yet"),
    ],
)
def test_a_takeover_ends_at_its_limit_or_when_a_broker_misses_two_heartbeats(
    now_ms: int, ages_ms: dict[int, int], code: str | None
) -> None:
    trouble = window_trouble(WINDOW, now_ms, BROKERS, ages_ms, INTERVAL_MS)
    assert (None if trouble is None else trouble.code) == code


def test_before_the_claim_a_silent_broker_is_named_and_no_limit_counts() -> None:
    trouble = window_trouble(None, 10**12, BROKERS, {1: 5_001}, INTERVAL_MS)
    assert trouble == BROKER_LOST_IN_WINDOW.found(broker=1, what="sent no heartbeat for 5001 ms")
    assert window_trouble(None, 10**12, BROKERS, {1: 0}, INTERVAL_MS) is None


@pytest.mark.parametrize(
    ("window", "now_ms", "fresh_copy", "goes_back"),
    [
        pytest.param(WINDOW, 6_000, True, True, id="at the limit, with no broker updated"),
        pytest.param(WINDOW, 5_999, True, False, id="one millisecond is left"),
        pytest.param(WINDOW, 10**12, False, False, id="a broker may act on the copy already"),
        pytest.param(None, 10**12, True, False, id="a fail-over has no window"),
    ],
)
def test_a_committed_copy_is_rolled_back_at_the_limit_while_no_broker_acts_on_it(
    window: TimeWithoutController | None, now_ms: int, fresh_copy: bool, goes_back: bool
) -> None:
    late = too_late(window, now_ms, None, fresh_copy=fresh_copy)
    assert (late is not None and late.code == UPDATED_TOO_LATE.code) is goes_back
    assert (late is None) is not goes_back


def test_the_rollback_for_lack_of_time_names_the_trouble_that_took_it() -> None:
    trouble = BROKER_LOST_IN_WINDOW.found(broker=4, what="left /brokers/ids")
    late = too_late(WINDOW, 6_000, trouble, fresh_copy=True)
    assert late is not None
    assert f"{trouble.code} {trouble.text}" in late.text
    assert "5000 ms" in late.text


@pytest.mark.parametrize("happened", Happened)
def test_only_the_failure_of_a_takeover_is_late_once_its_copy_is_appended(happened: Happened) -> None:
    assert is_late(happened, fresh_copy=True) is (happened is Happened.WINDOW_FAILED)
    assert not is_late(happened, fresh_copy=False)
