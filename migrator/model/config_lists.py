"""Configuration keys whose value is a list, to which IncrementalAlterConfigs may append and from which it may subtract.

In:   the kind of resource and the key; text that a request gives.
Out:  the list with which an append begins where the resource has none of its own, and the parts of a text.
Elsewhere: what the operations do (controller.configs), values that a topic may have (topic_configs.py).
Source: Kafka 3.9 `KafkaConfigSchema.isSplittable` and `getDefault` on `KafkaConfig.configDef` and
`LogConfig.configDefCopy`; the tables were printed by 3.9.2 itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from migrator.model.topic_configs import TOPIC_CONFIGS
from migrator.model.values import ConfigType

_ASSIGNOR: Final = "org.apache.kafka.coordinator.group.assignor."
LIST_DEFAULTS: Final[Mapping[int, Mapping[str, str]]] = {
    ConfigType.BROKER: {
        "controller.quorum.bootstrap.servers": "",
        "controller.quorum.voters": "",
        "group.consumer.assignors": f"{_ASSIGNOR}UniformAssignor,{_ASSIGNOR}RangeAssignor",
        "group.coordinator.rebalance.protocols": "classic",
        "kafka.metrics.reporters": "",
        "log.cleanup.policy": "delete",
        "metric.reporters": "",
        "process.roles": "",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.principal.to.local.rules": "DEFAULT",
        "sasl.oauthbearer.expected.audience": "",
        "ssl.cipher.suites": "",
        "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
        "zookeeper.ssl.cipher.suites": "",
        "zookeeper.ssl.enabled.protocols": "",
    },
    ConfigType.TOPIC: {name: rule.default for name, rule in TOPIC_CONFIGS.items() if rule.kind == "list"},
}
"""By kind of resource: list keys with their default, joined by commas; empty where there is none.

Keys with a listener's prefix are not lists: Kafka knows the key only without it.
"""


def list_default(type_: int, name: str) -> str | None:
    """The default of this key, empty if it has none; None when the key is no list."""
    return LIST_DEFAULTS.get(type_, {}).get(name)


def split_as_java(text: str) -> list[str]:
    """The parts between commas as Java's `String.split` gives them: empty ones at the end do not count."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts
