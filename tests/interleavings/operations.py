"""What may come at the same moment: requests of each kind that the controller decides, and its own duties.

In:   an image. Out: `KINDS`, by name: what makes one operation of that kind for that image, with some chance.
Elsewhere: the builders of requests (tests/support/admin_cases.py), running them (trial.py).
`large` ones go apart where more than `FEW` records are many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from migrator.controller.brokers import fence_longest_silent, heal_leaderships
from migrator.controller.decision import Record, Situation
from migrator.controller.partitions.elections import preferred_leaders, unclean_leaders
from migrator.model.image import Image
from migrator.model.values import Broker, Partition, Recovery, Topic
from migrator.wire.messages.brokers import (
    AllocateProducerIdsRequest,
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    RegistrationFeature,
    RegistrationListener,
    UnregisterBrokerRequest,
)
from migrator.wire.messages.configs import AlterClientQuotasEntry, AlterClientQuotasRequest, ClientQuotaOp
from migrator.wire.messages.partitions import (
    AlterPartitionPartition,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterPartitionTopic,
    ElectLeadersRequest,
    IsrBroker,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from migrator.wire.messages.security import AclCreation, CreateAclsRequest
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from migrator.wire.schema import Message
from tests.support import admin_cases as cases
from tests.support.builders import an_id
from tests.support.situations import CLUSTER

FEW: Final = 4
LARGE: Final = 6
"""Partitions, entries and names of what is to go apart."""
FAR: Final = 1 << 40
LONG: Final = 120
"""Characters of settings: more than a decision beside others looks at."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A request with its version, or a duty of the controller."""

    kind: str
    request: Message | None = None
    version: int = 0
    duty: Callable[[Situation], list[Record]] | None = None


Make = Callable[[Image, Random], tuple[Message, int]]


def _some_topic(image: Image, chance: Random) -> Topic:
    return image.topics[image.topic_ids[chance.choice(sorted(image.topic_ids))]]


def _some_broker(image: Image, chance: Random) -> Broker:
    return image.brokers[chance.choice(sorted(image.brokers))]


# --- leaders and in-sync sets ------------------------------------------------------------------------------


def _elect(kind: int) -> Make:
    return lambda image, chance: (ElectLeadersRequest(kind, None), 2)


def _wanted(image: Image, partition: Partition, chance: Random) -> tuple[int, ...]:
    """Mostly somebody leaves or comes; all in replica order."""
    others = [each for each in partition.replicas if each != partition.leader]
    active = [each for each in others if each in image.brokers and image.brokers[each].active]
    members = {partition.leader, *chance.sample(active, chance.randint(0, len(active)))}
    return tuple(each for each in partition.replicas if each in members)


def _alter_partition(*, large: bool) -> Make:
    def make(image: Image, chance: Random) -> tuple[Message, int]:
        led: dict[int, list[tuple[Topic, Partition]]] = {}
        for topic, partition in image.partitions():
            led.setdefault(partition.leader, []).append((topic, partition))
        leaders = sorted((each for each in led if each in image.brokers), key=lambda each: -len(led[each]))
        leader = leaders[0] if large else chance.choice(leaders)
        chosen = led[leader] if large else [chance.choice(led[leader])]
        by_topic: dict[bytes, list[AlterPartitionPartition]] = {}
        for topic, partition in chosen:
            isr = tuple(IsrBroker(each, image.brokers[each].epoch) for each in _wanted(image, partition, chance))
            proposal = AlterPartitionPartition(
                partition.id, partition.leader_epoch, (), isr, Recovery.RECOVERED, partition.partition_epoch
            )
            by_topic.setdefault(topic.id, []).append(proposal)
        topics = tuple(AlterPartitionTopic("", topic_id, tuple(each)) for topic_id, each in by_topic.items())
        return AlterPartitionRequest(leader, image.brokers[leader].epoch, topics), 3

    return make


def _move(*, large: bool, back: bool = False) -> Make:
    def make(image: Image, chance: Random) -> tuple[Message, int]:
        topic = image.topics[image.topic_ids["orders"]] if large else _some_topic(image, chance)
        chosen = topic.partitions if large else (chance.choice(topic.partitions),)
        replicas = None if back else tuple(chance.sample(sorted(image.brokers), 2))
        asked = tuple(ReassignablePartition(each.id, replicas) for each in chosen)
        return AlterPartitionReassignmentsRequest(cases.TIMEOUT_MS, (ReassignableTopic(topic.name, asked),)), 0

    return make


def _assign(image: Image, chance: Random) -> tuple[Message, int]:
    topic, broker = _some_topic(image, chance), _some_broker(image, chance)
    partition = chance.choice(topic.partitions)
    places = (AssignedTopic(topic.id, (AssignedPartition(partition.id),)),)
    directory = AssignedDirectory(broker.log_dirs[0], places)
    return AssignReplicasToDirsRequest(broker.id, broker.epoch, (directory,)), 0


# --- topics -------------------------------------------------------------------------------------------------


def _create(*, large: bool) -> Make:
    def make(image: Image, chance: Random) -> tuple[Message, int]:
        brokers = tuple(chance.sample(sorted(image.brokers), 2))
        name = chance.choice(("new", "other", "orders"))
        return cases.topics(cases.placed(name, *(brokers for _ in range(LARGE if large else 1)))), 7

    return make


def _create_anywhere(image: Image, chance: Random) -> tuple[Message, int]:
    return CreateTopicsRequest((CreatableTopic("anywhere", LARGE, 2),)), 7


def _delete(*, large: bool) -> Make:
    def make(image: Image, chance: Random) -> tuple[Message, int]:
        unknown = [f"unknown-{number}" for number in range(LARGE if large else 0)]
        return cases.deleted(_some_topic(image, chance).name, *unknown), 6

    return make


def _grow(*, large: bool) -> Make:
    def make(image: Image, chance: Random) -> tuple[Message, int]:
        topic = image.topics[image.topic_ids["orders" if large else "bills"]]
        more = chance.randint(1, 3)
        places = [chance.sample(sorted(image.brokers), len(topic.partitions[0].replicas)) for _ in range(more)]
        return cases.grown(topic.name, len(topic.partitions) + more, *places), 3

    return make


# --- brokers ------------------------------------------------------------------------------------------------


def _beat(*, want_fence: bool = False, want_shut_down: bool = False) -> Make:
    def make(image: Image, chance: Random) -> tuple[Message, int]:
        fitting = [each for each in image.brokers.values() if each.fenced != (want_fence or want_shut_down)]
        broker = chance.choice(sorted(fitting or image.brokers.values(), key=lambda each: each.id))
        return BrokerHeartbeatRequest(broker.id, broker.epoch, FAR, want_fence, want_shut_down), 1

    return make


def _register(image: Image, chance: Random) -> tuple[Message, int]:
    """Another run of a broker, whose session is over, or a new one."""
    broker = chance.choice([*sorted(image.brokers), 9])
    request = BrokerRegistrationRequest(
        broker_id=broker,
        cluster_id=CLUSTER,
        incarnation_id=an_id(f"another run of {broker}"),
        listeners=(RegistrationListener("PLAINTEXT", "h", 9092, 0),),
        features=(RegistrationFeature("metadata.version", 1, 21),),
        log_dirs=(an_id(f"dir-{broker}"),),
    )
    return request, 4


def _unregister(image: Image, chance: Random) -> tuple[Message, int]:
    return UnregisterBrokerRequest(_some_broker(image, chance).id), 0


def _producer_ids(image: Image, chance: Random) -> tuple[Message, int]:
    broker = _some_broker(image, chance)
    return AllocateProducerIdsRequest(broker.id, broker.epoch), 0


def _controller(image: Image, chance: Random) -> tuple[Message, int]:
    return ControllerRegistrationRequest(3001, an_id("controller"), zk_migration_ready=True), 0


# --- what administrators set --------------------------------------------------------------------------------


def _configs(type_: int, *, large: bool) -> Make:
    def make(image: Image, chance: Random) -> tuple[Message, int]:
        names: Sequence[str] = sorted(image.topic_ids) if type_ == cases.TOPIC else ("1", "")
        # a list of one entry, many times
        key, value = ("cleanup.policy", "delete") if type_ == cases.TOPIC else ("log.cleaner.threads", "2")
        operation = cases.APPEND if type_ == cases.TOPIC else cases.SET
        value = ",".join([value] * (LONG // len(value))) if large else value
        return cases.altered(type_, chance.choice(names), (key, operation, value)), 1

    return make


def _old_configs(image: Image, chance: Random) -> tuple[Message, int]:
    value = ("retention.ms", str(chance.randint(1, 3)))
    return cases.replaced(cases.TOPIC, _some_topic(image, chance).name, value), 2


def _quotas(*, large: bool) -> Make:
    def make(image: Image, chance: Random) -> tuple[Message, int]:
        entries = tuple(
            AlterClientQuotasEntry(
                (ClientQuotaEntity("user", f"u{number}"),),
                (ClientQuotaOp("producer_byte_rate", chance.randint(1, 3), chance.random() < 0.3),),
            )
            for number in range(LARGE if large else 1)
        )
        return AlterClientQuotasRequest(entries), 1

    return make


def _scram(image: Image, chance: Random) -> tuple[Message, int]:
    if chance.random() < 0.5:
        return cases.scram(deletions=(("u", 1),)), 0
    return cases.scram(("u", 1, 4096)), 0


def _acls(*, large: bool) -> Make:
    def make(image: Image, chance: Random) -> tuple[Message, int]:
        some = (AclCreation(2, f"t{number}", 3, "User:a", "*", 3, 3) for number in range(LARGE if large else 1))
        return CreateAclsRequest(tuple(some)), 3

    return make


def _no_acls(image: Image, chance: Random) -> tuple[Message, int]:
    return cases.acls_like(), 3


def _features(image: Image, chance: Random) -> tuple[Message, int]:
    return cases.features(("metadata.version", chance.choice((20, 21)), 2)), 1


def _list(image: Image, chance: Random) -> tuple[Message, int]:
    return ListPartitionReassignmentsRequest(cases.TIMEOUT_MS, None), 0


REQUESTS: Final[dict[str, Make]] = {
    "elect preferred": _elect(0),
    "elect unclean": _elect(1),
    "alter partition": _alter_partition(large=False),
    "alter partition, large": _alter_partition(large=True),
    "create": _create(large=False),
    "create, large": _create(large=True),
    "create anywhere": _create_anywhere,
    "delete": _delete(large=False),
    "delete, large": _delete(large=True),
    "grow": _grow(large=False),
    "grow, large": _grow(large=True),
    "move": _move(large=False),
    "move, large": _move(large=True),
    "take back, large": _move(large=True, back=True),
    "list moves": _list,
    "assign directories": _assign,
    "unfence": _beat(),
    "fence": _beat(want_fence=True),
    "shut down": _beat(want_shut_down=True),
    "register": _register,
    "unregister": _unregister,
    "producer ids": _producer_ids,
    "register controller": _controller,
    "topic configs": _configs(cases.TOPIC, large=False),
    "topic configs, large": _configs(cases.TOPIC, large=True),
    "broker configs": _configs(cases.BROKER, large=False),
    "topic configs, old form": _old_configs,
    "quotas": _quotas(large=False),
    "quotas, large": _quotas(large=True),
    "scram": _scram,
    "acls": _acls(large=False),
    "acls, large": _acls(large=True),
    "delete acls": _no_acls,
    "features": _features,
}


def _fenced(situation: Situation) -> list[Record]:
    found = fence_longest_silent(situation)
    return [] if found is None else found[1]


DUTIES: Final[dict[str, Callable[[Situation], list[Record]]]] = {
    "duty: fence the silent": _fenced,
    "duty: balance": lambda situation: preferred_leaders(situation, 1_000),
    "duty: unclean leaders": lambda situation: unclean_leaders(situation, 1_000),
    "duty: heal": heal_leaderships,
}

KINDS: Final = (*REQUESTS, *DUTIES)


def an_operation(kind: str, image: Image, chance: Random) -> Operation:
    if kind in DUTIES:
        return Operation(kind, duty=DUTIES[kind])
    request, version = REQUESTS[kind](image, chance)
    return Operation(kind, request, version)
