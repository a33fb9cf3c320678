"""Feature levels in the view of a migration: the case of each node and what to do (R-778-01).

In:   what brokers and controllers were observed to support; nobody is asked for it.
Out:  `FeaturesView`, which REST and the page show.
Elsewhere: the cases (migrator/model/features), every feature of every node (`zk2kraft features`).
Rules: before dual-write the log is not observed; the level is then the one that a controller of ours tells, and of
brokers only those are judged that it has registered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from api.models import BrokerView, FeatureGroupView, FeaturesView
from api.nodes import log_of
from migrator.model import levels
from migrator.model.features.cases import CASES
from migrator.model.features.matrix import FeatureMatrix, NodeFeatures, NodeMode, feature_matrix
from migrator.model.image import METADATA_VERSION
from migrator.model.values import FeatureRange, MigrationState
from state_machine.clusters.log_observer import LogObservation
from state_machine.rows.store import Snapshot


def features_view(snapshot: Snapshot, brokers: Sequence[BrokerView], now: float) -> FeaturesView:
    """Group the nodes by case and range, so that a thousand brokers are a few lines."""
    log = log_of(snapshot, now)
    matrix = observed_matrix(snapshot, brokers, log)
    row = CASES[matrix.case]
    return FeaturesView(
        case=row.case.value,
        effective=None if matrix.effective is None else levels.level_name(matrix.effective),
        others=[f"{name} {level}" for name, level in log.feature_levels.items()] if log.known else [],
        remedy=row.remedy,
        nodes=list(_groups(matrix)),
    )


def observed_matrix(snapshot: Snapshot, brokers: Sequence[BrokerView], log: LogObservation) -> FeatureMatrix:
    """Judge what was observed. Of metadata.version alone: the service asks for no other feature."""
    level = log.metadata_version if log.known else _told(snapshot)
    nodes = [*_controllers(log), *(_broker(each) for each in brokers)]
    if not log.known and level:
        nodes = [each for each in nodes if each.ranges]
    finalized = {METADATA_VERSION: level} if level >= levels.FEATURE_RECORDS else {}
    return feature_matrix(nodes, finalized, log.migration if log.known else MigrationState.NONE.name)


def _told(snapshot: Snapshot) -> int:
    """The level that the leader, or another controller of ours, has in its log; 0 where nobody tells one."""
    seen = () if snapshot.observation is None else snapshot.observation.controllers
    told = [
        each.status.log.metadata_version or 0
        for each in sorted(seen, key=lambda each: not each.leads)
        if each.status is not None and each.status.log is not None
    ]
    return next((each for each in told if each), 0)


def _controllers(log: LogObservation) -> Iterator[NodeFeatures]:
    """An answer is of the process that runs, and counts more than a registration."""
    if not log.known:
        return
    answered = {each.id: (each.lowest, each.highest) for each in log.software}
    registered = {each.id: each.levels for each in log.controllers}
    for node in sorted({each.id for each in log.voters} | set(registered)):
        alive = True if node in answered else None
        ends = answered.get(node, registered.get(node))
        yield NodeFeatures(f"controller {node}", ranges=_ranges(ends), is_alive=alive)


def _broker(broker: BrokerView) -> NodeFeatures:
    mode = NodeMode.ZOOKEEPER if broker.mode == NodeMode.ZOOKEEPER else NodeMode.KRAFT
    alive = None if broker.fenced is None else not broker.fenced
    return NodeFeatures(f"broker {broker.id}", mode, _ranges(broker.metadata_version), is_alive=alive)


def _ranges(ends: Sequence[int] | None) -> tuple[FeatureRange, ...]:
    return () if not ends else (FeatureRange(METADATA_VERSION, ends[0], ends[1]),)


def _groups(matrix: FeatureMatrix) -> Iterator[FeatureGroupView]:
    def told(node: NodeFeatures) -> tuple[str, tuple[int, int]]:
        supported = node.range_of(METADATA_VERSION)
        return node.case.value, (-1, -1) if supported is None else (supported.lowest, supported.highest)

    for (case, ends), nodes in groupby(sorted(matrix.nodes, key=told), key=told):
        row = next(each for each in CASES.values() if each.case.value == case)
        yield FeatureGroupView(
            case=case,
            nodes=[each.name for each in nodes],
            metadata_version=None if ends[0] < 0 else list(ends),
            stands_in_the_way=row.stands_in_the_way,
            holds=row.holds,
            remedy=row.remedy,
        )
