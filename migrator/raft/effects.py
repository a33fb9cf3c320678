"""What the core orders. A shell is one `case` per effect and no opinion.

The order of effects in a list is the contract, and so is the order of the lists: the shell carries out one list to
its end before it gives the core the next event, or at least before it carries out anything of the next list.

Before the next effect may be carried out, this must be true of the one before it:

| effect | must be |
| --- | --- |
| `Persist` | on disk, file and directory entry; every vote and every claim rests on it |
| `Truncate` | on disk: records of another history must not come back after a crash |
| `ResetLog`, `InstallSnapshot` | on disk, in the order of their own descriptions |
| `WriteSnapshotPart` | written, not necessarily on disk; `InstallSnapshot` syncs the whole file |
| `AppendLeaderChange`, `Append`, `AppendReplicated` | written in this order, not necessarily on disk |
| `Flush` | begun; a thread may finish it, `LogFlushed` reports it |
| `TakeSnapshot` | begun from the state as it is now; `SnapshotTaken` reports it |
| `Send...`, `Answer...` | handed to the connection; both may be lost |
| the others | told to whom it concerns |

Nothing is acknowledged before its fsync: a follower's next `SendFetch` is ordered only after `LogFlushed`, for its
offset says "I have everything before on disk"; a leader counts itself by `LogFlushed` alone, and shows a reader only
what is on its own disk. So a shell may delay any flush as long as it likes: that costs time, never records.
Source: KIP-595, KIP-630; Kafka 3.9 `KafkaRaftClient`, which syncs inside its loop where this one does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from migrator.raft.types import NOBODY, ElectionState, Payload, ReplicatedBatch, SnapshotId
from migrator.wire.errors import Error


class Standing(StrEnum):
    """What a node is in its quorum, as logs and metrics name it."""

    UNATTACHED = "unattached"
    VOTED = "voted"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"
    OBSERVER = "observer"


# --- the disk ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Persist:
    """Replace the quorum-state file: write, sync, rename, sync the directory."""

    state: ElectionState


@dataclass(frozen=True, slots=True)
class AppendLeaderChange:
    """One control batch that opens the epoch."""

    epoch: int
    offset: int
    leader: int
    voters: tuple[int, ...]
    granting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Append:
    """The leader's own records, to be stamped with offset and epoch."""

    epoch: int
    offset: int
    payloads: tuple[Payload, ...]


@dataclass(frozen=True, slots=True)
class AppendReplicated:
    """Batches of the leader, byte for byte; the first begins at the log's end, each where the one before ended."""

    batches: tuple[ReplicatedBatch, ...]


@dataclass(frozen=True, slots=True)
class Flush:
    """Bring the log to disk soon; `LogFlushed` reports it with this generation. Several may be joined into one."""

    generation: int = 0


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log and its epochs, so that it ends at `end`. Always at the edge of a batch."""

    end: int


@dataclass(frozen=True, slots=True)
class ResetLog:
    """Drop all segments and older snapshots; the log is empty and begins at the end of `snapshot`, which is on disk.

    Ordered at a start that finds a snapshot that the log does not reach or contradicts: a crash interrupted an
    `InstallSnapshot`. Load the state machine from `snapshot`.
    """

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class WriteSnapshotPart:
    """Write `data` at `position` of the partial file of `snapshot`; position 0 begins it anew."""

    snapshot: SnapshotId
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class DropSnapshotPart:
    """The download was given up; remove the partial file."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """The partial file is whole. First sync it and give it its name (and sync the directory), then empty the log so
    that it begins at the snapshot's end, then remove older snapshots, last load the state machine from it.

    A crash after the first step is repaired at the next start (`ResetLog`).
    """

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Write a snapshot of the state machine, which has applied exactly the records before `snapshot.end_offset`."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class TrimLog:
    """The log begins at the end of `snapshot` from now on: remove older snapshots, and segments wholly before it."""

    snapshot: SnapshotId


# --- answers ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnswerFetch:
    """The answer of one fetch. Records are those from `read_from` to before `read_to`; None means no records."""

    request: int
    error: Error
    leader: int
    epoch: int
    high_watermark: int
    log_start: int
    read_from: int | None = None
    read_to: int = 0
    diverging_epoch: int = -1
    diverging_end: int = -1
    snapshot: SnapshotId | None = None
    top_level: bool = False


@dataclass(frozen=True, slots=True)
class AnswerFetchSnapshot:
    """Bytes `position` to `position + max_bytes` of `snapshot`, `size` in all; none of it when there is an error."""

    request: int
    error: Error
    leader: int
    epoch: int
    snapshot: SnapshotId
    position: int = 0
    max_bytes: int = 0
    size: int = 0
    top_level: bool = False


@dataclass(frozen=True, slots=True)
class AnswerVote:
    request: int
    error: Error
    leader: int
    epoch: int
    granted: bool = False
    top_level: bool = False


@dataclass(frozen=True, slots=True)
class AnswerLeaderClaim:
    """The answer of a BeginQuorumEpoch or an EndQuorumEpoch."""

    request: int
    error: Error
    leader: int
    epoch: int
    top_level: bool = False


# --- requests ---------------------------------------------------------------------------------------------
# One at a time is under way to each destination. Its answer, or `RequestFailed`, names `request`; the core counts
# the time itself, and what arrives after it gave a request up is ignored.


@dataclass(frozen=True, slots=True)
class SendVote:
    request: int
    to: int
    epoch: int
    candidate: int
    last_epoch: int
    last_offset: int
    pre_vote: bool = False
    """To be sent as Vote v2 or not at all: without it, answer with `UNSUPPORTED_VERSION`."""


@dataclass(frozen=True, slots=True)
class SendBeginQuorumEpoch:
    request: int
    to: int
    epoch: int
    leader: int


@dataclass(frozen=True, slots=True)
class SendEndQuorumEpoch:
    request: int
    to: int
    epoch: int
    leader: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SendFetch:
    request: int
    to: int
    replica: int
    epoch: int
    offset: int
    last_epoch: int
    max_wait_ms: int


@dataclass(frozen=True, slots=True)
class SendFetchSnapshot:
    request: int
    to: int
    replica: int
    epoch: int
    snapshot: SnapshotId
    position: int
    max_bytes: int


# --- what is told -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AdvanceHighWatermark:
    """Records before `offset` are committed."""

    offset: int


@dataclass(frozen=True, slots=True)
class Lead:
    """This node leads `epoch`, whose first record is at `start`.

    The controller may append at once. It may decide from its image only when that has every record before `start`:
    they may still be on their way to be committed. `AdvanceHighWatermark` beyond `start` says that they are.
    """

    epoch: int
    start: int


@dataclass(frozen=True, slots=True)
class StopLeading:
    """Records that were not committed may be lost or may yet be committed by another leader: say neither."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Announce:
    """Say what this node is now and whom it believes to lead: for logs, metrics and whoever redirects clients."""

    standing: Standing
    epoch: int
    leader: int = NOBODY


Effect = (
    Persist
    | AppendLeaderChange
    | Append
    | AppendReplicated
    | Flush
    | Truncate
    | ResetLog
    | WriteSnapshotPart
    | DropSnapshotPart
    | InstallSnapshot
    | TakeSnapshot
    | TrimLog
    | AnswerFetch
    | AnswerFetchSnapshot
    | AnswerVote
    | AnswerLeaderClaim
    | SendVote
    | SendBeginQuorumEpoch
    | SendEndQuorumEpoch
    | SendFetch
    | SendFetchSnapshot
    | AdvanceHighWatermark
    | Lead
    | StopLeading
    | Announce
)
