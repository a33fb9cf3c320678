"""Snapshots on disk: whole under their name, or not there."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from migrator.controller.removals import REMOVALS_MAX, Removals
from migrator.controller.snapshot import records_of
from migrator.model.diff import diff
from migrator.model.values import Mark
from migrator.node.log.log_replay import read_ahead, read_snapshot
from migrator.node.log.snapshot_files import ROOM_BYTES_MIN, SnapshotFiles
from migrator.raft.types import SnapshotId
from migrator.wire.batch import BATCH_BYTES_MAX, read_batches
from migrator.wire.codec import UnencodableError
from migrator.wire.messages.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from migrator.wire.messages.metadata import NoOpRecord
from migrator.wire.primitives import ZERO_UUID
from migrator.wire.records import encode_record
from tests.support.builders import a_partition, a_topic, an_id, an_image

AT = SnapshotId(1001, 4)
IMAGE = an_image(
    *(a_topic(f"topic-{number}", 7) for number in range(300)), broker_configs={"": {"a": "1"}}, next_producer_id=5000
)
VALUES = [encode_record(record, version) for record, version in records_of(IMAGE)]


def test_a_snapshot_of_our_own_begins_and_ends_as_kafka_wants_and_gives_the_image_again(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path)
    size = files.write(AT, VALUES, 77)
    (found,) = tmp_path.iterdir()
    assert found.name == "00000000000000001001-0000000004.checkpoint"
    assert size == found.stat().st_size == files.size(AT)
    batches = list(read_batches(found.read_bytes()))
    assert isinstance(batches[0].control_records[0], SnapshotHeaderRecord)
    assert isinstance(batches[-1].control_records[0], SnapshotFooterRecord)
    assert [each.base_offset for each in batches] == [0, *range(1, len(VALUES) + 1, 1_000), len(VALUES) + 1]
    assert {each.leader_epoch for each in batches} == {4}
    loader = read_snapshot(found, AT)
    assert loader.image.topics == IMAGE.topics
    assert (loader.image.configs, loader.image.next_producer_id) == (IMAGE.configs, IMAGE.next_producer_id)
    assert (loader.end, loader.settled_end) == (1001, 1001)


def a_disk(monkeypatch: pytest.MonkeyPatch, *free: int, blocks: int = 1_000_000) -> None:
    """free: bytes, at each look; the last one stays."""
    left = list(free)

    def statvfs(_: object) -> SimpleNamespace:
        return SimpleNamespace(f_blocks=blocks, f_frsize=1, f_bavail=left.pop(0) if len(left) > 1 else left[0])

    monkeypatch.setattr(os, "fstatvfs", statvfs)


@pytest.mark.parametrize("free", [(ROOM_BYTES_MIN,), (10 * ROOM_BYTES_MIN, ROOM_BYTES_MIN)])
def test_a_snapshot_takes_no_room_that_the_log_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: tuple[int, ...]
) -> None:
    """A controller that cannot append any more ends; one without a new snapshot goes on."""
    a_disk(monkeypatch, *free)
    with pytest.raises(OSError, match=r"No space left on device: .* have to be left for the log"):
        SnapshotFiles(tmp_path).write(AT, VALUES, 77)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("free", "blocks"), [(2 * ROOM_BYTES_MIN, 1_000_000), (0, 0)])
def test_a_snapshot_is_written_where_there_is_room_or_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, blocks: int
) -> None:
    a_disk(monkeypatch, free, blocks=blocks)
    files = SnapshotFiles(tmp_path)
    files.write(AT, VALUES, 77)
    assert files.stored() == [AT]


def test_another_nodes_snapshot_comes_in_parts_and_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    source = SnapshotFiles(tmp_path / "leader")
    source.directory.mkdir()
    size = source.write(AT, VALUES, 77)
    files = SnapshotFiles(tmp_path / "follower")
    files.directory.mkdir()
    for position in range(0, size, 5_000):
        files.write_part(AT, position, source.read(AT, position, 5_000))
    assert files.stored() == []
    files.freeze(AT)
    assert files.stored() == [AT]
    assert files.path(AT).read_bytes() == source.path(AT).read_bytes()


def test_a_download_that_is_begun_anew_has_nothing_of_the_one_before(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path)
    files.write_part(AT, 0, b"x" * 100)
    files.write_part(AT, 0, b"short")
    files.freeze(AT)
    assert files.path(AT).read_bytes() == b"short"
    files.drop_part(AT)


def test_older_snapshots_are_forgotten_and_the_bootstrap_one_is_not_among_them(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path)
    (tmp_path / "00000000000000000000-0000000000.checkpoint").write_bytes(b"bootstrap")
    for end in (10, 20, 30):
        files.write(SnapshotId(end, 1), [], 0)
    assert files.stored() == [SnapshotId(10, 1), SnapshotId(20, 1), SnapshotId(30, 1)]
    files.forget_before(SnapshotId(20, 1))
    assert files.stored() == [SnapshotId(20, 1), SnapshotId(30, 1)]
    assert len(list(tmp_path.iterdir())) == 3
    assert [each.snapshot for each in files.measured()] == files.stored()


LONGEST_NAME = 249


def test_a_snapshot_remembers_what_the_log_took_away_and_its_image_does_not(tmp_path: Path) -> None:
    """A broker that was away since before it may return with these logs."""
    before = an_image(a_topic("gone", 2), a_topic("moved", [a_partition(0, (1, 2, 3))]))
    after = an_image(a_topic("moved", [a_partition(0, (1, 2))]), marks={Mark.MIGRATION: "77"})
    removals = Removals()
    removals.note(diff(before, after))
    names = [f"{number:04}-".ljust(LONGEST_NAME, "x") for number in range(1_500)]
    for name in names:
        removals.topic_gone(name, an_id(name))
    files = SnapshotFiles(tmp_path)
    records = [*records_of(after), *removals.records()]
    files.write(AT, [encode_record(record, version) for record, version in records], 77)
    loader = read_snapshot(files.path(AT), AT)
    assert list(loader.removals.topics.items()) == [(name, (an_id(name),)) for name in ("gone", *names)]
    assert list(loader.removals.replicas) == [(3, "moved", 0)]
    assert dict(loader.image.marks) == {Mark.MIGRATION: "77"}
    begun = read_ahead([], loader)
    assert list(begun.removals.topics.items()) == list(loader.removals.topics.items())


def test_batches_of_a_snapshot_are_cut_by_bytes_as_well(tmp_path: Path) -> None:
    """1,000 records of 16 KiB are more than the log takes as one batch."""
    values = [bytes([1]) * 16_384 for _ in range(1_500)] + [b"small"]
    files = SnapshotFiles(tmp_path)
    files.write(AT, values, 77)
    batches = list(read_batches(files.path(AT).read_bytes()))
    assert max(each.size for each in batches) <= BATCH_BYTES_MAX
    assert [value for each in batches for value in each.values] == values
    assert [each.base_offset for each in batches[1:]] == [each.last_offset + 1 for each in batches[:-1]]


def test_a_snapshot_of_all_removals_that_are_remembered_can_be_written(tmp_path: Path) -> None:
    """Z2K-2010: 100,000 of each kind, with the longest names."""
    removals = Removals()
    for number in range(REMOVALS_MAX):
        removals.topics[f"{number:0249}"] = (number.to_bytes(16, "big"),)
        removals.replicas[number, f"{number:0249}", number] = None
    files = SnapshotFiles(tmp_path)
    files.write(AT, (encode_record(record, version) for record, version in removals.records()), 77)
    assert read_snapshot(files.path(AT), AT).removals.replicas.keys() == removals.replicas.keys()
    assert read_snapshot(files.path(AT), AT).removals.topics == removals.topics


def test_a_snapshot_of_an_earlier_release_tells_the_names_of_topics_that_went(tmp_path: Path) -> None:
    """It did not know their ids."""
    files = SnapshotFiles(tmp_path)
    files.write(AT, [encode_record(NoOpRecord(mark="removed-topics", mark_text='["a","b"]'), 0)], 77)
    loader = read_snapshot(files.path(AT), AT)
    assert loader.removals.topics == {"a": (ZERO_UUID,), "b": (ZERO_UUID,)}
    assert not loader.image.marks


def test_of_one_name_the_newest_ids_that_went_are_remembered() -> None:
    removals = Removals()
    for number in range(20):
        removals.topic_gone("again", number.to_bytes(16, "big"))
    assert removals.topics == {"again": tuple(number.to_bytes(16, "big") for number in range(12, 20))}


def test_a_snapshot_that_cannot_be_written_leaves_nothing_that_takes_room(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path)
    with pytest.raises(UnencodableError, match="the metadata log accepts"):
        files.write(AT, [b"first", bytes([1]) * (BATCH_BYTES_MAX + 1)], 77)
    assert list(tmp_path.iterdir()) == []
