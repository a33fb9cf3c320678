"""The records that make an image from nothing: what a snapshot of the metadata holds.

In:   an image.
Out:  records with their versions; replayed in this order onto the empty image they give an equal one.
Elsewhere: one record of one value (records/builders.py), what each record does (replay.py), the snapshot's
file (node.log.snapshot_files).
Source: Kafka 3.9 `MetadataImage.write` and the images' own `write`, in that order of families.
"""

from __future__ import annotations

from collections.abc import Iterator

from migrator.controller.decision import Record, partition_version, register_broker_version
from migrator.model.image import METADATA_VERSION, Image
from migrator.model.values import MigrationState, Topic
from migrator.records.builders import (
    acl_record,
    broker_record,
    config_record,
    controller_record,
    partition_record,
    producer_ids_record,
    quota_record,
    scram_record,
    token_record,
    topic_record,
)
from migrator.wire.messages.metadata import FeatureLevelRecord, NoOpRecord, ZkMigrationStateRecord


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
        yield broker_record(image.brokers[broker]), register_broker_version(level)
    for controller in sorted(image.controllers):
        yield controller_record(image.controllers[controller]), 0
    for topic in sorted(image.topics.values(), key=lambda each: each.name):
        yield from _topic(topic, level)
    for key in sorted(image.configs):
        for name, value in sorted(image.configs[key].items()):
            yield config_record(key, name, value), 0
    for entity in sorted(image.quotas, key=lambda each: each.place):
        for name, limit in sorted(image.quotas[entity].items()):
            yield quota_record(entity, name, limit), 0
    if image.next_producer_id >= 0:
        yield producer_ids_record(image.next_producer_id), 0
    for acl_id, acl in sorted(image.acls.items(), key=lambda each: (each[1], each[0])):
        yield acl_record(acl_id, acl), 0
    for whose in sorted(image.scram):
        yield scram_record(whose, image.scram[whose]), 0
    for token in sorted(image.tokens):
        yield token_record(image.tokens[token]), 0
    for mark in sorted(image.marks):
        yield NoOpRecord(mark=mark, mark_text=image.marks[mark]), 0


def _topic(topic: Topic, level: int) -> Iterator[Record]:
    """A partition without directories is written as a copy writes it: version 0 has no place for them."""
    yield topic_record(topic.name, topic.id), 0
    for partition in topic.partitions:
        yield partition_record(topic.id, partition), partition_version(level) if partition.directories else 0
