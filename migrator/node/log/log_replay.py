"""The replay of the log's bytes into an image: batches, transactions, records.

In:   bytes of whole batches in log order.
Out:  the image up to the last complete batch, and whether a metadata transaction is still open.
Elsewhere: what one record does (controller.replay), reading files (log_store.py).
Rules: records between Begin and End take effect together at End, or, at Abort, never. They are replayed as they come,
so that the end of a copy does not hold a follower up (a second and more with 300,000 partitions).
Source: Kafka 3.9 `MetadataBatchLoader`, `OffsetControlManager`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import structlog

from migrator.controller.decision import Record
from migrator.controller.eligibility import place_of, why_ineligible
from migrator.controller.removals import Removals
from migrator.controller.replay import replay
from migrator.findings.driver import INELIGIBLE_IN_LOG
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.quorum import DIRECTORY_UNUSABLE
from migrator.model.draft import Draft
from migrator.model.image import EMPTY, METADATA_VERSION, CommittedCopy, Image, Position, committed_copy
from migrator.node.log.storage import refuse_later_format
from migrator.raft.types import SnapshotId
from migrator.wire.batch import Batch, read_batches
from migrator.wire.messages.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
)
from migrator.wire.records import decode_record, decode_versioned_record
from migrator.wire.schema import Message

log = structlog.get_logger()


@dataclass(slots=True)
class Ineligible:
    """Records of the log that no correct controller writes (Z2K-2074). They are replayed as Kafka replays them.

    Those of a snapshot are not known: it has only what became of them.
    """

    count: int = 0
    first: tuple[int, str, str] | None = None
    """Offset, partition, reason."""

    def note(self, draft: Draft, record: Message, offset: int) -> None:
        """Note a record that is ineligible; called before it is replayed."""
        reason = why_ineligible(draft, record)
        if reason is None:
            return
        self.count += 1
        if self.first is None:
            self.first = offset, place_of(draft, record), reason
            log.error("log.ineligible_record", offset=offset, partition=self.first[1], reason=reason)

    @property
    def finding(self) -> Occurrence | None:
        if self.first is None:
            return None
        offset, partition, reason = self.first
        return INELIGIBLE_IN_LOG.found(count=self.count, offset=offset, partition=partition, reason=reason)


class LogReplay:
    """Applies batches one after the other; `image` is what they say so far, `end` the offset after the last one.

    image, end: where to begin, when records before `end` are in the image already.
    """

    def __init__(self, image: Image = EMPTY, end: int = 0, removals: Removals | None = None) -> None:
        self.image = image
        self.end = end
        self._begins_at = end
        self.settled_end = end
        """Up to here everything is in the image; behind it an open transaction may wait."""
        self.data_records = 0 if image.is_empty else 1
        self.removals = Removals() if removals is None else removals
        """What the log took away at some time, also before the snapshot that this began with."""
        self.ineligible = Ineligible()
        self.copied: CommittedCopy | None = None
        """Of a takeover that is not in dual-write yet; None too where a snapshot has it already."""
        self._transaction: _Transaction | None = None

    @property
    def transaction_open(self) -> bool:
        return self._transaction is not None

    def apply(self, data: bytes) -> None:
        """Apply all batches in `data`; one image per call, since nobody looks in between."""
        draft = Draft(self.image if self._transaction is None else self._transaction.image)
        position = self.image.position
        for batch in read_batches(data):
            if batch.last_offset < self._begins_at:
                continue  # in the image already
            draft = self._apply_batch(draft, batch)
            position = Position(batch.leader_epoch, batch.last_offset)
            self.end = batch.last_offset + 1
            if self._transaction is None:
                self.settled_end = self.end
        if self._transaction is None:
            self.image = draft.finish(position).after
            self.copied = committed_copy(self.copied, self.image, self.image)
        else:
            self._transaction.image = draft.finish(position).after
            self.image = msgspec.structs.replace(self.image, position=position)

    def _apply_batch(self, draft: Draft, batch: Batch) -> Draft:
        """Returns the draft to go on with: a transaction has one of its own."""
        for offset, value in enumerate(batch.values, batch.base_offset):
            self.data_records += 1
            record = decode_record(value)
            match record:
                case BeginTransactionRecord():
                    # A second Begin takes back what stood between, as an Abort does.
                    if self._transaction is None:
                        self.image = draft.finish(self.image.position).after
                    self._transaction = _Transaction(self.image, self.removals.copy())
                    draft = Draft(self.image)
                case AbortTransactionRecord():
                    if self._transaction is not None:
                        self._transaction = None
                        draft = Draft(self.image)
                case EndTransactionRecord():
                    if self._transaction is not None:
                        self.removals = self._transaction.committed_removals()
                        self._transaction = None
                        before, position = self.image, Position(batch.leader_epoch, batch.last_offset)
                        self.image = draft.finish(position).after
                        self.copied = committed_copy(self.copied, before, self.image)
                        draft = Draft(self.image)
                case _:
                    self._replay(draft, record, offset)
        return draft

    def _replay(self, draft: Draft, record: Message, offset: int) -> None:
        """What a transaction says is a copy of ZooKeeper."""
        if self._transaction is None:
            self.ineligible.note(draft, record, offset)
            _replay_noting(draft, record, self.removals)
        else:
            self._transaction.replay(draft, record)


@dataclass(slots=True)
class _Transaction:
    """What an open metadata transaction says so far: the image and the removals that there will be at its End.

    fault: of its first record that contradicts those before it. An Abort may still come, so it counts at the End.
    """

    image: Image
    removals: Removals
    fault: Exception | None = None

    def replay(self, draft: Draft, record: Message) -> None:
        if self.fault is None:
            try:
                _replay_noting(draft, record, self.removals)
            except Exception as error:
                self.fault = error

    def committed_removals(self) -> Removals:
        """Raises the fault, if there was one."""
        if self.fault is not None:
            raise self.fault
        return self.removals


def _replay_noting(draft: Draft, record: Message, removals: Removals) -> None:
    """Replay one record, and note what it takes away."""
    if isinstance(record, RemoveTopicRecord) and (name := draft.topic_name(record.topic_id)) is not None:
        removals.topic_gone(name, record.topic_id)
    if isinstance(record, PartitionChangeRecord) and record.replicas is not None:
        name = draft.topic_name(record.topic_id) or ""
        before = draft.partition(record.topic_id, record.partition_id).replicas
        removals.replicas_gone(name, record.partition_id, sorted(set(before) - set(record.replicas)))
    replay(draft, record)


def read_bootstrap(path: Path, *, log_is_empty: bool = True) -> list[Record]:
    """The records that the format tool left for an empty log, each with the version it was written in.

    A log that has records needs none of them, so the file may be missing there, as with stock. Raises Z2K-3012.
    """
    try:
        if not path.exists():
            if not log_is_empty:
                return []
            refuse_later_format(path.parent)
        data = path.read_bytes()
        return [decode_versioned_record(value) for batch in read_batches(data) for value in batch.values]
    except FindingError as error:
        if error.code == DIRECTORY_UNUSABLE.code:
            raise
        raise DIRECTORY_UNUSABLE.error(directory=str(path.parent), reason=f"{path.name}: {error}") from error
    except OSError as error:
        raise DIRECTORY_UNUSABLE.error(directory=str(path.parent), reason=f"{path.name}: {error}") from error


def bootstrap_level(bootstrap: list[Record]) -> int:
    """The metadata.version that these records begin with."""
    levels = [
        record.feature_level
        for record, _ in bootstrap
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION
    ]
    return levels[0] if levels else 1


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """The whole log of a node, replayed before it takes part: of use when all of it turns out to be committed.

    size: bytes of the log. generation: of the log view that it was made with; a cut makes it worthless.
    snapshot, begins_at, removals: what it began with, which is committed in any case; without a snapshot an empty
        image, 0 and nothing.
    """

    replay: LogReplay
    size: int
    snapshot: Image = EMPTY
    begins_at: int = 0
    removals: Removals = field(default_factory=Removals)
    generation: int = 0

    @property
    def end(self) -> int:
        return self.replay.end


def read_ahead(pieces: Iterable[bytes], begin: LogReplay | None = None) -> ReadAhead:
    """Replay pieces of a log, on any thread. begin: a snapshot's, where the log does not begin at 0."""
    loader = begin or LogReplay()
    snapshot, begins_at, removals = loader.image, loader.end, loader.removals.copy()
    size = 0
    for piece in pieces:
        if piece:
            loader.apply(piece)
            size += len(piece)
    return ReadAhead(loader, size, snapshot, begins_at, removals)


def read_snapshot(path: Path, snapshot: SnapshotId) -> LogReplay:
    """The image of a snapshot. Raises Z2K-3001 or Z2K-3013 when the file is damaged."""
    draft = Draft(EMPTY)
    removals = Removals()
    records = 0
    for batch in read_batches(path.read_bytes()):
        for value in batch.values:
            record = decode_record(value)
            replay(draft, record)
            if isinstance(record, NoOpRecord):
                removals.take(record)
            records += 1
    image = draft.finish(Position(snapshot.epoch, snapshot.end_offset - 1)).after
    beginning = LogReplay(image, snapshot.end_offset, removals)
    beginning.data_records = records
    return beginning
