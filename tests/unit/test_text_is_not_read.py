"""What the service decides, it decides by values: no sentence that people read is taken apart again (issue: a reworded
line changed what a gate did).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.source_trees import tree_of

ROOT: Final = Path(__file__).resolve().parents[2]
CODE: Final = ("state_machine", "api")
PROSE: Final = frozenset(
    {"text", "words", "message", "reason", "says", "said", "waiting", "what", "problem", "cause", "detail"}
)
"""Fields that hold a sentence."""
TAKES_APART: Final = frozenset(
    {"startswith", "endswith", "removeprefix", "partition", "rpartition", "split", "rsplit", "find", "index", "count"}
)

ALLOWED: Final = {
    "state_machine/rolling/unsent_registrations.py": "a mark that the journal itself added; a column is not worth it",
    "state_machine/rows/versions/0004_outcomes_as_values.py": "it turns the lines of earlier releases into values",
}


def test_no_sentence_is_taken_apart() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for package in CODE
        for path in sorted((ROOT / package).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in ALLOWED
        for line in taken_apart(path.read_text())
    ]
    assert found == []


def test_each_way_of_taking_one_apart_is_found() -> None:
    source = (
        'outcome.text.startswith("done")\n'
        'each.reason.partition(":")[0]\n'
        "Z in guard.reason\n"
        'outcome.kind == "done"\n'
        'path.name.startswith("a")\n'
    )
    assert sorted(taken_apart(source)) == [1, 2, 3]


def taken_apart(source: str) -> Iterator[int]:
    for node in ast.walk(tree_of(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr=act, value=ast.Attribute(attr=name))):
                if act in TAKES_APART and name in PROSE:
                    yield node.lineno
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Attribute(attr=name)]):
                if name in PROSE:
                    yield node.lineno
