"""Brokers say in which log directory a replica lies, and which of their directories failed.

In:   AssignReplicasToDirs; the offline directories of a heartbeat or of a registration.
Out:  partition changes that name directories, that move leaderships away and shrink in-sync sets; the registration
      without the directories that failed.
Elsewhere: whom an election may choose (elections.py), when a heartbeat is looked at (brokers.py). ZooKeeper has no
      directories: it sees the partition epoch move, and the leader and the in-sync set where they change.
Source: Kafka 3.9 `ReplicationControlManager.handleAssignReplicasToDirs` and `handleDirectoriesOffline`. We differ: a
replica that is said to lie in an offline directory is one change, not two; a broker that is fenced or unfenced by the
same heartbeat is decided with the directories that are left, where stock can elect a leader from one that failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from msgspec import structs

from migrator.controller.decision import CHANGE_OF_DIRECTORIES, Decision, Record, Situation
from migrator.controller.partitions.elections import (
    Assignment,
    Election,
    able_to_lead,
    active_brokers,
    change,
    decide_again,
    in_directories,
    unclean_enabled,
)
from migrator.controller.refusals import refuse
from migrator.controller.replay import changed
from migrator.model import levels
from migrator.model.values import LOST_DIRECTORY, Broker, Partition, Topic
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import (
    AssignedDirectoryResult,
    AssignedPartitionResult,
    AssignedTopic,
    AssignedTopicResult,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from migrator.wire.messages.metadata import BrokerRegistrationChangeRecord, PartitionChangeRecord

# --- where replicas lie -----------------------------------------------------------------------------------


def assign_replicas(situation: Situation, request: AssignReplicasToDirsRequest) -> Decision:
    """Each replica is answered by itself; one in a directory that is offline leads nothing and is not in sync."""
    if situation.image.metadata_version < levels.DIRECTORIES:
        return Decision(refuse(request, Error.UNSUPPORTED_VERSION))
    broker = situation.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Decision(AssignReplicasToDirsResponse(error_code=Error.STALE_BROKER_EPOCH))
    places = _Places(situation, broker)
    answers = tuple(
        AssignedDirectoryResult(each.id, tuple(places.answer(topic, each.id) for topic in each.topics))
        for each in request.directories
    )
    return Decision(AssignReplicasToDirsResponse(directories=answers), tuple(places.records), divisible=True)


class _Places:
    """The replicas of one request; one that is named again is decided from what it became."""

    def __init__(self, situation: Situation, broker: Broker) -> None:
        self._situation = situation
        self._broker = broker
        self._active = active_brokers(situation.image)
        self._others = self._active - {broker.id}
        self._now: dict[tuple[bytes, int], Partition] = {}
        self.records: list[Record] = []

    def answer(self, asked: AssignedTopic, directory: bytes) -> AssignedTopicResult:
        topic = self._situation.image.topics.get(asked.topic_id)
        numbers = [each.partition_index for each in asked.partitions]
        if topic is None:
            unknown = (AssignedPartitionResult(number, Error.UNKNOWN_TOPIC_ID) for number in numbers)
            return AssignedTopicResult(asked.topic_id, tuple(unknown))
        results = (AssignedPartitionResult(number, self._assign(topic, number, directory)) for number in numbers)
        return AssignedTopicResult(asked.topic_id, tuple(results))

    def _assign(self, topic: Topic, number: int, directory: bytes) -> Error:
        partition = self._now.get((topic.id, number)) or topic.partition(number)
        if partition is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if self._broker.id not in partition.replicas:
            return Error.NOT_LEADER_OR_FOLLOWER
        record = self._change(topic, partition, directory)
        if record is not None:
            message = record[0]
            assert isinstance(message, PartitionChangeRecord)
            self.records.append(record)
            self._now[topic.id, number] = changed(partition, message)
        return Error.NONE

    def _change(self, topic: Topic, partition: Partition, directory: bytes) -> Record | None:
        """Who may lead is asked with the directory of before, as stock does: a replica does not begin to lead because
        it lies in another directory now, where it may have begun empty.
        """
        offline = not self._broker.has_online(directory)
        unclean = offline and unclean_enabled(self._situation, topic.name)
        image = self._situation.image
        return change(
            topic.id,
            partition,
            may_lead=able_to_lead(image, partition, self._others if offline else self._active),
            level=image.metadata_version,
            migration_enabled=self._situation.settings.migration_enabled,
            isr=[each for each in partition.isr if not (offline and each == self._broker.id)],
            election=Election.UNCLEAN if unclean else Election.ONLINE,
            to=Assignment(partition.replicas, partition.removing, partition.adding, {self._broker.id: directory}),
        )


# --- directories that fail --------------------------------------------------------------------------------


def newly_offline(situation: Situation, broker: Broker, reported: Iterable[bytes]) -> frozenset[bytes]:
    """The directories of a report that still count as online."""
    if situation.image.metadata_version < levels.DIRECTORIES:
        return frozenset()
    return frozenset(broker.log_dirs).intersection(reported)


def with_directories(situation: Situation, broker: Broker, left: Iterable[bytes]) -> Situation:
    """The situation in which the broker has these directories only, or none that is online."""
    known = situation.image.brokers.set(broker.id, structs.replace(broker, log_dirs=tuple(left) or (LOST_DIRECTORY,)))
    return replace(situation, image=structs.replace(situation.image, brokers=known))


def moved_away(situation: Situation, broker: Broker, lost: frozenset[bytes]) -> Iterator[Record]:
    """Nothing is led from these directories any more, and nothing in them is in sync."""
    return decide_again(situation, in_directories(situation.image, lost), leaving=broker.id)


def registration_without(broker: Broker, lost: frozenset[bytes]) -> tuple[Record, ...]:
    """The directories that are left. None at all cannot be written (an empty list means no change); a broker without
    any directory ends by itself.
    """
    left = tuple(each for each in broker.log_dirs if each not in lost)
    if not left:
        return ()
    record = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left)
    return ((record, CHANGE_OF_DIRECTORIES),)
