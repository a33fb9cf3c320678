"""A cluster in dual-write that never rests: each key is judged by what the log said while ZooKeeper was read.

Generated logs are compared with a slow twin, which adds the log up anew for every offset.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.audit import catching_up
from migrator.audit.compare import LAG, AuditReport, ExpectedDifferences
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.log_fold import record_rows
from migrator.audit.log_plan import LogPlan, LogSplit, begins_at, plan_log, splits_behind
from migrator.audit.log_states import Key, LogStates, OffsetRange, subject_of_key
from migrator.audit.normalise import BROKER_CONFIGS, PARTITIONS, TOPIC_CONFIGS, TOPICS, LogFacts
from migrator.audit.quick import judged_rows, quick_audit
from migrator.audit.rows import SideRow, facts_text
from migrator.audit.run import read_log
from migrator.audit.spark.compare import SubjectJudge
from migrator.audit.spark.sources import InputRow, _batch, log_rows, zookeeper_rows
from migrator.driver.copy import make_copy
from migrator.findings.finding import FindingError
from migrator.model.image import Position
from migrator.model.levels import LATEST
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.wire.batch import build_batch, read_batch
from migrator.wire.messages.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.records import decode_record, encode_record
from migrator.wire.schema import Message
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree, an_id, config_json
from tests.unit.audit.test_quick import states_of

Judged = dict[Key, str]
SEAL = SecretFingerprints(b"one key for both sides")


# --- generated logs ---------------------------------------------------------------------------------------


class GeneratedLog:
    """Records that fit, over few keys, so that values come back."""

    def __init__(self, chance: Random, size: int) -> None:
        self.records: list[Message] = []
        self._topics: dict[str, bytes] = {}
        self._acls: list[bytes] = []
        self._chance = chance
        while len(self.records) < size:
            self._more()

    def _more(self) -> None:
        chance, records = self._chance, self.records
        name = chance.choice("ab")
        match chance.choice(["topic", "remove", "leader", "leader", "config", "config", "broker", "quota", "acl"]):
            case "topic" if name not in self._topics:
                self._topics[name] = an_id(f"{name}{len(records)}")
                records.append(TopicRecord(name, self._topics[name]))
                records += [PartitionRecord(each, self._topics[name], (1, 2), (1, 2), leader=1) for each in range(2)]
            case "remove" if name in self._topics and chance.random() < 0.5:
                records.append(RemoveTopicRecord(self._topics.pop(name)))
            case "leader" if name in self._topics:
                leader = chance.choice([1, 2])
                records.append(PartitionChangeRecord(chance.randrange(2), self._topics[name], leader=leader))
            case "config" if name in self._topics:
                records.append(ConfigRecord(2, name, "retention.ms", chance.choice(["1", "2", None])))
            case "broker":
                records.append(ConfigRecord(4, "1", chance.choice(["x", "y"]), chance.choice(["1", "2", None])))
            case "quota":
                entity = (ClientQuotaEntity("ip", "::1"),)
                records.append(ClientQuotaRecord(entity, "a", chance.choice([1.0, 2.0]), chance.random() < 0.3))
            case "acl" if self._acls and chance.random() < 0.5:
                records.append(RemoveAccessControlEntryRecord(self._acls.pop()))
            case "acl":
                self._acls.append(an_id(f"acl{len(records)}"))
                operation = 2 + len(records) % 9
                records.append(AccessControlEntryRecord(self._acls[-1], 2, "*", 3, "User:a", "*", operation, 3))


def said(records: list[Message]) -> dict[Key, Any]:
    """The slow twin: what a log adds up to."""
    facts = LogFacts()
    for record in records:
        facts.apply(record)
    return {(family, key): told for family, key, told in facts.rows()}


def as_read(found: Mapping[Key, Any]) -> dict[Key, Any]:
    """Partitions are found by their topic's znode."""
    topics = {key for family, key in found if family == TOPICS}
    return {
        (family, key): facts
        for (family, key), facts in found.items()
        if family != PARTITIONS or key.rpartition("-")[0] in topics
    }


def rows_of(found: Mapping[Key, Any]) -> list[SideRow]:
    return [SideRow(*key, subject_of_key(key), facts, 7) for key, facts in found.items()]


def by_quick(rows: list[SideRow], records: list[Message], window: OffsetRange) -> Judged:
    log = states_of(records, window.low)
    keys = [*log.changed(), *((row.family, row.key) for row in rows), *said(records)]
    subjects = {subject_of_key(key) for key in keys}
    found = judged_rows(rows, subjects, log, window.high, ExpectedDifferences(), SEAL)
    return {(each.family, each.key): str(each.outcome) for each in found}


def by_spark(rows: list[SideRow], records: list[Message], window: OffsetRange) -> Judged:
    """What tasks of the Spark job say of the same rows."""
    found = [
        row
        for batch in SubjectJudge(ExpectedDifferences(), window)(iter([_batch(input_rows(rows, records))]))
        for row in batch.to_pylist()
    ]
    told = {(row["family"], row["key"]): row["outcome"] for row in found if row["subject"] and row["key"]}
    equal = {(row.family, row.key) for row in rows} - told.keys()
    return {**dict.fromkeys(equal, "equal"), **told}


def input_rows(rows: list[SideRow], records: list[Message]) -> list[InputRow]:
    values = [encode_record(each, 0) for each in records]
    batch = read_batch(build_batch(base_offset=0, leader_epoch=1, timestamp_ms=0, values=values))
    told = list(log_rows(record_rows([batch], SEAL)))
    names = {row[5]: row[1] for row in told if row[4] in (TopicRecord.__name__, AccessControlEntryRecord.__name__)}
    told = [(row[0], row[1] or names[row[5]], *row[2:]) for row in told]
    return sorted([*zookeeper_rows(rows, SEAL), *told], key=lambda row: (str(row[1]), row[0], row[2], row[3]))


ENGINES = pytest.mark.parametrize("judged", [by_quick, by_spark])
Engine = Callable[[list[SideRow], list[Message], OffsetRange], Judged]


def in_the_way(outcomes: Judged, key: Key) -> bool:
    """A topic that differs is told alone."""
    topic = subject_of_key(key).removeprefix("topic/")
    return key[0] != TOPICS and outcomes.get((TOPICS, topic)) == "different"


def of_no_topic(read: Mapping[Key, Any], key: Key) -> bool:
    """Configuration that stays when its topic goes is expected in ZooKeeper alone."""
    return key[0] == TOPIC_CONFIGS and (TOPICS, key[1]) not in read


@ENGINES
@settings(max_examples=150, deadline=None)
@given(st.integers(), st.integers(5, 40), st.data())
def test_a_key_is_right_exactly_when_the_log_said_it_while_zookeeper_was_read(
    judged: Engine, seed: int, size: int, data: st.DataObject
) -> None:
    """Each key as the log said it at an offset of its own, from long before the window to behind it."""
    records = GeneratedLog(Random(seed), size).records
    low = data.draw(st.integers(0, len(records) - 1))
    high = data.draw(st.integers(low, len(records) - 1))
    at_offset = [said(records[: offset + 1]) for offset in range(len(records))]
    every_key = sorted({key for found in at_offset for key in found})
    read_at = {key: data.draw(st.integers(0, len(records) - 1) | st.integers(low, high)) for key in every_key}
    read = as_read({key: at_offset[offset][key] for key, offset in read_at.items() if key in at_offset[offset]})
    outcomes = judged(rows_of(read), records, OffsetRange(low, high))
    for key in every_key:
        known = [facts_text(at_offset[offset].get(key)) for offset in range(low, high + 1)]
        is_right = facts_text(read.get(key)) in known
        outcome = outcomes.get(key, "equal")
        if is_right:
            assert outcome != "different", (key, low, high, read_at[key])
        elif not in_the_way(outcomes, key) and not of_no_topic(read, key):
            assert outcome == "different", (key, low, high, read_at[key])


@ENGINES
@settings(max_examples=60, deadline=None)
@given(st.integers(), st.integers(5, 40), st.data())
def test_a_cluster_that_lags_and_moves_while_it_is_read_never_differs(
    judged: Engine, seed: int, size: int, data: st.DataObject
) -> None:
    records = GeneratedLog(Random(seed), size).records
    low = data.draw(st.integers(0, len(records) - 1))
    high = data.draw(st.integers(low, len(records) - 1))
    at_offset = [said(records[: offset + 1]) for offset in range(len(records))]
    every_key = sorted({key for found in at_offset for key in found})
    read_at = {key: data.draw(st.integers(low, high)) for key in every_key}
    read = as_read({key: at_offset[offset][key] for key, offset in read_at.items() if key in at_offset[offset]})
    assert "different" not in judged(rows_of(read), records, OffsetRange(low, high)).values()


# --- one key, told by hand --------------------------------------------------------------------------------

KEY = (BROKER_CONFIGS, "1")
VALUES = "AABACDD"
"""What the key says from each offset on."""


@ENGINES
@pytest.mark.parametrize(
    ("value", "low", "high", "outcome"),
    [
        ("A", 3, 3, "expected"),  # as ZooKeeper had it; the log is ahead by two changes
        ("C", 3, 4, "expected"),
        ("D", 3, 6, "equal"),
        ("B", 3, 5, "different"),  # older than the window
        ("B", 2, 5, "expected"),
        ("A", 4, 6, "different"),  # so it was before, and should not be any more
        ("D", 3, 4, "different"),  # ZooKeeper does not have the log that far
        ("E", 0, 6, "different"),  # the log never said so
        (None, 1, 6, "different"),
    ],
)
def test_a_value_counts_by_when_the_log_said_it(
    judged: Engine, value: str | None, low: int, high: int, outcome: str
) -> None:
    records: list[Message] = [ConfigRecord(4, "1", "log.cleaner.threads", each) for each in VALUES]
    read = {} if value is None else {KEY: {"log.cleaner.threads": value}}
    assert judged(rows_of(read), records, OffsetRange(low, high))[KEY] == outcome


@ENGINES
def test_of_a_topic_that_is_being_deleted_each_partition_is_judged(judged: Engine) -> None:
    """ZooKeeper has the topic still, which is right; what one of its partitions says never was."""
    topic = an_id("t")
    records: list[Message] = [
        TopicRecord("t", topic),
        *(PartitionRecord(each, topic, (1, 2), (1, 2), leader=1) for each in range(2)),
        RemoveTopicRecord(topic),
    ]
    read = said(records[:3])
    read["partitions", "t-1"] = {**read["partitions", "t-1"], "leader": 2}
    outcomes = judged(rows_of(read), records, OffsetRange(2, 3))
    assert outcomes == {
        ("topics", "t"): "expected",
        ("partitions", "t-0"): "expected",
        ("partitions", "t-1"): "different",
    }


# --- the quick engine as a whole --------------------------------------------------------------------------

PATH = "/config/topics/t000001"


class Busy:
    """Topic t000001 gets a new value before each reading of the log, and ZooKeeper is one change behind."""

    def __init__(self) -> None:
        self.ensemble = FakeEnsemble()
        SeededTree(topics=3, partitions=2, producer_block_end=999).plant(self.ensemble)
        copied = make_copy(read_tree(self.ensemble.session())).values()
        self.records = [FeatureLevelRecord("metadata.version", LATEST), *map(decode_record, copied)]
        self.ensemble.create("/migration")
        self.readings = 0
        self.mirrored: list[tuple[int, str]] = [(len(self.records) - 1, "1001")]
        self.writes: Callable[[Busy], None] = Busy.change
        self._mirror()

    def change(self) -> None:
        value = str(5_000 + len(self.records))
        self.records.append(ConfigRecord(2, "t000001", "retention.ms", value))
        self.mirrored.append((len(self.records) - 1, value))
        self._mirror(-2)

    def _mirror(self, place: int = -1) -> None:
        offset, value = self.mirrored[place]
        self.ensemble.nodes["/migration"].data = json.dumps({"kraft_metadata_offset": offset}).encode()
        self.ensemble.nodes[PATH].data = config_json({"retention.ms": value})

    def read_log(self, low: int, wanted: Position) -> tuple[LogStates, Position]:
        self.readings += 1
        self.writes(self)
        return states_of(self.records, low), Position(1, len(self.records) - 1)

    def audit(self) -> AuditReport:
        session = self.ensemble.session()
        return quick_audit(session, self.read_log, rules=ExpectedDifferences(4_000), settle_s=0, follows=True)


def test_a_log_that_is_always_one_change_ahead_passes_in_one_look_and_the_lag_is_told() -> None:
    busy = Busy()
    report = busy.audit()
    assert (report.exit_code, busy.readings) == (0, 2)
    (told,) = [each for each in report.expected if each.family == TOPIC_CONFIGS]
    assert (told.key, told.field_) == ("t000001", "retention.ms")
    last = len(busy.records) - 1
    assert told.rule == f"{LAG}: the log is ahead by 2 changes of this key, the last at offset {last}"
    assert [each.compared for each in report.families] == [3, 6, 3, 2, 1, 0, 0, 0, 0, 0, 4]


def test_before_the_log_was_followed_such_a_cluster_differed_after_four_looks() -> None:
    busy = Busy()
    report = quick_audit(busy.ensemble.session(), busy.read_log, rules=ExpectedDifferences(4_000), settle_s=0)
    assert (report.exit_code, busy.readings) == (1, 4)


def test_what_really_differs_on_a_busy_cluster_is_found_beside_what_is_on_its_way() -> None:
    busy = Busy()
    busy.ensemble.nodes["/config/topics/t000002"].data = config_json({"retention.ms": "7"})
    busy.ensemble.nodes["/config/brokers/1"].data = config_json({"log.cleaner.threads": "9"})
    report = busy.audit()
    assert report.exit_code == 1
    assert {(each.family, each.key) for each in report.differences} == {
        (TOPIC_CONFIGS, "t000002"),
        (BROKER_CONFIGS, "1"),
    }
    assert [each.compared for each in report.families] == [3, 6, 3, 2, 1, 0, 0, 0, 0, 0, 4]


def test_a_value_that_zookeeper_should_have_lost_is_a_difference_though_the_log_says_it_again() -> None:
    """A, B, and A again, which is not mirrored yet: ZooKeeper with A never got B. Both ends are equal all the same."""
    busy = Busy()
    for value in ("B", "1001"):
        busy.records.append(ConfigRecord(2, "t000001", "retention.ms", value))
    data = json.dumps({"kraft_metadata_offset": len(busy.records) - 2}).encode()
    busy.ensemble.nodes["/migration"].data = data
    busy.writes = lambda each: None
    report = busy.audit()
    assert report.exit_code == 1
    assert [(each.family, each.key) for each in report.differences] == [(TOPIC_CONFIGS, "t000001")]


def test_a_dual_write_that_goes_ahead_of_its_offset_for_a_moment_is_looked_at_again() -> None:
    """A plan of several transactions; a stock controller."""
    busy = Busy()

    def catches_up(each: Busy) -> None:
        if each.readings == 1:
            each.records.append(ConfigRecord(2, "t000001", "retention.ms", "5"))
            each.ensemble.nodes[PATH].data = config_json({"retention.ms": "5"})
        if each.readings == 2:
            each.mirrored.append((len(each.records) - 1, "5"))
            each._mirror()

    busy.writes = catches_up
    assert busy.audit().exit_code == 0
    assert busy.readings == 3


class Killed(Busy):
    """The directory of a controller that was killed, while the others go on and ZooKeeper follows them.

    branch: the last record of the directory was never committed; another one has its offset, of a later epoch.
    """

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, *, branch: bool) -> None:
        super().__init__()
        self.now = 0.0
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep)
        monkeypatch.setattr(catching_up, "time", clock)
        self.directory = directory
        self.common = [*self.records]
        dead = [ConfigRecord(2, "t000002", "retention.ms", "never said")] if branch else []
        self._write(batch_of(self.common, 0, 1) + batch_of(dead, len(self.common), 1))
        self.started_again_at = 1e9
        self.records.append(ConfigRecord(2, "t000001", "retention.ms", "by the next leader"))
        found = {"kraft_metadata_offset": len(self.records) - 1, "kraft_metadata_epoch": 2}
        self.ensemble.nodes["/migration"].data = json.dumps(found).encode()
        self.ensemble.nodes[PATH].data = config_json({"retention.ms": "by the next leader"})

    def _write(self, data: bytes) -> None:
        (self.directory / f"{0:020d}.log").write_bytes(data)

    def _sleep(self, seconds: float) -> None:
        """It cuts off what was never committed, and a moment later it has what was."""
        self.now += seconds
        if self.now >= self.started_again_at:
            self._write(b"")
        if self.now >= self.started_again_at + 1:
            behind = batch_of(self.records[len(self.common) :], len(self.common), 2)
            self._write(batch_of(self.common, 0, 1) + behind)

    def read_log(self, low: int, wanted: Position) -> tuple[LogStates, Position]:
        return read_log(str(self.directory), low, wanted)


def batch_of(records: Sequence[Message], offset: int, epoch: int) -> bytes:
    values = [encode_record(each, 0) for each in records]
    return build_batch(base_offset=offset, leader_epoch=epoch, timestamp_ms=0, values=values) if values else b""


@pytest.mark.parametrize("branch", [False, True])
def test_the_directory_of_a_controller_that_was_killed_is_no_difference_of_the_cluster(
    branch: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = Killed(tmp_path, monkeypatch, branch=branch)
    said = rf"Z2K-5001.*{tmp_path}.*of epoch 1, and ZooKeeper already has .* of epoch 2"
    with pytest.raises(FindingError, match=said):
        killed.audit()
    assert catching_up.BEHIND_MAX_S <= killed.now < catching_up.BEHIND_MAX_S + 1


@pytest.mark.parametrize("branch", [False, True])
def test_once_it_is_started_again_and_has_caught_up_its_log_is_equal(
    branch: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = Killed(tmp_path, monkeypatch, branch=branch)
    killed.started_again_at = 5.0
    assert killed.audit().exit_code == 0
    assert killed.now >= 6


def test_a_reading_that_takes_longer_than_the_wait_is_made_again_when_it_was_just_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(catching_up, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    ends = iter([Position(1, 99), Position(1, 100)])

    def read() -> tuple[str, Position]:
        now[0] += 25
        return "read", next(ends)

    assert catching_up.read_up_to(Position(1, 100), read, "the log") == "read"


# --- the log's tail ---------------------------------------------------------------------------------------


def a_split(start: int, end: int, file: str = "0.log", snapshot_offset: int = -1) -> LogSplit:
    return LogSplit(file, start, end, snapshot_offset)


@pytest.mark.parametrize(
    ("before", "now", "behind"),
    [
        ([a_split(0, 10)], [a_split(0, 10)], []),
        ([a_split(0, 10)], [a_split(0, 15)], [a_split(10, 15)]),
        ([a_split(0, 10), a_split(10, 12)], [a_split(0, 10), a_split(10, 20), a_split(20, 21)],
         [a_split(12, 20), a_split(20, 21)]),
        ([a_split(0, 10)], [a_split(0, 10), a_split(0, 5, "10.log")], [a_split(0, 5, "10.log")]),
        ([a_split(0, 10)], [a_split(0, 8)], None),
        ([a_split(0, 10), a_split(0, 5, "10.log")], [a_split(0, 5, "10.log")], None),
        ([a_split(0, 10)], [a_split(0, 9, "7.checkpoint", 6), a_split(0, 5, "7.log")], None),
    ],
)  # fmt: skip
def test_what_a_log_has_got_meanwhile_is_read_behind_what_was_read(
    before: list[LogSplit], now: list[LogSplit], behind: list[LogSplit] | None
) -> None:
    of_one_epoch = (Position(1, 0),)
    assert splits_behind(LogPlan(before, 1, 1, 1), LogPlan(now, 2, 1, 2, of_one_epoch)) == behind


def test_records_that_were_written_in_the_place_of_others_are_not_taken_for_what_a_log_has_got(tmp_path: Path) -> None:
    """As many bytes: what was never committed was cut off meanwhile."""
    value = [encode_record(ConfigRecord(2, "t", "retention.ms", "1"), 0)]

    def write(*epochs: int) -> LogPlan:
        batches = [
            build_batch(base_offset=offset, leader_epoch=epoch, timestamp_ms=0, values=value)
            for offset, epoch in enumerate(epochs)
        ]
        (tmp_path / f"{0:020d}.log").write_bytes(b"".join(batches))
        return plan_log(tmp_path)

    before = write(1, 1)
    assert splits_behind(before, write(1, 1, 2)) == [a_split(180, 270, str(tmp_path / f"{0:020d}.log"))]
    assert splits_behind(before, write(1, 2, 2)) is None
    assert splits_behind(write(1, 2), write(1, 2, 2, 5)) is not None


def test_a_log_begins_at_its_snapshot() -> None:
    assert begins_at(LogPlan([a_split(0, 9, "7.checkpoint", 6)], 9, 1, 9)) == 6
    assert begins_at(LogPlan([a_split(0, 9)], 9, 1, 9)) == begins_at(LogPlan([], -1, -1, 0)) == -1
