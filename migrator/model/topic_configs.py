"""The configuration that a topic can have: names, types, limits, defaults.

In:   names and values as text.
Out:  the reason why a value is refused, and the effective configuration of a topic with the source of each value.
Elsewhere: how one value is read (config_values.py), what values may not stand together (topic_rules.py), who may change
it and how it is stored (controller.configs), the same of brokers (broker_configs.py).
Source: Kafka 3.9 `LogConfig`, `ServerTopicConfigSynonyms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from migrator.model.config_values import (
    LONG_MAX,
    BadValue,
    ConfigRule,
    Value,
    parse_value,
    refuse_throttled_replicas,
    refuse_version,
)

HOUR_MS: Final = 3_600_000
WEEK_MS: Final = 168 * HOUR_MS


class ConfigSource(IntEnum):
    """Where an effective value comes from; Kafka's numbers in DescribeConfigs and CreateTopics."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


def _int(default: int, low: int, *synonyms: str) -> ConfigRule:
    return ConfigRule("int", str(default), low, synonyms=tuple((name, 1) for name in synonyms))


def _long(default: int, low: int | None, *synonyms: tuple[str, int]) -> ConfigRule:
    return ConfigRule("long", str(default), low, synonyms=synonyms)


def _boolean(default: str, *synonyms: str) -> ConfigRule:
    return ConfigRule("boolean", default, synonyms=tuple((name, 1) for name in synonyms))


_THROTTLED = ConfigRule("list", "", check=refuse_throttled_replicas)
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC_CONFIGS: Final[dict[str, ConfigRule]] = {
    "cleanup.policy": ConfigRule(
        "list", "delete", choices=("compact", "delete"), synonyms=(("log.cleanup.policy", 1),)
    ),
    "compression.gzip.level": ConfigRule("int", "-1", 1, 9, also=-1, synonyms=(("compression.gzip.level", 1),)),
    "compression.lz4.level": ConfigRule("int", "9", 1, 17, synonyms=(("compression.lz4.level", 1),)),
    "compression.type": ConfigRule("string", "producer", choices=_CODECS, synonyms=(("compression.type", 1),)),
    "compression.zstd.level": ConfigRule("int", "3", -131072, 22, synonyms=(("compression.zstd.level", 1),)),
    "delete.retention.ms": _long(24 * HOUR_MS, 0, ("log.cleaner.delete.retention.ms", 1)),
    "file.delete.delay.ms": _long(60_000, 0, ("log.segment.delete.delay.ms", 1)),
    "flush.messages": _long(LONG_MAX, 1, ("log.flush.interval.messages", 1)),
    "flush.ms": _long(LONG_MAX, 0, ("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "follower.replication.throttled.replicas": _THROTTLED,
    "index.interval.bytes": _int(4096, 0, "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": _THROTTLED,
    "local.retention.bytes": _long(-2, -2, ("log.local.retention.bytes", 1)),
    "local.retention.ms": _long(-2, -2, ("log.local.retention.ms", 1)),
    "max.compaction.lag.ms": _long(LONG_MAX, 1, ("log.cleaner.max.compaction.lag.ms", 1)),
    "max.message.bytes": _int(1024 * 1024 + 12, 0, "message.max.bytes"),
    "message.downconversion.enable": _boolean("true", "log.message.downconversion.enable"),
    "message.format.version": ConfigRule(
        "string", "3.0-IV1", check=refuse_version, synonyms=(("log.message.format.version", 1),)
    ),
    "message.timestamp.after.max.ms": _long(LONG_MAX, 0, ("log.message.timestamp.after.max.ms", 1)),
    "message.timestamp.before.max.ms": _long(LONG_MAX, 0, ("log.message.timestamp.before.max.ms", 1)),
    "message.timestamp.difference.max.ms": _long(LONG_MAX, 0, ("log.message.timestamp.difference.max.ms", 1)),
    "message.timestamp.type": ConfigRule(
        "string",
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        synonyms=(("log.message.timestamp.type", 1),),
    ),
    "min.cleanable.dirty.ratio": ConfigRule("double", "0.5", 0, 1, synonyms=(("log.cleaner.min.cleanable.ratio", 1),)),
    "min.compaction.lag.ms": _long(0, 0, ("log.cleaner.min.compaction.lag.ms", 1)),
    "min.insync.replicas": _int(1, 1, "min.insync.replicas"),
    "preallocate": _boolean("false", "log.preallocate"),
    "remote.log.copy.disable": _boolean("false"),
    "remote.log.delete.on.disable": _boolean("false"),
    "remote.storage.enable": _boolean("false"),
    "retention.bytes": _long(-1, None, ("log.retention.bytes", 1)),
    "retention.ms": _long(
        WEEK_MS, -1, ("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", HOUR_MS)
    ),
    "segment.bytes": _int(1 << 30, 14, "log.segment.bytes"),
    "segment.index.bytes": _int(10 * 1024 * 1024, 4, "log.index.size.max.bytes"),
    "segment.jitter.ms": _long(0, 0, ("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
    "segment.ms": _long(WEEK_MS, 1, ("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
    "unclean.leader.election.enable": _boolean("false", "unclean.leader.election.enable"),
}

DROPPED_IN_4: Final = frozenset(
    {"message.downconversion.enable", "message.format.version", "message.timestamp.difference.max.ms"}
)
"""Keys that Kafka 4.0 does not know any more; 4.0.0 to 4.2.0 refuse every change of a topic that has one."""


def parse_topic_config(values: Mapping[str, str | None]) -> dict[str, Value]:
    """Typed values of those keys that are given. Raises `BadValue` for the first that Kafka refuses."""
    unset = sorted(name for name, value in values.items() if value is None)
    if unset:
        raise BadValue(f"Null value not supported for topic configs: {','.join(unset)}")
    found: dict[str, Value] = {}
    for name, value in values.items():
        rule = TOPIC_CONFIGS.get(name)
        if rule is None:
            raise BadValue(f"Unknown topic config name: {name}")
        refusal = refuse_value(name, value or "", rule)
        if refusal is not None:
            raise BadValue(refusal)
        found[name] = parse_value(value or "", rule)
    return found


def refuse_value(name: str, value: str, rule: ConfigRule) -> str | None:
    """Why this key may not have this value; None when it may."""
    try:
        parse_value(value, rule)
    except BadValue as bad:
        return f"Invalid value {value} for configuration {name}: {bad}"
    return None


@dataclass(frozen=True, slots=True)
class Inherited:
    """What a topic gets where it says nothing itself, the nearest first.

    node: dynamic configuration of this controller; brokers: of all; static: this controller's own properties file.
    """

    node: Mapping[str, str] = field(default_factory=dict)
    brokers: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, str] = field(default_factory=dict)


def effective(topic: Mapping[str, str], inherited: Inherited) -> dict[str, tuple[str, ConfigSource]]:
    """Each key with the value that a topic would run with and where it is from."""
    found = dict(_DEFAULTS)
    for values, source in (
        (inherited.static, ConfigSource.STATIC_BROKER),
        (inherited.brokers, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (inherited.node, ConfigSource.DYNAMIC_BROKER),
    ):
        for name in {each for synonym in _BY_SYNONYM.keys() & values.keys() for each in _BY_SYNONYM[synonym]}:
            found[name] = (_by_synonym(TOPIC_CONFIGS[name], values), source)
    for name in TOPIC_CONFIGS.keys() & topic.keys():
        found[name] = (topic[name], ConfigSource.DYNAMIC_TOPIC)
    return found


def _by_synonym(rule: ConfigRule, values: Mapping[str, str]) -> str:
    """The first of the rule's synonyms that is set; one of them is."""
    name, factor = next(each for each in rule.synonyms if each[0] in values)
    if factor == 1:
        return values[name]
    try:
        return str(int(values[name]) * factor)
    except ValueError:  # of brokers anything may be set; a broker that reads it passes it over
        return rule.default


def _keys_by_synonym() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, rule in TOPIC_CONFIGS.items():
        for synonym, _ in rule.synonyms:
            found.setdefault(synonym, []).append(name)
    return found


_DEFAULTS: Final = {name: (rule.default, ConfigSource.DEFAULT) for name, rule in TOPIC_CONFIGS.items()}
_BY_SYNONYM: Final = _keys_by_synonym()
"""Which topic keys a broker key gives a value to: few are set, so the answer begins with the defaults."""
