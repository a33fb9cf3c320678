"""Segments in tiered storage now against a kept report: what may have become of them, and what may not (R-405-07).

The segments before are those of a real broker (tests/support/tiered); what came later is written behind them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api import cli
from migrator.audit.tiered.against import RemoteChange, RemoteComparison, compare_with, may_become
from migrator.audit.tiered.segments import RemoteReport, check_remote_segments
from migrator.audit.tiered.topic_ids import sides_of, topics_of_log
from migrator.findings.finding import FindingError
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import RemoveTopicRecord, TopicRecord
from migrator.wire.messages.remote_log import RemoteRecord
from migrator.wire.primitives import uuid_bytes
from migrator.wire.records import encode_record
from tests.unit.audit.test_remote_segments import AGAIN, BIG, GONE, REAL, became, copy, finished, value_of

PLAIN, ONE, ORDERS = "X159B-84RfezBpifkCTLug", "uNa88z3nRU2sIEz49HjBhA", "AAECAwQFBgcICQoLDA0ODw"
NAMES = {BIG: "t-big", AGAIN: "t-del", ONE: "t-one", PLAIN: "t-plain"}
FIRST: list[RemoteRecord] = [*finished(1, 0, 9), copy(2, 10, 19), *finished(3, 10, 19)]


def log_of(records: Sequence[RemoteRecord], directory: Path) -> Path:
    place = directory / "__remote_log_metadata-0"
    place.mkdir(parents=True, exist_ok=True)
    values = list(map(value_of, records))
    batch = build_batch(base_offset=0, leader_epoch=0, timestamp_ms=0, values=values)
    (place / f"{0:020d}.log").write_bytes(batch)
    return directory


def kept(report: RemoteReport, directory: Path) -> Path:
    file = directory / "before.json"
    file.write_bytes(msgspec.json.encode(report))
    return file


def compared(
    records: Sequence[RemoteRecord], directory: Path, names: dict[str, str] | None = None, before: Any = FIRST
) -> RemoteComparison:
    """FIRST, or `before`, and then these records. names: of topics by id as ZooKeeper has them afterwards."""
    file = kept(check_remote_segments([log_of(before, directory / "then")]), directory)
    sides = {} if names is None else {"ZooKeeper": names}
    return compare_with(file, check_remote_segments([log_of(records, directory / "now")], sides))


def test_what_a_real_broker_says_is_equal_to_itself(tmp_path: Path) -> None:
    report = check_remote_segments([REAL])
    found = compare_with(kept(report, tmp_path), report)
    assert (found.exit_code, found.compared, found.differences) == (0, 160, [])
    assert sum(each.same for each in found.partitions) == 160


def test_segments_may_go_on_and_new_ones_may_come(tmp_path: Path) -> None:
    later = [*FIRST, became(2, 2), became(2, 3), became(1, 2), *finished(4, 20, 29), copy(5, 30, 39)]
    found = compared(later, tmp_path)
    (one,) = found.partitions
    assert (found.exit_code, found.compared) == (0, 3)
    assert (one.same, one.went_on, one.deleted, one.new) == (1, 2, 2, 2)


@pytest.mark.parametrize(
    ("records", "kind", "segment", "before", "after"),
    [
        ([*FIRST[:2], *FIRST[3:], copy(9, 20, 29)], RemoteChange.LOST, 2, "COPY_SEGMENT_STARTED", ""),
        ([*finished(1, 0, 8), *FIRST[2:]], RemoteChange.CHANGED, 1, "9", "8"),
        ([*finished(1, 0, 9, epoch=3), *FIRST[2:]], RemoteChange.CHANGED, 1, "((0, 0),)", "((3, 0),)"),
        ([copy(1, 0, 9), *FIRST[2:], *finished(4, 0, 9)], RemoteChange.GONE_BACK, 1, *("",) * 2),
    ],
)
def test_each_way_in_which_a_segment_may_not_change_is_named(
    records: list[RemoteRecord], kind: RemoteChange, segment: int, before: str, after: str, tmp_path: Path
) -> None:
    found = compared(records, tmp_path)
    one = next(each for each in found.differences if each.kind is not RemoteChange.DOES_NOT_FIT)
    assert (found.exit_code, one.kind, uuid_bytes(one.segment)) == (1, kind, bytes([segment]) * 16)
    if kind is not RemoteChange.GONE_BACK:
        assert (one.before, one.after) == (before, after)
    else:
        assert (one.before, one.after) == ("COPY_SEGMENT_FINISHED", "COPY_SEGMENT_STARTED")


def test_a_conflict_that_was_not_there_is_a_difference_and_an_old_one_is_none(tmp_path: Path) -> None:
    conflict = [*FIRST, *finished(4, 5, 14, epoch=7)]
    found = compared(conflict, tmp_path)
    assert {each.kind for each in found.differences} == {RemoteChange.DOES_NOT_FIT}
    assert all("other leader epochs" in each.what for each in found.differences)
    assert compared(conflict, tmp_path, before=conflict).exit_code == 0


def test_a_segment_under_another_topic_id_was_moved(tmp_path: Path) -> None:
    report = check_remote_segments([REAL])
    moved = [
        msgspec.structs.replace(each, topic_id=ORDERS if each.topic_id == ONE else each.topic_id)
        for each in report.partitions
    ]
    found = compare_with(kept(report, tmp_path), msgspec.structs.replace(report, partitions=moved))
    assert {(each.kind, each.topic, each.after) for each in found.differences} == {
        (RemoteChange.MOVED, "t-one", f"{ORDERS} 0")
    }
    assert len(found.differences) == 8


def test_a_topic_that_lost_its_id_differs_until_each_of_its_segments_is_being_deleted(tmp_path: Path) -> None:
    """A deletion by somebody looks the same at first: brokers delete segment after segment."""
    made_again = {BIG: "orders"}
    left = compared(FIRST, tmp_path, names=made_again)
    (one,) = left.differences
    assert (one.kind, one.before, one.after, one.count) == (RemoteChange.TOPIC_ID, ORDERS, "", 3)
    begun = [*FIRST, became(1, 2), became(2, 2), became(3, 2)]
    assert compared(begun, tmp_path, names=made_again).exit_code == 0
    assert compared(FIRST, tmp_path, names={ORDERS: "orders"}).exit_code == 0


def test_no_state_leads_back() -> None:
    states = ["COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"]
    for number, one in enumerate(states):
        assert [each for each in states if may_become(one, each)] == states[number:]


# --- what cannot be compared -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "{}", '{"records": 1}', "[1]", '{"records":0,"partitions":[],"deleting":[]}'])
def test_a_file_that_is_no_such_report_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "before.json"
    file.write_text(text)
    with pytest.raises(FindingError, match=r"Z2K-5012.*before\.json"):
        compare_with(file, check_remote_segments([REAL]))


def test_a_copy_that_lacks_a_partition_or_ends_earlier_is_not_compared(tmp_path: Path) -> None:
    """Its segments would look as if they were lost."""
    whole = check_remote_segments([REAL])
    file = kept(whole, tmp_path)
    with pytest.raises(FindingError, match=r"Z2K-5012.*partition 2 .*no copy"):
        compare_with(file, check_remote_segments([REAL / f"__remote_log_metadata-{each}" for each in (0, 1)]))
    shutil.copytree(REAL, tmp_path / "copy")
    (log,) = (tmp_path / "copy/__remote_log_metadata-1").glob("*.log")
    log.write_bytes(log.read_bytes()[:-10])
    with pytest.raises(FindingError, match=r"Z2K-5012.*offsets of partition 1"):
        compare_with(file, check_remote_segments([tmp_path / "copy"]))


def test_two_copies_of_one_partition_are_not_added_up(tmp_path: Path) -> None:
    shutil.copytree(REAL, tmp_path / "copy")
    with pytest.raises(FindingError, match=r"Z2K-5001.*is the same partition"):
        check_remote_segments([REAL, tmp_path / "copy"])


# --- topic ids of both sides -------------------------------------------------------------------------------


def metadata_log(records: Sequence[Any], directory: Path) -> Path:
    place = directory / "__cluster_metadata-0"
    place.mkdir(parents=True)
    values = [encode_record(each, 0) for each in records]
    (place / f"{0:020d}.log").write_bytes(build_batch(base_offset=0, leader_epoch=1, timestamp_ms=0, values=values))
    return directory


def test_ids_of_a_metadata_log_are_those_of_topics_that_are_left(tmp_path: Path) -> None:
    records = [
        *(TopicRecord(name, uuid_bytes(each)) for each, name in NAMES.items()),
        TopicRecord("x", uuid_bytes(GONE)),
    ]
    log = metadata_log([*records, RemoveTopicRecord(uuid_bytes(GONE))], tmp_path)
    assert topics_of_log(log) == NAMES
    found = check_remote_segments([REAL], sides_of(None, log))
    assert (found.exit_code, found.deleting) == (0, []), "the old id of t-del has no segment left"


def test_an_id_that_one_side_lacks_is_a_problem_and_one_that_both_lack_is_a_deletion() -> None:
    """R-405-02, both sides: in dual-write ZooKeeper and the log are asked."""
    lacks = {key: each for key, each in NAMES.items() if key != ONE}
    found = check_remote_segments([REAL], {"ZooKeeper": lacks, "the metadata log": NAMES})
    assert [each.problems for each in found.partitions if each.problems] == [
        [f"ZooKeeper has no topic id {ONE}, which the other side has"]
    ]
    both = check_remote_segments([REAL], {"ZooKeeper": lacks, "the metadata log": lacks})
    assert (both.exit_code, both.deleting) == (0, [f"t-one-0 (id {ONE})"])


# --- the command -------------------------------------------------------------------------------------------


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.app(["log", "tiered", *words])
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def test_the_command_keeps_a_report_and_compares_with_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = log_of(FIRST, tmp_path / "log")
    code, said, _ = ran(capsys, str(log), "--json")
    assert code == 0
    file = tmp_path / "before.json"
    file.write_text(said)
    log_of([*FIRST, became(2, 2), *finished(4, 20, 29)], tmp_path / "log")
    code, said, _ = ran(capsys, str(log), "--against", str(file))
    assert code == 0
    assert said.splitlines() == [
        f"orders-3 (id {ORDERS}): 2 as before, 1 went on (1 of them to their deletion), 1 new",
        "3 segments before: all of them are there",
    ]
    log_of([*FIRST[2:], *finished(4, 0, 9)], tmp_path / "log")
    code, said, _ = ran(capsys, str(log), "--against", str(file))
    assert code == 1
    assert (
        f"DIFFERS: orders-3 (id {ORDERS}): segment AQEBAQEBAQEBAQEBAQEBAQ is lost; it was COPY_SEGMENT_FINISHED" in said
    )
    code, said, _ = ran(capsys, str(log), "--against", str(file), "--json")
    assert (code, [each["kind"] for each in json.loads(said)["differences"]]) == (1, ["lost"])


def test_what_cannot_be_read_is_exit_code_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert ran(capsys, str(tmp_path))[0] == 2
    code, said, error = ran(capsys, str(REAL), "--against", str(tmp_path / "nothing.json"))
    assert (code, said) == (2, "")
    assert "Z2K-5012" in error
    code, _, error = ran(capsys, str(REAL), "--kraft", str(tmp_path))
    assert (code, "Z2K-5001" in error) == (2, True)
