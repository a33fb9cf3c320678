"""The controller listener: frames in, frames out, in the order of each connection.

In:   connections of brokers, other voters and tools.
Out:  one answer per request. Bytes that are no request of Kafka 3.9 close their connection and nothing else.
Elsewhere: TLS and who is there (tls.py, authentication.py); what is
answered (raft, controller), how (raft_node, active_controller); this module only translates.
Source: Kafka 3.9 `ControllerApis`, `KafkaRaftClient`; facts of each message in migrator.wire.messages.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from migrator.controller.decision import Error
from migrator.controller.features import api_versions, describe_cluster, unknown_api_versions
from migrator.controller.refusals import is_refusable, refuse
from migrator.controller.requests import EnvelopeRefused, open_envelope, seal_envelope
from migrator.errors import FindingError
from migrator.model.values import ScramCredential, ScramKey
from migrator.node.active_controller import ActiveController
from migrator.node.authentication import NOT_AUTHENTICATED_BYTES_MAX, Entry, Step
from migrator.node.raft_node import RaftNode
from migrator.node.sasl import SCRAM_NUMBERS
from migrator.node.security import ListenerSecurity
from migrator.node.tls import server_context
from migrator.node.voters_seen import VotersSeen
from migrator.raft.effects import AnswerFetch
from migrator.raft.types import (
    FetchReceived,
    FetchSnapshotReceived,
    LeaderClaimed,
    LeaderLeft,
    SnapshotId,
    VoteReceived,
)
from migrator.raft.voter import ReplicaState as DescribedReplica
from migrator.wire.frames import (
    API_KEYS,
    API_VERSIONS,
    FRAME_BYTES_MAX,
    RequestHeader,
    decode_request_body,
    encode_response,
    read_frame_length,
    read_request_header,
)
from migrator.wire.messages.brokers import DescribeClusterRequest, EnvelopeRequest, EnvelopeResponse
from migrator.wire.messages.handshake import ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest
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
    QuorumNode,
    QuorumReplicaState,
    VotePartitionResult,
    VoteRequest,
    VoteResponse,
    VoteTopicResult,
)
from migrator.wire.messages.replication import (
    EpochEndOffset,
    FetchCurrentLeader,
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
)
from migrator.wire.messages.replication import SnapshotId as WireSnapshotId
from migrator.wire.schema import Message

log = structlog.get_logger()

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"
SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36


ENTER_WITHIN_S: Final = 30.0
"""A connection on which nobody has shown who they are ends after this time."""


class _NotEntered(Exception):
    """Somebody did not show who they are; the reason holds no secret."""


@dataclass(slots=True)
class _Caller:
    """Who is at the other end of one connection, as far as it said."""

    software: str = ""


class ControllerServer:
    """Serves one listener."""

    def __init__(
        self,
        raft: RaftNode,
        controller: ActiveController,
        *,
        listener: str,
        wall_ms: Callable[[], int],
        seen: VotersSeen | None = None,
        answer_fetch: Callable[[AnswerFetch], AnswerFetch] = lambda answer: answer,
        security: ListenerSecurity | None = None,
    ) -> None:
        """security: None for PLAINTEXT. Raises Z2K-3021 when its keys or certificates cannot be read."""
        self._raft = raft
        self._controller = controller
        self._listener = listener
        self._wall_ms = wall_ms
        self._seen = seen or VotersSeen()
        self._answer_fetch = answer_fetch
        self._security = security
        self._tls = None if security is None else server_context(security)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(self._accept, host or None, port, limit=1 << 20)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Close the listener and every connection."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    # --- one connection ------------------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._tls is not None:
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # nothing is read before TLS reads it
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        caller = _Caller()
        try:
            async with asyncio.timeout(ENTER_WITHIN_S):
                await self._enter(reader, writer, caller)
            while True:
                frame = await _read_frame(reader)
                writer.write(await self._answer(frame, caller))
                await writer.drain()
        except ssl.SSLError as error:
            log.warning("connection.refused", peer=str(peer), reason=f"TLS: {error.reason or error}")
        except _NotEntered as error:
            log.warning("connection.refused", peer=str(peer), reason=str(error))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the peer is gone
        except TimeoutError:
            log.warning("connection.refused", peer=str(peer), reason=f"not authenticated in {ENTER_WITHIN_S:.0f} s")
        except FindingError as error:
            log.warning("connection.refused", peer=str(peer), reason=str(error))
        finally:
            writer.close()

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, caller: _Caller) -> None:
        """Return when this connection may ask anything."""
        if self._tls is not None:
            await writer.start_tls(self._tls, ssl_handshake_timeout=ENTER_WITHIN_S)
        if self._security is None or self._security.sasl is None:
            return
        entry = Entry(self._security.sasl, self._find_credential)
        while entry.user is None:
            frame = await _read_frame(reader, NOT_AUTHENTICATED_BYTES_MAX)
            header = read_request_header(frame)
            if header.api_key == API_VERSIONS:
                writer.write(await self._answer(frame, caller))
                await writer.drain()
                continue
            step = _step(entry, header, frame)
            if step.refused is not None:
                await asyncio.sleep(self._security.failure_delay_ms / 1000)
            writer.write(encode_response(step.answer, header.api_version, correlation_id=header.correlation_id))
            await writer.drain()
            if step.refused is not None:
                raise _NotEntered(step.refused)

    def _find_credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """As the committed log has it; a node that does not know yet what is committed knows nobody."""
        return self._controller.image.scram.get(ScramKey(user, SCRAM_NUMBERS[mechanism]))

    async def _answer(self, frame: bytes, caller: _Caller) -> bytes:
        header = read_request_header(frame)
        if not header.is_supported:
            return encode_response(unknown_api_versions(), 0, correlation_id=header.correlation_id)
        request = decode_request_body(header, frame)
        self._note(request, caller)
        reply = await self._reply(header, request)
        return encode_response(reply, header.api_version, correlation_id=header.correlation_id)

    def _note(self, request: Message, caller: _Caller) -> None:
        """Keep which software fetches: of voters it matters."""
        match request:
            case ApiVersionsRequest():
                caller.software = request.client_software_name
            case FetchRequest() if (replica := _replica(request)) in self._raft.voter.voters:
                self._seen.fetched(replica, caller.software, self._raft.now_ms())
            case _:
                pass

    async def _reply(self, header: RequestHeader, request: Message) -> Message:
        try:
            return await self._route(header.api_version, request)
        except FindingError:
            raise
        except Exception:
            # A fault of ours: the peer gets an error it survives, the log gets the whole story.
            log.exception("request.failed", request=type(request).__name__, client=header.client_id)
            if not is_refusable(type(request)):
                raise
            return refuse(request, Error.UNKNOWN_SERVER_ERROR)

    async def _route(self, version: int, request: Message) -> Message:
        match request:
            case FetchRequest():
                return await self._fetch(request)
            case ApiVersionsRequest():
                enabled = self._controller.settings.migration_enabled
                return api_versions(self._controller.image, version, migration_enabled=enabled)
            case EnvelopeRequest():
                return await self._envelope(request)
            case DescribeQuorumRequest():
                return self._describe_quorum(request, version)
            case DescribeClusterRequest():
                return describe_cluster(
                    self._controller.image,
                    request,
                    version,
                    cluster_id=self._controller.settings.cluster_id,
                    leader=self._raft.voter.leader,
                    listener=self._listener,
                )
            case VoteRequest():
                return await self._vote(request)
            case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
                return await self._leader_claim(request)
            case FetchSnapshotRequest():
                return await self._fetch_snapshot(request)
            case _:
                return await self._controller.submit(request, version)

    async def _envelope(self, envelope: EnvelopeRequest) -> EnvelopeResponse:
        try:
            version, correlation, inner = open_envelope(envelope)
        except EnvelopeRefused as refused:
            return refused.response()
        return seal_envelope(await self._route(version, inner), version, correlation)

    # --- the quorum ----------------------------------------------------------------------------------------

    async def _fetch(self, request: FetchRequest) -> FetchResponse:
        """Limits in the request are ignored: raft readers send zeros and mean none."""
        topic = request.topics[0] if len(request.topics) == 1 else None
        partition = topic.partitions[0] if topic is not None and len(topic.partitions) == 1 else None
        if topic is None or partition is None or topic.topic_id != METADATA_TOPIC_ID or partition.partition != 0:
            return FetchResponse(error_code=Error.INVALID_REQUEST)
        replica = _replica(request)
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
        return self._fetch_response(self._answer_fetch(answer))

    def _fetch_response(self, answer: AnswerFetch) -> FetchResponse:
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
        return FetchResponse(responses=(FetchTopicResult(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),))

    async def _fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        asked = request.topics[0].partitions[0] if request.topics and request.topics[0].partitions else None
        if asked is None or request.topics[0].name != METADATA_TOPIC:
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
            data = self._raft.snapshots.read(answer.snapshot, answer.position, answer.max_bytes)
        partition = FetchSnapshotPartitionResult(
            index=0,
            error_code=answer.error,
            snapshot_id=WireSnapshotId(answer.snapshot.end_offset, answer.snapshot.epoch),
            current_leader=FetchSnapshotCurrentLeader(answer.leader, answer.epoch),
            size=answer.size,
            position=answer.position,
            unaligned_records=data,
        )
        return FetchSnapshotResponse(topics=(FetchSnapshotTopicResult(METADATA_TOPIC, (partition,)),))

    async def _vote(self, request: VoteRequest) -> VoteResponse:
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
        return VoteResponse(topics=(VoteTopicResult(METADATA_TOPIC, (partition,)),))

    async def _leader_claim(self, request: BeginQuorumEpochRequest | EndQuorumEpochRequest) -> Message:
        """BeginQuorumEpoch and EndQuorumEpoch look alike but for what they announce."""
        begins = isinstance(request, BeginQuorumEpochRequest)
        if not request.topics or not request.topics[0].partitions:
            code = Error.INVALID_REQUEST
            return BeginQuorumEpochResponse(error_code=code) if begins else EndQuorumEpochResponse(error_code=code)
        asked = _begun(request) if isinstance(request, BeginQuorumEpochRequest) else _left(request)
        answer = await self._raft.leader_claim(asked)
        top = answer.error if answer.top_level else Error.NONE
        if begins:
            begun = BeginQuorumEpochPartitionResult(0, answer.error, answer.leader, answer.epoch)
            topics = () if top else (BeginQuorumEpochTopicResult(METADATA_TOPIC, (begun,)),)
            return BeginQuorumEpochResponse(error_code=top, topics=topics)
        ended = EndQuorumEpochPartitionResult(0, answer.error, answer.leader, answer.epoch)
        end_topics = () if top else (EndQuorumEpochTopicResult(METADATA_TOPIC, (ended,)),)
        return EndQuorumEpochResponse(error_code=top, topics=end_topics)

    def _describe_quorum(self, request: DescribeQuorumRequest, version: int) -> DescribeQuorumResponse:
        """Before version 2 the answer has no place for the nodes."""
        voter = self._raft.voter
        topic = request.topics[0].topic_name if request.topics else ""
        if topic != METADATA_TOPIC:
            unknown = DescribeQuorumPartitionResult(
                partition_index=0, error_code=Error.UNKNOWN_TOPIC_OR_PARTITION, error_message=None
            )
            return DescribeQuorumResponse(error_message=None, topics=(DescribeQuorumTopicResult(topic, (unknown,)),))
        now_ms, wall_ms = self._raft.now_ms(), self._wall_ms()
        found = voter.describe(now_ms)

        def replica(each: DescribedReplica) -> QuorumReplicaState:
            fetched_ms, caught_up_ms = each.last_fetch_ms, each.last_caught_up_ms
            return QuorumReplicaState(
                replica_id=each.replica,
                log_end_offset=each.end,
                last_fetch_timestamp=-1 if fetched_ms < 0 else wall_ms - (now_ms - fetched_ms),
                last_caught_up_timestamp=-1 if caught_up_ms < 0 else wall_ms - (now_ms - caught_up_ms),
            )

        partition = DescribeQuorumPartitionResult(
            partition_index=0,
            error_code=found.error,
            error_message=None,
            leader_id=found.leader,
            leader_epoch=found.epoch,
            high_watermark=found.high_watermark,
            current_voters=tuple(map(replica, found.voters)),
            observers=tuple(map(replica, found.observers)),
        )
        return DescribeQuorumResponse(
            error_message=None,
            topics=(DescribeQuorumTopicResult(METADATA_TOPIC, (partition,)),),
            nodes=tuple(QuorumNode(each) for each in voter.voters) if version >= 2 else (),
        )


def _replica(request: FetchRequest) -> int:
    """Version 15 moved the id into a structure of its own."""
    return request.replica_state.replica_id if request.replica_state.replica_id >= 0 else request.replica_id


async def _read_frame(reader: asyncio.StreamReader, bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    size = read_frame_length(await reader.readexactly(4))
    if size > bytes_max:
        raise _NotEntered(f"a request of {size} bytes before it authenticated")
    return await reader.readexactly(size)


def _step(entry: Entry, header: RequestHeader, frame: bytes) -> Step:
    """Anything but the two requests of SASL ends the connection without an answer, and is not even read."""
    if header.api_key not in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
        raise _NotEntered(f"{API_KEYS[header.api_key].name} before it authenticated")
    request = decode_request_body(header, frame)
    if isinstance(request, SaslHandshakeRequest):
        return entry.handshake(request, header.api_version)
    assert isinstance(request, SaslAuthenticateRequest), request
    return entry.authenticate(request)


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
