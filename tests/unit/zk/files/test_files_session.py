"""A copy of a server's files is read as a session is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.zk.bulk_read import Znode
from migrator.zk.files.session import FilesSession, ZooKeeperFiles
from tests.support.jute_files import KEPT, ROOT, a_log, a_snapshot, a_stat, an_error, seen_in, write


@pytest.mark.parametrize("chroot", ["/k", "k", "/k/"])
def test_paths_are_those_below_the_chroot(chroot: str, tmp_path: Path) -> None:
    znodes = {**ROOT, "/k": (b"", a_stat(1)), "/k/b": (b"x", a_stat(2, version=3)), "/k/a": (b"", a_stat(3))}
    copy = write(tmp_path / "copy", snapshot_3=a_snapshot(znodes), log_1=a_log(*map(an_error, (1, 2, 3))))
    with FilesSession(ZooKeeperFiles((copy,), chroot)) as session:
        session.sync()
        assert session.children("/") == ["a", "b"]
        assert session.children("/c") is None
        assert session.get("/b") == Znode(b"x", version=3, mzxid=2, czxid=2, owner=0)
        assert session.get("/") == Znode(b"", 0, 1, 1, 0, children=2)
        assert list(session.get_many(["/b", "/none", "/b/none"])) == [session.get("/b"), None, None]
        assert list(session.children_many(["/", "/none", "/a"])) == [["a", "b"], None, []]
        assert session.files_read.zxid == 3


def test_every_znode_is_what_a_client_read_from_the_server() -> None:
    with FilesSession(ZooKeeperFiles((KEPT,))) as session:
        for path, (data, czxid, mzxid, _, _, version, _, acl_changes, owner, _, children, _) in seen_in(KEPT).items():
            found = session.get(path)
            assert found is not None
            assert (found.data or b"").hex() == data
            assert found == Znode(found.data, version, mzxid, czxid, owner, acl_changes, children)


def test_it_is_named_by_its_directories_and_its_chroot() -> None:
    assert str(ZooKeeperFiles((Path("/a"), Path("/b")))) == "/a,/b"
    assert str(ZooKeeperFiles((Path("/a"),), "/kafka")) == "/a (chroot /kafka)"
