"""Files of a ZooKeeper server made by hand, and what is in some that a real one wrote.

In:   znodes and transactions.
Out:  bytes of snapshots and transaction logs; of a tree, what a client of the server would see.
Elsewhere: reading them (migrator/zk/files). This is a second writing of the form, after ZooKeeper's `zookeeper.jute`.
Kept files: `zookeeper_files` has the directory of a ZooKeeper 3.8.4 after a history of zookeeper_history.py, and beside
it `seen.json`, what a client saw at the end. `python -m tests.support.zookeeper_history DIR` makes them anew.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from zlib import adler32

from migrator.zk.files.transactions import TxnType
from migrator.zk.files.znode_tree import STAT, ZnodeStat, ZnodeTree, session_of

KEPT: Final = Path(__file__).with_name("zookeeper_files")
NOT_COMPARED: Final = ("/zookeeper/quota", "/zookeeper/config")
"""A server writes there for itself, without a transaction."""
HEADER_BYTES: Final = 16
EPOCH: Final = 1 << 32
TIME_MS: Final = 1_800_000_000_000
ACL: Final = struct.pack(">ii", 1, 31) + struct.pack(">i5si6s", 5, b"world", 6, b"anyone")


def seen_in(directory: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = json.loads((directory / "seen.json").read_bytes())
    return found


def as_seen(tree: ZnodeTree) -> dict[str, list[Any]]:
    """Every znode with its data and the eleven numbers that a client sees."""
    found = {}
    for path, node in tree.paths():
        if path.startswith(NOT_COMPARED):
            continue
        stat, data, children = node.stat, node.data or b"", len(node.children or ())
        cversion = stat.cversion * 2 - children  # creates are counted, clients see changes
        found[path or "/"] = [
            *(data.hex(), stat.czxid, stat.mzxid, stat.ctime_ms, stat.mtime_ms, stat.version, cversion),
            *(stat.aversion, session_of(stat.owner), len(data), children, stat.pzxid),
        ]
    return found


# --- values -----------------------------------------------------------------------------------------------


def buffer(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def text(value: str) -> bytes:
    return buffer(value.encode())


def a_stat(zxid: int = 0, **fields: int) -> ZnodeStat:
    return ZnodeStat(zxid, zxid, TIME_MS, TIME_MS, 0, 0, 0, 0, zxid)._replace(**fields)


# --- snapshots --------------------------------------------------------------------------------------------


def a_snapshot(
    znodes: Mapping[str, tuple[bytes, ZnodeStat]],
    *,
    digest: tuple[int, int] | None = None,
    sessions: Sequence[int] = (),
) -> bytes:
    """znodes: by path, parents first, the root is empty. digest: zxid and sum, as servers from 3.6 on add them."""
    out = b"ZKSN" + struct.pack(">iq", 2, -1) + struct.pack(">i", len(sessions))
    out += b"".join(struct.pack(">qi", each, 30_000) for each in sessions)
    out += struct.pack(">iq", 1, 1) + ACL
    for path, (data, stat) in znodes.items():
        out += text(path) + buffer(data) + struct.pack(">q", 1) + STAT.pack(*stat)
    out = with_checksum(out + text("/"))
    if digest is None:
        return out
    zxid, total = digest
    return with_checksum(out + struct.pack(">qiq", zxid, 2, total))


def with_checksum(out: bytes) -> bytes:
    return out + struct.pack(">q", adler32(out)) + text("/")


ROOT: Final[Mapping[str, tuple[bytes, ZnodeStat]]] = {"": (b"", a_stat())}


# --- logs -------------------------------------------------------------------------------------------------


def a_log(*entries: bytes, padding: int = 4096) -> bytes:
    """entries: as `an_entry` gives them. padding: zeros that the server allocated ahead."""
    return b"ZKLG" + struct.pack(">iq", 2, 0) + b"".join(entries) + bytes(padding)


def an_entry(zxid: int, kind: int, record: bytes, *, session: int = 1, digest: int | None = None) -> bytes:
    entry = struct.pack(">qiqqi", session, 0, zxid, TIME_MS + zxid, kind) + record
    if digest is not None:
        entry += struct.pack(">iq", 2, digest)
    return struct.pack(">qi", adler32(entry), len(entry)) + entry + b"B"


def create(path: str, data: bytes = b"", *, ephemeral: bool = False, cversion: int | None = 1) -> bytes:
    """cversion: of the parent from then on; None: as ZooKeeper 3.3 wrote it, without."""
    record = text(path) + buffer(data) + ACL + struct.pack(">?", ephemeral)
    return record if cversion is None else record + struct.pack(">i", cversion)


def a_create(zxid: int, path: str, data: bytes = b"", *, session: int = 1, **options: Any) -> bytes:
    return an_entry(zxid, TxnType.CREATE, create(path, data, **options), session=session)


def a_set(zxid: int, path: str, data: bytes, version: int) -> bytes:
    return an_entry(zxid, TxnType.SET_DATA, set_data(path, data, version))


def set_data(path: str, data: bytes, version: int) -> bytes:
    return text(path) + buffer(data) + struct.pack(">i", version)


def a_delete(zxid: int, path: str) -> bytes:
    return an_entry(zxid, TxnType.DELETE, text(path))


def an_error(zxid: int, code: int = -101) -> bytes:
    return an_entry(zxid, TxnType.ERROR, struct.pack(">i", code))


def a_multi(zxid: int, *operations: tuple[int, bytes]) -> bytes:
    """operations: type and record of each."""
    record = struct.pack(">i", len(operations))
    record += b"".join(struct.pack(">i", kind) + buffer(each) for kind, each in operations)
    return an_entry(zxid, TxnType.MULTI, record)


def a_close(zxid: int, session: int, paths: Sequence[str] | None, *, digest: int | None = None) -> bytes:
    """paths: None: as before 3.6, without a list."""
    record = b"" if paths is None else struct.pack(">i", len(paths)) + b"".join(map(text, paths))
    return an_entry(zxid, TxnType.CLOSE_SESSION, record, session=session, digest=digest)


def write(directory: Path, **files: bytes) -> Path:
    """Files by name, with `_` where the name has a dot: `snapshot_0`, `log_1`, `snapshot_5_gz`."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name.replace("_", ".")).write_bytes(content)
    return directory
