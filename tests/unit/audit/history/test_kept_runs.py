"""What an audit kept is read again, also by a release that writes another form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from migrator.audit.compare import AuditReport, BrokersSide, Difference, FamilyCount
from migrator.audit.history.kept_runs import MANIFEST_FILE, REPORT_FILE, kept_run
from migrator.findings.audit import KEPT_AUDIT_UNREADABLE
from migrator.findings.finding import FindingError
from tests.support.kept_audits import a_report, keep


def document(report: AuditReport) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(report)
    return found


@pytest.mark.parametrize("below", ["", REPORT_FILE], ids=["directory", "report"])
def test_a_kept_audit_is_named_by_its_directory_or_its_report(below: str, tmp_path: Path) -> None:
    keep(tmp_path, a_report(ended_at=77.5))
    run = kept_run(tmp_path / below)
    assert (run.directory, run.report, run.ended_at, run.has_inputs) == (tmp_path, a_report(ended_at=77.5), 77.5, False)
    (tmp_path / MANIFEST_FILE).touch()
    assert run.has_inputs


def test_a_rehearsal_of_the_service_has_its_audit_below_it(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    keep(tmp_path / "audit", a_report())
    assert kept_run(tmp_path).directory == tmp_path / "audit"


def test_a_report_of_another_release_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """Fields that are not known are ignored; an earlier one says neither when it ended nor what was expected."""
    known = document(a_report(differences=[Difference("topics", "t", "id", "changed", 1, 2)]))
    del known["expected"]
    family = {**msgspec.to_builtins(FamilyCount("share groups", 3, 3)), "faded": 1}
    keep(tmp_path, {**known, "sealed": True, "families": [family]})
    run = kept_run(tmp_path)
    assert run.lacks == ("expected",)
    assert run.report.families == [FamilyCount("share groups", 3, 3)]
    assert run.report.differences == [Difference("topics", "t", "id", "changed", 1, 2)]
    assert run.ended_at == pytest.approx((tmp_path / REPORT_FILE).stat().st_mtime)


def test_brokers_and_figures_of_another_form_lose_nothing_of_the_two_sides(tmp_path: Path) -> None:
    keep(tmp_path, {**document(a_report()), "brokers": {"asked": "all"}, "shape": {"topics": "many"}})
    report = kept_run(tmp_path).report
    assert report.shape is None
    assert isinstance(report.brokers, BrokersSide)
    assert "another release" in report.brokers.problem
    assert report.exit_code == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "truncated"),
        (b"\xff\xfe", "invalid"),
        (b"[]", "no JSON object"),
        (b"{}", "missing required field `same`"),
        (b'{"same": true, "families": [], "differences": 4}', "Expected `array`"),
        (b"[" * 100_000, ""),
    ],
    ids=["empty", "no text", "no object", "no verdict", "another form", "too deep"],
)
def test_what_is_no_report_is_refused_and_never_read_as_an_empty_one(text: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / REPORT_FILE).write_bytes(text)
    with pytest.raises(FindingError) as refused:
        kept_run(tmp_path)
    assert refused.value.code == KEPT_AUDIT_UNREADABLE.code == "Z2K-5008"
    assert reason in str(refused.value)
    assert str(tmp_path / REPORT_FILE) in str(refused.value)


def test_a_directory_without_a_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FindingError, match="Z2K-5008"):
        kept_run(tmp_path)
