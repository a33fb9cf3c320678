"""Directories of runs whose rows are gone, since an earlier copy of the database was put in the place of it."""

from __future__ import annotations

from pathlib import Path

from state_machine.audits.inspections import move_aside


def test_what_a_run_of_the_same_number_left_is_kept_under_another_name(tmp_path: Path) -> None:
    for text in ("first", "second"):
        (tmp_path / "6").mkdir()
        (tmp_path / "6" / "report.json").write_text(text)
        move_aside(tmp_path / "6")
        assert not (tmp_path / "6").exists()
    kept = {each.name: (each / "report.json").read_text() for each in tmp_path.iterdir()}
    assert kept == {"6.unknown-1": "first", "6.unknown-2": "second"}


def test_a_directory_that_is_empty_or_missing_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    move_aside(tmp_path / "7")
    move_aside(tmp_path / "8")
    assert [each.name for each in tmp_path.iterdir()] == ["7"]
