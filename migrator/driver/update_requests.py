"""What ZooKeeper-mode brokers must hear: UpdateMetadata, LeaderAndIsr, StopReplica, as encoded requests.

In:   a complete image (full send) or a delta, and the claim whose epoch every request carries.
Out:  orders: one encoded request for one broker each, in the order in which that broker must get them. A full update
      is encoded once; what a broker has of its own in it is its epoch.
Elsewhere: the ordered channel per broker, retries and answers (node.brokers.broker_channels); whether a full send may
leave at all (guard.py).
Rules: a broker that is new, or came back, or has a new epoch gets everything (R-866-06), others what changed. A FULL
request is complete or it is not sent: a broker moves aside every log that it does not name. What is deleted is told
before what is created, since it may have the same name (K-21). A fenced broker is neither live nor online (K-18).
Source: KIP-866, R-866-04; Kafka 3.9 `MigrationPropagator`, `ControllerChannelManager`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeVar, overload

from migrator.driver.claim import Claim
from migrator.model.draft import Delta
from migrator.model.image import Image
from migrator.model.values import Broker, Partition, Topic
from migrator.wire.codec import encode, encode_part
from migrator.wire.messages.control import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from migrator.wire.primitives import ZERO_UUID
from migrator.wire.schema import Encoded, Message

LEADER_AND_ISR: Final = 4
STOP_REPLICA: Final = 5
UPDATE_METADATA: Final = 6
VERSIONS: Final = {LEADER_AND_ISR: 7, STOP_REPLICA: 4, UPDATE_METADATA: 8}
"""Sent as exactly these: only they can say that the sender is a KRaft controller."""

S = TypeVar("S")
T = TypeVar("T")

DELETED_LEADER: Final = -2
DELETED_EPOCH: Final = -2
_BROKER_EPOCH_AT: Final = 9
"""Bytes before the broker epoch in all three bodies: controller id, the KRaft flag, controller epoch."""


class UpdateKind(IntEnum):
    """The type field: UNKNOWN refreshes, INCREMENTAL adds, FULL replaces."""

    UNKNOWN = 0
    INCREMENTAL = 1
    FULL = 2


@dataclass(frozen=True, slots=True)
class FullSend:
    """Which full send: one of a broker in one of its lives; a later one has a higher generation."""

    broker: int
    broker_epoch: int
    generation: int


@dataclass(frozen=True, slots=True)
class BrokerUpdate:
    """One request for one broker. shared: its body, without header; several brokers' updates may have the same one.

    full_send: the newest one to this broker when the order was queued; None before it is queued.
    What leaves is `parts`: the shared bytes with 8 bytes replaced, which decode to `broker_epoch` and to nothing else.
    """

    broker: int
    broker_epoch: int
    api_key: int
    kind: UpdateKind
    partitions: int
    shared: bytes
    full_send: FullSend | None = None

    @property
    def parts(self) -> tuple[bytes, memoryview]:
        """The body in two parts, of which the large one is no copy."""
        epoch = self.broker_epoch.to_bytes(8, "big", signed=True)
        return self.shared[:_BROKER_EPOCH_AT] + epoch, memoryview(self.shared)[_BROKER_EPOCH_AT + 8 :]

    @property
    def body(self) -> bytes:
        """A copy of the whole body, as it leaves."""
        return b"".join(self.parts)


def reachable(image: Image) -> list[Broker]:
    """Brokers that get updates: in ZooKeeper mode and not fenced."""
    return sorted((each for each in image.brokers.values() if each.migrating and not each.fenced), key=_by_id)


def _by_id(broker: Broker) -> int:
    return broker.id


# --- everything -------------------------------------------------------------------------------------------


def full_updates(image: Image, claim: Claim, brokers: Collection[int], listener: str) -> list[BrokerUpdate]:
    """Per broker: FULL UpdateMetadata, FULL LeaderAndIsr, and the FULL UpdateMetadata again.

    The first one comes before any leadership, since a coordinator that is made leader and finds a partition unknown
    takes it for deleted. It is FULL, unlike stock's: brokers forget topics by their ids, and after any other request a
    topic that was made again under its name would have its new id, and partitions of the old one for ever (K-20).
    """
    recipients = [broker for broker in reachable(image) if broker.id in brokers]
    if not recipients:
        return []  # at a fail-over every broker waits for its own, and this is the loop
    topics = sorted(image.topics.values(), key=lambda topic: topic.name)
    unfenced = _unfenced(image)
    states = _Made(lambda topic: _metadata_topic(unfenced, claim, topic, topic.partitions), topics)
    count = image.partition_count()
    complete = _Shared(_update_metadata(image, claim, states, UpdateKind.FULL))
    hosted = _encoded_by_host(topics, claim, frozenset(broker.id for broker in recipients))
    updates = []
    for broker in recipients:
        everything = complete.update(broker, UpdateKind.FULL, count)
        updates += [everything, _full_leader_and_isr(image, claim, broker, hosted.pop(broker.id), listener), everything]
    return updates


def healing_updates(
    image: Image, claim: Claim, broker: Broker, listener: str, leftovers: Iterable[tuple[str, int]]
) -> list[BrokerUpdate]:
    """What a broker that refuses its FULL LeaderAndIsr gets before the next one.

    It does so as long as one of its logs has no topic id, as when it was killed right after it made one. Those that it
    does not host any more (`leftovers`: topic and partition) it drops; the others get their ids from a request that
    only adds. Errors of single partitions (a log of an earlier topic of that name) end with the FULL request.
    """
    stops: dict[str, list[StopReplicaPartitionState]] = defaultdict(list)
    for topic, partition in leftovers:
        stops[topic].append(StopReplicaPartitionState(partition, DELETED_EPOCH, True))
    here = ((topic, each) for topic, each in image.partitions() if broker.id in each.replicas)
    hosted = _by_host(here).get(broker.id, {})
    updates = [_stop_replica(claim, broker, stops)] if stops else []
    return [*updates, _leader_and_isr(image, claim, broker, hosted, UpdateKind.INCREMENTAL, listener)]


# --- what changed -----------------------------------------------------------------------------------------


def delta_updates(
    delta: Delta, claim: Claim, brokers: Collection[int], listener: str, topics: Collection[bytes], *, refresh: bool
) -> list[BrokerUpdate]:
    """What brokers that know the image before the delta must hear.

    brokers: those that got everything before; others get `full_updates`.
    topics:  which of the delta's topics to send (the others wait for ZooKeeper).
    refresh: begin with who is alive, since some broker changed.
    """
    image = delta.after
    listeners = [broker for broker in reachable(image) if broker.id in brokers]
    wanted = delta.topics & frozenset(topics)
    updates: list[BrokerUpdate] = []
    if refresh:
        alive = _Shared(_update_metadata(image, claim, (), UpdateKind.UNKNOWN))
        updates += [alive.update(broker, UpdateKind.UNKNOWN, 0) for broker in listeners]
    updates += _deletion_orders(delta, claim, listeners, wanted)
    updates += _change_updates(delta, claim, listeners, wanted, listener)
    return updates


def _deletion_orders(delta: Delta, claim: Claim, brokers: list[Broker], wanted: Iterable[bytes]) -> list[BrokerUpdate]:
    gone = [
        delta.before.topics[topic_id]
        for topic_id in wanted
        if topic_id in delta.before.topics and topic_id not in delta.after.topics
    ]
    gone.sort(key=lambda topic: topic.name)
    if not gone:
        return []
    unfenced = _unfenced(delta.after)
    states = [_deleted_topic(unfenced, claim, topic) for topic in gone]
    count = sum(len(topic.partitions) for topic in gone)
    forget = _Shared(_update_metadata(delta.after, claim, states, UpdateKind.INCREMENTAL))
    updates = [forget.update(broker, UpdateKind.INCREMENTAL, count) for broker in brokers]
    hosted = _by_host((topic, partition) for topic in gone for partition in topic.partitions)
    for broker in brokers:
        mine = hosted.get(broker.id)
        if mine:
            stops = {
                topic.name: tuple(StopReplicaPartitionState(each.id, DELETED_EPOCH, True) for each in partitions)
                for topic, partitions in mine.values()
            }
            updates.append(_stop_replica(claim, broker, stops))
    return updates


def _change_updates(
    delta: Delta, claim: Claim, brokers: list[Broker], wanted: Iterable[bytes], listener: str
) -> list[BrokerUpdate]:
    changes = [(topic, partition) for topic, partition, _ in _changed_partitions(delta, wanted)]
    if not changes:
        return []
    image = delta.after
    hosted = _by_host(changes)
    by_topic: dict[bytes, tuple[Topic, list[Partition]]] = {}
    for topic, partition in changes:
        by_topic.setdefault(topic.id, (topic, []))[1].append(partition)
    unfenced = _unfenced(image)
    states = [_metadata_topic(unfenced, claim, topic, partitions) for topic, partitions in by_topic.values()]
    update = _Shared(_update_metadata(image, claim, states, UpdateKind.INCREMENTAL))
    updates = [
        _leader_and_isr(image, claim, broker, hosted[broker.id], UpdateKind.INCREMENTAL, listener)
        for broker in brokers
        if broker.id in hosted
    ]
    updates += [update.update(broker, UpdateKind.INCREMENTAL, len(changes)) for broker in brokers]
    return updates + _removal_updates(delta, claim, brokers, wanted)


def _removal_updates(delta: Delta, claim: Claim, brokers: list[Broker], wanted: Iterable[bytes]) -> list[BrokerUpdate]:
    """Replicas that a reassignment took away."""
    stops: dict[int, dict[str, list[StopReplicaPartitionState]]] = defaultdict(lambda: defaultdict(list))
    for topic, partition, before in _changed_partitions(delta, wanted):
        for broker_id in set(before.replicas if before else ()) - set(partition.replicas):
            stops[broker_id][topic.name].append(StopReplicaPartitionState(partition.id, partition.leader_epoch, True))
    return [_stop_replica(claim, broker, stops[broker.id]) for broker in brokers if broker.id in stops]


def _changed_partitions(delta: Delta, wanted: Iterable[bytes]) -> list[tuple[Topic, Partition, Partition | None]]:
    """Partitions of `wanted` topics that are new or differ, with what they were before; by topic name, then id."""
    found = []
    topics = [delta.after.topics[topic_id] for topic_id in wanted if topic_id in delta.after.topics]
    for topic in sorted(topics, key=lambda each: each.name):
        before = delta.before.topics.get(topic.id)
        for partition in topic.partitions:
            was = None if before is None else before.partition(partition.id)
            if was != partition:
                found.append((topic, partition, was))
    return found


# --- the requests -----------------------------------------------------------------------------------------


class _Shared:
    """A body that is the same for every broker but for the broker's epoch: encoded once, and in memory once."""

    def __init__(self, request: Message) -> None:
        self._body = encode(request, VERSIONS[UPDATE_METADATA])

    def update(self, broker: Broker, kind: UpdateKind, partitions: int) -> BrokerUpdate:
        return BrokerUpdate(broker.id, broker.epoch, UPDATE_METADATA, kind, partitions, self._body)


class _Made(Sequence[T]):
    """Elements that are made while they are encoded, one by one: a million at once are hundreds of megabytes."""

    def __init__(self, make: Callable[[S], T], of: Sequence[S]) -> None:
        self._make = make
        self._of = of

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[T]:
        return map(self._make, self._of)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return _Made(self._make, self._of[index]) if isinstance(index, slice) else self._make(self._of[index])


Hosted = dict[bytes, tuple[Topic, list[Partition]]]


def _by_host(partitions: Iterable[tuple[Topic, Partition]]) -> dict[int, Hosted]:
    """By broker, by topic: the partitions of which it has a replica, in the order given."""
    hosted: dict[int, Hosted] = defaultdict(dict)
    for topic, partition in partitions:
        for broker in partition.replicas:
            hosted[broker].setdefault(topic.id, (topic, []))[1].append(partition)
    return dict(hosted)


def _update_metadata(
    image: Image, claim: Claim, states: Sequence[UpdateMetadataTopicState], kind: UpdateKind
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=claim.node,
        is_kraft_controller=True,
        type=kind,
        controller_epoch=claim.zk_epoch,
        topic_states=states,
        live_brokers=tuple(
            _live_broker(broker) for broker in sorted(image.brokers.values(), key=_by_id) if _live(broker)
        ),
    )


def _live(broker: Broker) -> bool:
    return not broker.fenced


def _live_brokers(image: Image) -> list[Broker]:
    return sorted(filter(_live, image.brokers.values()), key=_by_id)


def _live_broker(broker: Broker) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.id,
        endpoints=tuple(
            UpdateMetadataEndpoint(each.port, each.host, each.name, each.protocol) for each in broker.listeners
        ),
        rack=broker.rack,
    )


def _metadata_topic(
    unfenced: frozenset[int], claim: Claim, topic: Topic, partitions: Iterable[Partition]
) -> UpdateMetadataTopicState:
    return UpdateMetadataTopicState(
        topic_name=topic.name,
        topic_id=topic.id,
        partition_states=tuple(
            UpdateMetadataPartitionState(
                partition_index=partition.id,
                controller_epoch=claim.zk_epoch,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                isr=partition.isr,
                zk_version=partition.partition_epoch,
                replicas=partition.replicas,
                offline_replicas=_offline(unfenced, partition),
            )
            for partition in partitions
        ),
    )


def _unfenced(image: Image) -> frozenset[int]:
    return frozenset(number for number, broker in image.brokers.items() if not broker.fenced)


def _offline(unfenced: frozenset[int], partition: Partition) -> tuple[int, ...]:
    if unfenced.issuperset(partition.replicas):
        return ()
    return tuple(each for each in partition.replicas if each not in unfenced)


def _deleted_topic(unfenced: frozenset[int], claim: Claim, topic: Topic) -> UpdateMetadataTopicState:
    """Leader -2 makes a broker forget the partition, the zero id makes it forget the topic's id.

    offline_replicas means here what it means everywhere; stock names those that are online (K-19).
    """
    return UpdateMetadataTopicState(
        topic_name=topic.name,
        topic_id=ZERO_UUID,
        partition_states=tuple(
            UpdateMetadataPartitionState(
                partition_index=partition.id,
                controller_epoch=claim.zk_epoch,
                leader=DELETED_LEADER,
                leader_epoch=0,
                isr=partition.isr,
                zk_version=0,
                replicas=partition.replicas,
                offline_replicas=_offline(unfenced, partition),
            )
            for partition in topic.partitions
        ),
    )


def _leader_and_isr(
    image: Image, claim: Claim, broker: Broker, hosted: Hosted, kind: UpdateKind, listener: str
) -> BrokerUpdate:
    partitions = [partition for _, each in hosted.values() for partition in each]
    states = _Made(lambda each: _leader_topic(claim, *each), list(hosted.values()))
    leaders = _live_leaders(image, {partition.leader for partition in partitions}, listener)
    return _leader_and_isr_of(claim, broker, states, leaders, kind, len(partitions))


def _leader_and_isr_of(
    claim: Claim,
    broker: Broker,
    states: Sequence[LeaderAndIsrTopicState],
    leaders: tuple[LeaderAndIsrLiveLeader, ...],
    kind: UpdateKind,
    partitions: int,
) -> BrokerUpdate:
    request = LeaderAndIsrRequest(
        controller_id=claim.node,
        is_kraft_controller=True,
        controller_epoch=claim.zk_epoch,
        broker_epoch=broker.epoch,
        type=kind,
        topic_states=states,
        live_leaders=leaders,
    )
    body = encode(request, VERSIONS[LEADER_AND_ISR])
    return BrokerUpdate(broker.id, broker.epoch, LEADER_AND_ISR, kind, partitions, body)


@dataclass(slots=True)
class _EncodedHosted:
    """What one broker hosts. states: of its topics, encoded."""

    states: list[bytes] = field(default_factory=list)
    partitions: int = 0
    leaders: set[int] = field(default_factory=set)


def _encoded_by_host(topics: Iterable[Topic], claim: Claim, brokers: Collection[int]) -> dict[int, _EncodedHosted]:
    """By broker: what it hosts. The state of a partition is encoded once, for all its replicas."""
    hosted = {broker: _EncodedHosted() for broker in brokers}
    for topic in topics:
        here: dict[int, list[bytes]] = {}
        for partition in topic.partitions:
            told = [broker for broker in partition.replicas if broker in hosted]
            if not told:
                continue  # nearly all, where one broker came back
            state = encode_part(_leader_state(claim, partition), LeaderAndIsrRequest, VERSIONS[LEADER_AND_ISR])
            for broker in told:
                here.setdefault(broker, []).append(state)
                hosted[broker].leaders.add(partition.leader)
        for broker, states in here.items():
            of_topic = LeaderAndIsrTopicState(topic.name, topic.id, Encoded(states))
            mine = hosted[broker]
            mine.states.append(encode_part(of_topic, LeaderAndIsrRequest, VERSIONS[LEADER_AND_ISR]))
            mine.partitions += len(states)
    return hosted


def _full_leader_and_isr(
    image: Image, claim: Claim, broker: Broker, hosted: _EncodedHosted, listener: str
) -> BrokerUpdate:
    leaders = _live_leaders(image, hosted.leaders, listener)
    return _leader_and_isr_of(claim, broker, Encoded(hosted.states), leaders, UpdateKind.FULL, hosted.partitions)


def _leader_topic(claim: Claim, topic: Topic, partitions: Iterable[Partition]) -> LeaderAndIsrTopicState:
    return LeaderAndIsrTopicState(topic.name, topic.id, tuple(_leader_state(claim, each) for each in partitions))


def _leader_state(claim: Claim, partition: Partition) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=partition.id,
        controller_epoch=claim.zk_epoch,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        partition_epoch=partition.partition_epoch,
        replicas=partition.replicas,
        adding_replicas=partition.adding,
        removing_replicas=partition.removing,
        is_new=True,
        leader_recovery_state=partition.recovery,
    )


def _live_leaders(image: Image, leaders: Collection[int], listener: str) -> tuple[LeaderAndIsrLiveLeader, ...]:
    """Addresses of those leaders that live and have the inter-broker listener; a broker without it is left out."""
    found = []
    for leader in sorted(leaders):
        broker = image.brokers.get(leader)
        endpoint = None if broker is None or not _live(broker) else broker.listener(listener)
        if endpoint is not None:
            found.append(LeaderAndIsrLiveLeader(leader, endpoint.host, endpoint.port))
    return tuple(found)


def _stop_replica(
    claim: Claim, broker: Broker, stops: Mapping[str, Collection[StopReplicaPartitionState]]
) -> BrokerUpdate:
    request = StopReplicaRequest(
        controller_id=claim.node,
        is_kraft_controller=True,
        controller_epoch=claim.zk_epoch,
        broker_epoch=broker.epoch,
        topic_states=tuple(StopReplicaTopicState(name, tuple(states)) for name, states in sorted(stops.items())),
    )
    count = sum(len(states) for states in stops.values())
    return BrokerUpdate(
        broker.id, broker.epoch, STOP_REPLICA, UpdateKind.INCREMENTAL, count, encode(request, VERSIONS[STOP_REPLICA])
    )
