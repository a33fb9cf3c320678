"""A gate's answer names what was seen, in one line for a log and whole for a page."""

from __future__ import annotations

from migrator.model.verdict import Condition, Verdict

FINE = Condition("there is at least one broker", True, "3 in /brokers/ids")


def failing(number: int) -> Condition:
    return Condition(f"check {number}", False, f"saw {number}", ("Z2K-1001",))


def test_one_failing_check_closes_the_gate_and_is_named() -> None:
    assert Verdict((FINE,)).holds
    assert Verdict((FINE,)).reason() == "every condition is True"
    verdict = Verdict((failing(1), FINE))
    assert not verdict.holds
    assert verdict.failed == (failing(1),)
    assert verdict.reason() == "check 1: saw 1"


def test_the_reason_names_two_causes_and_counts_the_rest() -> None:
    verdict = Verdict((failing(1), FINE, failing(2), failing(3), failing(4)))
    assert verdict.reason() == "check 1: saw 1; check 2: saw 2 (and 2 more)"


def test_the_page_shows_every_check_with_its_codes() -> None:
    assert Verdict((FINE, failing(1))).as_json() == {
        "holds": False,
        "conditions": [
            {"name": "there is at least one broker", "status": "True", "message": "3 in /brokers/ids", "codes": []},
            {"name": "check 1", "status": "False", "message": "saw 1", "codes": ["Z2K-1001"]},
        ],
    }
