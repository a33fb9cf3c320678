"""How pages are written: sentences that can be read aloud, and words that say who.

"Ours" and "stock" as nouns leave open of what: a page says "zk2kraft controller" and "stock controller". Labels of
measured series (`ours` in a row of figures) and words of the code that a page repeats stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.picture import PICTURE, page_of

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted(
    {ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "runbooks").glob("*.md")}
)
OF_THE_CODE: Final = ("docs/claim.md", "docs/mutants.md", "docs/reference/")
"""Tables that are compared with the code, word by word, or have names of tests."""
SPOKEN: Final = tuple(
    ROOT / page
    for page in (
        "README.md",
        "docs/undo.md",
        "docs/service.md",
        "docs/settings.md",
        "docs/to-dual-write.md",
        "docs/to-the-end.md",
        "docs/change-report.md",
    )
)
MOST_WORDS: Final = 30


def sentences(text: str) -> Iterator[str]:
    """Those of paragraphs and lists. Code, tables and headings are none."""
    text = re.sub(r"^ *```.*?^ *```|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = ("" if re.match(r" *(\||#)", line) else line for line in text.splitlines())
    for paragraph in re.split(r"\n\s*\n|\n(?= *(?:[*-]|\d+\.) )", "\n".join(lines)):
        plain = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "CODE", " ".join(paragraph.split())))
        yield from filter(None, re.split(r"(?<=[.!?])[*)]* +(?=[^a-z])", plain))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_says_ours_where_it_means_a_zk2kraft_controller(page: Path) -> None:
    where = str(page.relative_to(ROOT))
    found = [
        line
        for line in page.read_text().splitlines()
        if re.search(r"(?i)\bours\b", re.sub(r"`ours`|--only ours", "", line)) and "| ours" not in line
    ]
    assert where.startswith(OF_THE_CODE) or found == []


@pytest.mark.parametrize("page", SPOKEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_pages_of_operators_have_sentences_that_can_be_read_aloud(page: Path) -> None:
    assert [each for each in sentences(page.read_text()) if len(each.split()) > MOST_WORDS] == []


def test_words_of_a_sentence_are_counted_without_code_and_tables() -> None:
    text = "# A b\n\nOne two `three four` [five](x.md). Six\nseven, e.g. eight.\n\n| a | b |\n\n* nine\n* ten\n"
    assert list(sentences(text)) == ["One two CODE [five].", "Six seven, e.g. eight.", "* nine", "* ten"]


def test_the_picture_in_the_readme_is_small_and_its_page_can_be_drawn_again(tmp_path: Path) -> None:
    assert "(docs/pictures/page.png)" in (ROOT / "README.md").read_text()
    assert PICTURE.stat().st_size < 150_000
    page = page_of(tmp_path / "world")
    assert "orders" in page
    assert "advance to TAKEOVER" in page
    assert page.count("<style>") == 1


def test_the_readme_is_short() -> None:
    """Without the drawing of the way, which grows with the table of phases."""
    page = (ROOT / "README.md").read_text()
    assert len(page.splitlines()) - page.partition("```mermaid")[2].partition("```")[0].count("\n") <= 85
