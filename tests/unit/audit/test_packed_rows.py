"""Rows of the Spark audit that hold a topic, or its records, as one: nothing gets lost, and nothing is excused."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.audit import log_fold
from migrator.audit.compare import ExpectedDifferences
from migrator.audit.fingerprints import PREFIX, SecretFingerprints
from migrator.audit.log_fold import RecordRow, held_records, packed_records, record_rows, said_of_topic
from migrator.audit.log_states import OffsetRange
from migrator.audit.normalise import PARTITIONS, TOPIC_CONFIGS, TOPICS, LogFacts, id_text
from migrator.audit.rows import SideRow
from migrator.audit.spark import compare
from migrator.audit.spark import topic_rows as packing
from migrator.audit.spark.compare import SubjectJudge
from migrator.audit.spark.sources import (
    BESIDE,
    PACKED,
    READ,
    InputRow,
    TopicRange,
    _batch,
    _rows_of_part,
    counted_batches,
    log_rows,
    zookeeper_rows,
)
from migrator.audit.spark.topic_rows import PackedTopic, ReadTopic, topic_rows
from migrator.wire.batch import build_batch, read_batch
from migrator.wire.messages.metadata import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from migrator.zk.pipeline import UNLIMITED
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree, an_id, config_json, state_json

SEAL = SecretFingerprints(b"one key for both sides")


def packed(records: Sequence[Message], snapshot_offset: int = -1, first: int = 0) -> list[RecordRow]:
    values = [encode_record(each, 0) for each in records]
    batch = read_batch(build_batch(base_offset=first, leader_epoch=1, timestamp_ms=0, values=values))
    return list(record_rows([batch], SEAL, snapshot_offset))


def a_topic(name: str, partitions: int = 2, topic_id: str = "") -> list[Message]:
    told = an_id(topic_id or name)
    return [
        TopicRecord(name, told),
        *(PartitionRecord(each, told, (1, 2), (1, 2), leader=1) for each in range(partitions)),
    ]


def a_change(name: str, leader: int = 2) -> Message:
    return PartitionChangeRecord(0, an_id(name), leader=leader)


def held(rows: Sequence[RecordRow]) -> list[tuple[int, Any]]:
    return [(each.offset, each.decoded()) for each in held_records(packed_records([row.data or b"" for row in rows]))]


# --- records ----------------------------------------------------------------------------------------------


def test_records_of_a_topic_are_one_row_with_its_configuration_and_come_back_as_they_were() -> None:
    records = [*a_topic("a"), *a_topic("b"), ConfigRecord(2, "a", "retention.ms", "1"), a_change("a")]
    rows = packed(records, first=40)
    assert [(row.offset, row.kind, row.id, row.subject) for row in rows] == [
        (40, "TopicRecord", id_text(an_id("a")), "topic/a"),
        (43, "TopicRecord", id_text(an_id("b")), "topic/b"),
    ]
    assert sorted(held(rows), key=lambda each: each[0]) == list(enumerate(records, 40))


def test_no_row_has_records_of_both_sides_of_a_marker() -> None:
    """What a transaction drops is left out by rows."""
    records = [*a_topic("a"), BeginTransactionRecord(), a_change("a"), EndTransactionRecord(), a_change("a", 1)]
    assert [(row.offset, row.kind) for row in packed(records)] == [
        (0, "TopicRecord"),
        (3, "BeginTransactionRecord"),
        (4, ""),
        (5, "EndTransactionRecord"),
        (6, ""),
    ]


def test_an_id_that_is_given_to_two_names_has_a_row_for_each() -> None:
    rows = packed([*a_topic("a", 1, "x"), RemoveTopicRecord(an_id("x")), *a_topic("b", 1, "x")])
    assert [(row.subject, row.kind, row.offset) for row in rows] == [
        ("topic/a", "TopicRecord", 0),
        ("topic/b", "TopicRecord", 3),
    ]


def test_records_in_front_of_the_one_that_names_their_topic_only_tell_its_id() -> None:
    rows = packed([a_change("a"), *a_topic("a"), RemoveTopicRecord(an_id("b"))])
    assert [(row.subject, row.kind, row.id) for row in rows] == [
        (None, "", id_text(an_id("a"))),
        ("topic/a", "TopicRecord", id_text(an_id("a"))),
        (None, "RemoveTopicRecord", id_text(an_id("b"))),
    ]


def test_a_topic_with_many_records_has_several_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_fold, "RECORDS_PER_ROW", 3)
    records = [*a_topic("a", 7), a_change("a")]
    rows = packed(records)
    assert [len(held([row])) for row in rows] == [3, 3, 3]
    assert held(rows) == list(enumerate(records))


def test_a_secret_of_a_configuration_is_a_fingerprint_in_the_value_and_others_stay() -> None:
    rows = packed([ConfigRecord(2, "a", "my.password", "hunter2"), ConfigRecord(2, "a", "retention.ms", "7")])
    (secret, plain) = (cast(ConfigRecord, record).value for _, record in held(rows))
    assert (str(secret).startswith(PREFIX), plain) == (True, "7")
    assert b"hunter2" not in b"".join(row.data or b"" for row in rows)


def test_the_last_row_of_a_task_tells_the_ids_that_the_log_gave() -> None:
    rows = [*log_rows(packed([*a_topic("a"), a_change("c"), *a_topic("b")]))]
    (*_, last) = (row for batch in counted_batches(rows, 1) for row in batch.to_pylist())
    assert last["side"] == READ
    assert last["data"].decode().split() == [id_text(an_id("a")), id_text(an_id("b"))]
    (*_, last) = (
        row for batch in counted_batches(log_rows(packed(a_topic("a")), BESIDE), 1) for row in batch.to_pylist()
    )
    assert last["data"] == b"", "a snapshot gives them once more"


@settings(max_examples=60, deadline=None)
@given(st.integers(), st.integers(1, 12), st.integers(0, 20))
def test_what_rows_of_a_topic_add_up_to_is_what_its_records_add_up_to(seed: int, cut: int, until: int) -> None:
    chance = Random(seed)
    records: list[Message] = [*a_topic("a", 3)]
    for _ in range(10):
        partition = chance.randrange(3)
        replicas = tuple(chance.sample([1, 2, 3], 2))
        records.append(
            chance.choice(
                [
                    PartitionChangeRecord(partition, an_id("a"), leader=chance.choice([1, 2])),
                    PartitionRecord(partition, an_id("a"), replicas, replicas, leader=replicas[0]),
                    ConfigRecord(2, "a", "retention.ms", chance.choice(["1", None])),
                ]
            )
        )
    rows = [*packed(records[:cut]), *packed(records[cut:], first=cut)]
    found = said_of_topic(packed_records([row.data or b"" for row in rows if row.id or row.subject]), {}, until)
    expected = LogFacts()
    for record in records[: until + 1]:
        expected.apply(record)
    assert found is None or list(found.rows()) == list(expected.rows())
    assert found is not None or len(rows) > 2, "only rows that overlap are not added up"


# --- topics of ZooKeeper ----------------------------------------------------------------------------------

TREE = SeededTree(topics=2, partitions=5)
FIRST = "/brokers/topics/t000000/partitions"


def planted() -> FakeEnsemble:
    ensemble = FakeEnsemble()
    TREE.plant(ensemble)
    return ensemble


def read(ensemble: FakeEnsemble) -> list[SideRow | ReadTopic]:
    names = [TREE.name(each) for each in range(TREE.topics)]
    return list(topic_rows(ensemble.session(), names, [*names, "nowhere"], UNLIMITED))


def test_a_topic_with_its_partitions_and_its_configuration_is_one_row() -> None:
    rows = list(zookeeper_rows(read(planted()), SEAL))
    assert [(row[1], row[4]) for row in rows] == [("topic/t000000", PACKED), ("topic/t000001", PACKED)]
    pack = msgspec.msgpack.decode(rows[1][6] or b"", type=PackedTopic)
    assert (pack.partitions, len(pack.states), pack.config) == ([0, 1, 2, 3, 4], 1, '{"retention.ms":"1001"}')


def test_a_secret_of_a_topic_s_configuration_is_a_fingerprint_in_its_row() -> None:
    ensemble = planted()
    ensemble.nodes["/config/topics/t000000"].data = config_json({"my.password": "hunter2"})
    ((*_, data, _), _) = zookeeper_rows(read(ensemble), SEAL)
    assert PREFIX.encode() in (data or b"")
    assert b"hunter2" not in (data or b"")


def test_what_is_not_usual_is_a_row_of_its_own() -> None:
    """A state that is gone, of a session, not readable, or of a controller that there never was; and an assignment that
    nobody can read, a configuration without a topic, a partition that nobody assigned."""
    ensemble = planted()
    del ensemble.nodes[f"{FIRST}/0/state"]
    ensemble.nodes[f"{FIRST}/1/state"].owner = 7
    ensemble.nodes[f"{FIRST}/2/state"].data = b"no JSON"
    ensemble.nodes[f"{FIRST}/3/state"].data = state_json((1, 2, 3)).replace(
        b'"controller_epoch":1', b'"controller_epoch":9'
    )
    ensemble.nodes["/brokers/topics/t000001"].data = b"no JSON"
    ensemble.create(f"{FIRST}/9")
    ensemble.create("/config/topics/nowhere", config_json({"retention.ms": "1"}))
    topics = [row for row in read(ensemble) if isinstance(row, ReadTopic)]
    others = [(row.key, bool(row.problem)) for row in read(ensemble) if isinstance(row, SideRow)]
    assert [(each.name, each.packs[0].partitions) for each in topics] == [("t000000", [4])]
    assert others == [
        ("t000000-0", False),
        ("t000000-1", True),
        ("t000000-2", True),
        ("t000000-3", False),
        ("t000001", True),
        ("t000001", False),
        ("t000000-9", False),
        ("nowhere", False),
    ]


def test_a_topic_with_many_partitions_has_several_rows_and_is_judged_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "PARTITIONS_PER_ROW", 2)
    rows = list(zookeeper_rows(read(planted()), SEAL))
    assert [(row[1], row[3]) for row in rows] == [(f"topic/{TREE.name(n)}", nth) for n in (0, 1) for nth in (0, 1, 2)]
    assert judged(rows, records_of_tree()) == judged(rows, records_of_tree(), key_by_key=True)


# --- equal to the letter ----------------------------------------------------------------------------------


def records_of_tree() -> list[Message]:
    found: list[Message] = []
    for name, topic_id in TREE.topic_ids().items():
        found.append(TopicRecord(name, topic_id))
        found += [
            PartitionRecord(each, topic_id, TREE.brokers, TREE.brokers, leader=1, leader_epoch=0, partition_epoch=0)
            for each in range(TREE.partitions)
        ]
        found.append(ConfigRecord(2, name, "retention.ms", str(1_000 + int(name[1:]))))
    return found


def judged(
    rows: Sequence[InputRow],
    records: Sequence[Message],
    *,
    window: OffsetRange | None = None,
    beside: Sequence[Message] = (),
    key_by_key: bool = False,
) -> tuple[dict[tuple[str, str], int], list[tuple[Any, ...]]]:
    """Keys by family and outcome, and what is told of those that differ."""
    judge = SubjectJudge(ExpectedDifferences(), window, len(records) - 1 if beside else -1)
    if key_by_key:
        judge._same_topic = lambda *_: False  # type: ignore[method-assign]
    told = [*log_rows(packed(records))]
    told += log_rows(packed(beside, len(records) - 1), BESIDE) if beside else []
    names = {row[5]: row[1] for row in told if row[1] is not None}
    told = [(row[0], row[1] or names[row[5]], *row[2:]) for row in told]
    ordered = sorted([*rows, *told], key=lambda row: (str(row[1]), row[0], row[2], row[3]))
    found = [row for batch in judge(iter([_batch(ordered)])) for row in batch.to_pylist()]
    counts: dict[tuple[str, str], int] = {}
    for row in found:
        if row["outcome"] != "taken":
            place = row["family"], row["outcome"]
            counts[place] = counts.get(place, 0) + row["keys"]
    different = [tuple(row.values()) for row in found if row["outcome"] not in ("equal", "taken")]
    return counts, different


@settings(max_examples=120, deadline=None)
@given(st.integers(), st.booleans(), st.booleans())
def test_topics_are_judged_the_same_at_once_and_key_by_key(seed: int, in_dual_write: bool, has_snapshot: bool) -> None:
    chance = Random(seed)
    ensemble, records = planted(), records_of_tree()
    for _ in range(chance.randrange(3)):
        partition = chance.randrange(TREE.partitions)
        match chance.randrange(5):
            case 0:
                ensemble.nodes[f"{FIRST}/{partition}/state"].data = state_json((1, 2, 3), chance.choice([1, 2, 9]), 0)
            case 1:
                ensemble.nodes[f"{FIRST}/{partition}/state"].version = chance.randrange(2)
            case 2:
                records.append(PartitionChangeRecord(partition, an_id("t000000"), leader=chance.choice([1, 2])))
            case 3:
                records.append(ConfigRecord(2, "t000000", "retention.ms", chance.choice(["1000", "5", None])))
            case _:
                records.append(PartitionRecord(partition, an_id("t000000"), (1, 2, 2), (1, 2), leader=1))
    window = OffsetRange(len(records) - 2, len(records) - 1) if in_dual_write else None
    beside = [each for each in records_of_tree() if chance.random() < 0.98] if has_snapshot else []
    if has_snapshot and not isinstance(beside[0], TopicRecord):
        beside = records_of_tree()
    rows = list(zookeeper_rows(read(ensemble), SEAL))
    at_once = judged(rows, records, window=window, beside=beside)
    assert at_once == judged(rows, records, window=window, beside=beside, key_by_key=True)


@pytest.mark.parametrize("beside", [[], records_of_tree()], ids=["the log", "with its snapshot"])
def test_nothing_is_judged_key_by_key_where_both_sides_say_the_same(
    beside: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(compare, "judge_subject")
    counts, different = judged(list(zookeeper_rows(read(planted()), SEAL)), records_of_tree(), beside=beside)
    assert counts == {(TOPICS, "equal"): 2, (PARTITIONS, "equal"): 10, (TOPIC_CONFIGS, "equal"): 2}
    assert not different


def test_partitions_that_both_sides_say_and_no_broker_can_lead_are_not_equal() -> None:
    ensemble, records = planted(), records_of_tree()
    for each in range(TREE.partitions):
        ensemble.nodes[f"{FIRST}/{each}/state"].data = state_json((1, 2, 3), 9, 0)
    records = [
        msgspec.structs.replace(each, leader=9)
        if isinstance(each, PartitionRecord) and each.topic_id == an_id("t000000")
        else each
        for each in records
    ]
    counts, _ = judged(list(zookeeper_rows(read(ensemble), SEAL)), records)
    assert counts[PARTITIONS, "different"] == counts[PARTITIONS, "equal"] == TREE.partitions


def test_a_range_of_topics_is_read_as_topics() -> None:
    rows = list(_rows_of_part(TopicRange("t000001", None), planted().session(), UNLIMITED, None))
    assert [row.name for row in rows if isinstance(row, ReadTopic)] == ["t000001"]
