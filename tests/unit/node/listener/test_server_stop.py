"""What waits for a commit is answered when it is committed, and ends with whoever waits: the connection, or the lead.

The controller, its decisions and its log are the real ones (`VoterOnDisk`); what is committed the test says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from migrator.model.values import MigrationState
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import BrokerHeartbeatRequest
from migrator.wire.messages.metadata import FeatureLevelRecord, TopicRecord, ZkMigrationStateRecord
from tests.support.builders import an_id
from tests.support.voter_on_disk import VoterOnDisk, comes_about, leader_change_at, records_at
from tests.unit.node.driver.test_driver_acts import story

LOG = (
    FeatureLevelRecord(name="metadata.version", feature_level=20),
    ZkMigrationStateRecord(zk_migration_state=MigrationState.MIGRATION),
)
OF_NOBODY = BrokerHeartbeatRequest(broker_id=77, broker_epoch=1)
"""Refused from what is in the image; no record comes of it."""


def as_leader(directory: Path, told: Callable[[VoterOnDisk], Awaitable[None]]) -> None:
    """Leads; a topic was appended and is not committed."""

    async def whole() -> None:
        node = VoterOnDisk(directory)
        node.raft.start()
        node.follow(leader_change_at(0, 1, 2), records_at(1, 1, *LOG), committed=1 + len(LOG))
        await node.flushed()
        start = await node.elected(by=3)
        node.fetched(3, start + 1)
        await comes_about(lambda: node.led == [2])
        node.gatekeeper.writes = True
        node.controller._append([(TopicRecord(name="created", topic_id=an_id("created")), 0)])
        await node.flushed()
        await told(node)
        assert not node.fatal
        await node.close()

    story(whole)


async def asks(node: VoterOnDisk) -> asyncio.Task[Any]:
    """A request that was decided, and whose answer waits."""
    task = asyncio.create_task(node.controller.submit(OF_NOBODY, 1))
    waiting = len(node.controller._pending._steps[-1].waiting)
    await comes_about(lambda: task.done() or len(node.controller._pending._steps[-1].waiting) > waiting)
    assert not task.done(), "it rests on what is not committed"
    return task


def test_an_answer_without_records_waits_for_what_it_rests_on(tmp_path: Path) -> None:
    """It was decided from uncommitted facts: another leader may never have them."""

    async def told(node: VoterOnDisk) -> None:
        waiting = await asks(node)
        assert "created" not in node.controller.image.topic_ids
        node.fetched(3, node.store.end)
        answer = await waiting
        assert answer.error_code == Error.STALE_BROKER_EPOCH
        assert "created" in node.controller.image.topic_ids

    as_leader(tmp_path / "log", told)


def test_a_request_that_waits_ends_with_its_connection(tmp_path: Path) -> None:
    """Cancelling a task cancels the future that it waits for as well: that is no loss of leadership."""

    async def told(node: VoterOnDisk) -> None:
        connection = await asks(node)
        connection.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connection
        node.fetched(3, node.store.end)
        assert node.controller.epoch is not None

    as_leader(tmp_path / "log", told)


def test_a_request_that_waits_is_answered_when_the_leadership_ends(tmp_path: Path) -> None:
    async def told(node: VoterOnDisk) -> None:
        waiting = await asks(node)
        node.deposed(by=3)
        answer = await waiting
        assert answer.error_code == Error.NOT_CONTROLLER

    as_leader(tmp_path / "log", told)
