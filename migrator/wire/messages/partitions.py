"""Partitions that exist: who leads them, who is in sync, and where their replicas lie.

In:   `schema`.
Out:  ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46), AlterPartition (56).
Elsewhere: topics as a whole (`topics`), the rules and error codes of each (controller).
Source: Kafka 3.9 message schemas, KIP-455, KIP-460, KIP-497, KIP-903; checked by tests/contract/test_wire_kio.py.
"""

from collections.abc import Sequence
from typing import Annotated

from migrator.wire.messages.shared import (
    BrokerEpoch,
    BrokerId,
    ErrorCode,
    ErrorMessage,
    LeaderEpoch,
    LeaderId,
    PartitionEpoch,
    PartitionIndex,
    ThrottleTimeMs,
    TimeoutMs,
    TopicName,
)
from migrator.wire.primitives import ZERO_UUID
from migrator.wire.schema import ARRAY, INT8, INT16, INT32, INT64, STRING, UUID, Field, Message, Part

IdWhereNamesWere = Annotated[bytes, Field(UUID, "the topic's id in place of its name", since=2, droppable=True)]
NameBeforeIds = Annotated[str, Field(STRING, "the topic's name, before ids took its place", until=1, droppable=True)]

# --- ElectLeaders -------------------------------------------------------------------------------------------


class ElectLeadersTopic(Part):
    """Partitions of one topic that want another leader."""

    topic: TopicName = ""
    partitions: Annotated[Sequence[int], Field(ARRAY(INT32), "partition numbers")] = ()


class ElectLeadersRequest(Message, api_key=43, versions=(0, 2), flexible_since=2):
    """Elect leaders now."""

    election_type: Annotated[
        int, Field(INT8, "0: the preferred replica, 1: also one that may have lost records", since=1)
    ] = 0
    topic_partitions: Annotated[
        Sequence[ElectLeadersTopic] | None, Field(ARRAY(ElectLeadersTopic), "None: all", nullable=True)
    ] = ()
    timeout_ms: TimeoutMs = 60000


class ElectLeadersPartitionResult(Part):
    """Elected, or why not; 84: there was nothing to change."""

    partition_id: PartitionIndex = 0
    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""


class ReplicaElectionResult(Part):
    """The elections in one topic."""

    topic: TopicName = ""
    partition_result: Annotated[
        Sequence[ElectLeadersPartitionResult], Field(ARRAY(ElectLeadersPartitionResult), "by partition")
    ] = ()


class ElectLeadersResponse(Message, api_key=43, versions=(0, 2), flexible_since=2):
    """An answer for each partition."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: Annotated[int, Field(INT16, "error of the whole request", since=1, droppable=True)] = 0
    replica_election_results: Annotated[
        Sequence[ReplicaElectionResult], Field(ARRAY(ReplicaElectionResult), "by topic")
    ] = ()


# --- reassignments ------------------------------------------------------------------------------------------


class ReassignablePartition(Part):
    """A partition and where its replicas should be."""

    partition_index: PartitionIndex = 0
    replicas: Annotated[
        Sequence[int] | None,
        Field(ARRAY(INT32), "the preferred leader first; None: take a reassignment back", nullable=True),
    ] = None


class ReassignableTopic(Part):
    """The partitions of one topic to move."""

    name: TopicName = ""
    partitions: Annotated[Sequence[ReassignablePartition], Field(ARRAY(ReassignablePartition), "which move")] = ()


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions=(0, 0), flexible_since=0):
    """Move replicas, or take a move back."""

    timeout_ms: TimeoutMs = 60000
    topics: Annotated[Sequence[ReassignableTopic], Field(ARRAY(ReassignableTopic), "by topic")] = ()


class ReassignablePartitionResponse(Part):
    """Begun, or why not."""

    partition_index: PartitionIndex = 0
    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""


class ReassignableTopicResponse(Part):
    """The answers for one topic."""

    name: TopicName = ""
    partitions: Annotated[
        Sequence[ReassignablePartitionResponse], Field(ARRAY(ReassignablePartitionResponse), "by partition")
    ] = ()


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions=(0, 0), flexible_since=0):
    """An answer for each partition."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""
    responses: Annotated[Sequence[ReassignableTopicResponse], Field(ARRAY(ReassignableTopicResponse), "by topic")] = ()


class ListPartitionReassignmentsTopics(Part):
    """Partitions of one topic to list."""

    name: TopicName = ""
    partition_indexes: Annotated[Sequence[int], Field(ARRAY(INT32), "partition numbers")] = ()


class ListPartitionReassignmentsRequest(Message, api_key=46, versions=(0, 0), flexible_since=0):
    """Which moves are under way?"""

    timeout_ms: TimeoutMs = 60000
    topics: Annotated[
        Sequence[ListPartitionReassignmentsTopics] | None,
        Field(ARRAY(ListPartitionReassignmentsTopics), "None: all", nullable=True),
    ] = None


class OngoingPartitionReassignment(Part):
    """A move under way."""

    partition_index: PartitionIndex = 0
    replicas: Annotated[Sequence[int], Field(ARRAY(INT32), "all replicas, both kinds below included")] = ()
    adding_replicas: Annotated[Sequence[int], Field(ARRAY(INT32), "those that are catching up")] = ()
    removing_replicas: Annotated[Sequence[int], Field(ARRAY(INT32), "those that will go")] = ()


class OngoingTopicReassignment(Part):
    """The moves in one topic."""

    name: TopicName = ""
    partitions: Annotated[
        Sequence[OngoingPartitionReassignment], Field(ARRAY(OngoingPartitionReassignment), "by partition")
    ] = ()


class ListPartitionReassignmentsResponse(Message, api_key=46, versions=(0, 0), flexible_since=0):
    """The moves under way."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""
    topics: Annotated[Sequence[OngoingTopicReassignment], Field(ARRAY(OngoingTopicReassignment), "by topic")] = ()


# --- AlterPartition: a leader changes its in-sync set -------------------------------------------------------


class IsrBroker(Part):
    """A proposed member of the in-sync set."""

    broker_id: Annotated[int, Field(INT32, "its node id", since=3)] = 0
    broker_epoch: Annotated[int, Field(INT64, "its epoch as the leader knows it; -1: not checked", since=3)] = -1


class AlterPartitionPartition(Part):
    """The new in-sync set of one partition (R-595-15: becomes one record for each partition)."""

    partition_index: PartitionIndex = 0
    leader_epoch: LeaderEpoch = 0
    new_isr: Annotated[Sequence[int], Field(ARRAY(INT32), "the proposed members", until=2)] = ()
    new_isr_with_epochs: Annotated[Sequence[IsrBroker], Field(ARRAY(IsrBroker), "the proposed members", since=3)] = ()
    leader_recovery_state: Annotated[
        int, Field(INT8, "0: recovered, 1: recovering from an unclean election", since=1)
    ] = 0
    partition_epoch: PartitionEpoch = 0


class AlterPartitionTopic(Part):
    """The partitions of one topic."""

    topic_name: NameBeforeIds = ""
    topic_id: IdWhereNamesWere = ZERO_UUID
    partitions: Annotated[Sequence[AlterPartitionPartition], Field(ARRAY(AlterPartitionPartition), "by partition")] = ()


class AlterPartitionRequest(Message, api_key=56, versions=(0, 3), flexible_since=0):
    """A broker proposes new in-sync sets for partitions it leads."""

    broker_id: BrokerId = 0
    broker_epoch: BrokerEpoch = -1
    topics: Annotated[Sequence[AlterPartitionTopic], Field(ARRAY(AlterPartitionTopic), "by topic")] = ()


class AlterPartitionPartitionResult(Part):
    """The partition's state now, or why it did not change."""

    partition_index: PartitionIndex = 0
    error_code: ErrorCode = 0
    leader_id: LeaderId = 0
    leader_epoch: LeaderEpoch = 0
    isr: Annotated[Sequence[int], Field(ARRAY(INT32), "replicas in sync")] = ()
    leader_recovery_state: Annotated[int, Field(INT8, "as in the request", since=1, droppable=True)] = 0
    partition_epoch: PartitionEpoch = 0


class AlterPartitionTopicResult(Part):
    """The answers for one topic."""

    topic_name: NameBeforeIds = ""
    topic_id: IdWhereNamesWere = ZERO_UUID
    partitions: Annotated[
        Sequence[AlterPartitionPartitionResult], Field(ARRAY(AlterPartitionPartitionResult), "by partition")
    ] = ()


class AlterPartitionResponse(Message, api_key=56, versions=(0, 3), flexible_since=0):
    """An answer for each partition."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    topics: Annotated[Sequence[AlterPartitionTopicResult], Field(ARRAY(AlterPartitionTopicResult), "by topic")] = ()
