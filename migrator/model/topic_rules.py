"""What the values of a topic's configuration may not be together.

In:   a topic's own values, those that it had before, what it inherits.
Out:  the reason why it may not have them; None when it may.
Elsewhere: each value by itself (topic_configs.py).
Source: Kafka 3.9 `LogConfig.validate`, as `ControllerConfigurationValidator` calls it in KRaft mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from migrator.model.config_values import BadValue, Value, parse_value
from migrator.model.topic_configs import TOPIC_CONFIGS, Inherited, effective, parse_topic_config

REMOTE_SYSTEM: Final = "remote.log.storage.system.enable"
NOTHING: Final = Inherited()
TOTAL_UNKNOWN: Final = Inherited(static={"log.retention.ms": "-1"})
"""Where brokers' files are not known, a local retention is not held against a total one that the topic inherits."""
INHERITED: Final = -2
"""A local retention of -2 is the total one."""
_NEEDED: Final = (
    "cleanup.policy",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "min.compaction.lag.ms",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
)


def refuse_topic_config(
    values: Mapping[str, str | None],
    *,
    before: Mapping[str, str] | None = None,
    inherited: Inherited = NOTHING,
    knows_storage: bool = True,
) -> str | None:
    """Why a topic may not have this configuration as a whole; None when it may.

    before: its own values up to now. knows_storage: False where nobody can tell whether brokers have remote storage, so
    that it is not asked.
    """
    try:
        given = parse_topic_config(values)
    except BadValue as bad:
        return str(bad)
    without = effective({}, inherited)
    whole = {name: given[name] if name in given else _inherited(name, without[name][0]) for name in _NEEDED}
    low, high = _number(whole, "min.compaction.lag.ms"), _number(whole, "max.compaction.lag.ms")
    if low > high:
        return f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
    if whole["remote.storage.enable"]:
        has_storage = not knows_storage or inherited.static.get(REMOTE_SYSTEM, "").strip().lower() == "true"
        return _refuse_remote(whole, has_storage=has_storage)
    was_remote = (before or {}).get("remote.storage.enable", "").lower() == "true"
    if was_remote and not whole["remote.log.delete.on.disable"]:
        return (
            "It is invalid to disable remote storage without deleting remote data. To keep it: "
            "remote.storage.enable=true,remote.log.copy.disable=true. To delete it: "
            "remote.storage.enable=false,remote.log.delete.on.disable=true."
        )
    return None


def _inherited(name: str, text: str) -> Value:
    """What a broker's own file says is not judged here: a value that cannot be read counts as the default."""
    rule = TOPIC_CONFIGS[name]
    try:
        return parse_value(text, rule)
    except BadValue:
        return parse_value(rule.default, rule)


def _number(values: Mapping[str, Value], name: str) -> int:
    found = values[name]
    assert isinstance(found, int), (name, found)
    return found


def _refuse_remote(whole: Mapping[str, Value], *, has_storage: bool) -> str | None:
    if not has_storage:
        return "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote storage."
    policy = whole["cleanup.policy"]
    assert isinstance(policy, tuple), policy
    if "compact" in policy:
        return "Remote log storage is unsupported for the compacted topics"
    for unit in ("bytes", "ms"):
        total, local = _number(whole, f"retention.{unit}"), _number(whole, f"local.retention.{unit}")
        is_limited = total > -1 if unit == "bytes" else total != -1
        if is_limited and local != INHERITED and (local == -1 or local > total):
            return f"local.retention.{unit} ({local}) must not be more than retention.{unit} ({total})"
    for unit in ("bytes", "ms"):
        total, local = _number(whole, f"retention.{unit}"), _number(whole, f"local.retention.{unit}")
        if whole["remote.log.copy.disable"] and local not in (INHERITED, total):
            return f"With remote.log.copy.disable, local.retention.{unit} and retention.{unit} must be equal"
    return None
