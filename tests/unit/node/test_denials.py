"""A peer that is not allowed asks some dozens of times a second; the log says it once a minute."""

from __future__ import annotations

from structlog.testing import capture_logs

from migrator.node.denials import KINDS_MAX, Denials


def test_a_denied_request_is_said_at_once_and_then_once_a_minute_with_its_count() -> None:
    now = 0.0
    denials = Denials(lambda: now)
    with capture_logs() as said:
        for _ in range(90 * 61):
            denials.denied("VoteRequest", "User:c", "127.0.0.1")
            now += 1 / 90
        denials.denied("FetchRequest", "User:c", "127.0.0.1")
    assert [(each["request"], each["not_said"]) for each in said] == [
        ("VoteRequest", 0),
        ("VoteRequest", 90 * 60 - 1),
        ("FetchRequest", 0),
    ]


def test_many_principals_take_neither_memory_nor_lines_without_end() -> None:
    denials = Denials(lambda: 0.0)
    with capture_logs() as said:
        for number in range(KINDS_MAX * 2):
            denials.denied("VoteRequest", f"User:{number}", "127.0.0.1")
    assert len(said) == KINDS_MAX + 1
