"""Builders of values that can exist: an image with topics, brokers, a claim. They refuse the rest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from migrator.driver.claim import Claim
from migrator.model.draft import Draft
from migrator.model.image import EMPTY, METADATA_VERSION, Image, Position
from migrator.model.values import (
    Acl,
    Broker,
    ConfigKey,
    ConfigType,
    DelegationToken,
    FeatureRange,
    Listener,
    MigrationState,
    Partition,
    QuotaEntity,
    ScramCredential,
    ScramKey,
    Topic,
)


def an_id(name: str) -> bytes:
    """A stable 16-byte id."""
    return hashlib.sha256(name.encode()).digest()[:16]


def a_partition(
    partition: int = 0,
    replicas: Sequence[int] = (1, 2, 3),
    isr: Sequence[int] | None = None,
    leader: int | None = None,
    **changes: Any,
) -> Partition:
    in_sync = tuple(replicas if isr is None else isr)
    assert set(in_sync) <= set(replicas), "an ISR member has to be a replica"
    chosen = in_sync[0] if leader is None else leader
    assert chosen == -1 or chosen in in_sync, "the leader has to be in sync"
    return Partition(partition, tuple(replicas), in_sync, chosen, **changes)


def a_topic(name: str = "orders", partitions: int | Sequence[Partition] = 1, topic_id: bytes | None = None) -> Topic:
    made = tuple(map(a_partition, range(partitions))) if isinstance(partitions, int) else tuple(partitions)
    return Topic(name, topic_id or an_id(name), made)


def a_broker(broker: int, *, fenced: bool = False, epoch: int | None = None, **changes: Any) -> Broker:
    fields: dict[str, Any] = {
        "listeners": (Listener("PLAINTEXT", "127.0.0.1", 9090 + broker),),
        "features": (FeatureRange(METADATA_VERSION, 21, 21),),
        "migrating": True,
        "log_dirs": (an_id(f"dir-{broker}"),),
        **changes,
    }
    return Broker(broker, 100 + broker if epoch is None else epoch, an_id(f"run-{broker}"), fenced=fenced, **fields)


def an_image(
    *topics: Topic,
    brokers: Sequence[int | Broker] = (1, 2, 3),
    topic_configs: Mapping[str, Mapping[str, str]] | None = None,
    broker_configs: Mapping[str, Mapping[str, str]] | None = None,
    next_producer_id: int | None = None,
    quotas: Mapping[QuotaEntity, Mapping[str, float]] | None = None,
    scram: Mapping[ScramKey, ScramCredential] | None = None,
    acls: Sequence[Acl] = (),
    tokens: Sequence[DelegationToken] = (),
    marks: Mapping[str, str] | None = None,
    migration: MigrationState = MigrationState.MIGRATION,
    offset: int = 1000,
    epoch: int = 1,
) -> Image:
    draft = Draft(EMPTY)
    draft.set_feature(METADATA_VERSION, 21)
    draft.set_migration(migration)
    for broker in brokers:
        draft.put_broker(broker if isinstance(broker, Broker) else a_broker(broker))
    for topic in topics:
        draft.put_topic(topic)
    for name, values in (topic_configs or {}).items():
        assert any(topic.name == name for topic in topics), f"{name} does not exist"
        draft.put_config(ConfigKey(ConfigType.TOPIC, name), values.items())
    for name, values in (broker_configs or {}).items():
        draft.put_config(ConfigKey(ConfigType.BROKER, name), values.items())
    for entity, limits in (quotas or {}).items():
        for key, value in limits.items():
            draft.set_quota(entity, key, value)
    for whose, credential in (scram or {}).items():
        draft.put_scram(whose, credential)
    for acl in acls:
        draft.put_acl(an_id(repr(acl)), acl)
    for token in tokens:
        draft.put_token(token)
    for mark, text in (marks or {}).items():
        draft.set_mark(mark, text)
    if next_producer_id is not None:
        draft.set_next_producer_id(next_producer_id)
    return draft.finish(Position(epoch, offset)).after


def a_claim(**changes: Any) -> Claim:
    fields: dict[str, Any] = {
        "node": 3000,
        "kraft_epoch": 5,
        "zk_epoch": 9,
        "epoch_version": 9,
        "controller_version": 0,
        "migration_version": 1,
        "ephemeral": False,
    }
    return Claim(**{**fields, **changes})
