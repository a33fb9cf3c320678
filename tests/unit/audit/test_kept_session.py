"""The session that serves many audits, without Spark: how often it is started, and after what it is distrusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from migrator.audit.spark import kept_session
from migrator.audit.spark.kept_session import KeptSession
from migrator.findings.audit import AUDIT_CANNOT_READ, AUDIT_ROWS_LOST, SPARK_FAILED
from migrator.findings.finding import FindingError

MASTER = "local[2]"


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []

    def started(*given: object) -> object:
        made.append(given)
        return object()

    monkeypatch.setattr(kept_session, "started", started)
    return made


def test_spark_is_started_once_for_all_audits_with_a_directory_of_its_own(starts: list[Any], tmp_path: Path) -> None:
    session = KeptSession(tmp_path, MASTER)
    with session(MASTER, tmp_path / "first") as first:
        pass
    with session(MASTER, tmp_path / "second") as second:
        assert second is first
    assert [given[:2] for given in starts] == [(MASTER, tmp_path)]


@pytest.mark.parametrize(
    ("error", "code", "distrusted"),
    [
        (ValueError("the heap is full"), SPARK_FAILED.code, True),
        (AUDIT_ROWS_LOST.error(step="read", found=1, expected=2), AUDIT_ROWS_LOST.code, True),
        (AUDIT_CANNOT_READ.error(what="the log", reason="a checksum"), AUDIT_CANNOT_READ.code, False),
    ],
    ids=["Spark gave up", "rows were lost", "a side cannot be read"],
)
def test_a_session_is_distrusted_after_what_it_may_be_to_blame_for(
    error: Exception, code: str, distrusted: bool, starts: list[Any], tmp_path: Path
) -> None:
    session = KeptSession(tmp_path, MASTER)
    with pytest.raises(FindingError) as raised, session(MASTER, tmp_path):
        raise error
    assert raised.value.code == code
    assert (session.distrusted is not None) == distrusted
