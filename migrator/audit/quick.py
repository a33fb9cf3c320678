"""The quick audit: in process, in one pass over ZooKeeper, against facts of the log held in memory.

In:   a ZooKeeper session of its own, and `LogFacts`.
Out:  an `AuditReport`. Of a cluster in dual-write every key is judged by what the log said while it was read
      (log_states.py): what changed meanwhile, or differs, is read once more between two readings of `/migration`. A
      difference counts when two looks at both sides, one after the other, show it.
Elsewhere: the same question asked by Spark (job.py), with a memory by the commit that waits for it (verified_cache.py).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import msgspec

from migrator.audit.beside import told
from migrator.audit.cluster import CLUSTER, EpochLimit
from migrator.audit.compare import (
    LOOKS_MAX,
    AuditReport,
    Comparison,
    Difference,
    ExpectedDifferences,
    KeyOutcome,
    judge,
    report,
)
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.kept_reading import kept_facts
from migrator.audit.log_states import NO_OFFSET, Key, LogStates, OtherInSnapshot, subject_of_key
from migrator.audit.normalise import (
    BROKER_CONFIGS,
    PARTITIONS,
    PRODUCER_IDS,
    PRODUCER_IDS_KEY,
    TOPIC_CONFIGS,
    TOPICS,
    LogFacts,
    partition_key,
)
from migrator.audit.passwords import PasswordReader
from migrator.audit.rows import SideRow
from migrator.audit.security_facts import SECURITY_FAMILIES
from migrator.audit.shape.cluster_shape import cluster_shape
from migrator.audit.standstill import STANDS_STILL_MS
from migrator.audit.subjects import Agreed, JudgedKey, fingerprinted_facts, fingerprinted_row, judge_subject, moved_keys
from migrator.audit.zk_source import (
    Session,
    TopicRead,
    ZnodeReader,
    cluster_rows,
    config_names,
    config_rows,
    epoch_limit,
    list_rows,
    mirrored_position,
    order_rows,
    producer_id_row,
    security_paths,
    security_rows,
    subject_rows,
    topic_names,
    topic_reads,
    unassigned_partitions,
    usual_state,
)
from migrator.model.image import NOWHERE, Position
from migrator.wire.records import decode_record
from migrator.wire.schema import Message
from migrator.zk.pipeline import UNLIMITED, ReadLimits

SETTLE_S: Final = 0.5
"""Between two looks: more than a healthy dual-write is behind (0.4 s)."""


ReadLog = Callable[[int, Position], tuple[LogStates, Position]]
"""Takes the offset since which states are kept, and the position that the log has to have; gives the states, and the
position up to which they go.
"""


def facts_of_values(values: Iterable[bytes]) -> LogFacts:
    """What encoded records say, decoded from their bytes again."""
    return facts_of(map(decode_record, values))


def facts_of(records: Iterable[Message]) -> LogFacts:
    facts = LogFacts()
    for record in records:
        facts.apply(record)
    return facts


def compare_sides(
    session: Session,
    log: LogFacts,
    rules: ExpectedDifferences,
    limits: ReadLimits = UNLIMITED,
    fingerprints: SecretFingerprints | None = None,
    passwords: PasswordReader | None = None,
    pending: SecondPass | None = None,
    *,
    of_cluster: bool = False,
) -> Comparison:
    """One pass over everything. ZooKeeper is read after `sync`, so that it is not older than the question.

    passwords:  what decodes those of brokers; without it a broker that has one is not read.
    pending:    takes what differs, and what the log changed meanwhile; neither is counted.
    of_cluster: the family `cluster`, controller epochs of states, and partitions that nobody can use on either side,
                too. No takeover and no rollback waits for them: it is before a takeover that somebody can put them
                right, and a rollback writes a higher epoch.
    """
    session.sync()
    topics = topic_names(session)
    every_topic = frozenset(topics) | frozenset(log.topics())
    known = replace(rules, topics=every_topic, accepts_unusable=not of_cluster)
    comparison = Comparison(known, fingerprints=fingerprints or SecretFingerprints(), pending=pending)
    suspects: list[str] = []
    epochs = epoch_limit(session) if of_cluster else None
    on_both = compare_topics(session, log, topics, comparison, limits, epochs, suspects)
    for row in unassigned_partitions(session, suspects, limits):
        comparison.add(row.family, row.key, row.facts, None)
    on_one = known.topics - on_both
    compare_configs(session, log, TOPIC_CONFIGS, config_names(session, TOPIC_CONFIGS), comparison, limits, on_one)
    compare_others(session, log, comparison, limits, passwords)
    if of_cluster:
        compare_cluster(session, log, comparison)
    return comparison


def quick_audit(
    session: Session,
    read_log: ReadLog,
    *,
    rules: ExpectedDifferences = ExpectedDifferences(),  # noqa: B008  (frozen)
    limits: ReadLimits = UNLIMITED,
    settle_s: float = SETTLE_S,
    zk: dict[str, Any] | None = None,
    passwords: PasswordReader | None = None,
    follows: bool = False,
    of_copy: bool = False,
) -> AuditReport:
    """Audit a live or resting cluster. zk: what the report says of the tree. passwords: as in `compare_sides`.

    follows: `/migration` says how far ZooKeeper has this log.
    of_copy: ZooKeeper's side never changes: another look at it is in vain, and that the log is ahead of it says when it
             was copied, not that a dual-write stands still.
    """
    started = time.monotonic()
    fingerprints = kept_facts(rules.read).fingerprints if rules.read else SecretFingerprints()
    mirrored = mirrored_position(session) if follows else NOWHERE
    log, position = read_log(mirrored.offset if follows else NO_OFFSET, mirrored)
    stands_still = not of_copy and log.behind_ms > STANDS_STILL_MS
    rules = replace(rules, stands_still=stands_still, elections=position.epoch)
    read = time.monotonic()
    pending = SecondPass.of(log) if follows else None
    comparison = compare_sides(session, log.facts, rules, limits, fingerprints, passwords, pending, of_cluster=True)
    compared = time.monotonic()
    if pending is not None:
        if pending:
            looks_max = 1 if of_copy else LOOKS_MAX - 1
            _settle(session, comparison, pending, read_log, limits, passwords, settle_s, looks_max)
    elif not of_copy:
        for _ in range(1, LOOKS_MAX):
            if comparison.same or not comparison.complete:
                break
            before = _texts(comparison.differences)
            time.sleep(settle_s)  # the cluster lives: what differed may have been on its way
            log, position = read_log(NO_OFFSET, NOWHERE)
            comparison = compare_sides(session, log.facts, rules, limits, fingerprints, passwords, of_cluster=True)
            if _texts(comparison.differences) <= before:
                break
    for each in log.other_in_snapshot:
        comparison.note(each.family, KeyOutcome.DIFFERENT, told(_fingerprinted(each, fingerprints)))
    done = time.monotonic()
    seconds = {"log": read - started, "zookeeper": compared - read, "again": done - compared, "total": done - started}
    kraft = {"offset": position.offset, "epoch": position.epoch}
    shape = cluster_shape(log.facts)
    return report(comparison, seconds=seconds, zk=zk or {}, kraft=kraft, engine="quick", shape=shape)


def _fingerprinted(found: OtherInSnapshot, fingerprints: SecretFingerprints) -> OtherInSnapshot:
    snapshot, log = (
        None if facts is None else fingerprinted_facts(found.family, facts, fingerprints)
        for facts in (found.snapshot, found.log)
    )
    return found._replace(snapshot=snapshot, log=log)


def _texts(found: Iterable[Difference]) -> set[bytes]:
    """Differences as values that a set can hold: equal only when key, field and both sides are."""
    return {msgspec.json.encode(each) for each in found}


def _settle(
    session: Session,
    comparison: Comparison,
    pending: SecondPass,
    read_log: ReadLog,
    limits: ReadLimits,
    passwords: PasswordReader | None,
    settle_s: float,
    looks_max: int,
) -> None:
    """Read what is pending again, between two readings of `/migration`, and judge it by what the log said from the one
    to the other. Only what differs even then is looked at again.
    """
    before: set[bytes] | None = None
    for look in range(1, looks_max + 1):
        low = mirrored_position(session)
        rows = list(subject_rows(sorted(pending.subjects), session, limits, passwords))
        high = max(low, mirrored_position(session))
        log, _ = read_log(low.offset, high)
        settled = Comparison(comparison.rules, fingerprints=comparison.fingerprints)
        for each in judged_rows(rows, pending.subjects, log, high.offset, comparison.rules, comparison.fingerprints):
            if pending.counts(each):
                settled.note(each.family, each.outcome, each.differences)
        found = _texts(settled.differences)
        if settled.same or (before is not None and found <= before) or look == looks_max:
            break
        before = found
        time.sleep(settle_s)  # a plan of several transactions, and a stock controller, are ahead of `/migration`
    comparison.take(settled)


def judged_rows(
    rows: Iterable[SideRow],
    subjects: Iterable[str],
    log: LogStates,
    high: int,
    rules: ExpectedDifferences,
    fingerprints: SecretFingerprints,
) -> Iterator[JudgedKey]:
    """What becomes of the keys of these subjects, as tasks of the Spark job say it."""
    by_subject = defaultdict(list)
    for row in rows:
        by_subject[row.subject].append(fingerprinted_row(row, fingerprints))
    changed = set(log.changed())
    for subject in sorted(subjects):
        keys = log.keys_of(subject)
        moved = moved_keys(log, keys & changed, high, fingerprints)
        newest = {key: log.of(key)[-1] for key in keys}
        in_log = {
            (family, key): SideRow(
                family, key, subject, fingerprinted_facts(family, state.facts, fingerprints), state.since
            )
            for (family, key), state in newest.items()
            if state.facts is not None
        }
        yield from judge_subject(subject, by_subject[subject], in_log, rules, moved)


class SecondPass:
    """What the first pass leaves to the second: keys that differ in it, and all that the log changed meanwhile.

    whole: subjects of which no key is counted.  keys: those that are not, where others of their subject are.
    """

    def __init__(self, changed: Iterable[Key]) -> None:
        self.whole = {subject_of_key(key) for key in changed}
        self.keys: set[Key] = set()

    @classmethod
    def of(cls, log: LogStates) -> SecondPass:
        return cls(log.changed())

    def __bool__(self) -> bool:
        return bool(self.whole or self.keys)

    @property
    def subjects(self) -> set[str]:
        return self.whole | {subject_of_key(key) for key in self.keys}

    def reads_again(self, family: str, key: str) -> bool:
        """Whether its whole subject is, so that nothing of it counts yet."""
        return subject_of_key((family, key)) in self.whole

    def takes(self, family: str, key: str, *, equal: bool) -> bool:
        """Whether the second pass looks at a compared key again: it differs, or its whole subject is read again."""
        place = family, key
        if subject_of_key(place) in self.whole:
            return True
        if not equal and family == TOPICS:  # nothing of the topic was compared so far
            self.whole.add(subject_of_key(place))
        elif not equal:
            self.keys.add(place)
        return not equal

    def counts(self, judged: JudgedKey) -> bool:
        place = judged.family, judged.key
        return subject_of_key(place) in self.whole or place in self.keys or judged.outcome is KeyOutcome.DIFFERENT


# --- the families -----------------------------------------------------------------------------------------


def compare_topics(
    session: ZnodeReader,
    log: LogFacts,
    topics: Iterable[str],
    comparison: Comparison,
    limits: ReadLimits = UNLIMITED,
    epochs: EpochLimit | None = None,
    suspects: list[str] | None = None,
) -> set[str]:
    """Returns the topics that both sides have. epochs: as in `TopicRead.partitions`.

    suspects: takes the names of those that may have znodes of partitions that nobody assigned; None: not asked.
    """
    seen, on_both = set(), set()
    agreed = Agreed()
    for read in topic_reads(session, topics, limits, counted=suspects is not None):
        name = read.topic.key
        seen.add(name)
        in_log = log.topic(name)
        if not _unread(comparison, read.topic):
            comparison.add(TOPICS, name, read.topic.facts, in_log, read.topic.version)
            _compare_partitions(read, log, comparison, epochs, agreed, topic_in_log=in_log is not None)
            if in_log is not None:
                on_both.add(name)
            if suspects is not None and read.may_have_others:
                suspects.append(name)
    for name in log.topics():
        if name not in seen:
            comparison.add(TOPICS, name, None, log.topic(name))
    return on_both


def _compare_partitions(
    read: TopicRead,
    log: LogFacts,
    comparison: Comparison,
    epochs: EpochLimit | None,
    agreed: Agreed,
    *,
    topic_in_log: bool,
) -> None:
    """Partitions of a topic that one side does not have are not told one by one: the topic is the difference.

    Nearly all are equal to the letter, and only counted; every other one is a row that is judged.
    """
    name, in_log = read.topic.key, log.partitions(read.topic.key)
    usable = not comparison.rules.accepts_unusable
    pending = comparison.pending is not None and comparison.pending.reads_again(PARTITIONS, partition_key(name, 0))
    equal = 0
    for (partition, assignment), znode in zip(read.assigned.items(), read.states, strict=True):
        expected = in_log.get(partition)
        if znode is not None and expected is not None and not pending:
            known = agreed.get((znode.data, id(assignment), id(expected)))
            if (
                agreed.says_the_same(
                    assignment, znode.data, znode.version, usual_state(znode, epochs), expected, usable=usable
                )
                if known is None
                else known[0] == znode.version and not znode.owner
            ):
                equal += 1
                continue
        row = read.partition(partition, znode, epochs)
        if not _unread(comparison, row) and topic_in_log:
            comparison.add(PARTITIONS, row.key, row.facts, expected, row.version)
    comparison.counts[PARTITIONS].count(KeyOutcome.EQUAL, equal)
    if equal < len(in_log):
        for partition in [each for each in in_log if each not in read.assigned]:
            comparison.add(PARTITIONS, partition_key(name, partition), None, in_log[partition])


def compare_configs(
    session: ZnodeReader,
    log: LogFacts,
    family: str,
    znodes: Iterable[str],
    comparison: Comparison,
    limits: ReadLimits = UNLIMITED,
    untold: Set[str] = frozenset(),
    passwords: PasswordReader | None = None,
) -> None:
    """znodes: their names.  untold: keys that need not be told where one side has no such configuration, since their
    topic is told."""
    in_log = dict(log.configs(family))
    for row in config_rows(session, family, znodes, limits, passwords):
        facts = in_log.pop(row.key, None)
        if not _unread(comparison, row) and (facts is not None or row.key not in untold):
            comparison.add(family, row.key, row.facts, facts, row.version)
    for key, facts in in_log.items():
        if key not in untold:
            comparison.add(family, key, None, facts)


def compare_others(
    session: Session,
    log: LogFacts,
    comparison: Comparison,
    limits: ReadLimits,
    passwords: PasswordReader | None = None,
) -> None:
    """What belongs to no topic."""
    brokers = config_names(session, BROKER_CONFIGS)
    compare_configs(session, log, BROKER_CONFIGS, brokers, comparison, limits, passwords=passwords)
    row = producer_id_row(session)
    if not _unread(comparison, row):
        comparison.add(PRODUCER_IDS, PRODUCER_IDS_KEY, row.facts, log.producer_ids(), row.version)
    _compare_security(session, log, comparison, limits)
    for order in order_rows(session):
        comparison.add(order.family, order.key, order.facts, None, order.version)


def compare_cluster(session: Session, log: LogFacts, comparison: Comparison) -> None:
    """No fact of one side is one of the other: each key is judged."""
    for row in chain(cluster_rows(session), list_rows(session, session.lists_changed)):
        if _unread(comparison, row):
            continue
        outcome, found = judge(CLUSTER, row.key, row.facts, log.cluster(row.key), comparison.rules, row.version)
        equal, pending = outcome is KeyOutcome.EQUAL, comparison.pending
        if pending is None or not pending.takes(CLUSTER, row.key, equal=equal):
            comparison.note(CLUSTER, outcome, found)


def _compare_security(session: Session, log: LogFacts, comparison: Comparison, limits: ReadLimits) -> None:
    """Quotas, credentials, ACLs and tokens, znode by znode."""
    in_log = {family: log.security.facts(family) for family in SECURITY_FAMILIES}
    for row in security_rows(session, security_paths(session, limits), limits):
        facts = in_log[row.family].pop(row.key, None)
        if not _unread(comparison, row):
            comparison.add(row.family, row.key, row.facts, facts, row.version)
    for family, left in in_log.items():
        for key, facts in left.items():
            comparison.add(family, key, None, facts)


def _unread(comparison: Comparison, row: SideRow) -> bool:
    """Counts a row that could not be read, unless its whole subject is read again."""
    pending = comparison.pending
    if row.problem and not (pending is not None and pending.reads_again(row.family, row.key)):
        comparison.not_read(row.family, row.key, row.problem)
    return bool(row.problem)
