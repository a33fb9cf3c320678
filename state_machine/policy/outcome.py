"""What a round of one migration came to: a value that is decided by, with a text that is only shown.

In:   nothing. Out: `Outcome`, one of five kinds, each with its text and the service's own findings behind it.
Rules: nobody reads a text to decide. `words` is made last, for the row, the page and the command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from migrator.findings.finding import Occurrence


class OutcomeKind(StrEnum):
    """The kind as it is stored, and as the API names it."""

    WAITING = "waiting"
    BLOCKED = "blocked"
    READY = "ready"
    DONE = "done"
    MOVING = "moving"


@dataclass(frozen=True, slots=True)
class Outcome:
    """text: a sentence without its kind."""

    text: str
    problems: tuple[Occurrence, ...] = ()
    kind: ClassVar[OutcomeKind]

    @property
    def words(self) -> str:
        """What people read: the kind, then the text."""
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True, slots=True)
class Waiting(Outcome):
    """It goes on by itself as soon as what the text names holds."""

    kind: ClassVar[OutcomeKind] = OutcomeKind.WAITING


@dataclass(frozen=True, slots=True)
class Blocked(Outcome):
    """A person has to set it going again."""

    kind: ClassVar[OutcomeKind] = OutcomeKind.BLOCKED


@dataclass(frozen=True, slots=True)
class Ready(Outcome):
    """A person may take the next step."""

    kind: ClassVar[OutcomeKind] = OutcomeKind.READY


@dataclass(frozen=True, slots=True)
class Finished(Outcome):
    """What the phase does by itself is done."""

    kind: ClassVar[OutcomeKind] = OutcomeKind.DONE


@dataclass(frozen=True, slots=True)
class Moving(Outcome):
    """Something goes on, and the text names it: what the driver does, which phase begins."""

    kind: ClassVar[OutcomeKind] = OutcomeKind.MOVING

    @property
    def words(self) -> str:
        """The text alone: it says what moves."""
        return self.text


SAID_OF_SEVERAL: Final = 3


def said_of_several(found: Sequence[Outcome]) -> Outcome:
    """Joins what is said of several nodes, in their order. One that is blocked blocks, and comes first, since a person
    has to see to it.
    """
    found = sorted(found, key=lambda each: not isinstance(each, Blocked))
    kind = Blocked if found and isinstance(found[0], Blocked) else Waiting
    said = [each.text if isinstance(each, kind) else each.words for each in found[:SAID_OF_SEVERAL]]
    said += [f"and {len(found) - SAID_OF_SEVERAL} more"] if len(found) > SAID_OF_SEVERAL else []
    problems: list[Occurrence] = []  # which may hold a dict, and so have no hash
    for each in found:
        problems += [problem for problem in each.problems if problem not in problems]
    return kind("; ".join(said), tuple(problems))
