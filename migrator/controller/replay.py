"""What a record does to the image.

In:   records in log order, onto a `Draft`.
Out:  nothing but the changed draft. A record that contradicts the image raises `Contradiction`.
Elsewhere: batches and transactions (node.log_replay), which records are written (the other modules here).
Source: Kafka 3.9 `*Delta.replay`; facts of record types in migrator.wire.messages.metadata.
Families that this release does not build (ACLs, quotas, SCRAM, tokens) cannot be in a log that it wrote, and it
refuses to lead one that holds them rather than to forget them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from migrator.errors import RECORD_NOT_SUPPORTED
from migrator.model.draft import Draft
from migrator.model.values import (
    ZERO_ID,
    Broker,
    ConfigKey,
    Controller,
    FeatureRange,
    Listener,
    MigrationState,
    Partition,
)
from migrator.wire.messages.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
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


def _mark(draft: Draft, record: NoOpRecord) -> None:
    """A NoOp of Kafka's moves the offset only."""
    if record.mark:
        draft.set_mark(record.mark, record.mark_text)


def _nothing(draft: Draft, record: Message) -> None:
    """Transactions are resolved before records come here."""


_HANDLERS: Final[dict[type[Message], Callable[[Draft, Any], None]]] = {
    FeatureLevelRecord: lambda draft, record: draft.set_feature(record.name, record.feature_level),
    ZkMigrationStateRecord: lambda draft, record: draft.set_migration(MigrationState(record.zk_migration_state)),
    RegisterBrokerRecord: lambda draft, record: draft.put_broker(broker_of(record)),
    UnregisterBrokerRecord: lambda draft, record: draft.remove_broker(record.broker_id, record.broker_epoch),
    BrokerRegistrationChangeRecord: _change_registration,
    FenceBrokerRecord: _fence,
    UnfenceBrokerRecord: _unfence,
    RegisterControllerRecord: _register_controller,
    TopicRecord: lambda draft, record: draft.create_topic(record.name, record.topic_id),
    RemoveTopicRecord: lambda draft, record: draft.remove_topic(record.topic_id),
    PartitionRecord: lambda draft, record: draft.put_partition(record.topic_id, partition_of(record)),
    PartitionChangeRecord: _change_partition,
    ConfigRecord: lambda draft, record: draft.set_config(
        ConfigKey(record.resource_type, record.resource_name), record.name, record.value
    ),
    ProducerIdsRecord: lambda draft, record: draft.set_next_producer_id(record.next_producer_id),
    NoOpRecord: _mark,
    BeginTransactionRecord: _nothing,
    EndTransactionRecord: _nothing,
    AbortTransactionRecord: _nothing,
}
