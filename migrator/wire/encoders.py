"""Writes the source of one encoder: one message class at one version.

In:   a declared message class and a version.
Out:  a `GeneratedSource` with `encode(message, out)`, which appends the message's bytes to a bytearray.
Elsewhere: compiling and keeping it (`generate`), what it calls (`packing`), naming a bad value (`explain`).

The generated code trusts the types and checks only what `struct` and `bytes` would let pass: id lengths, string
lengths, values that the version has no field for. Everything else fails inside those calls and is then explained.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from migrator.findings.quorum import UNSUPPORTED_IN_VERSION
from migrator.wire.packing import (
    ONE_BYTE_LENGTHS,
    SHORT,
    ShapePackers,
    legacy_length,
    refuse_id,
    refuse_text,
    wide_length,
)
from migrator.wire.primitives import encode_uvarint
from migrator.wire.schema import (
    ARRAY,
    UUID,
    Encoded,
    Fixed,
    Message,
    Part,
    Sized,
    Slot,
    WireType,
    declaration_of,
    present_in,
    slots_of,
)
from migrator.wire.source import GeneratedSource


def encoder_source(message: type[Message], version: int, part: type[Part] | None = None) -> GeneratedSource:
    """The source of `encode(message, out)`. Raises Z2K-3002 and whatever `explain` makes readable.

    part: what is encoded, if it is not the message but a part of it.
    """
    declared = declaration_of(message)
    source = GeneratedSource(f"{declared.name} version {version}, encoder")
    writer = _EncoderWriter(source, declared.name, version, declared.is_flexible(version))
    with source.block("def encode(message, out):"):
        writer.part(message if part is None else part, "message", "")
    return source


class _EncoderWriter:
    def __init__(self, source: GeneratedSource, message: str, version: int, flexible: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible
        source.namespace.update(
            SHORT=SHORT,
            Encoded=Encoded,
            encode_uvarint=encode_uvarint,
            wide_length=wide_length,
            legacy_length=legacy_length,
            refuse_id=refuse_id,
            refuse_text=refuse_text,
            refuse_loss=_refuse_loss(message, version),
        )

    def part(self, part: type[Part], subject: str, path: str, out: str = "out") -> None:
        """Lines that append the part held by the variable `subject`."""
        self._refuse_lost_values(part, subject, path)
        ordered, tagged = present_in(self._version, part)
        run: list[Slot] = []
        for slot in ordered:
            if self._packs(slot):
                run.append(slot)
                continue
            self._run(run, subject, out)
            run = []
            value = self._source.fresh(slot.name)
            self._source.line(f"{value} = {subject}.{slot.name}")
            self._value(slot, value, f"{path}{slot.name}", out)
        closed = self._flexible and not tagged
        self._run(run, subject, out, closed=closed)
        if closed and not run:
            self._source.line(f"{out}.append(0)")
        if tagged:
            self._tagged_section(tagged, subject, path, out)

    def _refuse_lost_values(self, part: type[Part], subject: str, path: str) -> None:
        for slot in slots_of(part):
            if not slot.field.exists_in(self._version) and not slot.field.droppable:
                value = f"{subject}.{slot.name}"
                with self._source.block(f"if {self._differs(slot, value)}:"):
                    self._source.line(f"refuse_loss({path + slot.name!r}, {value})")

    def _differs(self, slot: Slot, value: str) -> str:
        """The condition that a field does not hold its default. Any empty sequence is the default ()."""
        if slot.default is None:
            return f"{value} is not None"
        if isinstance(slot.field.type, ARRAY):
            return f"({value} is None or len({value}) > 0)" if slot.field.nullable else f"len({value}) > 0"
        return f"{value} != {self._source.literal(slot.default)}"

    # --- fields of fixed size, and arrays of them: one call of struct per run --------------------------------

    def _packs(self, slot: Slot) -> bool:
        match slot.field.type:
            case Fixed():
                return True
            case ARRAY(Fixed()):
                return not slot.field.may_be_null_in(self._version)
            case _:
                return False

    def _run(self, run: Sequence[Slot], subject: str, out: str, *, closed: bool = False) -> None:
        if not run:
            return
        lengths = []
        values = []
        for slot in run:
            value = f"{subject}.{slot.name}"
            if isinstance(slot.field.type, ARRAY):
                array = self._source.fresh(slot.name)
                self._source.line(f"{array} = {value}")
                self._check_ids(slot.field.type, array)
                lengths.append(f"len({array})")
                values += [self._count_of(array), f"*{array}"]
            else:
                self._check_ids(slot.field.type, value)
                values.append(value)
        types = [slot.field.type for slot in run if isinstance(slot.field.type, (Fixed, ARRAY))]
        self._source.line(f"{out} += {self._packer(types, lengths, closed=closed)}({', '.join(values)})")

    def _packer(self, types: Sequence[Fixed | ARRAY], lengths: Sequence[str], *, closed: bool) -> str:
        if lengths:
            shapes = self._source.bind("SHAPES", ShapePackers(types, flexible=self._flexible, closed=closed))
            return f"{shapes}[{', '.join(lengths)}]"
        codes = "".join(piece.code for piece in types if isinstance(piece, Fixed))
        return self._source.bind("PACK", struct.Struct(f">{codes}{'x' if closed else ''}").pack)

    def _count_of(self, array: str) -> str:
        return f"len({array}) + 1" if self._flexible else f"len({array})"

    def _check_ids(self, wire_type: WireType, value: str) -> None:
        """struct cuts or pads ids of another length without a word, so the length is checked here."""
        if wire_type is UUID:
            self._source.line(f"if len({value}) != 16: refuse_id()")
        elif isinstance(wire_type, ARRAY) and wire_type.element is UUID:
            with self._source.block(f"for id in {value}:"):
                self._source.line("if len(id) != 16: refuse_id()")

    # --- everything else ------------------------------------------------------------------------------------

    def _value(self, slot: Slot, value: str, path: str, out: str) -> None:
        if not slot.field.may_be_null_in(self._version):
            self._present(slot.field.type, value, path, out)
            return
        with self._source.block(f"if {value} is None:"):
            self._source.line(f"{out} += {self._null(slot.field.type)!r}")
        with self._source.block("else:"):
            self._present(slot.field.type, value, path, out)

    def _null(self, wire_type: WireType) -> bytes:
        if self._flexible:
            return b"\x00"
        return b"\xff" * (wire_type.length_size if isinstance(wire_type, Sized) else 4)

    def _present(self, wire_type: WireType, value: str, path: str, out: str) -> None:
        match wire_type:
            case Fixed():
                self._check_ids(wire_type, value)
                self._source.line(f"{out} += {self._packer([wire_type], [], closed=False)}({value})")
            case Sized():
                self._sized(wire_type, value, out)
            case ARRAY(Fixed()):
                self._check_ids(wire_type, value)
                packer = self._packer([wire_type], [f"len({value})"], closed=False)
                self._source.line(f"{out} += {packer}({self._count_of(value)}, *{value})")
            case ARRAY():
                self._array(wire_type, value, path, out)
            case _:
                self.part(wire_type, value, f"{path}.", out)

    def _sized(self, wire_type: Sized, value: str, out: str) -> None:
        line = self._source.line
        raw = value
        if wire_type.name == "string":
            raw = self._source.fresh("text")
            line(f"{raw} = {value}.encode()")
        if self._flexible:
            length = self._source.fresh("length")
            line(f"{length} = len({raw}) + 1")
            wide = f"wide_length({length}, {wire_type.bytes_max})"
            line(f"{out} += SHORT[{length}] if {length} < {ONE_BYTE_LENGTHS} else {wide}")
        else:
            line(f"{out} += legacy_length(len({raw}), {wire_type.length_size}, {wire_type.bytes_max})")
        line(f"{out} += {raw}")

    def _array(self, array: ARRAY, value: str, path: str, out: str) -> None:
        if isinstance(array.element, Sized):
            self._source.line(f"if isinstance({value}, str): refuse_text()")
        count = self._source.fresh("count")
        self._source.line(f"{count} = {self._count_of(value)}")
        if self._flexible:
            self._source.line(f"{out} += SHORT[{count}] if {count} < {ONE_BYTE_LENGTHS} else encode_uvarint({count})")
        else:
            self._source.line(f"{out} += {count}.to_bytes(4, 'big')")
        element = self._source.fresh("element")
        if not isinstance(array.element, type):
            self._elements(array, element, value, path, out)
            return
        with self._source.block(f"if type({value}) is Encoded:"):
            self._source.line(f"{out} += {value}.data")
        with self._source.block("else:"):
            self._elements(array, element, value, path, out)

    def _elements(self, array: ARRAY, element: str, value: str, path: str, out: str) -> None:
        with self._source.block(f"for {element} in {value}:"):
            self._present(array.element, element, path, out)

    def _tagged_section(self, tagged: Sequence[Slot], subject: str, path: str, out: str) -> None:
        """A tagged field is written only where it differs from its default; its size comes before it."""
        written = [self._source.fresh(f"{slot.name}_written") for slot in tagged]
        for flag, slot in zip(written, tagged, strict=True):
            self._source.line(f"{flag} = {self._differs(slot, f'{subject}.{slot.name}')}")
        self._source.line(f"{out}.append({' + '.join(written)})")
        for flag, slot in zip(written, tagged, strict=True):
            with self._source.block(f"if {flag}:"):
                body = self._source.fresh("body")
                self._source.line(f"{body} = bytearray()")
                self._value(slot, f"{subject}.{slot.name}", f"{path}{slot.name}", body)
                self._source.line(f"{out} += {encode_uvarint(slot.field.tag or 0)!r}")
                self._source.line(f"{out} += encode_uvarint(len({body}))")
                self._source.line(f"{out} += {body}")


def _refuse_loss(message: str, version: int) -> Any:
    def refuse_loss(field: str, value: Any) -> None:
        raise UNSUPPORTED_IN_VERSION.error(message=message, version=version, field=field, value=value)

    return refuse_loss
