"""Levels of features change as a stock 3.9 controller changes them, and never below a migration."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from migrator.controller.decision import Situation
from migrator.controller.feature_updates import update_features
from migrator.model.draft import Draft
from migrator.model.image import METADATA_VERSION, Image, Position
from migrator.model.values import Controller, FeatureRange, MigrationState
from migrator.wire.errors import Error
from migrator.wire.messages.configs import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.builders import a_broker, an_id, an_image
from tests.support.situations import CONTROLLER, a_situation, messages, replayed

ALL = (FeatureRange(METADATA_VERSION, 1, 21), FeatureRange("kraft.version", 0, 1))
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def a_cluster(
    level: int = 20, *, state: MigrationState = MigrationState.POST_MIGRATION, brokers: Any = ALL, others: Any = ALL
) -> Image:
    image = an_image(brokers=[replace(a_broker(1, migrating=False), features=brokers)], migration=state)
    draft = Draft(image)
    draft.set_feature(METADATA_VERSION, level)
    for node in (CONTROLLER, CONTROLLER + 1):
        ranges = ALL if node == CONTROLLER else others
        draft.put_controller(Controller(node, an_id(f"run-{node}"), zk_migration_ready=True, features=ranges))
    return draft.finish(Position(1, 1001)).after


def asked(image: Image, *updates: tuple[str, int, int], voters: int = 2, **request: Any) -> tuple[Any, Situation]:
    situation = a_situation(image, voters=tuple(range(CONTROLLER, CONTROLLER + voters)))
    keys = tuple(FeatureUpdateKey(name, level, upgrade_type=kind) for name, level, kind in updates)
    return update_features(situation, UpdateFeaturesRequest(feature_updates=keys, **request)), situation


def the_word(image: Image, name: str, level: int, kind: int, **more: Any) -> str | None:
    """Why it is refused; None when it is done."""
    decision, _ = asked(image, (name, level, kind), **more)
    (result,) = decision.reply.results
    assert (result.error_code == Error.NONE) == bool(decision.records)
    assert result.error_code in (Error.NONE, Error.INVALID_UPDATE_VERSION)
    word: str | None = result.error_message
    return word


def test_after_the_migration_metadata_version_is_raised_and_lowered_where_nothing_is_lost() -> None:
    decision, situation = asked(a_cluster(20), (METADATA_VERSION, 21, UPGRADE))
    assert replayed(situation.image, decision.records).after.metadata_version == 21
    assert the_word(a_cluster(21), METADATA_VERSION, 17, SAFE) is None
    assert the_word(a_cluster(21), METADATA_VERSION, 21, UPGRADE) is None


@pytest.mark.parametrize(
    ("level", "target", "kind", "words"),
    [
        (21, 16, SAFE, "Refusing to perform the requested downgrade because it might delete metadata information."),
        (21, 16, UNSAFE, "Unsafe metadata downgrade is not supported in this version."),
        (21, 3, UNSAFE, "Unable to set a metadata.version less than 3.3-IV0"),
        (21, 20, UPGRADE, "Can't downgrade the version of this feature without setting the upgrade type"),
        (20, 21, SAFE, "Can't downgrade to a newer version."),
        (20, 22, UPGRADE, f"Local controller {CONTROLLER} only supports versions 1-21"),
        (20, -1, UPGRADE, "A feature version cannot be less than 0."),
        (20, 21, 0, "The controller does not support the given upgrade type."),
        (20, 21, 9, "The controller does not support the given upgrade type."),
        (20, 0, UNSAFE, f"Local controller {CONTROLLER} only supports versions 1-21"),
    ],
)
def test_what_a_level_may_not_become(level: int, target: int, kind: int, words: str) -> None:
    found = the_word(a_cluster(level), METADATA_VERSION, target, kind)
    assert found is not None
    assert words in found


@pytest.mark.parametrize("state", [MigrationState.PRE_MIGRATION, MigrationState.MIGRATION])
@pytest.mark.parametrize(("target", "kind"), [(21, UPGRADE), (20, UPGRADE), (19, SAFE), (16, UNSAFE)])
def test_metadata_version_does_not_change_during_the_migration(state: MigrationState, target: int, kind: int) -> None:
    found = the_word(a_cluster(20, state=state), METADATA_VERSION, target, kind)
    assert found is not None
    assert "Unable to modify metadata.version while a ZK migration is in progress." in found


def test_every_registered_node_has_to_support_the_level_also_a_fenced_broker_and_every_voter_has_to_be_known() -> None:
    old = (FeatureRange(METADATA_VERSION, 1, 20),)
    fenced = replace(a_broker(7, migrating=False), features=old, fenced=True)
    draft = Draft(a_cluster())
    draft.put_broker(fenced)
    image = draft.finish(Position(1, 1002)).after
    assert the_word(image, METADATA_VERSION, 21, UPGRADE) == (
        "Invalid update version 21 for feature metadata.version. broker7 only supports versions 1-20"
    )
    found = the_word(a_cluster(others=old), METADATA_VERSION, 21, UPGRADE)
    assert found is not None
    assert f"controller {CONTROLLER + 1} only supports versions 1-20" in found
    found = the_word(a_cluster(), METADATA_VERSION, 21, UPGRADE, voters=3)
    assert found is not None
    assert f"controller {CONTROLLER + 2} has not registered" in found


@pytest.mark.parametrize("state", [MigrationState.MIGRATION, MigrationState.POST_MIGRATION])
def test_no_other_feature_is_raised_and_ending_one_that_is_not_there_is_no_error(state: MigrationState) -> None:
    found = the_word(a_cluster(state=state), "kraft.version", 1, UPGRADE)
    assert found is not None
    assert "kraft.version" in found
    assert the_word(a_cluster(state=state), "kraft.version", 0, UNSAFE) is None
    found = the_word(a_cluster(state=state), "group.version", 1, UPGRADE)
    assert found is not None
    assert "does not support this feature." in found


def test_what_is_possible_is_done_beside_what_is_refused_and_a_trial_changes_nothing() -> None:
    updates = ((METADATA_VERSION, 21, UPGRADE), ("group.version", 1, UPGRADE))
    decision, _ = asked(a_cluster(), *updates)
    assert [(each.feature, each.error_code) for each in decision.reply.results] == [
        ("group.version", Error.INVALID_UPDATE_VERSION),
        (METADATA_VERSION, Error.NONE),
    ]
    assert len(messages(decision)) == 1
    trial, _ = asked(a_cluster(), *updates, validate_only=True)
    assert trial.records == ()
    assert trial.reply.results == decision.reply.results
