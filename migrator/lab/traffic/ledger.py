"""The ledger: every promise that the brokers made, on disk before anybody asks for it.

In:   entries, from the threads of the traffic.
Out:  a file of lines, each one JSON array whose first element is the kind; the same entries read back.
Elsewhere: the judgement (outside_reader.py, which reads the file with its own few lines), figures (figures.py).
Rules: lines are only ever appended. A last line without its end was torn by a kill and is no entry; any other line
that cannot be read is Z2K-6014. Times are microseconds of the wall clock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from migrator.findings.laboratory import LEDGER_DAMAGED

FORMAT: Final = 1
NO_TRANSACTION: Final = -1
UNTOLD: Final = -1


class TransactionOutcome(StrEnum):
    """How a transaction ended. UNKNOWN: the commit was sent and never answered; it is all there or not at all."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    pass


class Began(_Entry, frozen=True, tag="begin"):
    """Always the first line. value_bytes: to what length values are filled up."""

    format: int
    run: str
    value_bytes: int
    at_us: int


class Acknowledged(_Entry, frozen=True, tag="ack"):
    """A record that a broker acknowledged.

    offset:      UNTOLD when the client library knows only that it is there: a retry whose first attempt had arrived.
    transaction: NO_TRANSACTION, or its promise only counts when that is committed.
    """

    topic: str
    partition: int
    offset: int
    key: str
    sequence: int
    transaction: int
    sent_us: int
    acknowledged_us: int


class Failed(_Entry, frozen=True, tag="fail"):
    """A record that was given up: nobody promised anything, and the application was told so."""

    topic: str
    partition: int
    key: str
    sequence: int
    transaction: int
    sent_us: int
    failed_us: int
    error: str


class TransactionEnded(_Entry, frozen=True, tag="txn"):
    """ending_us: when the producer asked for the commit or the abort."""

    transaction: int
    outcome: TransactionOutcome
    began_us: int
    ending_us: int
    ended_us: int


class GroupCommitted(_Entry, frozen=True, tag="commit"):
    """A committed offset that the group's coordinator acknowledged.

    one_at_a_time: the member asks for no other commit while one is under way. Of two under way the older one, when the
    client library repeats it, may be acknowledged last.
    """

    group: str
    topic: str
    partition: int
    offset: int
    one_at_a_time: bool
    at_us: int


class Marked(_Entry, frozen=True, tag="mark"):
    name: str
    at_us: int


class TopicAdded(_Entry, frozen=True, tag="add"):
    topic: str
    at_us: int


class TopicDropped(_Entry, frozen=True, tag="drop"):
    topic: str
    at_us: int


class RunEnded(_Entry, frozen=True, tag="end"):
    """Always the last line of a run that ended in order: nothing was outstanding, groups committed what they read."""

    at_us: int


Entry: TypeAlias = (
    Began | Acknowledged | Failed | TransactionEnded | GroupCommitted | Marked | TopicAdded | TopicDropped | RunEnded
)


class LedgerWriter:
    """Appends entries; any thread may. `flush` is called often (traffic/run.py), so a kill loses a moment at most."""

    def __init__(self, path: Path) -> None:
        self._encoder = msgspec.json.Encoder()
        self._lock = threading.Lock()
        self._file = path.open("ab")

    def write(self, *entries: Entry) -> None:
        lines = b"".join(self._encoder.encode(entry) + b"\n" for entry in entries)
        with self._lock:
            self._file.write(lines)

    def flush(self) -> None:
        with self._lock:
            self._file.flush()

    def close(self) -> None:
        with self._lock:
            self._file.close()


def read_ledger(path: Path) -> Iterator[Entry]:
    """The entries in the order of writing, also while somebody writes. Raises Z2K-6014."""
    decoder = msgspec.json.Decoder[Entry](Entry)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield decoder.decode(line)
            except msgspec.DecodeError as error:
                raise LEDGER_DAMAGED.error(file=path, line=number, reason=error) from error
