"""How brokers and controllers join, stay and leave, and what they ask the active controller for.

In:   `schema`.
Out:  ControlledShutdown (7), Envelope (58), DescribeCluster (60), BrokerRegistration (62), BrokerHeartbeat (63),
      UnregisterBroker (64), AllocateProducerIds (67), ControllerRegistration (70), AssignReplicasToDirs (73).
Elsewhere: what the controller decides on them (controller), the principal inside Envelope (`principal`).
Source: Kafka 3.9 message schemas, KIP-631, KIP-590, KIP-866, KIP-858, KIP-919; checked by
tests/contract/test_wire_kio.py.
"""

from collections.abc import Sequence
from typing import Annotated

from migrator.wire.messages.shared import (
    NO_OPERATIONS_ASKED,
    BrokerEpoch,
    BrokerId,
    ControllerId,
    DirectoryId,
    ErrorCode,
    ErrorMessage,
    Host,
    IncarnationId,
    PartitionIndex,
    Port,
    Rack,
    SecurityProtocol,
    ThrottleTimeMs,
    TopicId,
    TopicName,
)
from migrator.wire.primitives import ZERO_UUID
from migrator.wire.schema import (
    ARRAY,
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    Field,
    Message,
    Part,
)

# --- registration and heartbeats ----------------------------------------------------------------------------


class RegistrationListener(Part):
    """Where a registering node listens."""

    name: Annotated[str, Field(STRING, "the listener's name")] = ""
    host: Host = ""
    port: Annotated[int, Field(UINT16, "TCP port to connect to")] = 0
    security_protocol: SecurityProtocol = 0


class RegistrationFeature(Part):
    """The levels of one feature that a registering node's software supports."""

    name: Annotated[str, Field(STRING, "such as metadata.version")] = ""
    min_supported_version: Annotated[int, Field(INT16, "lowest level")] = 0
    max_supported_version: Annotated[int, Field(INT16, "highest level")] = 0


class BrokerRegistrationRequest(Message, api_key=62, versions=(0, 4), flexible_since=0):
    """A starting broker reports to the controller. A ZooKeeper-mode broker does so too while it migrates (R-866-10)."""

    broker_id: BrokerId = 0
    cluster_id: Annotated[str, Field(STRING, "another cluster's id is refused")] = ""
    incarnation_id: IncarnationId = ZERO_UUID
    listeners: Annotated[Sequence[RegistrationListener], Field(ARRAY(RegistrationListener), "where it listens")] = ()
    features: Annotated[
        Sequence[RegistrationFeature], Field(ARRAY(RegistrationFeature), "what its software supports")
    ] = ()
    rack: Rack = ""
    is_migrating_zk_broker: Annotated[
        bool, Field(BOOL, "true: it runs in ZooKeeper mode, with the migration switched on", since=1)
    ] = False
    log_dirs: Annotated[Sequence[bytes], Field(ARRAY(UUID), "its log directories", since=2, droppable=True)] = ()
    previous_broker_epoch: Annotated[
        int, Field(INT64, "its epoch before a clean shutdown; -1: unknown", since=3, droppable=True)
    ] = -1


class BrokerRegistrationResponse(Message, api_key=62, versions=(0, 4), flexible_since=0):
    """The broker's new epoch, which is the offset of its registration record."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    broker_epoch: BrokerEpoch = -1


class BrokerHeartbeatRequest(Message, api_key=63, versions=(0, 1), flexible_since=0):
    """A broker says that it lives, how far it has read, and what it wants."""

    broker_id: BrokerId = 0
    broker_epoch: BrokerEpoch = -1
    current_metadata_offset: Annotated[int, Field(INT64, "last metadata offset it has applied")] = 0
    want_fence: Annotated[bool, Field(BOOL, "true: keep me from leading; false once it is ready")] = False
    want_shut_down: Annotated[bool, Field(BOOL, "true: move my leaderships, I want to stop")] = False
    offline_log_dirs: Annotated[Sequence[bytes], Field(ARRAY(UUID), "log directories that failed", since=1, tag=0)] = ()


class BrokerHeartbeatResponse(Message, api_key=63, versions=(0, 1), flexible_since=0):
    """What the broker may do now."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    is_caught_up: Annotated[bool, Field(BOOL, "true: it has read up to its own registration")] = False
    is_fenced: Annotated[bool, Field(BOOL, "true: it leads nothing and is in no in-sync set")] = True
    should_shut_down: Annotated[bool, Field(BOOL, "true: its leaderships are moved, it may stop")] = False


class ControllerRegistrationRequest(Message, api_key=70, versions=(0, 0), flexible_since=0):
    """A controller makes its addresses and features known, from metadata.version 15 (3.7-IV0) on."""

    controller_id: ControllerId = 0
    incarnation_id: IncarnationId = ZERO_UUID
    zk_migration_ready: Annotated[bool, Field(BOOL, "true: it has the migration switched on")] = False
    listeners: Annotated[Sequence[RegistrationListener], Field(ARRAY(RegistrationListener), "where it listens")] = ()
    features: Annotated[
        Sequence[RegistrationFeature], Field(ARRAY(RegistrationFeature), "what its software supports")
    ] = ()


class ControllerRegistrationResponse(Message, api_key=70, versions=(0, 0), flexible_since=0):
    """Recorded, or why not."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""


class UnregisterBrokerRequest(Message, api_key=64, versions=(0, 0), flexible_since=0):
    """An operator removes a broker that will not come back."""

    broker_id: BrokerId = 0


class UnregisterBrokerResponse(Message, api_key=64, versions=(0, 0), flexible_since=0):
    """Removed, or why not."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""


# --- leaving in ZooKeeper mode ------------------------------------------------------------------------------


class ControlledShutdownRequest(Message, api_key=7, versions=(0, 3), flexible_since=3):
    """A ZooKeeper-mode broker asks for its leaderships to be moved. Version 0 has a header of its own (`frames`)."""

    broker_id: BrokerId = 0
    broker_epoch: Annotated[int, Field(INT64, "-1: not checked", since=2, droppable=True)] = -1


class RemainingPartition(Part):
    """A partition that the broker still leads."""

    topic_name: TopicName = ""
    partition_index: PartitionIndex = 0


class ControlledShutdownResponse(Message, api_key=7, versions=(0, 3), flexible_since=3):
    """What could not be moved; nothing: the broker may stop."""

    error_code: ErrorCode = 0
    remaining_partitions: Annotated[
        Sequence[RemainingPartition], Field(ARRAY(RemainingPartition), "still led by the broker")
    ] = ()


# --- requests that brokers pass on, and their own operations ----------------------------------------------------


class EnvelopeRequest(Message, api_key=58, versions=(0, 0), flexible_since=0):
    """A client's request, passed on by a broker together with who sent it and from where."""

    request_data: Annotated[bytes, Field(BYTES, "header and body as the client sent them, without length")] = b""
    request_principal: Annotated[
        bytes | None, Field(BYTES, "the client's principal, see `principal`", nullable=True)
    ] = b""
    client_host_address: Annotated[bytes, Field(BYTES, "the client's address, 4 or 16 bytes")] = b""


class EnvelopeResponse(Message, api_key=58, versions=(0, 0), flexible_since=0):
    """The answer to hand to the client, or why there is none; 41: the broker asks another controller."""

    response_data: Annotated[
        bytes | None, Field(BYTES, "header and body for the client; None: see the error", nullable=True)
    ] = None
    error_code: ErrorCode = 0


class AllocateProducerIdsRequest(Message, api_key=67, versions=(0, 0), flexible_since=0):
    """A broker asks for a block of producer ids to hand out."""

    broker_id: BrokerId = 0
    broker_epoch: BrokerEpoch = -1


class AllocateProducerIdsResponse(Message, api_key=67, versions=(0, 0), flexible_since=0):
    """A block that nobody else has."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    producer_id_start: Annotated[int, Field(INT64, "first id of the block")] = 0
    producer_id_len: Annotated[int, Field(INT32, "how many ids, 1000 as released")] = 0


class AssignedPartition(Part):
    """A replica that lies in the directory."""

    partition_index: PartitionIndex = 0


class AssignedTopic(Part):
    """One topic's replicas in the directory."""

    topic_id: TopicId = ZERO_UUID
    partitions: Annotated[Sequence[AssignedPartition], Field(ARRAY(AssignedPartition), "its partitions")] = ()


class AssignedDirectory(Part):
    """What lies in one log directory."""

    id: DirectoryId = ZERO_UUID
    topics: Annotated[Sequence[AssignedTopic], Field(ARRAY(AssignedTopic), "by topic")] = ()


class AssignReplicasToDirsRequest(Message, api_key=73, versions=(0, 0), flexible_since=0):
    """A broker with several log directories says which replica lies where (R-866-14)."""

    broker_id: BrokerId = 0
    broker_epoch: BrokerEpoch = -1
    directories: Annotated[Sequence[AssignedDirectory], Field(ARRAY(AssignedDirectory), "by directory")] = ()


class AssignedPartitionResult(Part):
    """Recorded, or why not."""

    partition_index: PartitionIndex = 0
    error_code: ErrorCode = 0


class AssignedTopicResult(Part):
    """The answers for one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: Annotated[
        Sequence[AssignedPartitionResult], Field(ARRAY(AssignedPartitionResult), "one for each given")
    ] = ()


class AssignedDirectoryResult(Part):
    """The answers for one directory."""

    id: DirectoryId = ZERO_UUID
    topics: Annotated[Sequence[AssignedTopicResult], Field(ARRAY(AssignedTopicResult), "by topic")] = ()


class AssignReplicasToDirsResponse(Message, api_key=73, versions=(0, 0), flexible_since=0):
    """An answer for each replica."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    directories: Annotated[
        Sequence[AssignedDirectoryResult], Field(ARRAY(AssignedDirectoryResult), "by directory")
    ] = ()


# --- who is there -------------------------------------------------------------------------------------------


class DescribeClusterRequest(Message, api_key=60, versions=(0, 1), flexible_since=0):
    """A client asks which nodes there are."""

    include_cluster_authorized_operations: Annotated[bool, Field(BOOL, "ask what the client may do")] = False
    endpoint_type: Annotated[int, Field(INT8, "1: brokers, 2: controllers", since=1)] = 1


class DescribeClusterBroker(Part):
    """A node and its address; a controller where controllers were asked for."""

    broker_id: BrokerId = 0
    host: Host = ""
    port: Port = 0
    rack: Rack = None


class DescribeClusterResponse(Message, api_key=60, versions=(0, 1), flexible_since=0):
    """The nodes of the asked kind."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    error_message: ErrorMessage = None
    endpoint_type: Annotated[int, Field(INT8, "1: brokers, 2: controllers", since=1)] = 1
    cluster_id: Annotated[str, Field(STRING, "the answering node's cluster")] = ""
    controller_id: Annotated[int, Field(INT32, "the active controller, or a broker standing in for it; -1: none")] = -1
    brokers: Annotated[Sequence[DescribeClusterBroker], Field(ARRAY(DescribeClusterBroker), "the nodes")] = ()
    cluster_authorized_operations: Annotated[
        int, Field(INT32, "bit set of what the client may do; lowest number: not asked")
    ] = NO_OPERATIONS_ASKED
