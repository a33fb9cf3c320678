"""The metadata log on disk: Kafka's bytes, what a crash may leave, and what is damage."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migrator.findings.finding import FindingError
from migrator.node.log.log_store import READ_BYTES_MAX, LogStore
from migrator.raft.types import ReplicatedBatch
from migrator.wire.batch import build_batch, patch_batch, peek

LARGE = 1 << 30
BASE_OFFSET, LENGTH, EPOCH, MAGIC, CRC = 0, 8, 12, 16, 17
"""Where the fields of a batch begin that its checksum does not cover."""


def a_batch(records: int = 1, size: int = 20, timestamp_ms: int = 1_000) -> bytes:
    values = [bytes([number % 251]) * max(size, 1) for number in range(records)]
    return build_batch(base_offset=0, leader_epoch=0, timestamp_ms=timestamp_ms, values=values)


def placed(batch: bytes, offset: int, epoch: int) -> bytes:
    found = bytearray(batch)
    patch_batch(found, base_offset=offset, leader_epoch=epoch)
    return bytes(found)


def a_log(directory: Path, batches: Sequence[bytes], *, epoch: int = 1, segment_bytes: int = LARGE) -> LogStore:
    store = LogStore.open(directory, segment_bytes)
    for batch in batches:
        store.append(store.end, epoch, [batch])
    return store


def files(directory: Path, suffix: str) -> list[Path]:
    return sorted(directory.glob(f"*{suffix}"))


def starts(data: bytes) -> list[int]:
    """Where each batch begins, and the end."""
    found = [0]
    while found[-1] < len(data):
        found.append(found[-1] + peek(data, found[-1]).size)
    return found


def damage(directory: Path) -> FindingError:
    with pytest.raises(FindingError) as raised:
        LogStore.open(directory, LARGE)
    assert raised.value.code == "Z2K-3014"
    return raised.value


# --- Kafka's files ----------------------------------------------------------------------------------------


def test_a_new_log_is_a_segment_named_by_its_first_offset_beside_kafkas_own_files(tmp_path: Path) -> None:
    LogStore.open(tmp_path, LARGE).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert (tmp_path / "partition.metadata").read_bytes() == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n0\n"


def test_a_segment_holds_the_batches_with_the_offsets_and_epochs_at_which_they_were_appended(tmp_path: Path) -> None:
    store = LogStore.open(tmp_path, LARGE)
    one, two, three = a_batch(3), a_batch(1, 7), a_batch(2)
    store.append(0, 4, [one, two])
    store.append(4, 6, [three])
    store.close()
    (segment,) = files(tmp_path, ".log")
    assert segment.read_bytes() == placed(one, 0, 4) + placed(two, 3, 4) + placed(three, 4, 6)
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n4 0\n6 4\n"


def test_an_epoch_in_which_nothing_was_appended_is_not_in_the_checkpoint(tmp_path: Path) -> None:
    store = LogStore.open(tmp_path, LARGE)
    for epoch in (3, 3, 9):
        store.append(store.end, epoch, [a_batch()])
    store.close()
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n3 0\n9 2\n"


def the_index_of(data: bytes, base: int) -> bytes:
    """As Kafka's `LogSegment.recover` builds it: an entry when more than 4,096 bytes went by since the last one."""
    out, last_entry = b"", 0
    for position in starts(data)[:-1]:
        if position - last_entry > 4_096:
            out += struct.pack(">ii", peek(data, position).last_offset - base, position)
            last_entry = position
    return out


def the_last_time_of(data: bytes, base: int) -> bytes:
    headers = [peek(data, position) for position in starts(data)[:-1]]
    newest = max(headers, key=lambda header: header.max_timestamp_ms)
    return struct.pack(">qi", newest.max_timestamp_ms, newest.last_offset - base)


@pytest.mark.parametrize("segment_bytes", [LARGE, 20_000])
def test_the_indexes_are_those_that_kafka_would_rebuild(tmp_path: Path, segment_bytes: int) -> None:
    sizes = [100, 3_000, 5_000, 10, 4_000, 97, 4_096, 9_000, 1, 1, 7_000, 2_000] * 3
    times = [1_000 + (number * 37) % 50 for number in range(len(sizes))]
    batches = [a_batch(2, size // 2, time) for size, time in zip(sizes, times, strict=True)]
    overhead = len(a_batch(1, 4_000)) - 4_000
    batches += [a_batch(1, 4_096 - overhead)] * 3  # exactly the interval, which is not above it
    a_log(tmp_path, batches, segment_bytes=segment_bytes).close()
    segments = files(tmp_path, ".log")
    assert (len(segments) > 1) is (segment_bytes < LARGE)

    def indexes() -> list[tuple[bytes, bytes]]:
        return [
            (each.with_suffix(".index").read_bytes(), each.with_suffix(".timeindex").read_bytes()) for each in segments
        ]

    wanted = [
        (the_index_of(path.read_bytes(), int(path.stem)), the_last_time_of(path.read_bytes(), int(path.stem)))
        for path in segments
    ]
    assert indexes() == wanted
    assert sum(len(index) for index, _ in wanted) > 40
    for suffix in (".index", ".timeindex"):
        for path in files(tmp_path, suffix):
            path.unlink()
    LogStore.open(tmp_path, segment_bytes).close()  # rebuilt from the segments alone
    assert indexes() == wanted


def test_what_an_interrupted_stock_process_leaves_is_no_part_of_the_log(tmp_path: Path) -> None:
    a_log(tmp_path, [a_batch(2)]).close()
    for suffix in (".log.deleted", ".log.cleaned", ".log.swap", ".checkpoint.part"):
        (tmp_path / f"00000000000000000002{suffix}").write_bytes(b"left")
    store = LogStore.open(tmp_path, LARGE)
    assert store.end == 2
    assert not [path for path in tmp_path.iterdir() if path.read_bytes() == b"left"]
    store.close()


# --- rolling ----------------------------------------------------------------------------------------------


def test_a_segment_is_closed_before_it_grows_too_large_and_the_next_is_named_by_its_first_offset(
    tmp_path: Path,
) -> None:
    batch = a_batch(2, 100)
    store = LogStore.open(tmp_path, 2 * len(batch) + 10)
    store.append(0, 1, [batch] * 5)  # in the middle of one append as well
    store.append(10, 2, [batch])
    assert [(int(path.stem), path.stat().st_size // len(batch)) for path in files(tmp_path, ".log")] == [
        (0, 2),
        (4, 2),
        (8, 2),
    ]
    assert store.read(0, 12) == b"".join(placed(batch, offset, 1) for offset in (0, 2))
    assert store.read(9, 12) == placed(batch, 8, 1) + placed(batch, 10, 2)
    store.close()
    again = LogStore.open(tmp_path, LARGE)
    assert (again.start, again.end, again.epochs.entries) == (0, 12, [(1, 0), (2, 10)])
    again.close()


def test_a_batch_larger_than_a_segment_has_one_of_its_own(tmp_path: Path) -> None:
    small, large = a_batch(1, 10), a_batch(1, 5_000)
    a_log(tmp_path, [large, small, large, small], segment_bytes=1_024).close()
    assert [int(path.stem) for path in files(tmp_path, ".log")] == [0, 1, 2, 3]


@pytest.mark.parametrize("reopen", [False, True])
def test_a_segment_is_closed_when_its_first_records_are_a_week_old(tmp_path: Path, reopen: bool) -> None:
    """Also those of before a restart. What is appended in one go counts as well."""
    start, limit = 1_000, 7 * 24 * 3_600 * 1_000
    times = [start, start + limit, start + limit + 1, start + 2 * limit + 1, start + 2 * limit + 2]
    store = LogStore.open(tmp_path, LARGE)
    store.append(0, 1, [a_batch(timestamp_ms=times[0])])
    if reopen:
        store.close()
        store = LogStore.open(tmp_path, LARGE)
    store.append(1, 1, [a_batch(timestamp_ms=time) for time in times[1:4]])
    store.append_replicated([ReplicatedBatch(4, 1, 1, placed(a_batch(timestamp_ms=times[4]), 4, 1))])
    assert [int(path.stem) for path in files(tmp_path, ".log")] == [0, 2, 4]
    store.close()


def test_a_segment_can_be_closed_early_and_an_empty_one_stays(tmp_path: Path) -> None:
    store = a_log(tmp_path, [a_batch(2), a_batch(3)])
    store.roll()
    store.roll()
    assert [int(path.stem) for path in files(tmp_path, ".log")] == [0, 5]
    store.close()
    again = LogStore.open(tmp_path, LARGE)
    again.append(5, 1, [a_batch()])
    again.truncate(5)
    again.truncate(2)
    assert (again.end, [int(path.stem) for path in files(tmp_path, ".log")]) == (2, [0])
    again.close()


@pytest.mark.parametrize("replicated", [False, True])
def test_a_segment_is_on_disk_before_there_is_a_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replicated: bool
) -> None:
    """A power cut tears the last segment only: a torn one before it would be refused as damage, for ever."""
    batch = a_batch(2, 100)
    store = LogStore.open(tmp_path, 2 * len(batch) + 10)
    synced: dict[int, int] = {}
    real_fsync, real_open = os.fsync, os.open

    def fsync(descriptor: int) -> None:
        real_fsync(descriptor)
        synced[os.fstat(descriptor).st_ino] = os.fstat(descriptor).st_size

    def opened(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT and Path(path).suffix == ".log":
            before = [each.stat() for each in files(tmp_path, ".log")]
            assert {each.st_ino: each.st_size for each in before}.items() <= synced.items()
        return real_open(path, flags, mode)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "open", opened)
    if replicated:
        store.append_replicated([ReplicatedBatch(at, 2, 1, placed(batch, at, 1)) for at in range(0, 10, 2)])
    else:
        store.append(0, 1, [batch] * 5)
    assert len(files(tmp_path, ".log")) == 3
    store.close()


def test_a_new_directory_of_a_log_is_on_disk_in_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", fsync)
    LogStore.open(tmp_path / "log", LARGE).close()
    assert synced[0] == tmp_path.stat().st_ino


# --- what a crash leaves ----------------------------------------------------------------------------------


def test_a_log_cut_at_any_byte_of_its_last_batch_ends_before_it(tmp_path: Path) -> None:
    a_log(tmp_path, [a_batch(2), a_batch(3), a_batch(2, 30)]).close()
    (segment,) = files(tmp_path, ".log")
    whole = segment.read_bytes()
    last = starts(whole)[-2]
    for length in range(last, len(whole)):
        segment.write_bytes(whole[:length])
        store = LogStore.open(tmp_path, LARGE)
        assert (store.end, store.size()) == (5, last)
        assert segment.read_bytes() == whole[:last]
        store.append(5, 1, [a_batch(2, 30)])
        store.close()
        assert segment.read_bytes() == whole


@pytest.mark.parametrize("tail", [bytes(1), bytes(60), bytes(61), bytes(5_000), b"\xff" * 300, b"\2" * 300])
def test_bytes_behind_the_last_batch_that_are_no_batch_are_cut_off(tmp_path: Path, tail: bytes) -> None:
    """A file system may leave zeros where the data was not written yet."""
    a_log(tmp_path, [a_batch(2), a_batch(3)]).close()
    (segment,) = files(tmp_path, ".log")
    whole = segment.read_bytes()
    segment.write_bytes(whole + tail)
    store = LogStore.open(tmp_path, LARGE)
    assert store.end == 5
    assert segment.read_bytes() == whole
    store.close()


def test_an_epoch_whose_only_batch_was_torn_off_leaves_the_checkpoint(tmp_path: Path) -> None:
    store = a_log(tmp_path, [a_batch(2)], epoch=1)
    store.append(2, 5, [a_batch(2)])
    store.close()
    (segment,) = files(tmp_path, ".log")
    segment.write_bytes(segment.read_bytes()[:-1])
    again = LogStore.open(tmp_path, LARGE)
    assert again.epochs.entries == [(1, 0)]
    again.close()
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n1\n1 0\n"


# --- damage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_a_byte_flipped_anywhere_with_whole_batches_behind_it_is_refused_and_nothing_is_cut(
    tmp_path: Path, mask: int
) -> None:
    """(Of an epoch, as long as it goes back somewhere: the checksum does not cover it, in Kafka as here.)"""
    store = LogStore.open(tmp_path, LARGE)
    for epoch, records in ((2, 2), (4, 3), (4, 2), (5, 1)):
        store.append(store.end, epoch, [a_batch(records, 15)])
    store.close()
    (segment,) = files(tmp_path, ".log")
    whole = segment.read_bytes()
    _, begin, end, *_ = starts(whole)
    for place in range(begin, end):
        spoiled = bytearray(whole)
        spoiled[place] ^= mask
        segment.write_bytes(spoiled)
        error = damage(tmp_path)
        assert segment.read_bytes() == bytes(spoiled), f"cut after a flip at {place - begin}"
        found = error.occurrence.values
        assert found["file"] == str(segment)
        # An epoch that is too high is seen at the batch behind it, which seems to go back.
        assert found["position"] in ((begin, end) if EPOCH <= place - begin < MAGIC else (begin,))


def test_a_batch_that_is_missing_in_the_middle_is_refused(tmp_path: Path) -> None:
    a_log(tmp_path, [a_batch(2), a_batch(2), a_batch(2)]).close()
    (segment,) = files(tmp_path, ".log")
    whole = segment.read_bytes()
    first, second = starts(whole)[1:3]
    segment.write_bytes(whole[:first] + whole[second:])
    assert "offset 4 follows 1" in str(damage(tmp_path))


def test_a_log_that_cannot_be_opened_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that looks at directories again and again must not run out of descriptors over a damaged one."""
    LogStore.open(tmp_path, 1_000).close()

    real = os.fsync

    def fails(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".log"):
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="Input/output"):
            LogStore.open(tmp_path, 1_000)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("cut", [1, 30, 61])
def test_a_torn_segment_before_the_last_is_damage(tmp_path: Path, cut: int) -> None:
    batch = a_batch(2, 100)
    a_log(tmp_path, [batch] * 4, segment_bytes=2 * len(batch)).close()
    first, _ = files(tmp_path, ".log")
    first.write_bytes(first.read_bytes()[:-cut])
    assert "before the last is torn" in str(damage(tmp_path))


def test_a_missing_segment_is_damage(tmp_path: Path) -> None:
    batch = a_batch(2, 100)
    a_log(tmp_path, [batch] * 3, segment_bytes=len(batch)).close()
    files(tmp_path, ".log")[1].unlink()
    assert "should begin at offset 2" in str(damage(tmp_path))


# --- reading ----------------------------------------------------------------------------------------------


class Twin:
    """The log as a list of batches."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, bytes]] = []
        self.end = 0

    def append(self, epoch: int, batch: bytes) -> None:
        last = self.end + peek(batch).record_count - 1
        self.batches.append((self.end, last, placed(batch, self.end, epoch)))
        self.end = last + 1


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    appends=st.lists(
        st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3_000)), min_size=1, max_size=4), min_size=1, max_size=10
    ),
    segment_bytes=st.sampled_from([1_024, 6_000, LARGE]),
    reopen=st.booleans(),
    data=st.data(),
)
def test_a_read_begins_with_the_batch_of_its_offset_and_ends_before_its_end_or_limit(
    appends: list[list[tuple[int, int]]],
    segment_bytes: int,
    reopen: bool,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("log")
    store, twin = LogStore.open(directory, segment_bytes), Twin()
    for epoch, sizes in enumerate(appends):
        batches = [a_batch(records, size) for records, size in sizes]
        store.append(store.end, epoch, batches)
        for batch in batches:
            twin.append(epoch, batch)
    if reopen:
        store.close()
        store = LogStore.open(directory, segment_bytes)
    assert (store.end, b"".join(store.batches())) == (twin.end, b"".join(batch for *_, batch in twin.batches))
    for _ in range(4):
        offset = data.draw(st.integers(0, twin.end - 1), "offset")
        end = data.draw(st.integers(0, twin.end), "end")
        limit = data.draw(st.sampled_from([1, 60, 500, 4_000, READ_BYTES_MAX]), "limit")
        found = store.read(offset, end, limit)
        wanted = [batch for base, last, batch in twin.batches if last >= offset and base < end]
        if offset >= end:
            assert found == b""
            continue
        assert found.startswith(wanted[0])
        assert b"".join(wanted).startswith(found)
        assert len(starts(found)) >= 2
        assert len(found) <= limit or found == wanted[0]
        in_segment = [path for path in files(directory, ".log") if int(path.stem) <= offset][-1].stat().st_size
        if limit == READ_BYTES_MAX and in_segment == store.size():
            assert found == b"".join(wanted)
    store.close()


def test_a_read_ends_before_the_batch_that_begins_at_its_end(tmp_path: Path) -> None:
    """What is not committed is not read."""
    store = a_log(tmp_path, [a_batch(2)] * 3)
    one, two, _ = (placed(a_batch(2), offset, 1) for offset in (0, 2, 4))
    assert [store.read(0, end) for end in (0, 2, 4)] == [b"", one, one + two]
    assert store.read(2, 4) == two
    store.close()


def test_following_reads_get_every_batch_once(tmp_path: Path) -> None:
    batches = [a_batch(1 + number % 3, 200) for number in range(40)]
    store = a_log(tmp_path, batches, segment_bytes=2_000)
    offset, found = 0, b""
    while offset < store.end:
        piece = store.read(offset, store.end, 700)
        offset = peek(piece, starts(piece)[-2]).last_offset + 1
        found += piece
    assert found == b"".join(store.batches())
    store.close()


def test_an_append_that_does_not_fit_the_end_of_the_log_is_a_fault_of_ours(tmp_path: Path) -> None:
    store = a_log(tmp_path, [a_batch(2)])
    for offset in (0, 1, 3):
        with pytest.raises(AssertionError, match="the log ends at 2"):
            store.append(offset, 1, [a_batch()])
    store.close()


def test_an_append_that_the_disk_refused_is_not_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even when a part of it was written: a flush says of everything before the end that it is on disk."""
    store = a_log(tmp_path, [a_batch(2)])
    whole, real = store.size(), os.pwrite

    def refuse_after_ten_bytes(descriptor: int, data: memoryview, position: int) -> int:
        if position > whole:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:10], position)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", refuse_after_ten_bytes)
        with pytest.raises(OSError, match="No space"):
            store.append(2, 1, [a_batch(3), a_batch(1)])
    assert store.end == 2
    store.close()
    again = LogStore.open(tmp_path, LARGE)
    assert (again.end, again.size()) == (2, whole)
    again.close()
