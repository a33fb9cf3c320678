"""Whether a record gives a partition a leader or an in-sync replica that may not be one, or replaces the partition.

In:   a record, and the draft just before it.
Out:  in words what is wrong with it; None almost always.
Elsewhere: what the record does to the image (replay.py: the same, in any case); the active controller, which appends no
such record (node.leader.active_controller); a log that has one (node.log.log_replay).
Rules: only what a record newly says is judged: a leader that changes, members that come into the in-sync set. A copy
is what ZooKeeper said, dead brokers included. A partition without a leader may keep, or get back, a member that is
down: the only one that has its records.
Source: Kafka 3.9 `ReplicationControlManager`: its decisions never write such a record. Its `replay` takes one, a
PartitionRecord for a partition that exists included; ours goes on with the same image, and names it.
"""

from __future__ import annotations

from migrator.controller.replay import changed, partition_of
from migrator.model.draft import Draft
from migrator.model.values import NO_LEADER, MigrationState, Partition
from migrator.wire.messages.metadata import PartitionChangeRecord, PartitionRecord
from migrator.wire.schema import Message


def why_ineligible(draft: Draft, record: Message) -> str | None:
    """Why the record is ineligible, such as "broker 1 leads and is not in sync". draft: as it is before the record."""
    if not isinstance(record, PartitionRecord | PartitionChangeRecord):
        return None
    if draft.migration is MigrationState.PRE_MIGRATION:
        return None  # an old stock controller copies without a transaction
    before = draft.find_partition(record.topic_id, record.partition_id)
    if isinstance(record, PartitionRecord):
        after = partition_of(record)
        if before is not None:
            return None if before == after else "the partition exists, and is replaced"
    elif before is None:
        return None  # replay refuses it
    else:
        after = changed(before, record)
    return _of_isr(draft, before, after) or _of_leader(draft, before, after)


def _of_isr(draft: Draft, before: Partition | None, after: Partition) -> str | None:
    held, replicas = ((), ()) if before is None else (before.isr, before.replicas)
    for member in after.isr:
        is_new = member not in held
        if member not in after.replicas and (is_new or member in replicas):
            return f"broker {member} is in sync and has no replica"
        if is_new and after.leader != NO_LEADER and (problem := _not_active(draft, member)):
            return f"broker {member} comes into the in-sync set and {problem}"
    return None


def _of_leader(draft: Draft, before: Partition | None, after: Partition) -> str | None:
    leader = after.leader
    if leader == NO_LEADER:
        return None
    is_new = before is None or before.leader != leader
    if leader not in after.isr and (is_new or (before is not None and leader in before.isr)):
        return f"broker {leader} leads and is not in sync"
    problem = _not_active(draft, leader) if is_new else None
    return f"broker {leader} becomes the leader and {problem}" if problem else None


def _not_active(draft: Draft, broker_id: int) -> str | None:
    broker = draft.broker(broker_id)
    if broker is None:
        return "is not registered"
    if broker.fenced:
        return "is fenced"
    return "is shutting down" if broker.in_controlled_shutdown else None


def place_of(draft: Draft, record: Message) -> str:
    """`topic-partition` of a record about a partition, for a finding."""
    assert isinstance(record, PartitionRecord | PartitionChangeRecord), record
    return f"{draft.topic_name(record.topic_id) or record.topic_id.hex()}-{record.partition_id}"
