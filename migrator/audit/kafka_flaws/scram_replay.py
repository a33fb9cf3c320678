"""Which SCRAM credentials a node of Kafka may lose when it replays a log at its start (K-28).

In:   records in log order, and where the snapshot is that the node begins with.
Out:  for each mechanism, the users whose credentials it may not know afterwards.
Why:  Kafka's loader collects what it reads into one delta until a transaction begins. While it applies that, it takes
the mechanism's whole map away as soon as a removal leaves nothing in it, and what it puts there afterwards is lost; in
which order it goes through the users depends on their hashes. A controller writes such an image into its next snapshot,
and then the credentials are gone for good. So it is told wherever some order loses something.
Source: `ScramDelta.apply`, `MetadataBatchLoader` of Kafka 3.5.2 to 4.4.0, each tried (findings/kafka_scram_removal.sh).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from migrator.wire.messages.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from migrator.wire.schema import Message

SCRAM_KEYS: Final = frozenset({11, 22, 23, 25})
"""Api keys of the records that count here, the second byte of a record's value."""

Credential = tuple[int, str]
"""Mechanism and user."""


class ScramReplay:
    """Follows one start of one node, which begins with nothing, or with a snapshot (`begin_here`).

    known: what it begins with.
    """

    def __init__(self, known: Iterable[Credential] = ()) -> None:
        self._known = set(known)
        self._set: set[Credential] = set()
        self._removed: set[Credential] = set()
        self._lost: set[Credential] = set()

    def take(self, record: Message) -> None:
        match record:
            case UserScramCredentialRecord():
                self._set.add((record.mechanism, record.name))
                self._removed.discard((record.mechanism, record.name))
            case RemoveUserScramCredentialRecord():
                self._removed.add((record.mechanism, record.name))
                self._set.discard((record.mechanism, record.name))
            case BeginTransactionRecord():
                self._finish()
            case AbortTransactionRecord():  # the delta of a transaction is thrown away
                self._set, self._removed = set(), set()

    def begin_here(self) -> None:
        """A snapshot stands for all that was taken: a snapshot has no removals, and is replayed rightly."""
        self._finish()
        self._lost = set()

    def lost(self) -> dict[int, list[str]]:
        """Tell whose credentials a node would not know that starts now, by mechanism. More may follow in this delta."""
        found: dict[int, list[str]] = {}
        for mechanism, user in sorted(self._lost_so_far()):
            found.setdefault(mechanism, []).append(user)
        return found

    def _lost_so_far(self) -> set[Credential]:
        stay = {mechanism for mechanism, _ in self._known - self._lost - self._removed}
        emptied = {mechanism for mechanism, _ in self._removed} - stay
        return (self._lost - self._set - self._removed) | {each for each in self._set if each[0] in emptied}

    def _finish(self) -> None:
        """One delta is over."""
        self._lost = self._lost_so_far()
        self._known = (self._known | self._set) - self._removed
        self._set, self._removed = set(), set()
