"""Metadata log directories for tests: a copy with records behind it, or with a snapshot in front.

In:   a directory that `zk2kraft rehearse` wrote.
Out:  another one like it, changed; the first is left as it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from migrator.audit.log_plan import plan_log
from migrator.audit.log_source import CommittedRecords, read_directory
from migrator.node.log.log_store import LogStore
from migrator.node.log.storage import LOG_NAME
from migrator.wire.batch import build_batch, build_control_batch, peek
from migrator.wire.messages.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from migrator.wire.messages.metadata import NoOpRecord, PartitionRecord, RegisterBrokerRecord
from migrator.wire.records import encode_record
from migrator.wire.schema import Message

SEGMENT_BYTES = 1 << 30
RECORDS_PER_BATCH = 100


def values_of(records: Sequence[Message]) -> list[bytes]:
    """Version 0 loses nothing of what a copy writes; registrations and directories are of metadata.version 14 (3.7)."""
    return [encode_record(record, _version(record)) for record in records]


def _version(record: Message) -> int:
    match record:
        case RegisterBrokerRecord():
            return 3
        case PartitionRecord():
            return int(bool(record.directories))
        case _:
            return 0


def with_records(source: Path, target: Path, *batches: Sequence[Message]) -> Path:
    """The log with more batches at its end."""
    shutil.copytree(source, target)
    store = LogStore.open(target / LOG_NAME, SEGMENT_BYTES)
    for records in batches:
        batch = build_batch(base_offset=0, leader_epoch=0, timestamp_ms=0, values=values_of(records))
        store.append(store.end, 1, [batch])
    store.close()
    return target


def as_snapshot(source: Path, target: Path) -> Path:
    """The log cut off behind a snapshot of all of it, as a controller leaves it that has run for long."""
    shutil.copytree(source, target)
    log = target / LOG_NAME
    plan = plan_log(log)
    records = [each for each in read_directory(log, CommittedRecords()) if not isinstance(each, NoOpRecord)]
    for old in [*log.glob("*.log"), *log.glob("*.index"), *log.glob("*.timeindex")]:
        old.unlink()
    end = plan.offset + 1
    (log / f"{end:020d}-{plan.epoch:010d}.checkpoint").write_bytes(_snapshot(records, plan.epoch))
    noop = build_batch(base_offset=end, leader_epoch=plan.epoch, timestamp_ms=0, values=values_of([NoOpRecord()]))
    (log / f"{end:020d}.log").write_bytes(noop)
    return target


def with_snapshot_beside(source: Path, target: Path, *otherwise: Message, ahead: int = 0) -> Path:
    """The whole log, and beside it a snapshot of all of it, as a controller leaves it in its first days.

    otherwise: records that the snapshot has besides. ahead: how far behind the log's end it says that it is.
    """
    shutil.copytree(source, target)
    log = target / LOG_NAME
    plan = plan_log(log)
    records = [each for each in read_directory(log, CommittedRecords()) if not isinstance(each, NoOpRecord)]
    file = log / f"{plan.offset + 1 + ahead:020d}-{plan.epoch:010d}.checkpoint"
    file.write_bytes(_snapshot([*records, *otherwise], plan.epoch))
    return target


def _snapshot(records: list[Message], epoch: int) -> bytes:
    where = {"leader_epoch": epoch, "timestamp_ms": 0}
    data = build_control_batch(base_offset=0, records=[SnapshotHeaderRecord()], **where)
    for first in range(0, len(records), RECORDS_PER_BATCH):
        values = values_of(records[first : first + RECORDS_PER_BATCH])
        data += build_batch(base_offset=1 + first, values=values, **where)
    return data + build_control_batch(base_offset=1 + len(records), records=[SnapshotFooterRecord()], **where)


def batches_of(directory: Path) -> list[bytes]:
    """The log's batches, each as its bytes."""
    found = []
    for split in plan_log(directory).splits:
        data = Path(split.file).read_bytes()[split.start : split.end]
        position = 0
        while position < len(data):
            size = peek(data, position).size
            found.append(data[position : position + size])
            position += size
    return found
