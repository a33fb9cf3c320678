"""What may lie in several batches does, and whoever waits for it waits for the last one; the rest is one batch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.model.draft import Delta
from migrator.model.image import METADATA_VERSION, Image
from migrator.node.leader.active_controller import ActiveController, CommitListeners
from migrator.node.leader.periodic_tasks import fence_silent
from migrator.node.log.log_replay import LogReplay, ReadAhead
from migrator.node.quorum.metrics import Metrics
from migrator.raft.types import Payload
from migrator.wire.batch import Batch, read_batch
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    RegistrationFeature,
    RegistrationListener,
    UnregisterBrokerRequest,
)
from migrator.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from migrator.wire.messages.partitions import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    ElectLeadersRequest,
    IsrBroker,
)
from migrator.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from migrator.wire.records import decode_record
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image
from tests.support.gatekeepers import Allows
from tests.support.situations import CLUSTER, the_settings
from tests.support.voter_on_disk import comes_about
from tests.unit.node.driver.test_driver_acts import story

EPOCH = 5
PARTITIONS = 10
RECORDS_MAX = 4
BYTES_MAX = 512
"""Ten partition changes take more."""


@dataclass
class RaftThatNotes:
    """Takes what is appended; when it is committed is the test's to say."""

    end: int
    now: int = 100_000
    appends: list[list[Payload]] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def voter(self) -> Any:
        return SimpleNamespace(log=SimpleNamespace(end=self.end, generation=0))

    def now_ms(self) -> int:
        return self.now

    def wall_ms(self) -> int:
        return 0

    def leads(self, epoch: int) -> bool:
        return True

    def applied(self, end: int, size: int) -> None: ...

    def append(self, epoch: int, payloads: list[Payload]) -> int:
        self.appends.append(payloads)
        self.end += sum(payload.count for payload in payloads)
        return self.end - 1


def ten(*, fenced: bool = False, **partition: Any) -> Image:
    """Ten partitions of brokers 1 to 3. fenced: broker 1."""
    partitions = [a_partition(number, **partition) for number in range(PARTITIONS)]
    return an_image(a_topic("orders", partitions), brokers=(a_broker(1, fenced=fenced), 2, 3))


@dataclass
class Hears:
    """A listener that does one thing with each delta."""

    published: Callable[[Delta], None]

    def lost_leadership(self) -> None: ...


def a_leader(
    image: Image, published: Callable[[Delta], None] = lambda delta: None, gatekeeper: Allows | None = None
) -> tuple[ActiveController, RaftThatNotes]:
    raft = RaftThatNotes(end=image.position.offset + 1)
    commit_listeners = CommitListeners()
    commit_listeners.join(Hears(published))
    controller = ActiveController(
        raft,  # type: ignore[arg-type]
        the_settings(),
        ReadAhead(LogReplay(), 0, snapshot=image, begins_at=raft.end),
        [],
        chance=Random(1),
        gatekeeper=gatekeeper or Allows(),
        commit_listeners=commit_listeners,
        on_lead=lambda epoch: None,
        on_refused=lambda error: None,
        on_retired=lambda text: None,
    )
    controller.epoch = EPOCH
    controller.contacts.clear(image.brokers, raft.now)
    return controller, raft


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migrator.node.log.payloads.BATCH_RECORDS_MAX", RECORDS_MAX)
    monkeypatch.setattr("migrator.wire.batch.BATCH_BYTES_MAX", BYTES_MAX)


def the_batches(raft: RaftThatNotes) -> list[Batch]:
    """Of the only append."""
    (payloads,) = raft.appends
    batches = [read_batch(payload.batch) for payload in payloads]
    assert [len(batch.values) for batch in batches] == [payload.count for payload in payloads]
    return batches


def kinds(batches: list[Batch]) -> list[str]:
    records = [decode_record(value) for batch in batches for value in batch.values]
    return [type(record).__name__.removesuffix("Record") for record in records]


def is_silent(controller: ActiveController, raft: RaftThatNotes) -> None:
    """Broker 1; the others are not."""
    raft.now += 9_001
    for other in (2, 3):
        controller.contacts.touch(other, 0, raft.now, fenced=False)


# --- what is divided --------------------------------------------------------------------------------------


async def fencing(controller: ActiveController, raft: RaftThatNotes) -> None:
    is_silent(controller, raft)
    await fence_silent(controller)
    await controller.settled()


async def healing(controller: ActiveController, raft: RaftThatNotes) -> None:
    assert await controller.heal() == PARTITIONS
    await controller.settled()


async def another_incarnation(controller: ActiveController, raft: RaftThatNotes) -> None:
    is_silent(controller, raft)
    request = BrokerRegistrationRequest(
        broker_id=1,
        cluster_id=CLUSTER,
        incarnation_id=an_id("another run"),
        listeners=(RegistrationListener("PLAINTEXT", "h", 9092, 0),),
        features=(RegistrationFeature(METADATA_VERSION, 21, 21),),
        is_migrating_zk_broker=True,
        log_dirs=(an_id("dir-1"),),
    )
    reply: Any = await controller.submit(request, 4)
    assert reply.broker_epoch == raft.end - 1


def heartbeat(**operations: Any) -> Callable[[ActiveController, RaftThatNotes], Awaitable[None]]:
    async def asked(controller: ActiveController, raft: RaftThatNotes) -> None:
        request = BrokerHeartbeatRequest(1, 101, current_metadata_offset=raft.end - 1, **operations)
        reply: Any = await controller.submit(request, 1)
        assert reply.error_code == 0

    return asked


async def unregistering(controller: ActiveController, raft: RaftThatNotes) -> None:
    reply: Any = await controller.submit(UnregisterBrokerRequest(1), 0)
    assert reply.error_code == 0


async def shrinking(controller: ActiveController, raft: RaftThatNotes) -> None:
    isr = (IsrBroker(1), IsrBroker(2))
    proposals = tuple(AlterPartitionPartition(number, new_isr_with_epochs=isr) for number in range(PARTITIONS))
    request = AlterPartitionRequest(1, 101, (AlterPartitionTopic(topic_id=an_id("orders"), partitions=proposals),))
    reply: Any = await controller.submit(request, 3)
    assert [each.isr for each in reply.topics[0].partitions] == [(1, 2)] * PARTITIONS


CHANGES = ["PartitionChange"] * PARTITIONS
REGISTRATION_CHANGE = "BrokerRegistrationChange"


@pytest.mark.parametrize(
    ("image", "asked", "expected"),
    [
        (ten(), fencing, [*CHANGES, REGISTRATION_CHANGE]),
        (ten(), heartbeat(want_fence=True), [*CHANGES, REGISTRATION_CHANGE]),
        (ten(), heartbeat(want_shut_down=True), [REGISTRATION_CHANGE, *CHANGES]),
        (ten(fenced=True, isr=(1,), leader=-1), heartbeat(), [REGISTRATION_CHANGE, *CHANGES]),
        (ten(), another_incarnation, [*CHANGES, "RegisterBroker"]),
        (ten(), unregistering, [*CHANGES, "UnregisterBroker"]),
        (ten(leader=-1), healing, CHANGES),
        (ten(), shrinking, CHANGES),
    ],
    ids=["silence", "fence", "shutdown", "unfence", "incarnation", "unregister", "heal", "alter partition"],
)
def test_what_many_partitions_need_lies_in_several_batches_and_is_answered_after_the_last(
    image: Image, asked: Callable[[ActiveController, RaftThatNotes], Awaitable[None]], expected: list[str]
) -> None:
    """In one, a broker in sync with some 170,000 partitions could not be fenced: each controller ended in turn."""

    async def told() -> None:
        controller, raft = a_leader(image)
        begins = raft.end
        waiting = asyncio.ensure_future(asked(controller, raft))
        await appended(raft, 1)
        await asyncio.sleep(0.01)
        batches = the_batches(raft)
        assert [len(batch.values) for batch in batches] == [4, 4, len(expected) - 8]
        assert kinds(batches) == expected
        for committed in (begins + 4, begins + 8):
            controller.committed(committed)
            await asyncio.sleep(0)
            assert not waiting.done()
            assert controller.image is image
        controller.committed(begins + len(expected))
        await waiting
        assert controller.image is controller.newest
        assert controller.image.position.offset == raft.end - 1

    story(told)


# --- in slices --------------------------------------------------------------------------------------------

FENCE = BrokerHeartbeatRequest(1, 101, current_metadata_offset=1_000, want_fence=True)


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migrator.node.leader.active_controller.SLICE_RECORDS", RECORDS_MAX)
    monkeypatch.setattr("migrator.controller.partitions.mass.SLICE_RECORDS", RECORDS_MAX)


async def appended(raft: RaftThatNotes, slices: int) -> None:
    while len(raft.appends) < slices:
        await asyncio.sleep(0)


@pytest.mark.usefixtures("small_slices")
def test_a_decision_about_many_partitions_is_appended_and_published_in_slices() -> None:
    """At once, 100,000 partitions cost seconds in which no follower heard of its leader, and another was elected."""

    async def told() -> None:
        published: list[Delta] = []
        controller, raft = a_leader(ten(), published.append)
        turns: list[int] = []
        waiting = asyncio.ensure_future(controller.submit(FENCE, 1))
        while len(raft.appends) < 3:
            turns.append(len(raft.appends))
            await asyncio.sleep(0)
        assert {0, 1, 2} <= set(turns), "the loop had a turn after each slice"
        assert [sum(each.count for each in payloads) for payloads in raft.appends] == [4, 4, 3]
        await asyncio.sleep(0)
        controller.committed(raft.end)
        assert [delta.after.position.offset for delta in published] == [raft.end - 8]
        assert not waiting.done()
        await waiting
        assert [delta.after.position.offset for delta in published] == [raft.end - 8, raft.end - 4, raft.end - 1]
        assert controller.image is controller.newest
        assert controller.image.brokers[1].fenced

    story(told)


@pytest.mark.usefixtures("small_slices")
def test_one_slice_is_published_per_turn_of_the_loop_however_often_the_high_watermark_moves() -> None:
    """Each acknowledgement of a follower began a row of its own: six slices in one turn, 0.2 s without a heartbeat."""

    async def told() -> None:
        published: list[Delta] = []
        controller, raft = a_leader(ten(), published.append)
        waiting = asyncio.ensure_future(controller.submit(FENCE, 1))
        await appended(raft, 3)
        controller.committed(raft.end - 1)
        controller.committed(raft.end)
        controller.committed(raft.end)
        assert len(published) == 1
        await asyncio.sleep(0)
        assert len(published) == 2
        await waiting
        assert len(published) == 3

    story(told)


@pytest.mark.usefixtures("small_slices")
def test_while_slices_are_appended_others_wait_and_heartbeats_are_heard() -> None:
    """A change between two slices would not be known to the decision; a session that ends meanwhile would be ours."""

    async def told() -> None:
        controller, raft = a_leader(ten())
        fencing = asyncio.ensure_future(controller.submit(FENCE, 1))
        await appended(raft, 1)
        raft.now += 100
        alive: Any = await controller.submit(BrokerHeartbeatRequest(2, 102, current_metadata_offset=1_000), 1)
        assert (alive.error_code, alive.is_fenced) == (0, False)
        assert controller.heartbeat_ages_ms()[2] == 0
        creating = asyncio.ensure_future(controller.submit(a_topic_of(1), 7))
        settled = asyncio.ensure_future(controller.settled())
        assert controller.lag() > len(raft.appends) - 1
        await appended(raft, 4)
        assert not settled.done()
        records = [read_batch(each.batch) for payloads in raft.appends for each in payloads]
        assert kinds(records) == [*CHANGES, REGISTRATION_CHANGE, "Topic", "Partition"]
        controller.committed(raft.end)
        await asyncio.gather(fencing, creating, settled)

    story(told)


@pytest.mark.usefixtures("small_slices")
def test_a_leadership_that_is_lost_between_two_slices_appends_no_more_and_says_so() -> None:
    async def told() -> None:
        controller, raft = a_leader(ten())
        fencing = asyncio.ensure_future(controller.submit(FENCE, 1))
        await appended(raft, 1)
        controller.epoch = None
        reply: Any = await fencing
        assert reply.error_code == Error.NOT_CONTROLLER
        assert len(raft.appends) == 1
        reply = await controller.submit(FENCE, 1)  # nobody is paused any more
        assert reply.error_code == Error.NOT_CONTROLLER

    story(told)


@pytest.mark.usefixtures("small_slices")
def test_whoever_asked_may_go_away_between_two_slices() -> None:
    """Half an unfencing would leave partitions without a leader that nobody decides on again."""

    async def told() -> None:
        controller, raft = a_leader(ten(fenced=True, isr=(1,), leader=-1))
        begin = BrokerHeartbeatRequest(1, 101, current_metadata_offset=raft.end - 1)
        asking = asyncio.ensure_future(controller.submit(begin, 1))
        await appended(raft, 1)
        asking.cancel()
        await appended(raft, 3)
        controller.committed(raft.end)
        await controller.settled()
        assert {each.leader for _, each in controller.image.partitions()} == {1}

    story(told)


@pytest.mark.usefixtures("small_slices")
def test_what_was_decided_while_writing_ended_is_not_appended() -> None:
    """A rollback began meanwhile: its audit must not find ZooKeeper behind afterwards."""

    async def told() -> None:
        gatekeeper = Allows()
        controller, raft = a_leader(ten(), gatekeeper=gatekeeper)
        fencing = asyncio.ensure_future(controller.submit(FENCE, 1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gatekeeper.writes = False
        reply: Any = await fencing
        assert reply.error_code == Error.NOT_CONTROLLER
        assert not raft.appends

    story(told)


# --- what is not ------------------------------------------------------------------------------------------


def a_topic_of(partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest((CreatableTopic("payments", partitions, 1),))


def test_what_has_to_be_whole_is_one_batch_whatever_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migrator.wire.batch.BATCH_BYTES_MAX", 10_000)

    async def told() -> None:
        controller, raft = a_leader(ten())
        waiting = asyncio.ensure_future(controller.submit(a_topic_of(20), 7))
        await appended(raft, 1)
        await asyncio.sleep(0.01)
        assert [len(batch.values) for batch in the_batches(raft)] == [21]
        controller.committed(raft.end)
        assert isinstance(await waiting, CreateTopicsResponse)

    story(told)


def large_configs() -> CreateTopicsRequest:
    """Each topic may be so, and all of them do not fit into one batch."""
    config = CreatableTopicConfig(
        "follower.replication.throttled.replicas", ",".join(["1000000000:1000000000"] * 1_400)
    )
    return CreateTopicsRequest(tuple(CreatableTopic(f"topic-{each}", 1, 1, configs=(config,)) for each in range(300)))


def a_long_config() -> IncrementalAlterConfigsRequest:
    config = IncrementalAlterableConfig("follower.replication.throttled.replicas", 0, ",".join(["0:1"] * 10_000))
    return IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(2, "orders", (config,)),))


@pytest.mark.parametrize(
    ("asked", "version", "error", "limit"),
    [(large_configs(), 7, Error.POLICY_VIOLATION, "8388608"), (a_long_config(), 1, Error.INVALID_CONFIG, "32767")],
)
def test_what_has_to_be_whole_and_is_too_large_is_refused_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, asked: Any, version: int, error: Error, limit: str
) -> None:
    """At the real limit of the log. The leader goes on, and takes the next request."""
    monkeypatch.setattr("migrator.wire.batch.BATCH_BYTES_MAX", 8 * 1024 * 1024)

    async def told() -> None:
        controller, raft = a_leader(ten())
        refused: Any = await controller.submit(asked, version)
        results = refused.topics if isinstance(refused, CreateTopicsResponse) else refused.responses
        assert {each.error_code for each in results} == {error}
        assert all("Z2K-2135" in str(each.error_message) for each in results), results[0]
        assert all(limit in str(each.error_message) for each in results)
        assert not raft.appends
        assert controller.newest is controller.image
        assert controller.lag() == 0
        waiting = asyncio.ensure_future(controller.submit(a_topic_of(20), 7))
        await appended(raft, 1)
        controller.committed(raft.end)
        taken = await waiting
        assert isinstance(taken, CreateTopicsResponse)
        assert taken.topics[0].error_code == 0

    story(told)


def test_many_deletions_in_one_request_are_decided_apart_and_hold_the_loop_up_no_longer_than_a_slice() -> None:
    async def told() -> None:
        image = an_image(*(a_topic(f"topic-{number}") for number in range(5_000)))
        controller, raft = a_leader(image)
        names = tuple(DeleteTopicState(name=name) for name in sorted(topic.name for topic in image.topics.values()))
        waiting = asyncio.ensure_future(controller.submit(DeleteTopicsRequest(topics=names), 6))
        longest, before = 0.0, time.thread_time()  # of its own work: a loop may wait for a processor at any time
        while not waiting.done():
            await asyncio.sleep(0)
            longest, before = max(longest, time.thread_time() - before), time.thread_time()
            if controller.lag() and not controller._is_apart:
                controller.committed(raft.end)
        reply = waiting.result()
        assert isinstance(reply, DeleteTopicsResponse)
        assert {each.error_code for each in reply.responses} == {0}
        assert not controller.image.topics
        assert len(raft.appends) == 10, "slices of 500"
        assert longest < 1.0

    story(told)


def test_a_heartbeat_beside_a_large_decision_is_answered_from_what_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found by the simulation of requests in flight: the answer leaves at once, and the next leader may not have what
    is not committed yet.
    """
    monkeypatch.setattr("migrator.controller.partitions.mass.SLICE_RECORDS", PARTITIONS - 1)

    async def told() -> None:
        controller, raft = a_leader(ten(fenced=True))
        alive = BrokerHeartbeatRequest(1, 101, 2_000, want_fence=False)
        unfenced = asyncio.ensure_future(controller.submit(alive, 1))
        await appended(raft, 1)
        await comes_about(lambda: not controller._is_apart)
        electing = asyncio.ensure_future(controller.submit(ElectLeadersRequest(0, None), 2))
        while not controller._is_apart:  # the next turn of the loop is before the end of its thread is heard of
            await asyncio.sleep(0)
        raft.now += 100
        early: Any = await controller.submit(alive, 1)
        assert controller.heartbeat_ages_ms()[1] == 0
        assert (early.error_code, early.is_fenced) == (0, True)
        await comes_about(lambda: not controller._is_apart)
        controller.committed(raft.end)
        reply: Any = await unfenced
        assert not reply.is_fenced
        await electing

    story(told)


def test_a_log_that_took_something_else_than_was_decided_ends_this_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decided next would stand on records that the log does not have."""
    monkeypatch.setattr("migrator.wire.batch.BATCH_BYTES_MAX", 10_000)

    async def told() -> None:
        controller, raft = a_leader(ten())
        ended: list[BaseException] = []
        raft.append = lambda epoch, payloads: 7  # type: ignore[method-assign]
        raft.fail = ended.append  # type: ignore[attr-defined]
        with pytest.raises(AssertionError, match="and is at 7"):
            await controller.submit(a_topic_of(1), 7)
        assert len(ended) == 1

    story(told)
