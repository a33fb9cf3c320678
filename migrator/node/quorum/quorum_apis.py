"""What voters, observers and tools ask about the log of the quorum: its messages into events, answers into messages.

In:   decoded requests. Out: responses, with bytes of the log or of a snapshot.
Elsewhere: what is answered (raft), who waits for it (raft_node.py), the same messages from the asking end (peers.py).
Source: Kafka 3.9 `KafkaRaftClient`; facts of each message in migrator.wire.messages.
"""

from __future__ import annotations

from collections.abc import Callable

from migrator.controller.voter_changes import QuorumStanding, VoterChange, VoterChangeResponse, answer_voter_change
from migrator.node.config.voter_addresses import VoterAddresses
from migrator.node.observer.log_reader import METADATA_TOPIC, METADATA_TOPIC_ID
from migrator.node.quorum.raft_node import RaftNode
from migrator.raft.effects import AnswerFetch
from migrator.raft.types import (
    FetchReceived,
    FetchSnapshotReceived,
    LeaderClaimed,
    LeaderLeft,
    SnapshotId,
    VoteReceived,
)
from migrator.raft.voter import ReplicaState
from migrator.wire.errors import Error
from migrator.wire.messages.raft import (
    BeginQuorumEpochPartitionResult,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    BeginQuorumEpochTopicResult,
    DescribeQuorumPartitionResult,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicResult,
    EndQuorumEpochPartitionResult,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    EndQuorumEpochTopicResult,
    QuorumReplicaState,
    VotePartitionResult,
    VoteRequest,
    VoteResponse,
    VoteTopicResult,
)
from migrator.wire.messages.replication import (
    EpochEndOffset,
    FetchCurrentLeader,
    FetchNodeEndpoint,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    FetchResponseSnapshotId,
    FetchSnapshotCurrentLeader,
    FetchSnapshotPartitionResult,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotTopicResult,
    FetchTopicResult,
    WireSnapshotId,
)
from migrator.wire.messages.shared import NodeEndpoint
from migrator.wire.schema import Message

FETCH_WITH_ENDPOINTS = 17
ENDPOINTS_SINCE = 1
"""First versions of Fetch, and of every other answer of the quorum, that say where a leader is reached."""

SNAPSHOT_PIECE_BYTES_MAX = 8 * 1024 * 1024
"""More is never read at once, whatever is asked for: the reader asks for the rest, as stock's does by itself."""


class QuorumApis:
    """The requests of one node's quorum, whatever listener they come from.

    version, listener: of a request; from some version on its answer says where the leader is reached on that listener.
    """

    def __init__(
        self,
        raft: RaftNode,
        *,
        wall_ms: Callable[[], int],
        addresses: VoterAddresses | None = None,
        answer_fetch: Callable[[AnswerFetch], AnswerFetch] = lambda answer: answer,
    ) -> None:
        self._raft = raft
        self._wall_ms = wall_ms
        self._addresses = addresses or VoterAddresses()
        self._answer_fetch = answer_fetch

    def _endpoints(self, leader: int, version: int, listener: str) -> tuple[NodeEndpoint, ...]:
        return self._addresses.endpoints(leader, listener) if version >= ENDPOINTS_SINCE else ()

    async def fetch(self, request: FetchRequest, version: int, listener: str) -> FetchResponse:
        """Limits in the request are ignored: raft readers send zeros and mean none."""
        topic = request.topics[0] if len(request.topics) == 1 else None
        partition = topic.partitions[0] if topic is not None and len(topic.partitions) == 1 else None
        if topic is None or partition is None or topic.topic_id != METADATA_TOPIC_ID or partition.partition != 0:
            return FetchResponse(error_code=Error.INVALID_REQUEST)
        replica = replica_of(request)
        answer = await self._raft.fetch(
            lambda number: FetchReceived(
                number,
                request.cluster_id,
                replica,
                partition.current_leader_epoch,
                partition.fetch_offset,
                partition.last_fetched_epoch,
                request.max_wait_ms,
            )
        )
        return self._fetch_response(self._answer_fetch(answer), version, listener)

    def _fetch_response(self, answer: AnswerFetch, version: int, listener: str) -> FetchResponse:
        if answer.top_level:
            return FetchResponse(error_code=answer.error)
        records = b""
        if answer.read_from is not None:
            records = self._raft.store.read(answer.read_from, answer.read_to)
        self._raft.metrics.fetch_served(len(records))
        snapshot = FetchResponseSnapshotId()
        if answer.snapshot is not None:
            snapshot = FetchResponseSnapshotId(answer.snapshot.end_offset, answer.snapshot.epoch)
        partition = FetchPartitionResult(
            partition_index=0,
            error_code=answer.error,
            high_watermark=answer.high_watermark,
            log_start_offset=answer.log_start,
            records=records,
            diverging_epoch=EpochEndOffset(answer.diverging_epoch, answer.diverging_end),
            # Without it a stock reader takes the answer for stale and drops the records in silence.
            current_leader=FetchCurrentLeader(answer.leader, answer.epoch),
            snapshot_id=snapshot,
        )
        known = self._addresses.endpoints(answer.leader, listener) if version >= FETCH_WITH_ENDPOINTS else ()
        return FetchResponse(
            responses=(FetchTopicResult(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
            node_endpoints=tuple(FetchNodeEndpoint(each.node_id, each.host, each.port) for each in known),
        )

    async def fetch_snapshot(self, request: FetchSnapshotRequest, version: int, listener: str) -> FetchSnapshotResponse:
        asked = request.topics[0].partitions[0] if request.topics and request.topics[0].partitions else None
        if asked is None or request.topics[0].name != METADATA_TOPIC or request.max_bytes < 0:
            return FetchSnapshotResponse(error_code=Error.INVALID_REQUEST)
        snapshot = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        answer = await self._raft.fetch_snapshot(
            lambda number: FetchSnapshotReceived(
                number,
                request.cluster_id,
                request.replica_id,
                asked.current_leader_epoch,
                snapshot,
                asked.position,
                request.max_bytes,
            )
        )
        if answer.top_level:
            return FetchSnapshotResponse(error_code=answer.error)
        data = b""
        if not answer.error:
            size = min(answer.max_bytes, SNAPSHOT_PIECE_BYTES_MAX)
            data = self._raft.snapshots.read(answer.snapshot, answer.position, size)
        partition = FetchSnapshotPartitionResult(
            index=0,
            error_code=answer.error,
            snapshot_id=WireSnapshotId(answer.snapshot.end_offset, answer.snapshot.epoch),
            current_leader=FetchSnapshotCurrentLeader(answer.leader, answer.epoch),
            size=answer.size,
            position=answer.position,
            unaligned_records=data,
        )
        return FetchSnapshotResponse(
            topics=(FetchSnapshotTopicResult(METADATA_TOPIC, (partition,)),),
            node_endpoints=self._endpoints(answer.leader, version, listener),
        )

    async def vote(self, request: VoteRequest, version: int, listener: str) -> VoteResponse:
        asked = request.topics[0].partitions[0] if request.topics and request.topics[0].partitions else None
        if asked is None:
            return VoteResponse(error_code=Error.INVALID_REQUEST)
        answer = await self._raft.vote(
            lambda number: VoteReceived(
                number,
                request.cluster_id,
                request.voter_id,
                asked.candidate_id,
                asked.candidate_epoch,
                asked.last_offset_epoch,
                asked.last_offset,
                asked.voter_directory_id,
                asked.pre_vote,
            )
        )
        if answer.top_level:
            return VoteResponse(error_code=answer.error)
        partition = VotePartitionResult(0, answer.error, answer.leader, answer.epoch, answer.granted)
        return VoteResponse(
            topics=(VoteTopicResult(METADATA_TOPIC, (partition,)),),
            node_endpoints=self._endpoints(answer.leader, version, listener),
        )

    async def leader_claim(
        self, request: BeginQuorumEpochRequest | EndQuorumEpochRequest, version: int, listener: str
    ) -> Message:
        """BeginQuorumEpoch and EndQuorumEpoch look alike but for what they announce."""
        begins = isinstance(request, BeginQuorumEpochRequest)
        if not request.topics or not request.topics[0].partitions:
            code = Error.INVALID_REQUEST
            return BeginQuorumEpochResponse(error_code=code) if begins else EndQuorumEpochResponse(error_code=code)
        asked = _begun(request) if isinstance(request, BeginQuorumEpochRequest) else _left(request)
        answer = await self._raft.leader_claim(asked)
        top = answer.error if answer.top_level else Error.NONE
        endpoints = () if top else self._endpoints(answer.leader, version, listener)
        if begins:
            begun = BeginQuorumEpochPartitionResult(0, answer.error, answer.leader, answer.epoch)
            topics = () if top else (BeginQuorumEpochTopicResult(METADATA_TOPIC, (begun,)),)
            return BeginQuorumEpochResponse(error_code=top, topics=topics, node_endpoints=endpoints)
        ended = EndQuorumEpochPartitionResult(0, answer.error, answer.leader, answer.epoch)
        end_topics = () if top else (EndQuorumEpochTopicResult(METADATA_TOPIC, (ended,)),)
        return EndQuorumEpochResponse(error_code=top, topics=end_topics, node_endpoints=endpoints)

    def change_voters(self, request: VoterChange, listener: str) -> VoterChangeResponse:
        """Nobody is added, removed or moved: voters are static."""
        voter = self._raft.voter
        found = self._addresses.endpoints(voter.leader, listener)
        standing = QuorumStanding(
            cluster_id=voter.cluster_id,
            epoch=voter.epoch,
            leader=voter.leader,
            leads=voter.leadership is not None,
            knows_committed=voter.high_watermark >= 0,
            listener=self._addresses.listener,
            address=(found[0].host, found[0].port) if found else ("", 0),
        )
        return answer_voter_change(request, standing)

    def describe(self, request: DescribeQuorumRequest, version: int) -> DescribeQuorumResponse:
        """Describe the quorum; before version 2 the answer has no place for the nodes."""
        voter = self._raft.voter
        topic = request.topics[0].topic_name if request.topics else ""
        if topic != METADATA_TOPIC:
            unknown = DescribeQuorumPartitionResult(
                partition_index=0, error_code=Error.UNKNOWN_TOPIC_OR_PARTITION, error_message=None
            )
            return DescribeQuorumResponse(error_message=None, topics=(DescribeQuorumTopicResult(topic, (unknown,)),))
        now_ms, wall_ms = self._raft.now_ms(), self._wall_ms()
        found = voter.describe(now_ms)
        partition = DescribeQuorumPartitionResult(
            partition_index=0,
            error_code=found.error,
            error_message=None,
            leader_id=found.leader,
            leader_epoch=found.epoch,
            high_watermark=found.high_watermark,
            current_voters=tuple(_described(each, now_ms, wall_ms) for each in found.voters),
            observers=tuple(_described(each, now_ms, wall_ms) for each in found.observers),
        )
        return DescribeQuorumResponse(
            error_message=None,
            topics=(DescribeQuorumTopicResult(METADATA_TOPIC, (partition,)),),
            nodes=tuple(map(self._addresses.described, voter.voters)) if version >= 2 and not found.error else (),
        )


def replica_of(request: FetchRequest) -> int:
    """Version 15 moved the id into a structure of its own."""
    return request.replica_state.replica_id if request.replica_state.replica_id >= 0 else request.replica_id


def _begun(request: BeginQuorumEpochRequest) -> Callable[[int], LeaderClaimed]:
    asked = request.topics[0].partitions[0]
    return lambda number: LeaderClaimed(
        number, request.cluster_id, asked.leader_id, asked.leader_epoch, request.voter_id, asked.voter_directory_id
    )


def _left(request: EndQuorumEpochRequest) -> Callable[[int], LeaderLeft]:
    """Version 1 names candidates where version 0 names successors."""
    asked = request.topics[0].partitions[0]
    candidates = tuple(each.candidate_id for each in asked.preferred_candidates)
    successors = candidates or tuple(asked.preferred_successors)
    return lambda number: LeaderLeft(number, request.cluster_id, asked.leader_id, asked.leader_epoch, successors)


def _described(each: ReplicaState, now_ms: int, wall_ms: int) -> QuorumReplicaState:
    fetched_ms, caught_up_ms = each.last_fetch_ms, each.last_caught_up_ms
    return QuorumReplicaState(
        replica_id=each.replica,
        log_end_offset=each.end,
        last_fetch_timestamp=-1 if fetched_ms < 0 else wall_ms - (now_ms - fetched_ms),
        last_caught_up_timestamp=-1 if caught_up_ms < 0 else wall_ms - (now_ms - caught_up_ms),
    )
