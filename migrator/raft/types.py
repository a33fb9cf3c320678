"""What the core is told: its events, and the values that events, effects and state are made of.

Events are past tense; what the core orders in return is in `effects.py`. Requests of others carry a number that the
shell chose and finds again in the answer; answers of others carry the number that the core chose when it asked.
Source: KIP-595, KIP-630; Kafka 3.9 `KafkaRaftClient` and the raft messages' schemas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from migrator.wire.errors import Error

NOBODY = -1

NO_DIRECTORY = bytes(16)
"""The zero uuid: a voter key that carries it is matched by node id alone (kraft.version 0)."""


QUORUM_ERRORS: Final = frozenset(
    {
        Error.NONE,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.BROKER_NOT_AVAILABLE,
        Error.UNSUPPORTED_VERSION,
        Error.INVALID_REQUEST,
        Error.FENCED_LEADER_EPOCH,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.SNAPSHOT_NOT_FOUND,
        Error.INCONSISTENT_CLUSTER_ID,
        Error.INVALID_VOTER_KEY,
    }
)
"""The codes that the core can use. A message with another one is of no use to it."""


@dataclass(frozen=True, slots=True)
class ElectionState:
    """What must survive a crash: the epoch, who leads it if known, whom we voted for in it (R-595-06)."""

    epoch: int = 0
    leader: int = NOBODY
    voted_for: int = NOBODY


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """`end_offset` is exclusive: the last contained record has `end_offset - 1`."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Payload:
    """Records on their way into the log: how many, and their bytes as one batch with base offset 0."""

    count: int
    batch: bytes


@dataclass(frozen=True, slots=True)
class ReplicatedBatch:
    """One whole batch as its leader wrote it; the shell has checked its CRC and cut a partial one off the end."""

    base_offset: int
    count: int
    epoch: int
    data: bytes


# --- events of this node ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """The node has read its disk and can act. What it read must be on disk: a shell syncs a log that it opens."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time passed; a deadline of the core may be due."""


@dataclass(frozen=True, slots=True)
class AppendRequested:
    """The controller wants records in the log, in this epoch or not at all."""

    epoch: int
    payloads: tuple[Payload, ...]


@dataclass(frozen=True, slots=True)
class LogFlushed:
    """Everything before `end` is on disk. `generation` is that of the newest `Flush` before this flush began."""

    end: int
    generation: int = 0


@dataclass(frozen=True, slots=True)
class RecordsApplied:
    """The state machine has applied every committed record before `end`, `size` bytes since it last said so.

    It must be true when the core receives it, not only when it was queued: a snapshot may be ordered of exactly that
    state. So a shell that queues its events gives this one before any that could let more be applied.
    """

    end: int
    size: int


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """The snapshot that was ordered is on disk under its name, `size` bytes of it."""

    snapshot: SnapshotId
    size: int


@dataclass(frozen=True, slots=True)
class SnapshotFailed:
    """The snapshot that was ordered could not be written; the log has everything that it would have had."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A snapshot on disk, as `StorageMeasured` lists it."""

    snapshot: SnapshotId
    size: int
    age_ms: int


@dataclass(frozen=True, slots=True)
class StorageMeasured:
    """What the directory holds now; to be sent every minute, and again after each `TrimLog`.

    log_bytes: all segments together.
    snapshots: ascending; the bootstrap snapshot (0, 0) is left out.
    """

    log_bytes: int
    snapshots: tuple[StoredSnapshot, ...]


@dataclass(frozen=True, slots=True)
class ResignRequested:
    """The controller cannot go on leading `epoch`; another node shall. An older epoch is ignored."""

    epoch: int


@dataclass(frozen=True, slots=True)
class VotersUnfit:
    """Voters that vote and must not lead, as far as it is in this node's hands; all of them, each time."""

    voters: frozenset[int]


@dataclass(frozen=True, slots=True)
class Stopping:
    """The process is about to end."""


# --- requests of others -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FetchReceived:
    """A voter or observer asks for records. `replica` is -1 for a mere reader."""

    request: int
    cluster_id: str | None
    replica: int
    epoch: int
    offset: int
    last_epoch: int
    max_wait_ms: int


@dataclass(frozen=True, slots=True)
class FetchSnapshotReceived:
    """A replica asks for the bytes of a snapshot from `position` on."""

    request: int
    cluster_id: str | None
    replica: int
    epoch: int
    snapshot: SnapshotId
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class VoteReceived:
    """A candidate asks for our vote. `voter` is whom it believes to ask, -1 when the request's version has no key.

    pre_vote: Vote v2 of Kafka 4.0: would you vote for me? Nothing is promised by the answer.
    """

    request: int
    cluster_id: str | None
    voter: int
    candidate: int
    epoch: int
    last_epoch: int
    last_offset: int
    voter_directory: bytes = NO_DIRECTORY
    pre_vote: bool = False


@dataclass(frozen=True, slots=True)
class LeaderClaimed:
    """BeginQuorumEpoch: somebody says that it leads an epoch."""

    request: int
    cluster_id: str | None
    leader: int
    epoch: int
    voter: int = NOBODY
    voter_directory: bytes = NO_DIRECTORY


@dataclass(frozen=True, slots=True)
class LeaderLeft:
    """EndQuorumEpoch: the leader of an epoch leads no more; `successors` in the order of its preference."""

    request: int
    cluster_id: str | None
    leader: int
    epoch: int
    successors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestDropped:
    """The connection of a waiting request is gone; its answer is not wanted any more."""

    request: int


# --- answers to our own requests --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VoteAnswered:
    """`error` is the partition's; `top_level` when it came at the top and the rest is missing."""

    request: int
    error: Error
    leader: int
    epoch: int
    granted: bool
    top_level: bool = False


@dataclass(frozen=True, slots=True)
class LeaderClaimAnswered:
    """The answer of a BeginQuorumEpoch or an EndQuorumEpoch."""

    request: int
    error: Error
    leader: int
    epoch: int
    top_level: bool = False


@dataclass(frozen=True, slots=True)
class FetchAnswered:
    """Records, or where the logs part, or which snapshot to load instead."""

    request: int
    error: Error
    leader: int
    epoch: int
    high_watermark: int
    batches: tuple[ReplicatedBatch, ...] = ()
    diverging_epoch: int = -1
    diverging_end: int = -1
    snapshot: SnapshotId | None = None
    top_level: bool = False


@dataclass(frozen=True, slots=True)
class FetchSnapshotAnswered:
    """A piece of a snapshot: `data` is its content from `position` on, `size` that of the whole file."""

    request: int
    error: Error
    leader: int
    epoch: int
    snapshot: SnapshotId
    size: int
    position: int
    data: bytes
    top_level: bool = False


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """No answer will come: not connected, disconnected, timed out, or no version that both sides speak."""

    request: int


Event = (
    Started
    | Ticked
    | AppendRequested
    | LogFlushed
    | RecordsApplied
    | SnapshotTaken
    | SnapshotFailed
    | StorageMeasured
    | ResignRequested
    | VotersUnfit
    | Stopping
    | FetchReceived
    | FetchSnapshotReceived
    | VoteReceived
    | LeaderClaimed
    | LeaderLeft
    | RequestDropped
    | VoteAnswered
    | LeaderClaimAnswered
    | FetchAnswered
    | FetchSnapshotAnswered
    | RequestFailed
)
