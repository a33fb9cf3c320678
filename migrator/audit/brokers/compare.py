"""Compare what one broker says with what the log says, key by key and field by field.

In:   a `BrokerReading`, and the log's facts.
Out:  a `ComparedBroker`: how many keys of each family were compared and how that ended; each difference, with the
      broker's value.
Elsewhere: asking (node/brokers/what_they_say.py), whether a difference counts and which side stands alone
(node/tools/third_side.py).
Rules: only what a broker can tell is compared. Of a topic that is another one there, nothing below it is told. A log
on its disks of which the metadata log knows nothing is a difference, too. A broker shows a token to its owner, its
renewers and whoever may describe it, and says nothing of others: a token that it does not show is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from migrator.audit.brokers.answers import ALL_BROKERS, ITERATIONS, LOGS, BrokerReading
from migrator.audit.compare import ISR, BrokerDifference, BrokerLag, FamilyCount, KeyOutcome
from migrator.audit.fingerprints import HIDDEN, SecretFingerprints
from migrator.audit.normalise import (
    BROKER_CONFIGS,
    PARTITIONS,
    TOPIC_CONFIGS,
    TOPICS,
    Facts,
    LogFacts,
    partition_key,
)
from migrator.audit.rows import HOLD_SECRETS
from migrator.audit.security_facts import ACLS, QUOTAS, SCRAM, TOKENS
from migrator.audit.subjects import fingerprinted_facts

BROKER_FAMILIES: Final = (TOPICS, PARTITIONS, LOGS, ACLS, TOPIC_CONFIGS, BROKER_CONFIGS, QUOTAS, SCRAM, TOKENS)
KNOWN_BY_BROKERS: Final = ("replicas", "leader", "leader_epoch", ISR)
"""Of a partition."""

CHANGED: Final = "changed"
MISSING_ON_BROKER: Final = "missing on broker"
MISSING_IN_LOG: Final = "missing in log"
NOT_READ: Final = "not read"


@dataclass(slots=True)
class ComparedBroker:
    """What is kept of a broker once it was compared: its answers are not. told: families that it told.

    lagging, lag: as `AskedBroker` has them.
    """

    broker: int
    kraft: bool
    told: frozenset[str]
    counts: dict[str, FamilyCount] = field(
        default_factory=lambda: {family: FamilyCount(family) for family in BROKER_FAMILIES}
    )
    differences: list[BrokerDifference] = field(default_factory=list)
    lagging: int = 0
    lag: BrokerLag | None = None


def compare_broker(reading: BrokerReading, log: LogFacts, fingerprints: SecretFingerprints) -> ComparedBroker:
    return _Comparison(reading, log, fingerprints).run()


class _Comparison:
    def __init__(self, reading: BrokerReading, log: LogFacts, fingerprints: SecretFingerprints) -> None:
        self._reading = reading
        self._log = log
        self._fingerprints = fingerprints
        self._found = ComparedBroker(reading.broker, reading.kraft, frozenset(reading.facts))

    def run(self) -> ComparedBroker:
        for family, reason in self._reading.problems.items():
            self._found.counts[family].count(KeyOutcome.NOT_READ)
            self._found.differences.append(
                BrokerDifference(self._reading.broker, family, "", "", NOT_READ, None, None, reason=reason)
            )
        for family in BROKER_FAMILIES:
            if family in self._reading.facts:
                self._family(family, self._reading.facts[family])
        return self._found

    def _family(self, family: str, told: Mapping[str, Facts]) -> None:
        expected = dict(self._expected(family))
        unequal = {key for key, facts in expected.items() if told.get(key) != facts} | (told.keys() - expected.keys())
        self._found.counts[family].count(KeyOutcome.EQUAL, len(expected.keys() - unequal))
        for key in sorted(unequal):
            if self._is_of_another_topic(family, key):
                continue
            found = list(self._key(family, key, told.get(key), expected.get(key)))
            self._found.counts[family].count(KeyOutcome.DIFFERENT if found else KeyOutcome.EQUAL)
            self._found.differences += found

    def _is_of_another_topic(self, family: str, key: str) -> bool:
        """A partition of a topic that the broker does not know under this id: the topic is the difference."""
        if family != PARTITIONS:
            return False
        topic = key.rpartition("-")[0]
        known = self._reading.facts[TOPICS].get(topic)
        return known is None or known != self._log.topic(topic)

    # --- what the log lets a broker say ---------------------------------------------------------------------

    def _expected(self, family: str) -> Iterator[tuple[str, Facts]]:
        log = self._log
        match family:
            case "topics":
                for name in log.topics():
                    yield name, log.topic(name) or {}
            case "partitions":
                for name in log.topics():
                    for part, facts in log.partitions(name).items():
                        yield partition_key(name, part), {each: facts[each] for each in KNOWN_BY_BROKERS}
            case "logs":
                yield from self._logs()
            case "topic configs":
                yield from log.configs(TOPIC_CONFIGS).items()
            case "broker configs":
                mine = {ALL_BROKERS, str(self._reading.broker)}
                yield from ((key, facts) for key, facts in log.configs(BROKER_CONFIGS).items() if key in mine)
            case "SCRAM credentials":
                for key, facts in log.security.facts(SCRAM).items():
                    yield key, {name: value for name, value in facts.items() if name.endswith(ITERATIONS)}
            case "delegation tokens":
                told = self._reading.facts[TOKENS]
                yield from ((key, facts) for key, facts in log.security.facts(TOKENS).items() if key in told)
            case _:
                assert family in (ACLS, QUOTAS), family
                yield from log.security.facts(family).items()

    def _logs(self) -> Iterator[tuple[str, Facts]]:
        """A replica that is being added may have none yet, and a log of which the broker says nothing is not asked."""
        broker, told = self._reading.broker, self._reading.facts[LOGS]
        for name in self._log.topics():
            topic = self._log.topic(name) or {}
            for part, facts in self._log.partitions(name).items():
                key = partition_key(name, part)
                if broker not in facts["replicas"] or (broker in facts["adding"] and key not in told):
                    continue
                expected = {"log": True}
                said = told.get(key, {})
                if "topic_id" in said:
                    expected["topic_id"] = topic["id"]
                if "leads at" in said:
                    expected["leads at"] = facts["leader_epoch"]
                yield key, expected

    # --- one key -------------------------------------------------------------------------------------------

    def _key(self, family: str, key: str, told: Facts | None, log: Facts | None) -> Iterator[BrokerDifference]:
        if told == log:
            return
        if told is None or log is None:
            if family == LOGS and log is None and self._is_on_its_way(key):
                return
            kind = MISSING_ON_BROKER if told is None else MISSING_IN_LOG
            yield self._difference(family, key, "", kind, told, log)
            return
        for name in sorted({*told, *log}):
            on_broker, in_log = told.get(name), log.get(name)
            hidden = on_broker == HIDDEN and name in log
            same_set = name == ISR and sorted(on_broker or ()) == sorted(in_log or ())
            if on_broker == in_log or hidden or same_set:
                continue
            kind = MISSING_ON_BROKER if name not in told else CHANGED if name in log else MISSING_IN_LOG
            yield self._difference(family, key, name, kind, {name: on_broker}, {name: in_log})

    def _is_on_its_way(self, key: str) -> bool:
        """A replica that leaves in a reassignment still has its log."""
        name, _, number = key.rpartition("-")
        facts = self._log.partitions(name).get(int(number))
        return facts is not None and self._reading.broker in facts["removing"]

    def _difference(
        self, family: str, key: str, name: str, kind: str, told: Facts | None, log: Facts | None
    ) -> BrokerDifference:
        if family in HOLD_SECRETS:
            told, log = (
                None if each is None else fingerprinted_facts(family, each, self._fingerprints) for each in (told, log)
            )
        on_broker, in_log = (each if each is None or not name else each[name] for each in (told, log))
        return BrokerDifference(self._reading.broker, family, key, name, kind, on_broker, in_log)
