"""A transaction log of ZooKeeper: its entries, and how it ends.

In:   the stream of a log file.
Out:  each entry with the place behind it; then how the file ends.
Elsewhere: what an entry says (transactions.py), in which order files follow each other (server_files.py).
Form: magic, version, database; entries of a checksum, a length, that many bytes, and an end mark; zeros, which the
server allocates ahead. A copy that was made while the server wrote may end inside an entry, and so may the log of a
server that died.
Source: ZooKeeper 3.9 `FileTxnLog`, `Util.readTxnBytes`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, Final
from zlib import adler32

from migrator.zk.files.jute import VALUE_BYTES_MAX, EndOfBytes, JuteStream, NotJute
from migrator.zk.files.transactions import LoggedTransaction, transaction_in

MAGIC: Final = b"ZKLG"
VERSION: Final = 2
END_MARK: Final = b"B"
NOT_WRITTEN: Final = b"\0"
_HEAD: Final = struct.Struct(">qi")
"""Checksum and length of an entry."""


class TxnLogReader:
    """Iterate over it for the transactions of one file.

    offset:  where the entry begins that was read last; at the end, where the next one would begin.
    torn:    the file ends inside an entry, or before its first one.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._reader = JuteStream(stream)
        self.offset = 0
        self.torn = False

    def __iter__(self) -> Iterator[LoggedTransaction]:
        """Raises NotJute for what is no log, a wrong checksum, and bytes behind the end; `offset` says where."""
        try:
            self._header()
            while True:
                self.offset = self._reader.offset
                entry = self._entry()
                if entry is None:
                    return
                yield transaction_in(entry)
        except EndOfBytes:
            begun = self._reader.offset > self.offset or self._reader.rest.strip(b"\0")
            self.torn = bool(begun) or self.offset == 0

    def _header(self) -> None:
        magic = self._reader.take(len(MAGIC))
        if magic != MAGIC:
            raise NotJute("no magic ZKLG at its beginning")
        if (version := self._reader.read_int()) != VERSION:
            raise NotJute(f"version {version}")
        self._reader.read_long()  # of the database

    def _entry(self) -> bytes | None:
        """None at the end. An entry is begun and not ended where the server has not written its end mark yet."""
        checksum, length = _HEAD.unpack(self._reader.take(_HEAD.size))
        if length == 0:
            self._refuse_more("zeros")
            self.torn = checksum != 0
            return None
        if not 0 < length <= VALUE_BYTES_MAX:
            raise NotJute(f"an entry of {length} bytes")
        entry = self._reader.take(length)
        mark = self._reader.take(1)
        if mark == NOT_WRITTEN:
            self._refuse_more("an entry without its end mark")
            self.torn = True
            return None
        if adler32(entry) != checksum or mark != END_MARK:
            raise NotJute("the checksum of the entry is wrong")
        return entry

    def _refuse_more(self, what: str) -> None:
        if not self._reader.rest_is_zero():
            raise NotJute(f"{what}, and more behind")
