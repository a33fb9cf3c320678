"""The fields and small structs that many messages have, said once.

In:   `schema`.
Out:  annotated types for fields that exist in every version of the message they stand in; structs of several messages.
Elsewhere: a field that starts later, ends earlier, or may be dropped is spelled out where it is.
Source: Kafka 3.9 message schemas; checked by tests/contract/test_wire_kio.py.
"""

from typing import Annotated, Final

from migrator.wire.schema import BOOL, INT8, INT16, INT32, INT64, STRING, UINT16, UUID, Field, Part

NO_OPERATIONS_ASKED: Final = -(2**31)  # in place of a bit set of permitted operations nobody asked for

ErrorCode = Annotated[int, Field(INT16, "what went wrong; 0: nothing (Kafka's error codes)")]
ErrorMessage = Annotated[str | None, Field(STRING, "the error in words; None: nothing to add", nullable=True)]
ThrottleTimeMs = Annotated[int, Field(INT32, "how long a quota held this request back; 0: not at all")]
TimeoutMs = Annotated[int, Field(INT32, "how long the controller may take before it answers REQUEST_TIMED_OUT")]
ValidateOnly = Annotated[bool, Field(BOOL, "check everything and change nothing")]

ClusterId = Annotated[str | None, Field(STRING, "the sender's cluster; None: do not check it", nullable=True)]
BrokerId = Annotated[int, Field(INT32, "the broker's node id")]
BrokerEpoch = Annotated[int, Field(INT64, "given by the controller at registration; -1: unknown or not checked")]
ControllerId = Annotated[int, Field(INT32, "the controller's node id")]
NodeId = Annotated[int, Field(INT32, "the node's id")]
IncarnationId = Annotated[bytes, Field(UUID, "chosen anew by each run of the process, which tells restarts apart")]
DirectoryId = Annotated[bytes, Field(UUID, "a log directory; zero: not known")]
Host = Annotated[str, Field(STRING, "name or address to connect to")]
Port = Annotated[int, Field(INT32, "TCP port to connect to")]
Rack = Annotated[str | None, Field(STRING, "where the broker stands; None: not said", nullable=True)]
SecurityProtocol = Annotated[int, Field(INT16, "0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL")]

TopicName = Annotated[str, Field(STRING, "the topic's name")]
TopicId = Annotated[bytes, Field(UUID, "the topic's id, which survives nothing but the topic itself")]
PartitionIndex = Annotated[int, Field(INT32, "the partition's number in its topic, from 0")]
LeaderId = Annotated[int, Field(INT32, "the leader's node id; -1: none")]
LeaderEpoch = Annotated[int, Field(INT32, "grows with each leader; a lower one is fenced; -1: unknown")]
PartitionEpoch = Annotated[int, Field(INT32, "grows with each change of the partition's state")]

ConfigResourceType = Annotated[int, Field(INT8, "2 TOPIC, 4 BROKER, 8 BROKER_LOGGER, 16 CLIENT_METRICS")]
ConfigResourceName = Annotated[str, Field(STRING, "topic name or node id; for BROKER, empty means all brokers")]
ConfigName = Annotated[str, Field(STRING, "the configuration key")]
ConfigValue = Annotated[str | None, Field(STRING, "the value as text; None: none, or the default", nullable=True)]
ConfigIsReadOnly = Annotated[bool, Field(BOOL, "true: can be changed only in the node's file")]
ConfigIsSensitive = Annotated[bool, Field(BOOL, "true: a secret, whose value is left out")]

AclResourceType = Annotated[
    int,
    Field(INT8, "1 ANY, 2 TOPIC, 3 GROUP, 4 CLUSTER, 5 TRANSACTIONAL_ID, 6 DELEGATION_TOKEN, 7 USER"),
]
AclResourceName = Annotated[str, Field(STRING, "the resource's name, or the start of it where PREFIXED")]
AclPatternType = Annotated[int, Field(INT8, "3 LITERAL, 4 PREFIXED")]
AclPrincipal = Annotated[str, Field(STRING, "who, as Type:name")]
AclHost = Annotated[str, Field(STRING, "from which address; *: any")]
AclOperation = Annotated[int, Field(INT8, "1 ANY, 2 ALL, 3 READ, 4 WRITE, ... 12 IDEMPOTENT_WRITE and later ones")]
AclPermissionType = Annotated[int, Field(INT8, "1 ANY, 2 DENY, 3 ALLOW")]

PrincipalType = Annotated[str, Field(STRING, "kind of principal, most often User")]
PrincipalName = Annotated[str, Field(STRING, "the principal's name")]
TokenId = Annotated[str, Field(STRING, "the delegation token's public id")]

ScramUser = Annotated[str, Field(STRING, "the user the credential belongs to")]
ScramMechanism = Annotated[int, Field(INT8, "1 SCRAM-SHA-256, 2 SCRAM-SHA-512")]
ScramIterations = Annotated[int, Field(INT32, "rounds of the key derivation, 4096 to 16384")]


class RaftEndpoint(Part):
    """Where a voter listens, by listener name. Name controller listeners in upper case."""

    name: Annotated[str, Field(STRING, "the listener's name")] = ""
    host: Host = ""
    port: Annotated[int, Field(UINT16, "TCP port to connect to")] = 0


class NodeEndpoint(Part):
    """A leader's address, beside an answer that names it, for the listener the request came in on."""

    node_id: NodeId = 0
    host: Host = ""
    port: Annotated[int, Field(UINT16, "TCP port to connect to")] = 0


class KRaftVersionFeature(Part):
    """The kraft.version range that a voter's software supports."""

    min_supported_version: Annotated[int, Field(INT16, "lowest level, 0: static quorum")] = 0
    max_supported_version: Annotated[int, Field(INT16, "highest level, 1: the quorum can change")] = 0


class ClientQuotaEntity(Part):
    """One part of whom a quota is for; several together narrow it, such as user and client-id."""

    entity_type: Annotated[str, Field(STRING, "user, client-id or ip")] = ""
    entity_name: Annotated[str | None, Field(STRING, "None: the default of this type", nullable=True)] = ""
