"""What releases without ZooKeeper do with the configuration of a cluster that came from it.

In:   configuration by key, of topics and of brokers.
Out:  what a later release refuses, with the release since which it does.
Elsewhere: findings before the migration (driver/checks/content.py) and after it (state_machine/policy/later.py), the
whole table for people (docs/later-kafka.md), Kafka 3.9's own rules (topic_configs.py, broker_configs.py).
Source: `ConfigDef`s of Kafka 3.9.2, 4.0.0, 4.0.2, 4.1.2, 4.2.2, 4.3.1 and 4.4.0, compared key by key on 2026-11-30
(tests/e2e/test_later_configs.py does it again).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

MIB: Final = 1 << 20


class RaisedMinimum(NamedTuple):
    """Numbers below `low` are refused since a release; Kafka 3.9 takes them."""

    low: int
    since: str


RAISED_OF_TOPICS: Final[Mapping[str, RaisedMinimum]] = {"segment.bytes": RaisedMinimum(MIB, "4.1")}
"""A broker that has a replica of such a topic does not start: `LogConfig.validate` in `LogManager.startup`."""

RAISED_OF_BROKERS: Final[Mapping[str, RaisedMinimum]] = {
    "log.segment.bytes": RaisedMinimum(MIB, "4.0"),
    "metadata.log.segment.bytes": RaisedMinimum(8 * MIB, "4.1"),
    "num.replica.fetchers": RaisedMinimum(1, "4.2"),
    "remote.log.manager.copier.thread.pool.size": RaisedMinimum(1, "4.0"),
    "remote.log.manager.expiration.thread.pool.size": RaisedMinimum(1, "4.0"),
}
"""In a file they end a node at its start. As dynamic configuration of brokers they are passed over."""

DROPPED_OF_BROKERS: Final = frozenset(
    {
        "alter.config.policy.kraft.compatibility.enable",
        "auto.include.jmx.reporter",
        "broker.id.generation.enable",
        "control.plane.listener.name",
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "delegation.token.master.key",
        "eligible.leader.replicas.enable",
        "inter.broker.protocol.version",
        "leader.imbalance.per.broker.percentage",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "offsets.commit.required.acks",
        "password.encoder.cipher.algorithm",
        "password.encoder.iterations",
        "password.encoder.key.length",
        "password.encoder.keyfactory.algorithm",
        "password.encoder.old.secret",
        "password.encoder.secret",
        "reserved.broker.max.id",
    }
)
"""Public keys beside those of ZooKeeper that 4.0 does not know. A file may keep them: nobody refuses or names them, and
they have no effect.
"""

CHANGED_DEFAULTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "log.message.timestamp.after.max.ms": ("9223372036854775807", "3600000", "4.0"),
    "num.recovery.threads.per.data.dir": ("1", "2", "4.0"),
    "remote.log.manager.copier.thread.pool.size": ("-1", "10", "4.0"),
    "remote.log.manager.expiration.thread.pool.size": ("-1", "10", "4.0"),
    "remote.log.manager.thread.pool.size": ("10", "2", "4.0"),
    "group.coordinator.threads": ("1", "4", "4.0"),
}
"""Default of 3.9, of the later release, and which one: what a file that says nothing gets with the new software."""


class RefusedLater(NamedTuple):
    """One value. low: the least that is taken since the release `since`."""

    key: str
    value: str
    low: int
    since: str


def refused_later(config: Mapping[str, str], minimums: Mapping[str, RaisedMinimum]) -> Iterator[RefusedLater]:
    """minimums: of topics or of brokers. What is no number is refused by Kafka 3.9 already, and not told here."""
    for key, (low, since) in minimums.items():
        text = config.get(key, "").strip()
        try:
            value = int(text)
        except ValueError:
            continue
        if value < low:
            yield RefusedLater(key, text, low, since)
