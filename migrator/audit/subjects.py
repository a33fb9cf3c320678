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
from typing import NamedTuple

from migrator.audit.compare import Difference, Outcome, Rules, judge, unread_key
from migrator.audit.normalise import PARTITIONS, TOPIC_CONFIGS, TOPICS
from migrator.audit.rows import TOPIC_SUBJECT, SideRow, facts_of_text, facts_text

Key = tuple[str, str]


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
    outcome: Outcome
    differences: list[Difference]
    mzxid: int | None
    offset: int | None


def judge_subject(
    subject: str, zookeeper: Iterable[ZkRow], log: Mapping[Key, SideRow], rules: Rules
) -> Iterator[JudgedKey]:
    """rules: without names of topics."""
    rows = list(zookeeper)
    scope = _Scope(subject, rows, log)
    left = dict(log)
    for row in rows:
        place = row.family, row.key
        left.pop(place, None)  # looked up in `log`, so that a key that ZooKeeper tells twice is judged twice
        yield from _judged(row, log.get(place), scope, rules)
    for (family, key), in_log in left.items():
        yield from _judged(ZkRow(family, key, None, -1, ""), in_log, scope, rules, absent=True)


class _Scope:
    """Whether either side, and whether both, have the topic that the subject is."""

    def __init__(self, subject: str, rows: list[ZkRow], log: Mapping[Key, SideRow]) -> None:
        place = TOPICS, subject.removeprefix(TOPIC_SUBJECT)
        told = [row for row in rows if (row.family, row.key) == place]
        self.topic_exists = bool(told) or place in log
        self.topic_on_both = any(row.text is not None for row in told) and place in log

    def goes_with_its_topic(self, family: str) -> bool:
        along = family == PARTITIONS or (family == TOPIC_CONFIGS and self.topic_exists)
        return along and not self.topic_on_both


def _judged(
    row: ZkRow, in_log: SideRow | None, scope: _Scope, rules: Rules, *, absent: bool = False
) -> Iterator[JudgedKey]:
    family, key, text = row.family, row.key, row.text
    facts = None if in_log is None else in_log.facts
    moved = None if absent else row.mzxid, None if in_log is None else in_log.version
    if row.problem:
        yield JudgedKey(family, key, Outcome.NOT_READ, [unread_key(family, key, row.problem)], *moved)
    elif text is not None and facts is not None and facts_text(facts) == text:
        yield JudgedKey(family, key, Outcome.EQUAL, [], *moved)
    elif (text is not None and facts is not None) or not scope.goes_with_its_topic(family):
        topics = frozenset([key] if family == TOPIC_CONFIGS and scope.topic_exists else [])
        known = replace(rules, topics=topics)
        yield JudgedKey(family, key, *judge(family, key, facts_of_text(text), facts, known, row.mzxid), *moved)
