"""Power cuts on the real shell: at every step on its disk, what it had promised is there at the next start.

One life is scripted: a directory is formatted, the voter follows, rolls its log, is killed and started again, votes, is
elected, leads, is deposed, truncates, takes snapshots and trims, loads a leader's snapshot, and is retired. It is run
once for every step that it makes on its disk, with the power failing there; then it is started again on what the disk
may hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from migrator.node.log.log_replay import read_snapshot
from migrator.node.log.log_store import LogStore
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.node.log.storage import (
    LOG_NAME,
    META_PROPERTIES,
    QUORUM_STATE,
    RetiredMark,
    format_directory,
    is_formatted,
    read_election_state,
    read_meta_properties,
    sync_directory,
    write_election_state,
)
from migrator.raft.effects import SendFetchSnapshot
from migrator.raft.types import (
    NOBODY,
    AppendRequested,
    ElectionState,
    FetchSnapshotAnswered,
    Payload,
    ReplicatedBatch,
    SnapshotId,
    VoteReceived,
)
from migrator.wire.batch import build_batch, peek
from migrator.wire.errors import Error
from migrator.wire.messages.metadata import NoOpRecord
from tests.support.power import Power, PowerCut, Remains
from tests.support.quorum_nodes import CLUSTER, ME, VOTERS
from tests.support.voter_on_disk import VoterOnDisk, comes_about, leader_change_at, records_at, until
from tests.unit.node.driver.test_driver_acts import story

SEGMENT_BYTES = 400
MARK = "9 2001"
OWN = build_batch(base_offset=0, leader_epoch=0, timestamp_ms=1, values=[b"\x01\x14\x00\x00"])


class OwnThread:
    """The disk of a node, on the loop: one flush at a time, or none while it is held."""

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.is_held = False

    def flush(self, descriptor: int) -> asyncio.Future[float]:
        done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        if not self.is_held:
            try:
                self.store.flush(descriptor)
                done.set_result(0.0)
            except BaseException as error:
                done.set_exception(error if isinstance(error, Exception) else RuntimeError("power cut"))
        return done

    def close(self) -> None: ...


@dataclass
class Promises:
    """What others, or the next start, may rely on."""

    is_formatted: bool = False
    is_retired: bool = False
    state: ElectionState = field(default_factory=ElectionState)
    batches: dict[int, bytes] = field(default_factory=dict)
    """Each batch of the log that was acknowledged, by its base offset."""
    gone: dict[int, bytes] = field(default_factory=dict)
    """Batches that were truncated, by their base offset."""
    snapshots: set[SnapshotId] = field(default_factory=set)

    def of(self, node: VoterOnDisk) -> None:
        """Everything that the core now takes as being on disk."""
        voter, store = node.raft.voter, node.store
        self.state = voter.state
        self.snapshots = set(voter.log.snapshots)
        offset = voter.log.start
        while offset < voter.log.durable_end:
            data = store.read(offset, voter.log.durable_end, 1)
            header = peek(data)
            self.batches[header.base_offset] = data[: header.size]
            offset = header.last_offset + 1


class Life:
    """The script, with one power."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data = root / "data"
        self.log = self.data / LOG_NAME
        self.power = Power(self.data, root / "graveyard")
        self.promises = Promises()
        self._monkeypatch = monkeypatch
        self._disks: list[OwnThread] = []

    def a_node(self, **settings: Any) -> VoterOnDisk:
        state = read_election_state(self.log) if (self.log / QUORUM_STATE).exists() else None
        node = VoterOnDisk(self.log, segment_bytes=SEGMENT_BYTES, state=state, disk=self._disk, wait=until, **settings)
        receive = node.raft.receive
        truncate, reset = node.store.truncate, node.store.reset

        def received(event: Any) -> None:
            receive(event)
            if not node.raft._is_executing and not node.raft._todo and not node.raft._has_failed:
                self.promises.of(node)

        def truncated(end: int) -> None:
            cut = {base: each for base, each in self.promises.batches.items() if base >= end}
            self.promises.batches = {base: each for base, each in self.promises.batches.items() if base < end}
            truncate(end)
            self.promises.gone = cut

        def begun_anew(start: int) -> None:
            self.promises.batches = {}
            self.promises.snapshots = {each for each in node.raft.voter.log.snapshots if each.end_offset == start}
            reset(start)

        self._monkeypatch.setattr(node.raft, "receive", received)
        self._monkeypatch.setattr(node.store, "truncate", truncated)
        self._monkeypatch.setattr(node.store, "reset", begun_anew)
        node.raft.start()
        return node

    def _disk(self, store: LogStore) -> OwnThread:
        self._disks.append(OwnThread(store))
        return self._disks[-1]

    async def kill(self, node: VoterOnDisk) -> None:
        """Nothing is flushed or said any more; the page cache has what was written."""
        await node.raft.leave()
        node.store.abandon()

    def end(self) -> None:
        """As the kernel does: the descriptors of a process that is gone are closed."""
        for disk in self._disks:
            disk.store.abandon()

    async def lived(self) -> None:
        self.data.mkdir()
        format_directory(self.data, CLUSTER, ME, b"bootstrap")
        self.promises.is_formatted = True
        self.log.mkdir()
        sync_directory(self.data)
        write_election_state(self.log, ElectionState(1, leader=2), VOTERS)
        node = await self._follows()
        node = await self._is_killed_with_unsynced_records(node)
        await self._votes_and_leads(node)
        await self._is_deposed_and_truncates(node)
        await node.close()
        node = self.a_node(snapshot_after_bytes=1, retention_bytes=0)
        await self._takes_snapshots_and_trims(node)
        await self._loads_a_snapshot(node)
        await self.kill(node)
        RetiredMark(self.data).write(MARK)
        self.promises.is_retired = True

    async def _follows(self) -> VoterOnDisk:
        node = self.a_node()
        node.follow(leader_change_at(0, 1, 2))
        await node.flushed()
        for offset in range(1, 9, 2):
            node.follow(a_batch(offset, 1), a_batch(offset + 1, 1), committed=offset)
            await node.flushed()
        assert len(list(self.log.glob("*.log"))) > 2
        return node

    async def _is_killed_with_unsynced_records(self, node: VoterOnDisk) -> VoterOnDisk:
        self._disks[-1].is_held = True
        node.follow(a_batch(9, 1), a_batch(10, 1), committed=9)
        await self.kill(node)
        node = self.a_node()
        assert node.raft.voter.log.durable_end == 11  # what it shows to its leader with its first fetch
        return node

    async def _votes_and_leads(self, node: VoterOnDisk) -> None:
        last = node.raft.voter.log.last_on_disk()
        answer = await node.raft.vote(lambda number: VoteReceived(number, CLUSTER, ME, 3, 2, last.epoch, last.offset))
        assert answer.granted
        await node.elected(by=3)
        for _ in range(4):
            node.raft.receive(AppendRequested(node.raft.voter.epoch, (Payload(1, OWN), Payload(1, OWN))))
            await node.flushed()

    async def _is_deposed_and_truncates(self, node: VoterOnDisk) -> None:
        epoch = node.deposed(by=2)
        node.follow(diverging_epoch=3, diverging_end=13)
        assert node.store.end == 13
        assert (self.log / f"{11:020d}.log").stat().st_size > 0  # cut in the middle of a segment
        node.follow(leader_change_at(13, epoch, 2), a_batch(14, epoch), committed=15)
        await node.flushed()

    async def _takes_snapshots_and_trims(self, node: VoterOnDisk) -> None:
        epoch = node.raft.voter.epoch
        for offset in (15, 16, 17, 18):
            node.follow(a_batch(offset, epoch), committed=offset + 1)
            await node.flushed()
            await self._comes_about(lambda end=offset: has_settled(node, end + 1))  # type: ignore[misc]
            assert not node.fatal
        assert node.store.start > 13

    async def _comes_about(self, condition: Callable[[], bool]) -> None:
        """A thread writes snapshots: it may take its time as long as there is power."""
        await comes_about(lambda: condition() or self.power.is_cut)
        await until(condition)

    async def _loads_a_snapshot(self, node: VoterOnDisk) -> None:
        snapshot = SnapshotId(100, node.raft.voter.epoch)
        elsewhere = SnapshotFiles(self.data.parent)
        size = elsewhere.write(snapshot, [each for _ in range(3) for each in [b"\x01\x14\x00\x00"]], 1)
        node.follow(snapshot=snapshot)
        position = 0
        while position < size:
            ask = node._last(SendFetchSnapshot)
            data = elsewhere.read(snapshot, position, size // 2 + 1)
            node.raft.receive(
                FetchSnapshotAnswered(ask.request, Error.NONE, 2, ask.epoch, snapshot, size, position, data)
            )
            position += len(data)
        assert node.store.start == 100
        node.follow(a_batch(100, node.raft.voter.epoch), committed=101)
        await node.flushed()


def has_settled(node: VoterOnDisk, end: int) -> bool:
    """What is committed is applied, and no snapshot is being written or waits to be counted."""
    applied = node.controller._log.end >= end and not node.raft.voter.snapshot_ordered
    return bool(node.fatal) or (applied and all(each.get_name() != "snapshot" for each in node.raft._chores))


def a_batch(offset: int, epoch: int) -> ReplicatedBatch:
    return records_at(offset, epoch, NoOpRecord(mark="m", mark_text="x" * 100))


# --- after the cut ----------------------------------------------------------------------------------------


def assert_kept(data: Path, promised: Promises) -> None:
    """What was promised is there, and the voter can go on with it."""
    if promised.is_formatted:
        assert read_meta_properties(data).cluster_id == CLUSTER
    elif is_formatted(data):
        assert read_meta_properties(data).node_id == ME
    if promised.is_retired:
        assert RetiredMark(data).read() == MARK
    log = data / LOG_NAME
    assert_state(read_election_state(log), promised.state)
    if (data / META_PROPERTIES).exists():
        story(lambda: _assert_log(log, promised))


def assert_state(found: ElectionState, promised: ElectionState) -> None:
    """A later promise may have been on its way; an earlier one is never taken back."""
    assert found.epoch >= promised.epoch
    if found.epoch == promised.epoch:
        assert promised.voted_for in (NOBODY, found.voted_for) or found.leader != NOBODY
        assert promised.leader in (NOBODY, found.leader)


async def _assert_log(log: Path, promised: Promises) -> None:
    node = VoterOnDisk(log, segment_bytes=SEGMENT_BYTES, state=read_election_state(log), disk=OwnThread)
    node.raft.start()
    assert node.fatal == []
    files = SnapshotFiles(log)
    stored = files.stored()
    for snapshot in stored:
        assert read_snapshot(files.path(snapshot), snapshot).end == snapshot.end_offset
    covered = max((each.end_offset for each in stored), default=0)
    assert node.store.start in (0, *(each.end_offset for each in stored)) or node.store.start <= covered
    for base, data in promised.batches.items():
        if base >= node.store.start:
            assert node.store.read(base, base + 1, len(data)) == data, f"the batch at {base} is another one"
        else:
            assert base < covered, f"the batch at {base} is gone"
    for base, data in promised.gone.items():
        if node.store.start <= base < node.store.end:
            assert node.store.read(base, base + 1, len(data)) != data, f"the truncated batch at {base} is back"
    for snapshot in promised.snapshots:
        assert snapshot in stored or covered > snapshot.end_offset, f"{snapshot} is gone"
    await node.raft.leave()
    node.store.abandon()


def a_life_cut_at(step: int | None, root: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    root.mkdir(parents=True)
    life = Life(root, monkeypatch)
    life.power.cut_at = step
    with life.power.watching(monkeypatch):
        try:
            story(life.lived)
        except (PowerCut, AssertionError, RuntimeError, TimeoutError):
            if not life.power.is_cut:
                raise
    life.end()
    return life


def test_the_script_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life = a_life_cut_at(None, tmp_path / "life", monkeypatch)
    assert life.power.steps > 100
    assert_kept(life.data, life.promises)
    assert life.promises.is_retired
    assert life.promises.state.epoch == 4
    (kept,) = life.promises.snapshots
    assert kept in (SnapshotId(100, 4), SnapshotId(101, 4)), "the leader's, or its own one behind it"


@pytest.mark.parametrize("part", range(8))
def test_wherever_the_power_fails_nothing_that_was_promised_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """Each eighth of the steps, and whatever of the unsynced rest the disk has kept."""
    lost = cuts(tmp_path, monkeypatch, lambda step: step % 8 == part)
    assert lost == []


def cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: Callable[[int], bool]) -> list[str]:
    """Where something was lost."""
    lost: list[str] = []
    for step in filter(chosen, range(10_000)):
        life = a_life_cut_at(step, tmp_path / f"life-{step}", monkeypatch)
        if not life.power.is_cut:
            break
        for remains in Remains:
            data = tmp_path / f"after-{step}-{remains.name}"
            life.power.restore(remains, data)
            try:
                assert_kept(data, life.promises)
            except Exception as error:
                lost.append(f"step {step}, {remains.name}: {type(error).__name__}: {error}")
    return lost
