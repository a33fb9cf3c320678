"""What a change of metadata.version would do, and that our controller answers the same (R-778-03, -04, -08)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from migrator.controller.feature_updates import UpgradeType, update_features
from migrator.model.draft import Draft
from migrator.model.features.changes import LevelChange, LevelDirection, Obstacle, Refusal, level_change, level_changes
from migrator.model.features.losses import losses
from migrator.model.features.matrix import FeatureMatrix, feature_matrix, registered_nodes
from migrator.model.image import METADATA_VERSION, Image, Position
from migrator.model.values import FeatureRange, MigrationState
from migrator.wire.messages.configs import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.builders import a_broker
from tests.support.feature_clusters import BOTH, OLD, a_cluster
from tests.support.situations import a_situation

VOTERS = (3000, 3001)


def a_matrix(image: Image, voters: Sequence[int] = VOTERS) -> FeatureMatrix:
    return feature_matrix(registered_nodes(image, voters), image.features, image.migration.name)


def changes_of(image: Image, voters: Sequence[int] = VOTERS) -> dict[int, LevelChange]:
    found = level_changes(a_matrix(image, voters), lambda level: losses(image, level))
    return {each.level: each for each in found}


def test_a_raise_is_possible_where_every_node_supports_the_level_and_loses_nothing() -> None:
    """R-778-03, R-778-08."""
    found = changes_of(a_cluster(19))
    assert [each for each in found if each > 19] == [20, 21]
    assert found[21] == LevelChange(21, LevelDirection.RAISE, None, ())


def test_who_stands_in_the_way_is_named_with_its_range_also_when_it_is_not_alive() -> None:
    """R-778-03: its registration counts until somebody removes it."""
    draft = Draft(a_cluster(20))
    draft.put_broker(replace(a_broker(7, migrating=False), features=OLD, fenced=True))
    found = changes_of(draft.finish(Position(1, 1002)).after)[21]
    assert (found.refused, found.obstacles) == (Refusal.NODES, (Obstacle("broker 7", 1, 20, is_alive=False),))


def test_a_voter_that_is_not_registered_stands_in_the_way_of_every_level() -> None:
    """R-778-03."""
    found = changes_of(a_cluster(20), voters=(*VOTERS, 3002))
    assert {each.refused for each in found.values()} == {Refusal.NODES}
    assert found[21].obstacles == (Obstacle("controller 3002", None, None, is_alive=None),)


@pytest.mark.parametrize("state", [MigrationState.PRE_MIGRATION, MigrationState.MIGRATION])
def test_nothing_changes_while_a_migration_is_in_progress(state: MigrationState) -> None:
    """R-778-08."""
    assert {each.refused for each in changes_of(a_cluster(20, state=state)).values()} == {Refusal.MIGRATION}


def test_a_downgrade_is_refused_where_records_changed_and_what_it_would_lose_is_listed() -> None:
    """R-778-04: down to 3.7-IV2 nothing is lost; below it registrations of controllers are, from 3.7-IV0 on."""
    found = changes_of(a_cluster(21))
    assert (found[17].direction, found[17].refused, found[17].losses) == (LevelDirection.DOWNGRADE, None, ())
    assert (found[16].refused, found[16].losses) == (Refusal.RECORDS, ())
    (lost,) = found[14].losses
    assert (lost.record, lost.keys) == ("RegisterControllerRecord", ("controller 3000", "controller 3001"))
    image = a_cluster(21)
    below = level_change(a_matrix(image), 3, lambda level: losses(image, level))
    assert below.refused is Refusal.BELOW_FEATURES


def test_levels_above_those_of_kafka_3_9_are_judged_by_what_nodes_register() -> None:
    """R-778-03: a later Kafka has more of them; where a log has no level, there is nothing to change."""
    later = (FeatureRange(METADATA_VERSION, 7, 25),)
    found = changes_of(a_cluster(21, brokers=later))
    assert max(found) == 25
    assert [each.node for each in found[25].obstacles] == ["controller 3000", "controller 3001"]
    assert [each.node for each in found[6].obstacles] == ["broker 1", "broker 2"]
    assert level_changes(feature_matrix((), {}, "NONE"), lambda level: ()) == ()


@pytest.mark.parametrize("brokers", [BOTH, OLD, (FeatureRange(METADATA_VERSION, 18, 21),)], ids=["all", "old", "new"])
@pytest.mark.parametrize("state", MigrationState)
@pytest.mark.parametrize("present", [14, 17, 19, 20])
def test_our_controller_refuses_exactly_what_is_said_to_be_refused(
    present: int, state: MigrationState, brokers: tuple[FeatureRange, ...]
) -> None:
    """R-778-03, R-778-04: one judgement for people, and the one that writes the record."""
    image = a_cluster(present, state=state, brokers=brokers)
    for level, change in changes_of(image).items():
        kind = UpgradeType.UPGRADE if change.direction is LevelDirection.RAISE else UpgradeType.SAFE_DOWNGRADE
        key = FeatureUpdateKey(METADATA_VERSION, level, upgrade_type=kind)
        decision = update_features(
            a_situation(image, voters=VOTERS), UpdateFeaturesRequest(feature_updates=(key,), validate_only=True)
        )
        (answer,) = decision.reply.results  # type: ignore[attr-defined]
        assert (answer.error_code == 0) == (change.refused is None), (level, change, answer)
