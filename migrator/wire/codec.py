"""Messages to bytes and back: the face of the generated codecs.

In:   a declared message and a version, or bytes with the class and version that they hold.
Out:  bytes, or a message. Every field that the version does not have gets its default.
Elsewhere: headers and frames (`frames`), metadata records and their type ids (`records`), batches (`batch`).
Errors: reading raises Z2K-3001 and nothing else, naming message, field and place. Writing raises Z2K-3002 for a value
that the version would lose, and UnencodableError (a ValueError naming the field) for a value that no version can hold.
Unknown tagged fields are stepped over and not kept: a message that is read and written again has lost them. Kafka
keeps them; nothing of ours forwards a message that it did not make, except Envelope, whose content is opaque bytes.
Source: Kafka 3.9 message schemas; checked by tests/contract/test_wire_kio.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from migrator.findings.quorum import MALFORMED_BYTES
from migrator.wire.explain import UnencodableError, unencodable
from migrator.wire.generate import (
    CANNOT_WRITE,
    SomeMessage,
    decoder_for,
    encoder_for,
    part_encoder_for,
    streaming_decoder_for,
)
from migrator.wire.schema import Message, Part

__all__ = ["UnencodableError", "decode", "decode_each", "decode_from", "encode", "encode_into", "encode_part"]


def encode(message: Message, version: int) -> bytes:
    out = bytearray()
    encode_into(message, version, out)
    return bytes(out)


def encode_into(message: Message, version: int, out: bytearray) -> None:
    """Append the message to `out`; when it cannot be written, `out` is as before."""
    start = len(out)
    try:
        encoder_for(type(message), version)(message, out)
    except CANNOT_WRITE as error:
        del out[start:]
        raise unencodable(message, version, error) from error
    except Exception:
        del out[start:]
        raise


def encode_part(part: Part, message: type[Message], version: int) -> bytes:
    """One element of an array, as it stands in messages of this class: what `Encoded` is made of."""
    out = bytearray()
    try:
        part_encoder_for(type(part), message, version)(part, out)
    except CANNOT_WRITE as error:
        raise unencodable(part, version, error) from error
    return bytes(out)


def decode(message: type[SomeMessage], version: int, data: bytes | bytearray | memoryview) -> SomeMessage:
    """Read a message that takes up all of `data`."""
    value, position = decode_from(message, version, data, 0)
    _refuse_rest(message, version, len(data), position)
    return value


def decode_each(
    message: type[Message],
    version: int,
    data: bytes,
    array: str,
    take: Callable[[Any], object],
    wanted: frozenset[str] = frozenset(),
) -> None:
    """Read a message that takes up all of `data`, and hand the elements of one array on, one by one.

    A request of a million partitions is never whole in memory. `take` has had some when the bytes turn out wrong.
    wanted: fields of the elements, by path from the message on ("topics.name"). All others are stepped over, by the
        sizes that the bytes say, and have their defaults; that is all that is saved. Empty: every field.
    """
    _, position = streaming_decoder_for(message, version, array, wanted)(data, 0, len(data), take)
    _refuse_rest(message, version, len(data), position)


def _refuse_rest(message: type[Message], version: int, size: int, position: int) -> None:
    if position != size:
        raise MALFORMED_BYTES.error(
            what=f"{message.__name__} version {version}",
            position=position,
            reason=f"{size - position} bytes are left behind its end",
        )


def decode_from(
    message: type[SomeMessage], version: int, data: bytes | bytearray | memoryview, position: int
) -> tuple[SomeMessage, int]:
    """Read a message that starts at `position`; returns it and the position behind it.

    Anything but bytes is copied once, since slices of bytes are what the generated code can decode fastest.
    """
    buffer = data if isinstance(data, bytes) else bytes(data)
    return decoder_for(message, version)(buffer, position, len(buffer))
