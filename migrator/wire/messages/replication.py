"""How the log travels: a replica reads records, or a snapshot where the log no longer reaches back.

In:   `schema`.
Out:  Fetch (1), FetchSnapshot (59).
Elsewhere: elections (`raft.py` beside this), what a reader does with the answer (raft), the batches inside (`batch`).
Source: Kafka 3.9 message schemas, KIP-595, KIP-630, KIP-853; checked by tests/contract/test_wire_kio.py.

R-595-01: both carry an array of topics with an array of partitions, so that one message can serve many raft groups; a
controller asks for one topic, __cluster_metadata, with partition 0. R-595-02: there is no other RPC for replication.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from migrator.wire.messages.shared import (
    ErrorCode,
    Host,
    LeaderEpoch,
    LeaderId,
    NodeEndpoint,
    NodeId,
    PartitionIndex,
    Port,
    Rack,
    TopicName,
)
from migrator.wire.primitives import ZERO_UUID
from migrator.wire.schema import ARRAY, INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Field, Message, Part

NO_BYTES_LIMIT: Final = 0x7FFFFFFF

# --- Fetch: a replica reads the log (and a client any topic) ------------------------------------------------


class FetchReplicaState(Part):
    """Who fetches, from version 15 on."""

    replica_id: Annotated[int, Field(INT32, "the replica's node id; -1: a client")] = -1
    replica_epoch: Annotated[int, Field(INT64, "the replica's broker epoch; -1: none")] = -1


class FetchPartition(Part):
    """Where one partition is read on."""

    partition: PartitionIndex = 0
    current_leader_epoch: Annotated[
        int, Field(INT32, "the epoch the reader believes in; another one is an error", since=9, droppable=True)
    ] = -1
    fetch_offset: Annotated[int, Field(INT64, "first offset wanted, which is the end of the reader's log")] = 0
    last_fetched_epoch: Annotated[
        int, Field(INT32, "epoch of the reader's last record; shows divergence; -1: unknown", since=12)
    ] = -1
    log_start_offset: Annotated[
        int, Field(INT64, "first offset the follower still has; -1: a client", since=5, droppable=True)
    ] = -1
    partition_max_bytes: Annotated[int, Field(INT32, "wanted limit; raft readers send 0 and mean none")] = 0
    replica_directory_id: Annotated[
        bytes, Field(UUID, "the reader's log directory; zero: none", since=17, tag=0, droppable=True)
    ] = ZERO_UUID


class FetchTopic(Part):
    """The partitions of one topic that are read on."""

    topic: Annotated[str, Field(STRING, "the topic's name", until=12, droppable=True)] = ""
    topic_id: Annotated[bytes, Field(UUID, "the topic's id in place of its name", since=13, droppable=True)] = ZERO_UUID
    partitions: Annotated[Sequence[FetchPartition], Field(ARRAY(FetchPartition), "one for each partition")] = ()


class ForgottenTopic(Part):
    """Partitions that leave an incremental fetch session."""

    topic: Annotated[str, Field(STRING, "the topic's name", since=7, until=12, droppable=True)] = ""
    topic_id: Annotated[bytes, Field(UUID, "the topic's id in place of its name", since=13, droppable=True)] = ZERO_UUID
    partitions: Annotated[Sequence[int], Field(ARRAY(INT32), "partition numbers", since=7)] = ()


class FetchRequest(Message, api_key=1, versions=(0, 17), flexible_since=12):
    """A follower asks for what comes next. Between controllers it is at least version 13 (topic ids)."""

    cluster_id: Annotated[
        str | None, Field(STRING, "None: do not check it", since=12, nullable=True, tag=0, droppable=True)
    ] = None
    replica_id: Annotated[int, Field(INT32, "the replica's node id; -1: a client", until=14)] = -1
    replica_state: Annotated[FetchReplicaState, Field(FetchReplicaState, "who fetches", since=15, tag=1)] = (
        FetchReplicaState()
    )
    max_wait_ms: Annotated[int, Field(INT32, "how long to wait for min_bytes")] = 0
    min_bytes: Annotated[int, Field(INT32, "answer as soon as there is this much")] = 0
    max_bytes: Annotated[int, Field(INT32, "limit for the whole answer", since=3, droppable=True)] = NO_BYTES_LIMIT
    isolation_level: Annotated[
        int, Field(INT8, "0: all records, 1: no records of aborted transactions", since=4, droppable=True)
    ] = 0
    session_id: Annotated[int, Field(INT32, "incremental fetch session; 0: none", since=7, droppable=True)] = 0
    session_epoch: Annotated[
        int, Field(INT32, "counts the requests of a session; -1: no session", since=7, droppable=True)
    ] = -1
    topics: Annotated[Sequence[FetchTopic], Field(ARRAY(FetchTopic), "what is read")] = ()
    forgotten_topics_data: Annotated[
        Sequence[ForgottenTopic], Field(ARRAY(ForgottenTopic), "what leaves the session", since=7)
    ] = ()
    rack_id: Annotated[str, Field(STRING, "the client's rack, to find a near replica", since=11, droppable=True)] = ""


class EpochEndOffset(Part):
    """The last epoch that reader and leader share, and where it ends: the reader truncates to there."""

    epoch: Annotated[int, Field(INT32, "largest epoch up to the asked one; -1: no divergence")] = -1
    end_offset: Annotated[int, Field(INT64, "first offset behind that epoch")] = -1


class FetchCurrentLeader(Part):
    """Who leads. A stock raft follower needs it in every answer, also in a successful one."""

    leader_id: LeaderId = -1
    leader_epoch: LeaderEpoch = -1


class FetchResponseSnapshotId(Part):
    """The snapshot to fetch instead, since the log no longer reaches back that far."""

    end_offset: Annotated[int, Field(INT64, "first offset behind the snapshot; -1: no snapshot needed")] = -1
    epoch: Annotated[int, Field(INT32, "epoch of the snapshot's last record")] = -1


class AbortedTransaction(Part):
    """Records of this producer from this offset on were never committed."""

    producer_id: Annotated[int, Field(INT64, "the transaction's producer", since=4)] = 0
    first_offset: Annotated[int, Field(INT64, "the transaction's first record", since=4)] = 0


class FetchPartitionResult(Part):
    """What one partition gives, or why it does not."""

    partition_index: PartitionIndex = 0
    error_code: ErrorCode = 0
    high_watermark: Annotated[int, Field(INT64, "records below it are committed; -1: unknown")] = 0
    last_stable_offset: Annotated[
        int, Field(INT64, "records below it are decided, transactions included", since=4, droppable=True)
    ] = -1
    log_start_offset: Annotated[int, Field(INT64, "first offset the leader has", since=5, droppable=True)] = -1
    diverging_epoch: Annotated[
        EpochEndOffset, Field(EpochEndOffset, "set: the reader has to truncate first", since=12, tag=0)
    ] = EpochEndOffset()
    current_leader: Annotated[FetchCurrentLeader, Field(FetchCurrentLeader, "who leads", since=12, tag=1)] = (
        FetchCurrentLeader()
    )
    snapshot_id: Annotated[
        FetchResponseSnapshotId, Field(FetchResponseSnapshotId, "set: fetch this snapshot first", since=12, tag=2)
    ] = FetchResponseSnapshotId()
    aborted_transactions: Annotated[
        Sequence[AbortedTransaction] | None,
        Field(ARRAY(AbortedTransaction), "transactions to leave out", since=4, nullable=True, droppable=True),
    ] = ()
    preferred_read_replica: Annotated[int, Field(INT32, "a nearer replica; -1: none", since=11)] = -1
    records: Annotated[bytes | None, Field(RECORDS, "whole batches; the last may be cut short", nullable=True)] = None


class FetchTopicResult(Part):
    """The answers for one topic's partitions."""

    topic: Annotated[str, Field(STRING, "the topic's name", until=12, droppable=True)] = ""
    topic_id: Annotated[bytes, Field(UUID, "the topic's id in place of its name", since=13, droppable=True)] = ZERO_UUID
    partitions: Annotated[
        Sequence[FetchPartitionResult], Field(ARRAY(FetchPartitionResult), "one for each partition")
    ] = ()


class FetchNodeEndpoint(Part):
    """The address of a leader that the answer names."""

    node_id: NodeId = 0
    host: Host = ""
    port: Port = 0  # 32 bits here, 16 in every other raft answer
    rack: Rack = None


class FetchResponse(Message, api_key=1, versions=(0, 17), flexible_since=12):
    """Records, or what the reader has to do before it can have records."""

    throttle_time_ms: Annotated[int, Field(INT32, "how long a quota held this back", since=1, droppable=True)] = 0
    error_code: Annotated[int, Field(INT16, "error of the whole request", since=7, droppable=True)] = 0
    session_id: Annotated[int, Field(INT32, "incremental fetch session; 0: none", since=7)] = 0
    responses: Annotated[Sequence[FetchTopicResult], Field(ARRAY(FetchTopicResult), "one for each topic")] = ()
    node_endpoints: Annotated[
        Sequence[FetchNodeEndpoint], Field(ARRAY(FetchNodeEndpoint), "addresses of named leaders", since=16, tag=0)
    ] = ()


# --- FetchSnapshot: a replica reads a snapshot in pieces ----------------------------------------------------


class WireSnapshotId(Part):
    """Which snapshot, by its end."""

    end_offset: Annotated[int, Field(INT64, "first offset behind the snapshot")] = 0
    epoch: Annotated[int, Field(INT32, "epoch of the snapshot's last record")] = 0


class FetchSnapshotPartition(Part):
    """Where one snapshot is read on."""

    partition: PartitionIndex = 0
    current_leader_epoch: Annotated[int, Field(INT32, "the epoch the reader believes in")] = 0
    snapshot_id: Annotated[WireSnapshotId, Field(WireSnapshotId, "as named by the Fetch answer")] = WireSnapshotId()
    position: Annotated[int, Field(INT64, "first byte wanted")] = 0
    replica_directory_id: Annotated[
        bytes, Field(UUID, "the reader's log directory; zero: none", since=1, tag=0, droppable=True)
    ] = ZERO_UUID


class FetchSnapshotTopic(Part):
    """The snapshots of one topic's partitions."""

    name: TopicName = ""
    partitions: Annotated[
        Sequence[FetchSnapshotPartition], Field(ARRAY(FetchSnapshotPartition), "one for each partition")
    ] = ()


class FetchSnapshotRequest(Message, api_key=59, versions=(0, 1), flexible_since=0):
    """A follower that is too far behind asks for a piece of a snapshot."""

    cluster_id: Annotated[str | None, Field(STRING, "None: do not check it", nullable=True, tag=0)] = None
    replica_id: Annotated[int, Field(INT32, "the reader's node id")] = -1
    max_bytes: Annotated[int, Field(INT32, "limit for the whole answer")] = NO_BYTES_LIMIT
    topics: Annotated[
        Sequence[FetchSnapshotTopic], Field(ARRAY(FetchSnapshotTopic), "always one: __cluster_metadata")
    ] = ()


class FetchSnapshotCurrentLeader(Part):
    """Who leads; leader 0 at epoch 0 is the default and so never written."""

    leader_id: LeaderId = 0
    leader_epoch: LeaderEpoch = 0


class FetchSnapshotPartitionResult(Part):
    """A piece of one snapshot."""

    index: PartitionIndex = 0
    error_code: ErrorCode = 0
    snapshot_id: Annotated[WireSnapshotId, Field(WireSnapshotId, "which snapshot this is a piece of")] = (
        WireSnapshotId()
    )
    current_leader: Annotated[
        FetchSnapshotCurrentLeader, Field(FetchSnapshotCurrentLeader, "who leads, when the reader was wrong", tag=0)
    ] = FetchSnapshotCurrentLeader()
    size: Annotated[int, Field(INT64, "bytes of the whole snapshot")] = 0
    position: Annotated[int, Field(INT64, "first byte of this piece")] = 0
    unaligned_records: Annotated[bytes, Field(RECORDS, "bytes that need not begin or end with a batch")] = b""


class FetchSnapshotTopicResult(Part):
    """The answers for one topic's partitions."""

    name: TopicName = ""
    partitions: Annotated[
        Sequence[FetchSnapshotPartitionResult], Field(ARRAY(FetchSnapshotPartitionResult), "one for each partition")
    ] = ()


class FetchSnapshotResponse(Message, api_key=59, versions=(0, 1), flexible_since=0):
    """A piece of a snapshot. Errors 3 and 99 make a stock follower stop its process; use 98."""

    throttle_time_ms: Annotated[int, Field(INT32, "how long a quota held this back", droppable=True)] = 0
    error_code: ErrorCode = 0
    topics: Annotated[
        Sequence[FetchSnapshotTopicResult], Field(ARRAY(FetchSnapshotTopicResult), "one for each topic")
    ] = ()
    node_endpoints: Annotated[
        Sequence[NodeEndpoint], Field(ARRAY(NodeEndpoint), "addresses of named leaders", since=1, tag=0)
    ] = ()
