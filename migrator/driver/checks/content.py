"""What a tree holds that Kafka could read and KRaft would refuse, lose or trip over: each a finding with its path.

In:   a reading of ZooKeeper.
Out:  occurrences of findings; those that block are for the takeover gate as for `zk2kraft check`.
Elsewhere: what cannot be read at all (tree.py, families.py), whether the cluster is healthy (gate.py), the settings of
brokers and controllers (settings.py). Which case each answers: docs/cases.md.
Source: Kafka 3.9 `Topic`, `ControllerConfigurationValidator`, `DynamicBrokerConfig`, `ZkConfigMigrationClient`;
`Partition.appendRecordsToLeader`, of 3.6 also; `AdminUtils`, the same in 3.6 to 3.9; `AutoTopicCreationManager`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, cast

from migrator.driver.tree import TopicReading, Tree, live_and_assigned
from migrator.findings.content import (
    ASSIGNMENT_IMPOSSIBLE,
    BROKER_CONFIG_REFUSED,
    BROKER_CONFIG_UNUSED,
    BROKER_IDS_ABOVE_RESERVED,
    BROKER_TOO_OLD,
    CONFIG_FAMILY_NOT_COPIED,
    EPOCH_BEHIND_STATES,
    GROUPS_IN_ZOOKEEPER,
    INTERNAL_TOPIC_NOT_COMPACTED,
    LISTENERS_DYNAMIC,
    MALFORMED_ZNODE,
    MIN_ISR_ABOVE_REPLICAS,
    REFUSED_BY_LATER_KAFKA,
    REPLICAS_IN_ONE_RACK,
    TOPIC_CONFIG_DROPPED,
    TOPIC_CONFIG_REFUSED,
    TOPIC_CONFIG_UNKNOWN,
    TOPIC_NAME_IMPOSSIBLE,
    TOPIC_NAMES_COLLIDE,
    ZNODE_GUARDED,
)
from migrator.findings.finding import Occurrence
from migrator.model.at_a_stop import MIN_ISR
from migrator.model.broker_configs import LISTENER_KEYS, refuse_broker_config
from migrator.model.config_values import parse_value
from migrator.model.later_configs import RAISED_OF_BROKERS, RAISED_OF_TOPICS, refused_later
from migrator.model.names import unified
from migrator.model.topic_configs import DROPPED_IN_4, TOPIC_CONFIGS, refuse_value
from migrator.model.topic_rules import TOTAL_UNKNOWN, refuse_topic_config
from migrator.model.values import Partition
from migrator.zk import paths

CLEANUP_POLICY: Final = "cleanup.policy"
COMPACTED: Final = frozenset({"__consumer_offsets", "__transaction_state"})
REGISTRATION_VERSION: Final = 5
"""Of `/brokers/ids/N` from inter.broker.protocol.version 2.7 on."""
RESERVED_BROKER_MAX_ID: Final = 1_000
"""Kafka's default of `reserved.broker.max.id`: ZooKeeper generates ids above it."""
METADATA_TOPIC: Final = "__cluster_metadata"
CONFIGS_REMEMBERED: Final = 32_768
"""Topics share configurations, and the same ones are asked about again and again, once inside the window."""

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
BROKER_ID: Final = re.compile("0|[1-9][0-9]{0,9}")


def oddities(tree: Tree) -> Iterator[Occurrence]:
    """Everything of this kind, in a stable order."""
    for path, acl in tree.guarded.items():
        yield ZNODE_GUARDED.found(path=path, acl=acl)
    yield from _epoch(tree)
    live, assigned = live_and_assigned(tree)
    known = live | assigned.keys()
    yield from _brokers(tree, known)
    yield from _topics(tree)
    yield from _broker_configs(tree, known)
    for path in tree.uncopied_configs:
        yield CONFIG_FAMILY_NOT_COPIED.found(path=path)
    if tree.consumer_groups:
        first = f"{paths.CONSUMERS}/{tree.consumer_groups[0]}"
        yield GROUPS_IN_ZOOKEEPER.found(count=len(tree.consumer_groups), path=first)


def _epoch(tree: Tree) -> Iterator[Occurrence]:
    """Brokers do not listen to a controller below the epoch in a partition's state (F-40)."""
    highest = tree.highest_controller_epoch()
    if tree.controller_epoch is None or highest <= tree.controller_epoch:
        return
    name = min(name for name, each in tree.topics.items() if each.controller_epoch_max == highest)
    yield EPOCH_BEHIND_STATES.found(
        path=paths.CONTROLLER_EPOCH, epoch=tree.controller_epoch, topic=paths.topic(name), highest=highest
    )


def _brokers(tree: Tree, known: Collection[int]) -> Iterator[Occurrence]:
    """known: ids that live or are in an assignment."""
    for broker, znode in sorted(tree.brokers.items()):
        if znode.version < REGISTRATION_VERSION:
            yield BROKER_TOO_OLD.found(path=paths.broker_id(broker), version=znode.version)
    above = sorted(broker for broker in known if broker > RESERVED_BROKER_MAX_ID)
    if above:
        yield BROKER_IDS_ABOVE_RESERVED.found(brokers=above)


# --- topics -----------------------------------------------------------------------------------------------


def _topics(tree: Tree) -> Iterator[Occurrence]:
    fine: set[tuple[int, ...]] = set()
    racks = _racks(tree)
    judged: dict[tuple[int, ...], str | None] = {}
    names = sorted(tree.topics)
    for name in names:
        reading = tree.topics[name]
        reason = refuse_topic_name(name)
        if reason is not None:
            yield TOPIC_NAME_IMPOSSIBLE.found(path=paths.topic(name), reason=reason)
        yield from _assignment(name, reading, fine)
        if racks:
            yield from _one_rack(name, reading, racks, judged)
        if reading.config:
            yield from _topic_config(name, reading.config)
            yield from _minimum(name, reading)
        if name in COMPACTED:
            yield from _compacted(name, reading.config)
    yield from _collisions(names)


def refuse_topic_name(name: str) -> str | None:
    if name == METADATA_TOPIC:
        return "it is the name of the metadata log"
    if name in (".", "..") or not _TOPIC_NAME.fullmatch(name):
        return "a name has 1 to 249 of the letters a-z, A-Z, 0-9, '.', '_' and '-', and is not '.' or '..'"
    return None


def _collisions(names: Sequence[str]) -> Iterator[Occurrence]:
    """names: sorted. Kafka refuses to create such a topic, but it may be older than that rule."""
    all_unified = [unified(name) for name in names]
    if len(set(all_unified)) == len(names):
        return  # the way of nearly every cluster
    alike: dict[str, list[str]] = {}
    for name, same in zip(names, all_unified, strict=True):
        alike.setdefault(same, []).append(name)
    for first, *others in alike.values():
        if others:
            yield TOPIC_NAMES_COLLIDE.found(path=paths.topic(first), others=others)


def _assignment(name: str, reading: TopicReading, fine: set[tuple[int, ...]]) -> Iterator[Occurrence]:
    """fine: replica lists that were looked at already; a million partitions share few."""
    if not reading.topic.partitions and reading.sound:
        yield ASSIGNMENT_IMPOSSIBLE.found(path=paths.topic(name), reason="it has no partition")
    for partition in reading.topic.partitions:
        if partition.replicas in fine:
            continue  # the way of nearly every partition
        reason = _refuse_replicas(partition.replicas)
        if reason is None:
            fine.add(partition.replicas)
        else:
            reason = f"partition {partition.id} is on {list(partition.replicas)}, {reason}"
            yield ASSIGNMENT_IMPOSSIBLE.found(path=paths.topic(name), reason=reason)


def _refuse_replicas(replicas: tuple[int, ...]) -> str | None:
    if not replicas:
        return "on no broker"
    if min(replicas) < 0:
        return "and ids are not negative"
    return "a broker twice" if len(set(replicas)) != len(replicas) else None


def _racks(tree: Tree) -> dict[int, str]:
    """Racks by broker, of those that have one; nothing where these are all in the same rack."""
    racks = {broker: znode.rack for broker, znode in tree.brokers.items() if znode.rack}
    return racks if len(set(racks.values())) > 1 else {}


def _one_rack(
    name: str, reading: TopicReading, racks: Mapping[int, str], judged: dict[tuple[int, ...], str | None]
) -> Iterator[Occurrence]:
    """judged: the one rack of replica lists that were looked at already, None where there is no such rack."""
    found: list[tuple[int, str]] = []
    for partition in reading.topic.partitions:
        replicas = _staying(partition) if partition.removing else partition.replicas
        if replicas not in judged:
            judged[replicas] = _rack_of_all(replicas, racks)
        rack = judged[replicas]
        if rack is not None:
            found.append((partition.id, rack))
    if found:
        first, rack = found[0]
        yield REPLICAS_IN_ONE_RACK.found(path=paths.topic(name), count=len(found), first=f"{name}-{first}", rack=rack)


def _staying(partition: Partition) -> tuple[int, ...]:
    """Where the replicas are when the reassignment has ended: a single replica that moves is no second one."""
    return tuple(each for each in partition.replicas if each not in partition.removing)


def _rack_of_all(replicas: tuple[int, ...], racks: Mapping[int, str]) -> str | None:
    """The rack of two or more replicas. A broker that is not registered or names no rack may be in any rack."""
    found = {racks.get(broker) for broker in replicas}
    return found.pop() if len(found) == 1 and len(set(replicas)) > 1 else None


def _topic_config(name: str, values: dict[str, str]) -> Iterator[Occurrence]:
    unknown, reason = _judged(frozenset(values.items()))
    if unknown:
        yield TOPIC_CONFIG_UNKNOWN.found(path=paths.topic_config(name), keys=", ".join(unknown))
    if dropped := sorted(DROPPED_IN_4 & values.keys()):
        yield TOPIC_CONFIG_DROPPED.found(path=paths.topic_config(name), keys=", ".join(dropped))
    for refused in refused_later(values, RAISED_OF_TOPICS):
        yield REFUSED_BY_LATER_KAFKA.found(where=paths.topic_config(name), **refused._asdict())
    if reason is not None:
        yield TOPIC_CONFIG_REFUSED.found(path=paths.topic_config(name), reason=reason)


def _compacted(name: str, config: Mapping[str, str]) -> Iterator[Occurrence]:
    """Without a value of its own the topic has the one of the brokers' files, which is delete if nobody changed it."""
    if "compact" not in {each.strip() for each in config.get(CLEANUP_POLICY, "").split(",")}:
        yield INTERNAL_TOPIC_NOT_COMPACTED.found(path=paths.topic_config(name), topic=name)


@lru_cache(CONFIGS_REMEMBERED)
def _judged(values: frozenset[tuple[str, str]]) -> tuple[tuple[str, ...], str | None]:
    """Keys that Kafka does not know, and why it would refuse the others."""
    known = {key: value for key, value in sorted(values) if key in TOPIC_CONFIGS}
    unknown = tuple(sorted(key for key, _ in values if key not in TOPIC_CONFIGS))
    return unknown, refuse_topic_config(known, inherited=TOTAL_UNKNOWN, knows_storage=False)


def _minimum(name: str, reading: TopicReading) -> Iterator[Occurrence]:
    """Only what the topic itself sets: brokers' files are not in ZooKeeper."""
    text = reading.config.get(MIN_ISR)
    minimum = 1 if text is None else _min_isr(text)
    if minimum == 1:
        return  # nothing has fewer, except what is no assignment
    fewer = [each.id for each in reading.topic.partitions if 0 < len(each.replicas) < minimum]
    if fewer:
        yield MIN_ISR_ABOVE_REPLICAS.found(
            path=paths.topic_config(name), minimum=minimum, count=len(fewer), first=f"{name}-{min(fewer)}"
        )


@lru_cache(CONFIGS_REMEMBERED)
def _min_isr(text: str) -> int:
    """1, which every partition fulfils, for a value that is refused: that is a finding of its own."""
    rule = TOPIC_CONFIGS[MIN_ISR]
    return 1 if refuse_value(MIN_ISR, text, rule) else cast("int", parse_value(text, rule))


# --- brokers' configuration -------------------------------------------------------------------------------


def _broker_configs(tree: Tree, known: Collection[int]) -> Iterator[Occurrence]:
    for broker, values in sorted(tree.broker_configs.items()):
        path = paths.broker_config(broker)
        if broker and not BROKER_ID.fullmatch(broker):
            yield MALFORMED_ZNODE.found(path=path, reason="its name is not the id of a broker")
        elif broker and values and int(broker) not in known:
            yield BROKER_CONFIG_UNUSED.found(path=path, broker=broker)
        for key in LISTENER_KEYS:
            if key in values:
                yield LISTENERS_DYNAMIC.found(path=path, key=key)
        for key, value in sorted(values.items()):
            reason = refuse_broker_config(key, value)
            if reason is not None:
                yield BROKER_CONFIG_REFUSED.found(path=path, reason=reason)
        for refused in refused_later(values, RAISED_OF_BROKERS):
            yield REFUSED_BY_LATER_KAFKA.found(where=path, **refused._asdict())
