"""What a task of the Spark audit makes of whole subjects: the same as the quick engine. No Spark is started here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from migrator.audit.cluster import CLUSTER
from migrator.audit.compare import ExpectedDifferences, KeyOutcome
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.log_fold import record_rows
from migrator.audit.normalise import PARTITIONS, TOPIC_CONFIGS, TOPICS
from migrator.audit.quick import compare_sides, facts_of
from migrator.audit.rows import CLUSTER_SUBJECT, WHOLE_SIDE, SideRow
from migrator.audit.spark import compare
from migrator.audit.spark.compare import ROWS, TAKEN, SubjectJudge, counted
from migrator.audit.spark.job import SMALL, _refuse_lost, _tasks
from migrator.audit.spark.sources import (
    InputRow,
    Others,
    TopicRange,
    ZkPart,
    _batch,
    _rows_of_part,
    log_rows,
    zookeeper_rows,
)
from migrator.findings.audit import AUDIT_ROWS_LOST
from migrator.findings.finding import FindingError
from migrator.wire.batch import build_batch, read_batch
from migrator.wire.messages.metadata import ConfigRecord, PartitionChangeRecord, PartitionRecord, TopicRecord
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from migrator.zk.pipeline import UNLIMITED
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree, an_id

TREE = SeededTree(topics=3, partitions=2, broker_configs={})
RULES = ExpectedDifferences(producer_id_margin=10_000)
WHOLE: list[ZkPart] = [TopicRange("", None), Others()]


def records_of(*numbers: int) -> list[Message]:
    """What the log says of some topics of the tree, without their configurations."""
    found: list[Message] = []
    for number in numbers:
        found.append(TopicRecord(TREE.name(number), an_id(TREE.name(number))))
        found.extend(a_partition(number, each) for each in range(TREE.partitions))
    return found


def a_partition(number: int, partition: int) -> PartitionRecord:
    return PartitionRecord(
        topic_id=an_id(TREE.name(number)),
        partition_id=partition,
        replicas=TREE.brokers,
        isr=TREE.brokers,
        leader=TREE.brokers[0],
        leader_epoch=0,
        partition_epoch=0,
    )


def input_rows(ensemble: FakeEnsemble, records: list[Message]) -> list[InputRow]:
    """Rows of both sides with their subjects, in the order in which the shuffle gives them."""
    fingerprints, session = SecretFingerprints(), ensemble.session()
    rows = [
        row for part in WHOLE for row in zookeeper_rows(_rows_of_part(part, session, UNLIMITED, None), fingerprints)
    ]
    batch = build_batch(
        base_offset=0, leader_epoch=1, timestamp_ms=0, values=[encode_record(each, 0) for each in records]
    )
    told = list(log_rows(record_rows([read_batch(batch)], fingerprints)))
    names = {row[5]: row[1] for row in told if row[4] == TopicRecord.__name__}
    rows += [(row[0], row[1] or names.get(row[5], f"unknown topic/{row[5]}"), *row[2:]) for row in told]
    return sorted(rows, key=lambda row: (str(row[1]), *row[:1], *row[2:4]))


def judged(rows: list[InputRow]) -> list[dict[str, Any]]:
    batches: Iterator[pa.RecordBatch] = iter([_batch(each) for each in (rows[:4], rows[4:]) if each])
    return [row for batch in SubjectJudge(RULES)(batches) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("numbers", "more"),
    [
        ((0, 1, 2), []),
        ((0, 1), []),
        ((0, 1, 2), [TopicRecord("only-in-log", an_id("only-in-log")), ConfigRecord(2, "only-in-log", "a", "b")]),
        ((0, 2), [ConfigRecord(2, TREE.name(1), "retention.ms", "1001")]),
        ((0, 1, 2), [PartitionChangeRecord(1, an_id(TREE.name(1)), leader=2)]),
        ((0, 1, 2), [ConfigRecord(2, "nowhere", "retention.ms", "1")]),
    ],
    ids=["configurations missing", "topic missing", "topic in the log only", "one configuration", "leader", "no topic"],
)
def test_subjects_are_judged_as_the_quick_engine_judges_them(numbers: tuple[int, ...], more: list[Message]) -> None:
    ensemble, records = FakeEnsemble(), [*records_of(*numbers), *more]
    TREE.plant(ensemble)
    quick = compare_sides(ensemble.session(), facts_of(records), RULES, of_cluster=True)
    found = judged(input_rows(ensemble, records))
    for family, each_count in quick.counts.items():
        for outcome in KeyOutcome:
            keys = sum(row["keys"] for row in found if (row["family"], row["outcome"]) == (family, outcome.value))
            assert keys == each_count.of(outcome), (family, outcome)
    told = {
        (row["family"], row["key"], row["field"], row["kind"])
        for row in found
        if row["outcome"] == KeyOutcome.DIFFERENT
    }
    assert told == {(each.family, each.key, each.field_, each.kind) for each in quick.differences}


def test_a_task_says_how_many_rows_it_took() -> None:
    ensemble = FakeEnsemble()
    TREE.plant(ensemble)
    rows = input_rows(ensemble, records_of(0, 1, 2))
    assert [row["keys"] for row in judged(rows) if row["outcome"] == TAKEN] == [len(rows)]


def test_the_last_row_of_a_task_says_what_the_task_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    """In more than one batch, with keys of every kind; a row that is lost behind the task is missed."""
    monkeypatch.setattr(compare, "ROWS_PER_BATCH", 2)
    ensemble = FakeEnsemble()
    TREE.plant(ensemble)
    rows = judged(input_rows(ensemble, [*records_of(0, 2), ConfigRecord(2, TREE.name(1), "retention.ms", "1001")]))
    told = Counter[tuple[str, str]]()
    for row in rows:
        told[row["family"], row["outcome"]] += row["keys"]
    told[WHOLE_SIDE, ROWS] = len(rows)
    assert rows[-1]["outcome"] == TAKEN
    assert counted([row["zookeeper"] for row in rows if row["outcome"] == TAKEN]) == told


def test_a_small_audit_is_one_task_and_a_large_one_is_cut_by_its_records() -> None:
    assert [_tasks(147, 12, 2), _tasks(SMALL, 1, 2), _tasks(1_200_000, 100_000, 2)] == [1, 2, 6]


def test_equal_keys_of_a_subject_that_differs_are_counted_with_it_and_others_together() -> None:
    """A subject that is looked at again takes its equal keys along."""
    ensemble = FakeEnsemble()
    TREE.plant(ensemble)
    change = PartitionChangeRecord(1, an_id(TREE.name(1)), leader=2)
    configs = [ConfigRecord(2, TREE.name(each), "retention.ms", str(1_000 + each)) for each in range(3)]
    rows = judged(input_rows(ensemble, [*records_of(0, 1, 2), *configs, change]))
    equal = {(row["family"], row["subject"]): row["keys"] for row in rows if row["outcome"] == KeyOutcome.EQUAL}
    assert equal.pop((CLUSTER, CLUSTER_SUBJECT)) == 3, "the log has no metadata.version"
    subject = f"topic/{TREE.name(1)}"
    assert equal == {
        (TOPICS, None): 2,
        (PARTITIONS, None): 4,
        (TOPIC_CONFIGS, None): 2,
        (TOPICS, subject): 1,
        (PARTITIONS, subject): 1,
        (TOPIC_CONFIGS, subject): 1,
    }


def test_a_key_that_zookeeper_tells_twice_is_judged_twice() -> None:
    told = [SideRow(TOPICS, "a", "topic/a", {"id": each}) for each in ("1", "2")]
    outcomes = [row for row in judged(list(zookeeper_rows(told, SecretFingerprints()))) if row["family"] == TOPICS]
    assert [row["outcome"] for row in outcomes] == [KeyOutcome.DIFFERENT, KeyOutcome.DIFFERENT]


def test_records_that_do_not_fit_together_are_no_difference_but_leave_the_side_unread() -> None:
    change = PartitionChangeRecord(1, an_id("never created"), leader=2)
    rows = judged(input_rows(FakeEnsemble(), [change]))
    (told,) = [row for row in rows if (row["family"], row["outcome"]) == (WHOLE_SIDE, KeyOutcome.NOT_READ)]
    assert (told["keys"], told["subject"].startswith("unknown topic/")) == (1, True)
    assert told["rule"]


def test_rows_that_were_written_and_are_not_read_again_are_refused() -> None:
    _refuse_lost("read", 7, 7)
    with pytest.raises(FindingError) as refused:
        _refuse_lost("read", 6, 7)
    assert refused.value.code == AUDIT_ROWS_LOST.code == "Z2K-2201"
