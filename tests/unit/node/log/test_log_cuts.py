"""The log of a follower: the leader's batches as they are, cut where the histories part, begun anew by a snapshot."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.findings.finding import FindingError
from migrator.node.log.log_store import LogStore
from migrator.node.quorum.peers import batches_of
from migrator.raft.types import ReplicatedBatch
from migrator.wire.batch import build_batch

SEGMENT = 400


def batch(base: int, epoch: int, count: int = 2, size: int = 20) -> ReplicatedBatch:
    values = [bytes([count]) * size] * count
    return ReplicatedBatch(
        base, count, epoch, build_batch(base_offset=base, leader_epoch=epoch, timestamp_ms=base, values=values)
    )


def a_log(directory: Path, batches: int = 10, epochs: int = 3) -> tuple[LogStore, list[ReplicatedBatch]]:
    store = LogStore.open(directory, SEGMENT)
    made = [batch(2 * number, 1 + number * epochs // batches) for number in range(batches)]
    store.append_replicated(made)
    return store, made


def content(store: LogStore) -> bytes:
    return b"".join(store.batches())


def test_what_a_follower_appends_is_what_the_leader_wrote_byte_for_byte(tmp_path: Path) -> None:
    store, made = a_log(tmp_path / "log")
    assert content(store) == b"".join(each.data for each in made)
    assert store.end == 20
    assert batches_of(store.read(0, 20, 1 << 20))[0] == made[0]
    store.close()
    again = LogStore.open(tmp_path / "log", SEGMENT)
    assert (again.end, again.epochs.entries) == (20, store.epochs.entries)


@pytest.mark.parametrize("end", range(0, 21, 2))
def test_a_cut_leaves_exactly_what_was_before_it_also_on_disk(tmp_path: Path, end: int) -> None:
    store, made = a_log(tmp_path / "log")
    store.truncate(end)
    kept = [each for each in made if each.base_offset < end]
    assert content(store) == b"".join(each.data for each in kept)
    assert store.end == end
    again = LogStore.open(tmp_path / "log", SEGMENT)
    assert (again.end, again.epochs.entries) == (end, store.epochs.entries)
    again.close()
    store.append_replicated([batch(end, 9)])
    assert store.epochs.latest == 9
    assert store.end == end + 2


def test_a_cut_inside_a_batch_is_a_fault_of_ours(tmp_path: Path) -> None:
    store, _ = a_log(tmp_path / "log")
    with pytest.raises(AssertionError, match="inside the batch"):
        store.truncate(5)


def test_a_log_that_a_snapshot_replaced_begins_at_its_end(tmp_path: Path) -> None:
    store, _ = a_log(tmp_path / "log")
    store.reset(500)
    assert (store.start, store.end, content(store), store.epochs.entries) == (500, 500, b"", [])
    store.append_replicated([batch(500, 7)])
    store.close()
    again = LogStore.open(tmp_path / "log", SEGMENT)
    assert (again.start, again.end, again.epochs.entries) == (500, 502, [(7, 500)])


def test_segments_before_the_start_are_dropped_and_the_rest_can_be_read(tmp_path: Path) -> None:
    store, made = a_log(tmp_path / "log", batches=20)
    segments = len(list((tmp_path / "log").glob("*.log")))
    store.trim(21)
    assert len(list((tmp_path / "log").glob("*.log"))) < segments
    assert store.start <= 21
    assert store.read(22, 24).startswith(next(each.data for each in made if each.base_offset == 22)[:8])
    store.trim(40)
    assert len(list((tmp_path / "log").glob("*.log"))) >= 1


def test_a_segment_may_be_dropped_while_another_thread_brings_it_to_disk(tmp_path: Path) -> None:
    store, _ = a_log(tmp_path / "log")
    descriptor = store.to_flush()
    store.reset(100)
    store.flush(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@settings(max_examples=50)
@given(data=st.binary(max_size=300), cut=st.integers(0, 300))
def test_bytes_of_a_peer_give_whole_batches_or_an_error_that_is_asked_again(data: bytes, cut: int) -> None:
    good = batch(0, 1).data
    whole = batches_of(good + good[: min(cut, len(good) - 1)])
    assert [each.data for each in whole] == [good]
    with suppress(OSError, FindingError):
        batches_of(data)


def test_a_batch_that_was_damaged_on_its_way_is_not_taken() -> None:
    good = bytearray(batch(0, 1).data)
    good[-1] ^= 1
    with pytest.raises(OSError, match="damaged"):
        batches_of(bytes(good))


def test_a_log_whose_removal_was_refused_is_closed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time its descriptor may be a connection's."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    store, _ = a_log(tmp_path / "log")
    closed: list[int] = []
    close = os.close

    def noted(descriptor: int) -> None:
        closed.append(descriptor)
        close(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refused)
        patched.setattr(os, "close", noted)
        with pytest.raises(OSError, match="Read-only"):
            store.reset(100)
        store.abandon()
    assert len(closed) == len(set(closed))
