"""What a raise of one feature changes, whether it can be undone, and which raises a release would make together.

In:   names of features and of releases.
Out:  `FEATURES`, one row for each feature of Kafka 4.0 to 4.4; `moved_by`, the decisions that a release stands for.
Errors: ValueError in words, of which the service makes Z2K-4250 (state_machine/policy/raises.py).
Elsewhere: levels of metadata.version (migrator/model/levels.py), what has to hold before one
(state_machine/policy/raises.py), what eligible leader replicas do to a minimum of replicas in sync (kept_min_isr.py),
the same for people (docs/later-kafka.md).
Rules: a release stands for one decision per feature, metadata.version first and kraft.version last.
Source: `Feature.featureVersions()` of Kafka 4.0.2, 4.1.2, 4.2.2, 4.3.1 and 4.4.0 (tests/e2e/test_later_features.py
reads them again); each raise and each way back was tried on 4.4.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from migrator.model.image import METADATA_VERSION
from migrator.model.levels import LATER_LEVELS, level_name

KRAFT: Final = "kraft.version"
ELIGIBLE: Final = "eligible.leader.replicas.version"
GROUP: Final = "group.version"
TRANSACTION: Final = "transaction.version"
SHARE: Final = "share.version"
STREAMS: Final = "streams.version"

DYNAMIC_VOTERS: Final = 26
"""4.1-IV0: 4.0 supports kraft.version 1 as well, answers that it was raised, and changes nothing."""
_RAISE: Final = re.compile(r"([a-z][a-z.]{0,99})=([0-9]{1,5})\Z")


class FeatureRow(msgspec.Struct, frozen=True):
    """One feature. levels: by level, the metadata.version from which on a release sets it by itself.

    changes: what another level does, for who decides. undo: how it is undone, and what that leaves; empty: it
    cannot be.
    needs: the lowest metadata.version with which a controller takes it; 0: any.
    """

    name: str
    levels: Mapping[int, int]
    changes: str
    undo: str = ""
    needs: int = 0

    @property
    def highest(self) -> int:
        return max(self.levels)


class Raise(msgspec.Struct, frozen=True):
    """One decision: a feature and the level that it shall have."""

    feature: str
    level: int

    @property
    def text(self) -> str:
        """Write it as it is typed."""
        return f"{self.feature}={self.level}"

    @property
    def words(self) -> str:
        return f"{self.feature} to {level_words(self.feature, self.level)}"


def _lowered(feature: str, left: str) -> str:
    return f"kafka-features.sh downgrade --feature {feature}=0; {left}"


FEATURES: Final[Mapping[str, FeatureRow]] = {
    row.name: row
    for row in (
        FeatureRow(
            GROUP,
            {1: 22},
            "Clients may use the new group protocol (group.protocol=consumer). Groups of before go on as they are.",
            _lowered(GROUP, "clients with the new protocol are refused then"),
        ),
        FeatureRow(
            TRANSACTION,
            {1: 24, 2: 24},
            "Level 1 writes transaction state in a form with tagged fields. Level 2 gives each transaction of a new "
            "client an epoch of its own, so that no late request reaches the next one.",
            _lowered(TRANSACTION, "transactions are as before then"),
        ),
        FeatureRow(
            SHARE,
            {1: 28, 2: 31},
            "Clients may use share groups. Brokers make the topic __share_group_state when the first one is used.",
            _lowered(SHARE, "share groups are refused then, and their topic stays"),
        ),
        FeatureRow(
            STREAMS,
            {1: 29},
            "Kafka Streams may use the group protocol of its own (group.protocol=streams).",
            _lowered(STREAMS, "applications with that protocol are refused then"),
        ),
        FeatureRow(
            ELIGIBLE,
            {1: 26},
            "Replicas that left the ISR below min.insync.replicas stay electable without a loss. The controller writes "
            "min.insync.replicas for all brokers from its own file, where it is not set for all of them, and removes "
            "that of single brokers. Files of brokers do not count any more.",
            _lowered(ELIGIBLE, "the value that it wrote for all brokers stays, and cannot be deleted while it is on"),
            needs=23,
        ),
        FeatureRow(
            KRAFT,
            {1: 21},
            "The voters become records of the metadata log, and can be added and removed. controller.quorum.voters in "
            "files says no more who votes; files that have it still start. For a new or replaced node write "
            "controller.quorum.bootstrap.servers.",
        ),
    )
}
"""In the order in which they are decided, after metadata.version."""

METADATA_CHANGES: Final = (
    "Records of the later release may be written, and the features above it may be raised. From then on Kafka 3.9 "
    "cannot be put back on any node."
)


def parse_raise(text: str) -> Raise:
    """ "group.version=1". Raises ValueError, also for a feature or a level that no release up to 4.4 has."""
    match = _RAISE.match(text)
    if match is None:
        raise ValueError("a raise is written FEATURE=LEVEL, with the level as a number")
    wanted = Raise(match[1], int(match[2]))
    if wanted.feature == METADATA_VERSION:
        if wanted.level not in LATER_LEVELS:
            known = f"{min(LATER_LEVELS)} to {max(LATER_LEVELS)}"
            raise ValueError(f"levels of {METADATA_VERSION} are {known}")
        return wanted
    row = FEATURES.get(wanted.feature)
    if row is None:
        raise ValueError(f"features are {', '.join((METADATA_VERSION, *FEATURES))}")
    if wanted.level not in row.levels:
        levels = " and ".join(map(str, row.levels))
        raise ValueError(f"levels above 0 of {wanted.feature} are {levels}")
    return wanted


def level_of_later(release: str) -> int:
    """The metadata.version of "4.4" or "4.4.0". Raises ValueError."""
    match = re.match(r"(\d+\.\d+)(?:\.\d+)*\Z", release)
    found = [level for level, name in LATER_LEVELS.items() if match and name.startswith(f"{match[1]}-")]
    if not found:
        known = dict.fromkeys(name.partition("-")[0] for name in LATER_LEVELS.values())
        raise ValueError(f"releases with features are {', '.join(known)}")
    return max(found)


def moved_by(release: str) -> tuple[Raise, ...]:
    """What `kafka-features.sh upgrade --release-version` would raise at once, one decision each, in their order.

    Raises ValueError for a release that is not known.
    """
    level = level_of_later(release)
    others = ((row.name, [each for each, first in row.levels.items() if first <= level]) for row in FEATURES.values())
    return (Raise(METADATA_VERSION, level), *(Raise(name, max(those)) for name, those in others if those))


def level_words(feature: str, level: int) -> str:
    """Name a level, where levels of that feature have names."""
    return level_name(level) if feature == METADATA_VERSION else str(level)


def changes_of(feature: str) -> str:
    return METADATA_CHANGES if feature == METADATA_VERSION else FEATURES[feature].changes


def undo_of_raise(feature: str) -> str:
    """Empty where nothing leads back."""
    return "" if feature == METADATA_VERSION else FEATURES[feature].undo
