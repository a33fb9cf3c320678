"""Which records of a directory count: transactions, torn ends, gaps, snapshots."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.audit import run
from migrator.audit.log_plan import TRIMMED_MEANWHILE, LogPlan, plan_log, read_split
from migrator.audit.log_source import CommittedRecords, Dropped, Marker, dropped_ranges, read_directory
from migrator.audit.log_states import LogStates
from migrator.findings.finding import FindingError
from migrator.wire.batch import build_batch, build_control_batch, read_batch
from migrator.wire.messages.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from migrator.wire.messages.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    PartitionRecord,
    TopicRecord,
)
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from tests.support.builders import an_id

BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=an_id(name))


def batch_of(offset: int, *records: Message) -> bytes:
    values = [encode_record(record, 0) for record in records]
    return build_batch(base_offset=offset, leader_epoch=3, timestamp_ms=0, values=values)


def log_of(directory: Path, batches: Sequence[Sequence[Message]], base: int = 0) -> Path:
    """One segment; returns its file."""
    directory.mkdir(exist_ok=True)
    path = directory / f"{base:020d}.log"
    offset, data = base, b""
    for records in batches:
        data += batch_of(offset, *records)
        offset += len(records)
    path.write_bytes(data)
    return path


def names_in(directory: Path) -> list[str]:
    return [each.name for each in read_directory(directory, CommittedRecords()) if isinstance(each, TopicRecord)]


# --- transactions -----------------------------------------------------------------------------------------


def test_a_transaction_that_spans_batches_counts_from_its_end_on(tmp_path: Path) -> None:
    records = CommittedRecords()
    assert list(records.take(read_batch(batch_of(0, topic("a"), BEGIN, topic("b"))))) == [topic("a")]
    assert list(records.take(read_batch(batch_of(3, topic("c"))))) == []
    assert list(records.take(read_batch(batch_of(4, topic("d"), END, topic("e"))))) == [
        topic("b"), topic("c"), topic("d"), topic("e"),
    ]  # fmt: skip
    assert (records.offset, records.epoch) == (6, 3)


def test_an_aborted_transaction_and_one_that_has_no_end_yet_leave_nothing(tmp_path: Path) -> None:
    log_of(tmp_path, [[topic("a"), BEGIN], [topic("b")], [ABORT, topic("c")], [BEGIN, topic("d")]])
    assert names_in(tmp_path) == ["a", "c"]


@pytest.mark.parametrize("records", [[END], [ABORT], [BEGIN, topic("a"), BEGIN]])
def test_markers_out_of_turn_are_a_finding(records: list[Message], tmp_path: Path) -> None:
    log_of(tmp_path, [records])
    with pytest.raises(FindingError, match="Z2K-5002"):
        names_in(tmp_path)
    markers = [Marker(at, type(each).__name__) for at, each in enumerate(records) if not isinstance(each, TopicRecord)]
    with pytest.raises(FindingError, match="Z2K-5002"):
        dropped_ranges(markers)


def test_dropped_ranges_hold_aborted_transactions_and_the_open_one() -> None:
    markers = [
        *(Marker(2, "BeginTransactionRecord"), Marker(5, "AbortTransactionRecord")),
        *(Marker(6, "BeginTransactionRecord"), Marker(9, "EndTransactionRecord")),
        Marker(12, "BeginTransactionRecord"),
    ]
    assert dropped_ranges(reversed(markers)) == [Dropped(2, 5), Dropped(12, None)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["record", "record", "begin", "end", "abort"]), max_size=30), st.data())
def test_dropped_ranges_leave_the_records_that_going_through_the_log_yields(
    words: list[str], data: st.DataObject
) -> None:
    records = history_of(words)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(records) - 1)), max_size=4)))
    pieces = [records[low:high] for low, high in zip([0, *cuts], [*cuts, len(records)], strict=True)]
    committed, offset = CommittedRecords(), 0
    yielded: list[Message] = []
    for piece in filter(None, pieces):
        yielded += committed.take(read_batch(batch_of(offset, *piece)))
        offset += len(piece)
    marked = [Marker(at, type(each).__name__) for at, each in enumerate(records) if not isinstance(each, TopicRecord)]
    dropped = dropped_ranges(marked)
    kept = [
        each
        for at, each in enumerate(records)
        if isinstance(each, TopicRecord)
        and not any(low <= at and (high is None or at <= high) for low, high in dropped)
    ]
    assert kept == yielded


def history_of(words: list[str]) -> list[Message]:
    """The words with markers only where they may be."""
    records: list[Message] = []
    is_open = False
    for word in words:
        if word == "record":
            records.append(topic(f"t{len(records)}"))
        elif (word == "begin") != is_open:
            records.append({"begin": BEGIN, "end": END, "abort": ABORT}[word])
            is_open = word == "begin"
    return records


# --- files ------------------------------------------------------------------------------------------------


def test_a_torn_batch_at_the_very_end_is_a_writer_at_work(tmp_path: Path) -> None:
    segment = log_of(tmp_path, [[topic("a")], [topic("b")]])
    segment.write_bytes(segment.read_bytes()[:-3])
    assert names_in(tmp_path) == ["a"]
    assert plan_log(tmp_path).offset == 0


def test_a_torn_batch_with_a_segment_behind_it_is_not_read_and_named(tmp_path: Path) -> None:
    segment = log_of(tmp_path, [[topic("a")], [topic("b")]])
    log_of(tmp_path, [[topic("c")]], base=2)
    segment.write_bytes(segment.read_bytes()[:-3])
    with pytest.raises(FindingError, match=f"Z2K-5001.*{segment.name}.*ends? inside"):
        names_in(tmp_path)


def test_a_batch_with_a_wrong_checksum_is_not_read_and_named(tmp_path: Path) -> None:
    segment = log_of(tmp_path, [[topic("a")], [topic("b")]])
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data)
    with pytest.raises(FindingError, match=f"Z2K-5001.*{segment.name}.*checksum"):
        names_in(tmp_path)


def test_a_missing_segment_is_not_read_and_named(tmp_path: Path) -> None:
    log_of(tmp_path, [[topic("a")]])
    last = log_of(tmp_path, [[topic("c")]], base=2)
    with pytest.raises(FindingError, match=f"Z2K-5001.*{last.name}.*offset 2 follows 0"):
        names_in(tmp_path)


@pytest.mark.parametrize("times", [1, 2, 99])
def test_a_directory_that_loses_a_file_while_it_is_read_is_planned_again(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a controller that runs trims its log; one whose file stays away is not read, and named."""
    segment = log_of(tmp_path, [[topic("a")]])
    gone, planned = str(tmp_path / "trimmed.log"), 0

    def plan_of_a_file_that_goes(path: Path, *, since: int | None, beside: bool) -> LogPlan:
        nonlocal planned
        plan, planned = plan_log(path, since=since, beside=beside), planned + 1
        return LogPlan([msgspec.structs.replace(plan.splits[0], file=gone)], 0, 0, 1) if planned <= times else plan

    monkeypatch.setattr(run, "plan_log", plan_of_a_file_that_goes)
    if times == 99:
        with pytest.raises(FindingError, match=r"Z2K-5001.*trimmed\.log"):
            run.read_log(str(tmp_path) + "/")
        assert planned == TRIMMED_MEANWHILE + 1
    else:
        _, at = run.read_log(str(tmp_path) + "/")
        assert at.offset == 0
        assert planned == times + 1
    assert segment.exists()


def partition(name: str, number: int, epoch: int) -> PartitionRecord:
    return PartitionRecord(number, an_id(name), (1, 2), (1, 2), leader=1, leader_epoch=epoch, partition_epoch=epoch)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_partitions_that_are_known_by_their_bytes_are_what_they_are_one_by_one(data: st.DataObject) -> None:
    """In transactions that end, are aborted or stay open, and behind the offset from which states are kept."""
    batches: list[list[Message]] = [[topic("a"), topic("b")]]
    is_open = False
    for _ in range(data.draw(st.integers(1, 8))):
        records: list[Message] = []
        for _ in range(data.draw(st.integers(1, 5))):
            if data.draw(st.integers(0, 5)):
                number, epoch = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 2))
                records.append(partition(data.draw(st.sampled_from("ab")), number, epoch))
            else:
                records.append(data.draw(st.sampled_from([END, ABORT])) if is_open else BEGIN)
                is_open = not is_open
        batches.append(records)
    low = data.draw(st.integers(-1, 30))
    with tempfile.TemporaryDirectory() as name:
        log_of(Path(name), batches)
        states, _ = run.read_log(name, low)
        records_read, one_by_one = CommittedRecords(), LogStates(low)
        for record in read_directory(Path(name), records_read):
            one_by_one.take(records_read.at, record)
    assert list(states.facts.rows()) == list(one_by_one.facts.rows())
    assert list(states.changed()) == list(one_by_one.changed())
    assert all(states.of(key) == one_by_one.of(key) for key in states.changed())


@pytest.mark.parametrize("end", [ABORT, END, NoOpRecord()], ids=["aborted", "ended", "open"])
def test_a_partition_that_no_controller_decodes_is_not_read_in_any_transaction(end: Message, tmp_path: Path) -> None:
    """A controller reads what is in a transaction before it knows how that ends."""
    values = [encode_record(each, 0) for each in (topic("a"), partition("a", 0, 0), BEGIN)]
    spoiled = encode_record(partition("a", 1, 0), 0)[:-3]
    data = build_batch(base_offset=0, leader_epoch=3, timestamp_ms=0, values=[*values, spoiled, encode_record(end, 0)])
    (tmp_path / f"{0:020d}.log").write_bytes(data)
    with pytest.raises(FindingError, match=r"Z2K-5001.*offset 3"):
        run.read_log(str(tmp_path))


def test_a_directory_without_a_log_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(FindingError, match="Z2K-5001"):
        names_in(tmp_path)


def test_a_record_of_an_unknown_type_is_not_read_and_its_offset_is_named(tmp_path: Path) -> None:
    data = build_batch(base_offset=0, leader_epoch=3, timestamp_ms=0, values=[b"\x01\x7f\x00"])
    (tmp_path / f"{0:020d}.log").write_bytes(data)
    with pytest.raises(FindingError, match=r"Z2K-5001.*offset 0"):
        names_in(tmp_path)


def test_splits_end_between_batches_and_hold_the_whole_log(tmp_path: Path) -> None:
    log_of(tmp_path, [[topic(f"t{number}"), NoOpRecord()] for number in range(50)])
    log_of(tmp_path, [[topic("last")]], base=100)
    plan = plan_log(tmp_path, split_bytes=500)
    assert len(plan.splits) > 5
    assert max(split.end - split.start for split in plan.splits) <= 500
    offsets = [batch.base_offset for split in plan.splits for batch in read_split(split)]
    assert offsets == [*range(0, 100, 2), 100]
    assert (plan.offset, plan.epoch, plan.records) == (100, 3, 101)


def test_a_file_that_became_shorter_after_it_was_planned_is_not_read(tmp_path: Path) -> None:
    segment = log_of(tmp_path, [[topic("a")]])
    (split,) = plan_log(tmp_path).splits
    segment.write_bytes(segment.read_bytes()[:-1])
    with pytest.raises(FindingError, match=r"Z2K-5001.*shorter"):
        list(read_split(split))


# --- snapshots --------------------------------------------------------------------------------------------


def snapshot_of(directory: Path, end_offset: int, *records: Message, footer: bool = True) -> None:
    """A snapshot of everything before `end_offset`."""
    head = build_control_batch(base_offset=0, leader_epoch=2, timestamp_ms=0, records=[SnapshotHeaderRecord()])
    body = batch_of(1, *records)
    tail = build_control_batch(
        base_offset=1 + len(records), leader_epoch=2, timestamp_ms=0, records=[SnapshotFooterRecord()]
    )
    path = directory / f"{end_offset:020d}-{2:010d}.checkpoint"
    path.write_bytes(head + body + (tail if footer else b""))


def test_a_snapshot_that_ends_inside_a_batch_is_compared_with_the_log_up_to_there(tmp_path: Path) -> None:
    log_of(tmp_path, [[topic("a"), topic("b"), topic("c")], [topic("d")]])
    snapshot_of(tmp_path, 2, topic("a"), topic("b"))
    states, _ = run.read_log(str(tmp_path))
    assert states.other_in_snapshot == []
    assert states.facts.topics() == ["a", "b", "c", "d"]
    snapshot_of(tmp_path, 2, topic("a"))
    states, _ = run.read_log(str(tmp_path))
    assert [each.key for each in states.other_in_snapshot] == ["b"]


def test_a_log_that_begins_later_begins_with_its_newest_snapshot(tmp_path: Path) -> None:
    log_of(tmp_path, [[topic("old")], [topic("c")], [topic("d")]], base=9)
    snapshot_of(tmp_path, 5, topic("older"))
    snapshot_of(tmp_path, 10, topic("a"), topic("b"))
    records = CommittedRecords()
    found = [each.name for each in read_directory(tmp_path, records) if isinstance(each, TopicRecord)]
    assert found == ["a", "b", "c", "d"]
    assert (records.offset, records.epoch) == (11, 3)


def test_a_snapshot_alone_says_where_it_ends(tmp_path: Path) -> None:
    (tmp_path / f"{10:020d}.log").write_bytes(b"")
    snapshot_of(tmp_path, 10, topic("a"))
    plan = plan_log(tmp_path)
    assert (plan.offset, plan.epoch) == (9, 2)
    assert [split.snapshot_offset for split in plan.splits] == [9]


def test_a_log_from_its_beginning_needs_no_snapshot(tmp_path: Path) -> None:
    log_of(tmp_path, [[topic("a")], [topic("b")]])
    snapshot_of(tmp_path, 1, topic("not this one"))
    assert names_in(tmp_path) == ["a", "b"]


def test_a_log_that_begins_later_without_a_snapshot_is_not_read(tmp_path: Path) -> None:
    log_of(tmp_path, [[topic("c")]], base=10)
    with pytest.raises(FindingError, match=r"Z2K-5001.*no snapshot"):
        names_in(tmp_path)


def test_a_snapshot_that_does_not_reach_the_log_is_not_read(tmp_path: Path) -> None:
    log_of(tmp_path, [[topic("c")]], base=10)
    snapshot_of(tmp_path, 8, topic("a"))
    with pytest.raises(FindingError, match=r"Z2K-5001.*offset 10 follows 7"):
        names_in(tmp_path)


def test_a_snapshot_without_its_footer_is_not_whole(tmp_path: Path) -> None:
    log_of(tmp_path, [[topic("c")]], base=10)
    snapshot_of(tmp_path, 10, topic("a"), footer=False)
    with pytest.raises(FindingError, match=r"Z2K-5001.*footer"):
        names_in(tmp_path)
