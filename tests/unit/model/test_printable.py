"""What others wrote moves no cursor and forges no line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.model.printable import OBEYED, printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Ada\x1b[2J", "Ada\\x1b[2J"),
        ("go\r\nREADY", "go\\x0d\\x0aREADY"),
        ("a\x00b\x7fc\x9bd", "a\\x00b\\x7fc\\x9bd"),
        ("\u202egro", "\\u202egro"),
        ("Zoë went 12 → 13", "Zoë went 12 → 13"),
    ],
)
def test_a_character_that_a_terminal_obeys_is_shown_as_its_number(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    assert not re.search(f"[{OBEYED}]", printable(text))
    assert printable(printable(text)) == printable(text)


def test_lines_and_tabs_that_are_meant_stay() -> None:
    assert printable_lines("one\ttwo\nthree\x1b]0;title\x07") == "one\ttwo\nthree\\x1b]0;title\\x07"
