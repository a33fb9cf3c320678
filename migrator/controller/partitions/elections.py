"""Who leads a partition, and what has to change when that is asked anew.

In:   a partition, who may lead, the wanted in-sync set and the wanted replicas.
Out:  one PartitionChangeRecord, or None when nothing changes.
Elsewhere: why it is asked (brokers.py, alter_partition.py, elect_leaders.py, reassignments.py), applying the record
(replay.py).
Rules: a replica leads only from a directory that is online at its broker. A reassignment ends in the same record that
brings the last new replica in sync. A replica that leaves, and while the migration is on an ISR that shrinks, raises
the leader epoch: brokers rely on it.
Source: Kafka 3.9 `PartitionChangeBuilder`, `PartitionReassignmentReplicas`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from msgspec.structs import replace

from migrator.controller.decision import Record, Situation, partition_version
from migrator.model import levels
from migrator.model.image import Image
from migrator.model.values import NO_LEADER, UNASSIGNED_DIRECTORY, ZERO_ID, ConfigType, Partition, Recovery, Topic
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


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which brokers are to have a partition.

    replicas:    all of them, the preferred leader first, those that will go at the end.
    directories: of brokers that are new to the partition, or whose replica lies elsewhere from now on.
    """

    replicas: tuple[int, ...]
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    directories: Mapping[int, bytes] = field(default_factory=dict)

    @property
    def moves(self) -> bool:
        return bool(self.removing or self.adding)


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
    to: Assignment | None = None,
) -> Record | None:
    """One partition re-decided: an end of its reassignment, election, ISR, the leader epoch bumps.

    isr: the wanted in-sync set; None keeps it. The last member never leaves: an empty set is kept as it was.
    to:  the wanted assignment; None keeps it, but a reassignment that is complete now ends.
    """
    target = tuple(partition.isr if isr is None else isr)
    if to is None and (partition.removing or partition.adding):
        to = Assignment(partition.replicas, partition.removing, partition.adding)
    if to is not None:
        to, target = _ended(to, target)
    replicas = partition.replicas if to is None else to.replicas
    placed = partition if replicas == partition.replicas else replace(partition, replicas=replicas)
    leader, unclean = elect(placed, target, may_lead, election)
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
    replica_leaves = placed is not partition and not set(partition.replicas) <= set(replicas)
    if new_leader == NO_LEADER_CHANGE and (replica_leaves or (bumps and _shrinks(partition, new_isr))):
        new_leader = partition.leader
    if recovery is not None and recovery != partition.recovery:
        new_recovery = recovery
    assigned = {} if to is None else _assigned(partition, to, level)
    if new_leader == NO_LEADER_CHANGE and new_isr is None and new_recovery == NO_RECOVERY_CHANGE and not assigned:
        return None
    record = PartitionChangeRecord(
        partition_id=partition.id,
        topic_id=topic_id,
        isr=new_isr,
        leader=new_leader,
        leader_recovery_state=new_recovery,
        **assigned,
    )
    return record, partition_version(level)


def _ended(to: Assignment, isr: tuple[int, ...]) -> tuple[Assignment, tuple[int, ...]]:
    """Assignment and in-sync set, without those that go as soon as all that stay are in sync."""
    if not to.moves:
        return to, isr
    stay = tuple(each for each in to.replicas if each not in to.removing)
    in_sync = tuple(each for each in isr if each not in to.removing)
    if not stay or not in_sync or not set(stay) <= set(in_sync):
        return to, isr
    return Assignment(stay, directories=to.directories), in_sync


def _assigned(partition: Partition, to: Assignment, level: int) -> dict[str, Any]:
    """The fields of a change record by which a partition gets this assignment."""
    fields: dict[str, Any] = {}
    if level >= levels.DIRECTORIES:
        unknown = (ZERO_ID,) * len(partition.replicas)
        before = partition.directories or unknown
        known = dict(zip(partition.replicas, before, strict=True))
        directories = tuple(to.directories.get(each, known.get(each, ZERO_ID)) for each in to.replicas)
        if directories != before:
            fields["directories"] = directories
    if to.replicas != partition.replicas:
        fields["replicas"] = to.replicas
    if to.removing != partition.removing:
        fields["removing_replicas"] = to.removing
    if to.adding != partition.adding:
        fields["adding_replicas"] = to.adding
    return fields


def _shrinks(partition: Partition, isr: tuple[int, ...] | None) -> bool:
    return isr is not None and not set(partition.isr) <= set(isr)


def active_brokers(image: Image) -> frozenset[int]:
    return frozenset(broker.id for broker in image.brokers.values() if broker.active)


def able_to_lead(image: Image, partition: Partition, active: Collection[int]) -> Callable[[int], bool]:
    """Who may lead this partition: a broker of `active` whose directory with the replica is online."""
    if not partition.directories:
        return active.__contains__
    directories = dict(zip(partition.replicas, partition.directories, strict=False))

    def may_lead(broker: int) -> bool:
        return broker in active and image.brokers[broker].has_online(directories.get(broker, UNASSIGNED_DIRECTORY))

    return may_lead


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
    active = set(active_brokers(image))
    active.discard(leaving)
    if joining != NO_LEADER:
        active.add(joining)
    for topic, partition in partitions:
        record = change(
            topic.id,
            partition,
            may_lead=able_to_lead(image, partition, active),
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
    active = active_brokers(image)
    return ((topic, each) for topic, each in image.partitions() if not able_to_lead(image, each, active)(each.leader))


def in_directories(image: Image, directories: Collection[bytes]) -> Iterator[tuple[Topic, Partition]]:
    """Partitions with a replica in one of these directories."""
    wanted = frozenset(directories)
    return ((topic, each) for topic, each in image.partitions() if not wanted.isdisjoint(each.directories))


def arrived(image: Image) -> Iterator[tuple[Topic, Partition]]:
    """Partitions whose reassignment could end and has not: their controller was gone before it saw that."""
    return (
        (topic, each)
        for topic, each in image.partitions()
        if (each.adding or each.removing) and set(each.replicas) - set(each.removing) <= set(each.isr)
    )


def unclean_enabled(situation: Situation, topic: str) -> bool:
    """The effective `unclean.leader.election.enable`: topic, this node, all brokers, this node's file, false."""
    key = "unclean.leader.election.enable"
    image, node = situation.image, str(situation.settings.node_id)
    broker = (image.config(ConfigType.BROKER, node), image.config(ConfigType.BROKER, ""))
    for values in (image.config(ConfigType.TOPIC, topic), *broker):
        if key in values:
            return values[key].strip().lower() == "true"
    return situation.settings.unclean_leader_election


def unclean_leaders(situation: Situation, limit: int) -> list[Record]:
    """Leaders for partitions that have none, of topics that take one out of sync rather than none; at most `limit`."""
    image = situation.image
    active = active_brokers(image)
    found: list[Record] = []
    for topic, partition in without_leader(image):
        if not unclean_enabled(situation, topic.name):
            continue
        record = change(
            topic.id,
            partition,
            may_lead=able_to_lead(image, partition, active),
            level=image.metadata_version,
            migration_enabled=situation.settings.migration_enabled,
            election=Election.UNCLEAN,
        )
        if record is not None:
            found.append(record)
            if len(found) >= limit:
                break
    return found


def preferred_leaders(situation: Situation, limit: int) -> list[Record]:
    """Records that bring leadership back to the first replica, at most `limit` of them."""
    image = situation.image
    active = active_brokers(image)
    found: list[Record] = []
    for topic, partition in image.partitions():
        if partition.leader == partition.replicas[0] or partition.replicas[0] not in active:
            continue
        record = change(
            topic.id,
            partition,
            may_lead=able_to_lead(image, partition, active),
            level=image.metadata_version,
            migration_enabled=situation.settings.migration_enabled,
            election=Election.PREFERRED,
        )
        if record is not None:
            found.append(record)
            if len(found) >= limit:
                break
    return found
