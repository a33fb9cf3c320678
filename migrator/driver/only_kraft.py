"""What a rollback loses: configuration for which ZooKeeper has no form, client metrics above all.

In:   the configuration of an image; the deltas of commits.
Out:  words for an operator, who consents to exactly them before the rollback.
Elsewhere: the service's gate (state_machine/policy/gates_back.py), the same of a log on disk
(node/tools/log_against_zookeeper.py), why stock controllers stumble on it (checks/replacing.py).
Source: failure case F-51; Kafka 3.9 `ZkConfigMigrationClient.writeConfigs` writes topics and brokers only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from immutables import Map

from migrator.driver.checks.replacing import WITHOUT_ZNODE
from migrator.model.draft import Delta
from migrator.model.image import Config, Image
from migrator.model.values import ConfigKey, ConfigType

NAMED_MAX: Final = 20


def only_kraft(keys: Iterable[ConfigKey], named_max: int | None = NAMED_MAX) -> tuple[str, ...]:
    """Name the keys that have no znode, in order, and say how many more there are. named_max: None: all are named."""
    odd = sorted(key for key in keys if key.type in WITHOUT_ZNODE)
    said = tuple(f"configuration of {WITHOUT_ZNODE[ConfigType(key.type)]} {key.name}" for key in odd[:named_max])
    more = len(odd) - len(said)
    return (*said, f"and {more} more configurations of clients or groups") if more else said


class OnlyKraft:
    """The same of a controller that runs. A status asks twice a second, and there may be 100,000 topics with
    configuration (25 ms to look through): a commit that touches no such key leaves the answer as it is.
    """

    def __init__(self) -> None:
        self._configs: Map[ConfigKey, Config] | None = None
        self._found: tuple[str, ...] = ()

    def published(self, delta: Delta) -> None:
        if self._configs is delta.before.configs and not any(key.type in WITHOUT_ZNODE for key in delta.configs):
            self._configs = delta.after.configs

    def of(self, image: Image) -> tuple[str, ...]:
        if self._configs is not image.configs:
            self._configs, self._found = image.configs, only_kraft(image.configs)
        return self._found
