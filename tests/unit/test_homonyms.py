"""One name, one class: a public class at the top of a module has a name that no other module uses.

Read from the source. The few names that two modules share are in `SHARED`, each with its reason; an entry of `SHARED`
that is no homonym any more fails too. Private classes (`_Name`) belong to one module and are not looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.source_trees import tree_of

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("migrator", "state_machine", "api")
SHARED_MAX: Final = 10

SHARED: Final[dict[str, str]] = {}
"""Name to reason, one plain sentence each."""


def public_classes(path: Path) -> Iterator[str]:
    for node in tree_of(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def homonyms() -> dict[str, list[str]]:
    """Names of public top-level classes that more than one module has, with these modules."""
    places: dict[str, list[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name in public_classes(path):
                places.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert len(places) > 1_000, "the sources were not found"
    return {name: where for name, where in places.items() if len(where) > 1}


def test_a_class_name_means_one_thing() -> None:
    assert {name: where for name, where in homonyms().items() if name not in SHARED} == {}


def test_a_shared_name_is_still_shared_and_has_its_reason() -> None:
    assert sorted(set(SHARED) - set(homonyms())) == []
    assert [name for name, reason in SHARED.items() if not reason.endswith(".")] == []
    assert len(SHARED) <= SHARED_MAX
