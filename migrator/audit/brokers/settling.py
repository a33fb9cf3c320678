"""What differs in two looks at one broker, and in both by the same word of it.

In:   the broker as it was compared before, and as it was compared now.
Out:  the latter, without what is on its way: that is equal.
Elsewhere: how often a broker is looked at (node/tools/third_side.py), lag (lagging.py).
"""

from __future__ import annotations

from collections import Counter

import msgspec

from migrator.audit.brokers.compare import NOT_READ, ComparedBroker
from migrator.audit.compare import BrokerDifference


def may_settle(compared: ComparedBroker) -> bool:
    """Whether it differs at all: what was not read does not settle."""
    return any(each.kind != NOT_READ for each in compared.differences)


def settled(before: ComparedBroker, now: ComparedBroker) -> ComparedBroker:
    """Keep what differs in both looks by the same word of the broker. `now` is changed."""
    stayed = {_stays(each) for each in before.differences}
    moving = [each for each in now.differences if each.kind != NOT_READ and _stays(each) not in stayed]
    now.differences = [each for each in now.differences if each.kind == NOT_READ or _stays(each) in stayed]
    left = {(each.family, each.key) for each in now.differences}
    on_their_way = {(each.family, each.key) for each in moving} - left
    for family, count in Counter(family for family, _ in on_their_way).items():
        now.counts[family].different -= count
        now.counts[family].equal += count
    return now


def _stays(each: BrokerDifference) -> tuple[object, ...]:
    """What is the same in two looks where the broker got nothing new meanwhile."""
    said = msgspec.json.encode(each.on_broker)
    return each.broker, each.family, each.key, each.field_, each.kind, said
