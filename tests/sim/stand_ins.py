"""Who asks the simulated controllers for something (requests.py): brokers, an administrator, the driver of a migration.

In:   the world; chance comes from its seed.
Out:  requests, several at once, some of them about a state that has gone; and what a driver says of writes.
Elsewhere: what their answers promise (acknowledged.py).
A broker knows what is committed, a little late. The driver copies three topics, heals, marks, and goes back: it closes
the writes, waits until everything is quiet, looks around for a while and goes on (the rollback was refused).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from migrator.controller.partitions.elect_leaders import ElectionType
from migrator.controller.replay import replay
from migrator.findings.finding import Occurrence
from migrator.model.draft import Delta, Draft
from migrator.model.image import METADATA_VERSION, Image, Position
from migrator.model.values import ConfigType, Mark, MigrationState, Partition, Recovery, Topic
from migrator.node.leader.pending_appends import LeadershipLost
from migrator.records.builders import partition_record, topic_record
from migrator.wire.batch import build_batch
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
from migrator.wire.messages.metadata import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    ZkMigrationStateRecord,
)
from migrator.wire.messages.partitions import (
    AlterPartitionPartition,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterPartitionTopic,
    ElectLeadersRequest,
    ElectLeadersTopic,
    IsrBroker,
    ReassignablePartition,
    ReassignableTopic,
)
from migrator.wire.messages.security import AclCreation, CreateAclsRequest
from migrator.wire.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from tests.sim.cluster import LOOSE
from tests.support.builders import an_id

if TYPE_CHECKING:
    from tests.sim.requests import ControllerVoter, RequestWorld

LEVEL: Final = 21
UNCLEAN: Final = "unclean.leader.election.enable"
COPIED: Final = {
    "orders": ((1, 2, 3), (2, 3, 1), (3, 1, 2)),
    "payments": ((4, 1, 2), (1, 4, 3)),
    f"{LOOSE}-events": ((2, 4), (4, 3)),
}
WAITS_FOR_BROKERS_S: Final = 1.0


# --- the driver ---------------------------------------------------------------------------------------------


class StandInDriver:
    """Gatekeeper and listener of one controller, as the driver of a migration is."""

    def __init__(self, node: ControllerVoter, world: RequestWorld) -> None:
        self._node = node
        self._world = world
        self._is_open = self._serves = False
        self._driving: asyncio.Task[Any] | None = None
        self.is_quiet = False

    # --- as a gatekeeper ------------------------------------------------------------------------------------

    def writes_allowed(self, image: Image) -> bool:
        return self._is_open

    def brokers_served(self) -> bool:
        return self._serves

    def blocked(self) -> str | None:
        return None

    async def unmirrored(self, request: Message, image: Image) -> Mapping[str, Occurrence]:
        if isinstance(request, IncrementalAlterConfigsRequest):
            await asyncio.sleep(self._world.rng.random() * 0.01)
        return {}

    # --- as a listener --------------------------------------------------------------------------------------

    def published(self, delta: Delta) -> None: ...

    def lost_leadership(self) -> None:
        self._is_open = self._serves = self.is_quiet = False
        if self._driving is not None:
            self._driving.cancel()

    # --- its acts -------------------------------------------------------------------------------------------

    def begins(self, epoch: int) -> None:
        if self._driving is not None:
            self._driving.cancel()
        self._driving = self._node.run(self._drive(epoch))

    async def _drive(self, epoch: int) -> None:
        controller, rng = self._node.controller, self._world.rng
        try:
            if controller.image.migration is MigrationState.PRE_MIGRATION:
                await self._wait_for_brokers()
                await self._copy(epoch)
                self._world.count("copies")
                await controller.heal()
            else:
                self._serves = True
                await asyncio.sleep(rng.random() * 0.1)
            while True:
                self._is_open, self._serves = True, False
                await asyncio.sleep(rng.random() * 0.8)
                await rng.choice((self._go_back, self._only_serve, self._mark, controller.heal))()
        except LeadershipLost:
            return

    async def _wait_for_brokers(self) -> None:
        loop = self._world.loop
        until = loop.time() + WAITS_FOR_BROKERS_S
        while loop.time() < until and sum(each.active for each in self._node.controller.image.brokers.values()) < 4:
            await asyncio.sleep(0.01)

    async def _copy(self, epoch: int) -> None:
        controller = self._node.controller
        records: list[Message] = [BeginTransactionRecord(name="ZK Migration")]
        for name, assignments in COPIED.items():
            topic_id = an_id(name)
            records.append(topic_record(name, topic_id))
            if name.startswith(LOOSE):
                records.append(ConfigRecord(ConfigType.TOPIC, name, UNCLEAN, "true"))
            for number, replicas in enumerate(assignments):
                made = Partition(number, replicas, replicas, replicas[0])
                records.append(partition_record(topic_id, made))
        records += [ZkMigrationStateRecord(zk_migration_state=MigrationState.MIGRATION), EndTransactionRecord()]
        values = [encode_record(record, 0) for record in records]
        async with controller.paused():
            if controller.epoch != epoch:
                raise LeadershipLost
            draft = Draft(controller.newest)
            for record in records:
                replay(draft, record)
            end = controller.next_offset() + len(values) - 1
            await asyncio.sleep(self._world.rng.random() * 0.05)
            delta = draft.finish(Position(epoch, end))
            batches = [
                (len(piece), build_batch(base_offset=0, leader_epoch=0, timestamp_ms=1, values=piece))
                for piece in (values[at : at + 4] for at in range(0, len(values), 4))
            ]
            await controller.append_copy(batches, delta)

    async def _go_back(self) -> None:
        """As a rollback begins; it is refused, and everything goes on."""
        controller, rng = self._node.controller, self._world.rng
        self._world.count("rollbacks begun")
        self._is_open = False
        await controller.settled()
        while controller.lag():
            await asyncio.sleep(0.1)
        self._world.count("quiet times")
        self._world.tell(f"voter {self._node.id}: everything is quiet before offset {controller.next_offset()}")
        self.is_quiet = True
        await asyncio.sleep(rng.random() * 0.3)
        self.is_quiet = False

    async def _only_serve(self) -> None:
        """As while the claim is made again: brokers get what they need, administrators wait."""
        self._is_open, self._serves = False, True
        await asyncio.sleep(self._world.rng.random() * 0.2)

    async def _mark(self) -> None:
        await self._node.controller.mark(Mark.BEHIND, str(self._world.rng.random()))


# --- a broker -----------------------------------------------------------------------------------------------


class StandInBroker:
    """Registers, reports, leads what it is said to lead, falls silent, stops and comes back."""

    def __init__(self, number: int, world: RequestWorld) -> None:
        self.id = number
        self._world = world
        self._runs = False
        self._lives = 0
        self._epoch = -1
        self._wants_to_stop = False
        self._silent_until = 0.0
        self._image = world.log.image

    async def live(self) -> None:
        leading = self._world.loop.create_task(self._lead())
        try:
            while True:
                await self._start()
                while self._runs:
                    await self._report()
                    await asyncio.sleep(0.02 + self._world.rng.random() * 0.08)
        finally:
            leading.cancel()

    async def _start(self) -> None:
        world, rng = self._world, self._world.rng
        await asyncio.sleep(rng.random() * (0.05 if world.healed or not self._lives else 0.3))
        self._lives += 1
        self._wants_to_stop = False
        while True:
            task = world.ask(self._registration(), 4)
            await asyncio.wait({task}, timeout=0.5)
            reply = task.result() if task.done() and not task.cancelled() and task.exception() is None else None
            if reply is not None and reply.error_code == Error.NONE:
                self._epoch, self._runs = reply.broker_epoch, True
                return
            await asyncio.sleep(0.02 + rng.random() * 0.05)

    def _registration(self) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self.id,
            cluster_id=self._world.cluster_id,
            incarnation_id=an_id(f"run {self.id} {self._lives}"),
            listeners=(RegistrationListener("PLAINTEXT", "h", 9092, 0),),
            features=(RegistrationFeature(METADATA_VERSION, LEVEL, LEVEL),),
            is_migrating_zk_broker=True,
            log_dirs=(an_id(f"dir-{self.id}"),),
        )

    async def _report(self) -> None:
        world, rng = self._world, self._world.rng
        now = world.loop.time()
        if rng.random() < 0.8 or world.healed:
            self._image = world.log.image
        if now < self._silent_until and not world.healed:
            return
        self._something_happens()
        if not self._runs:
            return
        if rng.random() < 0.03:
            world.ask(self._registration(), 4)
        wants_fence = not world.healed and not self._wants_to_stop and rng.random() < 0.05
        task = world.ask(
            BrokerHeartbeatRequest(self.id, self._epoch, self._image.position.offset, wants_fence, self._wants_to_stop),
            1,
        )
        await asyncio.wait({task}, timeout=0.2)
        reply = task.result() if task.done() and not task.cancelled() and task.exception() is None else None
        if reply is None:
            return
        if reply.error_code == Error.STALE_BROKER_EPOCH:
            self._runs = False
        elif reply.should_shut_down:
            world.count("brokers let go")
            self._runs = False

    def _something_happens(self) -> None:
        world, rng = self._world, self._world.rng
        if world.healed:
            return
        chance = rng.random()
        if chance < 0.06:
            self._wants_to_stop = True
        elif chance < 0.09:
            world.count("brokers silent")
            self._silent_until = world.loop.time() + rng.random()
        elif chance < 0.11:
            self._runs = False

    # --- as a leader ----------------------------------------------------------------------------------------

    async def _lead(self) -> None:
        world, rng = self._world, self._world.rng
        while True:
            await asyncio.sleep(0.01 + rng.random() * (0.1 if rng.random() < 0.5 else 0.3))
            if not self._runs or (world.loop.time() < self._silent_until and not world.healed):
                continue
            led = [(topic, each) for topic, each in self._image.partitions() if each.leader == self.id]
            chosen = [each for each in led if rng.random() < 0.6]
            if chosen:
                self._propose(chosen)

    def _propose(self, led: list[tuple[Topic, Partition]]) -> None:
        world = self._world
        topics: dict[bytes, list[AlterPartitionPartition]] = {}
        for topic, partition in led:
            isr = self._wanted(partition)
            if world.healed and isr == partition.isr:
                continue
            stale = 0 if world.healed or world.rng.random() < 0.95 else 1
            epochs = partition.leader_epoch, partition.partition_epoch - stale
            world.log.proposes((topic.id, partition.id), *epochs, isr)
            members = tuple(IsrBroker(each, self._known_epoch(each)) for each in isr)
            topics.setdefault(topic.id, []).append(
                AlterPartitionPartition(partition.id, epochs[0], new_isr_with_epochs=members, partition_epoch=epochs[1])
            )
        asked = tuple(AlterPartitionTopic(topic_id=topic, partitions=tuple(each)) for topic, each in topics.items())
        if asked:
            world.ask(AlterPartitionRequest(self.id, self._epoch, asked), 3)

    def _known_epoch(self, broker: int) -> int:
        known = self._image.brokers.get(broker)
        return -1 if known is None else known.epoch

    def _wanted(self, partition: Partition) -> tuple[int, ...]:
        """Itself, and of the others who is there; some fall behind now and then."""
        world, rng = self._world, self._world.rng
        if partition.recovery == Recovery.RECOVERING:
            return (self.id,)
        able = {each.id for each in self._image.brokers.values() if each.active}
        keeps = 1.0 if world.healed else 0.75
        others = [each for each in partition.replicas if each != self.id and each in able and rng.random() < keeps]
        return (self.id, *others)


# --- an administrator ---------------------------------------------------------------------------------------


class Administrator:
    """Creates, grows, deletes, moves, configures; wants preferred leaders; forgets brokers that are fenced."""

    def __init__(self, world: RequestWorld) -> None:
        self._world = world
        self._numbers = 0
        self.is_done = False
        self._pause_s = world.rng.choice((0.03, 0.06, 0.15))

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    async def live(self) -> None:
        world, rng = self._world, self._world.rng
        acts = (
            self._create, self._create, self._delete, self._grow, self._grow, self._prefer, self._prefer, self._prefer,
            self._move, self._move, self._configure, self._permit, self._forget, self._elect_unclean,
        )  # fmt: skip
        while not world.log.image.topics and not world.healed:
            await asyncio.sleep(0.02)
        while not world.healed:
            await asyncio.sleep(rng.random() * self._pause_s)
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                rng.choice(acts)()
        await self._end()

    async def _end(self) -> None:
        while True:
            name = f"last-{self._next()}"
            reply = await self._world.ask(CreateTopicsRequest((CreatableTopic(name, 2, 2),)), 7)
            if reply is not None and reply.topics[0].error_code == Error.NONE:
                self.is_done = True
                return
            await asyncio.sleep(0.05)

    def _create(self) -> None:
        rng = self._world.rng
        names = rng.sample(("a", "b", "c", "d", f"{LOOSE}-a"), rng.choice((1, 1, 2)))
        topics = tuple(CreatableTopic(name, rng.randint(1, 4), rng.randint(1, 3)) for name in names)
        self._world.ask(CreateTopicsRequest(topics), 7)

    def _topics(self) -> list[Topic]:
        return sorted(self._world.log.image.topics.values(), key=lambda topic: topic.name)

    def _topic(self) -> Topic | None:
        topics = self._topics()
        return self._world.rng.choice(topics) if topics else None

    def _delete(self) -> None:
        topic = self._topic()
        if topic is not None and topic.name not in COPIED:
            self._world.ask(DeleteTopicsRequest((DeleteTopicState(topic_id=topic.id),)), 6)

    def _grow(self) -> None:
        topic = self._topic()
        if topic is not None and len(topic.partitions) < 8:
            count = len(topic.partitions) + self._world.rng.randint(1, 2)
            self._world.ask(CreatePartitionsRequest((CreatePartitionsTopic(topic.name, count, None),)), 3)

    def _prefer(self) -> None:
        asked: tuple[ElectLeadersTopic, ...] | None = None
        topic = self._topic()
        if topic is not None and self._world.rng.random() < 0.5:
            asked = (ElectLeadersTopic(topic.name, tuple(each.id for each in topic.partitions)),)
        self._world.ask(ElectLeadersRequest(ElectionType.PREFERRED, asked), 2)

    def _elect_unclean(self) -> None:
        loose = [topic for topic in self._topics() if topic.name.startswith(LOOSE)]
        asked = tuple(ElectLeadersTopic(topic.name, tuple(each.id for each in topic.partitions)) for topic in loose)
        if asked:
            self._world.ask(ElectLeadersRequest(ElectionType.UNCLEAN, asked), 2)

    def _move(self) -> None:
        rng, topic = self._world.rng, self._topic()
        if topic is None:
            return
        parts = []
        for each in topic.partitions:
            replicas = tuple(rng.sample((1, 2, 3, 4), rng.randint(1, 3)))
            parts.append(ReassignablePartition(each.id, None if rng.random() < 0.2 else replicas))
        self._world.ask(AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(topic.name, tuple(parts)),)), 0)

    def _configure(self) -> None:
        topic = self._topic()
        name = "nobody" if topic is None or self._world.rng.random() < 0.2 else topic.name
        change = IncrementalAlterableConfig("retention.ms", 0, str(1_000_000 + self._next()))
        resource = IncrementalAlterConfigsResource(ConfigType.TOPIC, name, (change,))
        self._world.ask(IncrementalAlterConfigsRequest((resource,)), 1)

    def _permit(self) -> None:
        """Now and then with a kind of resource that there is not."""
        rng = self._world.rng
        creations = tuple(
            AclCreation(2 if rng.random() < 0.9 else 1, "orders", 3, f"User:u{self._next()}", "*", 3, 3)
            for _ in range(rng.choice((1, 3, 8)))
        )
        self._world.ask(CreateAclsRequest(creations), 3)

    def _forget(self) -> None:
        fenced = [each.id for each in self._world.log.image.brokers.values() if each.fenced]
        if fenced:
            self._world.ask(UnregisterBrokerRequest(self._world.rng.choice(sorted(fenced))), 0)
