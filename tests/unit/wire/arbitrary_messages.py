"""Arbitrary messages of every declared class and version, for tests that must not forget one.

In:   a source of chance (`random.Random`, so that a failure can be seen again) and a declared class.
Out:  messages whose fields hold what the version can hold: extremes, nulls, empty and long things included.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from migrator.findings.finding import FindingError
from migrator.wire.batch import CONTROL_TYPES
from migrator.wire.frames import API_KEYS
from migrator.wire.messages.security import DefaultPrincipalData
from migrator.wire.records import RECORD_TYPES
from migrator.wire.schema import (
    ARRAY,
    BOOL,
    FLOAT64,
    UUID,
    Fixed,
    Message,
    Part,
    Sized,
    Slot,
    WireType,
    declaration_of,
    slots_of,
)

ELEMENTS_MAX = 4  # long arrays have tests of their own
TEXTS = ("", "a", "topic-7", "é", "漢字", "x" * 126, "x" * 127, "x" * 128, "𝄞")
BYTES = (b"", b"\x00", b"\xff" * 3, bytes(126), bytes(127), bytes(128), bytes(300))

Choice = Callable[[random.Random, Slot], Any]


def every_message() -> Iterator[type[Message]]:
    for api in API_KEYS.values():
        yield api.request
        yield api.response
    yield from RECORD_TYPES.values()
    yield from CONTROL_TYPES.values()
    yield DefaultPrincipalData


def every_version(messages: Iterator[type[Message]] | None = None) -> list[tuple[type[Message], int]]:
    return [
        (message, version)
        for message in (messages or every_message())
        for version in range(declaration_of(message).lowest, declaration_of(message).highest + 1)
    ]


def named(pair: tuple[type[Message], int]) -> str:
    return f"{pair[0].__name__}-v{pair[1]}"


def arbitrary(chance: random.Random, message: type[Message], version: int, choice: Choice | None = None) -> Any:
    """A message with a value in every field that `version` has; choice: values for single fields, or NotImplemented."""
    return _part(chance, message, version, choice or (lambda _chance, _slot: NotImplemented))


def _part(chance: random.Random, part: type[Part], version: int, choice: Choice) -> Part:
    here = [slot for slot in slots_of(part) if slot.field.exists_in(version)]
    return part(**{slot.name: _field(chance, slot, version, choice) for slot in here})


def _field(chance: random.Random, slot: Slot, version: int, choice: Choice) -> Any:
    if chance.random() < 0.15:
        return slot.default if slot.default is not None or slot.field.may_be_null_in(version) else ""
    if slot.field.may_be_null_in(version) and chance.random() < 0.2:
        return None
    chosen = choice(chance, slot)
    return _value(chance, slot.field.type, version, choice) if chosen is NotImplemented else chosen


def _value(chance: random.Random, wire_type: WireType, version: int, choice: Choice) -> Any:
    match wire_type:
        case Fixed():
            return arbitrary_fixed(chance, wire_type)
        case Sized():
            return chance.choice(TEXTS if wire_type.name == "string" else BYTES)
        case ARRAY():
            length = chance.randrange(ELEMENTS_MAX)
            return tuple(_value(chance, wire_type.element, version, choice) for _ in range(length))
        case _:
            return _part(chance, wire_type, version, choice)


def arbitrary_fixed(chance: random.Random, fixed: Fixed) -> Any:
    if fixed is BOOL:
        return chance.random() < 0.5
    if fixed is UUID:
        return chance.randbytes(16)
    if fixed is FLOAT64:
        return chance.choice((0.0, -1.5, 1e300, chance.random()))
    lowest, highest = bounds(fixed)
    return chance.choice((lowest, highest, 0, 1, chance.randint(lowest, highest)))


def bounds(fixed: Fixed) -> tuple[int, int]:
    bits = 8 * fixed.size
    return (0, 2**bits - 1) if fixed.code.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def refusal(read: Callable[..., object], *arguments: Any) -> FindingError | None:
    """The finding that stopped a reader; None where it read something. Any other exception is a fault and goes on."""
    try:
        read(*arguments)
    except FindingError as refused:
        return refused
    return None
