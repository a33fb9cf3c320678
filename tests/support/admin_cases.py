"""Some hundred requests of administrators and brokers, valid and not, in an order in which each meets what came before.

In:   nothing.
Out:  `CASES`: what is asked, as a message or as a function of the side that is asked (its own topic ids and epochs).
Elsewhere: asking stock and ours, and comparing (tests/e2e/test_admin_differences.py).
Placement is given everywhere, since each side draws its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from migrator.wire.messages.brokers import (
    AllocateProducerIdsRequest,
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    DescribeClusterRequest,
    RegistrationFeature,
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
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from migrator.wire.messages.raft import AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest
from migrator.wire.messages.security import (
    AclCreation,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreateDelegationTokenRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from migrator.wire.messages.shared import ClientQuotaEntity, RaftEndpoint
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
from tests.support.builders import an_id

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
TIMEOUT_MS: Final = 30_000
BROKERS: Final = (1, 2, 3, 4)
FAR: Final = 1 << 40


@dataclass(slots=True)
class Known:
    """What one side gave to whom: topic ids by name, broker epochs, the cluster, its own node id."""

    cluster_id: str
    node_id: int
    ids: dict[str, bytes] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    raft_epoch: int = 1


Ask = Callable[[Known], Message]


@dataclass(frozen=True, slots=True)
class Case:
    what: str
    ask: Ask


def directories(broker: int) -> tuple[bytes, ...]:
    """Broker 1 has two."""
    return tuple(an_id(f"dir-{broker}-{number}") for number in range(2 if broker == 1 else 1))


def registration(cluster_id: str, broker: int, run: str = "run", dirs: Sequence[bytes] | None = None) -> Message:
    return BrokerRegistrationRequest(
        broker_id=broker,
        cluster_id=cluster_id,
        incarnation_id=an_id(f"{run}-{broker}"),
        listeners=(RegistrationListener("PLAINTEXT", "127.0.0.1", 9090 + broker, 0),),
        features=(RegistrationFeature("metadata.version", 1, 21), RegistrationFeature("kraft.version", 0, 1)),
        rack=None,
        log_dirs=directories(broker) if dirs is None else dirs,
    )


def beat(broker: int, *, fence: bool = False, leave: bool = False, failed: Sequence[bytes] = ()) -> Ask:
    return lambda side: BrokerHeartbeatRequest(broker, side.epochs.get(broker, 0), FAR, fence, leave, failed)


# --- topics -----------------------------------------------------------------------------------------------


def placed(name: str, *replicas: Sequence[int], **configs: str | None) -> CreatableTopic:
    at = tuple(CreatableReplicaAssignment(number, each) for number, each in enumerate(replicas))
    given = tuple(CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items())
    return CreatableTopic(name, -1, -1, at, given)


def topics(*made: CreatableTopic, trial: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(made, TIMEOUT_MS, trial)


def of_topics() -> Iterator[tuple[str, Message | Ask]]:
    yield "orders", topics(placed("orders", (1, 2, 3), (2, 3, 1), (3, 1, 2)))
    yield "two, one of them there", topics(placed("orders", (1,)), placed("bills", (1, 2), (2, 1)))
    yield "configured", topics(placed("kept", (4, 1), retention_ms="1000", cleanup_policy="compact"))
    yield "a trial", topics(placed("tried", (1,)), trial=True)
    yield "a trial of one that is there", topics(placed("orders", (1,)), trial=True)
    yield "twice in one request", topics(placed("twice", (1,)), placed("twice", (2,)))
    for name in ("", ".", "..", "a/b", "x" * 250, "umläut", "__cluster_metadata", "with space"):
        yield f"named {name[:12]!r}", topics(placed(name, (1,)))
    yield "colliding a.b", topics(placed("a.b", (1,)))
    yield "colliding a_b", topics(placed("a_b", (1,)))
    yield "colliding in one request", topics(placed("c.d", (1,)), placed("c_d", (1,)))
    for what, replicas in {
        "on nobody": ((),),
        "on a broker twice": ((1, 1),),
        "on an unknown broker": ((9,),),
        "on a negative broker": ((-1,),),
        "of uneven sizes": ((1, 2), (1,)),
    }.items():
        yield what, topics(placed(f"t{len(what)}", *replicas))
    gap = (CreatableReplicaAssignment(0, (1,)), CreatableReplicaAssignment(2, (1,)))
    yield "with a gap", topics(CreatableTopic("gap", -1, -1, gap))
    twice = (CreatableReplicaAssignment(0, (1,)), CreatableReplicaAssignment(0, (2,)))
    yield "a partition twice", topics(CreatableTopic("again", -1, -1, twice))
    yield "both counts and places", topics(CreatableTopic("both", 1, -1, (CreatableReplicaAssignment(0, (1,)),)))
    yield "both factor and places", topics(CreatableTopic("both", -1, 1, (CreatableReplicaAssignment(0, (1,)),)))
    for partitions, factor in ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 9), (10_001, 1)):
        yield f"{partitions} partitions, factor {factor}", topics(CreatableTopic("odd", partitions, factor))
    for key, value in (("retention.ms", "x"), ("no.such.key", "1"), ("cleanup.policy", "burn"), ("retention.ms", None),
                       ("min.insync.replicas", "0"), ("segment.bytes", "1"), ("compression.type", "zip")):  # fmt: skip
        yield f"with {key}={value}", topics(placed("set", (1,), **{key.replace(".", "_"): value}))
    yield "none at all", topics()
    yield "everything by default", topics(CreatableTopic("default", -1, 4))


def deleted(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(tuple(DeleteTopicState(each) for each in names), (), TIMEOUT_MS)


def of_deletions() -> Iterator[tuple[str, Message | Ask]]:
    yield "one", deleted("a.b")
    yield "again", deleted("a.b")
    yield "unknown and known", deleted("nothing", "default")
    yield "twice", deleted("kept", "kept")
    yield "by an unknown id", DeleteTopicsRequest((DeleteTopicState(None, an_id("nowhere")),), (), TIMEOUT_MS)
    yield "by neither", DeleteTopicsRequest((DeleteTopicState(None),), (), TIMEOUT_MS)
    yield "by both", lambda side: DeleteTopicsRequest((DeleteTopicState("kept", side.ids["kept"]),), (), TIMEOUT_MS)
    yield (
        "by name and id in two",
        lambda side: DeleteTopicsRequest(
            (DeleteTopicState("kept"), DeleteTopicState(None, side.ids["kept"])), (), TIMEOUT_MS
        ),
    )
    yield "by id", lambda side: DeleteTopicsRequest((DeleteTopicState(None, side.ids["kept"]),), (), TIMEOUT_MS)
    yield "none at all", deleted()


def grown(name: str, count: int, *replicas: Sequence[int], trial: bool = False) -> CreatePartitionsRequest:
    at = tuple(CreatePartitionsAssignment(each) for each in replicas) or None
    return CreatePartitionsRequest((CreatePartitionsTopic(name, count, at),), TIMEOUT_MS, trial)


def of_growth() -> Iterator[tuple[str, Message | Ask]]:
    yield "one more", grown("bills", 3, (1, 2))
    yield "a trial", grown("bills", 4, (1, 2), trial=True)
    for count in (3, 2, 0, -1):
        yield f"to {count}", grown("bills", count)
    yield "an unknown topic", grown("nothing", 3)
    yield "too few places", grown("bills", 5, (1, 2))
    yield "too many places", grown("bills", 4, (1, 2), (2, 1))
    for replicas in ((1,), (1, 1), (1, 9), (), (1, 2, 3)):
        yield f"on {replicas}", grown("bills", 4, replicas)
    both = (CreatePartitionsTopic("bills", 4, None), CreatePartitionsTopic("bills", 5, None))
    yield "twice", CreatePartitionsRequest(both, TIMEOUT_MS)


# --- configurations ---------------------------------------------------------------------------------------


def altered(type_: int, name: str, *changes: tuple[str, int, str | None], trial: bool = False) -> Message:
    configs = tuple(IncrementalAlterableConfig(*each) for each in changes)
    return IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(type_, name, configs),), trial)


def replaced(type_: int, name: str, *values: tuple[str, str | None], trial: bool = False) -> Message:
    configs = tuple(AlterableConfig(*each) for each in values)
    return AlterConfigsRequest((AlterConfigsResource(type_, name, configs),), trial)


SET, DELETE, APPEND, SUBTRACT = range(4)


def of_configs() -> Iterator[tuple[str, Message | Ask]]:
    yield "set", altered(TOPIC, "orders", ("retention.ms", SET, "1000"))
    yield "set again", altered(TOPIC, "orders", ("retention.ms", SET, "1000"))
    yield "a trial", altered(TOPIC, "orders", ("retention.ms", SET, "5"), trial=True)
    yield "set to nothing", altered(TOPIC, "orders", ("retention.ms", SET, None))
    yield "delete", altered(TOPIC, "orders", ("retention.ms", DELETE, None))
    yield "delete what is not set", altered(TOPIC, "orders", ("retention.ms", DELETE, None))
    yield "append", altered(TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))
    yield "append again", altered(TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))
    yield "subtract", altered(TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete"))
    yield "append to what is no list", altered(TOPIC, "orders", ("retention.ms", APPEND, "1"))
    yield "append to a broker's list", altered(BROKER, "", ("ssl.enabled.protocols", APPEND, "TLSv1.1"))
    yield "subtract from a broker's list", altered(BROKER, "", ("log.cleanup.policy", SUBTRACT, "compact"))
    yield "append empty parts", altered(BROKER, "1", ("metric.reporters", APPEND, ",a,,b,"))
    yield "append nothing", altered(BROKER, "1", ("kafka.metrics.reporters", APPEND, ","))
    yield "append to what is no list of a broker", altered(BROKER, "", ("log.cleaner.threads", APPEND, "1"))
    yield (
        "append under a listener's prefix",
        altered(BROKER, "1", ("listener.name.x.ssl.enabled.protocols", APPEND, "TLSv1.2")),
    )
    yield "the same key twice", altered(TOPIC, "orders", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    yield "one good, one bad", altered(TOPIC, "orders", ("retention.ms", SET, "7"), ("segment.bytes", SET, "x"))
    yield "an unknown topic", altered(TOPIC, "nothing", ("retention.ms", SET, "7"))
    yield "a broker", altered(BROKER, "1", ("log.cleaner.threads", SET, "2"))
    yield "all brokers", altered(BROKER, "", ("min.insync.replicas", SET, "1"))
    yield "a broker that is not there", altered(BROKER, "9", ("log.cleaner.threads", SET, "2"))
    yield "a broker without a number", altered(BROKER, "one", ("log.cleaner.threads", SET, "2"))
    yield "a logger", altered(LOGGER, "1", ("kafka", SET, "DEBUG"))
    yield "client metrics", altered(METRICS, "m", ("interval.ms", SET, "1000"), ("metrics", SET, "*"))
    yield "a group", altered(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    yield "an unknown type", altered(77, "x", ("k", SET, "v"))
    one = IncrementalAlterConfigsResource(TOPIC, "orders", (IncrementalAlterableConfig("retention.ms", SET, "3"),))
    yield "a resource twice", IncrementalAlterConfigsRequest((one, one))
    yield "nothing of it", altered(TOPIC, "orders")
    yield "old form", replaced(TOPIC, "bills", ("retention.ms", "9"), ("segment.bytes", "1048576"))
    yield "old form, one left out", replaced(TOPIC, "bills", ("retention.ms", "9"))
    yield "old form, nothing", replaced(TOPIC, "bills")
    yield "old form, no value", replaced(TOPIC, "bills", ("retention.ms", None))
    yield "old form, bad", replaced(TOPIC, "bills", ("retention.ms", "x"))
    yield "old form, a trial", replaced(TOPIC, "bills", ("retention.ms", "8"), trial=True)
    yield "old form, unknown topic", replaced(TOPIC, "nothing", ("retention.ms", "8"))
    yield "old form, client metrics", replaced(METRICS, "m", ("interval.ms", "2000"))


# --- quotas, credentials, ACLs, tokens --------------------------------------------------------------------


def quota(*entity: tuple[str, str | None], key: str = "producer_byte_rate", value: float = 1000.0, remove: bool = False,
          trial: bool = False) -> AlterClientQuotasRequest:  # fmt: skip
    whom = tuple(ClientQuotaEntity(*each) for each in entity)
    return AlterClientQuotasRequest((AlterClientQuotasEntry(whom, (ClientQuotaOp(key, value, remove),)),), trial)


def of_quotas() -> Iterator[tuple[str, Message | Ask]]:
    yield "a user", quota(("user", "a"))
    yield "a user's client", quota(("client-id", "c"), ("user", "a"))
    yield "everybody", quota(("user", None), key="request_percentage", value=50.0)
    yield "an address", quota(("ip", "10.0.0.1"), key="connection_creation_rate", value=3.0)
    yield "a trial", quota(("user", "b"), trial=True)
    yield "removed", quota(("user", "a"), remove=True)
    yield "removed again", quota(("user", "a"), remove=True)
    yield "an unknown key", quota(("user", "a"), key="speed")
    yield "a key of addresses", quota(("user", "a"), key="connection_creation_rate", value=1.0)
    yield "an unknown type", quota(("planet", "earth"))
    yield "nobody", quota()
    yield "an empty name", quota(("user", ""))
    yield "a fraction", quota(("user", "a"), value=1.5)
    yield "zero", quota(("user", "a"), value=0.0)
    yield "less than nothing", quota(("user", "a"), value=-1.0)
    yield "a user and an address", quota(("user", "a"), ("ip", "10.0.0.1"))
    yield "a type twice", quota(("user", "a"), ("user", "b"))


def scram(*upsertions: tuple[str, int, int], deletions: Iterable[tuple[str, int]] = ()) -> Message:
    return AlterUserScramCredentialsRequest(
        tuple(ScramCredentialDeletion(*each) for each in deletions),
        tuple(ScramCredentialUpsertion(*each, b"a salt", b"p" * 32) for each in upsertions),
    )


def of_credentials() -> Iterator[tuple[str, Message | Ask]]:
    yield "set", scram(("u", 1, 4096), ("v", 2, 8192))
    yield "set again", scram(("u", 1, 5000))
    for user, mechanism, iterations in (
        ("", 1, 4096),
        ("w", 3, 4096),
        ("w", 0, 4096),
        ("w", 1, 4095),
        ("w", 1, 16_385),
    ):
        yield f"{user!r} by {mechanism} with {iterations}", scram((user, mechanism, iterations))
    yield "twice", scram(("w", 1, 4096), ("w", 1, 4097))
    yield "deleted", scram(deletions=(("v", 2),))
    yield "deleted again", scram(deletions=(("v", 2),))
    yield "set and deleted", scram(("u", 1, 4096), deletions=(("u", 1),))
    yield "deleted by an unknown hash", scram(deletions=(("u", 9),))
    yield "nothing", scram()


def acl(type_: int = 2, name: str = "orders", pattern: int = 3, principal: str = "User:a", host: str = "*",
        operation: int = 3, permission: int = 3) -> CreateAclsRequest:  # fmt: skip
    return CreateAclsRequest((AclCreation(type_, name, pattern, principal, host, operation, permission),))


def acls_like(type_: int = 1, name: str | None = None, pattern: int = 1, principal: str | None = None) -> Message:
    return DeleteAclsRequest((DeleteAclsFilter(type_, name, pattern, principal, None, 1, 1),))


def of_acls() -> Iterator[tuple[str, Message | Ask]]:
    yield "create", acl()
    yield "create again", acl()
    yield "a prefix", acl(name="ord", pattern=4, operation=4)
    yield "all topics", acl(name="*", permission=2)
    yield "the cluster", acl(type_=4, name="kafka-cluster", operation=9)
    yield "another cluster", acl(type_=4, name="other", operation=9)
    yield from {
        "an unknown type": acl(type_=0),
        "any type": acl(type_=1),
        "a type from the future": acl(type_=99),
        "any pattern": acl(pattern=1),
        "matching patterns": acl(pattern=2),
        "any operation": acl(operation=1),
        "an unknown operation": acl(operation=0),
        "any permission": acl(permission=1),
        "an empty name": acl(name=""),
    }.items()
    yield "describe", DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    yield "describe some", DescribeAclsRequest(2, "orders", 2, None, None, 1, 1)
    yield "delete a prefix", acls_like(2, "ord", 4)
    yield "delete what matches", acls_like(2, "orders", 2)
    yield "delete nothing", acls_like(2, "orders", 3)
    yield "delete by an unknown type", acls_like(0)
    yield "delete of a principal", acls_like(principal="User:a")


def of_tokens() -> Iterator[tuple[str, Message | Ask]]:
    yield "create", CreateDelegationTokenRequest(None, None, (), 1000)
    yield "renew", RenewDelegationTokenRequest(b"x", 1)
    yield "expire", ExpireDelegationTokenRequest(b"x", -1)


# --- leaders, replicas, directories -----------------------------------------------------------------------


def in_sync(
    topic: str,
    partition: int,
    leader: int,
    members: Sequence[int],
    *,
    leader_epoch: int = 0,
    epoch: int = 0,
    recovery: int = 0,
    sender_epoch: int | None = None,
    stale: Sequence[int] = (),
) -> Ask:
    def ask(side: Known) -> Message:
        isr = tuple(IsrBroker(each, side.epochs.get(each, 0) - (each in stale)) for each in members)
        change = AlterPartitionPartition(partition, leader_epoch, (), isr, recovery, epoch)
        own = side.epochs.get(leader, 0) if sender_epoch is None else sender_epoch
        return AlterPartitionRequest(
            leader, own, (AlterPartitionTopic("", side.ids.get(topic, an_id("?")), (change,)),)
        )

    return ask


def of_leaders() -> Iterator[tuple[str, Message | Ask]]:
    """orders: partition 0 has (1, 2, 3), led by 1."""
    yield "shrink", in_sync("orders", 0, 1, (1, 2))
    yield "an old epoch", in_sync("orders", 0, 1, (1,), epoch=0)
    yield "grow", in_sync("orders", 0, 1, (1, 2, 3), epoch=1)
    yield "the same again", in_sync("orders", 0, 1, (1, 2, 3), epoch=2)
    yield "an epoch to come", in_sync("orders", 0, 1, (1,), epoch=9)
    yield "a leader epoch to come", in_sync("orders", 0, 1, (1,), epoch=2, leader_epoch=9)
    yield "not the leader", in_sync("orders", 0, 2, (2,), epoch=2)
    yield "without the leader", in_sync("orders", 0, 1, (2, 3), epoch=2)
    yield "no replica", in_sync("orders", 0, 1, (1, 4), epoch=2)
    yield "one twice", in_sync("orders", 0, 1, (1, 1), epoch=2)
    yield "nobody", in_sync("orders", 0, 1, (), epoch=2)
    yield "recovering", in_sync("orders", 0, 1, (1,), epoch=2, recovery=1)
    yield "of an earlier life", in_sync("orders", 0, 1, (1, 2), epoch=2, stale=(2,))
    yield "an old sender", in_sync("orders", 0, 1, (1,), epoch=2, sender_epoch=1)
    yield "an unknown partition", in_sync("orders", 9, 1, (1,))
    yield "an unknown topic", in_sync("nothing", 0, 1, (1,))
    for kind in (0, 1, 2):
        yield f"elect one, {kind}", ElectLeadersRequest(kind, (ElectLeadersTopic("orders", (0,)),), TIMEOUT_MS)
        yield f"elect all, {kind}", ElectLeadersRequest(kind, None, TIMEOUT_MS)
    unknown = (ElectLeadersTopic("nothing", (0,)), ElectLeadersTopic("orders", (9,)))
    yield "elect unknown ones", ElectLeadersRequest(0, unknown, TIMEOUT_MS)
    yield "elect none", ElectLeadersRequest(0, (), TIMEOUT_MS)


def moved(topic: str, partition: int, replicas: Sequence[int] | None) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        TIMEOUT_MS, (ReassignableTopic(topic, (ReassignablePartition(partition, replicas),)),)
    )


def of_moves() -> Iterator[tuple[str, Message | Ask]]:
    yield "list none", ListPartitionReassignmentsRequest(TIMEOUT_MS, None)
    yield "begin", moved("orders", 1, (4, 3, 1))
    yield "list all", ListPartitionReassignmentsRequest(TIMEOUT_MS, None)
    yield (
        "list one",
        ListPartitionReassignmentsRequest(TIMEOUT_MS, (ListPartitionReassignmentsTopics("orders", (0, 1, 9)),)),
    )
    yield "list unknown", ListPartitionReassignmentsRequest(TIMEOUT_MS, (ListPartitionReassignmentsTopics("x", (0,)),))
    yield "cancel", moved("orders", 1, None)
    yield "cancel again", moved("orders", 1, None)
    for replicas in ((), (1, 1), (9,), (-1,)):
        yield f"to {replicas}", moved("orders", 1, replicas)
    yield "an unknown partition", moved("orders", 9, (1,))
    yield "an unknown topic", moved("nothing", 0, (1,))
    yield "in another order", moved("orders", 1, (1, 2, 3))
    yield "to what is there", moved("orders", 1, (1, 2, 3))
    yield "to fewer", moved("orders", 2, (3, 1))
    yield "none", AlterPartitionReassignmentsRequest(TIMEOUT_MS, ())


def assigned(broker: int, directory: bytes, *places: tuple[str, int], epoch: int | None = None) -> Ask:
    def ask(side: Known) -> Message:
        topics_ = tuple(
            AssignedTopic(side.ids.get(name, an_id("?")), (AssignedPartition(number),)) for name, number in places
        )
        own = side.epochs.get(broker, 0) if epoch is None else epoch
        return AssignReplicasToDirsRequest(broker, own, (AssignedDirectory(directory, topics_),))

    return ask


def of_directories() -> Iterator[tuple[str, Message | Ask]]:
    first, second = directories(1)
    yield "assign", assigned(1, first, ("orders", 0))
    yield "assign again", assigned(1, first, ("orders", 0))
    yield "to the other one", assigned(1, second, ("orders", 0))
    yield "assign another", assigned(1, second, ("bills", 0))
    yield "not its replica", assigned(4, directories(4)[0], ("orders", 0))
    yield "an unknown partition", assigned(1, first, ("orders", 9))
    yield "an unknown topic", assigned(1, first, ("nothing", 0))
    yield "an old broker", assigned(1, first, ("orders", 0), epoch=1)
    yield "to no directory of its", assigned(2, an_id("elsewhere"), ("orders", 0))
    yield "back again", assigned(2, directories(2)[0], ("orders", 0))
    yield "a directory fails", beat(1, failed=(second,))
    yield "and is still gone", beat(1, failed=(second,))
    yield "elect after it", ElectLeadersRequest(0, (ElectLeadersTopic("orders", (0,)),), TIMEOUT_MS)


# --- brokers and the quorum -------------------------------------------------------------------------------


def of_brokers() -> Iterator[tuple[str, Message | Ask]]:
    yield "producer ids", lambda side: AllocateProducerIdsRequest(2, side.epochs[2])
    yield "the next ones", lambda side: AllocateProducerIdsRequest(3, side.epochs[3])
    yield "for an old broker", lambda side: AllocateProducerIdsRequest(3, side.epochs[3] - 1)
    yield "for nobody", AllocateProducerIdsRequest(9, 1)
    yield "beat", beat(2)
    yield "beat of nobody", beat(9)
    yield "another with this id", lambda side: registration(side.cluster_id, 2, run="other")
    yield "of another cluster", registration("another-cluster", 2)
    yield "without directories", lambda side: registration(side.cluster_id, 5, dirs=())
    yield "with another's directory", lambda side: registration(side.cluster_id, 5, dirs=directories(2))
    yield "with one twice", lambda side: registration(side.cluster_id, 5, dirs=directories(4) * 2)
    yield "with a reserved one", lambda side: registration(side.cluster_id, 5, dirs=(bytes(15) + b"\x05",))
    yield "wants to leave", beat(3, leave=True)
    yield "wants to leave still", beat(3, leave=True)
    yield "is fenced", beat(4, fence=True)
    yield "a topic on the fenced one", topics(placed("lonely", (4,)))
    yield "a topic beside the fenced one", topics(placed("beside", (4, 2)))
    yield "is back", beat(4)
    yield "unregister", UnregisterBrokerRequest(3)
    yield "unregister again", UnregisterBrokerRequest(3)
    yield "unregister nobody", UnregisterBrokerRequest(-1)
    yield "the gone one beats", beat(3)
    yield "describe brokers", DescribeClusterRequest(False, 1)
    yield "describe the moon", DescribeClusterRequest(False, 3)


def features(*updates: tuple[str, int, int], trial: bool = False) -> UpdateFeaturesRequest:
    keys = tuple(FeatureUpdateKey(name, level, upgrade_type=kind) for name, level, kind in updates)
    return UpdateFeaturesRequest(TIMEOUT_MS, keys, trial)


def of_features() -> Iterator[tuple[str, Message | Ask]]:
    level = "metadata.version"
    yield "the same level", features((level, 21, 1))
    for target, kind in ((22, 1), (-1, 1), (0, 3), (20, 1), (20, 0), (20, 7), (16, 2), (16, 3), (3, 3), (21, 2)):
        yield f"to {target} by {kind}", features((level, target, kind))
    yield "a trial", features((level, 20, 2), trial=True)
    yield "down", features((level, 20, 2))
    yield "further down", features((level, 17, 3))
    yield "up", features((level, 21, 1))
    yield "an unknown feature", features(("group.version", 1, 1))
    yield "an unknown feature to 0", features(("group.version", 0, 3))
    yield "kraft.version beyond", features(("kraft.version", 2, 1))
    yield "several", features(("group.version", 1, 1), (level, 21, 1))
    yield "nothing", features()


def of_voters() -> Iterator[tuple[str, Message | Ask]]:
    at, directory = (RaftEndpoint("CONTROLLER", "localhost", 9),), an_id("voter")
    yield "add", lambda side: AddRaftVoterRequest(side.cluster_id, 1000, 3009, directory, at)
    yield "add to any", AddRaftVoterRequest(None, 1000, 3009, directory, at)
    yield "add to another", AddRaftVoterRequest("other", 1000, 3009, directory, at)
    yield "add nobody", lambda side: AddRaftVoterRequest(side.cluster_id, 1000, -1, directory, at)
    yield "add without directory", lambda side: AddRaftVoterRequest(side.cluster_id, 1000, 3009, bytes(16), at)
    yield "add without address", lambda side: AddRaftVoterRequest(side.cluster_id, 1000, 3009, directory, ())
    yield "remove", lambda side: RemoveRaftVoterRequest(side.cluster_id, 3009, directory)
    yield "remove nobody", lambda side: RemoveRaftVoterRequest(side.cluster_id, -1, directory)
    yield "remove from another", RemoveRaftVoterRequest("other", 3009, directory)
    yield "update", lambda side: UpdateRaftVoterRequest(side.cluster_id, side.raft_epoch, 3009, directory, at)
    yield (
        "update without address",
        lambda side: UpdateRaftVoterRequest(side.cluster_id, side.raft_epoch, 3009, directory, ()),
    )
    yield "update in an old epoch", lambda side: UpdateRaftVoterRequest(side.cluster_id, 0, 3009, directory, at)
    yield "update in another", UpdateRaftVoterRequest("other", 1, 3009, directory, at)


def of_the_end() -> Iterator[tuple[str, Message | Ask]]:
    """Stock's controller gives up its leadership over it."""
    yield "an unknown operation", altered(TOPIC, "orders", ("retention.ms", 9, "1"))


def _ask(given: Message | Ask) -> Ask:
    return (lambda _: given) if isinstance(given, Message) else given


CASES: Final = tuple(
    Case(f"{kind}: {what}", _ask(given))
    for kind, cases in (
        ("topics", of_topics()),
        ("growth", of_growth()),
        ("configs", of_configs()),
        ("quotas", of_quotas()),
        ("credentials", of_credentials()),
        ("acls", of_acls()),
        ("tokens", of_tokens()),
        ("leaders", of_leaders()),
        ("moves", of_moves()),
        ("directories", of_directories()),
        ("features", of_features()),
        ("voters", of_voters()),
        ("deletions", of_deletions()),
        ("brokers", of_brokers()),
        ("the end", of_the_end()),
    )
    for what, given in cases
)
