"""One entry of a transaction log: which changes of the tree it stands for.

In:   the bytes of an entry, without its checksum and its end mark.
Out:  a `LoggedTransaction` with the changes that were applied, none where the request was refused.
Elsewhere: entries in a file (txn_log.py), what a change does to the tree (znode_tree.py).
Rules: a multi that was refused is logged whole, and only the operation that failed, and those behind it, are of type
`error`: nothing of it was applied. A session's end has the paths of its ephemeral znodes since 3.6; before that, and
where `zookeeper.closeSessionTxn.enabled` is off, it has nothing, and every znode of that session goes. Entries end with
the digest of the whole tree since 3.6, unless digests are off.
Source: ZooKeeper 3.9 `SerializeUtils.deserializeTxn`, `DataTree.processTxn`, `EphemeralType`, `zookeeper.jute`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from migrator.zk.files.jute import EndOfBytes, JuteReader, NotJute

DIGEST_VERSION: Final = 2
"""Of the sum that `ZnodeTree.digest` makes. 3.6 and later have no other."""
_DIGEST_BYTES: Final = 12
_CVERSION_BYTES: Final = 4

CONTAINER_OWNER: Final = -(2**63)
"""`ephemeralOwner` of a container, as ZooKeeper keeps it."""
TTL_MARK: Final = -(2**56)
"""The first byte of `ephemeralOwner` of a znode with a time to live: all bits set. The next two are 0."""


class TxnType(IntEnum):
    """Types of entries, as ZooKeeper numbers them."""

    CREATE = 1
    DELETE = 2
    SET_DATA = 5
    SET_ACL = 7
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    ERROR = -1
    CREATE_SESSION = -10
    CLOSE_SESSION = -11


class CreateTxn(msgspec.Struct, frozen=True):
    """A znode was made. owner: as ZooKeeper keeps it: a session, a container, a time to live, or 0.

    parent_cversion: of its parent from then on; -1 (ZooKeeper 3.3): one more than before.
    """

    path: str
    data: bytes | None
    owner: int
    parent_cversion: int


class DeleteTxn(msgspec.Struct, frozen=True):
    path: str


class SetDataTxn(msgspec.Struct, frozen=True):
    """version: of the data from then on."""

    path: str
    data: bytes | None
    version: int


class SetAclTxn(msgspec.Struct, frozen=True):
    """version: of the access list from then on. What the list says is not kept: no audit asks for it."""

    path: str
    version: int


class CloseSessionTxn(msgspec.Struct, frozen=True):
    """paths: of the session's ephemeral znodes; empty where the entry does not list them."""

    session: int
    paths: tuple[str, ...]


TreeChange = CreateTxn | DeleteTxn | SetDataTxn | SetAclTxn | CloseSessionTxn


class LoggedTransaction(msgspec.Struct, frozen=True):
    """time_ms: of the server that took the request, since 1970 in UTC. digest: of the tree after it; None: not told."""

    zxid: int
    time_ms: int
    changes: tuple[TreeChange, ...]
    digest: int | None


def transaction_in(entry: bytes) -> LoggedTransaction:
    """Decode one entry. Raises NotJute where it is none that ZooKeeper 3.4 to 3.9 writes."""
    reader = JuteReader(entry)
    try:
        session = reader.read_long()
        reader.read_int()  # the number that the client gave the request
        zxid, time_ms, kind = reader.read_long(), reader.read_long(), reader.read_int()
        if kind == TxnType.MULTI:
            changes = _multi(session, reader)
        elif kind == TxnType.CLOSE_SESSION:
            changes = (CloseSessionTxn(session, _listed(reader)),)
        else:
            changes = _change(kind, session, reader)
        return LoggedTransaction(zxid, time_ms, changes, _digest(reader))
    except EndOfBytes:
        raise NotJute("an entry that is shorter than its type takes") from None


def _multi(session: int, reader: JuteReader) -> tuple[TreeChange, ...]:
    operations = []
    for _ in range(reader.read_count()):
        kind = reader.read_int()
        operations.append((kind, reader.read_buffer() or b""))
    if any(kind == TxnType.ERROR for kind, _ in operations):
        return ()
    return tuple(change for kind, data in operations for change in _change(kind, session, JuteReader(data)))


def _change(kind: int, session: int, reader: JuteReader) -> tuple[TreeChange, ...]:
    match kind:
        case TxnType.CREATE | TxnType.CREATE2:
            path, data = _new_znode(reader)
            owner = session if reader.read_bool() else 0
            has_cversion = reader.left in (_CVERSION_BYTES, _CVERSION_BYTES + _DIGEST_BYTES)
            return (CreateTxn(path, data, owner, reader.read_int() if has_cversion else -1),)
        case TxnType.CREATE_CONTAINER:
            path, data = _new_znode(reader)
            return (CreateTxn(path, data, CONTAINER_OWNER, reader.read_int()),)
        case TxnType.CREATE_TTL:
            path, data = _new_znode(reader)
            parent_cversion = reader.read_int()
            return (CreateTxn(path, data, TTL_MARK | reader.read_long(), parent_cversion),)
        case TxnType.DELETE | TxnType.DELETE_CONTAINER:
            return (DeleteTxn(reader.read_text()),)
        case TxnType.SET_DATA | TxnType.RECONFIG:
            return (SetDataTxn(reader.read_text(), reader.read_buffer(), reader.read_int()),)
        case TxnType.SET_ACL:
            path = reader.read_text()
            _skip_acl(reader)
            return (SetAclTxn(path, reader.read_int()),)
        case TxnType.CHECK:
            reader.read_text()
            reader.read_int()
            return ()
        case TxnType.CREATE_SESSION | TxnType.ERROR:
            reader.read_int()  # the session's time-out, or why the request was refused
            return ()
        case _:
            raise NotJute(f"a transaction of type {kind}")


def _new_znode(reader: JuteReader) -> tuple[str, bytes | None]:
    path, data = reader.read_text(), reader.read_buffer()
    _skip_acl(reader)
    return path, data


def _skip_acl(reader: JuteReader) -> None:
    for _ in range(reader.read_count()):
        reader.read_int()  # permissions
        reader.read_buffer()  # scheme
        reader.read_buffer()  # id


def _listed(reader: JuteReader) -> tuple[str, ...]:
    """Paths of a session's end. An entry without a list may end with the digest, which is none."""
    trial = JuteReader(reader.rest)
    try:
        paths = tuple(trial.read_text() for _ in range(trial.read_count()))
    except (EndOfBytes, NotJute):
        return ()
    if trial.left not in (0, _DIGEST_BYTES) or not all(path.startswith("/") for path in paths):
        return ()
    reader.take(reader.left - trial.left)
    return paths


def _digest(reader: JuteReader) -> int | None:
    if reader.left < _DIGEST_BYTES:
        return None
    version, digest = reader.read_int(), reader.read_long()
    return digest if version == DIGEST_VERSION else None
