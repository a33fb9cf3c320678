"""Judge one subject: what both sides say of a topic with all that is its own, or of one other znode.

In:   ZooKeeper's rows of the subject, and the facts that its records add up to.
Out:  for each key, what became of it and its differences.
Elsewhere: when two facts are equal, and which differences are expected (compare.py, the same as in the quick engine).
Rules: a key is equal only by its facts; everything else goes through `compare.judge`. A partition or a configuration
that one side lacks is not told when that side lacks its topic too, or could not read it: the topic is the difference.
A row that was not read is always told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from migrator.audit.cluster import CLUSTER
from migrator.audit.compare import (
    Difference,
    ExpectedDifferences,
    KeyOutcome,
    differences,
    is_unusable,
    judge,
    lag,
    unread_key,
)
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.log_states import Key, KeyState, LogStates, in_window
from migrator.audit.normalise import KNOWN_MAX, PARTITION_EPOCH, PARTITIONS, TOPIC_CONFIGS, TOPICS, Facts
from migrator.audit.rows import HOLD_SECRETS, TOPIC_SUBJECT, SideRow, facts_of_text, facts_text


class ZkRow(NamedTuple):
    """A row of ZooKeeper's side. text: of its facts; None when they could not be read."""

    family: str
    key: str
    text: str | None
    mzxid: int
    problem: str


class JudgedKey(NamedTuple):
    """What became of one key. mzxid, offset: when each side changed it; None where a side does not have it."""

    family: str
    key: str
    outcome: KeyOutcome
    differences: list[Difference]
    mzxid: int | None
    offset: int | None


class Moved(NamedTuple):
    """What the log says of a key that it changed behind M0. Facts have secret fingerprints in place of secrets.

    states: at the offsets from M0 to M1, the newest last; one at least.  newest: at the log's end.
    newer:  changes behind M1.  offset: of the last change.
    """

    states: list[Facts | None]
    newest: Facts | None
    newer: int
    offset: int


class Agreed(dict[tuple[bytes | None, int, int], tuple[int, Facts, Facts]]):
    """Pairs of both sides that are equal, since many partitions share few texts: by the bytes of the state znode, and
    by the identity of what the topic assigns and of what the log says. With the version that both have; the two facts
    are held so that nothing else takes their identity.
    """

    def says_the_same(
        self, assignment: Facts, data: bytes | None, version: int, state: Facts | None, log: Facts, *, usable: bool
    ) -> bool:
        """Compare, and remember what is equal. state: what `data` says; None: nothing to be equal to.

        usable: what no broker can lead is not equal, as in `is_unusable`.
        """
        if state is None or {**assignment, **state, PARTITION_EPOCH: version} != log:
            return False
        if usable and is_unusable(PARTITIONS, log):
            return False
        if len(self) < KNOWN_MAX:
            self[data, id(assignment), id(log)] = version, assignment, log
        return True


NOTHING_MOVED: Final[Mapping[Key, Moved]] = MappingProxyType({})


_RANKS: Final = (KeyOutcome.EQUAL, KeyOutcome.EXPECTED, KeyOutcome.DIFFERENT)


def moved_key(states: list[KeyState], high: int) -> Moved:
    """states: all since M0, as `LogStates.of` gives them. high: M1."""
    known = in_window(states, high)
    newest = states[-1]
    return Moved([each.facts for each in known], newest.facts, len(states) - len(known), newest.since)


def moved_keys(
    log: LogStates, keys: Iterable[Key], high: int, fingerprints: SecretFingerprints | None = None
) -> dict[Key, Moved]:
    """What the log says of each key that changed. fingerprints: for facts that still hold secrets; None: for others."""
    return {key: _fingerprinted(key, moved_key(log.of(key), high), fingerprints) for key in keys}


def _fingerprinted(key: Key, moved: Moved, fingerprints: SecretFingerprints | None) -> Moved:
    if fingerprints is None:
        return moved
    states = [
        None if each is None else fingerprinted_facts(key[0], each, fingerprints)
        for each in (*moved.states, moved.newest)
    ]
    return moved._replace(states=states[:-1], newest=states[-1])


def fingerprinted_facts(family: str, facts: Facts, fingerprints: SecretFingerprints) -> Facts:
    return fingerprints.facts(facts) if family in HOLD_SECRETS else facts


def fingerprinted_row(row: SideRow, fingerprints: SecretFingerprints) -> ZkRow:
    text = None if row.facts is None else facts_text(fingerprinted_facts(row.family, row.facts, fingerprints))
    return ZkRow(row.family, row.key, text, row.version, row.problem)


def judge_subject(
    subject: str,
    zookeeper: Iterable[ZkRow],
    log: Mapping[Key, SideRow],
    rules: ExpectedDifferences,
    moved: Mapping[Key, Moved] = NOTHING_MOVED,
) -> Iterator[JudgedKey]:
    """rules: without names of topics. moved: keys that the log changed while ZooKeeper was read, or is ahead with."""
    rows = list(zookeeper)
    scope = _Scope(subject, rows, log, moved)
    left = dict.fromkeys([*log, *moved])
    for row in rows:
        place = row.family, row.key
        left.pop(place, None)  # looked up in `log`, so that a key that ZooKeeper tells twice is judged twice
        yield from _judged(row, log.get(place), scope, rules, moved.get(place))
    for family, key in left:
        place = family, key
        absent = ZkRow(family, key, None, -1, "")
        yield from _judged(absent, log.get(place), scope, rules, moved.get(place), absent=True)


class _Scope:
    """Whether either side, and whether both, have the topic that the subject is."""

    def __init__(self, subject: str, rows: list[ZkRow], log: Mapping[Key, SideRow], moved: Mapping[Key, Moved]) -> None:
        place = TOPICS, subject.removeprefix(TOPIC_SUBJECT)
        self.topic_moved = place in moved
        told = [row for row in rows if (row.family, row.key) == place]
        self.topic_exists = bool(told) or place in log
        self.topic_on_both = any(row.text is not None for row in told) and place in log

    def goes_with_its_topic(self, family: str) -> bool:
        along = family == PARTITIONS or (family == TOPIC_CONFIGS and self.topic_exists)
        return along and not self.topic_on_both and not self.topic_moved


def _judged(
    row: ZkRow,
    in_log: SideRow | None,
    scope: _Scope,
    rules: ExpectedDifferences,
    states: Moved | None,
    *,
    absent: bool = False,
) -> Iterator[JudgedKey]:
    family, key, text = row.family, row.key, row.text
    facts = None if in_log is None else in_log.facts
    moved = None if absent else row.mzxid, None if in_log is None else in_log.version
    if row.problem:
        yield JudgedKey(family, key, KeyOutcome.NOT_READ, [unread_key(family, key, row.problem)], *moved)
    elif states is not None and family != CLUSTER:  # what the log says of the cluster counts at once
        yield from _judged_in_window(row, states, scope, rules, moved)
    elif text is not None and facts is not None and facts_text(facts) == text and not is_unusable(family, facts):
        yield JudgedKey(family, key, KeyOutcome.EQUAL, [], *moved)
    elif (text is not None and facts is not None) or not scope.goes_with_its_topic(family):
        topics = frozenset([key] if family == TOPIC_CONFIGS and scope.topic_exists else [])
        known = replace(rules, topics=topics)
        yield JudgedKey(family, key, *judge(family, key, facts_of_text(text), facts, known, row.mzxid), *moved)


def _judged_in_window(
    row: ZkRow, moved: Moved, scope: _Scope, rules: ExpectedDifferences, places: tuple[int | None, int | None]
) -> Iterator[JudgedKey]:
    """A key that is what the log said at some offset of the window is right; that the log is ahead of it is told.

    Of one that is not, the newest state is told that it might have.
    """
    family, key, zookeeper = row.family, row.key, facts_of_text(row.text)
    known = replace(rules, topics=frozenset([key] if family == TOPIC_CONFIGS and scope.topic_exists else []))
    verdicts = [judge(family, key, zookeeper, facts, known, row.mzxid) for facts in reversed(moved.states)]
    ranks = [_RANKS.index(outcome) for outcome, _ in verdicts]
    best = ranks.index(min(ranks))
    outcome, found = verdicts[best]
    if outcome is not KeyOutcome.DIFFERENT:
        if zookeeper is None and moved.newest is None:
            return
        ahead = best + moved.newer
        told = differences(family, key, zookeeper, moved.newest) if ahead else []
        if told:
            rule = lag(ahead, moved.offset)
            outcome = KeyOutcome.DIFFERENT if rules.stands_still else KeyOutcome.EXPECTED
            found = [msgspec.structs.replace(each, rule=rule) for each in told]
    yield JudgedKey(family, key, outcome, found, *places)
