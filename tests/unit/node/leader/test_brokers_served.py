"""A fail-over while ZooKeeper is away: brokers are fenced and get leaders, administrators wait for the claim."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from migrator.control_api.states import State
from migrator.controller.requests import decide
from migrator.driver.machine import serves_brokers
from migrator.model.values import MigrationState
from migrator.node.driver.gatekeeper import DriverGatekeeper
from migrator.node.leader.periodic_tasks import fence_silent
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import BrokerHeartbeatRequest
from migrator.wire.messages.metadata import PartitionChangeRecord
from migrator.wire.messages.partitions import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    IsrBroker,
)
from migrator.wire.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest
from tests.support.builders import a_partition, a_topic, an_id, an_image
from tests.support.gatekeepers import Allows
from tests.support.situations import a_situation
from tests.unit.node.driver.test_driver_acts import a_driver, story
from tests.unit.node.leader.test_divisible_appends import a_leader, is_silent, kinds, ten, the_batches

ONE_LESS = AlterPartitionPartition(0, new_isr_with_epochs=(IsrBroker(1), IsrBroker(2)))
SHRINK = AlterPartitionRequest(1, 101, (AlterPartitionTopic(topic_id=an_id("orders"), partitions=(ONE_LESS,)),))


def test_they_are_served_only_while_the_claim_waits_for_zookeeper() -> None:
    assert [state for state in State if serves_brokers(state, zookeeper_answers=False)] == [State.RESUMING]
    assert not any(serves_brokers(state, zookeeper_answers=True) for state in State)


@pytest.mark.parametrize(
    ("state", "connected", "served"),
    [
        (State.RESUMING, False, True),
        (State.RESUMING, True, False),
        (State.FENCED, False, False),
        (State.ROLLING_BACK, False, False),
    ],
)
def test_the_driver_says_so_to_the_controller(state: State, *, connected: bool, served: bool) -> None:
    async def told() -> None:
        driver = a_driver(state, session=SimpleNamespace(connected=connected))
        gatekeeper = DriverGatekeeper(driver.now, driver.parts.session, driver.divergence, driver.parts.passwords)
        assert gatekeeper.brokers_served() is served

    story(told)


@pytest.mark.parametrize("served", [True, False])
def test_an_isr_shrinks_and_a_broker_leaves_and_no_topic_is_made(*, served: bool) -> None:
    situation = a_situation(an_image(a_topic("orders", [a_partition(0)])))
    shrunk = decide(situation, SHRINK, 3, writes_allowed=False, brokers_served=served)
    assert [type(record) for record, _ in shrunk.records] == [PartitionChangeRecord] * served
    leaving = BrokerHeartbeatRequest(broker_id=1, broker_epoch=101, current_metadata_offset=500, want_shut_down=True)
    assert bool(decide(situation, leaving, 1, writes_allowed=False, brokers_served=served).records) is served
    for request in (CreateTopicsRequest((CreatableTopic("new", 1, 1),)), DeleteTopicsRequest(topic_names=("orders",))):
        refused = decide(situation, request, 5, writes_allowed=False, brokers_served=served)
        assert not refused.records
        reply: Any = refused.reply
        answers = getattr(reply, "topics", ()) or reply.responses
        assert {each.error_code for each in answers} == {Error.NOT_CONTROLLER}


def test_before_the_migration_nobody_is_served_in_this_way() -> None:
    image = an_image(a_topic("orders", [a_partition(0)]), migration=MigrationState.PRE_MIGRATION)
    assert not decide(a_situation(image), SHRINK, 3, writes_allowed=False, brokers_served=True).records


@pytest.mark.parametrize("served", [True, False])
def test_a_silent_broker_is_fenced_and_its_leaderships_move(*, served: bool) -> None:
    async def told() -> None:
        controller, raft = a_leader(ten(), gatekeeper=Allows(writes=False, served=served))
        is_silent(controller, raft)
        await fence_silent(controller)
        assert bool(raft.appends) is served
        if served:
            assert {"PartitionChange", "BrokerRegistrationChange"} <= set(kinds(the_batches(raft)))

    story(told)
