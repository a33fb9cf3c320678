"""The archive of Spark's classes is optional: an audit without it is only slower. No JVM is started here."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.audit.spark import training
from migrator.audit.spark.classes import archive_path, using_archive


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZK2KRAFT_CACHE", str(tmp_path))
    return tmp_path


def test_without_an_archive_a_jvm_gets_no_options(cache: Path) -> None:
    assert using_archive() == ""


def test_an_archive_that_was_made_is_used(cache: Path) -> None:
    archive = archive_path()
    assert archive.is_relative_to(cache)
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"classes")
    assert f" -XX:SharedArchiveFile={archive} -Xshare:auto" in using_archive()


def test_a_place_with_a_space_would_be_two_options_and_is_not_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZK2KRAFT_CACHE", str(cache / "with a space"))
    archive_path().parent.mkdir(parents=True)
    archive_path().write_bytes(b"classes")
    assert using_archive() == ""


def test_an_archive_that_could_not_be_made_is_remembered_and_not_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Path] = []

    def train(archive: Path) -> bool:
        tries.append(archive)
        archive.parent.mkdir(parents=True)
        return False

    monkeypatch.setattr(training, "train", train)
    note = cache / "note"
    assert [training.main(["--note", str(note)]) for _ in range(2)] == [0, 0]
    assert tries == [archive_path()] == [Path(note.read_text())]
    assert using_archive() == ""


def test_another_java_has_another_archive(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for name in ("17", "21"):
        java = cache / name / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.touch()
        monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
        found.add(archive_path())
    assert len(found) == 2
