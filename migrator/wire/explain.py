"""Finds the value that an encoder could not write. Slow and plain: it runs only after a failure.

In:   a message and the version at which writing it failed.
Out:  one sentence naming the field, by its path and with its value.
Elsewhere: values that a version has no field for, which the encoder itself refuses (Z2K-3002).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from migrator.wire.schema import (
    ARRAY,
    UUID,
    Encoded,
    Field,
    Fixed,
    Message,
    Part,
    Sized,
    WireType,
    declaration_of,
    slots_of,
)


class UnencodableError(ValueError):
    """A value that its field cannot hold: a fault of the program that made the message, so not a finding."""


def unencodable(message: Part, version: int, error: Exception) -> UnencodableError:
    name = f"{type(message).__name__} version {version}"
    if isinstance(message, Message) and not declaration_of(message).has(version):
        return UnencodableError(f"{name} does not exist")
    problem = next(_problems_in_part(message, version, ""), f"cannot be written: {error}")
    return UnencodableError(f"{name}: {problem}")


def _problems_in_part(part: Part, version: int, path: str) -> Iterator[str]:
    for slot in slots_of(type(part)):
        if slot.field.exists_in(version):
            yield from _problems_in_field(slot.field, getattr(part, slot.name), version, f"{path}{slot.name}")


def _problems_in_field(field: Field, value: Any, version: int, path: str) -> Iterator[str]:
    if value is not None:
        yield from _problems(field.type, value, version, path)
    elif not field.may_be_null_in(version):
        yield f"{path} is None, but must have a value"


def _problems(wire_type: WireType, value: Any, version: int, path: str) -> Iterator[str]:
    match wire_type:
        case Fixed():
            yield from _problems_of_fixed(wire_type, value, path)
        case Sized():
            yield from _problems_of_sized(wire_type, value, path)
        case ARRAY() if type(value) is Encoded:
            return
        case ARRAY():
            if isinstance(value, str) or not hasattr(value, "__len__") or not hasattr(value, "__iter__"):
                yield f"{path} = {value!r} is no list"
                return
            for index, element in enumerate(value):
                yield from _problems(wire_type.element, element, version, f"{path}[{index}]")
        case _ if isinstance(value, wire_type):
            yield from _problems_in_part(value, version, f"{path}.")
        case _:
            yield f"{path} = {value!r} is no {wire_type.__name__}"


def _problems_of_fixed(wire_type: Fixed, value: Any, path: str) -> Iterator[str]:
    if wire_type is UUID and not (isinstance(value, bytes) and len(value) == 16):
        yield f"{path} = {value!r} is no id of 16 bytes"
        return
    try:
        struct.pack(f">{wire_type.code}", value)
    except (struct.error, TypeError, OverflowError):
        yield f"{path} = {value!r} does not fit {wire_type.name}"


def _problems_of_sized(wire_type: Sized, value: Any, path: str) -> Iterator[str]:
    if wire_type.name != "string":
        if not isinstance(value, (bytes, bytearray, memoryview)):
            yield f"{path} = {value!r} are no bytes"
        return
    if not isinstance(value, str):
        yield f"{path} = {value!r} is no string"
        return
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        yield f"{path} = {value!r} cannot be written as UTF-8"
        return
    if length > wire_type.bytes_max:
        yield f"{path} has {length} bytes, but at most {wire_type.bytes_max} are possible"
