"""What a record does to the image.

In:   records in log order, onto a `Draft`.
Out:  nothing but the changed draft. A record that contradicts the image raises `Contradiction`.
Elsewhere: batches and transactions (node.log.log_replay), which records are written (the other modules here).
Source: Kafka 3.9 `*Delta.replay`; facts of record types in migrator.wire.messages.metadata.
A record of a kind that this release does not know is refused rather than forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from migrator.controller.removals import REPLICAS, TOPIC_IDS, TOPIC_NAMES
from migrator.findings.quorum import RECORD_NOT_SUPPORTED
from migrator.model.draft import Draft
from migrator.model.values import (
    ZERO_ID,
    Acl,
    AclEntry,
    AclResource,
    Broker,
    ConfigKey,
    Controller,
    DelegationToken,
    FeatureRange,
    Listener,
    MigrationState,
    Partition,
    QuotaEntity,
    ScramCredential,
    ScramKey,
)
from migrator.wire.messages.metadata import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from migrator.wire.schema import Message

NO_LEADER_CHANGE: Final = -2


def replay(draft: Draft, record: Message) -> None:
    """Apply one record. Transaction markers change nothing here."""
    handler = _HANDLERS.get(type(record))
    if handler is None:
        raise RECORD_NOT_SUPPORTED.error(record=type(record).__name__)
    handler(draft, record)


def changed(partition: Partition, change: PartitionChangeRecord) -> Partition:
    """A partition after a change record: unset fields keep, a leader (also the same one) raises the leader epoch."""
    led = change.leader != NO_LEADER_CHANGE
    return Partition(
        partition.id,
        tuple(change.replicas) if change.replicas is not None else partition.replicas,
        tuple(change.isr) if change.isr is not None else partition.isr,
        change.leader if led else partition.leader,
        partition.leader_epoch + (1 if led else 0),
        partition.partition_epoch + 1,
        tuple(change.removing_replicas) if change.removing_replicas is not None else partition.removing,
        tuple(change.adding_replicas) if change.adding_replicas is not None else partition.adding,
        change.leader_recovery_state if change.leader_recovery_state >= 0 else partition.recovery,
        _directories(change.directories) if change.directories is not None else partition.directories,
    )


def partition_of(record: PartitionRecord) -> Partition:
    return Partition(
        record.partition_id,
        tuple(record.replicas),
        tuple(record.isr),
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        tuple(record.removing_replicas),
        tuple(record.adding_replicas),
        record.leader_recovery_state,
        _directories(record.directories),
    )


def _directories(given: Sequence[bytes]) -> tuple[bytes, ...]:
    """No replica with a known directory: stock's snapshots then name an empty id for each, other records name none."""
    return tuple(given) if any(each != ZERO_ID for each in given) else ()


def broker_of(record: RegisterBrokerRecord) -> Broker:
    return Broker(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation=record.incarnation_id,
        listeners=tuple(
            Listener(each.name, each.host, each.port, each.security_protocol) for each in record.end_points
        ),
        features=tuple(
            FeatureRange(each.name, each.min_supported_version, each.max_supported_version) for each in record.features
        ),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        migrating=record.is_migrating_zk_broker,
        log_dirs=tuple(record.log_dirs),
    )


def _register_controller(draft: Draft, record: RegisterControllerRecord) -> None:
    draft.put_controller(
        Controller(
            id=record.controller_id,
            incarnation=record.incarnation_id,
            zk_migration_ready=record.zk_migration_ready,
            listeners=tuple(
                Listener(each.name, each.host, each.port, each.security_protocol) for each in record.end_points
            ),
            features=tuple(
                FeatureRange(each.name, each.min_supported_version, each.max_supported_version)
                for each in record.features
            ),
        )
    )


def _change_registration(draft: Draft, record: BrokerRegistrationChangeRecord) -> None:
    broker = draft.expect_broker(record.broker_id, record.broker_epoch)
    draft.put_broker(
        replace(
            broker,
            fenced=broker.fenced if record.fenced == 0 else record.fenced > 0,
            in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown > 0,
            log_dirs=tuple(record.log_dirs) or broker.log_dirs,
        )
    )


def _fence(draft: Draft, record: FenceBrokerRecord) -> None:
    draft.put_broker(replace(draft.expect_broker(record.id, record.epoch), fenced=True))


def _unfence(draft: Draft, record: UnfenceBrokerRecord) -> None:
    draft.put_broker(replace(draft.expect_broker(record.id, record.epoch), fenced=False))


def _change_partition(draft: Draft, record: PartitionChangeRecord) -> None:
    partition = draft.partition(record.topic_id, record.partition_id)
    draft.put_partition(record.topic_id, changed(partition, record))


def _quota(draft: Draft, record: ClientQuotaRecord) -> None:
    entity = QuotaEntity.of((each.entity_type, each.entity_name) for each in record.entity)
    draft.set_quota(entity, record.key, None if record.remove else record.value)


def _scram(draft: Draft, record: UserScramCredentialRecord) -> None:
    credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
    draft.put_scram(ScramKey(record.name, record.mechanism), credential)


def acl_of(record: AccessControlEntryRecord) -> Acl:
    return Acl(
        AclResource(record.resource_type, record.pattern_type, record.resource_name),
        AclEntry(record.principal, record.host, record.operation, record.permission_type),
    )


def token_of(record: DelegationTokenRecord) -> DelegationToken:
    return DelegationToken(
        id=record.token_id,
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issued_ms=record.issue_timestamp,
        max_ms=record.max_timestamp,
        expires_ms=record.expiration_timestamp,
    )


def _mark(draft: Draft, record: NoOpRecord) -> None:
    """A NoOp of Kafka's moves the offset only; what a snapshot remembers of removals is no part of the image."""
    if record.mark and record.mark not in (TOPIC_IDS, TOPIC_NAMES, REPLICAS):
        draft.set_mark(record.mark, record.mark_text)


def _nothing(draft: Draft, record: Message) -> None:
    """Transactions are resolved before records come here, and an image has no eligible leader replicas."""


_HANDLERS: Final[dict[type[Message], Callable[[Draft, Any], None]]] = {
    FeatureLevelRecord: lambda draft, record: draft.set_feature(record.name, record.feature_level),
    ZkMigrationStateRecord: lambda draft, record: draft.set_migration(MigrationState(record.zk_migration_state)),
    RegisterBrokerRecord: lambda draft, record: draft.put_broker(broker_of(record)),
    UnregisterBrokerRecord: lambda draft, record: draft.remove_broker(record.broker_id, record.broker_epoch),
    BrokerRegistrationChangeRecord: _change_registration,
    FenceBrokerRecord: _fence,
    UnfenceBrokerRecord: _unfence,
    RegisterControllerRecord: _register_controller,
    UnregisterControllerRecord: lambda draft, record: draft.remove_controller(record.controller_id),
    TopicRecord: lambda draft, record: draft.create_topic(record.name, record.topic_id),
    RemoveTopicRecord: lambda draft, record: draft.remove_topic(record.topic_id),
    PartitionRecord: lambda draft, record: draft.put_partition(record.topic_id, partition_of(record)),
    PartitionChangeRecord: _change_partition,
    ConfigRecord: lambda draft, record: draft.set_config(
        ConfigKey(record.resource_type, record.resource_name), record.name, record.value
    ),
    ProducerIdsRecord: lambda draft, record: draft.set_next_producer_id(record.next_producer_id),
    ClientQuotaRecord: _quota,
    UserScramCredentialRecord: _scram,
    RemoveUserScramCredentialRecord: lambda draft, record: draft.remove_scram(ScramKey(record.name, record.mechanism)),
    AccessControlEntryRecord: lambda draft, record: draft.put_acl(record.id, acl_of(record)),
    RemoveAccessControlEntryRecord: lambda draft, record: draft.remove_acl(record.id),
    DelegationTokenRecord: lambda draft, record: draft.put_token(token_of(record)),
    RemoveDelegationTokenRecord: lambda draft, record: draft.remove_token(record.token_id),
    NoOpRecord: _mark,
    ClearElrRecord: _nothing,
    BeginTransactionRecord: _nothing,
    EndTransactionRecord: _nothing,
    AbortTransactionRecord: _nothing,
}
