"""The records of the metadata log: what the controller decided, one change each.

In:   `schema`.
Out:  record types 0 to 29; `api_key` is the type id, and 6, 13 and 16 were never given. What 3.9 does not know is read
      only, of a log whose metadata.version was raised (RegisterBroker 4, BrokerRegistrationChange 3, types 28 and 29).
Elsewhere: the frame around a record (`records`), which version a metadata.version allows (controller), what replaying
a record changes (model).
Source: Kafka 3.9 metadata record schemas, and those of 4.4 for the rest. kio does not have them: checked by
tests/unit/wire/test_records.py against bytes put together by hand, and by tests/contract/test_wire_dump_log.py, where
Kafka's own tools of both releases read ours.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from migrator.wire.messages.shared import (
    AclHost,
    AclOperation,
    AclPatternType,
    AclPermissionType,
    AclPrincipal,
    AclResourceName,
    AclResourceType,
    BrokerEpoch,
    BrokerId,
    ClientQuotaEntity,
    ConfigName,
    ConfigResourceName,
    ConfigResourceType,
    ConfigValue,
    ControllerId,
    Host,
    IncarnationId,
    LeaderEpoch,
    LeaderId,
    PartitionEpoch,
    PartitionIndex,
    Rack,
    ScramIterations,
    ScramMechanism,
    ScramUser,
    SecurityProtocol,
    TokenId,
    TopicId,
    TopicName,
)
from migrator.wire.primitives import ZERO_UUID
from migrator.wire.schema import (
    ARRAY,
    BOOL,
    BYTES,
    FLOAT64,
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

NO_LEADER_CHANGE: Final = -2
NO_RECOVERY_CHANGE: Final = -1

# --- brokers and controllers --------------------------------------------------------------------------------


class BrokerEndpoint(Part):
    """Where a broker listens."""

    name: Annotated[str, Field(STRING, "the listener's name")] = ""
    host: Host = ""
    port: Annotated[int, Field(UINT16, "TCP port to connect to")] = 0
    security_protocol: SecurityProtocol = 0


class BrokerFeature(Part):
    """The levels of one feature that a broker's software supports."""

    name: Annotated[str, Field(STRING, "such as metadata.version")] = ""
    min_supported_version: Annotated[int, Field(INT16, "lowest level")] = 0
    max_supported_version: Annotated[int, Field(INT16, "highest level")] = 0


class RegisterBrokerRecord(Message, api_key=0, versions=(0, 4), flexible_since=0):
    """A broker joined. Its epoch is the offset of this record. Version 4 is of Kafka 4.3; nothing here writes it."""

    broker_id: BrokerId = 0
    is_migrating_zk_broker: Annotated[bool, Field(BOOL, "true: it runs in ZooKeeper mode", since=2)] = False
    incarnation_id: IncarnationId = ZERO_UUID
    broker_epoch: BrokerEpoch = 0
    end_points: Annotated[Sequence[BrokerEndpoint], Field(ARRAY(BrokerEndpoint), "where it listens")] = ()
    features: Annotated[Sequence[BrokerFeature], Field(ARRAY(BrokerFeature), "what its software supports")] = ()
    rack: Rack = ""
    fenced: Annotated[bool, Field(BOOL, "true: it leads nothing and is in no in-sync set")] = True
    in_controlled_shutdown: Annotated[bool, Field(BOOL, "true: its leaderships are being moved", since=1)] = False
    log_dirs: Annotated[Sequence[bytes], Field(ARRAY(UUID), "its log directories", since=3, tag=0)] = ()
    cordoned_log_dirs: Annotated[
        Sequence[bytes] | None,
        Field(ARRAY(UUID), "those that get no new replicas; None: not said yet", since=4, nullable=True, tag=1),
    ] = None


class UnregisterBrokerRecord(Message, api_key=1, versions=(0, 0), flexible_since=0):
    """A broker was removed."""

    broker_id: BrokerId = 0
    broker_epoch: BrokerEpoch = 0


class FenceBrokerRecord(Message, api_key=7, versions=(0, 0), flexible_since=0):
    """A broker went silent. Replaced by BrokerRegistrationChange from metadata.version 6 (3.3-IV2) on."""

    id: BrokerId = 0
    epoch: BrokerEpoch = 0


class UnfenceBrokerRecord(Message, api_key=8, versions=(0, 0), flexible_since=0):
    """A broker came back. Replaced by BrokerRegistrationChange from metadata.version 6 (3.3-IV2) on."""

    id: BrokerId = 0
    epoch: BrokerEpoch = 0


class BrokerRegistrationChangeRecord(Message, api_key=17, versions=(0, 3), flexible_since=0):
    """A registered broker was fenced, unfenced, is leaving, or lost a directory. Version 3 is of Kafka 4.3."""

    broker_id: BrokerId = 0
    broker_epoch: BrokerEpoch = 0
    fenced: Annotated[int, Field(INT8, "1: fence, 0: no change, -1: unfence", tag=0)] = 0
    in_controlled_shutdown: Annotated[int, Field(INT8, "1: it is leaving, 0: no change", since=1, tag=1)] = 0
    log_dirs: Annotated[
        Sequence[bytes], Field(ARRAY(UUID), "the directories that are left; empty: no change", since=2, tag=2)
    ] = ()
    cordoned_log_dirs: Annotated[
        Sequence[bytes] | None,
        Field(ARRAY(UUID), "those that get no new replicas; None: no change", since=3, nullable=True, tag=3),
    ] = None


class ControllerEndpoint(Part):
    """Where a controller listens."""

    name: Annotated[str, Field(STRING, "the listener's name")] = ""
    host: Host = ""
    port: Annotated[int, Field(UINT16, "TCP port to connect to")] = 0
    security_protocol: SecurityProtocol = 0


class ControllerFeature(Part):
    """The levels of one feature that a controller's software supports."""

    name: Annotated[str, Field(STRING, "such as metadata.version")] = ""
    min_supported_version: Annotated[int, Field(INT16, "lowest level")] = 0
    max_supported_version: Annotated[int, Field(INT16, "highest level")] = 0


class RegisterControllerRecord(Message, api_key=27, versions=(0, 0), flexible_since=0):
    """A controller made itself known."""

    controller_id: ControllerId = 0
    incarnation_id: IncarnationId = ZERO_UUID
    zk_migration_ready: Annotated[bool, Field(BOOL, "true: it has the migration switched on")] = False
    end_points: Annotated[Sequence[ControllerEndpoint], Field(ARRAY(ControllerEndpoint), "where it listens")] = ()
    features: Annotated[Sequence[ControllerFeature], Field(ARRAY(ControllerFeature), "what its software supports")] = ()


# --- topics and partitions ----------------------------------------------------------------------------------


class UnregisterControllerRecord(Message, api_key=29, versions=(0, 0), flexible_since=0):
    """A controller was removed. Of Kafka 4.4: no release of before reads it."""

    controller_id: Annotated[int, Field(INT32, "node id of a controller")] = 0


class TopicRecord(Message, api_key=2, versions=(0, 0), flexible_since=0):
    """A topic was created; its partitions follow."""

    name: TopicName = ""
    topic_id: TopicId = ZERO_UUID


class RemoveTopicRecord(Message, api_key=9, versions=(0, 0), flexible_since=0):
    """A topic was deleted, with its partitions and its configuration."""

    topic_id: TopicId = ZERO_UUID


class PartitionRecord(Message, api_key=3, versions=(0, 2), flexible_since=0):
    """A partition with its whole state."""

    partition_id: PartitionIndex = -1
    topic_id: TopicId = ZERO_UUID
    replicas: Annotated[Sequence[int], Field(ARRAY(INT32), "all replicas, the preferred leader first")] = ()
    isr: Annotated[Sequence[int], Field(ARRAY(INT32), "replicas in sync")] = ()
    removing_replicas: Annotated[Sequence[int], Field(ARRAY(INT32), "being removed by a reassignment")] = ()
    adding_replicas: Annotated[Sequence[int], Field(ARRAY(INT32), "being added by a reassignment")] = ()
    leader: LeaderId = -1
    leader_recovery_state: Annotated[
        int, Field(INT8, "0: recovered, 1: recovering from an unclean election", tag=0)
    ] = 0
    leader_epoch: LeaderEpoch = -1
    partition_epoch: PartitionEpoch = -1
    directories: Annotated[
        Sequence[bytes], Field(ARRAY(UUID), "the log directory of each replica, in their order", since=1)
    ] = ()
    eligible_leader_replicas: Annotated[
        Sequence[int] | None,
        Field(ARRAY(INT32), "not in sync, yet with all committed records", since=2, nullable=True, tag=1),
    ] = None
    last_known_elr: Annotated[
        Sequence[int] | None,
        Field(ARRAY(INT32), "the last of those before none was left", since=2, nullable=True, tag=2),
    ] = None


class PartitionChangeRecord(Message, api_key=5, versions=(0, 2), flexible_since=0):
    """What changed in a partition; a field at its default did not. Each one raises the partition epoch by 1."""

    partition_id: PartitionIndex = -1
    topic_id: TopicId = ZERO_UUID
    isr: Annotated[
        Sequence[int] | None, Field(ARRAY(INT32), "replicas in sync; None: no change", nullable=True, tag=0)
    ] = None
    leader: Annotated[
        int, Field(INT32, "-1: none, -2: no change; any other value raises the leader epoch by 1", tag=1)
    ] = NO_LEADER_CHANGE
    replicas: Annotated[
        Sequence[int] | None, Field(ARRAY(INT32), "all replicas; None: no change", nullable=True, tag=2)
    ] = None
    removing_replicas: Annotated[
        Sequence[int] | None, Field(ARRAY(INT32), "being removed; None: no change", nullable=True, tag=3)
    ] = None
    adding_replicas: Annotated[
        Sequence[int] | None, Field(ARRAY(INT32), "being added; None: no change", nullable=True, tag=4)
    ] = None
    leader_recovery_state: Annotated[int, Field(INT8, "0: recovered, 1: recovering, -1: no change", tag=5)] = (
        NO_RECOVERY_CHANGE
    )
    directories: Annotated[
        Sequence[bytes] | None,
        Field(ARRAY(UUID), "the log directory of each replica; None: no change", since=1, nullable=True, tag=8),
    ] = None
    eligible_leader_replicas: Annotated[
        Sequence[int] | None,
        Field(
            ARRAY(INT32), "not in sync, yet with all committed records; None: no change", since=2, nullable=True, tag=6
        ),
    ] = None
    last_known_elr: Annotated[
        Sequence[int] | None,
        Field(ARRAY(INT32), "the last of those before none was left; None: no change", since=2, nullable=True, tag=7),
    ] = None


class ClearElrRecord(Message, api_key=28, versions=(0, 0), flexible_since=0):
    """No partition has eligible leader replicas any more. Of Kafka 4.0: no release of before reads it."""

    topic_name: Annotated[str, Field(STRING, "of one topic; empty: of all")] = ""


# --- configuration, quotas, producer ids, features ----------------------------------------------------------


class ConfigRecord(Message, api_key=4, versions=(0, 0), flexible_since=0):
    """A configuration key was set, or deleted where the value is None."""

    resource_type: ConfigResourceType = 0
    resource_name: ConfigResourceName = ""
    name: ConfigName = ""
    value: ConfigValue = ""


class ClientQuotaRecord(Message, api_key=14, versions=(0, 0), flexible_since=0):
    """A quota was set or removed."""

    entity: Annotated[Sequence[ClientQuotaEntity], Field(ARRAY(ClientQuotaEntity), "whom it is for")] = ()
    key: Annotated[str, Field(STRING, "such as producer_byte_rate")] = ""
    value: Annotated[float, Field(FLOAT64, "the limit; of no meaning where removed")] = 0.0
    remove: Annotated[bool, Field(BOOL, "true: the quota is removed")] = False


class ProducerIdsRecord(Message, api_key=15, versions=(0, 0), flexible_since=0):
    """A block of producer ids was handed out."""

    broker_id: BrokerId = 0
    broker_epoch: BrokerEpoch = -1
    next_producer_id: Annotated[int, Field(INT64, "first id that nobody has; always higher than before")] = 0


class FeatureLevelRecord(Message, api_key=12, versions=(0, 0), flexible_since=0):
    """The cluster runs a feature at this level; 0 ends it."""

    name: Annotated[str, Field(STRING, "such as metadata.version")] = ""
    feature_level: Annotated[int, Field(INT16, "the level")] = 0


# --- security -----------------------------------------------------------------------------------------------


class AccessControlEntryRecord(Message, api_key=18, versions=(0, 0), flexible_since=0):
    """An ACL was created."""

    id: Annotated[bytes, Field(UUID, "by which it will be removed")] = ZERO_UUID
    resource_type: AclResourceType = 0
    resource_name: AclResourceName = ""
    pattern_type: AclPatternType = 0
    principal: AclPrincipal = ""
    host: AclHost = ""
    operation: AclOperation = 0
    permission_type: AclPermissionType = 0


class RemoveAccessControlEntryRecord(Message, api_key=19, versions=(0, 0), flexible_since=0):
    """An ACL was deleted."""

    id: Annotated[bytes, Field(UUID, "as given at its creation")] = ZERO_UUID


class UserScramCredentialRecord(Message, api_key=11, versions=(0, 0), flexible_since=0):
    """A SCRAM credential was set. The password cannot be had back from it."""

    name: ScramUser = ""
    mechanism: ScramMechanism = 0
    salt: Annotated[bytes, Field(BYTES, "random bytes")] = b""
    stored_key: Annotated[bytes, Field(BYTES, "hash of the client key")] = b""
    server_key: Annotated[bytes, Field(BYTES, "the server key")] = b""
    iterations: ScramIterations = 0


class RemoveUserScramCredentialRecord(Message, api_key=22, versions=(0, 0), flexible_since=0):
    """A SCRAM credential was deleted."""

    name: ScramUser = ""
    mechanism: ScramMechanism = 0


class DelegationTokenRecord(Message, api_key=10, versions=(0, 0), flexible_since=0):
    """A delegation token was created or renewed. Its secret is derived from the id, never stored."""

    owner: Annotated[str, Field(STRING, "whom the token speaks for, as Type:name")] = ""
    requester: Annotated[str, Field(STRING, "who asked for it, as Type:name")] = ""
    renewers: Annotated[Sequence[str], Field(ARRAY(STRING), "who else may renew it, as Type:name")] = ()
    issue_timestamp: Annotated[int, Field(INT64, "created, in ms since 1970")] = 0
    max_timestamp: Annotated[int, Field(INT64, "cannot be renewed beyond, in ms since 1970")] = 0
    expiration_timestamp: Annotated[int, Field(INT64, "ends unless renewed, in ms since 1970")] = 0
    token_id: TokenId = ""


class RemoveDelegationTokenRecord(Message, api_key=26, versions=(0, 0), flexible_since=0):
    """A delegation token expired or was revoked."""

    token_id: TokenId = ""


# --- the log itself -----------------------------------------------------------------------------------------


class NoOpRecord(Message, api_key=20, versions=(0, 0), flexible_since=0):
    """Nothing changed; the high watermark moves, so that a stuck quorum is noticed.

    The two tags are ours: a mark that every voter of ours has to know of, in a record that Kafka's readers skip.
    """

    mark: Annotated[str, Field(STRING, "name of a mark of zk2kraft; empty: none", tag=86600)] = ""
    mark_text: Annotated[str, Field(STRING, "what the mark says; empty: it is taken back", tag=86601)] = ""


class ZkMigrationStateRecord(Message, api_key=21, versions=(0, 0), flexible_since=0):
    """Where the migration from ZooKeeper stands. Note the order: MIGRATION came before PRE_MIGRATION."""

    zk_migration_state: Annotated[
        int, Field(INT8, "0 NONE, 1 MIGRATION, 2 PRE_MIGRATION, 3 POST_MIGRATION, 4 ZK (never written)")
    ] = 0


class BeginTransactionRecord(Message, api_key=23, versions=(0, 0), flexible_since=0):
    """What follows counts only once EndTransaction is read."""

    name: Annotated[str | None, Field(STRING, "for whoever reads the log", nullable=True, tag=0)] = None


class EndTransactionRecord(Message, api_key=24, versions=(0, 0), flexible_since=0):
    """All records since BeginTransaction count."""


class AbortTransactionRecord(Message, api_key=25, versions=(0, 0), flexible_since=0):
    """No record since BeginTransaction counts."""

    reason: Annotated[str | None, Field(STRING, "for whoever reads the log", nullable=True, tag=0)] = None
