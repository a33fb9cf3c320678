"""What a metadata log says that no log of a lower metadata.version can say: what a downgrade would lose, by key.

In:   an image of the log, and the level to go down to.
Out:  `Loss` for each kind that the log has; nothing where the log loses nothing.
Elsewhere: whether a controller does it at all (changes.py, controller/feature_updates.py).
Rules: R-778-04. The first levels of `KINDS` and `LOSES_NOTHING` together are `levels.CHANGES_RECORDS`, and ELR.
Source: Kafka 3.9, every call of `ImageWriterOptions.handleLoss`: `FeaturesImage`, `ScramImage`, `DelegationTokenImage`,
`ClusterImage`, `BrokerRegistration.toRecord`, `PartitionRegistration.toRecord` (which leaves out ELR without a call).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import nsmallest
from typing import Final

import msgspec

from migrator.model import levels
from migrator.model.image import METADATA_VERSION, Image
from migrator.model.values import ZERO_ID, MigrationState, ScramMechanism

KEYS_MAX: Final = 100
"""Of one kind; every partition may have directories."""
ELIGIBLE_REPLICAS: Final = 22
"""4.0-IV0 in the table of Kafka 3.9, where it is not for production: above each level that 3.9 finalizes."""


class Loss(msgspec.Struct, frozen=True):
    """Entries of one kind that a downgrade would lose.

    record, field: where the log has it; field is empty where the whole record goes. first_level: the lowest level that
    has it. count: how many there are. keys: the first `KEYS_MAX` of them, sorted.
    """

    kind: str
    record: str
    field: str
    first_level: int
    count: int
    keys: tuple[str, ...]


class LossKind(msgspec.Struct, frozen=True):
    """What no log below `first_level` can say. keys: who has it in an image."""

    kind: str
    record: str
    field: str
    first_level: int
    keys: Callable[[Image], Iterable[str]]


def losses(image: Image, level: int, eligible: Iterable[str] = ()) -> tuple[Loss, ...]:
    """List what a log at `level` could not say, by kind, the newest kind first.

    eligible: partitions with eligible leader replicas, which an image does not have.
    """
    kinds = (ELR, *KINDS)
    return tuple(
        Loss(each.kind, each.record, each.field, each.first_level, len(keys), tuple(nsmallest(KEYS_MAX, keys)))
        for each in kinds
        if level < each.first_level and (keys := sorted(eligible if each is ELR else each.keys(image)))
    )


# --- who has it -------------------------------------------------------------------------------------------


def _with_directories(image: Image) -> Iterator[str]:
    for topic, partition in image.partitions():
        if any(each != ZERO_ID for each in partition.directories):
            yield f"{topic.name}-{partition.id}"


def _with_log_dirs(image: Image) -> Iterator[str]:
    return (f"broker {each.id}" for each in image.brokers.values() if each.log_dirs)


def _controllers(image: Image) -> Iterator[str]:
    return (f"controller {each}" for each in image.controllers)


def _credentials(image: Image) -> Iterator[str]:
    return (f"{each.user} {_MECHANISMS.get(each.mechanism, each.mechanism)}" for each in image.scram)


_MECHANISMS: Final = {int(each): f"SCRAM-{each.name.replace('_', '-')}" for each in ScramMechanism}


def _migration(image: Image) -> Iterator[str]:
    return iter(() if image.migration is MigrationState.NONE else (image.migration.name,))


def _migrating(image: Image) -> Iterator[str]:
    return (f"broker {each.id}" for each in image.brokers.values() if each.migrating)


def _leaving(image: Image) -> Iterator[str]:
    return (f"broker {each.id}" for each in image.brokers.values() if each.in_controlled_shutdown)


def _features(image: Image) -> Iterator[str]:
    return (name for name, level in image.features.items() if level and name != METADATA_VERSION)


ELR: Final = LossKind(
    "eligible leader replicas", "PartitionRecord", "EligibleLeaderReplicas", ELIGIBLE_REPLICAS, lambda _: ()
)

KINDS: Final = (
    LossKind("directories of replicas", "PartitionRecord", "Directories", levels.DIRECTORIES, _with_directories),
    LossKind("log directories of brokers", "RegisterBrokerRecord", "LogDirs", levels.DIRECTORIES, _with_log_dirs),
    LossKind(
        "registrations of controllers", "RegisterControllerRecord", "", levels.CONTROLLER_REGISTRATION, _controllers
    ),
    LossKind("delegation tokens", "DelegationTokenRecord", "", levels.TOKENS, lambda image: image.tokens),
    LossKind("SCRAM credentials", "UserScramCredentialRecord", "", levels.SCRAM, _credentials),
    LossKind("state of the migration", "ZkMigrationStateRecord", "", levels.MIGRATION, _migration),
    LossKind("brokers in migration mode", "RegisterBrokerRecord", "IsMigratingZkBroker", levels.MIGRATION, _migrating),
    LossKind(
        "brokers in controlled shutdown",
        "RegisterBrokerRecord",
        "InControlledShutdown",
        levels.CONTROLLED_SHUTDOWN,
        _leaving,
    ),
    LossKind("other finalized features", "FeatureLevelRecord", "", levels.FEATURE_RECORDS, _features),
)
"""The newest first."""

LOSES_NOTHING: Final = {
    1: "the first level of KRaft",
    3: "LeaderRecoveryState is a tagged field of every version of PartitionRecord",
    5: "NoOpRecord says nothing",
    6: "BrokerRegistrationChangeRecord has FenceBrokerRecord and UnfenceBrokerRecord below it",
    13: "a snapshot has no transaction",
}
"""Levels that changed records too, by what is left of that in an image. Controllers of Kafka 3.9 refuse to cross them
all the same.
"""
