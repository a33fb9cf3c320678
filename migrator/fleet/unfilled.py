"""Places where a template or a config provider has yet to fill in a value: `{{ ... }}`, `{% ... %}`, `${...}`.

In:   a text, or an inventory. Out: whether, and where.
Rules: the inventory holds values. A path with a template in it is a path that no host has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from migrator.fleet.inventory import Inventory

_UNFILLED: Final = re.compile(r"\{\{|\{%|\$\{")


def is_unfilled(value: str) -> bool:
    """Whether something has yet to fill in a part of it."""
    return _UNFILLED.search(value) is not None


def unfilled_places(inventory: Inventory) -> Iterator[tuple[str, str]]:
    """Place and value. Settings of actuators are not asked: a command may take such a text as it is."""
    yield from ((place, value) for place, value in _texts(inventory) if is_unfilled(value))


def _texts(inventory: Inventory) -> Iterator[tuple[str, str]]:
    cluster = inventory.cluster
    yield "cluster.zookeeper", cluster.zookeeper
    yield "cluster.bootstrap_servers", cluster.bootstrap_servers
    yield "cluster.quorum.voters", cluster.quorum.voters
    yield "cluster.quorum.sasl_mechanism", cluster.quorum.sasl_mechanism
    for user in cluster.quorum.super_users:
        yield "cluster.quorum.super_users", user
    for role, nodes in (("brokers", inventory.brokers), ("controllers", inventory.controllers)):
        for number, node in enumerate(nodes):
            place = f"{role}[{number}]"
            yield f"{place}.rack", node.rack
            yield f"{place}.properties", node.properties
            for directory in node.log_dirs:
                yield f"{place}.log_dirs", directory
            yield f"{place}.metadata_log_dir", node.metadata_log_dir or ""
            yield f"{place}.guard", node.guard or ""
