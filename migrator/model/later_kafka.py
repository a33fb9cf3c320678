"""Kafka without ZooKeeper, 4.0 and later: how a node that runs it is known, and what follows from it.

In:   registrations of an image, ranges of metadata.version, names of releases.
Out:  `LaterNode` for each registered node of such a release; facts in words.
Elsewhere: a controller's own alarm (controller/unfit_nodes.py), the service's conditions
(state_machine/policy/later.py), jars before they are started (fleet/guard.py).
Rules: a broker in ZooKeeper mode registers its inter.broker.protocol.version as lowest and highest level, so that its
range says nothing of its release; no release without ZooKeeper has that mode.
Source: `MetadataVersion.MINIMUM_VERSION` of Kafka 4.0 is 3.3-IV3; Kafka 3.9 registers 3.0-IV1 as its lowest level.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from migrator.model.image import METADATA_VERSION, Image
from migrator.model.values import FeatureRange

LOWEST_WITHOUT_ZOOKEEPER: Final = 7
"""metadata.version 3.3-IV3: what releases without ZooKeeper begin with; those with it begin with 3.0-IV1."""
MAJOR_WITHOUT_ZOOKEEPER: Final = 4
_MAJOR: Final = re.compile(r"(\d+)\.\d")


@dataclass(frozen=True, slots=True)
class LaterNode:
    """A node of a release without ZooKeeper. lowest, highest: metadata.version that its running process supports."""

    id: int
    is_voter: bool
    lowest: int
    highest: int

    @property
    def name(self) -> str:
        return f"{'controller' if self.is_voter else 'broker'} {self.id}"

    @property
    def said(self) -> str:
        return f"{self.name} runs a Kafka without ZooKeeper (metadata.version {self.lowest} to {self.highest})"


def is_without_zookeeper(levels: tuple[int, int] | None) -> bool:
    """levels: lowest and highest metadata.version of a controller, or of a broker in KRaft mode. None: not known."""
    return levels is not None and levels[0] >= LOWEST_WITHOUT_ZOOKEEPER


def is_release(text: str) -> bool:
    """Whether a client's name of its release in ApiVersions has a number; builds of other people may not."""
    return _MAJOR.match(text) is not None


def is_release_without_zookeeper(release: str) -> bool:
    match = _MAJOR.match(release)
    return match is not None and int(match[1]) >= MAJOR_WITHOUT_ZOOKEEPER


def levels_of(features: Iterable[FeatureRange]) -> tuple[int, int] | None:
    return next(((each.lowest, each.highest) for each in features if each.name == METADATA_VERSION), None)


def registered_later(image: Image) -> tuple[LaterNode, ...]:
    """Controllers first, each kind by its id."""
    voters = ((each.id, True, levels_of(each.features)) for _, each in sorted(image.controllers.items()))
    brokers = (
        (each.id, False, levels_of(each.features)) for _, each in sorted(image.brokers.items()) if not each.migrating
    )
    return tuple(
        LaterNode(node, is_voter, *levels)
        for node, is_voter, levels in (*voters, *brokers)
        if levels is not None and is_without_zookeeper(levels)
    )
