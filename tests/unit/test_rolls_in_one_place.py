"""Which kind of roll it is, nobody asks: facts are fields of `ROLLS`, and what differs is a method of the kinds.

An enum that code forks on by name spreads: eight kinds once stood in 19 files, and a new one had to visit all of them.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from state_machine.policy.fleet_evidence import Roll
from state_machine.rolling.table import KINDS
from tests.support.source_trees import tree_of

ROOT: Final = Path(__file__).resolve().parents[2]
CODE: Final = ("state_machine", "api")
ROLLING: Final = ROOT / "state_machine/rolling"
OF_KINDS: Final = frozenset({f"{each}.py" for each in Roll})
"""A module per kind, by its name."""
TABLE: Final = ROOT / "state_machine/policy/rolls.py"
NAMED_MAX: Final = 128
"""How often all other code names a kind. It may only go down."""
FORKS_MAX: Final = 11
"""How often it compares with one, or matches one. It may only go down."""


def named(source: str) -> list[int]:
    """Lines with `Roll.X`, once for each."""
    return [
        node.lineno
        for node in ast.walk(tree_of(source))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Roll"
    ]


def forks(source: str) -> Iterator[int]:
    """Lines of comparisons with `Roll.X`, alone or in a collection, and of cases of a `match`."""
    for node in ast.walk(tree_of(source)):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.match_case):
            parts = [node.pattern]
        if any(named(ast.unparse(part)) for part in parts if isinstance(part, ast.expr | ast.pattern)):
            yield node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno  # type: ignore[attr-defined]


def others() -> dict[str, str]:
    """Sources that are neither the table nor the module of a kind."""
    paths = [path for package in CODE for path in sorted((ROOT / package).rglob("*.py"))]
    of_kinds = {ROLLING / name for name in OF_KINDS}
    assert of_kinds <= set(paths)
    left = [path for path in paths if path != TABLE and path not in of_kinds]
    return {str(path.relative_to(ROOT)): path.read_text() for path in left}


def test_the_loop_its_journal_and_what_kinds_share_know_no_roll_by_name() -> None:
    modules = [path for path in sorted(ROLLING.glob("*.py")) if path.name not in OF_KINDS]
    assert len(modules) > 8
    assert {path.name: named(path.read_text()) for path in modules if named(path.read_text())} == {}


def test_each_kind_has_its_module_and_its_row() -> None:
    assert {roll: type(kind).__module__ for roll, kind in KINDS.items()} == {
        roll: f"state_machine.rolling.{roll}" for roll in Roll
    }


def test_all_other_code_names_kinds_no_more_often_than_before() -> None:
    found = Counter({path: len(named(source)) for path, source in others().items()})
    assert found.total() == NAMED_MAX, f"fewer: lower NAMED_MAX; more: a field of ROLLS? {found.most_common(12)}"


def test_all_other_code_forks_on_kinds_no_more_often_than_before() -> None:
    found = {path: lines for path, source in others().items() if (lines := list(forks(source)))}
    assert sum(map(len, found.values())) == FORKS_MAX, found


def test_each_way_of_asking_which_roll_it_is_is_found() -> None:
    source = (
        "if roll is Roll.KRAFT: pass\nx = row.roll in (Roll.BACK, Roll.OURS)\nmatch roll:\n    case Roll.JOIN: pass\n"
    )
    source += "step(Roll.SOAK)\n"
    assert sorted(forks(source)) == [1, 2, 4]
    assert sorted(named(source)) == [1, 2, 2, 4, 5]
