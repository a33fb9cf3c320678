"""Whether a broker in KRaft mode differs, or only lags: is what it says what the log said before it goes on?

In:   how far the quorum's leader says that the broker has read the log; what the log said behind that offset; what the
      broker says otherwise.
Out:  the differences that are lag, and whether the lag is within what a healthy broker may have.
Elsewhere: asking the leader, and when a difference counts at all (node/tools/third_side.py).
Rules: what a broker says of a key is lag only if the log said all of it at one moment between what the broker has read
and now. The leader is asked before the broker, so the broker has read at least as much when it answers. Anything else
is a difference, however far behind the broker is. Lag beyond either bound is a difference, too: such a broker lives in
the past. A secret that a broker hides proves nothing.
Source: KIP-595 (DescribeQuorum), KIP-836 (times of observers); Kafka 3.9 `LeaderState.ReplicaState`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from migrator.audit.brokers.answers import ITERATIONS, LOGS
from migrator.audit.brokers.both_sides import LogSince
from migrator.audit.brokers.compare import KNOWN_BY_BROKERS, NOT_READ, ComparedBroker
from migrator.audit.brokers.disks import PartitionMoment, moments
from migrator.audit.compare import ISR, BrokerDifference, BrokerLag
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.log_states import LogStates
from migrator.audit.normalise import PARTITIONS, Facts
from migrator.audit.rows import HOLD_SECRETS
from migrator.audit.security_facts import SCRAM
from migrator.audit.subjects import fingerprinted_facts

LAG_OFFSETS: Final = 10_000
LAG_MS: Final = 10_000
"""A broker fetches without a pause, and has what is committed within half a second. One that the controller has not
heard of for nine seconds is fenced."""

NOT_YET: Final = ("earlier", "it does not lead")
"""What a broker says of a partition of which it has not heard that it leads it."""


@dataclass(frozen=True, slots=True)
class ReadUpTo:
    """How far one broker has read, as the leader says. end: the first offset that it does not have."""

    end: int
    lag: BrokerLag


def lag_of(offsets: int, ms: int) -> BrokerLag:
    """ms: -1 where nobody knows; that is no bound that anybody keeps."""
    return BrokerLag(offsets, ms, beyond=offsets > LAG_OFFSETS or not 0 <= ms <= LAG_MS)


def judge_lag(found: ComparedBroker, read: ReadUpTo, states: LogStates, fingerprints: SecretFingerprints) -> None:
    """Tell lag from differences, and count keys that differ by no more than a healthy lag as expected.

    states: what the log said behind `read.end` - 1, or behind an earlier offset.
    """
    found.lag = read.lag
    log = LogSince(states, read.end - 1, reaches=True)
    by_key: defaultdict[tuple[str, str], list[BrokerDifference]] = defaultdict(list)
    for each in found.differences:
        by_key[each.family, each.key].append(each)
    lagging = {key for key, some in by_key.items() if _is_lag(some, log, fingerprints)}
    judged = [msgspec.structs.replace(each, lags=(each.family, each.key) in lagging) for each in found.differences]
    found.lagging = len(lagging)
    if read.lag.beyond:
        found.differences = judged
        return
    found.differences = [each for each in judged if (each.family, each.key) not in lagging]
    for family, keys in Counter(family for family, _ in lagging).items():
        found.counts[family].different -= keys
        found.counts[family].expected += keys


def _is_lag(some: list[BrokerDifference], log: LogSince, fingerprints: SecretFingerprints) -> bool:
    """some: all differences of one key."""
    family, key = some[0].family, some[0].key
    if any(each.kind == NOT_READ for each in some):
        return False
    if family == LOGS:
        topic, _, partition = key.rpartition("-")
        said = moments(log, topic, int(partition))
        return all(_is_lag_on_disk(each, said) for each in some)
    states = log.states.of((family, key))
    read = [each for each in states if each.since <= log.low][-1:]
    later = [each for each in states if each.since > log.low]
    since = [_tellable(family, each.facts, fingerprints) for each in (*read, *later)]
    return any(_equal(_said(some, since[-1]), each) for each in since)


def _said(some: list[BrokerDifference], log: Facts | None) -> Facts | None:
    """What the broker says of the key: what the log says, but for their differences."""
    found: Facts | None = dict(log or {})
    for each in some:
        if not each.field_:
            found = each.on_broker
        elif found is not None:
            found[each.field_] = each.on_broker
    return None if found is None else {name: value for name, value in found.items() if value is not None}


def _equal(one: Facts | None, other: Facts | None) -> bool:
    """The order of an ISR says nothing."""
    one, other = ({**each, ISR: sorted(each[ISR])} if each and ISR in each else each for each in (one, other))
    return (one or None) == (other or None)


def _tellable(family: str, facts: Mapping[str, Any] | None, fingerprints: SecretFingerprints) -> Facts | None:
    """Of what the log has, what a broker tells, as differences carry it."""
    if facts is None:
        return None
    if family == PARTITIONS:
        return {name: facts[name] for name in KNOWN_BY_BROKERS}
    if family == SCRAM:
        facts = {name: value for name, value in facts.items() if name.endswith(ITERATIONS)}
    return fingerprinted_facts(family, dict(facts), fingerprints) if family in HOLD_SECRETS else dict(facts)


def _is_lag_on_disk(each: BrokerDifference, said: list[PartitionMoment]) -> bool:
    """Whether the broker has not heard yet that it leads, that a replica is there, or that it is gone."""
    before = said[:-1]
    match each.field_:
        case "leads at" if each.on_broker in NOT_YET:
            now = said[-1].facts or {}
            return any((at.facts or {}).get("leader_epoch", -1) < now.get("leader_epoch", -1) for at in before)
        case "topic_id":
            return any(at.topic_id != said[-1].topic_id for at in before)
        case "" | "log":
            has_log = bool((each.on_broker or {}).get("log")) if not each.field_ else bool(each.on_broker)
            return any((each.broker in (at.facts or {}).get("replicas", ())) == has_log for at in before)
        case _:
            return False
