"""A public docstring begins with a sentence: who reads "Of one driver." has to look for its subject elsewhere.

Looked at: the first word of each module, class and function without an underscore. "Where" and "When" are no fragments:
"Where Kafka keeps an entity" says what a function returns, as "Whether" does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.source_trees import tree_of

ROOT: Final = Path(__file__).resolve().parents[2]

FRAGMENTS: Final = frozenset(
    {
        *("After", "Also", "And", "As", "At", "Before", "Beside", "Between", "But", "By", "For", "From", "In", "Of"),
        *("On", "Once", "Or", "Than", "Through", "To", "Under", "Until", "While", "With", "Without"),
    }
)
LEFT: Final = {"api": 9, "migrator/fleet": 23, "migrator/lab": 25, "state_machine": 65}
"""Packages that have some still, and how many at most: a number only goes down. All others have none."""


def packages() -> list[str]:
    below = (path.name for path in sorted((ROOT / "migrator").iterdir()) if (path / "__init__.py").is_file())
    return ["api", "state_machine", *(f"migrator/{name}" for name in below)]


@pytest.mark.parametrize("package", packages())
def test_a_public_docstring_begins_with_a_sentence(package: str) -> None:
    found = list(fragments_in(package))
    assert len(found) <= LEFT.get(package, 0), "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        '"""Of one driver."""',
        'class Watch:\n    """Of one driver."""',
        'class Watch:\n    def look(self):\n        """As before."""',
        'async def look():\n    """By broker, what it has."""',
    ],
)
def test_a_fragment_is_found(source: str) -> None:
    assert len(list(fragments_of(source))) == 1


@pytest.mark.parametrize(
    "source", ['"""Watches one driver."""', 'def _look():\n    """Of one driver."""', 'x = 1\n"""Of one driver."""']
)
def test_a_sentence_a_private_name_and_a_value_are_none(source: str) -> None:
    assert list(fragments_of(source)) == []


def fragments_in(package: str) -> Iterator[str]:
    for path in sorted((ROOT / package).rglob("*.py")):
        yield from (f"{path.relative_to(ROOT)}:{each}" for each in fragments_of(path.read_text()))


def fragments_of(source: str) -> Iterator[str]:
    for node in ast.walk(tree_of(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = getattr(node, "name", "")
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if not name.startswith("_") and first.split(" ", 1)[0].rstrip(",:") in FRAGMENTS:
                yield f"{getattr(node, 'lineno', 1)}: {first}"
