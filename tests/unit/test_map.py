"""The map of the packages is the one that the imports draw."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.model.features.cases import Case
from state_machine.policy.phases import OPERATIONS, Phase
from tests.map import LEVELS_PAGE, PAGE, PHASES_PAGE, README, ROOT, reduced, renewed


def test_the_map_in_the_architecture_page_is_what_the_imports_draw() -> None:
    page = PAGE.read_text()
    assert renewed(page) == page, "the map is old: python -m tests.map --save"


def test_the_way_in_the_readme_is_what_the_table_of_phases_draws() -> None:
    page = README.read_text()
    assert renewed(page) == page, "the way is old: python -m tests.map --save"
    assert "FINALIZING -. abort .-> SOAK" in page
    assert "SOAK -. rollback .-> zookeeper" in page
    assert "COMPLETED -." not in page


def test_the_page_of_phases_is_what_their_table_says() -> None:
    page = PHASES_PAGE.read_text()
    assert renewed(page) == page, "the tables are old: python -m tests.map --save"
    assert all(f"| {phase} | " in page for phase in Phase)
    assert all(f"| `{row.word}` | " in page for row in OPERATIONS.values())
    assert "| `canary` | Canary traffic runs, if the inventory wants it | ROLLING_BROKERS, " in page


def test_the_page_of_feature_levels_is_what_the_tables_say() -> None:
    """R-778-01, R-778-04."""
    page = LEVELS_PAGE.read_text()
    assert renewed(page) == page, "the tables are old: python -m tests.map --save"
    assert all(f"| {case} | " in page for case in Case)
    assert "| 3.5-IV2 (11) | SCRAM credentials | UserScramCredentialRecord |" in page


def test_an_arrow_that_follows_from_others_is_left_out() -> None:
    assert reduced({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}


def parts_of(place: Path) -> set[str]:
    """Packages below it, as `road/hosts`, and modules right in it."""
    packages = {str(each.parent.relative_to(place)) for each in place.rglob("__init__.py")} - {"."}
    return packages | {each.stem for each in place.glob("*.py")} - {"__init__", "env"}


@pytest.mark.parametrize("top", ["state_machine", "migrator/node"])
def test_the_architecture_page_says_what_every_package_and_every_flat_module_owns(top: str) -> None:
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    named = {word.strip("`,") for row in rows for word in row.split() if word.startswith("`")}
    assert parts_of(ROOT / top) - named == set()


@pytest.mark.parametrize("top", ["state_machine", "migrator/node"])
def test_a_folder_of_tests_is_named_as_the_package_that_it_tests(top: str) -> None:
    """What a package does is looked for in the folder of its name."""
    tests = ROOT / "tests/unit" / Path(top).name
    folders = {each.name for each in tests.iterdir() if each.is_dir() and each.name != "__pycache__"}
    packages = {each.parent.name for each in (ROOT / top).glob("*/__init__.py")}
    assert folders <= packages
    assert packages - folders <= {"facts"}, "a package without a folder of tests"
