"""Classify what both sides say: equal, expected, different, not read.

In:   facts of one key from ZooKeeper and from the log (None: that side does not have it).
Out:  counts per family, and every difference with its field and both values.
Elsewhere: where the facts come from (normalise.py), the second look at what differs (quick.py, job.py).
Rules: "not read" never passes; every expected difference has a named rule; keys are never cut off; values of
keys that are not known to be harmless leave as keyed hashes (fingerprints.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol, TypeVar

import msgspec

from migrator.audit.cluster import ABOVE, CLUSTER, contradictions
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.kept_reading import kept_facts
from migrator.audit.normalise import (
    BLOCK_SIZE,
    FAMILIES,
    NEXT_ID,
    OF_ZOOKEEPER_ALONE,
    ORDERS,
    PARTITIONS,
    PRODUCER_IDS,
    STATE_FIELDS,
    STOCK_ANNOUNCES,
    TOPIC_CONFIGS,
    Facts,
    why_unusable,
)
from migrator.audit.rows import HOLD_SECRETS
from migrator.audit.shape.cluster_shape import ClusterShape
from migrator.findings.finding import FindingError

DIFFERENCES_SHOWN: Final = 1_000
"""How many differences a report carries in full, and as many expected ones; all of them are counted."""

DIFFERENCES_BYTES_MAX: Final = 8 << 20
"""Of either as JSON: one difference may hold a topic's whole assignment, and reports go through pipes and databases."""

BROKERS_NAMED: Final = 3
"""In one line of text; all of them are in the report."""

LOOKS_MAX: Final = 4
"""A live cluster is looked at again until what differs is the same as the look before; after this many it counts."""

STOCK_BLOCK: Final = 1_000
"""A stock controller mirrors the block that comes next as if it were handed out (K-12): a gap, never a double. Behind
a block that anybody else wrote the same distance means that the log hands it out again (F-29)."""

BLOCK_IDS: Final = 1_000
"""Producer ids that a ZooKeeper controller hands out at once, behind the block before.
Source: Kafka 3.9 `ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`, `ZkProducerIdManager.getNewProducerIdBlock`.
"""

ISR: Final = "isr"

NOT_A_COPY: Final = 2**63 - 1
"""No transaction is later than this one."""

VERSION_LAGS: Final = "the version of the state znode is behind the partition epoch; no rollback before it is raised"

EPOCH_IS_RAISED: Final = "a rollback writes a controller epoch above that of every state"

STOCK_RUNS_AHEAD: Final = "stock writes a state again where only its directories changed, which no znode has"

WRITES_OF_A_LEADER: Final = 2
"""Of a state by one stock leader, that change nothing in it: the copy of its snapshot, and one that was torn before it.
Source: Kafka 3.9 `KRaftMigrationZkWriter.handleSnapshot`, `KRaftMigrationDriver.SyncKRaftMetadataEvent`.
"""

WRITES_AGAIN: Final = 100
"""Beside those: it writes all of them again whenever ZooKeeper was lost in the middle, as often as that happens."""

MARGIN: Final = "producer id margin of the copy"

MOVED_ON: Final = "ZooKeeper changed it after the rehearsal was read"

LAG: Final = "dual-write lag"
"""How a rule begins by which ZooKeeper has what the log said when it was read, and the log says more by now."""

EVERY_FAMILY: Final = "every family"
"""The family of a difference that says why a whole side was not read."""


class DifferenceKind(StrEnum):
    """The way in which a field, or a whole key, differs."""

    CHANGED = "changed"
    MISSING_IN_ZOOKEEPER = "missing in zookeeper"
    MISSING_IN_LOG = "missing in log"
    OTHER_IN_SNAPSHOT = "other in snapshot"
    UNUSABLE = "unusable"
    NOT_READ = "not read"


class KeyOutcome(StrEnum):
    """What became of a key."""

    EQUAL = "equal"
    EXPECTED = "expected"
    DIFFERENT = "different"
    NOT_READ = "not read"


class Difference(msgspec.Struct, frozen=True, rename={"field_": "field"}):
    """One field of one key; field_ "" is the whole key. rule: why it is expected, why it was not read, what the
    snapshot says, or why nobody can use what both sides say.
    """

    family: str
    key: str
    field_: str
    kind: str
    zookeeper: Any
    log: Any
    rule: str = ""

    @property
    def place(self) -> tuple[int, str, str]:
        """Reports are sorted by this: families in their order, then key, then field."""
        known = self.family in FAMILIES
        return FAMILIES.index(self.family) if known else -1, self.key, self.field_


class FamilyCount(msgspec.Struct):
    """How many keys of a family were compared, and how that ended."""

    family: str
    compared: int = 0
    equal: int = 0
    expected: int = 0
    different: int = 0
    not_read: int = 0

    def of(self, outcome: KeyOutcome) -> int:
        match outcome:
            case KeyOutcome.EQUAL:
                return self.equal
            case KeyOutcome.EXPECTED:
                return self.expected
            case KeyOutcome.DIFFERENT:
                return self.different
            case KeyOutcome.NOT_READ:
                return self.not_read

    def count(self, outcome: KeyOutcome, keys: int = 1) -> None:
        self.compared += keys
        match outcome:
            case KeyOutcome.EQUAL:
                self.equal += keys
            case KeyOutcome.EXPECTED:
                self.expected += keys
            case KeyOutcome.DIFFERENT:
                self.different += keys
            case KeyOutcome.NOT_READ:
                self.not_read += keys


def no_counts() -> dict[str, FamilyCount]:
    return {name: FamilyCount(name) for name in FAMILIES}


@dataclass(frozen=True, slots=True)
class ExpectedDifferences:
    """Differences that are meant.

    producer_id_margin: how far the log's next producer id may be ahead (right after a copy); 0 afterwards.
    topics:             names of topics that exist; configuration of others stays in ZooKeeper only.
    copied_zxid:        for a rehearsal, ZooKeeper's last transaction before its reading began. The cluster goes on
                        without the copy: of a key that was written later the copy has to say what was read then.
                        NOT_A_COPY otherwise.
    read:               the file in which the rehearsal kept what it read (kept_reading.py); "": nothing is excused.
    in_dual_write:      a KRaft controller has the claim, and the log is the truth. Versions of partition states may be
                        behind then, not at a rollback: its own audit does not say that it is dual-write.
    ours_leads:         the active controller is ours. Under stock, versions of partition states run ahead; ours puts
                        them right when it leads again.
    accepts_unusable:   what both sides say is equal even where no broker can use it: a takeover has a gate for it, and
                        a way back does not wait for it.
    stands_still:       ZooKeeper has lacked something for so long that nothing is on its way any more (standstill.py).
    elections:          how many leaders the log has had at most, which is its epoch. Each stock one writes states again
                        once it leads, and after each trouble with ZooKeeper: no version is ahead by more than that
                        explains. None: not known, no bound.
    """

    producer_id_margin: int = 0
    topics: frozenset[str] = frozenset()
    copied_zxid: int = NOT_A_COPY
    read: str = ""
    in_dual_write: bool = False
    ours_leads: bool = True
    stands_still: bool = False
    accepts_unusable: bool = False
    elections: int | None = None

    def excuses(self, family: str, key: str, zookeeper: Facts | None, log: Facts | None, mzxid: int) -> bool:
        """Whether ZooKeeper alone moved on: the key was written, or deleted, after the rehearsal was read, and the log
        says what was read. zookeeper, log: families that hold secrets have secret fingerprints in their place.
        """
        if family == CLUSTER or ABOVE in (zookeeper or {}):  # wrong whenever it came
            return False
        unmoved = zookeeper is not None and mzxid <= self.copied_zxid
        if self.copied_zxid == NOT_A_COPY or unmoved or not self.read:
            return False
        if family == PRODUCER_IDS:
            return self._blocks_were_handed_out(key, zookeeper or {}, log or {})
        return kept_facts(self.read).says(family, key, log)

    def _blocks_were_handed_out(self, key: str, zookeeper: Facts, log: Facts) -> bool:
        """Whether the copy is ahead of what was read by the margin, and ZooKeeper by whole blocks."""
        read = log.get(NEXT_ID, 0) - self.producer_id_margin
        moved = zookeeper.get(NEXT_ID, 0) - read
        is_a_block = zookeeper.get(BLOCK_SIZE) == BLOCK_IDS and moved >= 0 and moved % BLOCK_IDS == 0
        return is_a_block and kept_facts(self.read).says(PRODUCER_IDS, key, {NEXT_ID: read} if read else None)

    def name(self, each: Difference, zookeeper: Facts) -> Difference:
        """The difference with the rule that expects it, if there is one. zookeeper: its side's facts of the key."""
        rule = self._rule(each, zookeeper)
        return msgspec.structs.replace(each, rule=rule) if rule else each

    def _rule(self, each: Difference, zookeeper: Facts) -> str:
        if each.family == PRODUCER_IDS:
            return self._producer_id_rule(each, zookeeper.get(STOCK_ANNOUNCES))
        if each.family == TOPIC_CONFIGS and each.kind == DifferenceKind.MISSING_IN_LOG and each.key not in self.topics:
            return "configuration without a topic"
        if each.family == ORDERS and (self.producer_id_margin or self.copied_zxid != NOT_A_COPY):
            return "an order for the controller of ZooKeeper, which is the active one until the takeover"
        if self.in_dual_write and each.field_ == ABOVE:
            return EPOCH_IS_RAISED
        if self.in_dual_write and _version_lags(each):
            return VERSION_LAGS
        if self.in_dual_write and not self.ours_leads and _version_runs_ahead(each, self.elections):
            return STOCK_RUNS_AHEAD
        return ""

    def _producer_id_rule(self, each: Difference, announced: int | None) -> str:
        """announced: where the block begins that a stock controller mirrored; None: what is there is not of one.

        A copy is ahead of whatever ZooKeeper says, so behind it no author excuses it.
        """
        zookeeper, log = each.zookeeper or 0, each.log or 0
        if self.read:  # blocks that were handed out since are judged by what was read
            return MARGIN if log - zookeeper == self.producer_id_margin else ""
        if self.producer_id_margin:
            return MARGIN if 0 <= log - zookeeper <= self.producer_id_margin else ""
        if log and log == announced and zookeeper - log == STOCK_BLOCK:
            return "stock writes the next block as handed out"
        return ""


def _version_lags(each: Difference) -> bool:
    """The data of the state is compared by itself."""
    return _is_version(each) and bool(each.zookeeper < each.log)


def _version_runs_ahead(each: Difference, elections: int | None) -> bool:
    ahead = each.zookeeper - each.log if _is_version(each) else 0
    return ahead > 0 and (elections is None or ahead <= WRITES_AGAIN + WRITES_OF_A_LEADER * elections)


def _is_version(each: Difference) -> bool:
    return (each.family, each.field_, each.kind) == (PARTITIONS, "partition_epoch", DifferenceKind.CHANGED)


class Postpones(Protocol):
    """Takes keys that are to be compared once more, before they count."""

    def takes(self, family: str, key: str, *, equal: bool) -> bool: ...
    def reads_again(self, family: str, key: str) -> bool: ...


@dataclass(slots=True)
class Comparison:
    """Counts and differences of one audit in the making."""

    rules: ExpectedDifferences = ExpectedDifferences()
    counts: dict[str, FamilyCount] = field(default_factory=no_counts)
    differences: list[Difference] = field(default_factory=list)
    expected: list[Difference] = field(default_factory=list)
    fingerprints: SecretFingerprints = field(default_factory=SecretFingerprints)
    pending: Postpones | None = None

    def add(self, family: str, key: str, zookeeper: Facts | None, log: Facts | None, mzxid: int = -1) -> None:
        """Compare one key. mzxid: when ZooKeeper last changed it."""
        equal = zookeeper == log and (self.rules.accepts_unusable or not is_unusable(family, zookeeper))
        if self.pending is not None and self.pending.takes(family, key, equal=equal):
            return
        if equal:
            self.counts[family].count(KeyOutcome.EQUAL)
            return
        if family in HOLD_SECRETS:
            zookeeper, log = self._fingerprinted(zookeeper), self._fingerprinted(log)
        self.note(family, *judge(family, key, zookeeper, log, self.rules, mzxid))

    def note(self, family: str, outcome: KeyOutcome, found: list[Difference]) -> None:
        """A key that was judged."""
        self.counts[family].count(outcome)
        if outcome in (KeyOutcome.DIFFERENT, KeyOutcome.NOT_READ):
            self.differences += found
        else:
            self.expected += found

    def take(self, other: Comparison) -> None:
        """What was compared elsewhere, by the same rules."""
        for family, counts in other.counts.items():
            for outcome in KeyOutcome:
                self.counts[family].count(outcome, counts.of(outcome))
        self.differences += other.differences
        self.expected += other.expected

    def not_read(self, family: str, key: str, reason: str) -> None:
        self.counts[family].count(KeyOutcome.NOT_READ)
        self.differences.append(unread_key(family, key, reason))

    def _fingerprinted(self, facts: Facts | None) -> Facts | None:
        return None if facts is None else self.fingerprints.facts(facts)

    @property
    def same(self) -> bool:
        return not any(count.different or count.not_read for count in self.counts.values())

    @property
    def complete(self) -> bool:
        return not any(count.not_read for count in self.counts.values())


# --- one key ----------------------------------------------------------------------------------------------


def judge(
    family: str, key: str, zookeeper: Facts | None, log: Facts | None, rules: ExpectedDifferences, mzxid: int = -1
) -> tuple[KeyOutcome, list[Difference]]:
    """What became of a key, and the differences that say so: only those that no rule expects, if there are any."""
    found = [rules.name(each, zookeeper or {}) for each in differences(family, key, zookeeper, log)]
    if zookeeper and log and not found and not rules.accepts_unusable and is_unusable(family, log):
        return KeyOutcome.DIFFERENT, [_unusable(family, key, zookeeper, log)]
    if found and rules.excuses(family, key, zookeeper, log, mzxid):
        found = [msgspec.structs.replace(each, rule=each.rule or MOVED_ON) for each in found]
    unexpected = [each for each in found if not each.rule]
    if unexpected:
        return KeyOutcome.DIFFERENT, unexpected
    return (KeyOutcome.EXPECTED if found else KeyOutcome.EQUAL), found


def lag(changes: int, offset: int) -> str:
    """changes: of the key, which ZooKeeper does not have yet. offset: of the last one."""
    return f"{LAG}: the log is ahead by {changes} change{'s' * (changes > 1)} of this key, the last at offset {offset}"


def is_unusable(family: str, facts: Facts | None) -> bool:
    """Whether it is a partition that no broker can lead as it stands, however equal both sides are."""
    return family == PARTITIONS and facts is not None and why_unusable(facts) is not None


def _unusable(family: str, key: str, zookeeper: Facts, log: Facts) -> Difference:
    field_, reason = why_unusable(log) or ("", "")
    return Difference(family, key, field_, DifferenceKind.UNUSABLE, zookeeper.get(field_), log.get(field_), reason)


def unread_key(family: str, key: str, reason: str) -> Difference:
    return Difference(family, key, "", DifferenceKind.NOT_READ, None, None, reason)


def differences(family: str, key: str, zookeeper: Facts | None, log: Facts | None) -> list[Difference]:
    """Field by field; one entry for the whole key, or for a partition's whole state, where a side does not have it."""
    if family == CLUSTER:
        found = contradictions(key, zookeeper, log)
        return [] if found is None else [_contradiction(key, *found)]
    if family == PRODUCER_IDS:
        compared = {name: value for name, value in (zookeeper or {}).items() if name not in OF_ZOOKEEPER_ALONE}
        return _by_field(family, key, compared, log or {})
    if zookeeper is None and log is None:
        return []
    if zookeeper is None or log is None:
        kind = DifferenceKind.MISSING_IN_ZOOKEEPER if zookeeper is None else DifferenceKind.MISSING_IN_LOG
        return [Difference(family, key, "", kind, zookeeper, log)]
    if family == PARTITIONS and not STATE_FIELDS & zookeeper.keys():
        state = {name: log[name] for name in sorted(STATE_FIELDS) if name in log}
        assigned = {name: value for name, value in log.items() if name not in STATE_FIELDS}
        missing = Difference(family, key, "state", DifferenceKind.MISSING_IN_ZOOKEEPER, None, state)
        return [*_by_field(family, key, zookeeper, assigned), missing]
    return _by_field(family, key, zookeeper, log)


def _contradiction(key: str, field_: str, kind: str, zookeeper: Any, log: Any) -> Difference:
    return Difference(CLUSTER, key, field_, DifferenceKind(kind), zookeeper, log)


def _by_field(family: str, key: str, zookeeper: Facts, log: Facts) -> list[Difference]:
    return [
        Difference(family, key, name, _kind(name, zookeeper, log), zookeeper.get(name), log.get(name))
        for name in sorted({*zookeeper, *log})
        if zookeeper.get(name) != log.get(name) and not _is_same_set(name, zookeeper, log)
    ]


def _is_same_set(name: str, zookeeper: Facts, log: Facts) -> bool:
    """An ISR is a set for brokers: its order says nothing."""
    return name == ISR and name in zookeeper and name in log and sorted(zookeeper[name]) == sorted(log[name])


def _kind(name: str, zookeeper: Facts, log: Facts) -> DifferenceKind:
    if name == ABOVE:  # no log has it: the state was written by a controller that there never was
        return DifferenceKind.CHANGED
    if name not in zookeeper:
        return DifferenceKind.MISSING_IN_ZOOKEEPER
    return DifferenceKind.CHANGED if name in log else DifferenceKind.MISSING_IN_LOG


# --- the report -------------------------------------------------------------------------------------------


class BrokerDifference(msgspec.Struct, frozen=True, rename={"field_": "field"}):
    """One field of one key, as one broker has it; field_ "" is the whole key.

    alone:  the side that contradicts the two others: `broker`, `log`, or `each` where all three differ; "" where
            nothing can be said of ZooKeeper.
    reason: why it was not read.
    lags:   it is what the log said before records that the broker has not read yet.
    """

    broker: int
    family: str
    key: str
    field_: str
    kind: str
    on_broker: Any
    log: Any
    alone: str = ""
    reason: str = ""
    lags: bool = False


class BrokerOutcome(StrEnum):
    """What became of one broker."""

    PASSED = "passed"
    DIVERGED = "diverged"
    INCOMPLETE = "incomplete"


class BrokerLag(msgspec.Struct, frozen=True):
    """How far a broker's copy of the metadata log is behind its leader's, as the leader sees it.

    offsets: records that it has not read yet. ms: since it last had everything, by the leader's clock; -1: not known.
    beyond:  it is more than a healthy broker ever is (brokers/lagging.py has the bound).
    """

    offsets: int
    ms: int
    beyond: bool = False

    @property
    def words(self) -> str:
        since = f"{self.ms / 1_000:,.0f} s" if self.ms >= 0 else "nobody knows since when"
        return f"behind by {self.offsets:,} offsets, {since}"


class AskedBroker(msgspec.Struct, frozen=True):
    """mode: `ZooKeeper` or `KRaft`; "" for one that gave no answer, and then why (`problem`), or was not asked.

    compared, different: keys. refused: the first family that it did not tell, and why; empty: it told all.
    listed_at_ms: when its disks were listed; 0: no listing was given.
    lagging:      keys in which it says what the log said before records that it has not read yet; `different` has them
                  only where it is behind by more than a healthy broker is.
    lag:          of a broker that said something else in every look; None: nobody knows.
    """

    broker: int
    mode: str
    problem: str = ""
    compared: int = 0
    different: int = 0
    refused: str = ""
    listed_at_ms: int = 0
    lagging: int = 0
    lag: BrokerLag | None = None

    @property
    def lag_words(self) -> str:
        """Whether what it says otherwise is lag; "" where nothing is known of it."""
        if self.lag is None:
            return ""
        if self.lagging:
            how = "lags" if self.lag.beyond else "lags, by no more than a healthy broker may"
            return f"{how}: {_keys(self.lagging)}, {self.lag.words}"
        return f"no lag explains it: {self.lag.words}" if self.lag.offsets else "it has every record of the log"

    @property
    def outcome(self) -> BrokerOutcome:
        if self.different:
            return BrokerOutcome.DIVERGED
        read = self.compared and not self.problem and not self.refused
        return BrokerOutcome.PASSED if read else BrokerOutcome.INCOMPLETE


class BrokersSide(msgspec.Struct, omit_defaults=True):
    """What brokers say beside the log. families: keys of all brokers. seconds: of all looks.

    zookeeper_alone: differences between ZooKeeper and the log in which every broker says what the log says, told as
                     `family key field`.
    not_asked:       brokers that were left out, as the caller wanted.
    left_off:        how many `differences` are not carried.
    problem:         why no broker was read at all.
    lag_problem:     why it is not known whether brokers that differ only lag.
    asked_here:      why the tasks of Spark did not ask brokers; "" where they did, and for the quick engine.

    Every field has a default, so that rows of another release can be read.
    """

    asked: list[AskedBroker] = []
    families: list[FamilyCount] = []
    differences: list[BrokerDifference] = []
    seconds: float = 0.0
    zookeeper_alone: list[str] = []
    not_asked: list[int] = []
    left_off: int = 0
    problem: str = ""
    lag_problem: str = ""
    asked_here: str = ""

    @property
    def outcome(self) -> BrokerOutcome:
        """Sum up all that were asked: one that contradicts the log tells more than one that is silent."""
        found = {each.outcome for each in self.asked}
        if BrokerOutcome.DIVERGED in found:
            return BrokerOutcome.DIVERGED
        return (
            BrokerOutcome.PASSED if found == {BrokerOutcome.PASSED} and not self.problem else BrokerOutcome.INCOMPLETE
        )

    @property
    def same(self) -> bool:
        return self.outcome is BrokerOutcome.PASSED

    @property
    def complete(self) -> bool:
        read = bool(self.asked) and not any(each.problem or each.refused or not each.compared for each in self.asked)
        return read and not self.problem

    @property
    def words(self) -> str:
        """Tell it in one line, with the first brokers that are not equal to the log, or not read."""
        compared, different = (sum(getattr(each, key) for each in self.asked) for key in ("compared", "different"))
        answered = sum(not each.problem for each in self.asked)
        said = f"{compared} keys of {answered} brokers compared, {different} different"
        wrong = [_words_of(each) for each in self.asked if each.outcome is not BrokerOutcome.PASSED]
        more = [f"and {len(wrong) - BROKERS_NAMED} more"] if len(wrong) > BROKERS_NAMED else []
        left_out = [f"not asked: {', '.join(map(str, self.not_asked))}"] if self.not_asked else []
        return "; ".join(filter(None, (said, self.problem, *wrong[:BROKERS_NAMED], *more, *left_out)))


def _words_of(asked: AskedBroker) -> str:
    differs = f"{_keys(asked.different)} differ{'s' * (asked.different == 1)}" if asked.different else ""
    said = "; ".join(filter(None, (asked.problem, differs, asked.lag_words)))
    return f"broker {asked.broker}: {said or asked.refused or 'nothing compared'}"


def _keys(count: int) -> str:
    return f"{count:,} key{'s' * (count != 1)}"


class AuditReport(msgspec.Struct, omit_defaults=True):
    """What an audit says (the JSON of `zk2kraft audit --json`; keys are a contract).

    left_off: how many `differences`, and how many `expected`, the report does not carry; left out when it carries all.
    brokers:  what the third side says (node/tools/third_side.py); left out when brokers were not asked.
    ended_at: seconds since 1970 in UTC; left out where nobody keeps the report.
    shape:    what the log says in figures; left out by Spark, which holds no side as a whole anywhere.
    """

    same: bool
    families: list[FamilyCount]
    differences: list[Difference]
    expected: list[Difference]
    seconds: dict[str, float]
    zk: dict[str, Any]
    kraft: dict[str, int]
    engine: str
    left_off: dict[str, int] = {}
    brokers: BrokersSide | None = None
    ended_at: float = 0.0
    shape: ClusterShape | None = None

    @property
    def exit_code(self) -> int:
        """0 same, 1 diverged, 2 could not read all."""
        if any(family.not_read for family in self.families) or (self.brokers is not None and not self.brokers.complete):
            return 2
        return 0 if self.same else 1

    @property
    def different(self) -> int:
        return sum(family.different for family in self.families)


def report(
    comparison: Comparison,
    *,
    seconds: dict[str, float],
    zk: dict[str, Any],
    kraft: dict[str, int],
    engine: str,
    shape: ClusterShape | None = None,
) -> AuditReport:
    differences, expected = shown(comparison.differences), shown(comparison.expected)
    return AuditReport(
        same=comparison.same,
        families=list(comparison.counts.values()),
        differences=differences,
        expected=expected,
        seconds=rounded(seconds),
        zk=zk,
        kraft=kraft,
        engine=engine,
        left_off=left_off(
            differences=len(comparison.differences) - len(differences),
            expected=len(comparison.expected) - len(expected),
        ),
        shape=shape,
    )


def unread_report(error: FindingError, engine: str, seconds: dict[str, float]) -> AuditReport:
    """A side could not be read: no family was compared, and what stood in the way is named."""
    families = list(no_counts().values())
    for each in families:
        each.count(KeyOutcome.NOT_READ)
    named = unread_key(EVERY_FAMILY, error.occurrence.text, error.code)
    return AuditReport(False, families, [named], [], rounded(seconds), {}, {"offset": -1, "epoch": -1}, engine)


def shown(found: Iterable[Difference]) -> list[Difference]:
    return within_bytes(sorted(found, key=lambda each: each.place)[:DIFFERENCES_SHOWN])


Told = TypeVar("Told", bound=msgspec.Struct)


def within_bytes(found: list[Told]) -> list[Told]:
    """The first ones that a report can carry; at least one."""
    free = DIFFERENCES_BYTES_MAX
    for number, each in enumerate(found):
        free -= len(msgspec.json.encode(each))
        if free < 0:
            return found[: max(number, 1)]
    return found


def left_off(**counts: int) -> dict[str, int]:
    """The counts that are not 0, by key of the report: a list that is whole is not named."""
    return {name: count for name, count in counts.items() if count}


def rounded(seconds: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in seconds.items()}


def table(families: Iterable[FamilyCount]) -> str:
    """`family | compared | equal | expected | different | not read`, one line per family."""
    rows = [["family", "compared", "equal", "expected", "different", "not read"]]
    rows += [
        [each.family, *map(str, (each.compared, each.equal, each.expected, each.different, each.not_read))]
        for each in families
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
