"""Leaders are elected because somebody asks for it.

In:   ElectLeaders: preferred (the first replica leads again) or unclean (anybody leads, rather than nobody).
Out:  one PartitionChangeRecord per partition that changes; an answer per partition.
Elsewhere: who may lead (elections.py), elections that nobody asks for (brokers.py,
node.leader.active_controller).
Source: Kafka 3.9 `ReplicationControlManager.electLeaders`. Asked for all partitions, those that need no election are
left out of the answer. A partition that is named twice is decided once, stock decides it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from migrator.controller.decision import RECORDS_PER_REQUEST_MAX, TOO_MANY, Decision, Record, Situation
from migrator.controller.partitions.elections import Election, able_to_lead, active_brokers, change
from migrator.controller.refusals import refuse
from migrator.model.values import NO_LEADER, Partition, Topic
from migrator.wire.errors import Error
from migrator.wire.messages.partitions import (
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReplicaElectionResult,
)


class ElectionType(IntEnum):
    """Kafka's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


WORDS: Final = {
    Error.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    Error.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    Error.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}


def elect_leaders(situation: Situation, request: ElectLeadersRequest) -> Decision:
    if request.topic_partitions is not None and not request.topic_partitions:
        return Decision(ElectLeadersResponse())
    if request.election_type not in tuple(ElectionType):
        return Decision(refuse(request, Error.INVALID_REQUEST, f"Unknown election type {request.election_type}"))
    round_ = _Round(situation, ElectionType(request.election_type))
    if request.topic_partitions is None:
        results = [round_.all_of(topic) for topic in situation.image.topics.values()]
    else:
        results = [round_.some_of(each.topic, each.partitions) for each in request.topic_partitions]
    if len(round_.records) > RECORDS_PER_REQUEST_MAX:
        return Decision(refuse(request, Error.POLICY_VIOLATION, TOO_MANY))
    return Decision(ElectLeadersResponse(replica_election_results=tuple(results)), tuple(round_.records.values()))


class _Round:
    """The elections of one request. records: by topic id and partition id."""

    def __init__(self, situation: Situation, wanted: ElectionType) -> None:
        self._situation = situation
        self._wanted = wanted
        self._active = active_brokers(situation.image)
        self.records: dict[tuple[bytes, int], Record] = {}

    def all_of(self, topic: Topic) -> ReplicaElectionResult:
        found = ((partition.id, self._elect(topic, partition)) for partition in topic.partitions)
        return ReplicaElectionResult(
            topic.name,
            tuple(_result(number, error) for number, error in found if error is not Error.ELECTION_NOT_NEEDED),
        )

    def some_of(self, name: str, partitions: Sequence[int]) -> ReplicaElectionResult:
        return ReplicaElectionResult(name, tuple(self._by_number(name, number) for number in partitions))

    def _by_number(self, name: str, number: int) -> ElectLeadersPartitionResult:
        topic = self._situation.image.topic(name)
        if topic is None:
            return _unknown(number, f"No such topic as {name}")
        partition = topic.partition(number)
        if partition is None:
            return _unknown(number, f"No such partition as {name}-{number}")
        return _result(number, self._elect(topic, partition))

    def _elect(self, topic: Topic, partition: Partition) -> Error:
        if (topic.id, partition.id) in self.records or self._needs_none(partition):
            return Error.ELECTION_NOT_NEEDED
        record = change(
            topic.id,
            partition,
            may_lead=able_to_lead(self._situation.image, partition, self._active),
            level=self._situation.image.metadata_version,
            migration_enabled=self._situation.settings.migration_enabled,
            election=Election.PREFERRED if self._wanted is ElectionType.PREFERRED else Election.UNCLEAN,
        )
        if record is None:
            if self._wanted is ElectionType.PREFERRED:
                return Error.PREFERRED_LEADER_NOT_AVAILABLE
            return Error.ELIGIBLE_LEADERS_NOT_AVAILABLE
        self.records[topic.id, partition.id] = record
        return Error.NONE

    def _needs_none(self, partition: Partition) -> bool:
        if self._wanted is ElectionType.PREFERRED:
            return partition.leader == partition.replicas[0]
        return partition.leader != NO_LEADER


def _result(number: int, error: Error) -> ElectLeadersPartitionResult:
    return ElectLeadersPartitionResult(number, error, WORDS.get(error))


def _unknown(number: int, words: str) -> ElectLeadersPartitionResult:
    return ElectLeadersPartitionResult(number, Error.UNKNOWN_TOPIC_OR_PARTITION, words)
