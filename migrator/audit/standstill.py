"""Whether a dual-write follows: for how long ZooKeeper has lacked the oldest record that it should have.

In:   the plan of the log, and the offset that `/migration` told before the log was looked at.
Out:  milliseconds between the oldest record behind that offset that has a form in ZooKeeper, and the newest batch of
the log.
Elsewhere: which keys the log is ahead with (subjects.py), what becomes of them then (compare.py).
Why:  what the log said lately may not be in ZooKeeper yet, and is expected. Without a bound a dual-write that stands
still passes every audit, and the way back is what it was when it stopped. Times are the leader's own, by one clock; a
quorum at rest appends a record twice a second, so the newest batch is as good as now.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from migrator.audit.log_plan import LogPlan, read_split
from migrator.audit.log_source import records_of
from migrator.audit.normalise import RESOURCES
from migrator.audit.security_facts import SECURITY_RECORDS
from migrator.wire.batch import Batch
from migrator.wire.messages.metadata import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from migrator.wire.schema import Message

STANDS_STILL_MS: Final = 120_000
"""A healthy dual-write is behind by half a second; a controller refuses changes long before this, where it is ours."""

MIRRORED: Final = (
    TopicRecord,
    RemoveTopicRecord,
    PartitionRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    *SECURITY_RECORDS,
)


def behind_ms(plan: LogPlan, mirrored: int) -> int:
    """0: ZooKeeper has everything, or the log begins behind `mirrored` with a snapshot. Raises Z2K-5001."""
    oldest: int | None = None
    newest = 0
    for batch in _behind(plan, mirrored):
        newest = max(newest, batch.timestamp_ms)
        if oldest is None and any(offset > mirrored and _has_a_form(each) for offset, each in records_of(batch)):
            oldest = batch.timestamp_ms
    return 0 if oldest is None else max(0, newest - oldest)


def _behind(plan: LogPlan, mirrored: int) -> Iterator[Batch]:
    """Batches that reach behind this offset, from the first split that has one."""
    splits = [each for each in plan.splits if each.snapshot_offset < 0]
    first = len(splits)
    while first > 0:
        first -= 1
        begin = next(read_split(splits[first]), None)
        if begin is not None and begin.base_offset <= mirrored:
            break
    for split in splits[first:]:
        for batch in read_split(split):
            if batch.last_offset > mirrored:
                yield batch


def _has_a_form(record: Message) -> bool:
    """In ZooKeeper. Configuration of other resources than topics and brokers has none."""
    if isinstance(record, ConfigRecord):
        return record.resource_type in RESOURCES.values()
    return isinstance(record, MIRRORED)
