"""What generated code calls while it runs: packers by shape, lengths, tagged sections.

In:   plain values from encoders; a buffer, a position and an end from decoders.
Out:  bytes, or values and positions.
Elsewhere: which of these a message needs (`encoders`, `decoders`).
Why shapes: one `struct` call for all adjacent fields of a part, chosen by the lengths of the arrays among them, takes
about two thirds of the time of a call for each (measured with UpdateMetadata, 1,000 partitions).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from migrator.findings.quorum import MALFORMED_BYTES
from migrator.wire.primitives import decode_uvarint, encode_uvarint
from migrator.wire.schema import ARRAY, Fixed

ONE_BYTE_LENGTHS: Final = 128  # below it a uvarint is one byte, whose value is the number
SHORT: Final = tuple(bytes((value,)) for value in range(ONE_BYTE_LENGTHS))

SHAPES_MAX: Final = 4096  # kept packers per part; a cluster shows a handful, so more means that caching is no help
KEPT_ELEMENTS_MAX: Final = 128  # arrays above this are rare (replicas are few), and each packer takes memory

Pack = Callable[..., bytes]
Unpack = Callable[[bytes, int], tuple[Any, ...]]


class ShapePackers(dict[Any, Pack]):
    """Packers for one run of fixed fields and arrays of fixed elements, by the lengths of those arrays.

    The key is the tuple of lengths, or the bare length where there is one array. A packer takes the fields in
    order, each array as its count (plus one where flexible) followed by its elements.
    """

    def __init__(self, run: Sequence[Fixed | ARRAY], *, flexible: bool, closed: bool) -> None:
        """closed: the part ends with this run, so an empty tagged section (one zero byte) goes with it."""
        self._run = run
        self._flexible = flexible
        self._tail = "x" if closed else ""

    def __missing__(self, key: Any) -> Pack:
        lengths: tuple[int, ...] = key if isinstance(key, tuple) else (key,)
        pack = self._packer(lengths)
        if max(lengths) < KEPT_ELEMENTS_MAX and len(self) < SHAPES_MAX:
            self[key] = pack
        return pack

    def _packer(self, lengths: tuple[int, ...]) -> Pack:
        codes = ">"
        wide_counts = []  # places of those counts whose uvarint is longer than a byte
        place = 0
        remaining = iter(lengths)
        for piece in self._run:
            if isinstance(piece, Fixed):
                codes += piece.code
                place += 1
                continue
            length = next(remaining)
            if not self._flexible:
                codes += "i"
            elif length + 1 < ONE_BYTE_LENGTHS:
                codes += "B"
            else:
                codes += f"{len(encode_uvarint(length + 1))}s"
                wide_counts.append(place)
            codes += repeated(piece, length)
            place += 1 + length
        pack = struct.Struct(codes + self._tail).pack
        return _with_wide_counts(pack, wide_counts) if wide_counts else pack


class ArrayUnpackers(dict[int, Unpack]):
    """Readers of an array of fixed elements, by its length."""

    def __init__(self, array: ARRAY) -> None:
        self._array = array

    def __missing__(self, length: int) -> Unpack:
        if length >= KEPT_ELEMENTS_MAX:
            return _unpack_one_by_one(self._array, length)
        self[length] = struct.Struct(">" + repeated(self._array, length)).unpack_from
        return self[length]


def repeated(array: ARRAY, length: int) -> str:
    assert isinstance(array.element, Fixed), array
    code = array.element.code
    return f"{length}{code}" if len(code) == 1 else code * length


def _unpack_one_by_one(array: ARRAY, length: int) -> Unpack:
    """For long arrays: a Struct would take twice the memory of the array, and its sender chooses the length."""
    element = struct.Struct(">" + repeated(array, 1))

    def unpack(buffer: bytes, position: int) -> tuple[Any, ...]:
        elements = memoryview(buffer)[position : position + length * element.size]
        return tuple(value for (value,) in element.iter_unpack(elements))

    return unpack


def _with_wide_counts(pack: Pack, places: Sequence[int]) -> Pack:
    def pack_wide(*values: Any) -> bytes:
        spelled = list(values)
        for place in places:
            spelled[place] = encode_uvarint(spelled[place])
        return pack(*spelled)

    return pack_wide


def wide_length(length_plus_one: int, bytes_max: int) -> bytes:
    """The compact length of a string or of bytes that are too long for `SHORT`."""
    if length_plus_one - 1 > bytes_max:
        raise ValueError(f"{length_plus_one - 1} bytes are more than {bytes_max}")
    return encode_uvarint(length_plus_one)


def legacy_length(length: int, size: int, bytes_max: int) -> bytes:
    if length > bytes_max:
        raise ValueError(f"{length} bytes are more than {bytes_max}")
    return length.to_bytes(size, "big")


def refuse_id() -> NoReturn:
    raise ValueError("an id has exactly 16 bytes")


def refuse_text() -> NoReturn:
    """A string is a sequence of strings to Python, and the list ["topic"] is easily forgotten around it."""
    raise ValueError("a string is no list of strings")


def refuse(reason: str) -> NoReturn:
    """Stop a decoder; `generate` adds what was being read and where."""
    raise MALFORMED_BYTES.error(what="It", position=0, reason=reason)


def skip_tags(buffer: bytes, position: int, end: int) -> int:
    """Step over a tagged section of which this version of the program knows nothing."""
    count, position = decode_uvarint(buffer, position)
    previous = -1
    for _ in range(count):
        previous, position, after = next_tag(buffer, position, end, previous)
        position = after
    return position


def next_tag(buffer: bytes, position: int, end: int, previous: int) -> tuple[int, int, int]:
    """The next tag of a section, where its value starts, and where it has to end."""
    tag, position = decode_uvarint(buffer, position)
    size, position = decode_uvarint(buffer, position)
    if tag <= previous:
        refuse(f"tag {tag} follows tag {previous}, but tags ascend")
    if position + size > end:
        refuse(f"tag {tag} has {size} bytes, but {end - position} are left")
    return tag, position, position + size
