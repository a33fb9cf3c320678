"""Which keys of a Kafka configuration may be shown with their values.

In:   a key. Out: whether its value has to stay hidden.
Rules: what nobody knows is hidden. A listener's key (`listener.name.<name>.<key>`) counts as the key behind its prefix.
Source: Kafka 3.9 `KafkaConfig.maybeSensitive`.
"""

from __future__ import annotations

import re
from typing import Final

from migrator.model.broker_configs import BROKER_CONFIGS

SECRET_WORDS: Final = ("password", "secret", "jaas", "keystore.key", "master.key", "credential")
SHOWN: Final = (
    *("advertised.", "authorizer.", "auto.", "broker.", "controller.", "controlled.", "default.", "delete.", "group."),
    *("inter.broker.", "listener", "log.", "max.", "message.", "metadata.", "min.", "node.id", "num.", "offsets."),
    *("process.", "queued.", "quota.", "remote.log.storage.system.", "replica.", "request.", "sasl.", "socket."),
    *("ssl.", "super.users", "transaction", "unclean.", "zk2kraft.", "zookeeper."),
)
"""How keys of Kafka's and of ours begin. Everything else is a plug-in's, and nobody knows whether it is a secret."""

_OF_ONE_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.")


def is_hidden(key: str) -> bool:
    """Whether the value may not be shown, as Kafka's `maybeSensitive` says."""
    key = _OF_ONE_LISTENER.sub("", key, count=1)
    return any(word in key.lower() for word in SECRET_WORDS) or not (key in BROKER_CONFIGS or key.startswith(SHOWN))
