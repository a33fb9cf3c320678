"""An audit always answers with a report; what could not be read is in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from migrator.audit import run
from migrator.audit.compare import AuditReport, ExpectedDifferences, unread_report
from migrator.audit.history.kept_runs import REPORT_FILE
from migrator.audit.run import REHEARSAL, empty_directory, keep_report, rules_of, run_audit
from migrator.audit.spark.job import replay
from migrator.findings.audit import AUDIT_CANNOT_READ, AUDIT_OUT_UNUSABLE
from migrator.findings.finding import FindingError


def audit(kraft: str, engine: str = "quick", out: Path | None = None) -> AuditReport:
    return run_audit("127.0.0.1:1", kraft, engine=engine, master="local[*]", out=out)


def test_an_engine_that_does_not_exist_is_not_read(tmp_path: Path) -> None:
    assert audit(str(tmp_path), engine="fast").exit_code == 2


def test_an_unreachable_zookeeper_is_not_read_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unreachable:
        def __init__(self, connect: str) -> None:
            from migrator.findings.zookeeper import ZOOKEEPER_UNREACHABLE

            raise ZOOKEEPER_UNREACHABLE.error(connect=connect, reason="no answer")

    monkeypatch.setattr(run, "ZkSession", Unreachable)
    out = tmp_path / "out"
    report = audit(str(tmp_path), out=out)
    assert report.exit_code == 2
    assert "127.0.0.1:1" in report.differences[0].key
    assert json.loads((out / REPORT_FILE).read_text())["same"] is False


def test_what_an_earlier_audit_kept_is_never_written_over(tmp_path: Path) -> None:
    kept = tmp_path / REPORT_FILE
    kept.write_text("of last week")
    report = audit(str(tmp_path), out=tmp_path)
    assert report.exit_code == 2
    assert "not empty" in report.differences[0].key
    assert report.differences[0].rule == AUDIT_OUT_UNUSABLE.code
    assert kept.read_text() == "of last week"


def test_what_an_audit_keeps_is_its_owners_alone(tmp_path: Path) -> None:
    empty_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_a_rehearsal_says_how_far_its_producer_ids_are_ahead_and_when_it_was_read(tmp_path: Path) -> None:
    assert rules_of(str(tmp_path)) == ExpectedDifferences()
    (tmp_path / REHEARSAL).write_text('{"producer_id_margin": 4000, "copied_zxid": 77}')
    assert rules_of(str(tmp_path)) == ExpectedDifferences(producer_id_margin=4_000, copied_zxid=77)
    (tmp_path / REHEARSAL).write_text("{}")
    with pytest.raises(FindingError, match="Z2K-5001"):
        rules_of(str(tmp_path))


def test_a_directory_without_a_finished_audit_cannot_be_replayed(tmp_path: Path) -> None:
    with pytest.raises(FindingError, match="Z2K-5001"):
        replay(tmp_path)


def test_two_audits_that_begin_beside_each_other_do_not_write_over_each_other(tmp_path: Path) -> None:
    report = unread_report(AUDIT_CANNOT_READ.error(what="x", reason="y"), "quick", {})
    keep_report(report, tmp_path)
    before = (tmp_path / REPORT_FILE).read_bytes()
    with pytest.raises(FindingError) as refused:
        keep_report(report, tmp_path)
    assert refused.value.code == AUDIT_OUT_UNUSABLE.code
    assert (tmp_path / REPORT_FILE).read_bytes() == before
