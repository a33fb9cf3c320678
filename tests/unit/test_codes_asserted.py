"""Every finding code is asserted by a test: a code that nobody provokes is a promise that nobody keeps.

A test asserts a code when its own code, not a comment or a docstring, has the code as text or uses the finding by name.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from migrator.findings.catalogue import CATALOGUE, MODULES
from migrator.findings.finding import Finding
from tests.support.source_trees import tree_of

TESTS = Path(__file__).parents[1]

NOT_COUNTED = {"test_findings.py", "test_codes_asserted.py", "test_cases.py"}
"""They look at the catalogue as a whole; nothing is provoked in them."""

TABLES = {"offences.py"}
"""Not tests themselves: each line of them is planted, and its code asserted, by `unit/driver/test_content.py`."""

NOT_PROVOKED: dict[str, str] = {}
"""Code and the reason why no test can provoke it."""


def test_every_code_is_asserted_by_a_test() -> None:
    silent = sorted(set(CATALOGUE) - asserted() - NOT_PROVOKED.keys())
    assert not silent, f"no test asserts {', '.join(f'{code} ({name_of(code)})' for code in silent)}"


def test_what_is_allowed_to_be_silent_is_so_and_has_its_reason() -> None:
    assert not NOT_PROVOKED.keys() & asserted()
    assert NOT_PROVOKED.keys() <= CATALOGUE.keys()
    assert all(NOT_PROVOKED.values())


def test_a_docstring_a_comment_and_an_import_assert_nothing() -> None:
    source = '"""Z2K-1001"""\nfrom findings import STATE_MISSING  # Z2K-1002\ndef test_a():\n    "Z2K-1001"\n'
    assert said_in(source) == set()
    assert said_in(source + '    assert seen == "Z2K-1001 is it"\n    assert STATE_MISSING\n') == {
        "Z2K-1001",
        "Z2K-1003",
    }


@cache
def asserted() -> frozenset[str]:
    found: set[str] = set()
    for path in TESTS.rglob("*.py"):
        is_test = path.name.startswith("test_") and path.name not in NOT_COUNTED
        if is_test or path.name in TABLES:
            found |= said_in(path.read_text())
    return frozenset(found)


def said_in(source: str) -> set[str]:
    """The codes that this module's code says, as text or by the name of the finding."""
    texts: list[str] = []
    names: set[str] = set()
    tree = tree_of(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings are among them
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in alone:
                texts.append(text)
            case ast.Name(id=name) | ast.Attribute(attr=name):
                names.add(name)
    by_text = {code for code in CATALOGUE if any(code in text for text in texts)}
    return by_text | {finding.code for name, finding in FINDINGS.items() if name in names}


FINDINGS = {name: value for module in MODULES for name, value in vars(module).items() if isinstance(value, Finding)}


def name_of(code: str) -> str:
    return next((name for name, finding in FINDINGS.items() if finding.code == code), "made elsewhere")
