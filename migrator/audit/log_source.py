"""The log's side of an audit: committed records of a metadata log directory.

In:   a metadata log directory.
Out:  records in log order with transactions resolved, and the position up to which they go.
Elsewhere: which batches there are (log_plan.py), the log of a quorum as files (migrator/node/observer), what records
add up to (normalise.py).
A directory is read as it is on disk, so of a quorum with several voters it may hold records that are not committed
yet, or lack some that are; of a cluster in dual-write it has to have all that ZooKeeper has (catching_up.py).
Source: KIP-866 and KIP-868, metadata transactions: what is inside one counts from its end on, or never.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from migrator.audit.log_plan import LogPlan, plan_log, read_split
from migrator.audit.log_plan import log_directory as log_directory
from migrator.findings.audit import AUDIT_CANNOT_READ, LOG_INCONSISTENT
from migrator.findings.finding import FindingError, words_of
from migrator.wire.batch import Batch
from migrator.wire.messages.metadata import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from migrator.wire.records import decode_record
from migrator.wire.schema import Message


class HeldPartitions(NamedTuple):
    """PartitionRecords of one topic, as an open transaction holds them: the partition, and what each says."""

    topic_id: bytes
    said: list[tuple[int, dict[str, Any]]]


Held = Message | HeldPartitions

MARKERS: Final = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


class CommittedRecords:
    """Resolves transactions: yields records outside of them at once, those inside at their end or never."""

    def __init__(self) -> None:
        self.at = -1
        """The offset from which on the record that was yielded last counts."""
        self.snapshot_offset = -1
        """Of the records that are taken, where they are of a snapshot: all count from the last offset in it."""
        self.offset = -1
        self.epoch = -1
        self._open: list[Held] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a transaction is."""
        return self._open is not None

    def counts_from(self, offset: int) -> int:
        """Return the offset from which a record at this one counts, if it is in no transaction."""
        return offset if self.snapshot_offset < 0 else self.snapshot_offset

    def take(self, batch: Batch) -> Iterator[Message]:
        for offset, record in records_of(batch):
            yield from self.take_one(offset, record)
        self.took(batch)

    def took(self, batch: Batch) -> None:
        """All of it was taken."""
        self.offset, self.epoch = batch.last_offset, batch.leader_epoch

    def hold(self, topic_id: bytes) -> list[tuple[int, dict[str, Any]]]:
        """Return what takes PartitionRecords of a topic into the transaction that is open: a copy is one, and most of
        it is these.
        """
        assert self._open is not None
        last = self._open[-1] if self._open else None
        if not isinstance(last, HeldPartitions) or last.topic_id != topic_id:
            last = HeldPartitions(topic_id, [])
            self._open.append(last)
        return last.said

    def take_one(self, offset: int, record: Message) -> Iterator[Any]:
        """Take one record, and yield what counts by now: records, and `HeldPartitions` for whoever held some."""
        self.at = self.counts_from(offset)
        if isinstance(record, MARKERS):
            yield from self._mark(record, offset)
        elif self._open is not None:
            self._open.append(record)
        else:
            yield record

    def _mark(self, marker: Message, offset: int) -> Iterable[Held]:
        _refuse_out_of_turn(type(marker).__name__, offset, is_open=self._open is not None)
        inside = self._open or []
        self._open = [] if isinstance(marker, BeginTransactionRecord) else None
        return inside if isinstance(marker, EndTransactionRecord) else ()


def records_of(batch: Batch) -> Iterator[tuple[int, Message]]:
    """Offset and record of a data batch; nothing of a control batch. A record that cannot be read is Z2K-5001."""
    for offset, value in enumerate(batch.values, batch.base_offset):
        yield offset, record_at(offset, value)


def record_at(offset: int, value: bytes) -> Message:
    """Decode a record. Raises Z2K-5001 with its offset."""
    try:
        return decode_record(value)
    except FindingError as error:
        raise AUDIT_CANNOT_READ.error(what=f"the record at offset {offset}", reason=words_of(error)) from error


class Marker(NamedTuple):
    """Where a transaction begins or ends; `type` is the name of the record."""

    offset: int
    type: str


class Dropped(NamedTuple):
    """Records that never count, both ends included. last: None while the transaction is open at the log's end."""

    first: int
    last: int | None


def dropped_ranges(markers: Iterable[Marker]) -> list[Dropped]:
    """What aborted transactions leave out, and one that is open. The same answer as `CommittedRecords` gives.

    markers: all of a log, in any order.
    """
    dropped: list[Dropped] = []
    begun: int | None = None
    for offset, kind in sorted(markers):
        _refuse_out_of_turn(kind, offset, is_open=begun is not None)
        if kind == AbortTransactionRecord.__name__ and begun is not None:
            dropped.append(Dropped(begun, offset))
        begun = offset if kind == BeginTransactionRecord.__name__ else None
    return dropped if begun is None else [*dropped, Dropped(begun, None)]


def _refuse_out_of_turn(kind: str, offset: int, *, is_open: bool) -> None:
    if is_open == (kind == BeginTransactionRecord.__name__):
        reason = "the transaction before it has no end" if is_open else "no transaction was begun"
        raise LOG_INCONSISTENT.error(record=f"{kind} at offset {offset}", reason=reason)


def read_directory(path: Path, into: CommittedRecords) -> Iterator[Message]:
    """Every record of a directory. A torn tail ends it (the writer may be alive); damage before it is Z2K-5001."""
    return read_planned(plan_log(path), into)


def read_planned(plan: LogPlan, into: CommittedRecords) -> Iterator[Message]:
    for batch in planned_batches(plan, into):
        yield from into.take(batch)


def planned_batches(plan: LogPlan, into: CommittedRecords) -> Iterator[Batch]:
    """The batches of a plan, each of which `into` has to take before the next one."""
    for split in plan.splits:
        into.snapshot_offset = split.snapshot_offset
        yield from read_split(split)
    into.offset, into.epoch = plan.offset, plan.epoch
