"""A leader died in the middle of a transaction: what the next ones make of what it left in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from migrator.model.values import MigrationState
from migrator.node.log.log_replay import read_ahead
from migrator.wire.messages.metadata import (
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    TopicRecord,
    ZkMigrationStateRecord,
)
from tests.support.builders import an_id
from tests.support.voter_on_disk import VoterOnDisk, comes_about, leader_change_at, records_at
from tests.unit.node.driver.test_driver_acts import story

BOOTSTRAP = (
    BeginTransactionRecord(name="Bootstrap records"),
    FeatureLevelRecord(name="metadata.version", feature_level=20),
    ZkMigrationStateRecord(zk_migration_state=MigrationState.PRE_MIGRATION),
    EndTransactionRecord(),
)
COPY = (BeginTransactionRecord(name="copy"), TopicRecord(name="copied", topic_id=an_id("copied")))
BEGIN = 1 + len(BOOTSTRAP)
"""Where the transaction begins that nobody ended."""


def behind_a_leader_that_died_mid_copy(directory: Path, told: Callable[[VoterOnDisk], Awaitable[None]]) -> None:
    """Everything is committed that the leader of epoch 1 wrote: its transaction has no end. Every snapshot is due."""

    async def whole() -> None:
        node = VoterOnDisk(directory, snapshot_after_bytes=1)
        node.raft.start()
        log = (leader_change_at(0, 1, 2), records_at(1, 1, *BOOTSTRAP), records_at(BEGIN, 1, *COPY))
        end = BEGIN + len(COPY)
        node.follow(*log, committed=end)
        await node.flushed()
        await node.applied(end)
        await told(node)
        assert not node.fatal
        await node.close()

    story(whole)


async def leads_again_and_aborts(node: VoterOnDisk, voter: int) -> int:
    """Elected by `voter`, which fetches the first record; returns where the Abort is."""
    start = await node.elected(by=voter)
    node.fetched(voter, start + 1)
    await comes_about(lambda: node.controller.epoch is not None)
    await node.flushed()
    return start + 1


def test_no_snapshot_is_taken_inside_a_transaction_that_a_dead_leader_left_open(tmp_path: Path) -> None:
    """One at the new leader's first record would have no Begin, and the Abort behind it ends a stock reader."""

    async def told(node: VoterOnDisk) -> None:
        await comes_about(lambda: node.ends_of_snapshots() == [BEGIN])
        abort = await leads_again_and_aborts(node, 3)
        await asyncio.sleep(0.05)
        assert node.ends_of_snapshots() == [BEGIN]
        node.fetched(3, abort + 1)
        await comes_about(lambda: node.led == [2])
        await comes_about(lambda: node.ends_of_snapshots() == [BEGIN, abort + 1])

    behind_a_leader_that_died_mid_copy(tmp_path / "log", told)


def test_a_leader_whose_abort_was_cut_aborts_again_when_it_leads_again(tmp_path: Path) -> None:
    """Otherwise all that it commits then hangs in the dead leader's transaction, and the next Abort discards it."""

    async def told(node: VoterOnDisk) -> None:
        abort = await leads_again_and_aborts(node, 3)
        assert node.store.end == abort + 1
        node.deposed(by=3)
        node.follow(diverging_epoch=2, diverging_end=abort)
        assert node.store.end == abort, "the next leader does not have it"
        abort = await leads_again_and_aborts(node, 2)
        node.fetched(2, node.store.end)
        await comes_about(lambda: node.led == [4])
        node.controller._append([(TopicRecord(name="created", topic_id=an_id("created")), 0)])
        await node.flushed()
        node.fetched(2, node.store.end)
        assert list(node.controller.image.topic_ids) == ["created"]
        read = read_ahead(node.store.batches()).replay
        assert (list(read.image.topic_ids), read.transaction_open) == (["created"], False)

    behind_a_leader_that_died_mid_copy(tmp_path / "log", told)


def test_an_abort_that_was_committed_is_not_written_again(tmp_path: Path) -> None:
    """A stock reader ends at an Abort without a transaction."""

    async def told(node: VoterOnDisk) -> None:
        abort = await leads_again_and_aborts(node, 3)
        node.fetched(3, abort + 1)
        await comes_about(lambda: node.led == [2])
        node.deposed(by=3)
        node.follow(committed=abort + 1)
        start = await node.elected(by=2)
        node.fetched(2, start + 1)
        await comes_about(lambda: node.led == [2, 4])
        assert node.store.end == start + 1

    behind_a_leader_that_died_mid_copy(tmp_path / "log", told)
