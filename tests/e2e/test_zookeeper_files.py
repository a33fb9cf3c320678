"""Files that a real ZooKeeper wrote give the tree that its clients see, znode by znode, with every number of the stat.

Elsewhere: damaged and torn files, and releases that are not here (tests/unit/zk/files).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import msgspec
import pytest

from migrator.audit.compare import AuditReport
from migrator.audit.run import run_audit
from migrator.findings.finding import FindingError
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.node.tools.rehearsal import rehearse
from migrator.zk.files.server_files import EPOCH_BITS, FilesRead, read_server_files
from migrator.zk.files.session import ZooKeeperFiles
from migrator.zk.files.snapshot import read_snapshot
from migrator.zk.multi import Multi, SetData
from migrator.zk.pipeline import UNLIMITED
from migrator.zk.session import ZkSession
from tests.support.jute_files import as_seen
from tests.support.seeded_tree import EVERY_SECURITY_FAMILY, SeededTree, config_json
from tests.support.zookeeper_history import SMALL, History, Seen, data_of, lived_through

pytestmark = pytest.mark.lab

SEED = 20_261_130
MANY: Final[Mapping[str, Value]] = {"preAllocSize": 64, "snapCount": 300, "extendedTypesEnabled": True}


def a_zookeeper(laboratory: Laboratory, settings: Mapping[str, Value], servers: int = 1) -> ZooKeeper:
    zookeeper = ZooKeeper(laboratory, servers=servers, extra=settings)
    zookeeper.start()
    return zookeeper


def copied(source: Path, target: Path) -> Path:
    """As the documentation says: snapshots first, and then logs."""
    (target / "version-2").mkdir(parents=True)
    for kind in ("snapshot.*", "log.*"):
        for each in sorted((source / "version-2").glob(kind)):
            shutil.copy(each, target / "version-2")
    return target


def agrees(directory: Path, seen: Seen) -> FilesRead:
    tree, read = read_server_files([directory])
    found = as_seen(tree)
    different = {
        path: (found.get(path), seen.get(path)) for path in {*found, *seen} if found.get(path) != seen.get(path)
    }
    assert different == {}
    return read


def test_from_every_fuzzy_snapshot_the_logs_lead_to_the_tree_that_clients_see(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """A snapshot of so many znodes is written while others change; from each one the way is another one."""
    zookeeper = a_zookeeper(laboratory, MANY)
    with lived_through(zookeeper, SEED, operations=2_000, big=20_000) as seen:
        copy = copied(data_of(zookeeper), tmp_path / "copy")
    fuzzy = 0
    snapshots = sorted((copy / "version-2").glob("snapshot.*"), key=lambda file: int(file.suffix[1:], 16))
    for file in reversed(snapshots):
        read = agrees(copy, seen)
        assert (read.snapshot, read.verified, read.torn) == (file.name, True, "")
        with file.open("rb") as stream:
            fuzzy += read_snapshot(stream).up_to > int(file.suffix[1:], 16)
        file.unlink()
    assert fuzzy > 0, "no snapshot was written while the tree changed: this test shows nothing"


def test_a_copy_that_is_taken_while_the_server_writes_is_the_tree_of_one_moment(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """The server's own digest says so. A copy that is not is refused, never read as something else."""
    zookeeper = a_zookeeper(laboratory, MANY)
    ended = Event()
    reads: list[FilesRead] = []
    refused: list[str] = []

    def copies() -> None:
        while not ended.is_set():
            copy = copied(data_of(zookeeper), tmp_path / "copy")
            try:
                reads.append(read_server_files([copy])[1])
            except FindingError as error:
                refused.append(str(error))
            shutil.rmtree(copy)

    copying = Thread(target=copies)
    with History(zookeeper.hosts, SEED) as history:
        history.grow(5_000)
        copying.start()
        try:
            history.go_on(4_000)
        finally:
            ended.set()
            copying.join()
    assert all(each.startswith("Z2K-5010") and ("more behind" in each or "checksum" in each) for each in refused)
    assert len(reads) > 1
    assert all(each.verified for each in reads)
    assert [each.zxid for each in reads] == sorted(each.zxid for each in reads)


def test_snapshots_that_the_server_packs_by_gzip_are_read(laboratory: Laboratory, tmp_path: Path) -> None:
    zookeeper = a_zookeeper(laboratory, {**SMALL, "snapshot.compression.method": "gz"})
    with lived_through(zookeeper, SEED, operations=200) as seen:
        read = agrees(copied(data_of(zookeeper), tmp_path / "copy"), seen)
    assert read.snapshot.endswith(".gz")
    assert read.verified


def test_each_server_of_an_ensemble_has_the_tree_whichever_led(laboratory: Laboratory, tmp_path: Path) -> None:
    """The leader is killed in the middle, and comes back: the numbers go on in another epoch, and one catches up."""
    zookeeper = a_zookeeper(laboratory, SMALL, servers=3)
    zookeeper.wait_led()
    with History(zookeeper.hosts, SEED) as history:
        history.go_on(150)
        killed = zookeeper.leader()
        killed.kill()
        history.go_on(150)
        killed.start()
        zookeeper.wait_led()
        history.end_a_session()
        history.go_on(100)
        seen = history.seen()
        for number, server in enumerate(zookeeper.servers):
            history.seen(f"127.0.0.1:{server.spec.port}")  # after a sync of that one, it has everything
            read = agrees(copied(data_of(zookeeper, number), tmp_path / f"copy-{number}"), seen)
            assert read.zxid >> EPOCH_BITS == 2
            assert read.verified


def test_an_audit_of_the_files_says_what_an_audit_of_the_ensemble_says(laboratory: Laboratory, tmp_path: Path) -> None:
    zookeeper = a_zookeeper(laboratory, SMALL)
    connect = f"{zookeeper.hosts}/kafka"
    with ZkSession(zookeeper.hosts) as root:
        root.ensure_path("/kafka")
    with ZkSession(connect) as session:
        SeededTree(topics=12, partitions=3, security=EVERY_SECURITY_FAMILY).seed(session)
        rehearse(session, tmp_path / "log", UNLIMITED)
    log = str(tmp_path / "log")

    def both() -> list[AuditReport]:
        copy = copied(data_of(zookeeper), tmp_path / "copy")
        sides = (connect, ZooKeeperFiles((copy,), "/kafka"))
        reports = [run_audit(side, log, engine="quick", master="", out=None) for side in sides]
        shutil.rmtree(copy)
        return reports

    def told(report: AuditReport) -> Any:
        zk = {name: said for name, said in report.zk.items() if name not in ("connect", "files")}
        return msgspec.to_builtins([report.same, report.families, report.differences, report.expected, zk])

    of_ensemble, of_files = both()
    assert of_files.same
    assert told(of_files) == told(of_ensemble)
    with ZkSession(connect) as session:
        assert session.apply(Multi((SetData("/config/topics/t000001", config_json({"retention.ms": "5"}), 0),))).applied
    of_ensemble, of_files = both()
    assert of_files.exit_code == 1
    assert told(of_files) == told(of_ensemble)
    assert of_files.zk["files"].verified
