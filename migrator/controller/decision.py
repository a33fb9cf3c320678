"""What a decision is made from, and what it is.

In:   the newest image (records that are not yet committed included), the contacts of brokers, this node's settings.
Out:  `Decision`: records, and the reply that leaves once they are committed.
Elsewhere: appending and waiting (node.leader.active_controller).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from random import Random

from migrator.controller.authorizer import Asker, AuthorizerRules, TokenRules
from migrator.controller.contacts import Contacts
from migrator.controller.mutation_quotas import WINDOW_S, WINDOWS, MutationBuckets
from migrator.findings.finding import Occurrence
from migrator.model import levels
from migrator.model.image import Image
from migrator.model.topic_configs import Inherited
from migrator.model.values import ConfigType
from migrator.wire.errors import Error
from migrator.wire.schema import Message

Record = tuple[Message, int]
"""A metadata record and the version it is written in."""

RECORDS_PER_REQUEST_MAX = 10_000
"""One request may not produce more (as stock): the answer is POLICY_VIOLATION."""

TOO_MANY = f"Unable to perform excessively large batch operation (more than {RECORDS_PER_REQUEST_MAX} records)."


class ItemRefused(Exception):
    """Why one item of a request (a topic, a resource, a user) is not done. message: None where the answer has none."""

    def __init__(self, error: Error, message: str | None = None) -> None:
        super().__init__(message or "")
        self.error = error
        self.message = message


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """What this controller was configured with and every decision may need."""

    node_id: int
    cluster_id: str
    migration_enabled: bool
    inter_broker_listener: str
    voters: tuple[int, ...] = ()
    """Ids of `controller.quorum.voters`, this node's among them."""
    session_timeout_ms: int = 9_000
    default_replication_factor: int = 1
    num_partitions: int = 1
    delete_topic_enabled: bool = True
    unclean_leader_election: bool = False
    authorizer: AuthorizerRules | None = None
    """None: everybody may do everything, and ACLs cannot be changed."""
    tokens: TokenRules | None = None
    """None: delegation tokens are switched off."""
    encodes_passwords: bool = False
    """Whether brokers' passwords can be written into ZooKeeper: encrypted, under the brokers' secret."""
    mutation_windows_s: int = WINDOWS * WINDOW_S
    """Over which time `controller_mutation_rate` is counted."""
    znode_bytes_max: int | None = None
    """The largest znode that ZooKeeper takes; None: ZooKeeper is not written."""
    static: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The whole properties file, for defaults of topic configuration."""
    hidden: frozenset[str] = frozenset()
    """Keys of `static` whose values are never shown, beside those that are secrets by their names."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that a decision may look at.

    next_offset: the offset that the first record decided now will get; it becomes a new broker's epoch.
    chance:      the only source of randomness (ids, placement).
    wall_ms:     the time of day, for what outlives this process.
    asker:       for whom a broker passed the request on; None: who is connected to us asks, a node of the cluster.
    buckets:     how many partitions everybody with a quota may still change.
    unmirrored:  brokers ("" for all) whose configuration could not follow into ZooKeeper, and why.
    """

    image: Image
    contacts: Contacts
    settings: ControllerSettings
    next_offset: int
    now_ms: int
    chance: Random
    wall_ms: int = 0
    asker: Asker | None = None
    unmirrored: Mapping[str, Occurrence] = field(default_factory=dict)
    buckets: MutationBuckets = field(default_factory=MutationBuckets)

    @property
    def inherited(self) -> Inherited:
        """What topics have where they say nothing themselves, as this node knows it."""
        node, brokers = (self.image.config(ConfigType.BROKER, name) for name in (str(self.settings.node_id), ""))
        return Inherited(node, brokers, self.settings.static)

    def new_id(self, taken: Container[bytes]) -> bytes:
        """Random, and neither reserved nor taken; ids whose text begins with a dash are avoided, as Kafka does."""
        while True:
            drawn = self.chance.randbytes(16)
            if drawn[0] >> 2 != 62 and any(drawn[:15]) and drawn not in taken:
                return drawn


@dataclass(frozen=True, slots=True)
class Decision:
    """Records to append, and the reply to give when all of them are committed.

    divisible: any beginning of the records is right by itself, so that they may lie in several batches; a crash can
        cut them there. Otherwise they are one batch, all of them or none.
    """

    reply: Message
    records: tuple[Record, ...] = ()
    divisible: bool = False


# --- record versions --------------------------------------------------------------------------------------


def register_broker_version(level: int) -> int:
    return 3 if level >= levels.DIRECTORIES else 2 if level >= levels.MIGRATION else 1 if level >= 7 else 0


def partition_version(level: int) -> int:
    """The version of PartitionRecord and PartitionChangeRecord: directories come with 3.7-IV2."""
    return 1 if level >= levels.DIRECTORIES else 0


CHANGE_OF_DIRECTORIES = 2
"""Version of a BrokerRegistrationChangeRecord that names directories."""


def registration_change_version(level: int) -> int:
    """The version of a change that says `in_controlled_shutdown`; that with directories is for changes of these."""
    return 1 if level >= 7 else 0
