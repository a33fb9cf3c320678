"""How voters agree on a leader, and on who the voters are.

In:   `schema`.
Out:  Vote (52), BeginQuorumEpoch (53), EndQuorumEpoch (54), DescribeQuorum (55), AddRaftVoter (80),
      RemoveRaftVoter (81), UpdateRaftVoter (82).
Elsewhere: how the log is copied (`replication`), when which of them is sent and what the answer changes (raft).
Source: Kafka 3.9 message schemas, KIP-595, KIP-853; checked by tests/contract/test_wire_kio.py. Vote version 2 is of
Kafka 4.0 (KIP-996): checked by fixed frames in tests/unit/wire/test_frames.py and by tests/e2e/test_later_voter.py.

R-595-01: each of these RPCs carries an array of topics with an array of partitions, so that one message can speak for
many raft groups. Kafka serves one group: a request has exactly one topic, __cluster_metadata, with partition 0.
"""

from collections.abc import Sequence
from typing import Annotated

from migrator.wire.messages.shared import (
    ClusterId,
    DirectoryId,
    ErrorCode,
    Host,
    KRaftVersionFeature,
    LeaderEpoch,
    LeaderId,
    NodeEndpoint,
    NodeId,
    PartitionIndex,
    Port,
    RaftEndpoint,
    ThrottleTimeMs,
    TopicName,
)
from migrator.wire.primitives import ZERO_UUID
from migrator.wire.schema import ARRAY, BOOL, INT32, INT64, STRING, UUID, Field, Message, Part

# --- Vote: a candidate asks for votes -----------------------------------------------------------------------


class VotePartition(Part):
    """One candidacy: how up to date the candidate's log is decides.

    In a pre-vote the epoch is the one that its sender is in, and not yet the one it wants to lead.
    """

    partition_index: PartitionIndex = 0
    candidate_epoch: Annotated[int, Field(INT32, "the epoch the candidate wants to lead")] = 0
    candidate_id: Annotated[int, Field(INT32, "the candidate's node id")] = 0
    candidate_directory_id: Annotated[
        bytes, Field(UUID, "the candidate's log directory; zero: none", since=1, droppable=True)
    ] = ZERO_UUID
    voter_directory_id: Annotated[
        bytes, Field(UUID, "the asked voter's log directory; zero: not checked", since=1, droppable=True)
    ] = ZERO_UUID
    last_offset_epoch: Annotated[int, Field(INT32, "epoch of the candidate's last record")] = 0
    last_offset: Annotated[int, Field(INT64, "end of the candidate's log")] = 0
    pre_vote: Annotated[
        bool, Field(BOOL, "true: would it be given? Nothing is promised, no epoch changes (Kafka 4.0)", since=2)
    ] = False


class VoteTopic(Part):
    """The candidacies in one topic."""

    topic_name: TopicName = ""
    partitions: Annotated[Sequence[VotePartition], Field(ARRAY(VotePartition), "always one: partition 0")] = ()


class VoteRequest(Message, api_key=52, versions=(0, 2), flexible_since=0):
    """A candidate asks a voter for its vote."""

    cluster_id: ClusterId = None
    voter_id: Annotated[int, Field(INT32, "who is asked; -1: not checked", since=1, droppable=True)] = -1
    topics: Annotated[Sequence[VoteTopic], Field(ARRAY(VoteTopic), "always one: __cluster_metadata")] = ()


class VotePartitionResult(Part):
    """Given or refused, and the leader and epoch the voter knows."""

    partition_index: PartitionIndex = 0
    error_code: ErrorCode = 0
    leader_id: LeaderId = 0
    leader_epoch: LeaderEpoch = 0
    vote_granted: Annotated[bool, Field(BOOL, "true: the vote is the candidate's")] = False


class VoteTopicResult(Part):
    """The votes in one topic."""

    topic_name: TopicName = ""
    partitions: Annotated[Sequence[VotePartitionResult], Field(ARRAY(VotePartitionResult), "one for each asked")] = ()


class VoteResponse(Message, api_key=52, versions=(0, 2), flexible_since=0):
    """The voter's answer. Top-level error 31 makes a stock candidate stop its process."""

    error_code: ErrorCode = 0
    topics: Annotated[Sequence[VoteTopicResult], Field(ARRAY(VoteTopicResult), "one for each topic")] = ()
    node_endpoints: Annotated[
        Sequence[NodeEndpoint], Field(ARRAY(NodeEndpoint), "addresses of named leaders", since=1, tag=0)
    ] = ()


# --- BeginQuorumEpoch: a new leader tells the voters --------------------------------------------------------


class BeginQuorumEpochPartition(Part):
    """Who leads one partition now."""

    partition_index: PartitionIndex = 0
    voter_directory_id: Annotated[
        bytes, Field(UUID, "the receiving voter's log directory; zero: not checked", since=1, droppable=True)
    ] = ZERO_UUID
    leader_id: LeaderId = 0
    leader_epoch: LeaderEpoch = 0


class BeginQuorumEpochTopic(Part):
    """The new leaders in one topic."""

    topic_name: TopicName = ""
    partitions: Annotated[
        Sequence[BeginQuorumEpochPartition], Field(ARRAY(BeginQuorumEpochPartition), "always one: partition 0")
    ] = ()


class BeginQuorumEpochRequest(Message, api_key=53, versions=(0, 1), flexible_since=1):
    """The leader tells a voter of itself, and repeats it every second since unattached voters do not fetch."""

    cluster_id: ClusterId = None
    voter_id: Annotated[int, Field(INT32, "who is told; -1: not checked", since=1, droppable=True)] = -1
    topics: Annotated[
        Sequence[BeginQuorumEpochTopic], Field(ARRAY(BeginQuorumEpochTopic), "always one: __cluster_metadata")
    ] = ()
    leader_endpoints: Annotated[
        Sequence[RaftEndpoint], Field(ARRAY(RaftEndpoint), "where the leader listens", since=1, droppable=True)
    ] = ()


class BeginQuorumEpochPartitionResult(Part):
    """The leader and epoch that the voter knows."""

    partition_index: PartitionIndex = 0
    error_code: ErrorCode = 0
    leader_id: LeaderId = 0
    leader_epoch: LeaderEpoch = 0


class BeginQuorumEpochTopicResult(Part):
    """The answers for one topic's partitions."""

    topic_name: TopicName = ""
    partitions: Annotated[
        Sequence[BeginQuorumEpochPartitionResult],
        Field(ARRAY(BeginQuorumEpochPartitionResult), "one for each told"),
    ] = ()


class BeginQuorumEpochResponse(Message, api_key=53, versions=(0, 1), flexible_since=1):
    """The voter follows, or knows better."""

    error_code: ErrorCode = 0
    topics: Annotated[
        Sequence[BeginQuorumEpochTopicResult], Field(ARRAY(BeginQuorumEpochTopicResult), "one for each topic")
    ] = ()
    node_endpoints: Annotated[
        Sequence[NodeEndpoint], Field(ARRAY(NodeEndpoint), "addresses of named leaders", since=1, tag=0)
    ] = ()


# --- EndQuorumEpoch: a leader leaves ------------------------------------------------------------------------


class PreferredCandidate(Part):
    """A voter that should stand for election, best first."""

    candidate_id: Annotated[int, Field(INT32, "the voter's node id", since=1)] = 0
    candidate_directory_id: Annotated[bytes, Field(UUID, "its log directory; zero: not known", since=1)] = ZERO_UUID


class EndQuorumEpochPartition(Part):
    """Whose leadership of one partition ends, and who should be next (R-595-03: highest replicated offset first)."""

    partition_index: PartitionIndex = 0
    leader_id: LeaderId = 0
    leader_epoch: LeaderEpoch = 0
    preferred_successors: Annotated[
        Sequence[int], Field(ARRAY(INT32), "voters by replicated offset, highest first", until=0, droppable=True)
    ] = ()
    preferred_candidates: Annotated[
        Sequence[PreferredCandidate],
        Field(ARRAY(PreferredCandidate), "voters by replicated offset, highest first", since=1, droppable=True),
    ] = ()


class EndQuorumEpochTopic(Part):
    """The leaderships that end in one topic."""

    topic_name: TopicName = ""
    partitions: Annotated[
        Sequence[EndQuorumEpochPartition], Field(ARRAY(EndQuorumEpochPartition), "always one: partition 0")
    ] = ()


class EndQuorumEpochRequest(Message, api_key=54, versions=(0, 1), flexible_since=1):
    """A leader that shuts down asks the voters to elect another one at once."""

    cluster_id: ClusterId = None
    topics: Annotated[
        Sequence[EndQuorumEpochTopic], Field(ARRAY(EndQuorumEpochTopic), "always one: __cluster_metadata")
    ] = ()
    leader_endpoints: Annotated[
        Sequence[RaftEndpoint], Field(ARRAY(RaftEndpoint), "where the leaving leader listens", since=1, droppable=True)
    ] = ()


class EndQuorumEpochPartitionResult(Part):
    """The leader and epoch that the voter knows."""

    partition_index: PartitionIndex = 0
    error_code: ErrorCode = 0
    leader_id: LeaderId = 0
    leader_epoch: LeaderEpoch = 0


class EndQuorumEpochTopicResult(Part):
    """The answers for one topic's partitions."""

    topic_name: TopicName = ""
    partitions: Annotated[
        Sequence[EndQuorumEpochPartitionResult], Field(ARRAY(EndQuorumEpochPartitionResult), "one for each told")
    ] = ()


class EndQuorumEpochResponse(Message, api_key=54, versions=(0, 1), flexible_since=1):
    """The voter took note, or knows better."""

    error_code: ErrorCode = 0
    topics: Annotated[
        Sequence[EndQuorumEpochTopicResult], Field(ARRAY(EndQuorumEpochTopicResult), "one for each topic")
    ] = ()
    node_endpoints: Annotated[
        Sequence[NodeEndpoint], Field(ARRAY(NodeEndpoint), "addresses of named leaders", since=1, tag=0)
    ] = ()


# --- DescribeQuorum: an operator looks ----------------------------------------------------------------------


class DescribeQuorumPartition(Part):
    """Which quorum."""

    partition_index: PartitionIndex = 0


class DescribeQuorumTopic(Part):
    """The quorums of one topic."""

    topic_name: TopicName = ""
    partitions: Annotated[
        Sequence[DescribeQuorumPartition], Field(ARRAY(DescribeQuorumPartition), "always one: partition 0")
    ] = ()


class DescribeQuorumRequest(Message, api_key=55, versions=(0, 2), flexible_since=0):
    """A tool asks the leader for the state of the quorum; a broker passes it on."""

    topics: Annotated[
        Sequence[DescribeQuorumTopic], Field(ARRAY(DescribeQuorumTopic), "always one: __cluster_metadata")
    ] = ()


class QuorumReplicaState(Part):
    """How far one voter or observer is, as the leader sees it."""

    replica_id: Annotated[int, Field(INT32, "the replica's node id")] = 0
    replica_directory_id: Annotated[bytes, Field(UUID, "its log directory; zero: none", since=2)] = ZERO_UUID
    log_end_offset: Annotated[int, Field(INT64, "its last known log end; -1: never seen")] = 0
    last_fetch_timestamp: Annotated[
        int, Field(INT64, "when it last fetched, by the leader's clock in ms; -1: unknown", since=1, droppable=True)
    ] = -1
    last_caught_up_timestamp: Annotated[
        int, Field(INT64, "when it last had everything, in ms; -1: unknown", since=1, droppable=True)
    ] = -1


class DescribeQuorumPartitionResult(Part):
    """One quorum: leader, high watermark, replicas."""

    partition_index: PartitionIndex = 0
    error_code: ErrorCode = 0
    error_message: Annotated[
        str | None, Field(STRING, "the error in words", since=2, nullable=True, droppable=True)
    ] = ""
    leader_id: LeaderId = 0
    leader_epoch: LeaderEpoch = 0
    high_watermark: Annotated[int, Field(INT64, "records below it are committed")] = 0
    current_voters: Annotated[Sequence[QuorumReplicaState], Field(ARRAY(QuorumReplicaState), "the voters")] = ()
    observers: Annotated[Sequence[QuorumReplicaState], Field(ARRAY(QuorumReplicaState), "all other readers")] = ()


class DescribeQuorumTopicResult(Part):
    """The quorums of one topic."""

    topic_name: TopicName = ""
    partitions: Annotated[
        Sequence[DescribeQuorumPartitionResult], Field(ARRAY(DescribeQuorumPartitionResult), "one for each asked")
    ] = ()


class QuorumNode(Part):
    """A voter's addresses."""

    node_id: NodeId = 0
    listeners: Annotated[Sequence[RaftEndpoint], Field(ARRAY(RaftEndpoint), "where it listens", since=2)] = ()


class DescribeQuorumResponse(Message, api_key=55, versions=(0, 2), flexible_since=0):
    """The leader's view of the quorum; any other node answers 6 NOT_LEADER_OR_FOLLOWER."""

    error_code: ErrorCode = 0
    error_message: Annotated[
        str | None, Field(STRING, "the error in words", since=2, nullable=True, droppable=True)
    ] = ""
    topics: Annotated[
        Sequence[DescribeQuorumTopicResult], Field(ARRAY(DescribeQuorumTopicResult), "one for each topic")
    ] = ()
    nodes: Annotated[Sequence[QuorumNode], Field(ARRAY(QuorumNode), "the voters' addresses", since=2)] = ()


# --- changes of the quorum, at kraft.version 1 --------------------------------------------------------------


class AddRaftVoterRequest(Message, api_key=80, versions=(0, 0), flexible_since=0):
    """An operator adds an observer that has caught up to the voters."""

    cluster_id: ClusterId = ""
    timeout_ms: Annotated[int, Field(INT32, "how long it may take until it is committed")] = 0
    voter_id: Annotated[int, Field(INT32, "the new voter's node id")] = 0
    voter_directory_id: DirectoryId = ZERO_UUID
    listeners: Annotated[Sequence[RaftEndpoint], Field(ARRAY(RaftEndpoint), "where the new voter listens")] = ()


class AddRaftVoterResponse(Message, api_key=80, versions=(0, 0), flexible_since=0):
    """Committed, or why not."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    error_message: Annotated[str | None, Field(STRING, "the error in words", nullable=True, droppable=True)] = ""


class RemoveRaftVoterRequest(Message, api_key=81, versions=(0, 0), flexible_since=0):
    """An operator takes a voter out; a leader that removes itself resigns afterwards."""

    cluster_id: ClusterId = ""
    voter_id: Annotated[int, Field(INT32, "the leaving voter's node id")] = 0
    voter_directory_id: DirectoryId = ZERO_UUID


class RemoveRaftVoterResponse(Message, api_key=81, versions=(0, 0), flexible_since=0):
    """Committed, or why not."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    error_message: Annotated[str | None, Field(STRING, "the error in words", nullable=True, droppable=True)] = ""


class UpdateRaftVoterRequest(Message, api_key=82, versions=(0, 0), flexible_since=0):
    """A voter tells the leader its new address or kraft.version range. Stock 3.9.0 cannot send it."""

    cluster_id: ClusterId = ""
    current_leader_epoch: Annotated[int, Field(INT32, "the epoch the voter believes in; -1: unknown")] = 0
    voter_id: Annotated[int, Field(INT32, "the voter's node id")] = 0
    voter_directory_id: DirectoryId = ZERO_UUID
    listeners: Annotated[Sequence[RaftEndpoint], Field(ARRAY(RaftEndpoint), "where the voter listens now")] = ()
    kraft_version_feature: Annotated[KRaftVersionFeature, Field(KRaftVersionFeature, "what its software supports")] = (
        KRaftVersionFeature()
    )


class UpdateRaftVoterCurrentLeader(Part):
    """The leader and its address."""

    leader_id: LeaderId = -1
    leader_epoch: LeaderEpoch = -1
    host: Host = ""
    port: Port = 0


class UpdateRaftVoterResponse(Message, api_key=82, versions=(0, 0), flexible_since=0):
    """Taken over (before it is committed), or why not."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    current_leader: Annotated[
        UpdateRaftVoterCurrentLeader, Field(UpdateRaftVoterCurrentLeader, "who leads, where not this node", tag=0)
    ] = UpdateRaftVoterCurrentLeader()
