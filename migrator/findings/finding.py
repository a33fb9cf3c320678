"""A finding: one kind of trouble with its code; an occurrence of it; and the one exception that carries it.

In:   nothing; every package of ours imports this one.
Out:  `Finding` (what we know about a kind of trouble), `Occurrence` (one time it happened, with values) and
      `FindingError` (an occurrence on its way up).
Elsewhere: the findings themselves, by the range of their codes, in the modules beside this one; all of them
together (catalogue.py); the page of each code (`runbooks/<code>.md`); which cases a check covers (`docs/cases.md`).
Rules: a code is given once and never reused; `says` names the values, `means` and `remedy` stand without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from os import strerror
from typing import Any


class Severity(StrEnum):
    """What a finding does to a gate: BLOCKS closes it, WARNS is shown beside it."""

    BLOCKS = "blocks"
    WARNS = "warns"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One time a finding was made: which, and the values that `says` names.

    values: what happened here; paths, ids and versions are kept whole, never cut off.
    """

    finding: Finding
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code(self) -> str:
        return self.finding.code

    @property
    def text(self) -> str:
        return self.finding.says.format(**{name: _shown(value) for name, value in self.values.items()})

    @property
    def in_full(self) -> str:
        """The code, what happened, and what to do, for somebody who sees one line and no page."""
        return f"{self.code} {self.text} {self.finding.remedy}"

    def as_json(self) -> dict[str, Any]:
        return {
            "code": self.finding.code,
            "severity": self.finding.severity.value,
            "says": self.text,
            "means": self.finding.means,
            "remedy": self.finding.remedy,
            "values": {name: _plain(value) for name, value in self.values.items()},
            "runbook": f"runbooks/{self.finding.code}.md",
        }


class FindingError(Exception):
    """The one exception of expected trouble; `occurrence` says which, and with what values."""

    def __init__(self, occurrence: Occurrence) -> None:
        super().__init__(f"{occurrence.code} {occurrence.text}")
        self.occurrence = occurrence

    @property
    def code(self) -> str:
        return self.occurrence.code


GIVEN: dict[str, Finding] = {}
"""What was declared so far, by code."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of trouble: its code, what happened, what that means, and what to do about it."""

    code: str
    says: str
    means: str
    remedy: str
    severity: Severity = Severity.BLOCKS
    cases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.code not in GIVEN, f"{self.code} was given before"
        GIVEN[self.code] = self

    def found(self, **values: Any) -> Occurrence:
        return Occurrence(self, values)

    def error(self, **values: Any) -> FindingError:
        return FindingError(self.found(**values))


def words_of(error: BaseException) -> str:
    """An exception as a person says it: what the system calls it and of which file, not how Python writes it.

    A fault of ours keeps the name of its class, by which it is found.
    """
    match error:
        case FindingError():
            return str(error)
        case EOFError():
            return "the connection was closed"
        case OSError(errno=int(number), strerror=str(said), filename=where):
            words = strerror(number) if number > 0 else said  # asyncio's `strerror` has a tuple in it
            return words if where is None else f"{where}: {words}"
        case TimeoutError():
            return str(error) or "no answer in time"
        case OSError() | ValueError():
            return str(error) or type(error).__name__
        case _:
            return f"{type(error).__name__}: {error}".removesuffix(": ")


def _shown(value: Any) -> Any:
    """A value as a sentence can carry it: words without Python's quotes, exceptions in words. Ids keep brackets."""
    match value:
        case BaseException():
            return words_of(value)
        case StrEnum():
            return value.value
        case Mapping():
            return ", ".join(f"{_shown(key)}: {_shown(item)}" for key, item in value.items())
        case set() | frozenset():
            return _shown(sorted(value, key=str))
        case list() | tuple() if not all(isinstance(item, int) for item in value):
            return ", ".join(str(_shown(item)) for item in value)
        case tuple():
            return list(value)
        case _:
            return value


def _plain(value: Any) -> Any:
    """A value as JSON can carry it: sets and tuples become lists, unknown things their text."""
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(_plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value)
