"""A controller without the migration flag serves its log at once: nothing has to happen before, and no ZooKeeper."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from msgspec.structs import replace

from migrator.model.image import Image
from migrator.model.values import MigrationState
from migrator.node.leader.active_controller import ActiveController, CommitListeners
from migrator.node.leader.gatekeeper import NoDriver
from migrator.node.leader.periodic_tasks import fence_silent
from migrator.node.log.log_replay import LogReplay, ReadAhead
from migrator.wire.batch import read_batch
from migrator.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from migrator.wire.records import decode_record
from tests.support.builders import a_broker, a_partition, a_topic, an_image
from tests.support.situations import the_settings
from tests.unit.node.driver.test_driver_acts import story
from tests.unit.node.leader.test_divisible_appends import EPOCH, RaftThatNotes


def leads(image: Image, *, migration_enabled: bool) -> tuple[ActiveController, RaftThatNotes]:
    """A controller without a driver that was just elected; broker 1 leads and is silent from now on."""
    raft = RaftThatNotes(end=image.position.offset + 1)
    controller = ActiveController(
        raft,  # type: ignore[arg-type]
        the_settings(migration_enabled=migration_enabled),
        ReadAhead(LogReplay(), 0, snapshot=image, begins_at=raft.end),
        [],
        chance=Random(1),
        gatekeeper=NoDriver(migration_enabled),
        commit_listeners=CommitListeners(),
        on_lead=lambda epoch: None,
        on_refused=lambda error: None,
        on_retired=lambda text: None,
    )
    controller.epoch = EPOCH
    controller.contacts.clear(image.brokers, raft.now)
    return controller, raft


def written(raft: RaftThatNotes) -> set[str]:
    batches = [read_batch(payload.batch) for payloads in raft.appends for payload in payloads]
    return {type(decode_record(value)).__name__ for batch in batches for value in batch.values}


def kraft_image(state: MigrationState) -> Image:
    brokers = [replace(a_broker(number), migrating=False) for number in (1, 2, 3)]
    return an_image(a_topic("orders", [a_partition()]), brokers=brokers, migration=state)


async def asked_for_a_topic(controller: ActiveController) -> None:
    request = CreateTopicsRequest((CreatableTopic("made", 1, 3),), 1_000)
    answer = asyncio.create_task(controller.submit(request, 7))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    answer.cancel()


@pytest.mark.parametrize("state", [MigrationState.NONE, MigrationState.POST_MIGRATION])
def test_requests_are_served_and_silent_brokers_fenced_in_a_log_that_is_not_in_migration(state: MigrationState) -> None:
    controller, raft = leads(kraft_image(state), migration_enabled=False)

    async def whole() -> None:
        await asked_for_a_topic(controller)
        assert {"TopicRecord", "PartitionRecord"} <= written(raft)
        raft.now += 9_001
        for other in (2, 3):
            controller.contacts.touch(other, 0, raft.now, fenced=False)
        await fence_silent(controller)
        assert "BrokerRegistrationChangeRecord" in written(raft)
        assert controller.newest.brokers[1].fenced
        (orders,) = (each for each in controller.newest.topics.values() if each.name == "orders")
        assert [(each.leader, each.isr) for each in orders.partitions] == [(2, (2, 3))]

    story(whole)


@pytest.mark.parametrize("state", [MigrationState.PRE_MIGRATION, MigrationState.MIGRATION])
def test_with_the_flag_nothing_is_served_before_the_driver_says_so(state: MigrationState) -> None:
    controller, raft = leads(kraft_image(state), migration_enabled=True)

    async def whole() -> None:
        await asked_for_a_topic(controller)
        raft.now += 9_001
        await fence_silent(controller)
        assert raft.appends == []

    story(whole)


def test_before_a_migration_nothing_is_served_without_the_flag_either() -> None:
    """Another controller rules that cluster."""
    controller, raft = leads(kraft_image(MigrationState.PRE_MIGRATION), migration_enabled=False)

    async def whole() -> None:
        await asked_for_a_topic(controller)
        assert raft.appends == []

    story(whole)
