"""docs/reference says what the code says."""

from __future__ import annotations

from tests.reference.__main__ import stale_pages


def test_no_page_of_the_reference_is_stale() -> None:
    assert sorted(stale_pages()) == [], "renew them: .venv/bin/python -m tests.reference --save"
