"""What each node supports of each feature, beside what is finalized.

In:   facts of nodes: registrations in the log, answers to ApiVersions, znodes, files; the finalized features.
Out:  `FeatureMatrix`: the case of each node and of the cluster, and the effective metadata.version.
Elsewhere: the cases in words (cases.py), what a change would do (changes.py), reading a log for it
(node/tools/feature_levels.py), the same from what the service observes (api/feature_view.py).
Rules: R-778-01, R-778-05. What is not known is None and never judged as supported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from migrator.model import levels
from migrator.model.features.cases import PRECEDENCE, Case
from migrator.model.image import METADATA_VERSION, Image
from migrator.model.values import Broker, Controller, FeatureRange


class NodeMode(StrEnum):
    """How a node runs; a controller of a quorum is in KRaft mode."""

    ZOOKEEPER = "ZooKeeper"
    KRAFT = "KRaft"


class NodeFeatures(msgspec.Struct, frozen=True):
    """One node. name: "broker 1", "controller 3000".

    ranges:     of its registration, or of its own answer; empty: not known.
    ibp:        level of its inter.broker.protocol.version, 0 for one below 3.0-IV1; None: not known, or KRaft mode.
    is_alive:   unfenced, or it answers; None: nobody can say (the registration of a controller has no heartbeat).
    case:       filled by `feature_matrix`.
    """

    name: str
    mode: NodeMode = NodeMode.KRAFT
    ranges: tuple[FeatureRange, ...] = ()
    ibp: int | None = None
    is_alive: bool | None = None
    case: Case = Case.C

    def range_of(self, feature: str) -> FeatureRange | None:
        return next((each for each in self.ranges if each.name == feature), None)


class FeatureMatrix(msgspec.Struct, frozen=True):
    """A cluster. case: the first of `PRECEDENCE` that a node has. effective: metadata.version; None: there is none.

    finalized:    features of the log above 0, metadata.version among them.
    in_zookeeper: what `/feature` finalizes; None: it was not read, or does not exist.
    migration:    state of the log, as its record names it.
    """

    case: Case
    effective: int | None
    finalized: dict[str, int]
    in_zookeeper: dict[str, int] | None
    migration: str
    nodes: tuple[NodeFeatures, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """Names of all that a node supports or the log finalizes; metadata.version first."""
        names = {each.name for node in self.nodes for each in node.ranges} | set(self.finalized)
        return tuple(sorted(names, key=lambda name: (name != METADATA_VERSION, name)))


def feature_matrix(
    nodes: Iterable[NodeFeatures],
    finalized: Mapping[str, int],
    migration: str,
    in_zookeeper: Mapping[str, int] | None = None,
) -> FeatureMatrix:
    """Judge each node, and the cluster by them. nodes: in the order in which they are shown."""
    above = {name: level for name, level in sorted(finalized.items()) if level}
    level = above.get(METADATA_VERSION)
    judged = tuple(msgspec.structs.replace(each, case=case_of(each, level)) for each in nodes)
    found = {each.case for each in judged}
    without = Case.C if level is None else Case.D
    return FeatureMatrix(
        case=next((each for each in PRECEDENCE if each in found), without),
        effective=level,
        finalized=above,
        in_zookeeper=None if in_zookeeper is None else dict(in_zookeeper),
        migration=migration,
        nodes=judged,
    )


def case_of(node: NodeFeatures, level: int | None) -> Case:
    """Say how a node stands to the finalized level. level: of metadata.version; None: the log has none."""
    if node.ibp is not None and node.ibp < levels.TRANSACTIONS:
        return Case.B
    supported = node.range_of(METADATA_VERSION)
    if level is None:
        return Case.A if supported is not None and supported.highest <= levels.ORIGINAL else Case.C
    if supported is None:
        return Case.G
    if not supported.lowest <= level <= supported.highest:
        return Case.E
    if node.is_alive is False:
        return Case.G
    return Case.F if supported.highest > level else Case.D


def registered_nodes(image: Image, voters: Iterable[int] = ()) -> tuple[NodeFeatures, ...]:
    """Nodes as the log has them, controllers first. voters: of the quorum; one without registration supports nobody
    knows what.
    """
    controllers = {each: _controller(each, image.controllers.get(each)) for each in {*voters, *image.controllers}}
    brokers = [_broker(each) for _, each in sorted(image.brokers.items())]
    return (*(each for _, each in sorted(controllers.items())), *brokers)


def _controller(node: int, registered: Controller | None) -> NodeFeatures:
    return NodeFeatures(f"controller {node}", ranges=() if registered is None else registered.features)


def _broker(broker: Broker) -> NodeFeatures:
    """In ZooKeeper mode a broker registers its inter.broker.protocol.version as both ends."""
    found = NodeFeatures(
        f"broker {broker.id}",
        NodeMode.ZOOKEEPER if broker.migrating else NodeMode.KRAFT,
        broker.features,
        is_alive=not broker.fenced,
    )
    supported = found.range_of(METADATA_VERSION)
    if broker.migrating and supported is not None:
        found = msgspec.structs.replace(found, ibp=supported.highest)
    return found
