"""Compare what a broker has on its disks, by a listing, with the log: replica by replica, now and since the listing.

In:   a `DiskListing`; the log's facts, and what the log said at each moment since the listing was made; what ZooKeeper
      and the log said of each other.
Out:  a `ComparedDisks`: how many log directories and replicas were compared and how that ended; each difference, with
      who stands alone.
Elsewhere: making and reading a listing (list_disks.py, disk_listing.py), what a broker says itself (compare.py).
Rules: a listing is older than the log. What agrees with the log at any moment since the broker last worked on these
disks is no difference: a topic that came later, a replica that left. Where the log does not reach back that far,
nothing is said of what differs: it is not read, and a new listing is needed. Of a log directory that is not this
broker's, or not this cluster's, nothing below it is told. What Kafka set aside (-delete, -stray, -future) is no
replica.
A replica's latest leader epoch may be earlier than the log's: it follows, or got no record since. A later one cannot
be. A replica without partition.metadata and without a record is as Kafka leaves it at a crash; before the first record
it always writes the file, from inter.broker.protocol.version 2.8 on.
Source: Kafka 3.9 `LogManager.isStrayKraftReplica`, `LogManager.loadLog`, `UnifiedLog.maybeFlushMetadataFile`,
`KafkaConfig.usesTopicId`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from migrator.audit.brokers.both_sides import LogSince
from migrator.audit.brokers.compare import CHANGED, MISSING_IN_LOG, MISSING_ON_BROKER, NOT_READ
from migrator.audit.brokers.disk_listing import DiskListing, ListedReplica, LogDirectory, LogState
from migrator.audit.compare import MOVED_ON, BrokerDifference, Difference, FamilyCount, KeyOutcome
from migrator.audit.log_states import in_window
from migrator.audit.normalise import PARTITIONS, TOPICS, Facts, LogFacts, id_text, partition_key

DISKS: Final = "disks"
"""The family of what a listing has: a key is a partition, or the path of a log directory."""

IN_TWO: Final = "in two directories"
DIRECTORIES: Final = "directories"
TOPIC_ID: Final = "topic_id"
LEADER_EPOCH: Final = "leader_epoch"
BROKER, LOG, EACH = "broker", "log", "each"
NO_LIMIT: Final = 2**31
"""Of a partition without a state in ZooKeeper no leader epoch is known."""


class PartitionMoment(NamedTuple):
    """What a side says of one partition at one moment; None: there is no such topic or partition."""

    topic_id: str | None
    facts: Facts | None


class DiskFault(NamedTuple):
    """One contradiction between a replica on disk and a side."""

    field: str
    kind: str
    on_broker: Any
    other: Any

    @property
    def is_timeless(self) -> bool:
        """Whether no change of the log since the listing could explain it."""
        return self.field in (DIRECTORIES, LEADER_EPOCH) or (self.field == TOPIC_ID and self.kind == MISSING_ON_BROKER)


@dataclass(slots=True)
class ComparedDisks:
    """What is kept of a listing once it was compared. listed_at_ms: when it was made."""

    broker: int
    listed_at_ms: int
    count: FamilyCount = field(default_factory=lambda: FamilyCount(DISKS))
    differences: list[BrokerDifference] = field(default_factory=list)


def compare_disks(
    listing: DiskListing, log: LogSince, two_sides: Iterable[Difference], cluster_id: str | None
) -> ComparedDisks:
    """log: since shortly before `DiskListing.as_of_ms`. cluster_id: of both sides; None: it is not known."""
    return _DiskComparison(listing, log, two_sides, cluster_id).run()


def moments(log: LogSince, topic: str, partition: int) -> list[PartitionMoment]:
    """What the log said of a partition at each moment since `low`, the newest last."""
    ids = log.states.of((TOPICS, topic))
    facts = log.states.of((PARTITIONS, partition_key(topic, partition)))
    changes = sorted({each.since for each in (*ids, *facts)})
    begin = max(bisect_right(changes, log.low) - 1, 0)
    found = []
    for offset in changes[begin:]:
        told, said = (in_window(states, offset)[-1].facts for states in (ids, facts))
        found.append(PartitionMoment((told or {}).get("id"), said))
    return found


def faults_of(broker: int, listed: Sequence[tuple[str, ListedReplica]], at: PartitionMoment) -> Iterator[DiskFault]:
    """What contradicts one side at one moment. listed: with the paths of their log directories."""
    current = [(path, each) for path, each in listed if each.state is LogState.CURRENT]
    given, replicas = at.facts is not None, (at.facts or {}).get("replicas", ())
    if not current:
        if given and broker in replicas and broker not in (at.facts or {}).get("adding", ()):
            aside = {f"{each.state}": path for path, each in listed}
            yield DiskFault("", MISSING_ON_BROKER, aside or None, {"replicas": replicas, TOPIC_ID: at.topic_id})
        return
    if len(current) > 1:
        yield DiskFault(DIRECTORIES, IN_TWO, sorted(path for path, _ in current), None)
    if at.facts is None or (broker not in replicas and broker not in at.facts.get("removing", ())):
        path, each = current[0]
        told = {"path": path, TOPIC_ID: each.topic_id, "bytes": each.bytes}
        yield DiskFault("", MISSING_IN_LOG, told, {"replicas": replicas} if given else None)
        return
    for _, each in current:
        if each.topic_id and each.topic_id != at.topic_id:
            yield DiskFault(TOPIC_ID, CHANGED, each.topic_id, at.topic_id)
            continue
        if not each.topic_id and each.bytes:
            yield DiskFault(TOPIC_ID, MISSING_ON_BROKER, None, at.topic_id)
        if each.epoch > at.facts.get(LEADER_EPOCH, NO_LIMIT):
            yield DiskFault(LEADER_EPOCH, CHANGED, each.epoch, at.facts[LEADER_EPOCH])


class _DiskComparison:
    def __init__(
        self, listing: DiskListing, log: LogSince, two_sides: Iterable[Difference], cluster_id: str | None
    ) -> None:
        self._listing = listing
        self._broker = listing.broker
        self._log = log
        self._facts: LogFacts = log.states.facts
        self._cluster_id = cluster_id
        self._found = ComparedDisks(listing.broker, listing.listed_at_ms)
        self._two_sides: defaultdict[tuple[str, str], list[Difference]] = defaultdict(list)
        for each in two_sides:
            if each.family in (TOPICS, PARTITIONS) and each.rule in ("", MOVED_ON):
                self._two_sides[each.family, each.key].append(each)
        self._lacks = ""
        """Why a replica that is not in the listing may be there nevertheless."""
        self._foreign: set[int] = set()

    def run(self) -> ComparedDisks:
        for each in self._listing.directories:
            self._directory(each)
        self._refuse_left_out()
        too_old = 0
        for topic, partition in sorted(self._places()):
            listed = self._listing.replicas.get(partition_key(topic, partition), [])
            too_old += self._replica(topic, partition, [each for each in listed if each.directory not in self._foreign])
        if too_old:
            what = "differ" if too_old > 1 else "differs"
            reason = (
                f"{too_old} of its replicas {what}, and the log does not tell what it said of them since the listing "
                f"({_moment(self._listing.as_of_ms)}): make a new listing"
            )
            self._not_read("", reason, keys=too_old)
        return self._found

    # --- log directories ------------------------------------------------------------------------------------

    def _directory(self, each: LogDirectory) -> None:
        if each.problem:
            self._lacks = f"{each.path} was not listed: {each.problem}"
            self._not_read(each.path, each.problem)
            return
        wrong: list[tuple[str, str | int, str | int]] = []
        if self._cluster_id and each.cluster_id != self._cluster_id:
            wrong.append(("cluster.id", each.cluster_id, self._cluster_id))
        if each.broker != self._broker:
            wrong.append(("node.id", each.broker, self._broker))
        for name, on_broker, right in wrong:
            self._foreign.add(each.number)
            self._lacks = f"{each.path} has another {name}"
            self._differs(each.path, name, CHANGED, on_broker, right, BROKER)
        self._found.count.count(KeyOutcome.DIFFERENT if wrong else KeyOutcome.EQUAL)

    def _refuse_left_out(self) -> None:
        """A broker in KRaft mode registers its log directories by their ids; one in ZooKeeper mode does not."""
        record = self._facts.registered.get(self._broker)
        listed = {each.directory_id for each in self._listing.directories}
        for each in map(id_text, record.log_dirs if record is not None else ()):
            if each not in listed:
                self._lacks = f"its log directory {each} is not in the listing"
                self._not_read(f"directory {each}", "the broker registered it, and it is not in the listing")

    # --- replicas ------------------------------------------------------------------------------------------

    def _places(self) -> set[tuple[str, int]]:
        """What either has, but for the metadata log, which is no partition of a topic that the log could tell of."""
        found = {
            (name, part)
            for name in self._facts.topics()
            for part, facts in self._facts.partitions(name).items()
            if self._broker in facts["replicas"]
        }
        for some in self._listing.replicas.values():
            found |= {(each.topic, each.partition) for each in some if each.state is LogState.CURRENT}
        return {(topic, partition) for topic, partition in found if topic != "__cluster_metadata"}

    def _replica(self, topic: str, partition: int, listed: list[ListedReplica]) -> int:
        """1: it differs, and nobody can say whether it does no more."""
        key = partition_key(topic, partition)
        problems = [each.problem for each in listed if each.problem]
        if problems:
            self._not_read(key, problems[0])
            return 0
        with_paths = [(self._listing.path_of(each), each) for each in listed]
        said = moments(self._log, topic, partition)
        now = said[-1]
        faults = list(faults_of(self._broker, with_paths, now))
        if not faults:
            if listed or now.facts is not None:  # else it is of a directory that is told
                self._found.count.count(KeyOutcome.EQUAL)
            return 0
        if not listed and self._lacks:
            self._not_read(key, self._lacks)
            return 0
        named = [(each, self._alone(each, topic, key, with_paths, now)) for each in faults]
        if all(alone == MOVED_ON for _, alone in named) or any(
            not list(faults_of(self._broker, with_paths, each)) for each in said[:-1]
        ):
            self._found.count.count(KeyOutcome.EXPECTED)
            return 0
        if not self._log.reaches:
            named = [(each, alone) for each, alone in named if each.is_timeless or alone != BROKER]
            if not named:
                return 1
        self._found.count.count(KeyOutcome.DIFFERENT)
        for each, alone in named:
            if alone != MOVED_ON:
                self._differs(key, each.field, each.kind, each.on_broker, each.other, alone)
        return 0

    def _alone(
        self, fault: DiskFault, topic: str, key: str, listed: Sequence[tuple[str, ListedReplica]], now: PartitionMoment
    ) -> str:
        """Which side contradicts the two others; MOVED_ON: ZooKeeper and it went on since a rehearsal."""
        of_topic, of_partition = self._two_sides[TOPICS, topic], self._two_sides[PARTITIONS, key]
        if not of_topic and not of_partition:
            return BROKER
        zookeeper = _in_zookeeper(now, of_topic, of_partition)
        same = [each for each in faults_of(self._broker, listed, zookeeper) if each.field == fault.field]
        if same:
            return BROKER if same[0].other == fault.other else EACH
        return MOVED_ON if all(each.rule == MOVED_ON for each in (*of_topic, *of_partition)) else LOG

    # --- what is told --------------------------------------------------------------------------------------

    def _not_read(self, key: str, reason: str, keys: int = 1) -> None:
        self._found.count.count(KeyOutcome.NOT_READ, keys)
        unread = BrokerDifference(self._broker, DISKS, key, "", NOT_READ, None, None, reason=reason)
        self._found.differences.append(unread)

    def _differs(self, key: str, name: str, kind: str, on_broker: Any, other: Any, alone: str) -> None:
        told = BrokerDifference(self._broker, DISKS, key, name, kind, on_broker, other, alone)
        self._found.differences.append(told)


def _in_zookeeper(
    now: PartitionMoment, of_topic: Iterable[Difference], of_partition: Iterable[Difference]
) -> PartitionMoment:
    """What ZooKeeper says: what the log says, but for their differences."""
    topic_id, facts = now
    for each in of_topic:
        topic_id = each.zookeeper if each.field_ else (each.zookeeper or {}).get("id")
    for each in of_partition:
        if not each.field_:
            facts = each.zookeeper
        elif each.field_ in (facts or {}):
            facts = {**(facts or {}), each.field_: each.zookeeper}
    return PartitionMoment(topic_id, facts)


def _moment(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"
