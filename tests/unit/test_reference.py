"""docs/reference says what the code says."""

from __future__ import annotations

from tests.reference.__main__ import PLACE, stale_pages
from tests.reference.pages import SHOWN, pages


def test_no_page_of_the_reference_is_stale() -> None:
    assert sorted(stale_pages()) == [], "renew them: .venv/bin/python -m tests.reference --save"


def test_the_reference_has_no_page_that_nobody_makes() -> None:
    made = pages()
    assert sorted(each.name for each in PLACE.iterdir()) == sorted(made)
    assert sorted(name for name in made if name.startswith("change-report-")) == sorted(
        f"change-report-{stage.replace(' ', '-')}.html" for stage in SHOWN
    ), "two examples of the change report are enough"
