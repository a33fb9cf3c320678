"""Shorten the error messages of a response that cannot be written because of one.

In:   a response whose messages quote what was asked: a name of 32 KiB fits into a request, the sentence about it not
      into a string of the response, which has 32,767 bytes at most.
Out:  the same response with every `error_message` of at most `WORDS_BYTES_MAX` bytes.
Elsewhere: who asks for it (frames.encode_response), the limits of strings (schema.py).
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from migrator.wire.schema import ARRAY, Message, Part, slots_of

WORDS_BYTES_MAX: Final = 2_000
"""Nobody reads more of a sentence."""

AnyPart = TypeVar("AnyPart", bound=Part)


def with_short_messages(response: Message) -> Message:
    """The response itself when no message of it is long."""
    return _shortened_part(response)


def _shortened_part(part: AnyPart) -> AnyPart:
    changes = {}
    for slot in slots_of(type(part)):
        before = getattr(part, slot.name)
        after = _shortened(slot.name, slot.field.type, before)
        if after is not before:
            changes[slot.name] = after
    return msgspec.structs.replace(part, **changes) if changes else part


def _shortened(name: str, wire_type: Any, value: Any) -> Any:
    if name == "error_message" and isinstance(value, str):
        return _cut(value)
    if isinstance(value, Part):
        return _shortened_part(value)
    if isinstance(wire_type, ARRAY):
        return tuple(_shortened("", wire_type.element, each) for each in value) if value else value
    return value


def _cut(words: str) -> str:
    raw = words.encode()
    if len(raw) <= WORDS_BYTES_MAX:
        return words
    return raw[:WORDS_BYTES_MAX].decode(errors="ignore") + f"... ({len(raw):,} bytes)"
