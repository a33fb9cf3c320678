"""The smallest shapes of Kafka's protocol: variable-length integers and the text form of ids.

In:   integers, 16-byte ids, or a buffer and a position in it.
Out:  bytes, or the value together with the position behind it.
Elsewhere: everything that has a name in a message (`schema`, `generate`), batches (`batch`).
Errors: Z2K-3001 for bytes that end too early or are longer than the type allows.
Source: Kafka 3.9 `ByteUtils` and `Uuid`; checked by tests/unit/wire/test_primitives.py.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from migrator.findings.quorum import MALFORMED_BYTES

UVARINT_BYTES_MAX: Final = 5  # 32 bits in groups of seven
VARLONG_BYTES_MAX: Final = 10  # 64 bits in groups of seven

ZERO_UUID: Final = bytes(16)


def encode_uvarint(value: int) -> bytes:
    """An unsigned number in groups of seven bits, lowest group first, a set high bit meaning "more follows"."""
    assert value >= 0, value
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def decode_uvarint(buffer: bytes, position: int) -> tuple[int, int]:
    """Read a number of at most 32 bits; a longer way to write a small number is read as that number."""
    if position < len(buffer) and (group := buffer[position]) < 0x80:
        return group, position + 1
    return _decode_groups(buffer, position, bytes_max=UVARINT_BYTES_MAX, bits=32)


def encode_varint(value: int) -> bytes:
    """A signed number of at most 32 bits, folded so that small negatives stay short: 0, -1, 1, -2, ..."""
    assert -(2**31) <= value < 2**31, value
    return encode_uvarint(value << 1 if value >= 0 else ~value << 1 | 1)


def decode_varint(buffer: bytes, position: int) -> tuple[int, int]:
    if position < len(buffer) and (folded := buffer[position]) < 0x80:  # one group, as in most places
        return folded >> 1 ^ -(folded & 1), position + 1
    folded, position = _decode_groups(buffer, position, bytes_max=UVARINT_BYTES_MAX, bits=32)
    return folded >> 1 ^ -(folded & 1), position


def encode_varlong(value: int) -> bytes:
    """Does what `encode_varint` does, up to 64 bits."""
    assert -(2**63) <= value < 2**63, value
    return encode_uvarint(value << 1 if value >= 0 else ~value << 1 | 1)


def decode_varlong(buffer: bytes, position: int) -> tuple[int, int]:
    if position < len(buffer) and (folded := buffer[position]) < 0x80:
        return folded >> 1 ^ -(folded & 1), position + 1
    folded, position = _decode_groups(buffer, position, bytes_max=VARLONG_BYTES_MAX, bits=64)
    return folded >> 1 ^ -(folded & 1), position


def uuid_text(raw: bytes) -> str:
    """16 bytes as Kafka prints them: URL-safe base64 without padding, 22 characters."""
    assert len(raw) == 16, raw
    return base64.urlsafe_b64encode(raw)[:22].decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """The way back from `uuid_text`; anything else than 22 characters of that alphabet is refused."""
    try:
        raw = base64.b64decode(text.encode("ascii") + b"==", altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raw = b""
    if len(raw) != 16 or uuid_text(raw) != text:
        raise MALFORMED_BYTES.error(what="The id", position=0, reason=f"{text!r} is not a 22-character Kafka id")
    return raw


def _decode_groups(buffer: bytes, position: int, *, bytes_max: int, bits: int) -> tuple[int, int]:
    start = position
    value = 0
    for index, group in enumerate(buffer[start : start + bytes_max]):
        value |= (group & 0x7F) << 7 * index
        if group < 0x80:
            if value >> bits:
                raise _not_a_number(start, f"the number does not fit {bits} bits")
            return value, start + index + 1
    if len(buffer) - start < bytes_max:
        raise _not_a_number(start, "the bytes end inside it")
    raise _not_a_number(start, f"it has no end within {bytes_max} bytes")


def _not_a_number(position: int, reason: str) -> Exception:
    return MALFORMED_BYTES.error(what="A variable-length number", position=position, reason=reason)
