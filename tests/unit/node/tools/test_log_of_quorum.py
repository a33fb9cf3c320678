"""A quorum's log as a directory for one command, over sockets, from a stand-in that answers from a list of batches."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from migrator.audit.identity import cluster_of_log
from migrator.audit.log_plan import plan_log
from migrator.audit.log_source import CommittedRecords, read_directory
from migrator.findings.finding import FindingError
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.node.observer import log_copy
from migrator.node.tools.log_of_quorum import LOCK, PREFIX, log_of_quorum
from migrator.raft.types import SnapshotId
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import TopicRecord
from migrator.wire.records import encode_record
from tests.support.builders import an_id
from tests.support.fetch_stand_in import EPOCH, a_controller


def a_batch(offset: int, *names: str) -> bytes:
    values = [encode_record(TopicRecord(name=name, topic_id=an_id(name)), 0) for name in names]
    return build_batch(base_offset=offset, leader_epoch=EPOCH, timestamp_ms=0, values=values)


def names_in(directory: Path) -> list[str]:
    return [each.name for each in read_directory(directory, CommittedRecords()) if isinstance(each, TopicRecord)]


def names(addresses: str, cluster_id: str | None = None) -> list[str]:
    with log_of_quorum(addresses, cluster_id, patience_s=0.2) as log:
        return names_in(log.directory)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "FOLLOW_EVERY_S", 0.01)


def test_the_leader_is_found_among_the_addresses_and_read_to_its_end() -> None:
    batches = a_batch(0, "a", "b"), a_batch(2, "c")
    with a_controller(*batches) as leader, a_controller(*batches, leads=False) as follower:
        assert names(f"{follower.address}, {leader.address}") == ["a", "b", "c"]


def test_what_is_not_committed_yet_is_left_out() -> None:
    with a_controller(a_batch(0, "a", "b"), a_batch(2, "c")) as leader:
        leader.high_watermark = 2
        assert names(leader.address) == ["a", "b"]


def test_after_a_lost_connection_it_goes_on_and_repeats_nothing() -> None:
    batches = [a_batch(offset, f"t{offset}") for offset in range(5)]
    with a_controller(*batches, hangs_up_after=4) as leader:
        assert names(leader.address) == [f"t{offset}" for offset in range(5)]


def test_no_leader_is_not_read_and_says_why() -> None:
    with (
        a_controller(a_batch(0, "a"), leads=False) as follower,
        pytest.raises(FindingError, match=r"Z2K-4117.*does not lead"),
    ):
        names(follower.address)


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:1", "127.0.0.1:65536", ":9093", ""])
def test_an_address_that_is_none_or_does_not_answer_is_not_read(address: str) -> None:
    with pytest.raises(FindingError, match="Z2K-4117"):
        names(address)


def test_a_quorum_of_another_cluster_is_refused_and_its_own_is_named_in_the_copy() -> None:
    with a_controller(a_batch(0, "a")) as leader:
        leader.cluster_id = "ours"
        with pytest.raises(FindingError, match=r"Z2K-4117.*another cluster than theirs"):
            names(leader.address, "theirs")
        with log_of_quorum(leader.address, "ours") as log:
            assert cluster_of_log(str(log.directory)) == "ours"
        with log_of_quorum(leader.address, None) as log:
            assert cluster_of_log(str(log.directory)) is None


def test_a_log_that_begins_with_a_snapshot_is_read_from_there(tmp_path: Path) -> None:
    """It was refused: nobody could audit a quorum that had trimmed its log but on a controller's own host."""
    snapshot = SnapshotId(7, EPOCH)
    files = SnapshotFiles(tmp_path)
    files.write(snapshot, [encode_record(TopicRecord(name=name, topic_id=an_id(name)), 0) for name in ("a", "b")], 0)
    content = files.path(snapshot).read_bytes()
    with a_controller(a_batch(7, "c")) as leader:
        leader.snapshot = snapshot, content
        assert names(leader.address) == ["a", "b", "c"]


def test_a_snapshot_that_says_all_that_is_committed_is_a_whole_log(tmp_path: Path) -> None:
    """Seen in 2 of 24 audits of a busy cluster: a copy without any segment was "no metadata log"."""
    files = SnapshotFiles(tmp_path)
    snapshot = SnapshotId(7, EPOCH)
    files.write(snapshot, [encode_record(TopicRecord(name=name, topic_id=an_id(name)), 0) for name in ("a", "b")], 0)
    with a_controller() as leader:
        leader.snapshot, leader.high_watermark = (snapshot, files.path(snapshot).read_bytes()), 7
        assert names(leader.address) == ["a", "b"]


def test_the_copy_grows_with_the_log_and_confirm_waits_for_it(tmp_path: Path) -> None:
    with a_controller(a_batch(0, "a", "b")) as leader, log_of_quorum(leader.address, None, within=tmp_path) as log:
        assert plan_log(log.directory).offset == 1
        leader.batches.append(a_batch(2, "c"))
        leader.high_watermark = 3
        log.confirm()
        assert names_in(log.directory) == ["a", "b", "c"]
    assert list(tmp_path.iterdir()) == [], "it may hold secrets"


def test_a_log_that_grows_with_every_answer_is_read_up_to_where_it_began() -> None:
    """A busy cluster commits faster than it is read: this reading once had no end."""
    batches = [a_batch(number, f"t{number}") for number in range(50)]
    with a_controller(*batches) as leader:
        leader.high_watermark = 3

        def grow() -> None:
            time.sleep(0.01)
            leader.high_watermark = min(50, leader.high_watermark + 1)

        leader.before_answer = grow
        with log_of_quorum(leader.address, None) as log:
            assert 2 <= plan_log(log.directory).offset < 20


def test_what_a_killed_command_left_is_swept_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    """It may hold secrets in clear."""
    left = tmp_path / f"{PREFIX}of-a-killed-one"
    left.mkdir()
    for name in (LOCK, "0.log"):
        (left / name).write_text("a password")
    with a_controller(a_batch(0, "a")) as leader, log_of_quorum(leader.address, None, within=tmp_path) as lives:
        assert not left.exists()
        with a_controller(a_batch(0, "a")) as other, log_of_quorum(other.address, None, within=tmp_path):
            assert lives.directory.exists()


def test_a_leader_that_does_not_know_yet_what_is_committed_confirms_nothing() -> None:
    """Stock answers -1 right after its election; an empty copy was whole by that."""
    with a_controller(a_batch(0, "a")) as leader:
        leader.high_watermark = -1
        with pytest.raises(FindingError, match=r"Z2K-4117.*just been elected"):
            names(leader.address)
