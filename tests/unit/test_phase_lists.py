"""What depends on the phase follows from the table of phases: no other module lists phases, and `api` spells none.

Read from the source. A list is whatever names two phases at one place: a tuple, list, set or dict, or comparisons of
one value that `or` or `and` connects.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from state_machine.policy.phases import Phase
from tests.support.source_trees import tree_of

ROOT: Final = Path(__file__).resolve().parents[2]
MAY_LIST: Final = {
    "state_machine/policy/phase_table.py": "the table",
    "state_machine/policy/phases.py": "the steps between phases",
    "state_machine/work/acts.py": "which method acts in a phase",
    "state_machine/work/stock_acts.py": "the same with Kafka's own controllers",
}


def lists_in(tree: ast.AST) -> Iterator[tuple[int, frozenset[str]]]:
    """Line and phases of each place that names several."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            named = [phases_in(node)]
        elif isinstance(node, ast.BoolOp):
            compared = [each for each in node.values if isinstance(each, ast.Compare)]
            subjects = {ast.dump(each.left) for each in compared}
            named = [
                frozenset().union(*(phases_in(each) for each in compared if ast.dump(each.left) == subject))
                for subject in subjects
            ]
        else:
            continue
        yield from ((node.lineno, each) for each in named if len(each) > 1)


def phases_in(node: ast.AST) -> frozenset[str]:
    return frozenset(
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "Phase"
    )


def spelled_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each string that is a phase's name and nothing else."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in Phase.__members__:
            yield node.lineno, node.value


def sources(*packages: str) -> Iterator[tuple[str, ast.AST]]:
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), tree_of(path.read_text())


def test_only_the_table_and_the_steps_list_phases() -> None:
    found = [
        f"{where}:{line} lists {', '.join(sorted(named))}"
        for where, tree in sources("state_machine", "api")
        if where not in MAY_LIST
        for line, named in lists_in(tree)
    ]
    assert not found, "\n".join(["it is a column of PHASES, or `phases_where`:", *found])


@pytest.mark.parametrize("where", MAY_LIST)
def test_whoever_may_list_phases_does(where: str) -> None:
    assert any(lists_in(tree_of((ROOT / where).read_text())))


def test_no_module_of_the_api_spells_the_name_of_a_phase() -> None:
    found = [f"{where}:{line} spells {name}" for where, tree in sources("api") for line, name in spelled_in(tree)]
    assert not found, "\n".join(["import it from state_machine.policy.phases:", *found])


def test_no_template_spells_the_name_of_a_phase() -> None:
    spelled = re.compile(rf"""["']({"|".join(Phase.__members__)})["']""")
    templates = sorted((ROOT / "api/templates").iterdir())
    assert templates
    found = [f"{path.name}: {match[1]}" for path in templates for match in spelled.finditer(path.read_text())]
    assert not found, "\n".join(["templates have `phase`:", *found])


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("IN = (Phase.READY, Phase.SOAK)", {"READY", "SOAK"}),
        ("IN = frozenset({Phase.READY, Phase.SOAK})", {"READY", "SOAK"}),
        ("IN = {Phase.READY: 1, Phase.SOAK: 2}", {"READY", "SOAK"}),
        ("IN = ((Phase.READY, 1), (Phase.SOAK, 2))", {"READY", "SOAK"}),
        ("def f(p): return p is Phase.READY or p is Phase.SOAK", {"READY", "SOAK"}),
        ("def f(p): return p in [Phase.READY, Phase.SOAK]", {"READY", "SOAK"}),
        ("def f(p): return p is not Phase.READY and p is not Phase.SOAK", {"READY", "SOAK"}),
        ("IN = (Phase.READY, 1)", set()),
        ("def f(a, b): return a is Phase.READY and b is Phase.SOAK", set()),
        ("def f(p): return p is Phase.READY or p.other", set()),
    ],
)
def test_a_list_of_phases_is_seen_in_every_form(source: str, named: set[str]) -> None:
    found = [each for _, each in lists_in(tree_of(source))]
    assert set().union(*found) == named


def test_a_spelled_phase_is_seen_and_a_sentence_with_one_is_none() -> None:
    assert [name for _, name in spelled_in(tree_of('a = "READY"; b = "it is READY"'))] == ["READY"]
