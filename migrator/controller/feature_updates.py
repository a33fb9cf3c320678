"""Changing the levels that the cluster runs at (UpdateFeatures).

In:   the request, the image with what brokers and controllers registered.
Out:  a FeatureLevelRecord for each feature that may change, and an answer for each feature, in the order of names.
Elsewhere: what this controller supports itself (features.py), what a level switches on (model.levels), what a change
would do and lose, for people (model/features).
Source: Kafka 3.9 `FeatureControlManager`, `QuorumFeatures`; R-778-03 to R-778-08. The words are its own: people search
for them.
Unlike stock, no other feature than metadata.version is raised before the migration is over, and kraft.version never:
of a static quorum its level says nothing true, and our controllers refuse to lead a log with features that they do not
know.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from migrator.controller.decision import Decision, Record, Situation
from migrator.controller.features import KRAFT_VERSION, supported_features
from migrator.model import levels
from migrator.model.image import METADATA_VERSION, Image
from migrator.model.values import FeatureRange, MigrationState
from migrator.wire.errors import Error
from migrator.wire.messages.configs import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from migrator.wire.messages.metadata import FeatureLevelRecord

IN_MIGRATION: Final = (MigrationState.PRE_MIGRATION, MigrationState.MIGRATION)


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(situation: Situation, request: UpdateFeaturesRequest) -> Decision:
    """What is possible is done, whatever is refused beside it. A feature named twice: the last one counts."""
    asked = {each.feature: each for each in request.feature_updates}
    refused = {name: _refusal(situation, asked[name]) for name in sorted(asked)}
    results = tuple(
        UpdatableFeatureResult(name, Error.NONE if why is None else Error.INVALID_UPDATE_VERSION, why)
        for name, why in refused.items()
    )
    records: tuple[Record, ...] = tuple(
        (FeatureLevelRecord(name=name, feature_level=asked[name].max_version_level), 0)
        for name, why in refused.items()
        if why is None
    )
    return Decision(UpdateFeaturesResponse(results=results), () if request.validate_only else records)


def _refusal(situation: Situation, asked: FeatureUpdateKey) -> str | None:
    """Why this feature does not change, in stock's words; None when it may."""
    name, level = asked.feature, asked.max_version_level
    why = _why_not(situation, asked)
    if why is not None:
        return f"Invalid update version {level} for feature {name}. {why}"
    if name == METADATA_VERSION:
        why = _why_not_metadata_version(situation.image, level, unsafe=asked.upgrade_type == 3)
        return None if why is None else f"Invalid metadata.version {level}. {why}"
    return None


def _why_not(situation: Situation, asked: FeatureUpdateKey) -> str | None:
    image, name, level = situation.image, asked.feature, asked.max_version_level
    current = image.metadata_version if name == METADATA_VERSION else image.features.get(name, 0)
    if asked.upgrade_type not in list(UpgradeType):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    unsupported = _unsupported(situation, name, level)
    if unsupported is not None:
        return unsupported
    if level < current and asked.upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if level > current and asked.upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    if name != METADATA_VERSION and level > current:
        return _not_raised(image, name)
    return None


def _not_raised(image: Image, name: str) -> str | None:
    """Stock lets it through."""
    if image.migration in IN_MIGRATION:
        return f"Unable to raise {name} while a ZK migration is in progress."
    if name == KRAFT_VERSION:
        return "The voters of this quorum are static; the controller does not raise kraft.version."
    return None


def _unsupported(situation: Situation, name: str, level: int) -> str | None:
    """The first node that does not support the level: this one, registered brokers (fenced ones too), controllers."""
    image, own = situation.image, situation.settings.node_id
    local = tuple(
        FeatureRange(each.name, each.min_supported_version, each.max_supported_version) for each in supported_features()
    )
    nodes = [(f"Local controller {own}", local)]
    nodes += [(f"broker{each}", image.brokers[each].features) for each in sorted(image.brokers)]
    others = sorted(set(image.controllers) - {own}) if image.metadata_version >= levels.CONTROLLER_REGISTRATION else []
    nodes += [(f"controller {each}", image.controllers[each].features) for each in others]
    for node, ranges in nodes:
        found = next((each for each in ranges if each.name == name), FeatureRange(name, 0, 0))
        if not found.lowest <= level <= found.highest:
            only = f"{node} only supports versions {_text(found)}"
            return f"{node} does not support this feature." if found.highest == 0 else only
    if image.metadata_version >= levels.CONTROLLER_REGISTRATION:
        for voter in situation.settings.voters:
            if voter != own and voter not in image.controllers:
                return f"controller {voter} has not registered, and may not support this feature"
    return None


def _text(found: FeatureRange) -> str:
    return str(found.lowest) if found.lowest == found.highest else f"{found.lowest}-{found.highest}"


def _why_not_metadata_version(image: Image, level: int, *, unsafe: bool) -> str | None:
    """R-778-05 to 08: never during the migration, never where records would be lost."""
    if level not in levels.LEVELS:
        return "Unknown metadata.version."
    if image.migration in IN_MIGRATION:
        return "Unable to modify metadata.version while a ZK migration is in progress."
    if level < levels.FEATURE_RECORDS:
        return f"Unable to set a metadata.version less than {levels.LEVELS[levels.FEATURE_RECORDS]}"
    if levels.changes_records(level, image.metadata_version):
        if unsafe:
            return "Unsafe metadata downgrade is not supported in this version."
        return "Refusing to perform the requested downgrade because it might delete metadata information."
    return None
