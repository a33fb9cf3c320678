"""What a node can be in its quorum, what it remembers only while it is that, and the times it goes by.

There is no class Voted: that is Unattached with a vote in its election state (as in Kafka 3.9). There is no class
Observer: that is Unattached or Follower on a node that is not a voter. Prospective is of Kafka 4.0 (KIP-996): without
it a follower that cannot hear its leader, and can be heard, deposes one leader after the other.
Source: Kafka 3.9 `QuorumState`, `UnattachedState`, `CandidateState`, `LeaderState`, `FollowerState`, `ResignedState`,
`QuorumConfig`, `MetadataLogConfig`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from migrator.raft.types import FetchReceived, SnapshotId

CHECK_QUORUM_FACTOR: Final = 1.5
"""A leader waits a little longer for a majority's fetches than a follower for its leader's answers."""

ELECTION_RETRY_BASE_MS: Final = 100


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """Times in milliseconds, sizes in bytes; Kafka's names and defaults but for the linger.

    The fetch timeout is twice the election timeout (R-595-11): a shorter one finds a dead leader sooner and deposes a
    slow one for nothing; a shorter election timeout ends a split vote sooner and makes the next one likelier.
    """

    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_wait_ms: int = 500
    pre_vote: bool = True
    """Ask before standing (R-595-13). A peer without Vote v2 is answered for by `UNSUPPORTED_VERSION`: then stand."""
    append_linger_ms: int = 0
    """How long a flush may wait for more records. 0: at once; what comes meanwhile shares the next flush anyway."""
    linger_bytes_max: int = 1024 * 1024
    """With so many bytes waiting there is nothing to linger for."""
    snapshot_part_bytes: int = 8 * 1024 * 1024
    snapshot_after_bytes: int = 20 * 1024 * 1024
    snapshot_after_ms: int = 60 * 60 * 1_000
    retention_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 7 * 24 * 60 * 60 * 1_000

    def __post_init__(self) -> None:
        assert 2 * self.fetch_wait_ms <= self.request_timeout_ms, (
            f"a fetch waits {self.fetch_wait_ms} ms for records and is given up after {self.request_timeout_ms} ms: "
            "with clocks that differ its sender would never be answered"
        )

    @property
    def check_quorum_ms(self) -> int:
        return int(self.fetch_timeout_ms * CHECK_QUORUM_FACTOR)

    @property
    def begin_period_ms(self) -> int:
        """How often a leader tells all voters that it leads: a voter that restarted does not ask."""
        return self.fetch_timeout_ms // 2


@dataclass(slots=True)
class Unattached:
    """The epoch is known, its leader is not. None: no election is waited for (an observer)."""

    election_deadline_ms: int | None = None


@dataclass(slots=True)
class Prospective:
    """Asks who would vote for it, before it disturbs anybody with a higher epoch. Nothing of it is stored.

    At the deadline it asks all anew.
    unable:   voters of Kafka 3.9, which know no pre-vote.
    failures: how often a request to a voter failed since its last answer.
    """

    election_deadline_ms: int
    retries: int
    granted: set[int]
    rejected: set[int] = field(default_factory=set)
    unable: set[int] = field(default_factory=set)
    failures: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class Candidate:
    """Asks for votes in its epoch, with its own vote given."""

    election_deadline_ms: int
    retries: int
    granted: set[int]
    rejected: set[int] = field(default_factory=set)
    backoff_until_ms: int | None = None


@dataclass(slots=True)
class ReplicaProgress:
    """How far a replica has come, by its own fetches."""

    end: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    leader_end_then: int = -1
    told: int | None = None
    """The high watermark in the answer before, -1 when that said unknown; None before the first answer."""


@dataclass(frozen=True, slots=True)
class ParkedFetch:
    ask: FetchReceived
    deadline_ms: int


@dataclass(slots=True)
class Leadership:
    """What only a leader has."""

    epoch: int
    start: int
    check_quorum_deadline_ms: int
    next_begin_ms: int
    high_watermark: int | None = None
    replicas: dict[int, ReplicaProgress] = field(default_factory=dict)
    parked: dict[int, ParkedFetch] = field(default_factory=dict)
    heard: set[int] = field(default_factory=set)
    """Voters that fetched since the check of the quorum began anew."""
    to_begin: set[int] = field(default_factory=set)
    """Voters that are still to be told in this round that an epoch began."""
    flush_due_ms: int | None = None
    lingering_bytes: int = 0
    flush_deadline_ms: int | None = None
    """When the own disk must have brought something more to safety; None while nothing is wanted of it."""


@dataclass(slots=True)
class Download:
    """A snapshot on its way; `position` bytes of it are written."""

    snapshot: SnapshotId
    position: int = 0


@dataclass(slots=True)
class Follower:
    """Fetches from the leader."""

    leader: int
    fetch_timeout_ms: int
    fetch_deadline_ms: int
    has_fetched: bool = False
    download: Download | None = None
    is_left: bool = False
    """The leader said that it leads no more."""
    is_named: bool = False
    """And asked this node first to stand."""


@dataclass(slots=True)
class Resigned:
    """Led this epoch and does not any more; nobody else can in it."""

    election_deadline_ms: int | None
    successors: tuple[int, ...] = ()
    unacknowledged: set[int] = field(default_factory=set)


Role = Unattached | Prospective | Candidate | Leadership | Follower | Resigned
