"""The catalogue keeps its promises: unique codes, remedies, one runbook page each."""

from __future__ import annotations

import ast
import asyncio
import errno
import re
from pathlib import Path
from string import Formatter

import pytest

from migrator.findings.catalogue import CATALOGUE, MODULES
from migrator.findings.finding import Finding, Severity
from migrator.findings.quorum import DIRECTORY_UNUSABLE
from tests.support.source_trees import tree_of

RUNBOOKS = Path(__file__).resolve().parents[2] / "runbooks"
PAGES = sorted(RUNBOOKS.glob("*.md"))
PARTS = ("Meaning", "Impact", "Look", "Do", "Never", "Done when", "Call")


@pytest.mark.parametrize("finding", CATALOGUE.values(), ids=lambda finding: finding.code)
def test_every_finding_says_what_to_do_and_has_its_page(finding: Finding) -> None:
    assert re.fullmatch(r"Z2K-[1-7]\d{3}", finding.code)
    assert finding.means.strip()
    assert finding.remedy.strip()
    page = RUNBOOKS / f"{finding.code}.md"
    assert page.is_file(), f"{page.name} is missing"
    warns = "  WARNS" if finding.severity is Severity.WARNS else ""
    assert re.match(rf"# {finding.code}{warns}  (?!WARNS)\S", page.read_text()), "a title says whether it only WARNS"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_runbook_has_its_parts_in_order_and_says_in_impact_only_what_happens(page: Path) -> None:
    lines = page.read_text().splitlines()[1:]
    assert [line[:11].strip() for line in lines if not line.startswith(" ")] == list(PARTS)
    impact = page.read_text().partition("\nImpact")[2].partition("\nLook")[0]
    assert "warning" not in impact, "the title says that"
    assert "None now" not in impact, "say what happens now, and what happens later"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_done_when_goes_on_as_one_sentence(page: Path) -> None:
    (done,) = re.findall(r"^Done when  (.*)$", page.read_text(), re.MULTILINE)
    assert not re.match(r"[A-Z][a-z]*\b", done), "a small letter, except in a name"


@pytest.mark.parametrize("finding", CATALOGUE.values(), ids=lambda finding: finding.code)
def test_what_a_finding_says_can_be_filled_in(finding: Finding) -> None:
    names = {name for _, name, _, _ in Formatter().parse(finding.says) if name}
    occurrence = finding.found(**dict.fromkeys(names, "x"))
    assert "{" not in occurrence.text
    assert occurrence.as_json()["code"] == finding.code


def test_a_code_is_given_only_once() -> None:
    code = next(iter(CATALOGUE))
    with pytest.raises(AssertionError, match=code):
        Finding(code=code, says="again", means="-", remedy="-")


def test_a_name_is_given_only_once() -> None:
    """A second finding of the same name hides the first, and neither ruff nor mypy says so."""
    body = [each for module in MODULES for each in tree_of(Path(str(module.__file__)).read_text()).body]
    names = [each.target.id for each in body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    names += [to.id for each in body if isinstance(each, ast.Assign) for to in each.targets if isinstance(to, ast.Name)]
    assert len(names) > 100
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": 1, "b": [2, 3]}, "a: 1, b: [2, 3]"),
        (["PLAINTEXT", "SASL"], "PLAINTEXT, SASL"),
        pytest.param(frozenset({"b", "a"}), "a, b", id="a set"),  # its text differs between two workers
        ([1, 2], "[1, 2]"),
        ((1,), "[1]"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/etc/c"), "/etc/c: No such file or directory"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('h', 1)"), "Connection refused"),
        (asyncio.IncompleteReadError(b"", 4), "the connection was closed"),
        (TimeoutError(), "no answer in time"),
        (KeyError("a fault of ours"), "KeyError: 'a fault of ours'"),
    ],
    ids=str,
)
def test_a_message_says_values_as_a_person_does(value: object, said: str) -> None:
    """Not as Python writes them; only a fault of ours keeps the name of its class, by which it is found."""
    finding = DIRECTORY_UNUSABLE.found(directory="d", reason=value)
    assert finding.text == f"d cannot be used: {said}."
