"""Listings of brokers' disks as part of the third side of a report.

In:   a `BrokersSide` of what brokers said, which may be empty; files of listings; both other sides.
Out:  the same side, with what was found on disks: one more family, its differences, and when each broker was listed.
Elsewhere: one listing (disks.py), what brokers say (node/tools/third_side.py).
Rule: a broker may be down, or not asked, and its listing counts all the same; where both are there, both count.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from migrator.audit.brokers.both_sides import ReadSides
from migrator.audit.brokers.compare import BROKER_FAMILIES, NOT_READ
from migrator.audit.brokers.disk_listing import read_listings
from migrator.audit.brokers.disks import DISKS, ComparedDisks, compare_disks
from migrator.audit.compare import (
    DIFFERENCES_SHOWN,
    AskedBroker,
    BrokerDifference,
    BrokersSide,
    FamilyCount,
    KeyOutcome,
    within_bytes,
)

THIRD_SIDE_FAMILIES: Final = (*BROKER_FAMILIES, DISKS)


def place_of(each: BrokerDifference) -> tuple[int, str, str, int]:
    """Differences of a third side are sorted by this."""
    return THIRD_SIDE_FAMILIES.index(each.family), each.key, each.field_, each.broker


def with_disks(side: BrokersSide, files: Sequence[Path], sides: ReadSides) -> BrokersSide:
    """Compare each listing, and add what was found. Raises Z2K-5013, and what reading the log raises."""
    began = time.monotonic()
    listings = read_listings(list(files))
    found = [
        compare_disks(listing, log, sides.between, sides.cluster_id)
        for listing, log in zip(listings, sides.since([each.as_of_ms for each in listings]), strict=True)
    ]
    asked = {each.broker: each for each in side.asked}
    for each in found:
        asked[each.broker] = _with_listing(asked.get(each.broker, AskedBroker(each.broker, "")), each)
    total = FamilyCount(DISKS)
    for each in found:
        for outcome in KeyOutcome:
            total.count(outcome, each.count.of(outcome))
    differences = sorted([*side.differences, *(told for each in found for told in each.differences)], key=place_of)
    carried = within_bytes(differences[:DIFFERENCES_SHOWN])
    return msgspec.structs.replace(
        side,
        asked=sorted(asked.values(), key=lambda each: each.broker),
        families=[*side.families, total],
        differences=carried,
        left_off=side.left_off + len(differences) - len(carried),
        seconds=round(side.seconds + time.monotonic() - began, 3),
    )


def _with_listing(asked: AskedBroker, found: ComparedDisks) -> AskedBroker:
    refused = [f"{each.family}: {each.reason}" for each in found.differences if each.kind == NOT_READ]
    return msgspec.structs.replace(
        asked,
        compared=asked.compared + found.count.compared,
        different=asked.different + found.count.different,
        refused=asked.refused or "".join(refused[:1]),
        listed_at_ms=found.listed_at_ms,
    )
