"""A story: comments with the point, commands, and after each command what it printed when it was recorded.

In:   the text of a scenario file. Out: the same text with what the commands print now.
A line that begins with `> ` is a command, `#` begins a comment, any other line is recorded output. The first command
says which stage the story plays on: `quorum` (quorum.py) or `migration` (migration.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

COMMAND = "> "


class Stage(Protocol):
    """Carries out one command and returns the lines that it prints."""

    def do(self, words: list[str]) -> list[str]: ...


Stages = dict[str, Callable[[list[str]], tuple[Stage, list[str]]]]
"""By the first word of a story: a stage made of the other words of that line, and what making it prints."""


@dataclass(frozen=True)
class Mistake(Exception):
    """A story gives a command that its stage does not know, or in a form that it does not understand."""

    line: str


def play(text: str, stages: Stages) -> str:
    """The story as it would be recorded now."""
    return "\n".join(_lines(text, stages)) + "\n"


def _lines(text: str, stages: Stages) -> Iterator[str]:
    stage: Stage | None = None
    for line in text.splitlines():
        if not line or line.startswith("#"):
            yield line
        elif line.startswith(COMMAND):
            yield line
            words = line.removeprefix(COMMAND).split()
            try:
                if stage is None:
                    stage, printed = stages[words[0]](words[1:])
                else:
                    printed = stage.do(words)
            except (KeyError, ValueError, IndexError) as error:
                raise Mistake(f"{line}  ({error!r})") from error
            yield from printed
