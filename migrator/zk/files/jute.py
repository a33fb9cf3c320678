"""Jute, the encoding of ZooKeeper's files: big-endian numbers, texts and buffers behind their length.

In:   bytes, or a stream that is read once from its beginning.
Out:  numbers, texts and buffers in order; of a stream also the Adler-32 sum of all that was taken.
Errors: `EndOfBytes` where fewer bytes are left than the next value takes, `NotJute` where bytes are no such value.
Source: ZooKeeper 3.9 `BinaryInputArchive`.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Final
from zlib import adler32

CHUNK_BYTES: Final = 1 << 20
"""As much of a stream is in memory at once, or one value that is longer."""
VALUE_BYTES_MAX: Final = 1 << 28
"""No text and no buffer is longer: ZooKeeper's own limit is 1 MB, and whoever raises it stays far below this."""

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")


class EndOfBytes(Exception):
    """The bytes end before the value does."""


class NotJute(Exception):
    """Bytes that no ZooKeeper writes here. Its text says what is wrong with them."""


class JuteReader:
    """Takes one value after the other from bytes."""

    def __init__(self, buffer: bytes) -> None:
        self._buffer = buffer
        self._at = 0

    @property
    def left(self) -> int:
        """How many bytes are left of the buffer."""
        return len(self._buffer) - self._at

    @property
    def rest(self) -> bytes:
        return self._buffer[self._at :]

    def _refill(self, wanted: int) -> None:
        """Have `wanted` bytes in the buffer, or raise EndOfBytes."""
        raise EndOfBytes

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._buffer):
            self._refill(count)
            end = self._at + count
        found = self._buffer[self._at : end]
        self._at = end
        return found

    def read_int(self) -> int:
        return int(_INT.unpack(self.take(4))[0])

    def read_long(self) -> int:
        return int(_LONG.unpack(self.take(8))[0])

    def read_bool(self) -> bool:
        return self.take(1) != b"\0"

    def read_buffer(self) -> bytes | None:
        """Bytes behind their length; None where the length is -1."""
        length = self.read_int()
        if length == -1:
            return None
        if not 0 <= length <= VALUE_BYTES_MAX:
            raise NotJute(f"a length of {length}")
        return self.take(length)

    def read_text(self) -> str:
        """UTF-8 behind its length. ZooKeeper writes no text without value where this is asked."""
        found = self.read_buffer()
        if found is None:
            raise NotJute("a text that has no value")
        try:
            return found.decode()
        except UnicodeDecodeError as error:
            raise NotJute(f"a text that is not UTF-8 ({error})") from error

    def read_count(self) -> int:
        """The length of a vector or a map; 0 where it has no value."""
        found = self.read_int()
        if found < -1:
            raise NotJute(f"a vector of {found}")
        return max(found, 0)


class JuteStream(JuteReader):
    """The same of a stream, of which little is in memory at once."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(b"")
        self._stream = stream
        self._dropped = 0
        self._sum = 1

    @property
    def offset(self) -> int:
        """Where the next value begins."""
        return self._dropped + self._at

    @property
    def sum(self) -> int:
        """Adler-32 of all that was taken."""
        return adler32(memoryview(self._buffer)[: self._at], self._sum)

    @property
    def at_end(self) -> bool:
        try:
            self._refill(1)
        except EndOfBytes:
            return self.left == 0
        return False

    def rest_is_zero(self) -> bool:
        """Whether nothing but zeros follows. Reads the stream to its end."""
        rest = self._buffer[self._at :]
        while not rest.strip(b"\0"):
            rest = self._stream.read(CHUNK_BYTES)
            if not rest:
                return True
        return False

    def _refill(self, wanted: int) -> None:
        if self.left >= wanted:
            return
        self._sum = self.sum
        self._dropped += self._at
        parts, have = [self._buffer[self._at :]], self.left
        self._at = 0
        while have < wanted:
            more = self._stream.read(max(CHUNK_BYTES, wanted - have))
            if not more:
                break
            parts.append(more)
            have += len(more)
        self._buffer = b"".join(parts)
        if have < wanted:
            raise EndOfBytes
