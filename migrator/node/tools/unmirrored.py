"""What a metadata log on disk holds that ZooKeeper lacks.

In:   the position that `/migration` names, and metadata log directories of voters that do not run.
Out:  a `LogLook` per directory: how many records with a form in ZooKeeper come after that position.
Elsewhere: what follows from it (without_controllers.py); which value differs from which (`zk2kraft audit`).
Rules: every such record on the disk counts, also one that may never have been committed or whose transaction is open:
to ask once too often is no harm. A log that lacks the position at its epoch holds nothing committed after it.
`/migration` moves only with a write, so records without a form in ZooKeeper may follow it for ever.
Source: KIP-866; the matching of logs is Raft's (KIP-595).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from migrator.audit.log_plan import LogPlan, log_directory, plan_log, read_split
from migrator.audit.log_source import MARKERS, records_of
from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.finding import words_of
from migrator.model.diff import MIRRORED_CONFIGS
from migrator.model.image import Position
from migrator.model.values import MigrationState
from migrator.node.log.storage import LOG_NAME, DirectoryLock, MetaProperties, read_meta_properties
from migrator.wire.batch import Batch
from migrator.wire.messages.control_records import LeaderChangeMessage
from migrator.wire.messages.metadata import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    ZkMigrationStateRecord,
)
from migrator.wire.schema import Message

NEVER_MIRRORED: Final = (
    *MARKERS,
    NoOpRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    RegisterControllerRecord,
    FeatureLevelRecord,
    ZkMigrationStateRecord,
)
"""ZooKeeper has no form of them, and the end of a log is full of them. Leaders that a fencing moves are in others."""


@dataclass(frozen=True, slots=True)
class LogLook:
    """voters: of the newest leader in it. end: its last record. holds: whether it has what `/migration` names.

    lacking: how many records ZooKeeper lacks, the last of them at offset `last`. unseen: how many more offsets are in a
    snapshot only, where nobody can tell what they were. final_at: the offset from which on the log says that the
    migration is finalized, -1 where it does not say so; committed or not.
    """

    directory: Path
    node: int
    voters: frozenset[int]
    end: Position
    holds: bool
    lacking: int
    unseen: int
    last: int
    final_at: int = -1

    @property
    def is_ahead(self) -> bool:
        return self.holds and self.lacking + self.unseen > 0

    @property
    def records(self) -> str:
        """How many ZooKeeper lacks, in words."""
        one_by_one = [f"{self.lacking} records"] if self.lacking else []
        hidden = [f"up to {self.unseen} records that are in a snapshot only"] if self.unseen else []
        return " and ".join([*one_by_one, *hidden])


def home_of(directory: Path) -> Path:
    """Where `meta.properties` and the lock are: `directory`, or the one above a log itself. Raises Z2K-5001."""
    log = log_directory(directory)
    return log.parent if log.name == LOG_NAME else log


def identity(directory: Path) -> MetaProperties:
    """Whose log it is. Raises Z2K-3012 when nothing says so, Z2K-3013 while a controller runs on it."""
    place = home_of(directory)
    meta = read_meta_properties(place)
    if (place / ".lock").exists():  # made here, it could belong to a user whom the controller does not run as
        _refuse_running(place)
    return meta


def look_into(directory: Path, node: int, mirrored: Position) -> LogLook:
    """Raises Z2K-5001 when the log cannot be read."""
    plan = plan_log(directory, since=mirrored.offset)
    epoch_there, lacking, last = mirrored.epoch, 0, mirrored.offset
    voters: frozenset[int] = frozenset()
    final_at = _final_in_snapshot(plan)
    for batch in _batches(plan):
        voters = voters_named(batch) or voters
        if batch.base_offset <= mirrored.offset <= batch.last_offset:
            epoch_there = batch.leader_epoch
        if batch.last_offset > mirrored.offset:
            records = [(offset, record) for offset, record in records_of(batch) if offset > mirrored.offset]
            found = [offset for offset, record in records if _has_form(record)]
            final_at = next((offset for offset, record in records if _is_final(record)), final_at)
            lacking += len(found)
            last = found[-1] if found else last
    holds = plan.offset >= mirrored.offset and epoch_there == mirrored.epoch
    unseen = max(0, plan.splits[0].snapshot_offset - mirrored.offset) if plan.splits else 0
    end = Position(plan.epoch, plan.offset)
    last = max(last, mirrored.offset + unseen)
    return LogLook(directory, node, voters, end, holds, lacking, unseen, last, final_at)


def _batches(plan: LogPlan) -> Iterator[Batch]:
    """Those of the segments: offsets in a snapshot are not the log's."""
    for split in plan.splits:
        if split.snapshot_offset < 0:
            yield from read_split(split)


def _final_in_snapshot(plan: LogPlan) -> int:
    """The last offset that the plan's snapshot stands for, when it is finalized in it; else -1."""
    first = plan.splits[0] if plan.splits else None
    if first is None or first.snapshot_offset < 0:
        return -1
    splits = [split for split in plan.splits if split.snapshot_offset >= 0]
    batches = (batch for split in splits for batch in read_split(split))
    is_final = any(_is_final(record) for batch in batches for _, record in records_of(batch))
    return first.snapshot_offset if is_final else -1


def _is_final(record: Message) -> bool:
    return isinstance(record, ZkMigrationStateRecord) and record.zk_migration_state == MigrationState.POST_MIGRATION


def voters_named(batch: Batch) -> frozenset[int]:
    """Those of the newest leader that a control batch has; empty where it has none."""
    changes = [each for each in batch.control_records if isinstance(each, LeaderChangeMessage)]
    return frozenset(voter.voter_id for change in changes[-1:] for voter in change.voters)


def _has_form(record: Message) -> bool:
    if isinstance(record, ConfigRecord):
        return record.resource_type in MIRRORED_CONFIGS
    return not isinstance(record, NEVER_MIRRORED)


def _refuse_running(directory: Path) -> None:
    lock = DirectoryLock(directory)
    try:
        lock.acquire()
    except OSError as error:
        raise AUDIT_CANNOT_READ.error(what=str(directory / ".lock"), reason=words_of(error)) from error
    lock.release()
