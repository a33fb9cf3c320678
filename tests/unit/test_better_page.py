"""docs/better-than-stock.md has a row for each of the 28 flaws, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.source_trees import tree_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "better-than-stock.md"
COLUMNS = ("K", "the situation", "stock", "zk2kraft", "tests", "not yet")
FLAWS = range(1, 29)
NUMBERS = {2: "Two", 3: "Three", 4: "Four", 5: "Five"}


def tables() -> list[list[tuple[str, ...]]]:
    """The page's tables, header and rule included."""
    found: list[list[tuple[str, ...]]] = [[]]
    for line in PAGE.read_text().splitlines():
        if line.startswith("|"):
            found[-1].append(tuple(cell.strip() for cell in line.strip("|").split("|")))
        elif found[-1]:
            found.append([])
    return [each for each in found if each]


def rows() -> list[dict[str, str]]:
    header, _, *lines = tables()[0]
    assert header == COLUMNS
    return [dict(zip(COLUMNS, line, strict=True)) for line in lines]


def named_tests(text: str) -> list[tuple[str, str]]:
    """Files and functions."""
    return re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = tree_of((ROOT / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def test_every_flaw_has_its_row_and_no_cell_is_empty() -> None:
    assert [row["K"] for row in rows()] == [str(number) for number in FLAWS]
    assert not [row["K"] for row in rows() if not all(row.values())]


@pytest.mark.parametrize("number", FLAWS)
def test_every_flaw_has_a_test_that_is_named_after_it(number: int) -> None:
    named = named_tests(rows()[number - 1]["tests"])
    assert [function for _, function in named if re.search(rf"(^test|_and)_k{number:02}_", function)]


def test_every_test_that_the_page_names_exists() -> None:
    named = named_tests(PAGE.read_text())
    assert len(named) == PAGE.read_text().count("::")
    assert not [(file, function) for file, function in named if function not in functions_of(file)]
    assert all(named_tests(line[-1]) for line in tables()[1][2:])


def test_the_page_counts_what_does_not_exist_yet() -> None:
    missing = [row["K"] for row in rows() if row["not yet"] != "-"]
    assert f"{NUMBERS[len(missing)]} rows have something in the last column." in PAGE.read_text()
