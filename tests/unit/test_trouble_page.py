"""docs/zookeeper-trouble.md says for every phase and every trouble what the laboratory's tests expect."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from migrator.findings.catalogue import CATALOGUE
from migrator.node.quorum.hooks import EFFECTS as HOOKS
from tests.support.source_trees import tree_of
from tests.support.zookeeper_trouble import EFFECTS, ENDINGS, Ending, Phase, Trouble

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "zookeeper-trouble.md"


def tables() -> list[list[list[str]]]:
    """The page's tables, header first, without the rules below the headers."""
    found: list[list[list[str]]] = [[]]
    for line in PAGE.read_text().splitlines():
        if line.startswith("|") and not line.startswith("| ---"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1] and not line.startswith("|"):
            found.append([])
    return [each for each in found if each]


def told() -> dict[tuple[str, str], Ending]:
    header, *rows = tables()[0]
    return {
        (row[0], trouble): Ending(tuple(re.findall(r"`(\w+)`", cell)), next(iter(re.findall(r"Z2K-\d+", cell)), None))
        for row in rows
        for trouble, cell in zip(header[1:], row[1:], strict=True)
    }


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = tree_of((ROOT / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("trouble", Trouble)
def test_the_page_tells_how_each_phase_ends(trouble: Trouble) -> None:
    expected = {str(phase): ENDINGS[phase, trouble] for phase in Phase}
    assert {phase: ending for (phase, column), ending in told().items() if column == trouble} == expected


def test_every_trouble_names_its_test_and_every_test_exists() -> None:
    assert [row[0] for row in tables()[1][1:]] == list(Trouble)
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text())
    assert len(named) == PAGE.read_text().count("::") == len(Trouble) + 1
    assert not [(file, function) for file, function in named if function not in functions_of(file)]


def test_what_an_operator_sees_is_told_for_every_phase() -> None:
    rows = [row[0].split("; ") if "handing" in row[0] else [row[0]] for row in tables()[2][1:]]
    phases = ", ".join(name for row in rows for name in row)
    assert all(phase in phases for phase in Phase)


def test_every_code_and_every_effect_exists() -> None:
    assert set(re.findall(r"Z2K-\d+", PAGE.read_text())) <= CATALOGUE.keys()
    assert set(EFFECTS.values()) <= set(HOOKS)
