"""A Java properties file as a document: what it says, and how it is written, line by line.

In:   the bytes of a file. Out: a `Document`; changed ones keep every line that was not changed.
Elsewhere: which keys change (render.py).
Errors: Z2K-7030 for what Java refuses as well.
Rules: bytes are read as Latin-1, as Java does, and come out as they went in. Of a key that occurs twice the last one
counts. Kafka trims values; so does `value`. A placeholder of `config.providers` is text like any other.
Source: java.util.Properties.load; compared with Java by tests/e2e/test_rendered_files.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import javaproperties

from migrator.findings.finding import words_of
from migrator.findings.fleet import PROPERTIES_UNREADABLE
from migrator.model.hidden_keys import is_hidden, is_hidden_comment

HIDDEN: Final = "(hidden)"
FILE_BYTES_MAX: Final = 1 << 20
"""Larger than any configuration; a log directory named by mistake is not read whole."""
_PLACEHOLDER: Final = re.compile(r"\$\{[^}]*:[^}]*\}")
_READ_IN_TWO_WAYS: Final = re.compile(rb"(?:^|[\r\n])[ \t\f]*(?:\\(?:\r\n|\r|\n)[ \t\f]*)+[#!]")
_SHORT: Final = {"\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


@dataclass(frozen=True, slots=True)
class Line:
    """One logical line with everything that belongs to it. key: None for a comment or a blank line.

    source: as written, with continuations and the line's end.
    """

    source: str
    key: str | None = None
    value: str = ""


@dataclass(frozen=True)
class Document:
    """name: the file, for messages."""

    name: str
    lines: tuple[Line, ...] = field(repr=False)

    @cached_property
    def values(self) -> Mapping[str, str]:
        """Of each key its last value, trimmed."""
        return {line.key: line.value.strip() for line in self.lines if line.key is not None}

    @property
    def content(self) -> bytes:
        return "".join(line.source for line in self.lines).encode("latin-1")

    def value(self, key: str) -> str | None:
        return self.values.get(key)

    def repeated(self) -> Mapping[str, int]:
        """Keys that occur more than once, and how often."""
        counts = Counter(line.key for line in self.lines if line.key is not None)
        return {key: times for key, times in counts.items() if times > 1}

    def without(self, is_meant: Callable[[str], bool]) -> Document:
        """All but the keys that are meant."""
        return Document(self.name, tuple(line for line in self.lines if line.key is None or not is_meant(line.key)))

    def with_values(self, values: Mapping[str, str]) -> Document:
        """Each key with this value: in place of its last occurrence, else at the end. Equal values keep their line."""
        document = self
        for key, value in values.items():
            document = document._with_value(key, value)
        return document

    def _with_value(self, key: str, value: str) -> Document:
        places = [place for place, line in enumerate(self.lines) if line.key == key]
        if not places:
            return Document(self.name, (*self._closed(), self._line(key, value)))
        last = self.lines[places[-1]]
        line = last if last.value.strip() == value else self._line(key, value)
        kept = (
            line if place == places[-1] else each
            for place, each in enumerate(self.lines)
            if place == places[-1] or each.key != key
        )
        return Document(self.name, tuple(kept))

    def renamed(self, old: str, new: str) -> Document:
        """The line of `old` says `new`, at the same place; nothing else moves."""
        return Document(
            self.name,
            tuple(self._line(new, line.value.strip()) if line.key == old else line for line in self.lines),
        )

    def _line(self, key: str, value: str) -> Line:
        return Line(f"{_escaped_key(key)}={_escaped_value(value)}{self._end}", key, value)

    @property
    def _end(self) -> str:
        """How lines of this file end."""
        return "\r\n" if self.lines and self.lines[0].source.endswith("\r\n") else "\n"

    def _closed(self) -> tuple[Line, ...]:
        """The lines, the last one with an end of its own, so that another one can follow."""
        if not self.lines or (self.lines[-1].source.endswith(("\n", "\r")) and not _goes_on(self.lines[-1].source)):
            return self.lines
        last = self.lines[-1]
        return (*self.lines[:-1], Line(_without_continuation(last.source) + self._end, last.key, last.value))

    def shown(self) -> list[str]:
        """For people: one text per line, values hidden unless their key is known to be no secret."""
        return [_shown(line) for line in self.lines]


def parse_properties(content: bytes, name: str) -> Document:
    """Raises Z2K-7030 for a file that is too large, holds a NUL byte, or has an escape that Java refuses."""
    if len(content) > FILE_BYTES_MAX:
        raise PROPERTIES_UNREADABLE.error(file=name, reason=f"it has {len(content)} bytes, more than {FILE_BYTES_MAX}")
    if b"\0" in content:
        raise PROPERTIES_UNREADABLE.error(file=name, reason="it holds a byte 0, so it is no text")
    if _READ_IN_TWO_WAYS.search(content):
        reason = "a comment follows an empty line that is continued; versions of Java read it differently"
        raise PROPERTIES_UNREADABLE.error(file=name, reason=reason)
    try:
        return Document(name, tuple(map(_line_of, javaproperties.parse(content))))
    except ValueError as error:
        raise PROPERTIES_UNREADABLE.error(file=name, reason=words_of(error)) from error


def has_placeholder(value: str) -> bool:
    """Whether a config provider fills in a part of it when the node starts."""
    return _PLACEHOLDER.search(value) is not None


def names_in(value: str | None, separator: str = ",") -> tuple[str, ...]:
    """A list of Kafka's."""
    return tuple(name.strip() for name in (value or "").split(separator) if name.strip())


def joined(names: Iterable[str], separator: str = ",") -> str:
    return separator.join(names)


def _line_of(element: javaproperties.PropertiesElement) -> Line:
    if isinstance(element, javaproperties.KeyValue):
        return Line(element.source, element.key, element.value)
    return Line(element.source)


def _shown(line: Line) -> str:
    if line.key is not None:
        return f"{line.key}={HIDDEN if is_hidden(line.key) else line.value}"
    text = line.source.strip()
    return f"# {HIDDEN}" if is_hidden_comment(text) else text


def _goes_on(source: str) -> bool:
    """Whether the next line would belong to this one."""
    text = source.rstrip("\r\n")
    return not text.lstrip(" \t\f").startswith(("#", "!")) and (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _without_continuation(source: str) -> str:
    text = source.rstrip("\r\n")
    return text[:-1] if _goes_on(text) else text


def _escaped_value(text: str) -> str:
    """As java.util.Properties reads it again. Only a leading space would be lost."""
    escaped = "".join(map(_escaped, text))
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _escaped_key(key: str) -> str:
    escaped = "".join("\\" + each if each in "=: " else _escaped(each) for each in key)
    return "\\" + escaped if escaped.startswith(("#", "!")) else escaped


def _escaped(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if " " <= character <= "~" or "\xa0" <= character <= "\xff":
        return character
    if (short := _SHORT.get(character)) is not None:
        return short
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
