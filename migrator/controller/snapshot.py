"""The records that make an image from nothing: what a snapshot of the metadata holds.

In:   an image.
Out:  records with their versions; replayed in this order onto the empty image they give an equal one.
Elsewhere: what each record does (replay.py), the snapshot's file (node.snapshot_files).
Source: Kafka 3.9 `MetadataImage.write` and the images' own `write`, in that order of families.
"""

from __future__ import annotations

from collections.abc import Iterator

from migrator.controller.decision import Record, partition_version, register_broker_version
from migrator.model.image import METADATA_VERSION, Image
from migrator.model.values import (
    Acl,
    Broker,
    Controller,
    DelegationToken,
    MigrationState,
    Partition,
    QuotaEntity,
    ScramCredential,
    ScramKey,
    Topic,
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
    FeatureLevelRecord,
    NoOpRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from migrator.wire.messages.shared import ClientQuotaEntity


def records_of(image: Image) -> Iterator[Record]:
    """metadata.version first: a reader of Kafka's needs it to understand the rest."""
    level = image.metadata_version
    if METADATA_VERSION in image.features:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=image.features[METADATA_VERSION]), 0
    for name in sorted(set(image.features) - {METADATA_VERSION}):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name]), 0
    if image.migration is not MigrationState.NONE:
        yield ZkMigrationStateRecord(zk_migration_state=image.migration), 0
    for broker in sorted(image.brokers):
        yield _broker(image.brokers[broker]), register_broker_version(level)
    for controller in sorted(image.controllers):
        yield _controller(image.controllers[controller]), 0
    for topic in sorted(image.topics.values(), key=lambda each: each.name):
        yield from _topic(topic, level)
    for key in sorted(image.configs):
        for name, value in sorted(image.configs[key].items()):
            yield ConfigRecord(resource_type=key.type, resource_name=key.name, name=name, value=value), 0
    for entity in sorted(image.quotas, key=lambda each: each.place):
        for name, limit in sorted(image.quotas[entity].items()):
            yield quota_record(entity, name, limit), 0
    if image.next_producer_id >= 0:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id), 0
    for acl_id, acl in sorted(image.acls.items(), key=lambda each: (each[1], each[0])):
        yield acl_record(acl_id, acl), 0
    for whose in sorted(image.scram):
        yield scram_record(whose, image.scram[whose]), 0
    for token in sorted(image.tokens):
        yield token_record(image.tokens[token]), 0
    for mark in sorted(image.marks):
        yield NoOpRecord(mark=mark, mark_text=image.marks[mark]), 0


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


def _topic(topic: Topic, level: int) -> Iterator[Record]:
    """A partition without directories is written as a copy writes it: version 0 has no place for them."""
    yield TopicRecord(name=topic.name, topic_id=topic.id), 0
    for partition in topic.partitions:
        yield _partition(topic.id, partition), partition_version(level) if partition.directories else 0


def _partition(topic_id: bytes, partition: Partition) -> PartitionRecord:
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


def _broker(broker: Broker) -> RegisterBrokerRecord:
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


def _controller(controller: Controller) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=tuple(
            ControllerEndpoint(each.name, each.host, each.port, each.protocol) for each in controller.listeners
        ),
        features=tuple(ControllerFeature(each.name, each.lowest, each.highest) for each in controller.features),
    )
