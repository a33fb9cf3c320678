"""How a message is declared: wire types, fields, and the versions that have them.

In:   classes such as those in `messages/`; each annotation carries one `Field`.
Out:  `declaration_of(message)` (name, key, versions) and `slots_of(part)` (its fields in wire order).
Elsewhere: turning a declaration into code (`generate`), the declarations themselves (`messages/`).
Source: Kafka 3.9's message schemas, whose words are kept in this way:

    since, until   the versions that have the field, both inclusive. Below flexible_since a tag does not exist.
    nullable       True: null is legal wherever the field exists. A number: from that version on.
    tag            the field travels in the tagged section at the end, and only when it is not the default.
    droppable      a version without the field may lose its value in silence (Kafka says "ignorable");
                   without it, writing anything but the default to such a version is Z2K-3002.

A message reads like this; the class default is what a reader gets from a version without the field:

    class VoteRequest(Message, api_key=52, versions=(0, 1), flexible_since=0):
        cluster_id: Annotated[str | None, Field(STRING, "None: do not check it", nullable=True)] = None
        voter_id: Annotated[int, Field(INT32, "who is asked", since=1, droppable=True)] = -1

Instances are immutable and compare by value. Decoding gives tuples for arrays, so give tuples too where
you compare; encoding takes any sequence. Ids (UUID) are 16 raw bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    TypeAlias,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value with the same number of bytes in every version; `code` is its letter in the struct module."""

    name: str
    code: str
    size: int


@dataclass(frozen=True, slots=True)
class Sized:
    """Bytes behind their length: uvarint(length + 1) where flexible, else an integer of `length_size` bytes."""

    name: str
    length_size: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class ARRAY:
    """A count, then that many elements. Arrays of arrays and arrays with null elements do not exist."""

    element: WireType


WireType: TypeAlias = "Fixed | Sized | ARRAY | type[Part]"

BOOL: Final = Fixed("bool", "?", 1)
INT8: Final = Fixed("int8", "b", 1)
INT16: Final = Fixed("int16", "h", 2)
UINT16: Final = Fixed("uint16", "H", 2)
INT32: Final = Fixed("int32", "i", 4)
UINT32: Final = Fixed("uint32", "I", 4)
INT64: Final = Fixed("int64", "q", 8)
FLOAT64: Final = Fixed("float64", "d", 8)
UUID: Final = Fixed("uuid", "16s", 16)
STRING: Final = Sized("string", 2, 0x7FFF)  # Kafka keeps the old limit where the length has more room, too
BYTES: Final = Sized("bytes", 4, 0x7FFFFFFF)
RECORDS: Final = Sized("records", 4, 0x7FFFFFFF)  # whole record batches, opened by `batch`


@dataclass(frozen=True, slots=True)
class Field:
    """What one field means and how it travels; see the module's table."""

    type: WireType
    about: str
    since: int = 0
    until: int | None = None
    nullable: bool | int = False
    tag: int | None = None
    droppable: bool = False

    def exists_in(self, version: int) -> bool:
        return self.since <= version and (self.until is None or version <= self.until)

    def may_be_null_in(self, version: int) -> bool:
        if isinstance(self.nullable, bool):
            return self.nullable
        return version >= self.nullable


@dataclass(frozen=True, slots=True)
class Declaration:
    """A message as a whole. `api_key` is the record's type id for metadata records, and None where nothing is."""

    name: str
    api_key: int | None
    lowest: int
    highest: int
    flexible_since: int | None

    def has(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since


@dataclass(frozen=True, slots=True)
class Slot:
    """A field in its place: the attribute it is read from and the default it has there."""

    name: str
    field: Field
    default: Any


@dataclass_transform()
class _Declared(msgspec.StructMeta):
    """Makes each class an immutable msgspec struct and keeps what the class line says.

    gc=False: messages are trees of plain values, so the cycle collector need not visit a million of them.
    """

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        api_key: int | None = None,
        versions: tuple[int, int] | None = None,
        flexible_since: int | None = None,
    ) -> Any:
        if versions is not None:
            namespace["__wire__"] = Declaration(name, api_key, *versions, flexible_since)
        return super().__new__(mcs, name, bases, namespace, frozen=True, gc=False)


class Part(msgspec.Struct, metaclass=_Declared):
    """A struct inside a message; the message's version is its version."""


class Message(Part):
    """Something that is sent or stored by itself: a request, a response, a record."""

    __wire__: ClassVar[Declaration]


class Encoded(Sequence[Any]):
    """Elements of an array of parts as their bytes, for those that stand in several messages: encoded once.

    parts: one by one, as `codec.encode_part` wrote them for the very message and version that they are put into.
    Nobody looks at them again when they are written; who is told what they say decodes the message.
    """

    def __init__(self, parts: Sequence[bytes]) -> None:
        self._count = len(parts)
        self.data = b"".join(parts)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int | slice) -> Any:
        raise TypeError("the elements are bytes already")


def declaration_of(message: type[Message] | Message) -> Declaration:
    return message.__wire__


@cache
def slots_of(part: type[Part]) -> tuple[Slot, ...]:
    """The fields of `part` in the order of their declaration, which is the order on the wire."""
    hints = get_type_hints(part, include_extras=True)
    return tuple(
        Slot(field.name, _field_in(part, field.name, hints[field.name]), field.default)
        for field in msgspec.structs.fields(part)
    )


def _field_in(part: type[Part], name: str, hint: Any) -> Field:
    assert get_origin(hint) is Annotated, f"{part.__name__}.{name} carries no Field"
    (field,) = (extra for extra in get_args(hint)[1:] if isinstance(extra, Field))
    return field


def present_in(version: int, part: type[Part]) -> tuple[list[Slot], list[Slot]]:
    """The slots that `version` has: first those in fixed order, then the tagged ones by ascending tag."""
    here = [slot for slot in slots_of(part) if slot.field.exists_in(version)]
    tagged = [slot for slot in here if slot.field.tag is not None]
    return [slot for slot in here if slot.field.tag is None], sorted(tagged, key=lambda slot: slot.field.tag or 0)


def smallest_size(wire_type: WireType, version: int, flexible: bool) -> int:
    """The fewest bytes that a value can take, which bounds how many can follow a count."""
    match wire_type:
        case Fixed():
            return wire_type.size
        case Sized():
            return 1 if flexible else wire_type.length_size
        case ARRAY():
            return 1 if flexible else 4
        case _:
            ordered, _tagged = present_in(version, wire_type)
            return sum(smallest_size(slot.field.type, version, flexible) for slot in ordered) + flexible
