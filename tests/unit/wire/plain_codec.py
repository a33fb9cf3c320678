"""The slow, obvious twin of the generated encoders: walks the declaration field by field and appends.

It shares the declarations with them and nothing else, so a shortcut that goes wrong shows as different bytes.
"""

from __future__ import annotations

import struct
from typing import Any

from migrator.wire.schema import ARRAY, Fixed, Message, Part, Sized, Slot, WireType, declaration_of, slots_of


def plain_encode(message: Message, version: int) -> bytes:
    return _part(message, version, declaration_of(message).is_flexible(version))


def plain_uvarint(number: int) -> bytes:
    if number < 128:
        return bytes([number])
    return bytes([number % 128 + 128]) + plain_uvarint(number // 128)


def _part(part: Part, version: int, flexible: bool) -> bytes:
    here = [slot for slot in slots_of(type(part)) if slot.field.exists_in(version)]
    out = b""
    for slot in here:
        if slot.field.tag is None:
            out += _value(slot.field.type, getattr(part, slot.name), version, flexible)
    return out + _tags(part, here, version) if flexible else out


def _tags(part: Part, slots: list[Slot], version: int) -> bytes:
    written = [slot for slot in slots if slot.field.tag is not None and _holds_more_than_the_default(part, slot)]
    out = plain_uvarint(len(written))
    for slot in sorted(written, key=lambda slot: slot.field.tag or 0):
        value = _value(slot.field.type, getattr(part, slot.name), version, True)
        out += plain_uvarint(slot.field.tag or 0) + plain_uvarint(len(value)) + value
    return out


def _holds_more_than_the_default(part: Part, slot: Slot) -> bool:
    value = getattr(part, slot.name)
    return value != slot.default and not (slot.default == () and value is not None and len(value) == 0)


def _value(wire_type: WireType, value: Any, version: int, flexible: bool) -> bytes:
    match wire_type:
        case Fixed():
            return struct.pack(">" + wire_type.code, value)
        case Sized():
            raw = value.encode() if isinstance(value, str) else value
            return _length(None if raw is None else len(raw), wire_type.length_size, flexible) + (raw or b"")
        case ARRAY():
            elements = [_value(wire_type.element, element, version, flexible) for element in value or ()]
            return _length(None if value is None else len(value), 4, flexible) + b"".join(elements)
        case _:
            return _part(value, version, flexible)


def _length(length: int | None, size: int, flexible: bool) -> bytes:
    if flexible:
        return plain_uvarint(0 if length is None else length + 1)
    return (-1 if length is None else length).to_bytes(size, "big", signed=True)
