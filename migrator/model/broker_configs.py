"""The dynamic configuration that a broker can have, as far as its values have a type that can be wrong.

In:   names and values as text, of one broker or of all.
Out:  the reason why a value is refused.
Elsewhere: the same of topics (topic_configs.py); which keys are secret (values.py). Keys that Kafka does not know are
allowed here: brokers take them for settings of plug-ins.
Source: Kafka 3.9 `DynamicBrokerConfig`, `CleanerConfig`, `SocketServerConfigs`, `QuotaConfigs`.
"""

from __future__ import annotations

import re
from typing import Final

from migrator.model.config_values import LONG_MAX, ConfigRule
from migrator.model.topic_configs import TOPIC_CONFIGS, refuse_value

_COUNT: Final = ConfigRule("int", "1", 1)
_FROM_ZERO: Final = ConfigRule("int", "0", 0)
_RATE: Final = ConfigRule("long", str(LONG_MAX), 0)
_LONG: Final = ConfigRule("long", "0")
_DOUBLE: Final = ConfigRule("double", "0")

_OF_LOGS: Final = {rule.synonyms[0][0]: rule for rule in TOPIC_CONFIGS.values() if rule.synonyms}
"""What topics inherit from brokers has the topic's rule under the broker's name."""

BROKER_CONFIGS: Final[dict[str, ConfigRule]] = {
    **_OF_LOGS,
    "background.threads": _COUNT,
    "follower.replication.throttled.rate": _RATE,
    "leader.replication.throttled.rate": _RATE,
    "log.cleaner.backoff.ms": ConfigRule("long", "15000", 0),
    "log.cleaner.dedupe.buffer.size": _LONG,
    "log.cleaner.io.buffer.load.factor": _DOUBLE,
    "log.cleaner.io.buffer.size": _FROM_ZERO,
    "log.cleaner.io.max.bytes.per.second": _DOUBLE,
    "log.cleaner.threads": _FROM_ZERO,
    "max.connection.creation.rate": _FROM_ZERO,
    "max.connections": _FROM_ZERO,
    "max.connections.per.ip": _FROM_ZERO,
    "num.io.threads": _COUNT,
    "num.network.threads": _COUNT,
    "num.recovery.threads.per.data.dir": _COUNT,
    "num.replica.fetchers": ConfigRule("int", "1"),
    "producer.id.expiration.ms": _COUNT,
    "replica.alter.log.dirs.io.max.bytes.per.second": _RATE,
    "transaction.partition.verification.enable": ConfigRule("boolean", "true"),
}

LISTENER_KEYS: Final = ("advertised.listeners", "listener.security.protocol.map", "listeners")
"""What a broker in ZooKeeper mode may change while it runs, and one in KRaft mode may not."""

_PREFIX: Final = re.compile(r"listener\.name\.[^.]*\.")


def refuse_broker_config(name: str, value: str) -> str | None:
    """Why a broker would pass over this value; None when it takes it, or when its type is not known here."""
    rule = BROKER_CONFIGS.get(_PREFIX.sub("", name))
    return None if rule is None else refuse_value(name, value, rule)
