"""The tree of znodes that a snapshot begins and a transaction log goes on with.

In:   znodes of a snapshot, parents first; then changes in the log's order.
Out:  each znode with its data and ZooKeeper's own versions; the digest of the whole, as ZooKeeper makes it.
Elsewhere: bytes of the changes (transactions.py), what an audit sees of the tree (session.py).
Rules: a snapshot is fuzzy: it is written while changes go on, so it has some of those that the log repeats. A create of
a znode that is there, and a delete or a set of one that is not, are left out; what a parent's child version and `pzxid`
say never goes back. At the end of the changes that the snapshot may have, the tree is what the server's was.
Memory: a znode takes about 250 bytes; equal data and equal names are held once. Two million of them, of a million
partitions, take 520 MB.
Source: ZooKeeper 3.9 `DataTree`, `DataNode`, `DigestCalculator`, `StatPersisted`.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeVar
from zlib import crc32

import msgspec

from migrator.zk.bulk_read import Znode
from migrator.zk.files.jute import NotJute
from migrator.zk.files.transactions import (
    CONTAINER_OWNER,
    TTL_MARK,
    CloseSessionTxn,
    CreateTxn,
    DeleteTxn,
    LoggedTransaction,
    SetAclTxn,
    SetDataTxn,
    TreeChange,
)

STAT: Final = struct.Struct(">qqqqiiiqq")
"""czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeralOwner, pzxid; as a snapshot has them."""
_OF_ZNODE: Final = struct.Struct(">qq16xi4xiq8x")
"""czxid, mzxid, version, aversion, ephemeralOwner."""
_OF_DIGEST: Final = struct.Struct(">qqqqqiiiq")

KNOWN_MAX: Final = 200_000
"""Different data that are remembered, so that equal ones are held once."""
NOT_IN_THE_DIGEST: Final = "/zookeeper/"
"""Quotas are counted by each server for itself."""
_TTL_BITS: Final = 0xFFFFFF << 40

T = TypeVar("T")


class ZnodeStat(NamedTuple):
    """What the server keeps of a znode. cversion: how often a child was made; clients see another number."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    owner: int
    pzxid: int


class TreeNode(msgspec.Struct, gc=False):
    """One znode: its data, its `STAT` in 60 bytes, and what is below it by name; None: nothing."""

    data: bytes | None
    packed: bytes
    children: dict[str, TreeNode] | None = None

    @property
    def stat(self) -> ZnodeStat:
        return ZnodeStat(*STAT.unpack(self.packed))

    def change(self, **fields: int) -> None:
        self.packed = STAT.pack(*self.stat._replace(**fields))


def session_of(owner: int) -> int:
    """The session of an ephemeral znode. 0 of others: containers and znodes with a time to live look persistent."""
    is_ttl = owner & _TTL_BITS == TTL_MARK & _TTL_BITS
    return 0 if owner == CONTAINER_OWNER or is_ttl else owner


class ZnodeTree:
    """Fill it with `put`, go on with `apply`, then read it."""

    def __init__(self) -> None:
        self._root = TreeNode(None, bytes(STAT.size))
        self._ephemerals: defaultdict[int, set[str]] = defaultdict(set)
        self._data: dict[bytes, bytes] = {}
        self._names: dict[str, str] = {}

    # --- filling it ----------------------------------------------------------------------------------------

    def put(self, path: str, data: bytes | None, packed: bytes) -> None:
        """Take a znode of a snapshot, where parents stand before their children. The root's path is empty.

        Raises NotJute where its parent is missing.
        """
        node = TreeNode(self._held(data), packed)
        if not path:
            self._root = node
            return
        parent_path, _, name = path.rpartition("/")
        parent = self.find(parent_path)
        if parent is None:
            raise NotJute(f"{path} without a parent")
        self._add(parent, path, name, node)

    def apply(self, transaction: LoggedTransaction) -> None:
        for change in transaction.changes:
            self._apply(change, transaction.zxid, transaction.time_ms)

    def _apply(self, change: TreeChange, zxid: int, time_ms: int) -> None:
        match change:
            case CreateTxn():
                self._create(change, zxid, time_ms)
            case DeleteTxn(path):
                self._delete(path, zxid)
            case SetDataTxn(path, data, version):
                if (node := self.find(path)) is not None:
                    node.data = self._held(data)
                    node.change(mzxid=zxid, mtime_ms=time_ms, version=version)
            case SetAclTxn(path, version):
                if (node := self.find(path)) is not None:
                    node.change(aversion=version)
            case CloseSessionTxn(session, paths):
                for path in paths:
                    self._delete(path, zxid)
                for path in self._ephemerals.pop(session, ()):
                    if (node := self.find(path)) is not None and session_of(node.stat.owner) == session:
                        self._delete(path, zxid)

    def _create(self, change: CreateTxn, zxid: int, time_ms: int) -> None:
        parent_path, _, name = change.path.rpartition("/")
        parent = self.find(parent_path)
        if parent is None:
            return
        before = parent.stat.cversion
        made = before + 1 if change.parent_cversion == -1 else change.parent_cversion
        if made > before:  # also of a znode that is there: its session ended and another one made it again
            parent.change(cversion=made, pzxid=zxid)
        if name not in (parent.children or ()):
            stat = STAT.pack(zxid, zxid, time_ms, time_ms, 0, 0, 0, change.owner, zxid)
            self._add(parent, change.path, name, TreeNode(self._held(change.data), stat))

    def _add(self, parent: TreeNode, path: str, name: str, node: TreeNode) -> None:
        if parent.children is None:
            parent.children = {}
        parent.children[self._names.setdefault(name, name)] = node
        if session := session_of(_OF_ZNODE.unpack(node.packed)[-1]):
            self._ephemerals[session].add(path)

    def _delete(self, path: str, zxid: int) -> None:
        parent_path, _, name = path.rpartition("/")
        parent = self.find(parent_path)
        if parent is None:
            return
        if zxid > parent.stat.pzxid:  # also where the znode is gone already
            parent.change(pzxid=zxid)
        node = (parent.children or {}).pop(name, None)
        if node is not None and (session := session_of(node.stat.owner)):
            self._ephemerals[session].discard(path)

    def _held(self, data: bytes | None) -> bytes | None:
        if data is None or len(self._data) >= KNOWN_MAX:
            return data
        return self._data.setdefault(data, data)

    # --- reading it ----------------------------------------------------------------------------------------

    def find(self, path: str) -> TreeNode | None:
        """A znode by its path; the root's is empty, or `/`."""
        node: TreeNode | None = self._root
        for name in path.split("/"):
            if name:
                node = None if node is None or node.children is None else node.children.get(name)
        return node

    def paths(self) -> Iterator[tuple[str, TreeNode]]:
        """Every znode with its path, parents first. The root's path is empty."""
        waiting = [("", self._root)]
        while waiting:
            path, node = waiting.pop()
            yield path, node
            waiting.extend((f"{path}/{name}", child) for name, child in (node.children or {}).items())

    def digest(self) -> int:
        """The sum of all znodes, as the server notes it behind its transactions: 64 bits with a sign."""
        total = 0
        for path, node in self.paths():
            if not path.startswith(NOT_IN_THE_DIGEST):
                czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid = STAT.unpack(node.packed)
                stat = _OF_DIGEST.pack(czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, owner)
                total += crc32(stat, crc32(node.data or b"", crc32(path.encode())))
        total &= 2**64 - 1
        return total - 2**64 if total >> 63 else total


def as_read(node: TreeNode) -> Znode:
    """A znode as a client of the server would read it."""
    czxid, mzxid, version, acl_changes, owner = _OF_ZNODE.unpack(node.packed)
    return Znode(node.data, version, mzxid, czxid, session_of(owner), acl_changes, len(node.children or ()))
