"""`__remote_log_metadata` decoded and added up (R-405-01, 02, 03, 06): a real broker's with known answers, and made up.

tests/support/tiered: raw segments that Kafka 3.9.2 wrote, with a kill -9 inside a copy, leader changes, a topic that
was deleted and made again, and deletions by retention. tests/e2e/test_remote_log.py lets Kafka's own tool read them.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from api import cli
from api.commands.tiered import _time_text
from migrator.audit.tiered import topic_ids
from migrator.audit.tiered.reader import read_remote_log
from migrator.audit.tiered.segments import RemotePartition, check_remote_segments
from migrator.audit.tiered.topic_ids import topics_by_id
from migrator.findings.finding import FindingError
from migrator.wire.batch import build_batch
from migrator.wire.codec import encode
from migrator.wire.messages.remote_log import (
    REMOTE_RECORDS,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    RemoteRecord,
    RemoteSegmentId,
    RemoteTopicPartition,
    SegmentLeaderEpoch,
    decode_remote_record,
)
from migrator.wire.primitives import encode_uvarint
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree

REAL = Path(__file__).parents[2] / "support/tiered"
BIG, GONE, AGAIN = "GIzPedMhSZWRsyfZqq_q0A", "T17SsJWwQzuNV9wTRhJcOQ", "oBXG9dbBRTW95_Zshw_Ddw"
FIRST_VALUE = bytes.fromhex(
    "01000008742d706c61696e5f5e7d07ef3845f7b306989f9024cbba0000000100110e33fcfacc41e0b5d5c544fe6a0b79000000000000000000"
    "000000000000001100000002000001a2265d2b2b000001a2265d2db9020000000000000000000000000000004860000000"
)
PLACE = RemoteTopicPartition("orders", bytes(range(16)), 3)


def value_of(record: RemoteRecord) -> bytes:
    (kind,) = [key for key, each in REMOTE_RECORDS.items() if isinstance(record, each)]
    return b"".join(map(encode_uvarint, (1, kind, 0))) + encode(record, 0)


def an_id(number: int) -> RemoteSegmentId:
    return RemoteSegmentId(PLACE, bytes([number]) * 16)


def copy(number: int, start: int, end: int, epoch: int = 0, state: int = 0) -> RemoteLogSegmentMetadataRecord:
    epochs = (SegmentLeaderEpoch(epoch, start),)
    return RemoteLogSegmentMetadataRecord(
        an_id(number), start, end, 1, event_timestamp_ms=7, segment_leader_epochs=epochs, state=state
    )


def became(number: int, state: int) -> RemoteLogSegmentMetadataUpdateRecord:
    return RemoteLogSegmentMetadataUpdateRecord(an_id(number), 1, 8, state=state)


def finished(number: int, start: int, end: int, epoch: int = 0) -> list[RemoteRecord]:
    return [copy(number, start, end, epoch), became(number, 1)]


def checked(records: Sequence[RemoteRecord], directory: Path) -> RemotePartition:
    place = directory / "__remote_log_metadata-0"
    place.mkdir(exist_ok=True)
    values = list(map(value_of, records))
    (place / f"{0:020d}.log").write_bytes(build_batch(base_offset=0, leader_epoch=0, timestamp_ms=0, values=values))
    (found,) = check_remote_segments([directory]).partitions
    return found


def test_a_real_broker_s_segments_are_what_is_known_of_them() -> None:
    found = check_remote_segments([REAL])
    by_id = {(each.topic, each.topic_id, each.partition): each for each in found.partitions}
    started, done, deleted = "COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_FINISHED"
    assert {(topic, number): each.states for (topic, _, number), each in by_id.items() if topic != "t-del"} == {
        ("t-big", 0): {done: 13, started: 1},
        ("t-one", 0): {done: 1, deleted: 7},
        ("t-plain", 0): {done: 55},
        ("t-plain", 1): {done: 66},
    }
    assert (by_id["t-del", GONE, 0].states, by_id["t-del", AGAIN, 0].states) == ({deleted: 14}, {done: 3})
    big = by_id["t-big", BIG, 0]
    assert [(each.why, each.start, each.end, each.broker) for each in big.waiting] == [
        ("its copy was begun and never finished", 0, 298, 2)
    ]
    assert [each.overlaps for each in found.partitions] == [1, 0, 0, 0, 0, 0]
    assert (found.records, found.exit_code, [each.problems for each in found.partitions]) == (361, 0, [[]] * 6)
    plain = by_id["t-plain", "X159B-84RfezBpifkCTLug", 0]
    assert (plain.first, plain.last) == (0, 986), "the broker answers the same for the latest tiered offset"


def test_a_topic_that_is_deleted_is_named_until_its_last_segment_is_deleted() -> None:
    """R-405-02, R-405-06. 3.9.2 writes no record for the partition as a whole."""
    topics = {BIG: "t-big", AGAIN: "t-del", "uNa88z3nRU2sIEz49HjBhA": "t-one"}
    found = check_remote_segments([REAL], {"ZooKeeper": topics})
    assert found.deleting == ["t-plain-0 (id X159B-84RfezBpifkCTLug)", "t-plain-1 (id X159B-84RfezBpifkCTLug)"]
    assert found.exit_code == 0
    other = check_remote_segments([REAL], {"ZooKeeper": {**topics, BIG: "renamed"}})
    assert other.exit_code == 1
    assert [each.problems for each in other.partitions if each.problems] == [
        [f"ZooKeeper calls topic id {BIG} renamed"]
    ]


@pytest.mark.parametrize(
    ("records", "problems"),
    [
        ([*finished(1, 0, 9), *finished(2, 10, 19)], []),
        ([*finished(1, 0, 9), *finished(2, 12, 19)], ["no finished segment has the offsets 10 to 11"]),
        ([*finished(1, 0, 9), copy(2, 10, 19), *finished(3, 20, 29)], ["no finished segment has the offsets 10 to 19"]),
        ([*finished(1, 0, 9), *finished(2, 5, 14)], []),
        ([*finished(1, 0, 9), *finished(2, 5, 14, epoch=4)], ["have offset 5 of other leader epochs"]),
        ([copy(1, 0, 9), *finished(2, 0, 9, epoch=4)], []),
        ([became(1, 1)], ["COPY_SEGMENT_FINISHED follows nothing"]),
        ([copy(1, 0, 9, state=1)], ["COPY_SEGMENT_FINISHED follows nothing"]),
        ([copy(1, 0, 9), became(1, 3)], ["DELETE_SEGMENT_FINISHED follows COPY_SEGMENT_STARTED"]),
        ([*finished(1, 0, 9), became(1, 2), became(1, 1)], ["COPY_SEGMENT_FINISHED follows DELETE_SEGMENT_STARTED"]),
        ([*finished(1, 0, 9), became(1, 1), became(1, 2), became(1, 2), became(1, 3)], []),
        ([copy(1, 0, 9), became(1, 9)], ["has state 9, which Kafka does not have"]),
    ],
)
def test_what_does_not_fit_is_named_and_what_is_legal_is_not(
    records: list[RemoteRecord], problems: list[str], tmp_path: Path
) -> None:
    found = checked(records, tmp_path).problems
    assert len(found) == len(problems), found
    assert all(said in text for said, text in zip(problems, found, strict=True))


def test_a_deletion_that_never_ended_is_named_beside_copies_that_did_not(tmp_path: Path) -> None:
    found = checked([*finished(1, 0, 9), became(1, 2), copy(2, 10, 19)], tmp_path)
    assert [each.why for each in found.waiting] == [
        "its deletion was begun and never finished",
        "its copy was begun and never finished",
    ]


def test_a_partition_that_is_marked_for_deletion_as_a_whole_is_known_without_segments(tmp_path: Path) -> None:
    """Kafka 3.9 never writes it; others may."""
    assert checked([RemotePartitionDeleteMetadataRecord(PLACE, 1, 7, 1)], tmp_path).states == {}


def test_an_overlap_that_is_a_conflict_is_no_legal_one(tmp_path: Path) -> None:
    found = checked([*finished(1, 0, 9), *finished(2, 5, 14, epoch=4), *finished(3, 10, 14, epoch=4)], tmp_path)
    assert (found.overlaps, len(found.problems)) == (1, 1)


def test_a_topic_that_cannot_be_read_is_none_that_was_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = FakeEnsemble()
    SeededTree(topics=2, partitions=1).plant(ensemble)
    monkeypatch.setattr(topic_ids, "ZkSession", lambda _: nullcontext(ensemble.session()))
    assert sorted(topics_by_id("zk:2181").values()) == ["t000000", "t000001"]
    ensemble.nodes["/brokers/topics/t000001"].data = b"{"
    with pytest.raises(FindingError, match=r"Z2K-5001.*t000001"):
        topics_by_id("zk:2181")


def test_a_time_that_no_calendar_has_is_shown_as_it_is() -> None:
    assert _time_text(1795940150511) == "2026-11-29T08:15:50+00:00"
    assert _time_text(2**63 - 1) == f"{2**63 - 1} ms"


@pytest.mark.parametrize("kind", sorted(REMOTE_RECORDS))
def test_each_record_is_read_to_its_last_byte(kind: int) -> None:
    record = REMOTE_RECORDS[kind]()
    value = value_of(record)
    assert decode_remote_record(value) == record
    for cut in range(1, len(value)):
        with pytest.raises(FindingError, match="Z2K-3001"):
            decode_remote_record(value[:cut])
    with pytest.raises(FindingError, match="1 bytes are left behind"):
        decode_remote_record(value + b"\0")


def test_the_bytes_that_a_real_broker_wrote() -> None:
    found: Any = decode_remote_record(FIRST_VALUE)
    assert (found.segment.topic_id_partition.name, found.segment.topic_id_partition.partition) == ("t-plain", 1)
    assert (found.start_offset, found.end_offset, found.broker_id, found.segment_size_in_bytes) == (0, 17, 2, 0x4860)
    assert found.segment_leader_epochs == (SegmentLeaderEpoch(0, 0),)
    assert value_of(found) == FIRST_VALUE


@pytest.mark.parametrize("value", [b"", b"\x02\x00\x00", b"\x01\x04\x00", b"\x01\x00\x01", b"\x80"])
def test_a_frame_that_kafka_does_not_know_is_refused(value: bytes) -> None:
    with pytest.raises(FindingError, match="Z2K-3001"):
        decode_remote_record(value)


def test_a_log_that_is_cut_off_ends_there_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    shutil.copytree(REAL, tmp_path / "copy")
    (path,) = (tmp_path / "copy/__remote_log_metadata-1").glob("*.log")
    whole = len(list(read_remote_log(path.parent)))
    data = path.read_bytes()
    path.write_bytes(data[:-10])
    assert 0 < len(list(read_remote_log(path.parent))) < whole
    spoiled = bytearray(data)
    spoiled[len(data) // 2] ^= 1
    path.write_bytes(bytes(spoiled))
    with pytest.raises(FindingError, match=f"Z2K-5001.*{path.name}"):
        list(read_remote_log(path.parent))


@pytest.mark.parametrize("name", ["empty", "nowhere"])
def test_a_directory_without_such_a_log_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FindingError, match=f"Z2K-5001.*{name}"):
        check_remote_segments([tmp_path / name])


def test_the_command_says_it_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.app(["log", "tiered", str(REAL)])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert (
        f"t-big-0 (id {BIG}): 13 COPY_SEGMENT_FINISHED, 1 COPY_SEGMENT_STARTED, offsets 0 to 3886, 1 overlaps" in said
    )
    assert "to clean up: segment bFq2hg30RXS3FGmSwSPtxQ, offsets 0 to 298, 29,921,528 bytes" in said
