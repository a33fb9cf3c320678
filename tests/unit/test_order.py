"""Which files the workers take first."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.order import PROCESSOR_S, SECONDS, Took, in_order, seconds_by_file

ROOT = Path(__file__).parents[2]
LONG, LESS_LONG = sorted(SECONDS, key=SECONDS.__getitem__, reverse=True)[:2]


def an_item(nodeid: str, *, alone: bool = False) -> Any:
    marker = object() if alone else None
    return SimpleNamespace(nodeid=nodeid, path=Path(nodeid.partition("::")[0]), get_closest_marker=lambda _: marker)


def ordered(*items: Any) -> list[str]:
    return [item.nodeid for item in in_order(items)]


def test_the_longest_file_is_begun_first_however_few_tests_it_has() -> None:
    many = [f"tests/e2e/test_a.py::{number}" for number in range(9)]
    long, less_long = f"{LONG}::one", f"{LESS_LONG}::one"
    assert ordered(*map(an_item, [*many, less_long, long])) == [long, less_long, *many]


def test_files_about_time_come_last_and_stay_whole() -> None:
    timed, beside = an_item("tests/e2e/test_a.py::timed", alone=True), an_item("tests/e2e/test_a.py::beside")
    assert ordered(beside, timed, an_item("tests/e2e/test_b.py::one")) == [
        "tests/e2e/test_b.py::one",
        "tests/e2e/test_a.py::beside",
        "tests/e2e/test_a.py::timed",
    ]


def test_files_of_one_rank_are_not_mixed() -> None:
    names = [f"tests/e2e/test_{file}.py::{number}" for file in "ab" for number in range(3)]
    assert ordered(*map(an_item, names)) == names


def test_every_file_of_the_table_exists_and_make_keeps_this_order() -> None:
    assert [file for file in SECONDS if not (ROOT / file).is_file()] == []
    assert "--dist loadfile --no-loadscope-reorder" in (ROOT / "Makefile").read_text()


def test_whatever_the_environment_says_processes_that_tests_start_need_not_compile() -> None:
    recipes = [line for line in (ROOT / "Makefile").read_text().splitlines() if "$(FILES_BESIDE_EACH_OTHER)" in line]
    assert len(recipes) == 3
    assert {line.split()[0] for line in recipes} == {"$(KEEP_BYTECODE)"}
    assert "KEEP_BYTECODE = PYTHONDONTWRITEBYTECODE=\n" in (ROOT / "Makefile").read_text()


def test_a_file_that_is_named_runs_whole_and_otherwise_the_long_tests_stay_out() -> None:
    (recipe,) = [line for line in (ROOT / "Makefile").read_text().splitlines() if '-m "not long"' in line]
    assert '$(if $(findstring .py,$(TESTS)),,-m "not long")' in recipe


def test_the_end_of_a_run_names_the_files_that_took_longest() -> None:
    taken = {"tests/a.py::one": 40.0, "tests/b.py::one": 90.0, "tests/a.py::two": 30.0, "tests/c.py::one": 59.0}
    reports: list[Any] = [
        SimpleNamespace(nodeid=nodeid, duration=seconds, user_properties=[(PROCESSOR_S, 2.0)])
        for nodeid, seconds in taken.items()
    ]
    longest_first = list(seconds_by_file(reports).items())
    assert longest_first == [("tests/b.py", Took(90.0, 2.0)), ("tests/a.py", Took(70.0, 4.0))]
