"""What is told of each broker that was asked, in a bounded form, and the third side that this adds up to.

In:   a `ComparedBroker` after the last look at it, and the differences of ZooKeeper and the log.
Out:  `ToldByBroker`, which is as small for a broker that differs in everything; a `BrokersSide` of all of them.
Elsewhere: comparing (compare.py), who asks and when (node/tools/third_side.py), listings of disks (disks_side.py).
Rules: which side stands alone is known where a broker is compared, so whoever puts the side together holds at most
`DIFFERENCES_SHOWN` differences of each. ZooKeeper says nothing of a broker's disks, and what it says where it is read
as the log is what the log says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from migrator.audit.brokers.answers import LOGS
from migrator.audit.brokers.compare import BROKER_FAMILIES, NOT_READ, ComparedBroker
from migrator.audit.brokers.disks_side import place_of
from migrator.audit.compare import (
    DIFFERENCES_SHOWN,
    MOVED_ON,
    AskedBroker,
    BrokerDifference,
    BrokersSide,
    Difference,
    FamilyCount,
    KeyOutcome,
    within_bytes,
)

ALONE_SHOWN: Final = 100
"""These are differences of the two sides, which are told there."""

BROKER, LOG, EACH = "broker", "log", "each"
MOVED: Final = MOVED_ON
"""Of a rehearsal: ZooKeeper went on since it was copied, and the broker with it."""


class ToldByBroker(msgspec.Struct, frozen=True):
    """One broker in the report. families: counts of its keys, in the order of `BROKER_FAMILIES`.

    differences: the first ones by `place_of`, at most `DIFFERENCES_SHOWN`. left_off: how many more there are.
    told:        families that it told. contradicts: keys, by family, of the two sides' differences where it says
                 something else than the log.
    """

    asked: AskedBroker
    families: list[FamilyCount]
    differences: list[BrokerDifference]
    left_off: int
    told: list[str]
    contradicts: list[tuple[str, str]]


def tell(compared: ComparedBroker, two_sides: Sequence[Difference]) -> ToldByBroker:
    """two_sides: differences of ZooKeeper and the log, expected ones too."""
    said = {(each.family, each.key, each.field_): each for each in two_sides}
    named = sorted((_alone(each, said) for each in compared.differences), key=place_of)
    moved = [each for each in named if each.alone == MOVED]
    named = [each for each in named if each.alone != MOVED]
    left = {(each.family, each.key) for each in named}
    moved_keys = {(each.family, each.key) for each in moved} - left
    families = {name: msgspec.structs.replace(counts) for name, counts in compared.counts.items()}
    for family, count in Counter(family for family, _ in moved_keys).items():
        families[family].different -= count
        families[family].expected += count
    carried = within_bytes(named[:DIFFERENCES_SHOWN])
    of_two = {(each.family, each.key) for each in two_sides}
    contradicted = of_two & {(each.family, each.key) for each in compared.differences}
    return ToldByBroker(
        _asked(compared, families.values()),
        list(families.values()),
        carried,
        len(named) - len(carried),
        sorted(compared.told),
        sorted(contradicted),
    )


def _asked(compared: ComparedBroker, families: Iterable[FamilyCount]) -> AskedBroker:
    refused = [f"{each.family}: {each.reason}" for each in compared.differences if each.kind == NOT_READ]
    return AskedBroker(
        compared.broker,
        "KRaft" if compared.kraft else "ZooKeeper",
        compared=sum(each.compared for each in families),
        different=sum(each.different for each in families),
        refused=refused[0] if refused else "",
        lagging=compared.lagging,
        lag=compared.lag,
    )


def _alone(each: BrokerDifference, two_sides: dict[tuple[str, str, str], Difference]) -> BrokerDifference:
    if each.kind == NOT_READ:
        return each
    if each.family == LOGS:
        return msgspec.structs.replace(each, alone=BROKER)
    other = two_sides.get((each.family, each.key, each.field_)) or two_sides.get((each.family, each.key, ""))
    if other is None:
        alone = BROKER
    elif other.kind == NOT_READ:
        alone = ""
    else:
        zookeeper = other.zookeeper
        if other.field_ != each.field_ and zookeeper is not None:
            zookeeper = zookeeper.get(each.field_)
        alone = EACH if zookeeper != each.on_broker else MOVED if other.rule == MOVED_ON else LOG
    return msgspec.structs.replace(each, alone=alone)


def side_of(
    told: Sequence[ToldByBroker],
    silent: dict[int, str],
    without: Iterable[int],
    two_sides: Sequence[Difference],
    seconds: float,
) -> BrokersSide:
    """silent: why there is no answer, by broker id. without: brokers that were not asked. seconds: of all looks."""
    families = {name: FamilyCount(name) for name in BROKER_FAMILIES}
    for counts in (each for broker in told for each in broker.families):
        for outcome in KeyOutcome:
            families[counts.family].count(outcome, counts.of(outcome))
    asked = [AskedBroker(broker, "", why) for broker, why in silent.items()] + [each.asked for each in told]
    carried = _first(told)
    return BrokersSide(
        asked=sorted(asked, key=lambda each: each.broker),
        families=[each for each in families.values() if each.compared],
        differences=carried,
        seconds=round(seconds, 3),
        zookeeper_alone=_zookeeper_alone(told, two_sides),
        not_asked=sorted(without),
        left_off=sum(len(each.differences) + each.left_off for each in told) - len(carried),
    )


def _first(told: Iterable[ToldByBroker]) -> list[BrokerDifference]:
    """The first differences of all brokers, and none behind one that its broker left off."""
    ends = [place_of(each.differences[-1]) for each in told if each.left_off]
    found = sorted((each for broker in told for each in broker.differences), key=place_of)
    if ends:
        found = [each for each in found if place_of(each) <= min(ends)]
    return within_bytes(found[:DIFFERENCES_SHOWN])


def _zookeeper_alone(told: Sequence[ToldByBroker], two_sides: Iterable[Difference]) -> list[str]:
    """Where brokers have the family at all, and none of them contradicts the log."""
    contradicted = {key for each in told for key in each.contradicts}
    families = {family for each in told for family in each.told}
    alone = {
        " ".join(filter(None, (each.family, each.key, each.field_)))
        for each in two_sides
        if each.kind != NOT_READ and each.family in families and (each.family, each.key) not in contradicted
    }
    return sorted(alone)[:ALONE_SHOWN]
