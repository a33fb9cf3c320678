"""One builder per kind of metadata record: a value of the model in, its record out.

In:   values of the model, with what a record needs beside them (an id, a key).
Out:  records. Which version each is written in is the caller's: it goes by metadata.version.
Elsewhere: what each record does to an image (controller/replay.py), bytes (wire/records.py). Records without a value of
the model (features, marks, transactions, changes of a partition or a registration) are made where they are decided.
Source: Kafka 3.9 `toRecord` of the images (`PartitionRegistration`, `BrokerRegistration`, `ControllerRegistration`,
`ScramCredentialData`, `StandardAcl`, `DelegationTokenData`).
"""

from __future__ import annotations

from migrator.model.values import (
    Acl,
    Broker,
    ConfigKey,
    Controller,
    DelegationToken,
    Partition,
    QuotaEntity,
    ScramCredential,
    ScramKey,
)
from migrator.wire.messages.metadata import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    DelegationTokenRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from migrator.wire.messages.shared import ClientQuotaEntity

NO_BROKER = -1
NO_EPOCH = -1


def topic_record(name: str, topic_id: bytes) -> TopicRecord:
    return TopicRecord(name=name, topic_id=topic_id)


def config_record(key: ConfigKey, name: str, value: str | None) -> ConfigRecord:
    """value: None removes the setting."""
    return ConfigRecord(resource_type=key.type, resource_name=key.name, name=name, value=value)


def producer_ids_record(
    next_producer_id: int, *, broker: int = NO_BROKER, broker_epoch: int = NO_EPOCH
) -> ProducerIdsRecord:
    """next_producer_id: the first id behind the block. broker: who got the block."""
    return ProducerIdsRecord(broker_id=broker, broker_epoch=broker_epoch, next_producer_id=next_producer_id)


def partition_record(topic_id: bytes, partition: Partition) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition.id,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing,
        adding_replicas=partition.adding,
        leader=partition.leader,
        leader_recovery_state=partition.recovery,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
    )


def broker_record(broker: Broker) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        is_migrating_zk_broker=broker.migrating,
        incarnation_id=broker.incarnation,
        broker_epoch=broker.epoch,
        end_points=tuple(BrokerEndpoint(each.name, each.host, each.port, each.protocol) for each in broker.listeners),
        features=tuple(BrokerFeature(each.name, each.lowest, each.highest) for each in broker.features),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
    )


def controller_record(controller: Controller) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=tuple(
            ControllerEndpoint(each.name, each.host, each.port, each.protocol) for each in controller.listeners
        ),
        features=tuple(ControllerFeature(each.name, each.lowest, each.highest) for each in controller.features),
    )


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    """value: None removes the quota."""
    whom = tuple(ClientQuotaEntity(type_, name) for type_, name in entity.parts)
    return ClientQuotaRecord(entity=whom, key=key, value=value or 0.0, remove=value is None)


def scram_record(key: ScramKey, kept: ScramCredential) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=key.user,
        mechanism=key.mechanism,
        salt=kept.salt,
        stored_key=kept.stored_key,
        server_key=kept.server_key,
        iterations=kept.iterations,
    )


def acl_record(acl_id: bytes, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource.type,
        resource_name=acl.resource.name,
        pattern_type=acl.resource.pattern,
        principal=acl.entry.principal,
        host=acl.entry.host,
        operation=acl.entry.operation,
        permission_type=acl.entry.permission,
    )


def token_record(token: DelegationToken) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        issue_timestamp=token.issued_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expires_ms,
        token_id=token.id,
    )
