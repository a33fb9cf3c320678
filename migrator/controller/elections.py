"""Who leads a partition, and what has to change when that is asked anew.

In:   a partition, who may lead, and the wanted in-sync set.
Out:  one PartitionChangeRecord, or None when nothing changes.
Elsewhere: why it is asked (brokers.py, alter_partition.py), applying the record (replay.py).
Source: Kafka 3.9 `PartitionChangeBuilder`. While the migration is on, every ISR shrink bumps the leader epoch, since
ZooKeeper-mode brokers rely on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum

from migrator.controller.decision import Record, Situation, partition_version
from migrator.model.image import Image
from migrator.model.values import NO_LEADER, ConfigType, Partition, Recovery, Topic
from migrator.wire.messages.metadata import NO_LEADER_CHANGE, NO_RECOVERY_CHANGE, PartitionChangeRecord

LEVEL_ISR_SHRINK_NEEDS_NO_BUMP = 12


class Election(Enum):
    """ONLINE keeps a leader that may lead; PREFERRED wants the first replica; UNCLEAN also takes one out of sync."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


def elect(
    partition: Partition, isr: Sequence[int], may_lead: Callable[[int], bool], election: Election
) -> tuple[int, bool]:
    """The leader by the rules, and whether the election was unclean. Replica order decides, not ISR order."""

    def fits(replica: int) -> bool:
        return replica in isr and may_lead(replica)

    first = partition.replicas[0]
    if election is Election.PREFERRED and fits(first):
        return first, False
    if fits(partition.leader):
        return partition.leader, False
    for replica in partition.replicas:
        if fits(replica):
            return replica, False
    if election is Election.UNCLEAN:
        for replica in partition.replicas:
            if may_lead(replica):
                return replica, True
    return NO_LEADER, False


def change(
    topic_id: bytes,
    partition: Partition,
    *,
    may_lead: Callable[[int], bool],
    level: int,
    migration_enabled: bool,
    isr: Sequence[int] | None = None,
    election: Election = Election.ONLINE,
    recovery: int | None = None,
) -> Record | None:
    """One partition re-decided: election, then ISR, then the leader epoch bump that a shrink needs.

    isr: the wanted in-sync set; None keeps it. The last member never leaves: an empty set is kept as it was.
    """
    target = tuple(partition.isr if isr is None else isr)
    leader, unclean = elect(partition, target, may_lead, election)
    moves = leader != partition.leader
    new_leader = leader if moves else NO_LEADER_CHANGE
    new_isr: tuple[int, ...] | None = None
    new_recovery = NO_RECOVERY_CHANGE
    if unclean and moves:
        new_isr = (leader,)
        new_recovery = Recovery.RECOVERING if partition.recovery != Recovery.RECOVERING else NO_RECOVERY_CHANGE
    elif target and target != partition.isr:
        new_isr = target
    bumps = migration_enabled or level < LEVEL_ISR_SHRINK_NEEDS_NO_BUMP
    if bumps and new_leader == NO_LEADER_CHANGE and _shrinks(partition, new_isr):
        new_leader = partition.leader
    if recovery is not None and recovery != partition.recovery:
        new_recovery = recovery
    if new_leader == NO_LEADER_CHANGE and new_isr is None and new_recovery == NO_RECOVERY_CHANGE:
        return None
    record = PartitionChangeRecord(
        partition_id=partition.id,
        topic_id=topic_id,
        isr=new_isr,
        leader=new_leader,
        leader_recovery_state=new_recovery,
    )
    return record, partition_version(level)


def _shrinks(partition: Partition, isr: tuple[int, ...] | None) -> bool:
    return isr is not None and not set(partition.isr) <= set(isr)


# --- many partitions at once ------------------------------------------------------------------------------


def decide_again(
    situation: Situation,
    partitions: Iterable[tuple[Topic, Partition]],
    *,
    leaving: int = NO_LEADER,
    joining: int = NO_LEADER,
) -> Iterator[Record]:
    """Records for partitions whose brokers come or go.

    leaving: no leader and in no in-sync set any more. joining: may lead although it is still fenced in the image.
    """
    image, settings = situation.image, situation.settings
    active = {broker.id for broker in image.brokers.values() if broker.active}
    active.discard(leaving)
    if joining != NO_LEADER:
        active.add(joining)
    for topic, partition in partitions:
        record = change(
            topic.id,
            partition,
            may_lead=active.__contains__,
            level=image.metadata_version,
            migration_enabled=settings.migration_enabled,
            isr=[replica for replica in partition.isr if replica != leaving],
            election=Election.UNCLEAN if unclean_enabled(situation, topic.name) else Election.ONLINE,
        )
        if record is not None:
            yield record


def with_broker_in_isr(image: Image, broker: int) -> Iterator[tuple[Topic, Partition]]:
    return ((topic, partition) for topic, partition in image.partitions() if broker in partition.isr)


def without_leader(image: Image) -> Iterator[tuple[Topic, Partition]]:
    return ((topic, partition) for topic, partition in image.partitions() if partition.leader == NO_LEADER)


def badly_led(image: Image) -> Iterator[tuple[Topic, Partition]]:
    """Partitions without a leader, or whose leader may not lead: what a takeover has to heal first."""
    active = {broker.id for broker in image.brokers.values() if broker.active}
    return ((topic, partition) for topic, partition in image.partitions() if partition.leader not in active)


def unclean_enabled(situation: Situation, topic: str) -> bool:
    """The effective `unclean.leader.election.enable`: topic, all brokers, this node's file, false."""
    key = "unclean.leader.election.enable"
    image = situation.image
    for values in (image.config(ConfigType.TOPIC, topic), image.config(ConfigType.BROKER, "")):
        if key in values:
            return values[key].strip().lower() == "true"
    return situation.settings.unclean_leader_election


def preferred_leaders(situation: Situation, limit: int) -> list[Record]:
    """Records that bring leadership back to the first replica, at most `limit` of them."""
    image = situation.image
    active = {broker.id for broker in image.brokers.values() if broker.active}
    found: list[Record] = []
    for topic, partition in image.partitions():
        if partition.leader == partition.replicas[0] or partition.replicas[0] not in active:
            continue
        record = change(
            topic.id,
            partition,
            may_lead=active.__contains__,
            level=image.metadata_version,
            migration_enabled=situation.settings.migration_enabled,
            election=Election.PREFERRED,
        )
        if record is not None:
            found.append(record)
            if len(found) >= limit:
                break
    return found
