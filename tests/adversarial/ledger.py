"""What clients were told about things that come and go, and what may be seen of them because of it.

In:   the beginning of every change and what was answered to it.
Out:  for each thing the values that it may have: one when the last change was acknowledged, several while one is on its
      way or when nobody knows how it ended.
A value is a number: partitions of a topic, 0 without it; 1 or 0 for an ACL.
Whatever is not acknowledged counts as unknown, refusals too: a broker passes a request on again when it hears nothing,
and then a refusal may be the second answer to something that was done. A thing with an unknown end is abandoned: the
request may still be on its way.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

ABSENT: Final = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """possible: what may be seen.   changes: how many were begun.   life: how many of them were creations."""

    possible: frozenset[int] = frozenset({ABSENT})
    changes: int = 0
    life: int = 0

    def __str__(self) -> str:
        return f"{' or '.join(map(str, sorted(self.possible)))} after {self.changes} changes"


@dataclass(slots=True)
class Ledger(Generic[K]):
    """Changes of one thing are made one after the other; whoever makes them sees to that."""

    entries: dict[K, Entry] = field(default_factory=dict)

    def value(self, key: K) -> int:
        """Only of a thing of which no change is on its way or unknown."""
        (value,) = self.entries.get(key, Entry()).possible
        return value

    def begin(self, key: K, target: int) -> None:
        before = self.entries.get(key, Entry())
        life = before.life + (before.possible == {ABSENT})
        self.entries[key] = Entry(before.possible | {target}, before.changes + 1, life)

    def acknowledge(self, key: K, target: int) -> None:
        before = self.entries[key]
        assert target in before.possible, f"{key}: {target} was never asked for"
        self.entries[key] = Entry(frozenset({target}), before.changes, before.life)

    def snapshot(self) -> dict[K, Entry]:
        return dict(self.entries)


def settled(before: Mapping[K, Entry], after: Mapping[K, Entry]) -> dict[K, Entry]:
    """Entries of which no change began between two snapshots: what was seen in between has to be possible.

    A change that was on its way at the first one may have ended; then what was possible before it ended counts.
    """
    return {key: entry for key, entry in before.items() if after[key].changes == entry.changes}


def wrong(settled_entries: Mapping[K, Entry], seen: Mapping[K, int]) -> list[tuple[K, int, Entry]]:
    """What was seen and cannot be: the thing, its value, and what is known of it."""
    return [
        (key, seen.get(key, ABSENT), entry)
        for key, entry in settled_entries.items()
        if seen.get(key, ABSENT) not in entry.possible
    ]
