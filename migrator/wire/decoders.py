"""Writes the source of one decoder: one message class at one version.

In:   a declared message class and a version.
Out:  a `GeneratedSource` with `decode(buffer, position, end)`, which returns the message and the position behind it.
Elsewhere: compiling it and naming its errors (`generate`), what it calls (`packing`).

The bytes may come from anybody, so the generated code assumes nothing: a slice is taken only after its end was
compared with `end`, a count is compared with the bytes that its elements need before the first is read, and
`struct` refuses to read past the buffer. Positions only grow, so one comparison at the very end catches a fixed
field that began before `end` and ended behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import Final

from migrator.wire.packing import ONE_BYTE_LENGTHS, ArrayUnpackers, next_tag, refuse, skip_tags
from migrator.wire.primitives import decode_uvarint
from migrator.wire.schema import (
    ARRAY,
    Fixed,
    Message,
    Part,
    Sized,
    Slot,
    WireType,
    declaration_of,
    present_in,
    slots_of,
    smallest_size,
)
from migrator.wire.source import GeneratedSource

NOT_WANTED: Final = ""
"""In the place of a variable's name: a value that is stepped over, with the same look at its size."""


def decoder_source(
    message: type[Message], version: int, handed_on: str = "", wanted: Collection[str] = ()
) -> GeneratedSource:
    """The source of `decode(buffer, position, end)`; it raises what `generate` turns into Z2K-3001.

    handed_on: the array whose elements are given one by one to a fourth argument, `take`, and not kept.
    wanted: fields of these elements, by path from the message on; others are stepped over. Empty: all of them.
    The function hands its position to `located` when it fails, together with the error, whose traceback tells
    the line and so the field.
    """
    declared = declaration_of(message)
    source = GeneratedSource(f"{declared.name} version {version}, decoder")
    writer = _DecoderWriter(source, version, declared.is_flexible(version), handed_on, wanted)
    with source.block(f"def decode(buffer, position, end{', take' if handed_on else ''}):"):
        with source.block("try:"):
            writer.part(message, "message", "")
            source.line("if position > end: refuse('the bytes end inside it')")
            source.line("return message, position")
        with source.block("except FAILURES as error:"):
            source.line("raise located(error, position) from None")
    return source


class _DecoderWriter:
    def __init__(
        self, source: GeneratedSource, version: int, flexible: bool, handed_on: str, wanted: Collection[str]
    ) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible
        self._handed_on = handed_on
        self._wanted = wanted
        source.namespace.update(decode_uvarint=decode_uvarint, refuse=refuse, skip_tags=skip_tags, next_tag=next_tag)

    def part(self, part: type[Part], target: str, path: str) -> None:
        """Lines that read one part into the variable `target`."""
        ordered, tagged = present_in(self._version, part)
        values = {
            slot.name: self._source.fresh(slot.name)
            for slot in (*ordered, *tagged)
            if self._is_wanted(f"{path}{slot.name}")
        }
        run: list[tuple[str, Fixed]] = []
        for slot in ordered:
            value = values.get(slot.name, NOT_WANTED)
            if isinstance(slot.field.type, Fixed):
                run.append((value, slot.field.type))
                continue
            length = self._length_after(run, slot.field.type, f"{path}{slot.name}")
            self._value(slot, value, f"{path}{slot.name}", length)
            run = []
        if self._flexible:
            self._tagged_section(tagged, values, run, path)
        else:
            self._run(run, path)
        if target != NOT_WANTED:
            self._source.line(f"{target} = {self._construction(part, values)}")

    def _is_wanted(self, path: str) -> bool:
        """Whether this field is kept: it is asked for, or one inside of it, or the one that it is inside of."""
        if not self._wanted or not path.startswith(f"{self._handed_on}."):
            return True
        return any(f"{each}.".startswith(f"{path}.") or path.startswith(f"{each}.") for each in self._wanted)

    def _construction(self, part: type[Part], values: dict[str, str]) -> str:
        """The call that makes the part. By position, since that is fastest; absent fields at the end are left out."""
        slots = list(slots_of(part))
        while slots and slots[-1].name not in values:
            slots.pop()
        arguments = (values.get(slot.name) or self._source.literal(slot.default) for slot in slots)
        return f"{self._source.bind(part.__name__, part)}({', '.join(arguments)})"

    # --- runs of fixed fields, which take the length byte behind them along ---------------------------------

    def _run(self, run: Sequence[tuple[str, Fixed]], path: str, *, extra: tuple[str, str] | None = None) -> None:
        """Read adjacent fixed fields in one call; extra: one more (variable, struct code), such as a length."""
        names = [name for name, _type in run if name != NOT_WANTED]
        codes = ">" + "".join(f"{fixed.size}x" if name == NOT_WANTED else fixed.code for name, fixed in run)
        if extra is not None:
            names.append(extra[0])
            codes += extra[1]
        unpacker = struct.Struct(codes)
        if not names:
            if unpacker.size:
                self._source.line(f"position += {unpacker.size}")
            return
        unpack = self._source.bind("UNPACK", unpacker.unpack_from)
        self._source.line(f"{', '.join(names)}, = {unpack}(buffer, position)", path.rstrip("."))
        self._source.line(f"position += {unpacker.size}")

    def _length_after(self, run: Sequence[tuple[str, Fixed]], wire_type: WireType, path: str) -> str:
        """Read `run` and the length or count behind it; -1 stands for null. Parts and fixed fields have none: ""."""
        if isinstance(wire_type, (type, Fixed)):
            self._run(run, path)
            return ""
        length = self._source.fresh("length")
        if not self._flexible:
            code = {2: "h", 4: "i"}[wire_type.length_size if isinstance(wire_type, Sized) else 4]
            self._run(run, path, extra=(length, code))
            return length
        if run:
            self._run(run, path, extra=(length, "B"))
        else:
            self._source.line(f"{length} = buffer[position]", path)
            self._source.line("position += 1")
        with self._source.block(f"if {length} >= {ONE_BYTE_LENGTHS}:"):
            self._source.line(f"{length}, position = decode_uvarint(buffer, position - 1)", path)
        self._source.line(f"{length} -= 1")
        return length

    # --- values ---------------------------------------------------------------------------------------------

    def _value(self, slot: Slot, target: str, path: str, length: str) -> None:
        if not length:
            self._present(slot.field.type, target, path, length)
            return
        with self._source.block(f"if {length} < 0:"):
            if slot.field.may_be_null_in(self._version):
                self._source.line(f"if {length} < -1: refuse('the length is below -1')", path)
                if target != NOT_WANTED:
                    self._source.line(f"{target} = None")
            else:
                self._source.line("refuse('null is not allowed here')", path)
        with self._source.block("else:"):
            self._present(slot.field.type, target, path, length)

    def _present(self, wire_type: WireType, target: str, path: str, length: str) -> None:
        match wire_type:
            case Fixed():
                self._run([(target, wire_type)], path)
            case Sized():
                self._sized(wire_type, target, path, length)
            case ARRAY(Fixed()):
                self._fixed_array(wire_type, target, path, length)
            case ARRAY():
                self._array(wire_type, target, path, length)
            case _:
                self.part(wire_type, target, f"{path}.")

    def _sized(self, wire_type: Sized, target: str, path: str, length: str) -> None:
        line = self._source.line
        if wire_type.name == "string" and self._flexible:  # the old length cannot say more than the limit
            line(
                f"if {length} > {wire_type.bytes_max}: refuse('a string has at most {wire_type.bytes_max} bytes')", path
            )
        after = self._source.fresh("after")
        line(f"{after} = position + {length}")
        line(
            f"if {after} > end: refuse('it should have ' + str({length}) + ' bytes, but the bytes end before that')",
            path,
        )
        if target != NOT_WANTED:
            line(f"{target} = buffer[position:{after}]{'.decode()' if wire_type.name == 'string' else ''}", path)
        line(f"position = {after}")

    def _refuse_count(self, array: ARRAY, path: str, length: str) -> None:
        size = smallest_size(array.element, self._version, self._flexible)
        assert size > 0, path  # else a count alone could ask for any amount of memory
        self._source.line(
            f"if {length} * {size} > end - position: refuse(str({length}) + ' elements cannot be in the bytes left')",
            path,
        )

    def _fixed_array(self, array: ARRAY, target: str, path: str, length: str) -> None:
        self._refuse_count(array, path, length)
        assert isinstance(array.element, Fixed)
        if target != NOT_WANTED:
            unpackers = self._source.bind("UNPACK_ARRAY", ArrayUnpackers(array))
            self._source.line(f"{target} = {unpackers}[{length}](buffer, position)", path)
        self._source.line(f"position += {length} * {array.element.size}")

    def _array(self, array: ARRAY, target: str, path: str, length: str) -> None:
        self._refuse_count(array, path, length)
        elements, add, element = (self._source.fresh(stem) for stem in ("elements", "add", "element"))
        if path == self._handed_on:
            with self._source.block(f"for _ in range({length}):"):
                self._element(array.element, element, path)
                self._source.line(f"take({element})")
            self._source.line(f"{target} = ()")
            return
        if target == NOT_WANTED:
            with self._source.block(f"for _ in range({length}):"):
                self._element(array.element, NOT_WANTED, path)
            return
        self._source.line(f"{elements} = []")
        self._source.line(f"{add} = {elements}.append")
        with self._source.block(f"for _ in range({length}):"):
            self._element(array.element, element, path)
            self._source.line(f"{add}({element})")
        self._source.line(f"{target} = tuple({elements})")

    def _element(self, wire_type: WireType, target: str, path: str) -> None:
        length = self._length_after([], wire_type, path)
        if length:
            self._source.line(f"if {length} < 0: refuse('null is not allowed in this array')", path)
        self._present(wire_type, target, path, length)

    # --- the tagged section ---------------------------------------------------------------------------------

    def _tagged_section(
        self, tagged: Sequence[Slot], values: dict[str, str], run: Sequence[tuple[str, Fixed]], path: str
    ) -> None:
        """Read what is left of `run`, then the tags: known ones into their fields, others stepped over by size."""
        for slot in tagged:
            if slot.name in values:
                self._source.line(f"{values[slot.name]} = {self._source.literal(slot.default)}")
        count = self._source.fresh("tags")
        self._run(run, path, extra=(count, "B"))
        field = f"{path}tagged fields"
        if not tagged:
            self._source.line(f"if {count}: position = skip_tags(buffer, position - 1, end)", field)
            return
        with self._source.block(f"if {count}:"):
            self._known_tags(tagged, values, count, path)

    def _known_tags(self, tagged: Sequence[Slot], values: dict[str, str], count: str, path: str) -> None:
        line, block = self._source.line, self._source.block
        tag, after = self._source.fresh("tag"), self._source.fresh("after")
        field = f"{path}tagged fields"
        line(f"if {count} >= {ONE_BYTE_LENGTHS}: {count}, position = decode_uvarint(buffer, position - 1)", field)
        line(f"{tag} = -1")
        with block(f"for _ in range({count}):"):
            line(f"{tag}, position, {after} = next_tag(buffer, position, end, {tag})", field)
            for index, slot in enumerate(tagged):
                with block(f"{'el' if index else ''}if {tag} == {slot.field.tag}:"):
                    name = f"{path}{slot.name}"
                    value = values.get(slot.name, NOT_WANTED)
                    self._value(slot, value, name, self._length_after([], slot.field.type, name))
                    line(f"if position != {after}: refuse('its size does not fit its value')", name)
            line("else: position = " + after)
