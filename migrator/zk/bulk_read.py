"""The multi-read: data or children of many znodes with one request, which kazoo does not have.

In:   paths, chroot included.
Out:  a request as kazoo's connection wants it; from its answer a `Znode`, or names, for each path, None where there is
      none, and a `ReadRefusal` where the server refused.
Elsewhere: sending it, and servers that do not know it (pipeline.py).
Source: ZooKeeper's client protocol, operation 22, servers from 3.6 on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec


class Znode(msgspec.Struct, frozen=True, gc=False):
    """One znode as read. `owner` is the session of an ephemeral one, else 0.

    acl_changes: how often its access list was changed since it was made; that does not move `mzxid`.
    children:    how many znodes are right below it.
    """

    data: bytes | None
    version: int
    mzxid: int
    czxid: int
    owner: int
    acl_changes: int = 0
    children: int = 0


class ReadRefusal(msgspec.Struct, frozen=True):
    """What the server said instead of what one path holds: an error code of ZooKeeper."""

    code: int


_HEADER = struct.Struct(">iBi")
_BEGIN = struct.Struct(">iB4xi")
"""A header and the number behind it: the length of the data, or why there is none."""
_STAT = struct.Struct(">qq16xi4xiq4xi8xiB4xi")
"""czxid, mzxid, version, aversion, ephemeralOwner, numChildren; the rest of the 68 bytes is stepped over. Behind them
what `_BEGIN` takes of the next answer.
"""
_BEHIND_LAST = bytes(4)
"""The last header has no number behind it."""
_INT = struct.Struct(">i")
_GET_DATA, _GET_CHILDREN, _MULTI_READ, _ERROR = 4, 8, 22, -1
_NO_NODE = -101


class BulkRead:
    """Operation 22 as kazoo's connection wants a request: a type, `serialize` and `deserialize`."""

    type = _MULTI_READ
    operation: int

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        """Made of texts of one byte a sign, which are joined faster than bytes."""
        names = self._paths
        if not "".join(names).isascii():
            names = [path.encode().decode("latin-1") for path in names]
        before = _HEADER.pack(self.operation, False, -1).decode("latin-1")
        no_watch = "\0"
        asked = [f"{before}{_length(len(name))}{name}{no_watch}" for name in names]
        return "".join(asked).encode("latin-1") + _HEADER.pack(-1, True, -1)


@lru_cache(maxsize=1_024)
def _length(size: int) -> str:
    return _INT.pack(size).decode("latin-1")


class GetMany(BulkRead):
    """changed: is told each path whose access list was changed since the znode was made."""

    operation = _GET_DATA

    def __init__(self, paths: Sequence[str], changed: Callable[[str], None] | None = None) -> None:
        super().__init__(paths)
        self._changed = changed

    def deserialize(self, buffer: bytes, offset: int) -> list[Any]:
        """An answer to each path, in their order; a server that stops early says so in a header that is done."""
        found: list[Any] = []
        unpack_begin, unpack_stat, take = _BEGIN.unpack_from, _STAT.unpack_from, found.append
        begin_size, stat_size = _BEGIN.size, _STAT.size
        buffer += _BEHIND_LAST
        kind, done, number = unpack_begin(buffer, offset)
        offset += begin_size
        for path in self._paths:
            if done:
                break
            if kind == _ERROR:
                take(_missing_or_refused(number))
                kind, done, number = unpack_begin(buffer, offset)
                offset += begin_size
                continue
            end = offset + number if number > 0 else offset
            data = None if number < 0 else buffer[offset:end]
            czxid, mzxid, version, acl_changes, owner, children, kind, done, number = unpack_stat(buffer, end)
            if acl_changes and self._changed is not None:
                self._changed(path)
            take(Znode(data, version, mzxid, czxid, owner, acl_changes, children))
            offset = end + stat_size
        return found


class ChildrenMany(BulkRead):
    operation = _GET_CHILDREN

    @classmethod
    def deserialize(cls, buffer: bytes, offset: int) -> list[Any]:
        found: list[Any] = []
        while True:
            kind, done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                return found
            (number,) = _INT.unpack_from(buffer, offset)
            offset += 4
            if kind == _ERROR:
                found.append(_missing_or_refused(number))
                continue
            names = []
            for _ in range(number):
                (length,) = _INT.unpack_from(buffer, offset)
                offset += 4 + length
                names.append(buffer[offset - length : offset].decode())
            found.append(names)


def _missing_or_refused(code: int) -> Any:
    return None if code == _NO_NODE else ReadRefusal(code)
