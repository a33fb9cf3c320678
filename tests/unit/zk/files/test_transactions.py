"""Which changes an entry of a log stands for, by each release of ZooKeeper that wrote it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from migrator.zk.files.jute import NotJute
from migrator.zk.files.transactions import (
    CONTAINER_OWNER,
    CloseSessionTxn,
    CreateTxn,
    DeleteTxn,
    LoggedTransaction,
    SetAclTxn,
    SetDataTxn,
    TxnType,
    transaction_in,
)
from migrator.zk.files.znode_tree import STAT, ZnodeTree, as_read, session_of
from tests.support.jute_files import (
    ACL,
    TIME_MS,
    a_close,
    a_multi,
    a_stat,
    an_entry,
    as_seen,
    buffer,
    create,
    set_data,
    text,
)

SESSION = 0x1234
TTL_MS = 60_000
TTL_OWNER = struct.unpack(">q", b"\xff\0\0" + TTL_MS.to_bytes(5, "big"))[0]


def of(entry: bytes) -> LoggedTransaction:
    """entry: with checksum, length and end mark."""
    return transaction_in(entry[12:-1])


@pytest.mark.parametrize(
    ("kind", "record", "change"),
    [
        (TxnType.CREATE, create("/a", b"x"), CreateTxn("/a", b"x", 0, 1)),
        (TxnType.CREATE2, create("/a", b"x", ephemeral=True), CreateTxn("/a", b"x", SESSION, 1)),
        (TxnType.CREATE, create("/a", cversion=None), CreateTxn("/a", b"", 0, -1)),
        (
            TxnType.CREATE_CONTAINER,
            text("/a") + buffer(None) + ACL + struct.pack(">i", 7),
            CreateTxn("/a", None, CONTAINER_OWNER, 7),
        ),
        (
            TxnType.CREATE_TTL,
            text("/a") + buffer(b"x") + ACL + struct.pack(">iq", 7, TTL_MS),
            CreateTxn("/a", b"x", TTL_OWNER, 7),
        ),
        (TxnType.DELETE, text("/a"), DeleteTxn("/a")),
        (TxnType.DELETE_CONTAINER, text("/a"), DeleteTxn("/a")),
        (TxnType.SET_DATA, set_data("/a", b"x", 3), SetDataTxn("/a", b"x", 3)),
        (TxnType.RECONFIG, set_data("/zookeeper/config", b"x", 3), SetDataTxn("/zookeeper/config", b"x", 3)),
        (TxnType.SET_ACL, text("/a") + ACL + struct.pack(">i", 2), SetAclTxn("/a", 2)),
        (TxnType.CHECK, text("/a") + struct.pack(">i", 2), None),
        (TxnType.CREATE_SESSION, struct.pack(">i", 30_000), None),
        (TxnType.ERROR, struct.pack(">i", -101), None),
    ],
    ids=lambda each: each.name if isinstance(each, TxnType) else "",
)
@pytest.mark.parametrize("digest", [None, -5])
def test_each_type_of_entry_is_read_with_and_without_a_digest(
    kind: TxnType, record: bytes, change: object, digest: int | None
) -> None:
    expected = LoggedTransaction(9, TIME_MS + 9, () if change is None else (change,), digest)  # type: ignore[arg-type]
    assert of(an_entry(9, kind, record, session=SESSION, digest=digest)) == expected


def test_a_multi_is_all_of_its_operations_or_none() -> None:
    made, was_set, gone = (TxnType.CREATE, create("/a")), (TxnType.SET_DATA, set_data("/b", b"", 4)), TxnType.DELETE
    refusal = TxnType.ERROR, struct.pack(">i", -103)
    not_tried = TxnType.ERROR, struct.pack(">i", -2)
    checked = TxnType.CHECK, text("/c") + struct.pack(">i", 1)
    applied = of(a_multi(9, made, checked, was_set, (gone, text("/d"))))
    assert applied.changes == (CreateTxn("/a", b"", 0, 1), SetDataTxn("/b", b"", 4), DeleteTxn("/d"))
    assert of(a_multi(9, made, was_set, refusal)).changes == ()
    assert of(a_multi(9, made, refusal, not_tried)).changes == ()
    assert of(a_multi(9, refusal, not_tried)).changes == ()


@pytest.mark.parametrize("digest", [None, -5, 0, 1, 0x2F61_0000_0000], ids=str)
@pytest.mark.parametrize("paths", [None, [], ["/a"], ["/abc"], ["/a", "/b/ü"]], ids=str)
def test_the_end_of_a_session_is_read_with_its_paths_and_without(
    paths: Sequence[str] | None, digest: int | None
) -> None:
    """Also where only the digest is there: a server of 3.6 that is told not to list paths."""
    found = of(a_close(9, SESSION, paths, digest=digest))
    assert found.changes == (CloseSessionTxn(SESSION, tuple(paths or ())),)
    assert found.digest == digest


def test_a_digest_of_another_version_is_none() -> None:
    entry = an_entry(9, TxnType.DELETE, text("/a") + struct.pack(">iq", 1, 77))
    assert of(entry).digest is None


@pytest.mark.parametrize(
    "record",
    [
        text("/a") + struct.pack(">i", -7),
        text("/a") + struct.pack(">i", 2**30),
        struct.pack(">i", 2) + b"\xff\xfe",
        buffer(None),
        text("/a") + buffer(b"") + struct.pack(">i", -9),
    ],
)
def test_what_no_server_writes_is_told(record: bytes) -> None:
    with pytest.raises(NotJute):
        of(an_entry(9, TxnType.CREATE, record))


# --- what they do to a tree -------------------------------------------------------------------------------


def a_tree(*entries: bytes) -> ZnodeTree:
    tree = ZnodeTree()
    tree.put("", b"", STAT.pack(*a_stat()))
    for each in entries:
        tree.apply(of(each))
    return tree


def ephemeral(zxid: int, path: str, session: int = SESSION) -> bytes:
    return an_entry(zxid, TxnType.CREATE, create(path, ephemeral=True, cversion=zxid), session=session)


@pytest.mark.parametrize("paths", [None, ["/a", "/b"], ["/a"], []], ids=str)
def test_a_session_that_ends_takes_its_ephemeral_znodes_and_no_other(paths: Sequence[str] | None) -> None:
    tree = a_tree(ephemeral(1, "/a"), ephemeral(2, "/b"), ephemeral(3, "/other", 7), an_entry(4, 1, create("/c")))
    node = tree.find("/a")
    assert node is not None
    assert as_read(node).owner == SESSION
    tree.apply(of(a_close(5, SESSION, paths)))
    assert sorted(as_seen(tree)) == ["/", "/c", "/other"]
    assert as_seen(tree)["/"][-1] == 5, "its pzxid"
    tree.apply(of(a_close(6, SESSION, None)))
    assert sorted(as_seen(tree)) == ["/", "/c", "/other"]


def test_what_another_session_made_at_the_same_path_stays() -> None:
    """From a fuzzy snapshot: the znode of the session that ends is gone already, and made again by a session since."""
    tree = a_tree(ephemeral(1, "/a"), an_entry(2, TxnType.DELETE, text("/a")), ephemeral(3, "/a", 7))
    tree.apply(of(a_close(4, SESSION, None)))
    assert "/a" in as_seen(tree)


@pytest.mark.parametrize("owner", [CONTAINER_OWNER, TTL_OWNER])
def test_containers_and_znodes_with_a_time_to_live_look_persistent(owner: int) -> None:
    assert session_of(owner) == 0
    tree = a_tree()
    tree.put("/a", b"x", STAT.pack(*a_stat(owner=owner)))
    node = tree.find("/a")
    assert node is not None
    assert node.stat.owner == owner
    assert as_read(node).owner == 0


def test_a_session_of_server_255_is_no_time_to_live() -> None:
    session = struct.unpack(">q", b"\xff\x01\x93" + bytes(5))[0]
    assert session_of(session) == session


def test_a_create_of_what_is_there_only_counts_for_its_parent() -> None:
    again = an_entry(5, TxnType.CREATE, create("/a", b"other", cversion=3))
    tree = a_tree(an_entry(1, TxnType.CREATE, create("/a", b"x")), again)
    assert as_seen(tree)["/"][6] == 3 * 2 - 1
    assert as_seen(tree)["/a"][:3] == [b"x".hex(), 1, 1]


def test_a_create_without_a_child_version_counts_one_up() -> None:
    """ZooKeeper 3.3 wrote them so."""
    tree = a_tree(*(an_entry(zxid, TxnType.CREATE, create(f"/{zxid}", cversion=None)) for zxid in (1, 2, 3)))
    root = tree.find("/")
    assert root is not None
    assert (root.stat.cversion, root.stat.pzxid) == (3, 3)


def test_an_access_list_moves_its_own_version_only() -> None:
    tree = a_tree(
        an_entry(1, TxnType.CREATE, create("/a", b"x")),
        an_entry(2, TxnType.SET_ACL, text("/a") + ACL + struct.pack(">i", 1)),
    )
    node = tree.find("/a")
    assert node is not None
    assert (as_read(node).acl_changes, as_read(node).mzxid, as_read(node).version) == (1, 1, 0)
