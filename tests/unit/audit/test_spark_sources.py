"""How the readers of the Spark job cut their work, and what they write into rows. No Spark is started here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.log_fold import held_records, packed_records, record_rows
from migrator.audit.log_plan import LogSplit
from migrator.audit.normalise import BROKER_CONFIGS, ORDERS
from migrator.audit.rows import SideRow, facts_text
from migrator.audit.security_facts import SecurityChange, zk_facts
from migrator.audit.spark.sources import (
    LOG,
    READ,
    READERS_MAX,
    ROWS_PER_BATCH,
    TOPICS_PER_RANGE_MAX,
    ZOOKEEPER,
    InputRow,
    Others,
    PartReader,
    TopicRange,
    ZkReading,
    _rows_of_part,
    counted_batches,
    plan_parts,
    zookeeper_rows,
)
from migrator.audit.zk_source import subject_rows
from migrator.model.values import DelegationToken, ScramCredential, ScramMechanism
from migrator.wire.batch import build_batch, read_batch
from migrator.wire.messages.metadata import (
    ConfigRecord,
    DelegationTokenRecord,
    NoOpRecord,
    UserScramCredentialRecord,
)
from migrator.wire.records import encode_record
from migrator.zk.acl_znodes import token_data
from migrator.zk.entity_znodes import entity_data, user_path
from migrator.zk.pipeline import CONSIDERATE, UNLIMITED
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree


@given(st.sets(st.text(min_size=1)).map(sorted), st.integers(1, 9), st.text())
def test_every_name_there_is_or_will_be_is_in_exactly_one_range(names: list[str], count: int, new: str) -> None:
    parts = plan_parts(names, count)
    ranges = [part for part in parts if isinstance(part, TopicRange)]
    for name in [*names, new]:
        assert sum(part.low <= name and (part.high is None or name < part.high) for part in ranges) == 1
    assert parts[-1] == Others()


def test_ranges_hold_about_as_many_topics_each_and_never_too_many() -> None:
    names = [f"t{number:06d}" for number in range(4 * TOPICS_PER_RANGE_MAX + 1)]
    ranges = [part for part in plan_parts(names, 2) if isinstance(part, TopicRange)]
    assert len(ranges) == 5
    sizes = [sum(part.low <= name and (part.high is None or name < part.high) for name in names) for part in ranges]
    assert max(sizes) - min(sizes) <= 1


def test_tasks_that_read_side_by_side_share_what_one_considerate_reader_may_ask_for() -> None:
    reading = ZkReading.shared("host:2181", SecretFingerprints(), cores=4)
    assert reading.in_flight * 2 <= CONSIDERATE.in_flight
    assert reading.per_second * 2 <= (CONSIDERATE.per_second or 0)
    assert ZkReading.shared("host:2181", SecretFingerprints(), cores=64).in_flight == 1


@pytest.mark.parametrize(("cores", "readers"), [(1, 1), (2, 1), (5, 2), (64, READERS_MAX)])
def test_readers_of_zookeeper_begin_first_and_leave_cores_to_the_log(cores: int, readers: int) -> None:
    reading = ZkReading.shared("host:2181", SecretFingerprints(), cores)
    parts = plan_parts([f"t{number}" for number in range(20)], reading.readers)
    splits = [LogSplit("segment", 0, 1), LogSplit("segment", 1, 2)]
    assert reading.readers == readers
    assert len(PartReader(reading, parts, splits)) == readers + len(splits)


def test_secrets_of_both_sides_become_the_same_hash_on_their_way_into_rows() -> None:
    fingerprints = SecretFingerprints()
    facts = {"ssl.key.password": "hunter2", "log.cleaner.threads": "2"}
    (row,) = zookeeper_rows([SideRow(BROKER_CONFIGS, "1", "broker/1", facts)], fingerprints)
    record = ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value="hunter2")
    data = build_batch(base_offset=0, leader_epoch=1, timestamp_ms=0, values=[encode_record(record, 0)])
    (told,) = record_rows([read_batch(data)], fingerprints)
    (held,) = held_records(packed_records([told.data or b""]))
    assert "hunter2" not in str(row) + str(told.data)
    assert json.loads(text_of(row))["ssl.key.password"] == cast(ConfigRecord, held.decoded()).value


def test_credentials_and_tokens_of_both_sides_become_the_same_hashes() -> None:
    fingerprints = SecretFingerprints()
    scram = UserScramCredentialRecord("alice", 2, b"salty", b"stored", b"server", 4096)
    token = DelegationTokenRecord("User:alice", "User:bob", ("User:carol",), 1, 3, 2, "abc")
    values = [encode_record(record, 0) for record in (scram, token)]
    data = build_batch(base_offset=0, leader_epoch=1, timestamp_ms=0, values=values)
    rows = list(record_rows([read_batch(data)], fingerprints))
    kept = ScramCredential(b"salty", b"stored", b"server", 4096)
    znodes = {
        user_path("alice"): entity_data({}, {ScramMechanism.SHA_512: kept}),
        "/delegation_token/tokens/abc": token_data(
            DelegationToken("abc", "User:alice", "User:bob", ("User:carol",), 1, 3, 2)
        ),
    }  # fmt: skip
    told = [
        SideRow(family, path, "", facts)
        for path, znode in znodes.items()
        for family, facts in zk_facts(path, znode).items()
        if facts
    ]
    for row, in_zookeeper in zip(rows, zookeeper_rows(told, fingerprints), strict=True):
        (held,) = held_records(packed_records([row.data or b""]))
        assert cast(SecurityChange, held.decoded()).facts == json.loads(text_of(in_zookeeper))
        text = str(row.data) + text_of(in_zookeeper)
        assert not [secret for secret in ("c2FsdHk", "c3RvcmVk", "c2VydmVy", "carol", "bob") if secret in text]


def test_records_of_other_families_leave_no_row_so_nothing_of_them_can_leak() -> None:
    records = [ConfigRecord(resource_type=16, resource_name="m", name="x", value="secret"), NoOpRecord()]
    values = [encode_record(record, 0) for record in records]
    data = build_batch(base_offset=0, leader_epoch=1, timestamp_ms=0, values=values)
    assert list(record_rows([read_batch(data)], SecretFingerprints())) == []


def test_a_split_that_cannot_be_read_becomes_a_row_that_names_it(tmp_path: Path) -> None:
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(b"\x00" * 80)
    reader = PartReader(ZkReading.shared("nowhere", SecretFingerprints(), 1), [], [LogSplit(str(segment), 0, 80)])
    rows = [row for batch in reader(iter([numbers(0)])) for row in batch.to_pylist()]
    assert [row["side"] for row in rows] == [LOG, READ]
    assert segment.name in rows[0]["problem"]


def test_a_task_says_last_how_many_parts_and_rows_it_has_read(tmp_path: Path) -> None:
    """So that a task, or a file, that is lost can be noticed."""
    told = [SideRow("topics", str(number), "topic/x", {"b": 1}) for number in range(3)]
    (rows, last) = (batch.to_pylist() for batch in counted_batches(zookeeper_rows(told, SecretFingerprints()), 2))
    assert len(rows) == 3
    assert [(each["side"], each["place"], each["nth"]) for each in last] == [(READ, 2, 3)]


def numbers(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(values)})


def text_of(row: InputRow) -> str:
    assert row[0] == ZOOKEEPER
    assert row[6] is not None
    return row[6].decode()


def test_a_zookeeper_that_does_not_answer_becomes_a_row_that_names_what_was_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from migrator.audit.spark import sources as spark_sources
    from migrator.findings.zookeeper import ZOOKEEPER_UNREACHABLE

    def unreachable(connect: str) -> None:
        raise ZOOKEEPER_UNREACHABLE.error(connect=connect, reason="no answer")

    monkeypatch.setattr(spark_sources, "ZkSession", unreachable)
    reading = ZkReading.shared("host:2181", SecretFingerprints(), 1)
    ((_, _, _, _, family, key, _, problem),) = reading.rows("topics from 'a' on", None)  # type: ignore[arg-type]
    assert (family, key) == ("", "topics from 'a' on")
    assert "host:2181" in problem


def test_rows_are_cut_into_batches_and_equal_facts_have_equal_texts() -> None:
    rows = [SideRow("topics", str(number), "topic/x", {"b": 1, "a": [2]}) for number in range(ROWS_PER_BATCH + 1)]
    sizes = [batch.num_rows for batch in counted_batches(zookeeper_rows(rows, SecretFingerprints()), 1)]
    assert sizes == [ROWS_PER_BATCH, 1, 1]
    assert facts_text({"b": 1, "a": [2]}) == facts_text({"a": [2], "b": 1})


def test_orders_are_read_with_what_belongs_to_no_topic_and_again_by_their_subjects() -> None:
    ensemble = FakeEnsemble()
    SeededTree().plant(ensemble)
    orders = ["/admin/delete_topics/orders", "/admin/preferred_replica_election", "/admin/reassign_partitions"]
    for path in orders:
        ensemble.create(path, b"no JSON")
    session = ensemble.session()
    read = (row for row in _rows_of_part(Others(), session, UNLIMITED, None) if isinstance(row, SideRow))
    rows = [row for row in read if row.family == ORDERS]
    assert sorted(row.key for row in rows) == orders
    del ensemble.nodes[orders[0]]
    again = subject_rows([row.subject for row in rows], session, UNLIMITED, None)
    assert sorted(row.key for row in again) == orders[1:]
