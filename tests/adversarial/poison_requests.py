"""Requests that nobody sends in earnest: every kind an administrator or a broker can send, with hostile values.

In:   the chance of a run, the cluster's id.
Out:  `Hostile`: a request (or raw bytes) and whom it is for. Whether it is refused or carried out is the receiver's
      affair; what has to hold afterwards is the run's (poison.py).
Never sent: what an administrator may rightly ask and brokers would suffer from (a quota for everybody, an
unregistration of a live broker, more replicas than a laboratory can hold).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from migrator.wire.messages.brokers import (
    AllocateProducerIdsRequest,
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    ControllerRegistrationRequest,
    RegistrationListener,
    UnregisterBrokerRequest,
)
from migrator.wire.messages.configs import (
    AlterableConfig,
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    AlterConfigsResource,
    ClientQuotaOp,
    FeatureUpdateKey,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    UpdateFeaturesRequest,
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
from migrator.wire.messages.security import (
    AclCreation,
    AlterUserScramCredentialsRequest,
    CreatableRenewers,
    CreateAclsRequest,
    CreateDelegationTokenRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from migrator.wire.schema import Message

BROKEN: Final = "XbrokenX"
"""Stands for as many bytes that are no UTF-8; the sender puts them in its place."""

NAMES: Final = (
    *(
        ".",
        "..",
        "",
        " ",
        "a/b",
        "../x",
        "a\x00b",
        "a\nb",
        "\x7f",
        "<default>",
        "__cluster_metadata",
        "%2e%2e",
        "~",
        "*",
    ),
    *("zoë", "日本", "😀", "e\u0301", "\u202eabc", BROKEN, "a" * 249, "a" * 250, "n" * 20_000),
)
TEXTS: Final = (
    "",
    " ",
    "NaN",
    "Infinity",
    "-Infinity",
    "٣",
    "true\u2003",
    "0x10",
    "1e3",
    "9" * 40,
    "-1",
    "x" * 32_767,
    BROKEN,
)
FLOATS: Final = (float("nan"), float("inf"), float("-inf"), -1.0, 0.0, -0.0, 5e-324, 1.7e308, 2.0**63)
INT16: Final = (-1, 0, 1, -(2**15), 2**15 - 1)
INT32: Final = (-1, 0, 1, -(2**31), 2**31 - 1, 77)
INT64: Final = (-1, 0, -(2**63), 2**63 - 1)
BYTES: Final = (b"", b"\x00", b"\xff" * 64, b"s" * 100_000)
OURS: Final = "topic-0"
TOPIC, BROKER = 2, 4
CONFIG_TYPES: Final = (0, TOPIC, BROKER, 8, 16, 32, -1, 127)
CONFIG_KEYS: Final = (
    "retention.ms",
    "cleanup.policy",
    "compression.type",
    "",
    "no.such.key",
    "..",
    BROKEN,
    "k" * 32_767,
)
QUOTAS: Final = ("producer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate", "")
UNKNOWN_BROKERS: Final = (-1, 77, -(2**31), 2**31 - 1)


@dataclass(frozen=True, slots=True)
class Hostile:
    """what: in words. forwarded: goes to the controller inside an Envelope and to a broker as from a client; else
    straight to the controller, as a broker's own.
    """

    what: str
    request: Message = field(repr=False)
    forwarded: bool = True


Build = Callable[[Random, str], Message]


def create_topic(chance: Random, name: str) -> Message:
    configs = (CreatableTopicConfig(chance.choice(CONFIG_KEYS), chance.choice(TEXTS)),) if chance.random() < 0.3 else ()
    if chance.random() < 0.5:
        places = [(chance.choice((-1, 0, 1, 2**31 - 1)), chance.choices((0, 1, 2, *UNKNOWN_BROKERS), k=2))]
        assignments = tuple(CreatableReplicaAssignment(*place) for place in places)
        return CreateTopicsRequest((CreatableTopic(name, -1, -1, assignments, configs),))
    count, factor = chance.choice((-2, 0, 1, 2**31 - 1, -(2**31))), chance.choice(INT16)
    return CreateTopicsRequest((CreatableTopic(name, count, factor, (), configs),))


def create_odd_name(chance: Random, name: str) -> Message:
    """Nothing but the name is odd."""
    return CreateTopicsRequest((CreatableTopic(name, 1, 1),))


def delete_topic(chance: Random, name: str) -> Message:
    topic_id = chance.choice((bytes(16), b"\xff" * 16, chance.randbytes(16)))
    by_name = chance.random() < 0.5
    return DeleteTopicsRequest((DeleteTopicState(name if by_name else None, bytes(16) if by_name else topic_id),))


def create_partitions(chance: Random, name: str) -> Message:
    """Never a number that a real topic could grow to."""
    replicas = tuple(chance.choices((0, *UNKNOWN_BROKERS), k=3))
    count = chance.choice((-1, 0, 1, -(2**31), 2**31 - 1))
    topic = chance.choice((name, OURS))
    return CreatePartitionsRequest((CreatePartitionsTopic(topic, count, (CreatePartitionsAssignment(replicas),)),))


def change_config(chance: Random, name: str) -> Message:
    change = IncrementalAlterableConfig(
        chance.choice(CONFIG_KEYS), chance.choice((0, 1, 2, 3, -1, 127)), chance.choice(TEXTS)
    )
    kind = chance.choice(CONFIG_TYPES)
    resource = chance.choice((name, OURS)) if kind == TOPIC else name or "77"
    return IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(kind, resource, (change,)),))


def set_config(chance: Random, name: str) -> Message:
    kind = chance.choice(CONFIG_TYPES)
    values = (AlterableConfig(chance.choice(CONFIG_KEYS), chance.choice((*TEXTS, None))),)
    return AlterConfigsRequest((AlterConfigsResource(kind, name or "77", values),))


def set_quota(chance: Random, name: str) -> Message:
    """Of somebody who does not exist: what is for everybody would hold the run itself up."""
    kinds = chance.choice(
        (("user",), ("client-id",), ("ip",), ("user", "client-id"), ("",), ("user", "user"), ("group",))
    )
    entity = tuple(ClientQuotaEntity(kind, name) for kind in kinds)
    ops = (ClientQuotaOp(chance.choice(QUOTAS), chance.choice(FLOATS), chance.random() < 0.2),)
    return AlterClientQuotasRequest((AlterClientQuotasEntry(entity, ops),))


def set_credential(chance: Random, name: str) -> Message:
    if chance.random() < 0.3:
        return AlterUserScramCredentialsRequest((ScramCredentialDeletion(name, chance.choice((0, 1, 2, -1, 127))),), ())
    iterations = chance.choice((*INT32, 4096, 8192, 16384))
    made = ScramCredentialUpsertion(
        name, chance.choice((1, 1, 2, 0, 127)), iterations, chance.choice(BYTES), chance.choice(BYTES)
    )
    return AlterUserScramCredentialsRequest((), (made,))


def good_credential(chance: Random, name: str) -> Message:
    """Nothing but the name is odd."""
    made = ScramCredentialUpsertion(name, 1, 4096, b"salt" * 4, b"p" * 32)
    return AlterUserScramCredentialsRequest((), (made,))


def allow(chance: Random, name: str) -> Message:
    principal = chance.choice(("User:", "User", "", f"User:{name}", ":", "User:*"))
    entry = AclCreation(
        chance.choice((2, 2, 3, 4, 5, 6, 7, 0, 1, 127)),
        name,
        chance.choice((3, 3, 4, 0, 1, 2, 127)),
        principal,
        chance.choice(("*", "", name, "256.1.1.1", "::1")),
        chance.choice((3, 2, 0, 1, 127)),
        chance.choice((3, 3, 2, 0, 1)),
    )
    return CreateAclsRequest((entry,))


def disallow(chance: Random, name: str) -> Message:
    entry = DeleteAclsFilter(
        chance.choice((2, 1, 0, 127)), name, chance.choice((3, 1, 2, 127)), f"User:{name}", "*", 1, 1
    )
    return DeleteAclsRequest((entry,))


def create_token(chance: Random, name: str) -> Message:
    renewers = (CreatableRenewers(chance.choice(("User", "", "Group")), name),)
    owner_type, owner = chance.choice((None, "", "User")), chance.choice((None, name))
    return CreateDelegationTokenRequest(owner_type, owner, renewers, chance.choice(INT64))


def renew_token(chance: Random, name: str) -> Message:
    return RenewDelegationTokenRequest(chance.choice(BYTES), chance.choice(INT64))


def expire_token(chance: Random, name: str) -> Message:
    return ExpireDelegationTokenRequest(chance.choice(BYTES), chance.choice(INT64))


def move(chance: Random, name: str) -> Message:
    replicas = chance.choice((None, (), (0, 0), (-1,), (77,), (2**31 - 1, 0), tuple(range(1_000))))
    partition = ReassignablePartition(chance.choice(INT32), replicas)
    return AlterPartitionReassignmentsRequest(30_000, (ReassignableTopic(chance.choice((name, OURS)), (partition,)),))


def elect(chance: Random, name: str) -> Message:
    asked = (ElectLeadersTopic(chance.choice((name, OURS)), tuple(chance.choices(INT32, k=3))),)
    return ElectLeadersRequest(chance.choice((0, 1, -1, 127)), asked, chance.choice((-1, 0, 30_000)))


def update_features(chance: Random, name: str) -> Message:
    feature, level = chance.choice(("metadata.version", "kraft.version", name)), chance.choice((-1, 0, 2**15 - 1))
    update = FeatureUpdateKey(feature, level, upgrade_type=chance.choice((1, 2, 3, 0, 127)))
    return UpdateFeaturesRequest(30_000, (update,))


def unregister(chance: Random, name: str) -> Message:
    return UnregisterBrokerRequest(chance.choice(UNKNOWN_BROKERS))


def allocate_ids(chance: Random, name: str) -> Message:
    return AllocateProducerIdsRequest(chance.choice((0, *UNKNOWN_BROKERS)), chance.choice(INT64))


def heartbeat(chance: Random, name: str) -> Message:
    """In the name of a real broker, of an earlier or a later life of it."""
    broker, epoch, offset = chance.choice((0, 1, *UNKNOWN_BROKERS)), chance.choice(INT64), chance.choice(INT64)
    return BrokerHeartbeatRequest(broker, epoch, offset, True, chance.random() < 0.5, (b"\xff" * 16,))


def alter_partition(chance: Random, name: str) -> Message:
    isr = tuple(IsrBroker(chance.choice(INT32), chance.choice(INT64)) for _ in range(3))
    number, leader_epoch, partition_epoch = chance.choices(INT32, k=3)
    partition = AlterPartitionPartition(number, leader_epoch, (), isr, chance.choice((0, 1, 127)), partition_epoch)
    topic = AlterPartitionTopic(topic_id=chance.choice((bytes(16), b"\xff" * 16)), partitions=(partition,))
    return AlterPartitionRequest(chance.choice((0, *UNKNOWN_BROKERS)), chance.choice(INT64), (topic,))


def assign_directories(chance: Random, name: str) -> Message:
    topic = AssignedTopic(chance.choice((bytes(16), b"\xff" * 16)), (AssignedPartition(chance.choice(INT32)),))
    directory = AssignedDirectory(chance.choice((bytes(16), b"\xff" * 16)), (topic,))
    return AssignReplicasToDirsRequest(chance.choice((0, *UNKNOWN_BROKERS)), chance.choice(INT64), (directory,))


def register_controller(chance: Random, name: str) -> Message:
    """Of nobody's id: the registration of a real one is renewed only by its own next life."""
    listeners = (RegistrationListener(name, name, chance.choice((0, 65535)), chance.choice(INT16)),)
    return ControllerRegistrationRequest(chance.choice((-1, 77, 2**31 - 1)), chance.randbytes(16), True, listeners)


FORWARDED: Final[dict[str, Build]] = {
    "create topic": create_topic,
    "create topic, odd name only": create_odd_name,
    "delete topic": delete_topic,
    "create partitions": create_partitions,
    "change config": change_config,
    "set config": set_config,
    "set quota": set_quota,
    "set credential": set_credential,
    "set credential, odd name only": good_credential,
    "create ACL": allow,
    "delete ACL": disallow,
    "create token": create_token,
    "renew token": renew_token,
    "expire token": expire_token,
    "move replicas": move,
    "elect leaders": elect,
    "update features": update_features,
    "unregister broker": unregister,
}
"""What an administrator can ask."""

OF_BROKERS: Final[dict[str, Build]] = {
    "allocate producer ids": allocate_ids,
    "heartbeat": heartbeat,
    "alter partition": alter_partition,
    "assign directories": assign_directories,
    "register controller": register_controller,
}
"""What brokers and controllers send for themselves."""


def hostile_requests(chance: Random, kind: str) -> Iterator[Hostile]:
    """One request of this kind for each odd name; the other values are the seed's."""
    build = (FORWARDED | OF_BROKERS)[kind]
    for name in NAMES:
        shown = name if len(name) < 30 else f"{name[:4]}… ({len(name)})"
        yield Hostile(f"{kind} {shown!r}", build(chance, name), kind in FORWARDED)


def large_requests(chance: Random) -> Iterator[Hostile]:
    """Too much of one thing: what no znode holds, and what just fits."""
    for count, length in ((2_000, 20), (30_000, 100)):
        entries = tuple(
            AclCreation(TOPIC, f"many-{count}", 3, f"User:{'u' * length}{number}", "*", 3, 3) for number in range(count)
        )
        yield Hostile(f"{count} ACLs on one resource", CreateAclsRequest(entries))
    yield Hostile("60000 partitions of three replicas", CreateTopicsRequest((CreatableTopic("wide", 60_000, 3),)))
    quotas = tuple(
        AlterClientQuotasEntry((ClientQuotaEntity("user", f"u{number}"),), (ClientQuotaOp("producer_byte_rate", 1e6),))
        for number in range(1_000)
    )
    yield Hostile("1000 quotas in one request", AlterClientQuotasRequest(quotas))
    values = tuple(IncrementalAlterableConfig(f"no.such.key.{number}", 0, "x" * 1_000) for number in range(2_000))
    resource = IncrementalAlterConfigsResource(TOPIC, OURS, values)
    yield Hostile("2 MB of configuration for one topic", IncrementalAlterConfigsRequest((resource,)))
    lists = tuple(ReassignablePartition(number, tuple(range(100))) for number in range(5_000))
    yield Hostile(
        "5000 moves to 100 brokers", AlterPartitionReassignmentsRequest(30_000, (ReassignableTopic(OURS, lists),))
    )
    big = ScramCredentialUpsertion("big", 1, 4096, b"s" * 900_000, b"p" * 900_000)
    yield Hostile("1.8 MB of a credential", AlterUserScramCredentialsRequest((), (big,)))
