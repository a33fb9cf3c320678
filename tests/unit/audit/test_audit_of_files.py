"""An audit of a copy of ZooKeeper's files: the same verdicts as of the ensemble, and no second look."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from api.cli import app
from api.commands import audits
from migrator.audit import quick
from migrator.audit.compare import ExpectedDifferences
from migrator.audit.log_states import LogStates
from migrator.audit.normalise import TOPIC_CONFIGS
from migrator.audit.quick import quick_audit
from migrator.audit.run import run_audit
from migrator.audit.standstill import STANDS_STILL_MS
from migrator.findings.audit import AUDIT_CANNOT_READ, ZOOKEEPER_FILES_UNUSABLE
from migrator.model.image import Position
from migrator.node.tools import log_of_quorum
from migrator.node.tools.quorum_log import QuorumLog
from migrator.node.tools.rehearsal import rehearse
from migrator.zk.files.session import FilesSession, ZooKeeperFiles
from migrator.zk.files.znode_tree import ZnodeStat
from migrator.zk.pipeline import UNLIMITED
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.jute_files import TIME_MS, a_log, a_set, a_snapshot, a_stat, an_error, write
from tests.support.seeded_tree import EVERY_SECURITY_FAMILY, SeededTree, config_json
from tests.unit.audit.test_busy_clusters import PATH, Busy

CHROOT = "/kafka"
TREE = SeededTree(security=EVERY_SECURITY_FAMILY)


def files_of(ensemble: FakeEnsemble, directory: Path, *later: bytes) -> ZooKeeperFiles:
    """Its tree below a chroot, as a server that keeps it would write it. later: entries of the log behind it."""
    znodes = {"": (b"", a_stat()), CHROOT: (b"", a_stat())}
    newest = 0
    for path, node in sorted(ensemble.nodes.items()):
        if path != "/":
            stat = ZnodeStat(node.czxid, node.mzxid, TIME_MS, TIME_MS, node.version, 0, 0, 0, node.mzxid)
            znodes[CHROOT + path] = (node.data, stat)
            newest = max(newest, node.mzxid)
    log = a_log(*(an_error(zxid) for zxid in range(1, newest + 1)), *later)
    write(directory, **{f"snapshot_{newest:x}": a_snapshot(znodes), "log_1": log})
    return ZooKeeperFiles((directory,), CHROOT)


@pytest.fixture
def ensemble() -> FakeEnsemble:
    made = FakeEnsemble()
    TREE.plant(made)
    return made


@pytest.fixture
def never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def waited(seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s for files that never change")

    monkeypatch.setattr(quick, "time", SimpleNamespace(monotonic=time.monotonic, sleep=waited))


def the_next(ensemble: FakeEnsemble) -> int:
    return max(node.mzxid for node in ensemble.nodes.values()) + 1


@pytest.mark.usefixtures("never_waits")
def test_the_command_says_what_it_read_and_that_both_sides_are_equal(ensemble: FakeEnsemble, tmp_path: Path) -> None:
    rehearse(ensemble.session(), tmp_path / "log", UNLIMITED)
    files_of(ensemble, tmp_path / "data" / "version-2")
    words = ["audit", "--zookeeper-files", str(tmp_path / "data"), "--chroot", CHROOT]
    words += ["--kraft", str(tmp_path / "log"), "--out", str(tmp_path / "out")]
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 0, ran.output
    end = the_next(ensemble) - 1
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((TIME_MS + end) // 1_000))
    assert f"ZooKeeper's files up to transaction {end:#x}: snapshot.{end:x}\n" in ran.output
    assert moment not in ran.output, "no transaction behind the snapshot says when"
    assert "passed: both sides are equal" in ran.output
    report = json.loads((tmp_path / "out" / "report.json").read_bytes())
    assert report["zk"]["connect"] == f"{tmp_path / 'data'} (chroot /kafka)"
    assert report["zk"]["files"]["zxid"] == end
    assert f"snapshot.{end:x} up to transaction {end:#x}" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.usefixtures("never_waits")
def test_a_change_that_only_the_transaction_log_has_is_a_difference(ensemble: FakeEnsemble, tmp_path: Path) -> None:
    rehearse(ensemble.session(), tmp_path / "log", UNLIMITED)
    zxid = the_next(ensemble)
    changed = a_set(zxid, f"{CHROOT}/config/topics/t000001", config_json({"retention.ms": "5"}), 1)
    files = files_of(ensemble, tmp_path / "data", changed, an_error(zxid + 1)[:9])
    report = run_audit(files, str(tmp_path / "log"), engine="quick", master="", out=None)
    assert report.exit_code == 1
    assert [(each.family, each.key) for each in report.differences] == [(TOPIC_CONFIGS, "t000001")]
    assert (report.zk["files"].zxid, report.zk["files"].torn) == (zxid, "log.1")
    (tmp_path / "data" / "snapshot.ffff").write_bytes(b"ZKSN")
    words = ["audit", "--zookeeper-files", str(tmp_path / "data"), "--chroot", CHROOT]
    ran = CliRunner().invoke(app, [*words, "--kraft", str(tmp_path / "log"), "--out", str(tmp_path / "out")])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "; log.1 ends inside the entry at offset " in page
    assert "; skipped snapshot.ffff: it ends too early<" in page
    assert "skipped snapshot.ffff: it ends too early\n" in ran.output
    assert "log.1 ends inside the entry at offset " in ran.output
    assert f"up to transaction {zxid:#x} of 2027-01-15T08:00:00Z: snapshot.{zxid - 1:x}, log.1\n" in ran.output
    assert "the server noted no digest" in ran.output


def test_files_that_cannot_be_used_make_the_audit_incomplete(tmp_path: Path) -> None:
    report = run_audit(ZooKeeperFiles((tmp_path,)), str(tmp_path), engine="quick", master="", out=None)
    assert report.exit_code == 2
    assert report.differences[0].rule == ZOOKEEPER_FILES_UNUSABLE.code == "Z2K-5010"


def test_spark_is_refused_by_name(tmp_path: Path) -> None:
    report = run_audit(ZooKeeperFiles((tmp_path,)), str(tmp_path), engine="spark", master="", out=None)
    assert report.exit_code == 2
    assert report.differences[0].rule == AUDIT_CANNOT_READ.code
    assert "only --engine quick reads files of ZooKeeper" in report.differences[0].key


def test_the_log_of_a_quorum_has_to_be_of_the_cluster_in_the_files(
    ensemble: FakeEnsemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []

    @contextmanager
    def quorum(addresses: str, cluster_id: str | None, *_: object, **__: object) -> Iterator[QuorumLog]:
        asked.append(cluster_id)
        yield QuorumLog(tmp_path, lambda: None)

    monkeypatch.setattr(log_of_quorum, "log_of_quorum", quorum)
    with audits.log_to_read(files_of(ensemble, tmp_path / "data"), "controller:9093", None, None):
        assert asked == ["AAAAAAAAQAqAAAAAAAAAAA"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name one of --zookeeper and --zookeeper-files"),
        (["-z", "zk:2181", "--zookeeper-files", "/data"], "name one of --zookeeper and --zookeeper-files"),
        (["-z", "zk:2181", "--chroot", "/kafka"], "--chroot goes with --zookeeper-files"),
    ],
)
def test_one_of_ensemble_and_files_is_named(words: list[str], told: str) -> None:
    ran = CliRunner().invoke(app, ["audit", "--kraft", "/log", *words], env={"COLUMNS": "200"})
    assert ran.exit_code == 2
    assert told in ran.output


@pytest.mark.usefixtures("never_waits")
@pytest.mark.parametrize(
    ("planted", "exit_code", "readings"), [("1001", 0, 2), ("7", 1, 2)], ids=["as the log said it", "planted"]
)
def test_a_copy_of_a_dual_write_is_judged_at_its_own_offset_however_far_the_log_has_gone_on(
    planted: str, exit_code: int, readings: int, tmp_path: Path
) -> None:
    """The log is ahead by more than a dual-write may be: it was copied later, and that is no standstill."""
    busy = Busy()
    busy.ensemble.nodes["/config/topics/t000002"].data = config_json({"retention.ms": planted if exit_code else "1002"})
    files = files_of(busy.ensemble, tmp_path / "data")

    def read_log(low: int, wanted: Position) -> tuple[LogStates, Position]:
        states, position = busy.read_log(low, wanted)
        states.behind_ms = STANDS_STILL_MS + 1
        return states, position

    with FilesSession(files) as session:
        report = quick_audit(session, read_log, rules=ExpectedDifferences(4_000), follows=True, of_copy=True)
    assert report.exit_code == exit_code
    assert busy.readings == readings
    if not exit_code:
        assert any(each.key == PATH.rpartition("/")[-1] for each in report.expected), "that the log is ahead is told"
