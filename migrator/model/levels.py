"""Levels of metadata.version: their names, and what each switches on.

In:   nothing.
Out:  `level_name` for people, and the first level of everything that this program asks for.
Elsewhere: which record version a level means (controller.decision), the level of a release (node.config.formatting).
Source: Kafka 3.9 `MetadataVersion`. A broker's `inter.broker.protocol.version` has the same names.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

LEVELS: Final = {
    1: "3.0-IV1", 2: "3.1-IV0", 3: "3.2-IV0", 4: "3.3-IV0", 5: "3.3-IV1", 6: "3.3-IV2", 7: "3.3-IV3",
    8: "3.4-IV0", 9: "3.5-IV0", 10: "3.5-IV1", 11: "3.5-IV2", 12: "3.6-IV0", 13: "3.6-IV1", 14: "3.6-IV2",
    15: "3.7-IV0", 16: "3.7-IV1", 17: "3.7-IV2", 18: "3.7-IV3", 19: "3.7-IV4", 20: "3.8-IV0", 21: "3.9-IV0",
}  # fmt: skip
"""metadata.version levels and their names, as far as a 3.9 controller knows them."""

LATER_LEVELS: Final = {
    22: "4.0-IV0", 23: "4.0-IV1", 24: "4.0-IV2", 25: "4.0-IV3", 26: "4.1-IV0", 27: "4.1-IV1", 28: "4.2-IV0",
    29: "4.2-IV1", 30: "4.3-IV0", 31: "4.4-IV0", 32: "4.4-IV1", 33: "4.4-IV2",
}  # fmt: skip
"""Names for people, of Kafka 4.4.0's `MetadataVersion`; 4.0 ends at 25, 4.1 at 27, 4.2 at 29, 4.3 at 30."""

CHANGES_RECORDS: Final = frozenset({1, 3, 5, 6, 7, 8, 11, 13, 14, 15, 17})
"""Levels that brought a record, or a version of one: below them a log could not say what it says now."""

ORIGINAL: Final = 1
"""Of software that does not know the feature: a broker that registers no range is taken for this one."""
FEATURE_RECORDS: Final = 4
"""The lowest that can be finalized: the first with a record of it."""
CONTROLLED_SHUTDOWN: Final = 7
MIGRATION: Final = 8
SCRAM: Final = 11
TRANSACTIONS: Final = 13
"""The lowest that migrates: below it a copy cannot be one transaction."""
TOKENS: Final = 14
CONTROLLER_REGISTRATION: Final = 15
DIRECTORIES: Final = 17
LATEST: Final = 21
"""The highest that we write; a stock 3.9 controller dies on a higher one."""


def changes_records(lower: int, higher: int) -> bool:
    """Whether a log at `lower` could not say all that one at `higher` can."""
    return any(lower < each <= higher for each in CHANGES_RECORDS)


@lru_cache(maxsize=64)
def level_of_release(release: str) -> int:
    """ "3.9", "3.9.2" and "3.9-IV0" all mean level 21: the highest level of that release, or that level by name.

    0 where Kafka 3.9 knows no level of it: releases before 3.0, and later ones.
    """
    by_name = {name: level for level, name in LEVELS.items()}
    if release in by_name:
        return by_name[release]
    match = re.match(r"(\d+\.\d+)(\.\d+)*$", release)
    return max((level for level, name in LEVELS.items() if match and name.startswith(match[1] + "-")), default=0)


def level_name(level: int) -> str:
    """ "3.9-IV0 (21)", or the bare number of a level that is later than 4.4."""
    name = LEVELS.get(level) or LATER_LEVELS.get(level)
    return str(level) if name is None else f"{name} ({level})"
