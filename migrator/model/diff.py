"""The keys in which two images differ.

In:   two images, and which families to compare.
Out:  a `Delta` from left to right whose key sets are exact: reading ZooKeeper as an image and comparing it with
      the log's image gives the same kind of value as a committed change does, so one planner serves both.
Elsewhere: turning a delta into znode operations (driver.mirror) or broker requests (driver.broker_updates).
"""

from __future__ import annotations

from typing import Any, TypeVar

from immutables import Map

from migrator.model.draft import Delta
from migrator.model.image import Image
from migrator.model.values import AclResource, ConfigKey, ConfigType, Partition, Topic

MIRRORED_CONFIGS = (ConfigType.TOPIC, ConfigType.BROKER)
"""The configuration that has a form in ZooKeeper; client metrics and groups have none."""

K = TypeVar("K")


def diff(left: Image, right: Image) -> Delta:
    """The topics, mirrored configs, producer ids, quotas, credentials, ACLs and tokens in which two images differ.

    ACLs are compared by what they say: ZooKeeper does not know their ids. Brokers, controllers and features are left
    out: they have no znode that we write. Directories are ignored: ZooKeeper does not know them.
    """
    return Delta(
        before=left,
        after=right,
        topics=_differing_topics(left.topics, right.topics),
        configs=_differing_configs(left, right),
        producer_ids=left.next_producer_id != right.next_producer_id,
        scram=_differing(left.scram, right.scram),
        quotas=_differing(left.quotas, right.quotas),
        acls=_differing_acls(left, right),
        tokens=_differing(left.tokens, right.tokens),
    )


def same_partition(left: Partition, right: Partition) -> bool:
    """Equal in all that ZooKeeper can say (directories it cannot)."""
    return (
        left.leader == right.leader
        and left.leader_epoch == right.leader_epoch
        and left.partition_epoch == right.partition_epoch
        and left.isr == right.isr
        and left.replicas == right.replicas
        and left.removing == right.removing
        and left.adding == right.adding
        and left.recovery == right.recovery
    )


def same_topic(left: Topic, right: Topic) -> bool:
    return (
        left.name == right.name
        and len(left.partitions) == len(right.partitions)
        and all(a.id == b.id and same_partition(a, b) for a, b in zip(left.partitions, right.partitions, strict=True))
    )


def _differing_topics(left: Map[bytes, Topic], right: Map[bytes, Topic]) -> frozenset[bytes]:
    found = {topic_id for topic_id in left if topic_id not in right}
    for topic_id, topic in right.items():
        other = left.get(topic_id)
        if other is None or (other is not topic and not same_topic(other, topic)):
            found.add(topic_id)
    return frozenset(found)


def _differing_configs(left: Image, right: Image) -> frozenset[ConfigKey]:
    keys = {key for key in left.configs if key.type in MIRRORED_CONFIGS}
    keys |= {key for key in right.configs if key.type in MIRRORED_CONFIGS}
    return frozenset(key for key in keys if left.configs.get(key) != right.configs.get(key))


def _differing(left: Map[K, Any], right: Map[K, Any]) -> frozenset[K]:
    return frozenset(key for key in {*left, *right} if left.get(key) != right.get(key))


def _differing_acls(left: Image, right: Image) -> frozenset[AclResource]:
    either = {*left.acl_ids, *right.acl_ids}
    return frozenset(each for each in either if left.acl_entries(each) != right.acl_entries(each))
