"""Topics: what clients see of them, and how they are created, grown and deleted.

In:   `schema`.
Out:  Metadata (3), CreateTopics (19), DeleteTopics (20), CreatePartitions (37).
Elsewhere: changes of partitions that exist (`partitions`), the rules and error codes of each (controller), the same
facts for ZooKeeper-mode brokers (`control`).
Source: Kafka 3.9 message schemas, KIP-4, KIP-516; checked by tests/contract/test_wire_kio.py.
"""

from collections.abc import Sequence
from typing import Annotated

from migrator.wire.messages.shared import (
    NO_OPERATIONS_ASKED,
    ConfigName,
    ConfigValue,
    ErrorCode,
    ErrorMessage,
    Host,
    LeaderId,
    NodeId,
    PartitionIndex,
    Port,
    ThrottleTimeMs,
    TimeoutMs,
    TopicName,
    ValidateOnly,
)
from migrator.wire.primitives import ZERO_UUID
from migrator.wire.schema import ARRAY, BOOL, INT8, INT16, INT32, STRING, UUID, Field, Message, Part

# --- Metadata: what a client has to know --------------------------------------------------------------------


class MetadataRequestTopic(Part):
    """A topic the client asks about, by name or by id."""

    topic_id: Annotated[bytes, Field(UUID, "zero: asked by name", since=10, droppable=True)] = ZERO_UUID
    name: Annotated[str | None, Field(STRING, "None: asked by id", nullable=10)] = ""


class MetadataRequest(Message, api_key=3, versions=(0, 12), flexible_since=9):
    """A client asks which brokers there are and who leads what."""

    topics: Annotated[
        Sequence[MetadataRequestTopic] | None,
        Field(ARRAY(MetadataRequestTopic), "None: all topics (in version 0 an empty list says so)", nullable=1),
    ] = ()
    allow_auto_topic_creation: Annotated[
        bool, Field(BOOL, "true: create unknown topics, if the broker is configured to", since=4)
    ] = True
    include_cluster_authorized_operations: Annotated[
        bool, Field(BOOL, "ask what the client may do with the cluster", since=8, until=10)
    ] = False
    include_topic_authorized_operations: Annotated[
        bool, Field(BOOL, "ask what the client may do with each topic", since=8)
    ] = False


class MetadataResponseBroker(Part):
    """A broker and its address on the listener the client used."""

    node_id: NodeId = 0
    host: Host = ""
    port: Port = 0
    rack: Annotated[str | None, Field(STRING, "None: not said", since=1, nullable=True, droppable=True)] = None


class MetadataResponsePartition(Part):
    """One partition."""

    error_code: ErrorCode = 0
    partition_index: PartitionIndex = 0
    leader_id: LeaderId = 0
    leader_epoch: Annotated[int, Field(INT32, "-1: unknown", since=7, droppable=True)] = -1
    replica_nodes: Annotated[Sequence[int], Field(ARRAY(INT32), "all replicas")] = ()
    isr_nodes: Annotated[Sequence[int], Field(ARRAY(INT32), "replicas in sync")] = ()
    offline_replicas: Annotated[
        Sequence[int], Field(ARRAY(INT32), "replicas that are gone", since=5, droppable=True)
    ] = ()


class MetadataResponseTopic(Part):
    """One topic."""

    error_code: ErrorCode = 0
    name: Annotated[str | None, Field(STRING, "None: the asked id is unknown", nullable=12)] = ""
    topic_id: Annotated[bytes, Field(UUID, "zero: unknown", since=10, droppable=True)] = ZERO_UUID
    is_internal: Annotated[bool, Field(BOOL, "true: Kafka's own", since=1, droppable=True)] = False
    partitions: Annotated[
        Sequence[MetadataResponsePartition], Field(ARRAY(MetadataResponsePartition), "its partitions")
    ] = ()
    topic_authorized_operations: Annotated[
        int, Field(INT32, "bit set of what the client may do; lowest number: not asked", since=8)
    ] = NO_OPERATIONS_ASKED


class MetadataResponse(Message, api_key=3, versions=(0, 12), flexible_since=9):
    """Brokers, controller, topics."""

    throttle_time_ms: Annotated[int, Field(INT32, "how long a quota held this back", since=3, droppable=True)] = 0
    brokers: Annotated[Sequence[MetadataResponseBroker], Field(ARRAY(MetadataResponseBroker), "alive")] = ()
    cluster_id: Annotated[
        str | None, Field(STRING, "the answering node's cluster", since=2, nullable=True, droppable=True)
    ] = None
    controller_id: Annotated[
        int, Field(INT32, "the controller, or a broker that passes requests on to it", since=1, droppable=True)
    ] = -1
    topics: Annotated[Sequence[MetadataResponseTopic], Field(ARRAY(MetadataResponseTopic), "as asked")] = ()
    cluster_authorized_operations: Annotated[
        int, Field(INT32, "bit set of what the client may do; lowest number: not asked", since=8, until=10)
    ] = NO_OPERATIONS_ASKED


# --- CreateTopics -------------------------------------------------------------------------------------------


class CreatableReplicaAssignment(Part):
    """Where the replicas of one new partition go."""

    partition_index: PartitionIndex = 0
    broker_ids: Annotated[Sequence[int], Field(ARRAY(INT32), "the preferred leader first")] = ()


class CreatableTopicConfig(Part):
    """A configuration key of the new topic."""

    name: ConfigName = ""
    value: ConfigValue = ""


class CreatableTopic(Part):
    """A topic to create."""

    name: TopicName = ""
    num_partitions: Annotated[int, Field(INT32, "-1: the default, or the assignments say it")] = 0
    replication_factor: Annotated[int, Field(INT16, "-1: the default, or the assignments say it")] = 0
    assignments: Annotated[
        Sequence[CreatableReplicaAssignment],
        Field(ARRAY(CreatableReplicaAssignment), "empty: the controller places the replicas"),
    ] = ()
    configs: Annotated[Sequence[CreatableTopicConfig], Field(ARRAY(CreatableTopicConfig), "its configuration")] = ()


class CreateTopicsRequest(Message, api_key=19, versions=(0, 7), flexible_since=5):
    """Create topics; all or each by itself, as the controller can."""

    topics: Annotated[Sequence[CreatableTopic], Field(ARRAY(CreatableTopic), "what to create")] = ()
    timeout_ms: TimeoutMs = 60000
    validate_only: Annotated[bool, Field(BOOL, "check everything and change nothing", since=1)] = False


class CreatableTopicConfigs(Part):
    """A configuration key of the created topic."""

    name: Annotated[str, Field(STRING, "the configuration key", since=5)] = ""
    value: Annotated[str | None, Field(STRING, "the value; None: a secret", since=5, nullable=True)] = ""
    read_only: Annotated[bool, Field(BOOL, "true: can be changed only in the node's file", since=5)] = False
    config_source: Annotated[int, Field(INT8, "1 topic, 2-4 dynamic, 5 default", since=5, droppable=True)] = -1
    is_sensitive: Annotated[bool, Field(BOOL, "true: a secret", since=5)] = False


class CreatableTopicResult(Part):
    """Created as described, or why not."""

    name: TopicName = ""
    topic_id: Annotated[bytes, Field(UUID, "zero: not created", since=7, droppable=True)] = ZERO_UUID
    error_code: ErrorCode = 0
    error_message: Annotated[
        str | None, Field(STRING, "the error in words", since=1, nullable=True, droppable=True)
    ] = ""
    topic_config_error_code: Annotated[
        int, Field(INT16, "29: the client may not see the configuration", since=5, tag=0, droppable=True)
    ] = 0
    num_partitions: Annotated[int, Field(INT32, "-1: not shown", since=5, droppable=True)] = -1
    replication_factor: Annotated[int, Field(INT16, "-1: not shown", since=5, droppable=True)] = -1
    configs: Annotated[
        Sequence[CreatableTopicConfigs] | None,
        Field(ARRAY(CreatableTopicConfigs), "None: not shown", since=5, nullable=True, droppable=True),
    ] = ()


class CreateTopicsResponse(Message, api_key=19, versions=(0, 7), flexible_since=5):
    """An answer for each topic."""

    throttle_time_ms: Annotated[int, Field(INT32, "how long a quota held this back", since=2, droppable=True)] = 0
    topics: Annotated[Sequence[CreatableTopicResult], Field(ARRAY(CreatableTopicResult), "one for each asked")] = ()


# --- DeleteTopics -------------------------------------------------------------------------------------------


class DeleteTopicState(Part):
    """A topic to delete, by name or by id."""

    name: Annotated[str | None, Field(STRING, "None: by id", since=6, nullable=True)] = None
    topic_id: Annotated[bytes, Field(UUID, "zero: by name", since=6)] = ZERO_UUID


class DeleteTopicsRequest(Message, api_key=20, versions=(0, 6), flexible_since=4):
    """Delete topics with everything in them."""

    topics: Annotated[Sequence[DeleteTopicState], Field(ARRAY(DeleteTopicState), "what to delete", since=6)] = ()
    topic_names: Annotated[Sequence[str], Field(ARRAY(STRING), "what to delete", until=5, droppable=True)] = ()
    timeout_ms: TimeoutMs = 0


class DeletableTopicResult(Part):
    """Deleted, or why not."""

    name: Annotated[str | None, Field(STRING, "None: the client may not know it", nullable=6)] = ""
    topic_id: Annotated[bytes, Field(UUID, "the topic's id", since=6, droppable=True)] = ZERO_UUID
    error_code: ErrorCode = 0
    error_message: Annotated[
        str | None, Field(STRING, "the error in words", since=5, nullable=True, droppable=True)
    ] = None


class DeleteTopicsResponse(Message, api_key=20, versions=(0, 6), flexible_since=4):
    """An answer for each topic."""

    throttle_time_ms: Annotated[int, Field(INT32, "how long a quota held this back", since=1, droppable=True)] = 0
    responses: Annotated[Sequence[DeletableTopicResult], Field(ARRAY(DeletableTopicResult), "one for each asked")] = ()


# --- CreatePartitions ---------------------------------------------------------------------------------------


class CreatePartitionsAssignment(Part):
    """Where the replicas of one new partition go."""

    broker_ids: Annotated[Sequence[int], Field(ARRAY(INT32), "the preferred leader first")] = ()


class CreatePartitionsTopic(Part):
    """A topic that grows."""

    name: TopicName = ""
    count: Annotated[int, Field(INT32, "how many partitions it has afterwards, old ones included")] = 0
    assignments: Annotated[
        Sequence[CreatePartitionsAssignment] | None,
        Field(ARRAY(CreatePartitionsAssignment), "None: the controller places the replicas", nullable=True),
    ] = ()


class CreatePartitionsRequest(Message, api_key=37, versions=(0, 3), flexible_since=2):
    """Add partitions to topics."""

    topics: Annotated[Sequence[CreatePartitionsTopic], Field(ARRAY(CreatePartitionsTopic), "which grow")] = ()
    timeout_ms: TimeoutMs = 0
    validate_only: ValidateOnly = False


class CreatePartitionsTopicResult(Part):
    """Grown, or why not."""

    name: TopicName = ""
    error_code: ErrorCode = 0
    error_message: ErrorMessage = None


class CreatePartitionsResponse(Message, api_key=37, versions=(0, 3), flexible_since=2):
    """An answer for each topic."""

    throttle_time_ms: ThrottleTimeMs = 0
    results: Annotated[
        Sequence[CreatePartitionsTopicResult], Field(ARRAY(CreatePartitionsTopicResult), "one for each asked")
    ] = ()
