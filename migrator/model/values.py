"""What a cluster is made of: partitions, topics, brokers, controllers, as frozen values.

In:   plain numbers, strings and tuples; ids of topics and directories are 16 raw bytes.
Out:  values that compare by content and can be shared between images and threads.
Elsewhere: their bytes in the metadata log (wire), their znodes (zk.znodes), when they change (controller).
Source: KRaft records of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum

import msgspec

NO_LEADER = -1
ZERO_ID = bytes(16)
"""The id that stands for "none": no topic id, or a directory not yet known (MIGRATING)."""

UNASSIGNED_DIRECTORY = bytes(15) + b"\x01"
LOST_DIRECTORY = bytes(15) + b"\x02"


class Recovery(IntEnum):
    """Whether the leader may have lost records: RECOVERING follows an unclean election."""

    RECOVERED = 0
    RECOVERING = 1


class MigrationState(IntEnum):
    """What the metadata log says about the migration. The numbers are Kafka's; note that 1 and 2 are not in order."""

    NONE = 0
    MIGRATION = 1
    PRE_MIGRATION = 2
    POST_MIGRATION = 3


class Mark(StrEnum):
    """What a log says of itself to every voter of ours, beside the cluster's metadata.

    TAKEOVER:    a takeover was begun; the next one needs a person's word, unless it is committed by now.
    MIGRATION:   the zxid by which `/migration` was created; another one is another migration's.
    CLAIM:       value and version of `/controller_epoch` as the newest claim left it (`driver.claim_table`).
    BEHIND:      ZooKeeper lacks records from an offset on, since a time; half of a limit of divergence is reached.
    RETIRED: the cluster went back to ZooKeeper; this log is never used again.
    """

    TAKEOVER = "takeover"
    MIGRATION = "migration"
    CLAIM = "claim"
    BEHIND = "behind"
    RETIRED = "handed-back"


class ConfigType(IntEnum):
    """Kafka's numbers for resources that carry configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class SecurityProtocol(IntEnum):
    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class Partition(msgspec.Struct, frozen=True, gc=False):
    """One partition. `partition_epoch` counts its changes, `leader_epoch` its leaders.

    replicas:    broker ids, the preferred leader first.
    directories: one directory id per replica, or empty when none is known (all MIGRATING).
    """

    id: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    recovery: int = Recovery.RECOVERED
    directories: tuple[bytes, ...] = ()


class Topic(msgspec.Struct, frozen=True, gc=False):
    """A topic and its partitions in ascending order of id."""

    name: str
    id: bytes
    partitions: tuple[Partition, ...]

    def partition(self, partition_id: int) -> Partition | None:
        """The partition with this id, or None. Ids are 0..n-1 in every sane topic, so the first look is a hit."""
        if 0 <= partition_id < len(self.partitions) and self.partitions[partition_id].id == partition_id:
            return self.partitions[partition_id]
        return next((each for each in self.partitions if each.id == partition_id), None)


class Listener(msgspec.Struct, frozen=True, gc=False):
    name: str
    host: str
    port: int
    protocol: int = SecurityProtocol.PLAINTEXT


class FeatureRange(msgspec.Struct, frozen=True, gc=False):
    """The levels of one feature that a node supports, both ends included."""

    name: str
    lowest: int
    highest: int


class Broker(msgspec.Struct, frozen=True, gc=False):
    """A registered broker. `epoch` is the offset of its registration record in the metadata log."""

    id: int
    epoch: int
    incarnation: bytes
    listeners: tuple[Listener, ...]
    features: tuple[FeatureRange, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    migrating: bool = False
    log_dirs: tuple[bytes, ...] = ()

    @property
    def active(self) -> bool:
        """May lead and be in an ISR: neither fenced nor on its way out."""
        return not self.fenced and not self.in_controlled_shutdown

    def listener(self, name: str) -> Listener | None:
        return next((each for each in self.listeners if each.name == name), None)

    def has_online(self, directory: bytes) -> bool:
        """Whether a replica in this directory can be served. A directory that is not yet known counts as online, and
        so does every one of a broker that registered none (it did so below 3.7-IV2).
        """
        if directory in (ZERO_ID, UNASSIGNED_DIRECTORY):
            return True
        return directory != LOST_DIRECTORY and (not self.log_dirs or directory in self.log_dirs)


class Controller(msgspec.Struct, frozen=True, gc=False):
    """A registered controller (ControllerRegistration, from metadata.version 3.7-IV0)."""

    id: int
    incarnation: bytes
    zk_migration_ready: bool
    listeners: tuple[Listener, ...] = ()
    features: tuple[FeatureRange, ...] = ()


class ConfigKey(msgspec.Struct, frozen=True, gc=False, order=True):
    """Whose configuration: a topic by name, a broker by id, or all brokers by the empty name."""

    type: int
    name: str


PASSWORD_SUFFIXES = (
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.truststore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
    "sasl.jaas.config",
)


def is_password(key: str) -> bool:
    """Whether Kafka keeps a broker's setting encrypted in ZooKeeper; prefixes of listeners come before these names."""
    return key.endswith(PASSWORD_SUFFIXES)


class QuotaEntity(msgspec.Struct, frozen=True):
    """Whom a quota is for: (type, name) pairs in Kafka's order of types; the name None stands for everybody."""

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
        """Make one of parts in any order: a quota of a user's client is the same one either way round."""
        return cls(tuple(sorted(parts, key=lambda part: (_quota_rank(part[0]), part[0]))))

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(type_ for type_, _ in self.parts)

    @property
    def place(self) -> tuple[tuple[str, bool, str], ...]:
        """What to sort by: the default comes before every name."""
        return tuple((type_, name is not None, name or "") for type_, name in self.parts)


QUOTA_TYPES = ("user", "client-id", "ip")


def _quota_rank(type_: str) -> int:
    return QUOTA_TYPES.index(type_) if type_ in QUOTA_TYPES else len(QUOTA_TYPES)


class ScramMechanism(IntEnum):
    """Kafka's numbers for the two hashes."""

    SHA_256 = 1
    SHA_512 = 2


class ScramKey(msgspec.Struct, frozen=True, order=True):
    """Whose credential, and for which hash."""

    user: str
    mechanism: int


class ScramCredential(msgspec.Struct, frozen=True):
    """What is kept of a password: enough to recognise who knows it. Its keys are secrets and not in its text."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


class AclResourceType(IntEnum):
    """Kafka's numbers for what an ACL is about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(IntEnum):
    """Kafka's numbers for how a resource is named; a literal `*` is every resource of the type."""

    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class AclPermission(IntEnum):
    DENY = 2
    ALLOW = 3


class AclResource(msgspec.Struct, frozen=True, order=True):
    """What ACLs are about: resources of one type, by name or by the beginning of their names."""

    type: int
    pattern: int
    name: str


class AclEntry(msgspec.Struct, frozen=True, order=True):
    """Who may or may not do what from where. principal: `Type:name`."""

    principal: str
    host: str
    operation: int
    permission: int


class Acl(msgspec.Struct, frozen=True, order=True):
    resource: AclResource
    entry: AclEntry


class DelegationToken(msgspec.Struct, frozen=True):
    """A token by its id; its secret is derived from the id and is nowhere stored. Principals are `Type:name`."""

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int
