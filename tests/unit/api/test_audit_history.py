"""`zk2kraft audit diff`, `replay` and `report` on audits that were kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from api.cli import main
from api.commands import audit_history, audits
from migrator.audit.compare import AskedBroker, AuditReport, BrokersSide, Difference, unread_report
from migrator.audit.history.kept_runs import MANIFEST_FILE, REPORT_FILE
from migrator.audit.normalise import TOPICS
from migrator.findings.audit import AUDIT_CANNOT_READ, KEPT_AUDIT_UNREADABLE, NO_INPUTS_KEPT
from tests.support.kept_audits import a_report, keep

PLANT = Difference(TOPICS, "orders", "id", "changed", "one", "another")
FORGED = Difference(TOPICS, "a\nb\x1b[31m", "id", "changed", "one", "another")

UNREAD = AUDIT_CANNOT_READ.error(what="x", reason="y")
RULES = {"zk": {}, "kraft": {}, "producer_id_margin": 0, "copied_zxid": 1, "read": "", "tasks": 1, "layout": 2}
ONE_LOOK = {"records_of": [1], "rows": [5], "windows": [None], "beside": [-1]}


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["audit", *words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


# --- the command and those below it -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing option '--kraft'"),
        (("--kraft", "/log"), "name one of --zookeeper and --zookeeper-files"),
        (("-z", "zk:2181"), "Missing option '--kraft'"),
        (("dif", "a", "b"), "Did you mean 'diff'?"),
        (("-z", "zk:2181", "--kraft", "/log", "diff", "a", "b"), "options of an audit are not for diff"),
        (("-z", "zk:2181", "--kraft", "/log", "nonsense"), "No such command 'nonsense'"),
        (("diff", "a"), "Missing argument 'second'"),
    ],
)
def test_an_audit_keeps_its_own_options_beside_the_commands_below_it(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    assert said in capsys.readouterr().err


def test_the_options_of_an_audit_come_to_it_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def ask(*words: Any, **options: Any) -> int:
        asked.append((words, options))
        return 1

    monkeypatch.setattr(audits, "audit", ask)
    assert run("-z", "zk:2181/a", "--kraft", "/log", "--engine", "quick", "--out", "x", "--allow-moved", "--json") == 1
    expected = ("zk:2181/a", "/log", "quick", "local[*]", "x", None, None)
    options = {"without": "", "disks": (), "allow_moved": True, "report_only": False, "as_json": True, "sessions": None}
    assert asked == [(expected, options)]


# --- diff -------------------------------------------------------------------------------------------------


def test_nothing_changed_is_exit_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = keep(tmp_path / "1", a_report(ended_at=1_000.0)), keep(tmp_path / "2", a_report(engine="quick"))
    assert run("diff", str(one), str(two)) == 0
    out = capsys.readouterr().out
    assert "first " in out
    assert "passed, by spark, 1970-01-01T00:16:40Z, 1.0 s, log up to offset 120, epoch 3" in out
    assert out.endswith("the two audits: nothing changed\n")


def test_what_changed_is_told_with_both_values_and_is_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = keep(tmp_path / "1", a_report()), keep(tmp_path / "2", a_report([PLANT]))
    assert run("diff", str(one), str(two / REPORT_FILE)) == 1
    out = capsys.readouterr().out
    assert "new: topics orders id: different, changed, zookeeper=one log=another" in out
    assert "topics            | 10 -> 11 | 10    | 0        | 0 -> 1    | 0        | changed" in out
    assert run("diff", str(two), str(one), "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["changed"], found["exit"], found["same_cluster"]) == (True, 1, True)
    (told,) = found["differences"]
    assert (told["change"], told["second"]) == ("gone", None)
    assert told["first"]["difference"]["key"] == "orders"


def test_what_brokers_say_is_told_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    well = BrokersSide(asked=[AskedBroker(1, "ZooKeeper", compared=3)])
    silent = BrokersSide(asked=[AskedBroker(1, "", "connection refused")])
    one, two, three = (
        keep(tmp_path / name, a_report(brokers=side)) for name, side in (("1", well), ("2", silent), ("3", None))
    )
    assert run("diff", str(one), str(two)) == 1
    was, now = "ZooKeeper, 3 compared, 0 different", "no answer, 0 compared, 0 different, not read: connection refused"
    assert f"broker 1: was {was}; is {now}\n" in capsys.readouterr().out
    assert run("diff", str(one), str(three)) == 1
    assert "only the first audit asked brokers" in capsys.readouterr().out


def test_names_of_others_do_not_reach_the_terminal_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("diff", str(keep(tmp_path / "1", a_report())), str(keep(tmp_path / "2", a_report([FORGED]))))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "topics a\\x0ab\\x1b[31m id" in out


@pytest.mark.parametrize(
    "words", [("diff", "{0}", "{1}"), ("diff", "{1}", "{0}", "--json"), ("report", "{1}"), ("replay", "{1}")]
)
def test_what_cannot_be_read_is_exit_2_with_its_remedy(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = keep(tmp_path / "1", a_report())
    assert run(*(each.format(kept, tmp_path / "nowhere") for each in words)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(KEPT_AUDIT_UNREADABLE.code)
    assert KEPT_AUDIT_UNREADABLE.remedy in err


# --- replay -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (a_report(engine="quick"), "the quick engine keeps no inputs"),
        (unread_report(UNREAD, "spark", {}), "no finished audit by Spark is in it"),
    ],
    ids=["quick", "not finished"],
)
def test_an_audit_without_inputs_is_not_judged_again(
    report: AuditReport, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("replay", str(keep(tmp_path, report))) == 2
    err = capsys.readouterr().err
    assert err.startswith("Z2K-5009")
    assert reason in err
    assert NO_INPUTS_KEPT.remedy in err


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ("{", "audit.json: "),
        (json.dumps({**RULES, **ONE_LOOK}), "look-1/inputs is gone"),
        (json.dumps({**RULES, "read": "/nowhere/read"}), "/nowhere/read is gone"),
        (json.dumps({**RULES, "layout": 1}), "another release kept it: its rows have layout 1"),
        (json.dumps({key: told for key, told in RULES.items() if key != "layout"}), "its rows have layout 1"),
    ],
    ids=["damaged", "without inputs", "without what the rehearsal read", "another layout", "before layouts were told"],
)
def test_inputs_that_are_gone_are_named_before_anything_is_judged(
    manifest: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (keep(tmp_path, a_report()) / MANIFEST_FILE).write_text(manifest)
    assert run("replay", str(tmp_path)) == 2
    err = capsys.readouterr().err
    assert err.startswith("Z2K-5009")
    assert reason in err


def test_a_replay_never_writes_over_an_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = keep(tmp_path / "kept", a_report())
    (kept / MANIFEST_FILE).touch()
    before = (kept / REPORT_FILE).read_bytes()
    assert run("replay", str(kept), "--out", str(kept)) == 2
    assert capsys.readouterr().err.startswith("Z2K-5004")
    assert (kept / REPORT_FILE).read_bytes() == before


@pytest.mark.parametrize(("again", "code"), [(a_report([PLANT]), 0), (a_report(), 1)], ids=["as it was", "other rules"])
def test_a_replay_tells_what_is_different_from_the_kept_report(
    again: AuditReport,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    side = BrokersSide(asked=[AskedBroker(1, "ZooKeeper", compared=3)])
    kept = keep(tmp_path / "kept", a_report([PLANT], brokers=side))
    (kept / MANIFEST_FILE).touch()
    monkeypatch.setattr(audit_history, "_judged_again", lambda *_: again)
    assert run("replay", str(kept), "--out", str(tmp_path / "out")) == code
    out = capsys.readouterr().out
    assert "what brokers said was not judged again" in out
    assert ("gone: topics orders id" in out) is bool(code)
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["report.html", REPORT_FILE]


# --- report -----------------------------------------------------------------------------------------------


def test_the_page_is_written_beside_the_report_or_where_one_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = keep(tmp_path / "kept", a_report([PLANT]))
    assert run("report", str(kept)) == 0
    assert capsys.readouterr().out == f"{kept / 'report.html'}\n"
    other = tmp_path / "other.html"
    assert run("report", str(kept / REPORT_FILE), "--html", str(other)) == 0
    assert other.read_text() == (kept / "report.html").read_text()
    assert other.stat().st_mode & 0o777 == 0o600


def test_a_page_that_cannot_be_written_does_not_cost_the_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("api.standalone.write_page", fails)
    audit_history.keep_page(a_report(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_audit_that_keeps_its_report_keeps_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("-z", "zk:2181", "--kraft", str(tmp_path), "--engine", "neither", "--json")
    assert run(*words, "--out", str(tmp_path / "out")) == 2
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["report.html", REPORT_FILE]
    before = (tmp_path / "out" / "report.html").read_text()
    assert "is neither spark nor quick" in before
    assert run(*words, "--out", str(tmp_path / "out")) == 2
    assert "Z2K-5004" in capsys.readouterr().out
    assert (tmp_path / "out" / "report.html").read_text() == before, "of the audit that was kept there"
