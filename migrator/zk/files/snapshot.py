"""A snapshot of ZooKeeper: every znode, as far as the server had them while it wrote.

In:   the stream of a snapshot, unpacked.
Out:  the tree, and up to which transaction it may have changes.
Elsewhere: which snapshot is read (server_files.py).
Form: magic, version, database; open sessions; access lists; znodes from the empty path, parents first, until the path
`/`; a checksum. Servers from 3.6 on add the digest of the last transaction that they had applied when the znodes were
written, with a checksum; those from 3.9 on the number of the last transaction, with another one.
Source: ZooKeeper 3.9 `FileSnap`, `SerializeUtils`, `DataTree`, `ReferenceCountedACLCache`.
"""

from __future__ import annotations

from typing import BinaryIO, Final, NamedTuple

from migrator.zk.files.jute import JuteStream, NotJute
from migrator.zk.files.transactions import DIGEST_VERSION
from migrator.zk.files.znode_tree import STAT, ZnodeTree

MAGIC: Final = b"ZKSN"
VERSION: Final = 2
END_OF_PART: Final = "/"
"""A path that no znode has here: it ends the znodes, and stands behind each checksum."""
_ACL_BYTES: Final = 8


class TreeOfSnapshot(NamedTuple):
    """up_to: the last transaction of which the snapshot may have changes; those up to it have to be in the log.

    digest: of the tree after transaction `digest_zxid`, which is 0 where the snapshot does not say.
    """

    tree: ZnodeTree
    up_to: int
    digest_zxid: int
    digest: int | None


def read_snapshot(stream: BinaryIO) -> TreeOfSnapshot:
    """Raises EndOfBytes where the snapshot is not whole, NotJute where it is none or its checksum is wrong."""
    reader = JuteStream(stream)
    if reader.take(len(MAGIC)) != MAGIC:
        raise NotJute("no magic ZKSN at its beginning")
    if (version := reader.read_int()) != VERSION:
        raise NotJute(f"version {version}")
    reader.read_long()  # of the database, always -1
    for _ in range(reader.read_count()):
        reader.read_long()  # a session, which is known by its ephemeral znodes as well
        reader.read_int()
    for _ in range(reader.read_count()):
        _skip_access_list(reader)
    tree, up_to = _znodes(reader)
    _check(reader)
    digest_zxid, digest = _digest(reader)
    return TreeOfSnapshot(tree, max(up_to, digest_zxid), digest_zxid, digest)


def _skip_access_list(reader: JuteStream) -> None:
    reader.read_long()
    for _ in range(reader.read_count()):
        reader.read_int()
        reader.read_buffer()
        reader.read_buffer()


def _znodes(reader: JuteStream) -> tuple[ZnodeTree, int]:
    """The tree, and the newest transaction that any of its znodes names."""
    tree, newest = ZnodeTree(), 0
    while (path := reader.read_text()) != END_OF_PART:
        data = reader.read_buffer()
        reader.take(_ACL_BYTES)
        packed = reader.take(STAT.size)
        _, mzxid, *_, pzxid = STAT.unpack(packed)
        newest = max(newest, mzxid, pzxid)
        tree.put(path, data, packed)
    return tree, newest


def _check(reader: JuteStream) -> None:
    found = reader.sum
    if reader.read_long() != found:
        raise NotJute("its checksum is wrong")
    if reader.read_text() != END_OF_PART:
        raise NotJute("no / behind its checksum")


def _digest(reader: JuteStream) -> tuple[int, int | None]:
    """0 and None where the server does not make any, or where it had applied nothing yet."""
    if reader.at_end:
        return 0, None
    zxid, version = reader.read_long(), reader.read_int()
    digest = None
    if version < DIGEST_VERSION:  # of a release before 3.6.0: a text
        reader.read_buffer()
    else:
        digest = reader.read_long()
    _check(reader)
    return zxid, digest if zxid and version == DIGEST_VERSION else None
