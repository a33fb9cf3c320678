"""The third side of an audit: what brokers say beside what ZooKeeper and the log say, and which side stands alone.

In:   addresses of brokers, how to speak to them, a reading of the log, what the two other sides said of each other.
Out:  a `BrokersSide` of the report: counts by family, each difference with its broker and the side that is alone.
Elsewhere: asking (node/brokers/what_they_say.py), comparing one broker (audit/brokers/compare.py), the report as a
whole (audit/compare.py).
Rules: a broker that lags is no broker that differs. What differs is looked at again, log and brokers, until it agrees;
it counts when the broker said the same in every look. A broker that gets nothing new while the log goes on counts, too,
unless the quorum's leader says that it is behind by no more than a healthy one may be (audit/brokers/lagging.py).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from migrator.audit.brokers.answers import LOGS, BrokerReading
from migrator.audit.brokers.compare import BROKER_FAMILIES, NOT_READ, ComparedBroker, compare_broker
from migrator.audit.brokers.disks_side import place_of
from migrator.audit.brokers.lagging import ReadUpTo, judge_lag
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
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.log_states import LogStates
from migrator.audit.normalise import LogFacts
from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.finding import FindingError
from migrator.node.brokers.what_they_say import read_brokers, reason_of
from migrator.node.tools.log_of_quorum import host_and_port
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity

LOOKS_AFTER_S: Final = (0.5, 1.0, 2.0)
"""Waited for before each further look. A healthy broker has what is committed within half a second."""

THIRD_SIDE_S: Final = 240.0
"""No look begins later. A broker that was not read by then is silent; what the two sides said waits for it."""
ALONE_SHOWN: Final = 100
"""These are differences of the two sides, which are told there."""

BROKER, LOG, EACH = "broker", "log", "each"
MOVED: Final = MOVED_ON
"""Of a rehearsal: ZooKeeper went on since it was copied, and the broker with it."""


REGISTERED: Final = "registered"
PLAIN: Final = 0
"""`security_protocol` of a listener without TLS and SASL. Source: Kafka `SecurityProtocol.PLAINTEXT`."""

ReadFacts = Callable[[], LogFacts]


@dataclass(frozen=True, slots=True)
class LagAsked:
    """read_up_to: asks the quorum's leader how far brokers have read the log, by id; raises OSError or Z2K-4117.

    behind: reads the log, with all that it said behind an offset.
    """

    read_up_to: Callable[[], dict[int, ReadUpTo]]
    behind: Callable[[int], LogStates]


@dataclass(frozen=True, slots=True)
class BrokersAsked:
    """bootstrap: `HOST:PORT[,...]` of brokers, or `registered`: where the log says that they listen.

    security: how the audit speaks to all of them. listener: of those that they registered; "": the plain one.
    without:  ids of brokers that are not asked, as they are known to be down.
    """

    bootstrap: str
    security: ClientSecurity = PLAINTEXT
    listener: str = ""
    without: frozenset[int] = frozenset()

    def addresses(self, facts: LogFacts) -> list[tuple[str, int]]:
        """Raises Z2K-5001."""
        if self.bootstrap != REGISTERED:
            try:
                return [host_and_port(each) for each in self.bootstrap.split(",")]
            except ValueError as error:
                raise AUDIT_CANNOT_READ.error(what="the brokers", reason=str(error)) from None
        found = [
            (each.host, each.port)
            for broker, record in sorted(facts.registered.items())
            if broker not in self.without
            for each in record.end_points
            if (each.name == self.listener if self.listener else each.security_protocol == PLAIN)
        ]
        if not found and self.without.issuperset(facts.registered):
            raise AUDIT_CANNOT_READ.error(what="the brokers", reason="every registered one was left out")
        if not found:
            where = f"listener {self.listener}" if self.listener else "plain listener (give --controller FILE)"
            raise AUDIT_CANNOT_READ.error(what="the brokers", reason=f"no broker is registered with a {where}")
        return found


def third_side(
    asked: BrokersAsked,
    read_log: ReadFacts,
    two_sides: Iterable[Difference] = (),
    *,
    lag: LagAsked | None = None,
    looks_after_s: Sequence[float] = LOOKS_AFTER_S,
    limit_s: float = THIRD_SIDE_S,
) -> BrokersSide:
    """Ask every broker that has replicas, is registered, or is alive. two_sides: differences of ZooKeeper and the log,
    expected ones too. lag: None: every broker that stays behind differs.

    Raises Z2K-5001 when none answers.
    """
    began = time.monotonic()
    fingerprints = SecretFingerprints()
    facts = read_log()
    found: dict[int, ComparedBroker] = {}

    def ask(take: Callable[[BrokerReading], None], only: list[int] | None = None) -> dict[int, str]:
        left_s = limit_s - (time.monotonic() - began)
        reading = read_brokers(
            asked.addresses(facts), facts, asked.security, take, only=only, without=asked.without, limit_s=left_s
        )
        try:
            return asyncio.run(reading)
        except OSError as error:
            raise AUDIT_CANNOT_READ.error(what="the brokers", reason=str(error)) from error

    def first(reading: BrokerReading) -> None:
        found[reading.broker] = compare_broker(reading, facts, fingerprints)

    def once_more(reading: BrokerReading) -> None:
        now = compare_broker(reading, facts, fingerprints)
        found[reading.broker] = _settled(found[reading.broker], now)

    read: dict[int, ReadUpTo] = {}
    lag_problem = ""
    silent = ask(first)
    for seconds in looks_after_s:
        again = [broker for broker, each in found.items() if broker not in silent and _may_settle(each)]
        if not again:
            break
        if time.monotonic() - began > limit_s:
            silent |= dict.fromkeys(again, "no time was left to look again at what differs")
            break
        time.sleep(seconds)
        facts = read_log()
        read, lag_problem = _read_up_to(lag)
        silent |= ask(once_more, again)
    for broker in silent:  # what it said in one look alone is no proof of anything
        found.pop(broker, None)
    if lag is not None:
        _judge_lags(found, read, lag, fingerprints)
    side = _report(found, silent, asked.without, list(two_sides), time.monotonic() - began)
    return msgspec.structs.replace(side, lag_problem=lag_problem)


def _read_up_to(lag: LagAsked | None) -> tuple[dict[int, ReadUpTo], str]:
    """Asked before the brokers: what they answer is not older than this."""
    try:
        return ({} if lag is None else lag.read_up_to()), ""
    except (OSError, FindingError) as error:
        return {}, f"the quorum does not say who lags: {reason_of(error)}"


def _judge_lags(
    found: dict[int, ComparedBroker], read: dict[int, ReadUpTo], lag: LagAsked, fingerprints: SecretFingerprints
) -> None:
    differing = {
        broker: read[broker] for broker, each in found.items() if each.kraft and _may_settle(each) and broker in read
    }
    if not differing:
        return
    states = lag.behind(min(each.end for each in differing.values()) - 1)
    for broker, each in differing.items():
        judge_lag(found[broker], each, states, fingerprints)


def _stays(each: BrokerDifference) -> tuple[object, ...]:
    """What is the same in two looks where the broker got nothing new meanwhile."""
    said = msgspec.json.encode(each.on_broker)
    return each.broker, each.family, each.key, each.field_, each.kind, said


def _may_settle(compared: ComparedBroker) -> bool:
    return any(each.kind != NOT_READ for each in compared.differences)


def _settled(before: ComparedBroker, now: ComparedBroker) -> ComparedBroker:
    """What differs in both looks, and in both by the same word of the broker; all else is on its way and is equal."""
    stayed = {_stays(each) for each in before.differences}
    moving = [each for each in now.differences if each.kind != NOT_READ and _stays(each) not in stayed]
    now.differences = [each for each in now.differences if each.kind == NOT_READ or _stays(each) in stayed]
    left = {(each.family, each.key) for each in now.differences}
    settled = {(each.family, each.key) for each in moving} - left
    for family, count in Counter(family for family, _ in settled).items():
        now.counts[family].different -= count
        now.counts[family].equal += count
    return now


def _report(
    found: dict[int, ComparedBroker],
    silent: dict[int, str],
    without: Iterable[int],
    two_sides: list[Difference],
    seconds: float,
) -> BrokersSide:
    families = {name: FamilyCount(name) for name in BROKER_FAMILIES}
    differences: list[BrokerDifference] = []
    for comparison in found.values():
        for name, counts in comparison.counts.items():
            for outcome in KeyOutcome:
                families[name].count(outcome, counts.of(outcome))
        differences += comparison.differences
    said = {(each.family, each.key, each.field_): each for each in two_sides}
    named = sorted((_alone(each, said) for each in differences), key=place_of)
    moved = [each for each in named if each.alone == MOVED]
    named = [each for each in named if each.alone != MOVED]
    left = {(each.family, each.key, each.broker) for each in named}
    moved_keys = {(each.family, each.key, each.broker) for each in moved} - left
    for family, count in Counter(family for family, _, _ in moved_keys).items():
        families[family].different -= count
        families[family].expected += count
    keys_moved = Counter(broker for _, _, broker in moved_keys)
    asked = [AskedBroker(broker, "", why) for broker, why in silent.items()]
    asked += [_asked(each, keys_moved[each.broker]) for each in found.values()]
    carried = within_bytes(named[:DIFFERENCES_SHOWN])
    return BrokersSide(
        asked=sorted(asked, key=lambda each: each.broker),
        families=[each for each in families.values() if each.compared],
        differences=carried,
        seconds=round(seconds, 3),
        zookeeper_alone=_zookeeper_alone(two_sides, differences, found.values()),
        not_asked=sorted(without),
        left_off=len(named) - len(carried),
    )


def _asked(compared: ComparedBroker, moved: int) -> AskedBroker:
    """moved: keys in which it differs as ZooKeeper went on since the rehearsal."""
    counts = compared.counts.values()
    refused = [f"{each.family}: {each.reason}" for each in compared.differences if each.kind == NOT_READ]
    return AskedBroker(
        compared.broker,
        "KRaft" if compared.kraft else "ZooKeeper",
        compared=sum(each.compared for each in counts),
        different=sum(each.different for each in counts) - moved,
        refused=refused[0] if refused else "",
        lagging=compared.lagging,
        lag=compared.lag,
    )


def _alone(each: BrokerDifference, two_sides: dict[tuple[str, str, str], Difference]) -> BrokerDifference:
    """ZooKeeper says nothing of a broker's disks, and what it says where it is read as the log is what the log says."""
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


def _zookeeper_alone(
    two_sides: Iterable[Difference], differences: Iterable[BrokerDifference], found: Iterable[ComparedBroker]
) -> list[str]:
    """Where brokers have the family at all, and none of them contradicts the log."""
    contradicted = {(each.family, each.key) for each in differences}
    told = {family for each in found for family in each.told}
    alone: list[Any] = [
        " ".join(filter(None, (each.family, each.key, each.field_)))
        for each in two_sides
        if each.kind != NOT_READ and each.family in told and (each.family, each.key) not in contradicted
    ]
    return sorted(set(alone))[:ALONE_SHOWN]
