"""What a change of metadata.version would do: who stands in its way, whether a controller does it, what it loses.

In:   the matrix of a cluster, and what the log would lose at a level.
Out:  `LevelChange` for each level that could be finalized; `FeatureReport`, with the matrix beside them.
Elsewhere: the controller's own decision (controller/feature_updates.py), the service's raise
(state_machine/finish/version_raise.py).
Rules: R-778-03, R-778-04, R-778-08.
Source: Kafka 3.9 `FeatureControlManager.updateMetadataVersion` and `reasonNotSupported`: every registration counts,
also that of a fenced broker; from 3.7-IV0 on each voter has to be registered; a downgrade below a level that changed
records is refused, safe and unsafe (KAFKA-13896).
Unlike stock, a controller of which nobody knows the range stands in the way at levels below 3.7-IV0 too: stock does not
look at controllers there, and one that does not support the level ends on its record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from migrator.model import levels
from migrator.model.features.losses import Loss
from migrator.model.features.matrix import FeatureMatrix
from migrator.model.image import METADATA_VERSION, Position
from migrator.model.values import MigrationState

IN_MIGRATION: Final = frozenset({MigrationState.PRE_MIGRATION.name, MigrationState.MIGRATION.name})


class LevelDirection(StrEnum):
    RAISE = "raise"
    DOWNGRADE = "downgrade"


class Refusal(StrEnum):
    """Why a controller refuses a level; of several the first. A migration in progress has no exception, so it comes
    before the nodes that stand in the way, which are listed in any case. JSON has the values.
    """

    MIGRATION = "migration"
    NODES = "nodes"
    BELOW_FEATURES = "below features"
    RECORDS = "records"


REFUSALS: Final = {
    Refusal.MIGRATION: "no level changes while a migration is in progress",
    Refusal.NODES: "a node stands in the way",
    Refusal.BELOW_FEATURES: "a log below 3.3-IV0 has no record of its level",
    Refusal.RECORDS: "records changed in between: controllers of Kafka 3.9 refuse it, also as an unsafe downgrade",
}


class Obstacle(msgspec.Struct, frozen=True):
    """A node that does not support a level. lowest, highest: what it supports; None: not known.

    is_alive: as in `NodeFeatures`; the registration of a node that is gone counts as well.
    """

    node: str
    lowest: int | None
    highest: int | None
    is_alive: bool | None


class LevelChange(msgspec.Struct, frozen=True):
    """One level that could be finalized. refused: None where a controller of Kafka 3.9 would do it.

    losses: of a downgrade, what the log could not say any more; also where it is refused.
    """

    level: int
    direction: LevelDirection
    refused: Refusal | None
    obstacles: tuple[Obstacle, ...]
    losses: tuple[Loss, ...] = ()


class FeatureReport(msgspec.Struct, frozen=True):
    """read_to: the last record of the log that was read. silent: controllers that gave no answer, and why, by address.

    changes: of every other level, the lowest first; of one level where one was named; empty where none is finalized.
    """

    matrix: FeatureMatrix
    changes: tuple[LevelChange, ...]
    read_to: Position
    silent: dict[str, str] = {}


def level_changes(matrix: FeatureMatrix, lost: Callable[[int], tuple[Loss, ...]]) -> tuple[LevelChange, ...]:
    """List each other level that a log can have, the lowest first; nothing where none is finalized yet.

    lost: what the log would lose at a level (losses.py).
    """
    if matrix.effective is None:
        return ()
    supported = [each.range_of(METADATA_VERSION) for each in matrix.nodes]
    highest = max((each.highest for each in supported if each is not None), default=levels.LATEST)
    candidates = range(levels.FEATURE_RECORDS, max(highest, levels.LATEST) + 1)
    return tuple(level_change(matrix, each, lost) for each in candidates if each != matrix.effective)


def level_change(matrix: FeatureMatrix, level: int, lost: Callable[[int], tuple[Loss, ...]]) -> LevelChange:
    """Judge one level. matrix: of a cluster with a finalized level."""
    assert matrix.effective is not None, "no level is finalized"
    direction = LevelDirection.RAISE if level > matrix.effective else LevelDirection.DOWNGRADE
    obstacles = tuple(_obstacles(matrix, level))
    losses = lost(level) if direction is LevelDirection.DOWNGRADE else ()
    return LevelChange(level, direction, _refused(matrix, level, obstacles), obstacles, losses)


def _obstacles(matrix: FeatureMatrix, level: int) -> Iterator[Obstacle]:
    for node in matrix.nodes:
        supported = node.range_of(METADATA_VERSION)
        if supported is None:
            yield Obstacle(node.name, None, None, node.is_alive)
        elif not supported.lowest <= level <= supported.highest:
            yield Obstacle(node.name, supported.lowest, supported.highest, node.is_alive)


def _refused(matrix: FeatureMatrix, level: int, obstacles: tuple[Obstacle, ...]) -> Refusal | None:
    if matrix.migration in IN_MIGRATION:
        return Refusal.MIGRATION
    if obstacles:
        return Refusal.NODES
    if level < levels.FEATURE_RECORDS:
        return Refusal.BELOW_FEATURES
    if levels.changes_records(level, matrix.effective or level):
        return Refusal.RECORDS
    return None
