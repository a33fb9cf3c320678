"""What is decided about many partitions is decided from what holds in its turn, not from what held when it was asked.

On the real active controller; a log of its own takes what is appended. Where a request may wait: for the turn of the
loop in which its own task begins, and for as long as somebody else decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from migrator.controller.decision import Decision, Record
from migrator.findings.driver import REQUEST_TOO_LARGE
from migrator.findings.finding import FindingError, Occurrence
from migrator.model.image import Image
from migrator.model.values import ConfigType, Mark
from migrator.node.leader.active_controller import ActiveController
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import BrokerHeartbeatRequest
from migrator.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from migrator.wire.messages.metadata import PartitionChangeRecord
from migrator.wire.messages.partitions import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IsrBroker,
)
from migrator.wire.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
)
from migrator.wire.schema import Message
from tests.support.builders import a_partition, a_topic, an_id, an_image
from tests.support.gatekeepers import Allows
from tests.unit.node.driver.test_driver_acts import story
from tests.unit.node.leader.test_divisible_appends import RaftThatNotes, a_leader, small_slices, ten

__all__ = ["small_slices"]

PREFERRED = ElectLeadersRequest(topic_partitions=None)
GROWTH = 12
"""More partitions than `small_slices` takes for few."""


def shrunk_to(*isr: int, leader: int = 2, partitions: tuple[int, ...] = (0,)) -> AlterPartitionRequest:
    members = tuple(IsrBroker(each) for each in isr)
    proposals = tuple(AlterPartitionPartition(each, new_isr_with_epochs=members) for each in partitions)
    return AlterPartitionRequest(
        leader, 100 + leader, (AlterPartitionTopic(topic_id=an_id("orders"), partitions=proposals),)
    )


def grown_to(count: int) -> CreatePartitionsRequest:
    return CreatePartitionsRequest((CreatePartitionsTopic("orders", count, None),))


async def asked(controller: ActiveController, raft: RaftThatNotes, *requests: tuple[Message, int]) -> list[Any]:
    """All at one moment, in this order; everything is committed at once."""
    waiting = [asyncio.ensure_future(controller.submit(request, version)) for request, version in requests]
    while not all(each.done() for each in waiting):
        await asyncio.sleep(0)
        controller.committed(raft.end)
    return [each.result() for each in waiting]


# --- the image ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_slices")
def test_a_replica_that_leaves_the_isr_meanwhile_is_not_elected() -> None:
    """Both were answered 0, and a replica out of sync led: records that were acknowledged without it were lost."""

    async def told() -> None:
        controller, raft = a_leader(ten(leader=2))
        elected, shrunk = await asked(controller, raft, (PREFERRED, 2), (shrunk_to(2, 3), 3))
        assert shrunk.topics[0].partitions[0].error_code == 0
        partition = controller.image.topics[an_id("orders")].partitions[0]
        assert (partition.leader, partition.isr) == (2, (2, 3))
        first = elected.replica_election_results[0].partition_result[0]
        assert first.partition_id == 0
        assert first.error_code == Error.PREFERRED_LEADER_NOT_AVAILABLE
        assert {each.leader for each in controller.image.topics[an_id("orders")].partitions[1:]} == {1}

    story(told)


@pytest.mark.usefixtures("small_slices")
def test_partitions_that_were_added_meanwhile_are_not_replaced() -> None:
    """The second of two requests wrote new replicas and leaders for partitions that the first one had created."""

    async def told() -> None:
        controller, raft = a_leader(ten())
        first, second = await asked(controller, raft, (grown_to(GROWTH), 3), (grown_to(GROWTH), 3))
        assert first.results[0].error_code == 0
        assert second.results[0].error_code == Error.INVALID_PARTITIONS
        assert len(controller.image.topics[an_id("orders")].partitions) == GROWTH

    story(told)


@pytest.mark.usefixtures("small_slices")
def test_a_broker_that_is_fenced_meanwhile_comes_into_no_isr() -> None:
    async def told() -> None:
        controller, raft = a_leader(ten(isr=(2, 3), leader=2))
        fence = BrokerHeartbeatRequest(1, 101, current_metadata_offset=1_000, want_fence=True)
        _, grown = await asked(controller, raft, (fence, 1), (shrunk_to(1, 2, 3, partitions=tuple(range(10))), 3))
        assert {each.error_code for each in grown.topics[0].partitions} == {Error.INELIGIBLE_REPLICA}
        assert {each.isr for _, each in controller.image.partitions()} == {(2, 3)}

    story(told)


@pytest.mark.usefixtures("small_slices")
def test_each_decision_takes_the_offset_after_the_one_before() -> None:
    """A broker's epoch is the offset of its registration: of another offset, it could not be told from another run."""

    async def told() -> None:
        partitions = [a_partition(number, leader=1 if number < 5 else 3) for number in range(10)]
        controller, raft = a_leader(an_image(a_topic("orders", partitions)))
        gone = BrokerHeartbeatRequest(1, 101, current_metadata_offset=1_000, want_shut_down=True)
        another = BrokerHeartbeatRequest(3, 103, current_metadata_offset=1_000, want_shut_down=True)
        await asked(controller, raft, (gone, 1), (another, 1))
        leaving = [controller.contacts.get(broker) for broker in (1, 3)]
        assert raft.end == 1_001 + 11 + 11
        assert [each.controlled_shutdown_offset for each in leaving if each] == [1_011, 1_022]

    story(told)


# --- what may be written -----------------------------------------------------------------------------------


@dataclass
class Changing(Allows):
    """A gatekeeper whose answers change."""

    reason: str | None = None
    problems: dict[str, Occurrence] = field(default_factory=dict)

    def blocked(self) -> str | None:
        return self.reason

    async def unmirrored(self, request: Message, image: Image) -> Mapping[str, Occurrence]:
        if isinstance(request, IncrementalAlterConfigsRequest):
            await asyncio.sleep(0)
        return {broker: found for broker, found in self.problems.items() if image.config(ConfigType.BROKER, broker)}


def closed(gatekeeper: Changing) -> None:
    gatekeeper.writes = False


def too_far_behind(gatekeeper: Changing) -> None:
    gatekeeper.reason = "ZooKeeper is behind"


TEN_MORE = CreateTopicsRequest((CreatableTopic("payments", 10, 1),))


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize(
    ("change", "expected"), [(closed, Error.NOT_CONTROLLER), (too_far_behind, Error.POLICY_VIOLATION)]
)
@pytest.mark.parametrize("waits", ["for its own task", "for somebody else"])
def test_a_request_that_waited_while_writing_ended_appends_nothing(
    change: Callable[[Changing], None], expected: Error, waits: str
) -> None:
    """A rollback had compared both sides already, and what came then was in the log alone."""

    async def told() -> None:
        gatekeeper = Changing()
        controller, raft = a_leader(ten(), gatekeeper=gatekeeper)
        if waits == "for its own task":
            creating = asyncio.ensure_future(controller.submit(TEN_MORE, 7))
            asyncio.get_running_loop().call_soon(change, gatekeeper)
        else:
            async with controller.paused():
                creating = asyncio.ensure_future(controller.submit(TEN_MORE, 7))
                for _ in range(3):
                    await asyncio.sleep(0)
                change(gatekeeper)
        while not creating.done():
            await asyncio.sleep(0)
            controller.committed(raft.end)
        reply: Any = creating.result()
        assert reply.topics[0].error_code == expected
        assert not raft.appends

    story(told)


@pytest.mark.usefixtures("small_slices")
def test_what_was_decided_for_brokers_is_not_appended_when_they_are_served_no_more() -> None:
    """ZooKeeper answered meanwhile, and it may say that somebody else is the controller."""

    async def told() -> None:
        gatekeeper = Changing(writes=False, served=True)
        controller, raft = a_leader(ten(), gatekeeper=gatekeeper)
        fence = BrokerHeartbeatRequest(1, 101, current_metadata_offset=1_000, want_fence=True)
        fencing = asyncio.ensure_future(controller.submit(fence, 1))
        while not controller.lag():
            await asyncio.sleep(0)
        gatekeeper.served = False
        while not fencing.done():
            await asyncio.sleep(0)
            controller.committed(raft.end)
        reply: Any = fencing.result()
        assert reply.error_code == Error.NOT_CONTROLLER
        assert not raft.appends

    story(told)


def test_a_mark_that_waited_is_not_written_when_it_is_due_no_more() -> None:
    async def told() -> None:
        gatekeeper = Changing()
        controller, raft = a_leader(ten(), gatekeeper=gatekeeper)
        async with controller.paused():
            marking = asyncio.ensure_future(controller.mark(Mark.BEHIND, "since then", gatekeeper.writes_allowed))
            await asyncio.sleep(0)
            closed(gatekeeper)
        await marking
        assert not raft.appends

    story(told)


# --- what could not follow into ZooKeeper --------------------------------------------------------------------


def setting(key: str, value: str) -> IncrementalAlterConfigsRequest:
    configs = (IncrementalAlterableConfig(key, 0, value),)
    return IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(ConfigType.BROKER, "1", configs),))


def test_what_could_not_follow_into_zookeeper_is_looked_at_in_the_turn_of_the_request() -> None:
    """The second request was judged without what the first one had set."""

    async def told() -> None:
        gatekeeper = Changing(problems={"1": REQUEST_TOO_LARGE.found(reason="as a test says")})
        controller, raft = a_leader(an_image(a_topic("orders")), gatekeeper=gatekeeper)
        rates = (setting(f"{role}.replication.throttled.rate", "1") for role in ("leader", "follower"))
        first, second = await asked(controller, raft, *((each, 1) for each in rates))
        assert [each.responses[0].error_code for each in (first, second)] == [0, Error.INVALID_CONFIG]

    story(told)


# --- what does not fit is not appended ------------------------------------------------------------------------

OUT_OF_SYNC: list[Record] = [(PartitionChangeRecord(partition_id=0, topic_id=an_id("orders"), leader=1), 1)]


def test_a_decision_that_elects_a_replica_out_of_sync_is_refused_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last barrier, should a decision be stale in another way."""

    async def told() -> None:
        controller, raft = a_leader(ten(leader=2, isr=(2, 3)))
        monkeypatch.setattr(
            "migrator.node.leader.active_controller.decide",
            lambda *_, **__: Decision(ElectLeadersResponse(), tuple(OUT_OF_SYNC)),
        )
        image = controller.newest
        reply: Any = await controller.submit(PREFERRED, 2)
        assert reply.error_code == Error.UNKNOWN_SERVER_ERROR
        assert not raft.appends
        assert controller.newest is image
        (found,) = controller.findings
        assert found.code == "Z2K-2075"
        assert found.values == {"partition": "orders-0", "reason": "broker 1 leads and is not in sync"}

    story(told)


def test_a_duty_that_decides_so_appends_nothing_and_ends_alone() -> None:
    async def told() -> None:
        controller, raft = a_leader(ten(leader=2, isr=(2, 3)))
        with pytest.raises(FindingError, match="Z2K-2075"):
            await controller.append_unasked(lambda situation: OUT_OF_SYNC)
        assert not raft.appends
        assert await controller.append_unasked(lambda situation: []) is False

    story(told)


@pytest.mark.usefixtures("small_slices")
def test_what_was_noted_of_a_broker_is_taken_back_when_its_decision_is_not_appended() -> None:
    """A controlled shutdown that was not begun would never be: its next heartbeat found it under way."""

    async def told() -> None:
        gatekeeper = Changing()
        controller, raft = a_leader(ten(), gatekeeper=gatekeeper)
        leaving = BrokerHeartbeatRequest(1, 101, current_metadata_offset=1_000, want_shut_down=True)
        asking = asyncio.ensure_future(controller.submit(leaving, 1))
        while not controller.lag():
            await asyncio.sleep(0)
        gatekeeper.writes = False
        reply: Any = await asking
        assert reply.error_code == Error.NOT_CONTROLLER
        gatekeeper.writes = True
        (again,) = await asked(controller, raft, (leaving, 1))
        assert not again.should_shut_down
        assert {each.leader for _, each in controller.image.partitions()} == {2}

    story(told)
