"""Clusters whose nodes support what a test says."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from migrator.model.draft import Draft
from migrator.model.features.matrix import NodeFeatures
from migrator.model.image import METADATA_VERSION, Image, Position
from migrator.model.values import (
    Controller,
    FeatureRange,
    MigrationState,
)
from tests.support.builders import a_broker, an_id, an_image

BOTH = (FeatureRange(METADATA_VERSION, 1, 21), FeatureRange("kraft.version", 0, 1))
OLD = (FeatureRange(METADATA_VERSION, 1, 20),)


def supports(name: str, lowest: int, highest: int, *, is_alive: bool | None = True) -> NodeFeatures:
    return NodeFeatures(name, ranges=(FeatureRange(METADATA_VERSION, lowest, highest),), is_alive=is_alive)


def a_cluster(
    level: int,
    *,
    state: MigrationState = MigrationState.POST_MIGRATION,
    migrating: bool = False,
    brokers: Sequence[FeatureRange] = BOTH,
) -> Image:
    """Two registered controllers and two brokers. migrating: the first broker runs in ZooKeeper mode."""
    first = replace(
        a_broker(1, migrating=migrating),
        features=(FeatureRange(METADATA_VERSION, level, level),) if migrating else tuple(brokers),
        log_dirs=(),
    )
    second = replace(a_broker(2, migrating=False), features=tuple(brokers), log_dirs=())
    draft = Draft(an_image(brokers=[first, second], migration=MigrationState.MIGRATION if migrating else state))
    draft.set_feature(METADATA_VERSION, level)
    for node in (3000, 3001):
        draft.put_controller(Controller(node, an_id(f"run-{node}"), zk_migration_ready=True, features=BOTH))
    return draft.finish(Position(1, 1001)).after
