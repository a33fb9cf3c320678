"""`docs/cases.md` keeps its promise: every case of the field is checked by something that exists, or says why not."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from migrator.findings.catalogue import CATALOGUE
from tests.support.source_trees import tree_of

ROOT: Final = Path(__file__).resolve().parents[2]
CASES: Final = tuple(f"F-{number:02}" for number in range(1, 61))
EXCUSED_MAX: Final = 10
PLACES: Final = ("`zk2kraft check`", "takeover gate", "audit", "run-time", "rollback gate")
EXCUSE: Final = "not checked: "

_CODE: Final = re.compile(r"Z2K-\d{4}")
_TEST: Final = re.compile(r"tests/[\w/]+\.py::\w+")


@dataclass(frozen=True)
class Row:
    """One line of the table: the case, in our words, how it is checked, what provokes it."""

    case: str
    words: str
    check: str
    proof: str

    @property
    def excused(self) -> bool:
        return self.proof.startswith(EXCUSE)


def rows_of(text: str) -> list[Row]:
    """Every line that begins as a row of a case; a pipe inside a cell is not possible."""
    found = []
    for line in text.splitlines():
        if line.startswith("| F-"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            assert len(cells) == 4, line
            found.append(Row(*cells))
    return found


def faults_of(text: str) -> list[str]:
    """What is wrong with a table, in words."""
    rows = rows_of(text)
    found = [f"{case} has {count} rows" for case in CASES if (count := [row.case for row in rows].count(case)) != 1]
    found += [f"{row.case} is no case" for row in rows if row.case not in CASES]
    excused = [row.case for row in rows if row.excused]
    if len(excused) > EXCUSED_MAX:
        found.append(f"{len(excused)} cases are excused: {excused}")
    for row in rows:
        found += [f"{row.case}: {fault}" for fault in _faults_of_row(row)]
    return found


def _faults_of_row(row: Row) -> list[str]:
    found = [f"{code} is not in the catalogue" for code in _CODE.findall(row.check) if code not in CATALOGUE]
    if not row.words:
        found.append("it is not told")
    if row.excused:
        return found if len(row.proof) > len(EXCUSE) + 40 else [*found, "its excuse gives no reason"]
    if not any(place in row.check for place in PLACES):
        found.append("nothing says where it is checked")
    tests = _TEST.findall(row.proof)
    if not tests:
        found.append("no test provokes it")
    return found + [f"{test} does not exist" for test in tests if not _exists(test)]


def _exists(test: str) -> bool:
    file, _, name = test.partition("::")
    return name in _tests_in(ROOT / file)


@cache
def _tests_in(file: Path) -> frozenset[str]:
    if not file.is_file():
        return frozenset()
    tree = tree_of(file.read_text())
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def page() -> str:
    return (ROOT / "docs" / "cases.md").read_text()


def test_every_case_has_a_check_and_a_test_that_provokes_it_or_a_reason() -> None:
    assert faults_of(page()) == []


def test_every_case_that_a_finding_names_has_the_finding_in_its_row() -> None:
    rows = {row.case: row for row in rows_of(page())}
    missing = [
        f"{case}: {code}"
        for code, finding in CATALOGUE.items()
        for case in finding.cases
        if code not in rows[case].check
    ]
    assert not missing


def with_row(case: str, check: str, proof: str) -> str:
    """The page with another row for one case."""
    lines = [f"| {case} | words | {check} | {proof} |" if each.startswith(f"| {case} ") else each for each in lines_()]
    return "\n".join(lines)


def lines_() -> list[str]:
    return page().splitlines()


PROOF: Final = "`tests/unit/test_cases.py::test_every_case_has_a_check_and_a_test_that_provokes_it_or_a_reason`"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (with_row("F-07", "audit", PROOF).replace("| F-07 ", "| F-x7 "), "F-07 has 0 rows"),
        ("\n".join([*lines_(), "| F-07 | again | audit | - |"]), "F-07 has 2 rows"),
        (with_row("F-07", "Z2K-1999, audit", PROOF), "F-07: Z2K-1999 is not in the catalogue"),
        (with_row("F-07", "somehow", PROOF), "F-07: nothing says where it is checked"),
        (with_row("F-07", "audit", "by hand"), "F-07: no test provokes it"),
        (with_row("F-07", "audit", f"{PROOF[:-1]}s`"), "_reasons does not exist"),
        (with_row("F-07", "audit", "`tests/unit/test_nothing.py::test_it`"), "test_nothing.py::test_it does not exist"),
        (with_row("F-07", "-", "not checked: later"), "F-07: its excuse gives no reason"),
    ],
)
def test_a_table_that_does_not_hold_is_told_by_its_row(text: str, fault: str) -> None:
    assert [each for each in faults_of(text) if each.endswith(fault)]


def test_no_more_than_ten_cases_may_be_excused() -> None:
    text = page()
    for case in CASES[: EXCUSED_MAX + 1]:
        text = re.sub(rf"(?m)^\| {case} .*$", f"| {case} | words | - | {EXCUSE}{'because of a reason ' * 3}|", text)
    assert [each for each in faults_of(text) if "cases are excused" in each]
