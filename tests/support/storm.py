"""A storm of administration: the same operations, in the same order, for any cluster of two brokers.

In:   a seed, how many operations of each kind.
Out:  waves of operations. Those of one wave touch nothing in common, so they may be sent together; what they lead to
      is the same whatever their order. The first wave makes the topics that the next ones are about.
Elsewhere: sending them (storm_sender.py), what becomes of them (tests/e2e/test_storm.py).
Everything is decided by the seed: replicas are given, never placed; a wave begins when the one before it has ended,
its moves included. About one in twelve is refused, on purpose. Of an entity that is no user the last quota stays: at
that stock forgets a whole batch of changes (K-10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeVar

from migrator.wire.messages.configs import (
    AlterableConfig,
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    AlterConfigsResource,
    ClientQuotaOp,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from migrator.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersTopic,
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

T = TypeVar("T")
Replicas = tuple[int, ...]
Binding = tuple[int, str, int, str, str, int, int]
Entity = tuple[tuple[str, str | None], ...]

ANY_BROKER: Final = -1
OPERATIONS_PER_WAVE: Final = 60
FIRST_TOPICS: Final = 40
REFUSED: Final = 1 / 12
BROKERS: Final = (0, 1)
LAYOUTS: Final = ((0,), (1,), (0, 1), (1, 0))
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)

USERS: Final = ("alice", "b@b", "carol smith", "d/e", "zoë", "CN=f,O=g", "~h*", "日本")
CLIENTS: Final = ("app", "app/1", "a b", "Ω")
ADDRESSES: Final = ("127.0.0.9", "10.0.0.1", "::1")
QUOTAS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
TOPIC_KEYS: Final = {
    "retention.ms": ("3600000", "-1", "86400000"),
    "segment.bytes": ("1048576", "16777216"),
    "max.message.bytes": ("1000012", "2000000"),
    "min.insync.replicas": ("1", "2"),
    "cleanup.policy": ("compact", "delete"),
    "message.timestamp.type": ("LogAppendTime", "CreateTime"),
}
BROKER_KEYS: Final = {
    "log.cleaner.backoff.ms": ("14000", "16000"),
    "log.retention.ms": ("604800000", "-1"),
    "log.segment.bytes": ("1073741824", "536870912"),
    "log.roll.ms": ("604800000", "604800001"),
    "log.index.interval.bytes": ("4096", "8192"),
    "message.max.bytes": ("1048588", "2000000"),
    "log.flush.interval.ms": ("1000", "2000"),
    "log.retention.bytes": ("-1", "1073741824"),
}


NEEDS: Final = {
    "create a topic again": "delete a topic",
    "delete an ACL": "create an ACL",
    "delete a credential": "set a credential",
    "renew a token": "create a token",
    "expire a token": "create a token",
    "order replicas": "create a topic",
    "elect a leader": "order replicas",
}
"""What makes an operation possible when there is nothing left that it could be about."""


@dataclass(frozen=True)
class Operation:
    """One request. broker: which one has to be asked. owner: of a token, which is asked for in that name.

    request: for a token that exists, made from its secret.
    """

    kind: str
    request: Message | Callable[[bytes], Message]
    version: int
    broker: int = ANY_BROKER
    owner: str | None = None
    moves: bool = False


@dataclass
class Storm:
    """The generator, and what it knows of the cluster so far."""

    seed: int
    of_each: int
    topics: dict[str, list[tuple[Replicas, int]]] = field(default_factory=dict)
    """By name and partition: the replicas, and who leads."""
    deleted: list[str] = field(default_factory=list)
    quotas: dict[Entity, set[str]] = field(default_factory=dict)
    credentials: set[tuple[str, int]] = field(default_factory=set)
    acls: set[Binding] = field(default_factory=set)
    tokens: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = Random(self.seed)
        self._numbers = 0
        self._busy: set[object] = set()
        self._makers: dict[str, Callable[[str, bool], Operation | None]] = {
            "create a topic": self._create_topic,
            "create a topic again": self._create_again,
            "delete a topic": self._delete_topic,
            "add partitions": self._add_partitions,
            "configure a topic": self._configure_topic,
            "replace a topic's configuration": self._replace_configuration,
            "configure a broker": self._configure_broker,
            "configure all brokers": self._configure_all_brokers,
            "set a user's quota": self._user_quota,
            "set a client's quota": lambda kind, bad: self._quota(
                kind, (("client-id", self._maybe(CLIENTS)),), bad=bad
            ),
            "set a user's client's quota": self._user_client_quota,
            "set an address's quota": self._address_quota,
            "create an ACL": self._create_acl,
            "delete an ACL": self._delete_acl,
            "set a credential": self._set_credential,
            "delete a credential": self._delete_credential,
            "create a token": self._create_token,
            "renew a token": self._renew_token,
            "expire a token": self._expire_token,
            "move replicas": self._move,
            "order replicas": self._order,
            "elect a leader": self._elect,
        }

    @property
    def kinds(self) -> list[str]:
        return list(self._makers)

    def waves(self) -> Iterator[list[Operation]]:
        yield [self._creation("create a topic", f"storm-{number:04}") for number in range(FIRST_TOPICS)]
        deck = [kind for kind in self._makers for _ in range(self.of_each)]
        self._chance.shuffle(deck)
        while deck:
            self._busy.clear()
            wave: list[Operation] = []
            postponed: list[str] = []
            for kind in deck[: 2 * OPERATIONS_PER_WAVE]:
                made = None
                if len(wave) < OPERATIONS_PER_WAVE:
                    made = self._makers[kind](kind, self._chance.random() < REFUSED)
                if made is None:
                    postponed.append(kind)
                else:
                    wave.append(made)
            deck = postponed + deck[2 * OPERATIONS_PER_WAVE :]
            if wave:
                yield wave
            else:
                deck += [NEEDS[kind] for kind in sorted(set(deck))]

    # --- choosing ------------------------------------------------------------------------------------------

    def _take(self, *subject: object) -> bool:
        """Whether nobody in this wave touches it yet; from now on somebody does."""
        if subject in self._busy:
            return False
        self._busy.add(subject)
        return True

    def _maybe(self, names: tuple[str, ...]) -> str | None:
        return self._chance.choice((None, *names))

    def _free(self, known: list[T] | dict[T, object], kind: str) -> T | None:
        """One of these that this wave does not touch."""
        free = [each for each in known if (kind, each) not in self._busy]
        if not free:
            return None
        chosen = self._chance.choice(free)
        self._busy.add((kind, chosen))
        return chosen

    def _free_topic(self) -> str | None:
        return self._free(list(self.topics), "topic")

    def _new_number(self) -> int:
        self._numbers += 1
        return self._numbers

    # --- topics --------------------------------------------------------------------------------------------

    def _create_topic(self, kind: str, bad: bool) -> Operation | None:
        if bad:
            name = self._free_topic()
            return None if name is None else self._creation(kind, name, known=False)
        number = self._new_number()
        name = self._chance.choice((f"new.{number}", f"new-{number}", f"N_{number}"))
        self._take("topic", name)
        return self._creation(kind, name)

    def _create_again(self, kind: str, bad: bool) -> Operation | None:
        name = self._free(self.deleted, "topic")
        if name is None:
            return None
        if bad:
            return self._creation(kind, name, broker=9, known=False)
        self.deleted.remove(name)
        return self._creation(kind, name)

    def _creation(self, kind: str, name: str, *, broker: int | None = None, known: bool = True) -> Operation:
        layout = [self._chance.choice(LAYOUTS) if broker is None else (broker,)] * self._chance.randint(1, 3)
        if known:
            self.topics[name] = [(replicas, replicas[0]) for replicas in layout]
        keys = self._chance.sample(sorted(TOPIC_KEYS), self._chance.choice((0, 0, 1, 2)))
        topic = CreatableTopic(
            name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=tuple(CreatableReplicaAssignment(number, each) for number, each in enumerate(layout)),
            configs=tuple(CreatableTopicConfig(key, self._chance.choice(TOPIC_KEYS[key])) for key in keys),
        )
        return Operation(kind, CreateTopicsRequest((topic,)), 7)

    def _delete_topic(self, kind: str, bad: bool) -> Operation | None:
        if bad:
            return Operation(kind, DeleteTopicsRequest((DeleteTopicState("never-was"),), timeout_ms=30_000), 6)
        name = self._free_topic()
        if name is None:
            return None
        del self.topics[name]
        self.deleted.append(name)
        return Operation(kind, DeleteTopicsRequest((DeleteTopicState(name),), timeout_ms=30_000), 6)

    def _add_partitions(self, kind: str, bad: bool) -> Operation | None:
        """With as many replicas as the partitions that are there. Where those have not all as many, stock compares
        with any of them.
        """
        alike = [name for name, partitions in self.topics.items() if len({len(each) for each, _ in partitions}) == 1]
        name = self._free(alike, "topic")
        if name is None:
            return None
        factor = len(self.topics[name][0][0])
        replicas = self._chance.choice([each for each in LAYOUTS if len(each) == factor])
        count = len(self.topics[name]) + (0 if bad else 1)
        if not bad:
            self.topics[name].append((replicas, replicas[0]))
        grows = CreatePartitionsTopic(name, count, (CreatePartitionsAssignment(replicas),))
        return Operation(kind, CreatePartitionsRequest((grows,), timeout_ms=30_000), 3)

    def _configure_topic(self, kind: str, bad: bool) -> Operation | None:
        name = self._free_topic()
        if name is None:
            return None
        key = self._chance.choice(sorted(TOPIC_KEYS))
        change = self._chance.choice((SET, SET, DELETE, APPEND, SUBTRACT) if key == "cleanup.policy" else (SET, DELETE))
        value = "soon" if bad else self._chance.choice(TOPIC_KEYS[key])
        configs = (IncrementalAlterableConfig(key, SET if bad else change, None if change == DELETE else value),)
        if bad:
            configs = (IncrementalAlterableConfig("retention.ms", SET, "soon"),)
        request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(TOPIC, name, configs),))
        return Operation(kind, request, 1)

    def _replace_configuration(self, kind: str, bad: bool) -> Operation | None:
        name = self._free_topic()
        if name is None:
            return None
        keys = self._chance.sample(sorted(TOPIC_KEYS), self._chance.choice((0, 1, 2, 3)))
        configs = [AlterableConfig(key, self._chance.choice(TOPIC_KEYS[key])) for key in keys]
        if bad:
            configs.append(AlterableConfig("no.such.key", "1"))
        request = AlterConfigsRequest((AlterConfigsResource(TOPIC, name, tuple(configs)),))
        return Operation(kind, request, 2)

    # --- brokers' configuration ----------------------------------------------------------------------------

    def _configure_broker(self, kind: str, bad: bool) -> Operation | None:
        broker = self._chance.choice(BROKERS)
        return self._broker_key(kind, str(broker), broker, bad=bad)

    def _configure_all_brokers(self, kind: str, bad: bool) -> Operation | None:
        return self._broker_key(kind, "", ANY_BROKER, bad=bad)

    def _broker_key(self, kind: str, name: str, broker: int, *, bad: bool) -> Operation | None:
        key = self._chance.choice(sorted(BROKER_KEYS))
        if not self._take("broker", name, key):
            return None
        change = self._chance.choice((SET, SET, DELETE))
        value = None if change == DELETE else self._chance.choice(BROKER_KEYS[key])
        config = IncrementalAlterableConfig(key, change, value)
        if bad:
            config = IncrementalAlterableConfig(key, SET, "not a number")
        request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(BROKER, name, (config,)),))
        return Operation(kind, request, 1, broker=broker)

    # --- quotas and credentials ----------------------------------------------------------------------------

    def _user_quota(self, kind: str, bad: bool) -> Operation | None:
        return self._quota(kind, (("user", self._maybe(USERS)),), bad=bad)

    def _client_quota(self, kind: str, bad: bool) -> Operation | None:
        return self._quota(kind, (("client-id", self._maybe(CLIENTS)),), bad=bad)

    def _user_client_quota(self, kind: str, bad: bool) -> Operation | None:
        return self._quota(kind, (("user", self._maybe(USERS)), ("client-id", self._maybe(CLIENTS))), bad=bad)

    def _address_quota(self, kind: str, bad: bool) -> Operation | None:
        return self._quota(kind, (("ip", self._maybe(ADDRESSES)),), bad=bad)

    def _quota(self, kind: str, entity: Entity, *, bad: bool) -> Operation | None:
        if not self._take("quota", entity):
            return None
        held = self.quotas.setdefault(entity, set())
        is_address = entity[0][0] == "ip"
        keys = ("connection_creation_rate",) if is_address else QUOTAS
        key = self._chance.choice(keys)
        value = float(self._chance.choice((10_000, 2_000_000)))
        if key in ("request_percentage", "controller_mutation_rate"):
            value += self._chance.choice((0.0, 0.5, 0.0001))
        spare = sorted(held) if len(entity) == 1 and entity[0][0] == "user" else sorted(held)[1:]
        removed = key in spare and self._chance.random() < 0.6
        if bad:
            key, removed = "no_such_rate", False
        elif removed:
            held.discard(key)
        else:
            held.add(key)
        whom = tuple(ClientQuotaEntity(type_, name) for type_, name in entity)
        change = AlterClientQuotasEntry(whom, (ClientQuotaOp(key, 0.0 if removed else value, removed),))
        return Operation(kind, AlterClientQuotasRequest((change,)), 1)

    def _set_credential(self, kind: str, bad: bool) -> Operation | None:
        user, mechanism = self._chance.choice(USERS), self._chance.choice((1, 2))
        if not self._take("credential", user):
            return None
        iterations = 10 if bad else self._chance.choice((4096, 8192))
        salt, salted = self._chance.randbytes(16), self._chance.randbytes(32 if mechanism == 1 else 64)
        if not bad:
            self.credentials.add((user, mechanism))
        set_ = ScramCredentialUpsertion(user, mechanism, iterations, salt, salted)
        return Operation(kind, AlterUserScramCredentialsRequest(upsertions=(set_,)), 0)

    def _delete_credential(self, kind: str, bad: bool) -> Operation | None:
        if bad:
            gone = ScramCredentialDeletion("nobody", 1)
        else:
            free = sorted(each for each in self.credentials if ("credential", each[0]) not in self._busy)
            if not free:
                return None
            user, mechanism = self._chance.choice(free)
            self._take("credential", user)
            self.credentials.discard((user, mechanism))
            gone = ScramCredentialDeletion(user, mechanism)
        return Operation(kind, AlterUserScramCredentialsRequest(deletions=(gone,)), 0)

    # --- ACLs and tokens -----------------------------------------------------------------------------------

    def _create_acl(self, kind: str, bad: bool) -> Operation | None:
        type_ = self._chance.choice((2, 2, 3, 4, 5, 6, 7))
        pattern = 3 if type_ == 4 else self._chance.choice((3, 4))
        name = "kafka-cluster" if type_ == 4 else self._chance.choice(("orders", "pay-", "*", "größe", "a b"))
        principal = self._chance.choice(("User:alice", "User:CN=f,O=g", "User:*", "Group:admins"))
        host = self._chance.choice(("*", "127.0.0.1"))
        operation, permission = self._chance.choice(range(2, 13)), self._chance.choice((2, 3))
        binding = (type_, name, pattern, principal, host, operation, permission)
        if not self._take("acl", binding):
            return None
        if bad:
            binding = (4, "not the cluster", 3, principal, host, operation, permission)
        else:
            self.acls.add(binding)
        return Operation(kind, CreateAclsRequest((AclCreation(*binding),)), 3)

    def _delete_acl(self, kind: str, bad: bool) -> Operation | None:
        free = sorted(each for each in self.acls if ("acl", each) not in self._busy)
        if not free:
            return None
        binding = self._chance.choice(free)
        self._take("acl", binding)
        if bad:  # nothing matches, which is no error
            return Operation(kind, DeleteAclsRequest((DeleteAclsFilter(2, "never-was", 3, None, None, 1, 1),)), 3)
        self.acls.discard(binding)
        return Operation(kind, DeleteAclsRequest((DeleteAclsFilter(*binding),)), 3)

    def _create_token(self, kind: str, bad: bool) -> Operation | None:
        owner = f"owner-{self._new_number()}"
        renewers = () if self._chance.random() < 0.5 else (CreatableRenewers("User", "a renewer"),)
        if bad:
            renewers = (CreatableRenewers("Robot", "r2"),)
        else:
            self._take("token", owner)
            self.tokens.append(owner)
        request = CreateDelegationTokenRequest(None, None, renewers, -1)
        return Operation(kind, request, 3, owner=owner)

    def _renew_token(self, kind: str, bad: bool) -> Operation | None:
        owner = self._free(self.tokens, "token")
        if owner is None:
            return None
        if bad:
            return Operation(kind, RenewDelegationTokenRequest(b"no such secret", 1_000_000), 2, owner=owner)
        return Operation(kind, lambda hmac: RenewDelegationTokenRequest(hmac, 3_600_000), 2, owner=owner)

    def _expire_token(self, kind: str, bad: bool) -> Operation | None:
        owner = self._free(self.tokens, "token")
        if owner is None:
            return None
        if bad:
            return Operation(kind, ExpireDelegationTokenRequest(b"no such secret", -1), 2, owner=owner)
        self.tokens.remove(owner)
        return Operation(kind, lambda hmac: ExpireDelegationTokenRequest(hmac, -1), 2, owner=owner)

    # --- replicas and leaders ------------------------------------------------------------------------------

    def _move(self, kind: str, bad: bool) -> Operation | None:
        """To the other broker, to both, to one of them."""
        name = self._free_topic()
        if name is None:
            return None
        number = self._chance.randrange(len(self.topics[name]))
        before, leader = self.topics[name][number]
        after = self._chance.choice([each for each in LAYOUTS if set(each) != set(before)])
        if bad:
            return self._reassignment(kind, name, number, (9,))
        self.topics[name][number] = after, leader if leader in after else after[0]
        return self._reassignment(kind, name, number, after)

    def _order(self, kind: str, bad: bool) -> Operation | None:
        """Another preferred leader: the same replicas the other way round."""
        places = [
            (name, number)
            for name, partitions in self.topics.items()
            for number, (replicas, _) in enumerate(partitions)
            if len(replicas) == 2 and ("topic", name) not in self._busy
        ]
        if not places:
            return None
        name, number = self._chance.choice(places)
        self._take("topic", name)
        if bad:
            return self._reassignment(kind, name, number, (0, 0))
        replicas, leader = self.topics[name][number]
        self.topics[name][number] = replicas[::-1], leader
        return self._reassignment(kind, name, number, replicas[::-1])

    def _reassignment(self, kind: str, name: str, number: int, replicas: Replicas) -> Operation:
        topic = ReassignableTopic(name, (ReassignablePartition(number, replicas),))
        request = AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=(topic,))
        return Operation(kind, request, 0, moves=True)

    def _elect(self, kind: str, bad: bool) -> Operation | None:
        places = [
            (name, number)
            for name, partitions in self.topics.items()
            for number, (replicas, leader) in enumerate(partitions)
            if (replicas[0] == leader) == bad and ("topic", name) not in self._busy
        ]
        if not places:
            return None
        name, number = self._chance.choice(places)
        self._take("topic", name)
        replicas, _ = self.topics[name][number]
        self.topics[name][number] = replicas, replicas[0]
        asked = ElectLeadersRequest(0, (ElectLeadersTopic(name, (number,)),), timeout_ms=30_000)
        return Operation(kind, asked, 2)
