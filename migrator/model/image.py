"""The whole metadata of a cluster at one offset of the log, as one frozen value.

In:   nothing; the empty image is where every log starts, `draft.py` makes the others.
Out:  lookups. Two images share everything in which they do not differ (the maps are persistent tries), so that
      the controller can keep the committed and the newest image side by side at no cost.
Elsewhere: applying records (controller.replay), comparing (diff.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from immutables import Map

from migrator.model.values import (
    Acl,
    AclEntry,
    AclResource,
    Broker,
    ConfigKey,
    ConfigType,
    Controller,
    DelegationToken,
    Mark,
    MigrationState,
    Partition,
    QuotaEntity,
    ScramCredential,
    ScramKey,
    Topic,
)

Config = Map[str, str]
NO_CONFIG: Config = Map()
Quotas = Map[str, float]
NO_QUOTAS: Quotas = Map()
METADATA_VERSION = "metadata.version"


class Position(msgspec.Struct, frozen=True, gc=False, order=True):
    """A place in the log: ordered by epoch, then offset. `offset` is the last one contained, -1 for none."""

    epoch: int
    offset: int


NOWHERE = Position(epoch=-1, offset=-1)


class Image(msgspec.Struct, frozen=True):
    """Everything that the records up to and including `position` say."""

    position: Position = NOWHERE
    features: Map[str, int] = Map()
    migration: MigrationState = MigrationState.NONE
    brokers: Map[int, Broker] = Map()
    controllers: Map[int, Controller] = Map()
    topics: Map[bytes, Topic] = Map()
    topic_ids: Map[str, bytes] = Map()
    configs: Map[ConfigKey, Config] = Map()
    next_producer_id: int = -1
    """The first id not yet handed out; -1 while no block ever was."""
    scram: Map[ScramKey, ScramCredential] = Map()
    quotas: Map[QuotaEntity, Quotas] = Map()
    """By entity; none of them is empty."""
    acls: Map[bytes, Acl] = Map()
    """By id, 16 bytes."""
    acl_ids: Map[AclResource, frozenset[bytes]] = Map()
    """The same the other way round: the ids of a resource's ACLs, never empty."""
    tokens: Map[str, DelegationToken] = Map()
    """By token id."""
    marks: Map[str, str] = Map()
    """What this log says of itself, which Kafka's readers do not see: `Mark` and its text."""

    @property
    def metadata_version(self) -> int:
        """The finalized level; a log without the feature counts as level 1."""
        return self.features.get(METADATA_VERSION, 1)

    @property
    def is_empty(self) -> bool:
        return self.position.offset < 0

    def topic(self, name: str) -> Topic | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: bytes, partition_id: int) -> Partition | None:
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partition(partition_id)

    def config(self, type_: ConfigType, name: str) -> Config:
        return self.configs.get(ConfigKey(type_, name), NO_CONFIG)

    def acl_entries(self, resource: AclResource) -> frozenset[AclEntry]:
        """What the ACLs of one resource say, without their ids."""
        return frozenset(self.acls[each].entry for each in self.acl_ids.get(resource, ()))

    def partitions(self) -> Iterator[tuple[Topic, Partition]]:
        for topic in self.topics.values():
            for partition in topic.partitions:
                yield topic, partition

    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())


EMPTY = Image()


class CommittedCopy(msgspec.Struct, frozen=True):
    """What the log said before the copy of a takeover took effect, and right after it."""

    before: Image
    after: Image


def committed_copy(known: CommittedCopy | None, before: Image, after: Image) -> CommittedCopy | None:
    """The copy of a takeover that is not in dual-write yet, taken from one image to a later one; None: there is none.

    It is kept as long as the log says that the takeover is under way (`Mark.TAKEOVER`).
    """
    if Mark.TAKEOVER not in after.marks:
        return None
    is_copy = before.migration is not MigrationState.MIGRATION and after.migration is MigrationState.MIGRATION
    return CommittedCopy(before, after) if is_copy else known
