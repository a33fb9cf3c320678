"""The configuration that a topic can have: names, types, limits, defaults.

In:   names and values as text.
Out:  the reason why a value is refused, and the effective configuration of a topic with the source of each value.
Elsewhere: who may change it and how it is stored (configs.py).
Source: Kafka 3.9 `LogConfig`, `ServerTopicConfigSynonyms`. Remote storage is validated by the broker that has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1
HOUR_MS: Final = 3_600_000
WEEK_MS: Final = 168 * HOUR_MS
NUMBER_LENGTH_MAX: Final = 100
"""No number that means something is longer; a text of thousands of digits is not even looked at."""


class Source(IntEnum):
    """Where an effective value comes from; Kafka's numbers in DescribeConfigs and CreateTopics."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class Rule:
    """One key. kind: "int", "long", "double", "boolean", "string" or "list". synonyms: (broker key, factor to ms)."""

    kind: str
    default: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    synonyms: tuple[tuple[str, int], ...] = ()
    pattern: str | None = None


def _int(default: int, low: int, *synonyms: str) -> Rule:
    return Rule("int", str(default), low, INT_MAX, synonyms=tuple((name, 1) for name in synonyms))


def _long(default: int, low: int | None, *synonyms: tuple[str, int]) -> Rule:
    return Rule("long", str(default), low, LONG_MAX, synonyms=synonyms)


def _boolean(default: str, *synonyms: str) -> Rule:
    return Rule("boolean", default, choices=("true", "false"), synonyms=tuple((name, 1) for name in synonyms))


_THROTTLED = Rule("list", "", pattern=r"\*|(\d+:\d+)?")
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC_CONFIGS: Final[dict[str, Rule]] = {
    "cleanup.policy": Rule("list", "delete", choices=("compact", "delete"), synonyms=(("log.cleanup.policy", 1),)),
    "compression.gzip.level": Rule("int", "-1", -1, 9, synonyms=(("compression.gzip.level", 1),)),
    "compression.lz4.level": Rule("int", "9", 1, 17, synonyms=(("compression.lz4.level", 1),)),
    "compression.type": Rule("string", "producer", choices=_CODECS, synonyms=(("compression.type", 1),)),
    "compression.zstd.level": Rule("int", "3", -131072, 22, synonyms=(("compression.zstd.level", 1),)),
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
    "message.format.version": Rule("string", "3.0-IV1", synonyms=(("log.message.format.version", 1),)),
    "message.timestamp.after.max.ms": _long(LONG_MAX, 0, ("log.message.timestamp.after.max.ms", 1)),
    "message.timestamp.before.max.ms": _long(LONG_MAX, 0, ("log.message.timestamp.before.max.ms", 1)),
    "message.timestamp.difference.max.ms": _long(LONG_MAX, 0, ("log.message.timestamp.difference.max.ms", 1)),
    "message.timestamp.type": Rule(
        "string",
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        synonyms=(("log.message.timestamp.type", 1),),
    ),
    "min.cleanable.dirty.ratio": Rule("double", "0.5", 0, 1, synonyms=(("log.cleaner.min.cleanable.ratio", 1),)),
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


def refuse_topic_config(values: Mapping[str, str | None]) -> str | None:
    """Why a topic may not have this configuration as a whole; None when it may."""
    unset = sorted(name for name, value in values.items() if value is None)
    if unset:
        return f"Null value not supported for topic configs: {','.join(unset)}"
    for name, value in values.items():
        rule = TOPIC_CONFIGS.get(name)
        if rule is None:
            return f"Unknown topic config name: {name}"
        refusal = _refuse_value(name, value or "", rule)
        if refusal is not None:
            return refusal
    low, high = (
        int(values.get(name) or TOPIC_CONFIGS[name].default)
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if low > high:
        return f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
    return None


def _refuse_value(name: str, value: str, rule: Rule) -> str | None:
    text = value.strip()
    match rule.kind:
        case "int" | "long" | "double":
            return _refuse_number(name, text, rule)
        case "boolean":
            return None if text.lower() in rule.choices else _invalid(name, value, "Expected value to be true or false")
        case "list":
            return _refuse_list(name, text, rule)
        case _:
            return None if not rule.choices or text in rule.choices else _invalid(name, value, _one_of(rule))


def _refuse_number(name: str, text: str, rule: Rule) -> str | None:
    shape = r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?" if rule.kind == "double" else r"[+-]?\d+"
    if len(text) > NUMBER_LENGTH_MAX or re.fullmatch(shape, text) is None:
        return _invalid(name, text, f"Not a number of type {rule.kind.upper()}")
    number = float(text) if rule.kind == "double" else int(text)
    if rule.low is not None and number < rule.low:
        return _invalid(name, text, f"Value must be at least {rule.low:g}")
    if rule.high is not None and number > rule.high:
        return _invalid(name, text, f"Value must be no more than {rule.high:g}")
    return None


def _refuse_list(name: str, text: str, rule: Rule) -> str | None:
    for part in (each.strip() for each in text.split(",") if text):
        if rule.choices and part not in rule.choices:
            return _invalid(name, text, _one_of(rule))
        if rule.pattern and re.fullmatch(rule.pattern, part) is None:
            return _invalid(name, text, "must be * or a list of partition:broker")
    return None


def _one_of(rule: Rule) -> str:
    return f"String must be one of: {', '.join(rule.choices)}"


def _invalid(name: str, value: str, reason: str) -> str:
    return f"Invalid value {value} for configuration {name}: {reason}"


def effective(
    topic: Mapping[str, str], default_brokers: Mapping[str, str], static: Mapping[str, str]
) -> dict[str, tuple[str, Source]]:
    """Each key with the value that a topic would run with and where it is from.

    default_brokers: dynamic configuration of all brokers; static: this controller's own properties file.
    """
    found = dict(_DEFAULTS)
    for values, source in ((static, Source.STATIC_BROKER), (default_brokers, Source.DYNAMIC_DEFAULT_BROKER)):
        for name in {each for synonym in _BY_SYNONYM.keys() & values.keys() for each in _BY_SYNONYM[synonym]}:
            found[name] = (_by_synonym(TOPIC_CONFIGS[name], values), source)
    for name in TOPIC_CONFIGS.keys() & topic.keys():
        found[name] = (topic[name], Source.DYNAMIC_TOPIC)
    return found


def _by_synonym(rule: Rule, values: Mapping[str, str]) -> str:
    """The first of the rule's synonyms that is set; one of them is."""
    name, factor = next(each for each in rule.synonyms if each[0] in values)
    return values[name] if factor == 1 else str(int(values[name]) * factor)


def _keys_by_synonym() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, rule in TOPIC_CONFIGS.items():
        for synonym, _ in rule.synonyms:
            found.setdefault(synonym, []).append(name)
    return found


_DEFAULTS: Final = {name: (rule.default, Source.DEFAULT) for name, rule in TOPIC_CONFIGS.items()}
_BY_SYNONYM: Final = _keys_by_synonym()
"""Which topic keys a broker key gives a value to: few are set, so the answer begins with the defaults."""


def is_list(name: str) -> bool:
    rule = TOPIC_CONFIGS.get(name)
    return rule is not None and rule.kind == "list"
