"""Requests of this voter to the others: one connection each, one request at a time.

In:   `Send...` effects of the consensus core.
Out:  events with the answers; `RequestFailed` when there will be none.
Elsewhere: who is asked what and when, and for how long an answer counts (raft), serving such requests (quorum_apis.py).
The version of each request is the newest that both sides know, learned once per connection.
Source: Kafka 3.9 `KafkaNetworkChannel`, `RaftUtil`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from migrator.findings.finding import words_of
from migrator.node.config.properties import VoterAddress
from migrator.node.observer.log_reader import METADATA_TOPIC, METADATA_TOPIC_ID
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.raft.effects import (
    SendBeginQuorumEpoch,
    SendEndQuorumEpoch,
    SendFetch,
    SendFetchSnapshot,
    SendVote,
)
from migrator.raft.types import (
    QUORUM_ERRORS,
    Event,
    FetchAnswered,
    FetchSnapshotAnswered,
    LeaderClaimAnswered,
    ReplicatedBatch,
    RequestFailed,
    SnapshotId,
    VoteAnswered,
)
from migrator.wire.batch import TornBatchError, peek, verify_crc
from migrator.wire.errors import Error
from migrator.wire.frames import API_KEYS
from migrator.wire.messages.handshake import ApiVersionsRequest, ApiVersionsResponse
from migrator.wire.messages.raft import (
    BeginQuorumEpochPartition,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    BeginQuorumEpochTopic,
    EndQuorumEpochPartition,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    EndQuorumEpochTopic,
    PreferredCandidate,
    VotePartition,
    VoteRequest,
    VoteResponse,
    VoteTopic,
)
from migrator.wire.messages.replication import (
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
    FetchSnapshotPartition,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotTopic,
    FetchTopic,
    WireSnapshotId,
)
from migrator.wire.schema import Message, declaration_of

log = structlog.get_logger()

Send = SendVote | SendBeginQuorumEpoch | SendEndQuorumEpoch | SendFetch | SendFetchSnapshot

API_VERSIONS_VERSION: Final = 3
OUR_SOFTWARE: Final = "zk2kraft"
"""How our voters name themselves in ApiVersions; Kafka's say apache-kafka-java."""
PRE_VOTE_SINCE: Final = 2
"""The version of Vote that can say it; Kafka 3.9 ends at 1."""


class Peer:
    """One other voter."""

    def __init__(
        self, voter: VoterAddress, node_id: int, cluster_id: str, timeout_s: float, security: ClientSecurity = PLAINTEXT
    ) -> None:
        self._voter = voter
        self._cluster_id = cluster_id
        self._timeout_s = timeout_s
        self._connection = BrokerConnection(voter.host, voter.port, f"raft-client-{node_id}", security)
        self._highest: Mapping[int, int] | None = None

    async def ask(self, send: Send) -> Event:
        """Raises OSError, TimeoutError or a finding when there is no answer that can be used."""
        match send:
            case SendVote():
                if send.pre_vote and await self._highest_of(VoteRequest) < PRE_VOTE_SINCE:
                    return _cannot_be_asked(send)
                return _vote_answered(send, await self._exchange(_vote(send, self._cluster_id), VoteResponse))
            case SendBeginQuorumEpoch():
                begin = _begin(send, self._cluster_id, self._voter)
                return _begun(send, await self._exchange(begin, BeginQuorumEpochResponse))
            case SendEndQuorumEpoch():
                return _ended(send, await self._exchange(_end(send, self._cluster_id), EndQuorumEpochResponse))
            case SendFetch():
                return _fetched(send, await self._exchange(_fetch(send, self._cluster_id), FetchResponse))
            case SendFetchSnapshot():
                piece = await self._exchange(_fetch_snapshot(send, self._cluster_id), FetchSnapshotResponse)
                return _piece(send, piece)

    async def _exchange(self, request: Message, response: type[Any]) -> Any:
        highest = await self._highest_of(type(request))
        return await self._connection.ask(request, highest, response, self._timeout_s)

    async def _highest_of(self, request: type[Message]) -> int:
        """The newest version that both sides know, by what this very connection has told."""
        if not self._connection.is_open or self._highest is None:
            self._highest = await self._learn_versions()
        declared = declaration_of(request)
        assert declared.api_key is not None
        highest = min(declared.highest, self._highest.get(declared.api_key, -1))
        if highest < declared.lowest:
            raise OSError(f"node {self._voter.id} does not know {API_KEYS[declared.api_key].name}")
        return highest

    async def _learn_versions(self) -> Mapping[int, int]:
        request = ApiVersionsRequest(client_software_name=OUR_SOFTWARE, client_software_version="1")
        answer = await self._connection.ask(request, API_VERSIONS_VERSION, ApiVersionsResponse, self._timeout_s)
        return {each.api_key: each.max_version for each in answer.api_keys}

    def close(self) -> None:
        self._connection.close()


class Peers:
    """All other voters; the core keeps to one request at a time for each. receive: how an answer reaches the core."""

    def __init__(
        self,
        voters: tuple[VoterAddress, ...],
        node_id: int,
        cluster_id: str,
        timeout_s: float,
        receive: Callable[[Event], None],
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        others = [voter for voter in voters if voter.id != node_id]
        self._peers = {voter.id: Peer(voter, node_id, cluster_id, timeout_s, security) for voter in others}
        self._receive = receive
        self._tasks: set[asyncio.Task[None]] = set()
        self._current: dict[int, asyncio.Task[None]] = {}
        self._trouble: dict[int, str] = {}

    def send(self, send: Send) -> None:
        """A new request to a voter takes the place of one that the core gave up."""
        before = self._current.get(send.to)
        if before is not None and not before.done():
            before.cancel()
            self._peers[send.to].close()
        task = asyncio.create_task(self._carry(send, before), name=f"to-voter-{send.to}")
        self._current[send.to] = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, send: Send, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        event: Event
        try:
            event = await self._peers[send.to].ask(send)
            self._updated(send.to, "")
        except Exception as error:  # also an answer that cannot be read: it is none
            self._updated(send.to, words_of(error))
            event = RequestFailed(send.request)
        self._receive(event)

    def _updated(self, peer: int, trouble: str) -> None:
        """Say once that a voter cannot be reached, and once that it can again."""
        if trouble != self._trouble.get(peer, ""):
            self._trouble[peer] = trouble
            log.info("peer.reached" if not trouble else "peer.not_reached", voter=peer, reason=trouble)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for peer in self._peers.values():
            peer.close()


# --- requests ---------------------------------------------------------------------------------------------


def _vote(send: SendVote, cluster_id: str) -> VoteRequest:
    partition = VotePartition(
        partition_index=0,
        candidate_epoch=send.epoch,
        candidate_id=send.candidate,
        last_offset_epoch=send.last_epoch,
        last_offset=send.last_offset,
        pre_vote=send.pre_vote,
    )
    return VoteRequest(cluster_id=cluster_id, voter_id=send.to, topics=(VoteTopic(METADATA_TOPIC, (partition,)),))


def _begin(send: SendBeginQuorumEpoch, cluster_id: str, voter: VoterAddress) -> BeginQuorumEpochRequest:
    partition = BeginQuorumEpochPartition(partition_index=0, leader_id=send.leader, leader_epoch=send.epoch)
    topics = (BeginQuorumEpochTopic(METADATA_TOPIC, (partition,)),)
    return BeginQuorumEpochRequest(cluster_id=cluster_id, voter_id=voter.id, topics=topics)


def _end(send: SendEndQuorumEpoch, cluster_id: str) -> EndQuorumEpochRequest:
    partition = EndQuorumEpochPartition(
        partition_index=0,
        leader_id=send.leader,
        leader_epoch=send.epoch,
        preferred_successors=send.successors,
        preferred_candidates=tuple(PreferredCandidate(each) for each in send.successors),
    )
    return EndQuorumEpochRequest(cluster_id=cluster_id, topics=(EndQuorumEpochTopic(METADATA_TOPIC, (partition,)),))


def _fetch(send: SendFetch, cluster_id: str) -> FetchRequest:
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=send.epoch,
        fetch_offset=send.offset,
        last_fetched_epoch=send.last_epoch,
    )
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=FetchReplicaState(replica_id=send.replica),
        max_wait_ms=send.max_wait_ms,
        topics=(FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )


def _fetch_snapshot(send: SendFetchSnapshot, cluster_id: str) -> FetchSnapshotRequest:
    partition = FetchSnapshotPartition(
        partition=0,
        current_leader_epoch=send.epoch,
        snapshot_id=WireSnapshotId(send.snapshot.end_offset, send.snapshot.epoch),
        position=send.position,
    )
    return FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=send.replica,
        max_bytes=send.max_bytes,
        topics=(FetchSnapshotTopic(METADATA_TOPIC, (partition,)),),
    )


# --- answers ----------------------------------------------------------------------------------------------


def _code(code: int) -> Error:
    """An error that the quorum does not know of is an answer that cannot be used."""
    if code not in QUORUM_ERRORS:
        raise OSError(f"error code {code}")
    return Error(code)


def _only(topics: Any, name: str) -> Any:
    """The one partition of the one topic."""
    if len(topics) != 1 or len(getattr(topics[0], name)) != 1:
        raise OSError("the answer does not speak of one partition")
    return getattr(topics[0], name)[0]


def _vote_answered(send: SendVote, answer: VoteResponse) -> VoteAnswered:
    if answer.error_code:
        return VoteAnswered(send.request, _code(answer.error_code), -1, -1, granted=False, top_level=True)
    found = _only(answer.topics, "partitions")
    return VoteAnswered(send.request, _code(found.error_code), found.leader_id, found.leader_epoch, found.vote_granted)


def _cannot_be_asked(send: SendVote) -> VoteAnswered:
    """In the peer's place, in the epoch of the question: the core then stands as a 3.9 voter does."""
    return VoteAnswered(send.request, Error.UNSUPPORTED_VERSION, -1, send.epoch, granted=False)


def _begun(send: SendBeginQuorumEpoch, answer: BeginQuorumEpochResponse) -> LeaderClaimAnswered:
    return _claim_answered(send.request, answer)


def _ended(send: SendEndQuorumEpoch, answer: EndQuorumEpochResponse) -> LeaderClaimAnswered:
    return _claim_answered(send.request, answer)


def _claim_answered(request: int, answer: BeginQuorumEpochResponse | EndQuorumEpochResponse) -> LeaderClaimAnswered:
    if answer.error_code:
        return LeaderClaimAnswered(request, _code(answer.error_code), -1, -1, top_level=True)
    found = _only(answer.topics, "partitions")
    return LeaderClaimAnswered(request, _code(found.error_code), found.leader_id, found.leader_epoch)


def _fetched(send: SendFetch, answer: FetchResponse) -> FetchAnswered:
    if answer.error_code:
        return FetchAnswered(send.request, _code(answer.error_code), -1, -1, -1, top_level=True)
    found = _only(answer.responses, "partitions")
    snapshot = found.snapshot_id
    return FetchAnswered(
        send.request,
        _code(found.error_code),
        found.current_leader.leader_id,
        found.current_leader.leader_epoch,
        found.high_watermark,
        batches=batches_of(found.records or b""),
        diverging_epoch=found.diverging_epoch.epoch,
        diverging_end=found.diverging_epoch.end_offset,
        snapshot=SnapshotId(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None,
    )


def _piece(send: SendFetchSnapshot, answer: FetchSnapshotResponse) -> FetchSnapshotAnswered:
    if answer.error_code:
        code = _code(answer.error_code)
        return FetchSnapshotAnswered(send.request, code, -1, -1, send.snapshot, 0, 0, b"", top_level=True)
    found = _only(answer.topics, "partitions")
    return FetchSnapshotAnswered(
        send.request,
        _code(found.error_code),
        found.current_leader.leader_id,
        found.current_leader.leader_epoch,
        SnapshotId(found.snapshot_id.end_offset, found.snapshot_id.epoch),
        found.size,
        found.position,
        bytes(found.unaligned_records or b""),
    )


def batches_of(records: bytes) -> tuple[ReplicatedBatch, ...]:
    """Whole batches with their checksums verified; a part of one at the end is left for the next fetch.

    Raises OSError when a checksum is wrong: what is damaged on its way is asked for again.
    """
    found = []
    view = memoryview(records)
    position = 0
    while position < len(view):
        try:
            header = peek(view, position)
            intact = verify_crc(view, position)
        except TornBatchError:
            break
        if not intact:
            raise OSError(f"the batch at offset {header.base_offset} is damaged")
        data = bytes(view[position : position + header.size])
        count = header.last_offset - header.base_offset + 1
        found.append(ReplicatedBatch(header.base_offset, count, header.leader_epoch, data))
        position += header.size
    return tuple(found)
