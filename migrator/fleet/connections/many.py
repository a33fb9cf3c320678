"""Many files and directories of one host in one command, each with its own checksum.

In:   paths, and what the act `read_many` of a template printed. Out: by path, what is there or why there is nothing.
Elsewhere: running the command (exec_actuator.py), single files (transfer.py), what it looks like (docker/actuators/).
Rules: the command gets `{trailer}`, a word, and on its standard input one path per line. For each it prints a line
`WORD file SIZE SHA256` or `WORD names SIZE SHA256`, so many bytes and a newline; or `WORD absent`, or `WORD refused`.
What did not arrive whole is no answer. A template without the act reads one file after the other, as before.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, runtime_checkable

from migrator.findings.finding import FindingError
from migrator.fleet.actuator import Actuator
from migrator.fleet.transfer import TRAILER

READ_MANY: Final = "read_many"
_HEADER: Final = re.compile(rb"(file|names) ([0-9]{1,12}) ([0-9a-f]{64})\n|(absent|refused)\n")


@dataclass(frozen=True, slots=True)
class Content:
    """Of a file. bytes_: not in its text, since they may hold secrets."""

    bytes_: bytes

    def __repr__(self) -> str:
        return f"Content({len(self.bytes_)} bytes)"


@dataclass(frozen=True, slots=True)
class Names:
    """Of a directory."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Nothing:
    """absent: there is no such file; else this login may not read it."""

    absent: bool


Found: TypeAlias = Content | Names | Nothing


Ahead: TypeAlias = Mapping[str, Found | FindingError]
"""By path, what an actuator knows already."""


@runtime_checkable
class ReadsMany(Actuator, Protocol):
    """An actuator that may have a command for it."""

    def reading_ahead(self, paths: Sequence[str]) -> Actuator:
        """Blocks on the host. Itself, where it has no such command."""
        ...


def printed_of(printed: bytes, paths: Sequence[str]) -> dict[str, Found]:
    """By path, of what arrived whole. The rest is missing."""
    found: dict[str, Found] = {}
    at, word = 0, f"{TRAILER} ".encode()
    for path in paths:
        header = _HEADER.match(printed, at + len(word)) if printed.startswith(word, at) else None
        if header is None:
            return found
        at = header.end()
        if header[4] is not None:
            found[path] = Nothing(header[4] == b"absent")
            continue
        content = printed[at : at + int(header[2])]
        at += int(header[2]) + 1
        if printed[at - 1 : at] != b"\n":
            return found
        if hashlib.sha256(content).hexdigest().encode() == header[3]:
            found[path] = Content(content) if header[1] == b"file" else Names(names_of(content))
    return found


def names_of(listing: bytes) -> tuple[str, ...]:
    return tuple(sorted(name for name in listing.decode(errors="surrogateescape").split("\n") if name))


def read_ahead(actuator: Actuator, paths: Sequence[str]) -> Actuator:
    """The same actuator, which has read these files and directories in one command, where its template has one.

    Blocks on the host. It is for one step of work that only reads: make a new one for the next.
    """
    wanted = tuple(dict.fromkeys(path for path in paths if "\n" not in path))
    return actuator.reading_ahead(wanted) if isinstance(actuator, ReadsMany) and len(wanted) > 1 else actuator
