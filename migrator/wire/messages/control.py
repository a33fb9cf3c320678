"""What a controller tells ZooKeeper-mode brokers, as released from 0.8 to 3.9.

In:   `schema`.
Out:  LeaderAndIsr (4), StopReplica (5), UpdateMetadata (6), in all versions.
Elsewhere: which broker gets which of them, with which epochs (driver), the queue per broker (node).
Source: Kafka 3.9 message schemas, KIP-866; checked by tests/contract/test_wire_kio.py. A migration sends LeaderAndIsr
7, UpdateMetadata 8 and StopReplica 4 only: no earlier version can say that the sender is a KRaft controller (R-866-04).
"""

from collections.abc import Sequence
from typing import Annotated

from migrator.wire.messages.shared import (
    BrokerId,
    ControllerId,
    ErrorCode,
    Host,
    LeaderEpoch,
    PartitionEpoch,
    PartitionIndex,
    Port,
    SecurityProtocol,
    TopicName,
)
from migrator.wire.primitives import ZERO_UUID
from migrator.wire.schema import ARRAY, BOOL, INT8, INT16, INT32, INT64, STRING, UUID, Field, Message, Part

RequestControllerEpoch = Annotated[
    int, Field(INT32, "version of /controller_epoch that the sender claimed; a lower one is refused with 11")
]
StateControllerEpoch = Annotated[int, Field(INT32, "epoch of the controller that decided this state")]
StateLeader = Annotated[int, Field(INT32, "the leader's node id; -1: none, -2: the partition is being deleted")]
IsrIds = Annotated[Sequence[int], Field(ARRAY(INT32), "replicas in sync")]
ReplicaIds = Annotated[Sequence[int], Field(ARRAY(INT32), "all replicas, the preferred leader first")]

# --- LeaderAndIsr: become leader or follower ----------------------------------------------------------------


class LeaderAndIsrPartitionState(Part):
    """Who leads and follows one partition that the receiving broker has a replica of."""

    topic_name: Annotated[str, Field(STRING, "the topic's name, later in the topic", until=1, droppable=True)] = ""
    partition_index: PartitionIndex = 0
    controller_epoch: StateControllerEpoch = 0
    leader: StateLeader = 0
    leader_epoch: LeaderEpoch = 0
    isr: IsrIds = ()
    partition_epoch: PartitionEpoch = 0
    replicas: ReplicaIds = ()
    adding_replicas: Annotated[
        Sequence[int], Field(ARRAY(INT32), "being added by a reassignment", since=3, droppable=True)
    ] = ()
    removing_replicas: Annotated[
        Sequence[int], Field(ARRAY(INT32), "being removed by a reassignment", since=3, droppable=True)
    ] = ()
    is_new: Annotated[bool, Field(BOOL, "true: the log may be created", since=1, droppable=True)] = False
    leader_recovery_state: Annotated[
        int, Field(INT8, "0: recovered, 1: recovering from an unclean election", since=6)
    ] = 0


class LeaderAndIsrTopicState(Part):
    """The partitions of one topic."""

    topic_name: Annotated[str, Field(STRING, "the topic's name", since=2)] = ""
    topic_id: Annotated[
        bytes, Field(UUID, "another id than the log's is refused with 103; zero: unknown", since=5, droppable=True)
    ] = ZERO_UUID
    partition_states: Annotated[
        Sequence[LeaderAndIsrPartitionState], Field(ARRAY(LeaderAndIsrPartitionState), "its partitions", since=2)
    ] = ()


class LeaderAndIsrLiveLeader(Part):
    """The address of a broker that leads one of the partitions."""

    broker_id: BrokerId = 0
    host_name: Host = ""
    port: Port = 0


class LeaderAndIsrRequest(Message, api_key=4, versions=(0, 7), flexible_since=4):
    """Lead or follow these partitions. A FULL one is complete: logs it does not list are put aside as stray."""

    controller_id: ControllerId = 0
    is_kraft_controller: Annotated[bool, Field(BOOL, "true: the id is a KRaft node's", since=7)] = False
    controller_epoch: RequestControllerEpoch = 0
    broker_epoch: Annotated[
        int,
        Field(INT64, "the receiver's epoch; a lower one is refused with 77; -1: not checked", since=2, droppable=True),
    ] = -1
    type: Annotated[int, Field(INT8, "0: unknown, 1: incremental, 2: full", since=5)] = 0
    ungrouped_partition_states: Annotated[
        Sequence[LeaderAndIsrPartitionState],
        Field(ARRAY(LeaderAndIsrPartitionState), "the partitions, before they were grouped by topic", until=1),
    ] = ()
    topic_states: Annotated[
        Sequence[LeaderAndIsrTopicState], Field(ARRAY(LeaderAndIsrTopicState), "the partitions by topic", since=2)
    ] = ()
    live_leaders: Annotated[
        Sequence[LeaderAndIsrLiveLeader], Field(ARRAY(LeaderAndIsrLiveLeader), "addresses of the leaders")
    ] = ()


class LeaderAndIsrPartitionError(Part):
    """Done, or why not."""

    topic_name: Annotated[str, Field(STRING, "the topic's name, later in the topic", until=4, droppable=True)] = ""
    partition_index: PartitionIndex = 0
    error_code: ErrorCode = 0


class LeaderAndIsrTopicError(Part):
    """The answers for one topic."""

    topic_id: Annotated[bytes, Field(UUID, "the topic's id", since=5)] = ZERO_UUID
    partition_errors: Annotated[
        Sequence[LeaderAndIsrPartitionError], Field(ARRAY(LeaderAndIsrPartitionError), "by partition", since=5)
    ] = ()


class LeaderAndIsrResponse(Message, api_key=4, versions=(0, 7), flexible_since=4):
    """An answer for each partition."""

    error_code: ErrorCode = 0
    partition_errors: Annotated[
        Sequence[LeaderAndIsrPartitionError],
        Field(ARRAY(LeaderAndIsrPartitionError), "by partition, before they were grouped by topic", until=4),
    ] = ()
    topics: Annotated[Sequence[LeaderAndIsrTopicError], Field(ARRAY(LeaderAndIsrTopicError), "by topic", since=5)] = ()


# --- StopReplica: stop, and perhaps delete ------------------------------------------------------------------


class StopReplicaPartitionV0(Part):
    """A replica to stop, as version 0 said it."""

    topic_name: Annotated[str, Field(STRING, "the topic's name", until=0)] = ""
    partition_index: Annotated[int, Field(INT32, "the partition's number", until=0)] = 0


class StopReplicaTopicV1(Part):
    """The replicas of one topic to stop, as versions 1 and 2 said it."""

    name: Annotated[str, Field(STRING, "the topic's name", since=1, until=2)] = ""
    partition_indexes: Annotated[Sequence[int], Field(ARRAY(INT32), "partition numbers", since=1, until=2)] = ()


class StopReplicaPartitionState(Part):
    """A replica to stop."""

    partition_index: Annotated[int, Field(INT32, "the partition's number", since=3)] = 0
    leader_epoch: Annotated[
        int, Field(INT32, "a lower one is refused with 74; -1: not checked, -2: the topic is being deleted", since=3)
    ] = -1
    delete_partition: Annotated[bool, Field(BOOL, "true: delete the log as well", since=3)] = False


class StopReplicaTopicState(Part):
    """The replicas of one topic to stop."""

    topic_name: Annotated[str, Field(STRING, "the topic's name", since=3)] = ""
    partition_states: Annotated[
        Sequence[StopReplicaPartitionState], Field(ARRAY(StopReplicaPartitionState), "its partitions", since=3)
    ] = ()


class StopReplicaRequest(Message, api_key=5, versions=(0, 4), flexible_since=2):
    """Stop replicas that moved away or whose topic is deleted."""

    controller_id: ControllerId = 0
    is_kraft_controller: Annotated[bool, Field(BOOL, "true: the id is a KRaft node's", since=4)] = False
    controller_epoch: RequestControllerEpoch = 0
    broker_epoch: Annotated[
        int,
        Field(INT64, "the receiver's epoch; a lower one is refused with 77; -1: not checked", since=1, droppable=True),
    ] = -1
    delete_partitions: Annotated[bool, Field(BOOL, "true: delete all their logs as well", until=2)] = False
    ungrouped_partitions: Annotated[
        Sequence[StopReplicaPartitionV0], Field(ARRAY(StopReplicaPartitionV0), "the replicas", until=0)
    ] = ()
    topics: Annotated[
        Sequence[StopReplicaTopicV1], Field(ARRAY(StopReplicaTopicV1), "the replicas by topic", since=1, until=2)
    ] = ()
    topic_states: Annotated[
        Sequence[StopReplicaTopicState], Field(ARRAY(StopReplicaTopicState), "the replicas by topic", since=3)
    ] = ()


class StopReplicaPartitionError(Part):
    """Done, or why not."""

    topic_name: TopicName = ""
    partition_index: PartitionIndex = 0
    error_code: ErrorCode = 0


class StopReplicaResponse(Message, api_key=5, versions=(0, 4), flexible_since=2):
    """An answer for each replica."""

    error_code: ErrorCode = 0
    partition_errors: Annotated[
        Sequence[StopReplicaPartitionError], Field(ARRAY(StopReplicaPartitionError), "by partition")
    ] = ()


# --- UpdateMetadata: what every broker has to know ----------------------------------------------------------


class UpdateMetadataPartitionState(Part):
    """The state of one partition, for the answers that brokers give to clients."""

    topic_name: Annotated[str, Field(STRING, "the topic's name, later in the topic", until=4, droppable=True)] = ""
    partition_index: PartitionIndex = 0
    controller_epoch: StateControllerEpoch = 0
    leader: StateLeader = 0
    leader_epoch: LeaderEpoch = 0
    isr: IsrIds = ()
    zk_version: Annotated[int, Field(INT32, "the partition epoch, named after where it was once kept")] = 0
    replicas: ReplicaIds = ()
    offline_replicas: Annotated[
        Sequence[int], Field(ARRAY(INT32), "replicas whose broker or log directory is gone", since=4, droppable=True)
    ] = ()


class UpdateMetadataTopicState(Part):
    """The partitions of one topic."""

    topic_name: Annotated[str, Field(STRING, "the topic's name", since=5)] = ""
    topic_id: Annotated[bytes, Field(UUID, "the topic's id; zero: forget it", since=7, droppable=True)] = ZERO_UUID
    partition_states: Annotated[
        Sequence[UpdateMetadataPartitionState],
        Field(ARRAY(UpdateMetadataPartitionState), "its partitions", since=5),
    ] = ()


class UpdateMetadataEndpoint(Part):
    """Where a broker listens."""

    port: Annotated[int, Field(INT32, "TCP port to connect to", since=1)] = 0
    host: Annotated[str, Field(STRING, "name or address to connect to", since=1)] = ""
    listener: Annotated[str, Field(STRING, "the listener's name", since=3, droppable=True)] = ""
    security_protocol: SecurityProtocol = 0


class UpdateMetadataBroker(Part):
    """A broker that clients may be sent to."""

    id: BrokerId = 0
    v0_host: Annotated[str, Field(STRING, "its only address, as version 0 said it", until=0, droppable=True)] = ""
    v0_port: Annotated[int, Field(INT32, "its only port, as version 0 said it", until=0, droppable=True)] = 0
    endpoints: Annotated[
        Sequence[UpdateMetadataEndpoint],
        Field(ARRAY(UpdateMetadataEndpoint), "where it listens", since=1, droppable=True),
    ] = ()
    rack: Annotated[
        str | None, Field(STRING, "where it stands; None: not said", since=2, nullable=True, droppable=True)
    ] = ""


class UpdateMetadataRequest(Message, api_key=6, versions=(0, 8), flexible_since=6):
    """Who is alive and who leads what. Accepting it makes the sender the broker's controller."""

    controller_id: ControllerId = 0
    is_kraft_controller: Annotated[bool, Field(BOOL, "true: the id is a KRaft node's", since=8)] = False
    type: Annotated[int, Field(INT8, "0: unknown, 1: incremental, 2: full", since=8, tag=0)] = 0
    controller_epoch: RequestControllerEpoch = 0
    broker_epoch: Annotated[
        int,
        Field(INT64, "the receiver's epoch; a lower one is refused with 77; -1: not checked", since=5, droppable=True),
    ] = -1
    ungrouped_partition_states: Annotated[
        Sequence[UpdateMetadataPartitionState],
        Field(ARRAY(UpdateMetadataPartitionState), "the partitions, before they were grouped by topic", until=4),
    ] = ()
    topic_states: Annotated[
        Sequence[UpdateMetadataTopicState],
        Field(ARRAY(UpdateMetadataTopicState), "the partitions by topic", since=5),
    ] = ()
    live_brokers: Annotated[
        Sequence[UpdateMetadataBroker], Field(ARRAY(UpdateMetadataBroker), "every registered broker")
    ] = ()


class UpdateMetadataResponse(Message, api_key=6, versions=(0, 8), flexible_since=6):
    """Taken over, or refused as stale."""

    error_code: Annotated[int, Field(INT16, "0, 11 stale controller epoch, 77 stale broker epoch")] = 0
