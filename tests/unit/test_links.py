"""Every link of a page leads to a file and a heading that exist, and a page that a text names exists.

`make docs` follows links of docs only. Here are README, changelog and runbooks too, and the pages that findings, help
and reports name (`docs/undo.md`).
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "runbooks").glob("*.md")})
TEXTS: Final = sorted(
    file
    for top in ("migrator", "state_machine", "api", "docker", "runbooks")
    for file in (ROOT / top).rglob("*")
    if file.suffix in (".py", ".md", ".html", ".service", ".yaml")
)
LINK: Final = re.compile(r"\]\(([^()\s]+)\)")
NAMED: Final = re.compile(r"(?<![\w./-])docs/[\w./-]*\w\.(?:md|ya?ml|json|html|png)\b")
FENCE: Final = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


@functools.cache
def anchors(page: Path) -> frozenset[str]:
    """Those of its headings, as the site and the code host make them."""
    heads = re.findall(r"^#+ +(.*?) *$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads)


def leads_nowhere(link: str, page: Path) -> bool:
    path, _, anchor = link.partition("#")
    if re.match(r"[a-z]+:", link):
        return False
    target = (page.parent / path).resolve() if path else page
    return not target.exists() or (bool(anchor) and target.suffix == ".md" and anchor not in anchors(target))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_heading_that_exists(page: Path) -> None:
    assert [link for link in LINK.findall(FENCE.sub("", page.read_text())) if leads_nowhere(link, page)] == []


def test_every_page_that_a_text_of_the_product_names_exists() -> None:
    named = {(each, str(file.relative_to(ROOT))) for file in TEXTS for each in NAMED.findall(file.read_text())}
    assert {(each, where) for each, where in named if not (ROOT / each).exists()} == set()


@pytest.mark.parametrize(
    ("link", "wrong"),
    [
        ("undo.md", False),
        ("undo.md#what-follows", False),
        ("undo.md#what-precedes", True),
        ("redo.md", True),
        ("../runbooks/Z2K-1008.md", False),
        ("#how-each-way-back-works", False),
    ],
)
def test_a_link_that_leads_nowhere_is_found(link: str, wrong: bool) -> None:
    assert leads_nowhere(link, ROOT / "docs/undo.md") == wrong
