"""The outside reader's verdicts on prepared disks, ZooKeeper trees and brokers' answers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from migrator.lab.traffic import outside_reader
from migrator.lab.traffic.outside_reader import (
    BATCH_HEADER_BYTES,
    CheckLine,
    Ledger,
    LogBatch,
    TreeReading,
    Words,
    attempt,
    batches_in,
    batches_of,
    check_disks,
    check_tree,
    exit_code,
    judge_metadata,
    log_in,
    read_disks,
    settled,
    told_in,
)
from migrator.node.transport.sasl import PLAIN, PlainServer, SaslRefused, ScramServer, ServerSide, scram_credential

TOPIC_ID = "uSEdg0BMS6SIL_zmI6lbpQ"
NO_PRODUCER = (-1, -1)
HEADER = ">qiibIhiqqqhii"
"""The whole 61-byte header of a record batch, version 2, field by field."""


def a_batch(base: int, records: int, *, magic: int = 2, crc: int = 7, payload: bytes = b"....") -> bytes:
    length = BATCH_HEADER_BYTES - 12 + len(payload)
    return struct.pack(HEADER, base, length, 0, magic, crc, 0, records - 1, 0, 0, -1, -1, -1, records) + payload


def a_tree(partitions: int = 1) -> TreeReading:
    state = {"leader": 0, "isr": [0, 1], "leader_epoch": 0, "controller_epoch": 1, "version": 1}
    return TreeReading(
        brokers={0: "127.0.0.1:1", 1: "127.0.0.1:2"},
        topic_ids={"a": TOPIC_ID},
        replicas={"a": {number: [0, 1] for number in range(partitions)}},
        states={("a", number): dict(state) for number in range(partitions)},
    )


def a_data_dir(tmp_path: Path, broker: int, batches: Sequence[bytes] = (), topic_id: str = TOPIC_ID) -> Path:
    data = tmp_path / f"data-{broker}"
    replica = data / "a-0"
    replica.mkdir(parents=True)
    (data / "meta.properties").write_text(f"#\nversion=0\nbroker.id={broker}\ncluster.id=x\n")
    (replica / "00000000000000000000.log").write_bytes(b"".join(batches))
    (replica / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    return data


def an_empty_ledger(tmp_path: Path, *lines: str) -> Ledger:
    file = tmp_path / "ledger"
    file.write_text("\n".join(['["begin",1,"run-1",64,1]', *lines]) + "\n")
    return Ledger(file, (), {})


def bad(checks: Sequence[CheckLine]) -> dict[str, list[str]]:
    return {check.name: check.first for check in checks if check.failed or check.not_read}


# --- batches --------------------------------------------------------------------------------------------------


def test_a_hand_made_batch_is_read_by_its_header() -> None:
    assert struct.calcsize(HEADER) == BATCH_HEADER_BYTES
    data = a_batch(0, 3, crc=11) + a_batch(3, 1, crc=12, payload=b"x" * 500)
    assert list(batches_in(data)) == [LogBatch(0, 3, 11, NO_PRODUCER), LogBatch(3, 4, 12, NO_PRODUCER)]


@given(st.lists(st.tuples(st.integers(1, 9), st.binary(max_size=40)), max_size=8), st.data())
def test_an_end_that_is_still_being_written_is_left_out(parts: list[tuple[int, bytes]], draw: st.DataObject) -> None:
    whole, base, ends = b"", 0, []
    for records, payload in parts:
        whole += a_batch(base, records, payload=payload)
        base += records
        ends.append((len(whole), base))
    cut = draw.draw(st.integers(0, len(whole)))
    assert [batch.end_offset for batch in batches_in(whole[:cut])] == [offset for size, offset in ends if size <= cut]


def test_zeros_at_the_end_of_a_segment_are_no_batch_and_old_formats_are_refused() -> None:
    assert list(batches_in(a_batch(0, 1) + bytes(200))) == [LogBatch(0, 1, 7, NO_PRODUCER)]
    with pytest.raises(ValueError, match="magic 1"):
        list(batches_in(a_batch(0, 1, magic=1)))


def test_the_log_end_is_that_of_the_last_segment_also_when_it_is_empty(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(a_batch(0, 5))
    assert batches_of(tmp_path) == (5, [LogBatch(0, 5, 7, NO_PRODUCER)])
    (tmp_path / "00000000000000000009.log").write_bytes(b"")
    assert batches_of(tmp_path)[0] == 9


# --- disks ----------------------------------------------------------------------------------------------------


def test_equal_disks_are_good(tmp_path: Path) -> None:
    dirs = [a_data_dir(tmp_path, broker, [a_batch(0, 2), a_batch(2, 1)]) for broker in (0, 1)]
    (dirs[0] / "__cluster_metadata-0").mkdir()
    checks = check_disks(a_tree(), read_disks(dirs, a_tree(), ()))
    assert bad(checks) == {}
    assert {check.name: check.compared for check in checks} == {
        "no leftover directories": 2,
        "topic ids on the disks": 2,
        "log end offsets are equal": 1,
        "replicas hold the same batches": 1,
    }


def test_unequal_log_ends_are_found(tmp_path: Path) -> None:
    dirs = [a_data_dir(tmp_path, 0, [a_batch(0, 2)]), a_data_dir(tmp_path, 1, [a_batch(0, 1)])]
    assert bad(check_disks(a_tree(), read_disks(dirs, a_tree(), ()))) == {
        "log end offsets are equal": ["a-0: {0: 2, 1: 1}"],
        "replicas hold the same batches": ["a-0: batches differ between brokers [0, 1]"],
    }


def test_equal_ends_with_other_content_are_found(tmp_path: Path) -> None:
    dirs = [a_data_dir(tmp_path, 0, [a_batch(0, 2, crc=1)]), a_data_dir(tmp_path, 1, [a_batch(0, 2, crc=2)])]
    assert list(bad(check_disks(a_tree(), read_disks(dirs, a_tree(), ())))) == ["replicas hold the same batches"]


@pytest.mark.parametrize(
    "name", ["x-0-stray", "a-0.0123-stray", "a-0.0123-future", "a-0.0123-delete", "b-0", "a-7", "x"]
)
def test_a_leftover_directory_is_found(tmp_path: Path, name: str) -> None:
    dirs = [a_data_dir(tmp_path, broker) for broker in (0, 1)]
    (dirs[1] / name).mkdir()
    checks = check_disks(a_tree(), read_disks(dirs, a_tree(), ()))
    assert bad(checks) == {"no leftover directories": [f"broker 1: {name}"]}


def test_a_deleted_topic_may_wait_for_its_deletion_and_not_stray(tmp_path: Path) -> None:
    dirs = [a_data_dir(tmp_path, broker) for broker in (0, 1)]
    for name in ("my-old.topic-3.0123abc-delete", "my-old.topic-3.0123abc-stray"):
        (dirs[0] / name).mkdir()
    checks = check_disks(a_tree(), read_disks(dirs, a_tree(), {"my-old.topic"}))
    assert bad(checks) == {"no leftover directories": ["broker 0: my-old.topic-3.0123abc-stray"]}


def test_another_topic_id_and_a_missing_replica_are_found(tmp_path: Path) -> None:
    dirs = [a_data_dir(tmp_path, 0, topic_id="other"), a_data_dir(tmp_path, 1)]
    (dirs[1] / "a-0").rename(tmp_path / "away")
    assert bad(check_disks(a_tree(), read_disks(dirs, a_tree(), ()))) == {
        "topic ids on the disks": [
            f"broker 0 a-0: other, the cluster has {TOPIC_ID}",
            "broker 1 has no directory a-0",
        ]
    }


def test_a_broker_whose_disk_was_not_named_was_not_read(tmp_path: Path) -> None:
    checks = check_disks(a_tree(), read_disks([a_data_dir(tmp_path, 0)], a_tree(), ()))
    assert exit_code(checks) == 2


# --- ZooKeeper and the brokers' answers -----------------------------------------------------------------------


def test_a_shrunk_isr_a_missing_state_and_a_vanished_topic_are_found_in_zookeeper(tmp_path: Path) -> None:
    tree = a_tree(partitions=3)
    tree.states["a", 1] = None
    tree.states["a", 2] = {"leader": 1, "isr": [1]}
    ledger = an_empty_ledger(tmp_path, '["ack","b",0,0,"k",0,-1,10,11]')
    found = bad(check_tree(tree, ledger))
    assert found["ISR in ZooKeeper"] == [
        "a-1: replicas [0, 1], in sync [], leader None",
        "a-2: replicas [0, 1], in sync [1], leader 1",
    ]
    assert found["topics of the ledger exist"] == ["b-0 is not in ZooKeeper"]


def test_a_broker_that_says_otherwise_than_zookeeper_is_found() -> None:
    good, shrunk, stale = CheckLine("good"), CheckLine("shrunk"), CheckLine("stale")
    judge_metadata(good, a_tree(), {("a", 0): (0, [0, 1], [1, 0])})
    judge_metadata(shrunk, a_tree(), {("a", 0): (0, [0, 1], [0])})
    judge_metadata(stale, a_tree(), {("a", 0): (1, [0, 1], [0, 1]), ("gone", 0): (0, [0], [0])})
    assert (good.failed, shrunk.failed, stale.failed) == (0, 1, 2)


def test_a_metadata_answer_is_read_word_by_word() -> None:
    def text(word: str) -> bytes:
        return struct.pack(">h", len(word)) + word.encode()

    def numbers(*values: int) -> bytes:
        return struct.pack(f">i{len(values)}i", len(values), *values)

    brokers = struct.pack(">ii", 1, 0) + text("127.0.0.1") + struct.pack(">ih", 9092, -1)
    partition = struct.pack(">hii", 0, 3, 1) + numbers(1, 0) + numbers(1)
    topic = struct.pack(">h", 0) + text("a") + struct.pack(">bi", 0, 1) + partition
    answer = struct.pack(">i", 1) + brokers + struct.pack(">ii", 0, 1) + topic
    assert told_in(Words(answer)) == {("a", 3): (1, [1, 0], [1])}
    with pytest.raises(struct.error):
        told_in(Words(answer[:-1]))


@pytest.mark.parametrize("mechanism", [PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_reader_logs_in_by_hand_and_says_when_it_is_refused(mechanism: str) -> None:
    """Against the product's own server side, which is written by the same documents and shares no line with it."""
    kept = None if mechanism == PLAIN else scram_credential(mechanism, "s3cret", b"salt", 4_096)

    def login(password: str) -> ServerSide:
        side: ServerSide = PlainServer({"reader": "s3cret"})
        if kept is not None:
            side = ScramServer(mechanism, lambda _, user: kept if user == "reader" else None, "of-the-server")

        def ask(api: int, version: int, body: bytes) -> Words:
            if api == outside_reader.SASL_HANDSHAKE:
                assert body[2:] == mechanism.encode()
                return Words(struct.pack(">ihi", 1, 0, 0))
            try:
                token = side.answer(body[4:])
            except SaslRefused:
                return Words(struct.pack(">ihhi", 1, 58, -1, 0))
            return Words(struct.pack(">ihhi", 1, 0, -1, len(token)) + token)

        log_in(ask, {"sasl.mechanism": mechanism, "sasl.username": "reader", "sasl.password": password})
        return side

    assert login("s3cret").user == "reader"
    with pytest.raises(PermissionError, match="refuses the login of reader"):
        login("wr0ng")


# --- patience and trouble -------------------------------------------------------------------------------------


def test_the_reader_waits_for_the_cluster_to_be_whole_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside_reader, "SETTLE_EVERY_S", 0.0)
    looks = [
        CheckLine("isr", failed=1, first=["a-0: in sync [1]"]),
        CheckLine("isr", failed=1),
        CheckLine("isr", compared=1),
    ]
    checks, waited_for = settled(lambda: [looks.pop(0)], settle_s=30)
    assert (exit_code(checks), waited_for) == (0, ["isr: a-0: in sync [1]"])
    checks, _ = settled(lambda: [CheckLine("isr", failed=1)], settle_s=0)
    assert exit_code(checks) == 1


def test_what_cannot_be_looked_at_is_neither_good_nor_failed() -> None:
    def look() -> list[CheckLine]:
        raise OSError("no such file")

    checks = attempt("directories", look)
    assert exit_code(checks) == 2
    assert checks[0].first == ["not read: OSError: no such file"]


def test_only_a_question_without_an_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that moves while its end is asked for gives none; a bad answer stands."""
    monkeypatch.setattr(outside_reader, "SETTLE_EVERY_S", 0.0)
    asked: list[str] = []

    def moving() -> list[CheckLine]:
        asked.append("moving")
        if len(asked) < 3:
            raise KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))
        return [CheckLine("open transactions", compared=1)]

    def bad() -> list[CheckLine]:
        asked.append("bad")
        return [CheckLine("open transactions", failed=1)]

    assert exit_code(attempt("open transactions", moving, within_s=30)) == 0
    assert exit_code(attempt("open transactions", bad, within_s=30)) == 1
    assert asked == ["moving", "moving", "moving", "bad"]
