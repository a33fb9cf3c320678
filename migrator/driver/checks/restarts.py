"""What would change at a broker's next restart, though nobody means it to: what is stored and not applied.

In:   topics' configurations, what each running broker has (`Applied`), the file with which it will start.
Out:  occurrences of findings, each with its remedy; all of them block a restart that the service orders.
Elsewhere: asking brokers (node.brokers.applied), values that Kafka refuses (content.py), the table of what is stored
and not applied (docs/to-dual-write.md).
Rules: a change counts whoever made it. The settings of the migration itself are meant, and left out. What a broker
does not show (secrets, settings of plug-ins) is not compared; docs/to-dual-write.md names it.
Source: Kafka 3.9 `LogManager.updateTopicConfig`, `LogConfig.validate…`, `UnifiedLog.fetchOffsetByTimestamp`,
`ZkConfigManager.startup`, `ConfigHelper`; tried with real brokers by tests/e2e/test_tiered_restarts.py.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from migrator.driver.tree import Tree
from migrator.findings.content import TOPIC_CONFIG_REFUSED
from migrator.findings.finding import Occurrence
from migrator.findings.preflight import APPLIED_UNKNOWN, BROKER_WITHOUT_TIERS, SWITCH_OFF_WAITS
from migrator.findings.road import RESTART_CHANGES
from migrator.model.config_values import BadValue, parse_value
from migrator.model.hidden_keys import is_hidden
from migrator.model.topic_configs import TOPIC_CONFIGS, refuse_value
from migrator.model.topic_rules import REMOTE_SYSTEM
from migrator.zk import paths

TIERED: Final = "remote.storage.enable"
REMOTE_METADATA_TOPIC: Final = "__remote_log_metadata"
"""Of Kafka's own manager of remote metadata, which every tiered topic has unless somebody wrote another one."""
_ONLY_IN_KRAFT: Final = ("remote.log.copy.disable", "remote.log.delete.on.disable")
_LOG_DIRECTORIES: Final = ("log.dirs", "log.dir")
_DEFAULT_LOG_DIRECTORY: Final = "/tmp/kafka-logs"
_ONE_NUMBER: Final = ("broker.id", "node.id")
"""Kafka gives each of them the value of the other."""


@dataclass(frozen=True, slots=True)
class LogBegins:
    """Offsets of one replica. tiered: the last one in remote storage; -1: none, or the broker takes the topic for one
    that is not tiered. Below 3.9 a broker does not say it, and only what remote storage alone has is seen.
    """

    earliest: int
    local: int
    tiered: int = -1

    @property
    def uses_remote(self) -> bool:
        return self.tiered >= 0 or self.local > self.earliest

    @property
    def last_remote(self) -> int:
        return max(self.tiered, self.local - 1)


@dataclass(frozen=True, slots=True)
class Applied:
    """What one running broker has, whatever its file and ZooKeeper say by now.

    static: what it read from its file at its start, by key; None: a value that it does not show.
    replicas: how many lie in each log directory. offline: directories that failed.
    begins: its replicas by topic and partition, where it has remote storage. leads: those of tiered topics it leads.
    """

    static: Mapping[str, str | None] = field(default_factory=dict)
    replicas: Mapping[str, int] = field(default_factory=dict)
    offline: tuple[str, ...] = ()
    begins: Mapping[str, Mapping[int, LogBegins]] = field(default_factory=dict)
    leads: frozenset[tuple[str, int]] = frozenset()

    def begins_after(self, topic: str, number: int, other: LogBegins) -> bool:
        """Whether its replica does not read remotely any more, and begins later than one that does."""
        own = self.begins.get(topic, {}).get(number)
        return own is not None and not own.uses_remote and own.earliest > other.earliest

    @property
    def has_remote_storage(self) -> bool:
        return is_true(self.static.get(REMOTE_SYSTEM))


def is_true(text: str | None) -> bool:
    """Whether Kafka reads the text as true; what it refuses to read is not true."""
    try:
        return text is not None and parse_value(text, TOPIC_CONFIGS[TIERED]) is True
    except BadValue:
        return False


Configs = Mapping[str, Mapping[str, str]]
"""Each topic's own configuration, as ZooKeeper has it."""


def configs_of(tree: Tree) -> dict[str, Mapping[str, str]]:
    """Every topic's configuration, also of topics that do not exist: a broker reads those too when it starts."""
    return {**tree.orphan_configs, **{name: reading.config for name, reading in tree.topics.items()}}


def tiered_topics(configs: Configs) -> frozenset[str]:
    """Those that ZooKeeper calls tiered. A broker may still read others from remote storage."""
    return frozenset(name for name, config in configs.items() if is_true(config.get(TIERED)))


def tells_of_tiers(configs: Configs) -> bool:
    """Whether anything in ZooKeeper says that topics are tiered, or were: then brokers have to be asked."""
    return REMOTE_METADATA_TOPIC in configs or any(TIERED in config for config in configs.values())


# --- ZooKeeper against brokers ----------------------------------------------------------------------------


def restart_findings(
    configs: Configs, applied: Mapping[int, Applied], unknown: Mapping[int, str]
) -> Iterator[Occurrence]:
    """What ZooKeeper has and brokers have not applied. unknown: brokers that did not say what they have, with why."""
    yield from _without_storage(configs, applied)
    yield from _switched_off(configs, applied)
    yield from _begin_later(configs, applied)
    yield from _refused_at_start(configs)
    for broker, each in sorted(applied.items()):
        yield from _offline(broker, each)
    for broker, reason in sorted(unknown.items()):
        yield APPLIED_UNKNOWN.found(broker=broker, reason=reason)


def _without_storage(configs: Configs, applied: Mapping[int, Applied]) -> Iterator[Occurrence]:
    """Its file is judged at its start only, so a topic may have become tiered while it runs."""
    tiered = sorted(tiered_topics(configs))
    for broker, each in sorted(applied.items()):
        if tiered and not each.has_remote_storage:
            yield BROKER_WITHOUT_TIERS.found(count=len(tiered), first=tiered[0], broker=broker)


def _switched_off(configs: Configs, applied: Mapping[int, Applied]) -> Iterator[Occurrence]:
    """One for each topic and broker: brokers refuse it one by one, and one that restarted since has lost already."""
    tiered = tiered_topics(configs)
    for topic in sorted({name for each in applied.values() for name in each.begins} - tiered):
        for broker, each in sorted(applied.items()):
            remote = {number: found for number, found in each.begins.get(topic, {}).items() if found.uses_remote}
            if remote:
                first = min(remote)
                lost = [
                    other
                    for other, those in sorted(applied.items())
                    if any(those.begins_after(topic, number, found) for number, found in remote.items())
                ]
                yield SWITCH_OFF_WAITS.found(
                    path=paths.topic_config(topic),
                    broker=broker,
                    count=len(remote),
                    first=f"{topic}-{first}",
                    offset=remote[first].last_remote,
                    lost=f"{lost}" if lost else "none",
                )


def _begin_later(configs: Configs, applied: Mapping[int, Applied]) -> Iterator[Occurrence]:
    """A topic that is tiered again, after a broker was restarted while it was switched off: the replica of that broker
    begins at its local log for good, and once it leads, so does the partition. No follower begins after its leader
    otherwise.
    """
    for topic in sorted(tiered_topics(configs)):
        for leader, each in sorted(applied.items()):
            logs = each.begins.get(topic, {})
            led = {number: found.earliest for number, found in logs.items() if (topic, number) in each.leads}
            for other, those in sorted(applied.items()):
                begins = {number: found.earliest for number, found in those.begins.get(topic, {}).items()}
                later = sorted(number for number in led.keys() & begins.keys() if begins[number] > led[number])
                if later:
                    first = later[0]
                    change = (
                        f"broker {other} would lead it, whose replica begins at {begins[first]} and not at {led[first]}"
                    )
                    yield RESTART_CHANGES.found(
                        node=f"broker {leader}",
                        broker=leader,
                        path=paths.topic_config(topic),
                        key=f"where {topic}-{first} begins",
                        change=f"{change} (such partitions: {len(later)})",
                    )


def _refused_at_start(configs: Configs) -> Iterator[Occurrence]:
    """A running broker logs an error about such a value and keeps the one before. Its next start ends at it.

    Values that only do not go together are no reason (tried with 3.9.2); the content checks name them.
    """
    for name, config in sorted(configs.items()):
        for key, value in sorted(config.items()):
            rule = TOPIC_CONFIGS.get(key)
            reason = None if rule is None else refuse_value(key, value, rule)
            if reason is not None:
                yield TOPIC_CONFIG_REFUSED.found(path=paths.topic_config(name), reason=reason)
            elif key in _ONLY_IN_KRAFT and is_true(value):
                change = "a broker in ZooKeeper mode does not start with it"
                yield RESTART_CHANGES.found(node="any broker", path=paths.topic_config(name), key=key, change=change)


def _offline(broker: int, applied: Applied) -> Iterator[Occurrence]:
    for directory in applied.offline:
        change = "this directory is offline, and a broker with the migration settings ends when one is"
        yield RESTART_CHANGES.found(
            node=f"broker {broker}", broker=broker, path=directory, key="log.dirs", change=change
        )


# --- the file against the broker --------------------------------------------------------------------------


def file_changes(
    broker: int, path: str, file: Mapping[str, str], applied: Applied, meant: Mapping[str, str]
) -> Iterator[Occurrence]:
    """What a start with this file would change. file: its keys, trimmed. meant: what the migration makes of the
    settings with which the broker runs; where the file has that already, its next start is meant to change it.
    """
    place: dict[str, Any] = {"node": f"broker {broker}", "broker": broker, "path": path}
    left = _left_directories(file, applied)
    for directory, count in left.items():
        change = f"{directory} is left out, and {count} replicas lie there"
        yield RESTART_CHANGES.found(**place, key="log.dirs", change=change)
    names = {_ONE_NUMBER[0] if key in _ONE_NUMBER else key for key in (*file, *applied.static)}
    for key in sorted(names - (set(_LOG_DIRECTORIES) if left else set())):
        in_file = _value(key, file)
        change = "" if in_file is not None and in_file == meant.get(key) else _change(key, in_file, applied.static)
        if change:
            yield RESTART_CHANGES.found(**place, key=key, change=change)


def _value(key: str, file: Mapping[str, str]) -> str | None:
    if key in _ONE_NUMBER:
        return next((file[each] for each in _ONE_NUMBER if each in file), None)
    return file.get(key)


def _change(key: str, in_file: str | None, static: Mapping[str, str | None]) -> str:
    """In words; empty when there is none, or when the broker does not show the value."""
    if key not in static:
        return "it was added to the file" if is_hidden(key) else f"it was added to the file: {in_file}"
    running = static[key]
    if in_file is None:
        return "it is not in the file any more" + ("" if running is None or is_hidden(key) else f"; it is {running}")
    if running is None or in_file == running.strip() or _has_placeholder(in_file):
        return ""
    return "it is another value now" if is_hidden(key) else f"it is {running}, and {in_file} in the file"


def _has_placeholder(value: str) -> bool:
    """Brokers show what a provider answered, not what stands in the file."""
    return "${" in value


def _left_directories(file: Mapping[str, str], applied: Applied) -> dict[str, int]:
    """Directories with replicas that the file does not name. Relative paths are not known from here."""
    text = next((file[key] for key in _LOG_DIRECTORIES if file.get(key)), _DEFAULT_LOG_DIRECTORY)
    named = [each.strip() for each in text.split(",") if each.strip()]
    if _has_placeholder(text) or not all(each.startswith("/") for each in named):
        return {}
    kept = {posixpath.normpath(each) for each in named}
    return {path: count for path, count in applied.replicas.items() if count and posixpath.normpath(path) not in kept}
