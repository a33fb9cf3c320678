"""The metadata log as any observer reads it, whoever leads: ours or stock. The one reader, of service and audits.

In:   the voters' addresses and how to speak to them.
Out:  who leads and up to where is committed; to a `LogSink`, snapshots and whole committed batches, in log order.
Elsewhere: what the records say (state_machine/clusters/log_observer.py), the log as files (log_copy.py).
Rules: Fetch with replica id -1 changes nothing in the quorum. Only what is below the high watermark is handed on.
Source: KIP-595 (Fetch, DescribeQuorum), KIP-630 (FetchSnapshot).
"""

from __future__ import annotations

import asyncio
import errno
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from migrator.findings.finding import FindingError, words_of
from migrator.node.config.properties import VoterAddress
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.raft.types import SnapshotId
from migrator.wire.batch import TornBatchError, peek
from migrator.wire.generate import SomeMessage
from migrator.wire.messages.raft import (
    DescribeQuorumPartition,
    DescribeQuorumPartitionResult,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
)
from migrator.wire.messages.replication import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    FetchSnapshotPartition,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotTopic,
    FetchTopic,
    WireSnapshotId,
)
from migrator.wire.schema import Message

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"
DESCRIBE_VERSION: Final = 1
FETCH_VERSION: Final = 13
SNAPSHOT_VERSION: Final = 0
NOT_LEADER: Final = 6
"""Error NOT_LEADER_OR_FOLLOWER: any voter but the leader answers DescribeQuorum with it."""
INCONSISTENT_CLUSTER_ID: Final = 104
FETCH_BYTES_MAX: Final = 8 << 20
"""The largest batch that this log can have: one fetch always gets on."""
SNAPSHOT_BYTES_MAX: Final = 1 << 30
ANSWER_S: Final = 2.0
PIECE_S: Final = 15.0
"""For a whole piece of the log, which may have `FETCH_BYTES_MAX`: over a slow link that takes its time."""
ON_A_THREAD_BYTES: Final = 1 << 16


class NoLeaderError(OSError):
    """Every voter says that it does not lead, or nothing listens at its address."""


class LogSink(Protocol):
    """Who keeps what is read, as it is on the wire. Called by one at a time, also on threads.

    blocks: whether it waits for a disk, so that even little is taken on a thread.
    A call that raises has taken nothing: the place in the log stays where it was, and the same is read again.
    """

    blocks: bool

    def begin(self) -> None:
        """What was taken until now is not of this log any more."""

    def snapshot(self, content: bytes, snapshot: SnapshotId) -> None:
        """It takes the place of all that was taken before."""

    def batches(self, data: bytes) -> None:
        """data: whole batches that follow on what was taken before."""


class LogReader:
    """A place in the log of one quorum, kept from reading to reading.

    end: the offset behind the last record that the sink has.
    """

    def __init__(
        self,
        voters: Sequence[VoterAddress],
        cluster_id: str | None,
        sink: LogSink,
        security: ClientSecurity = PLAINTEXT,
        client_id: str = "zk2kraft-service",
    ) -> None:
        """voters: with an id below 0 where only the address is known. cluster_id: the quorum refuses every Fetch that
        names another cluster than its own; None: it is not asked.
        """
        self._voters = tuple(voters)
        self._cluster_id = cluster_id
        self._sink = sink
        self.connections = {voter.id: BrokerConnection(voter.host, voter.port, client_id, security) for voter in voters}
        self._leader: int | None = None
        self.end = 0
        self._last_epoch = 0

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()

    async def read(self) -> DescribeQuorumPartitionResult:
        """Read up to what is committed when it begins: a log that grows all the time would have no end.

        Raises OSError for all that a network or a peer does, `NoLeaderError` where none leads, and what a sink raises.
        When the leader has no more to give, it returns early: `end` is below the high watermark of the answer.
        """
        quorum = await self.describe()
        if quorum.high_watermark < 0:
            raise OSError(f"controller {quorum.leader_id} has just been elected and does not know what is committed")
        leader = self.connections[quorum.leader_id if self._leader is None else self._leader]
        while self.end < quorum.high_watermark:
            answer = await self._fetch(leader, quorum)
            if answer.snapshot_id.end_offset >= 0:
                snapshot = SnapshotId(answer.snapshot_id.end_offset, answer.snapshot_id.epoch)
                await self._fetch_snapshot(leader, quorum, snapshot)
                continue
            if answer.diverging_epoch.end_offset >= 0:
                await _undivided(self._begin)
                continue
            if answer.error_code:
                raise OSError(f"controller {quorum.leader_id} answers Fetch with error {answer.error_code}")
            if not await self._take(bytes(answer.records or b""), quorum.high_watermark):
                break
        return quorum

    async def refuse_other_cluster(self, quorum: DescribeQuorumPartitionResult) -> None:
        """Ask the leader that `describe` found, by a Fetch that brings nothing. Raises OSError where it is of another
        cluster than the one that was named.
        """
        assert self._leader is not None, "nobody was found to lead"
        self.end, self._last_epoch = max(quorum.high_watermark, 0), quorum.leader_epoch
        await self._fetch(self.connections[self._leader], quorum)

    # --- who leads -----------------------------------------------------------------------------------------

    async def describe(self) -> DescribeQuorumPartitionResult:
        """Ask the last leader first. Raises OSError when no voter is found to lead: `NoLeaderError` when none does.

        A voter that is silent, or that cannot be reached, may lead; one whose address refuses the connection does not.
        """
        reasons, certain = [], bool(self._voters)
        for voter in sorted(self._voters, key=lambda each: each.id != self._leader):
            name = str(voter.id) if voter.id >= 0 else f"{voter.host}:{voter.port}"
            try:
                found = await self._describe_at(voter.id)
            except (OSError, TimeoutError, FindingError) as error:
                reasons.append(f"{name}: {words_of(error)}")
                certain = certain and refuses(error)
                continue
            if found is not None:
                self._leader = voter.id
                return found
            reasons.append(f"{name} does not lead")
        self._leader = None
        raise (NoLeaderError if certain else OSError)("; ".join(reasons) or "no voter is known")

    async def _describe_at(self, node: int) -> DescribeQuorumPartitionResult | None:
        """None: it says that it does not lead. Raises OSError for any other answer: it may lead."""
        topic = DescribeQuorumTopic(METADATA_TOPIC, (DescribeQuorumPartition(0),))
        request = DescribeQuorumRequest((topic,))
        answer = await self.connections[node].ask(request, DESCRIBE_VERSION, DescribeQuorumResponse, ANSWER_S)
        if answer.error_code or not answer.topics or not answer.topics[0].partitions:
            raise OSError(f"it answers DescribeQuorum with error {answer.error_code}")
        partition = answer.topics[0].partitions[0]
        if partition.error_code not in (0, NOT_LEADER):
            raise OSError(f"it answers DescribeQuorum with error {partition.error_code}")
        leads = not partition.error_code and (node < 0 or partition.leader_id == node)
        return partition if leads else None

    # --- the log -------------------------------------------------------------------------------------------

    async def _fetch(self, leader: BrokerConnection, quorum: DescribeQuorumPartitionResult) -> FetchPartitionResult:
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=quorum.leader_epoch,
            fetch_offset=self.end,
            last_fetched_epoch=self._last_epoch,
            partition_max_bytes=FETCH_BYTES_MAX,
        )
        topic = FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
        request = FetchRequest(cluster_id=self._cluster_id, replica_id=-1, max_wait_ms=0, topics=(topic,))
        answer = await self._piece(leader, request, FETCH_VERSION, FetchResponse)
        if answer.error_code == INCONSISTENT_CLUSTER_ID:
            raise OSError(f"controller {quorum.leader_id} belongs to another cluster than {self._cluster_id}")
        if answer.error_code or not answer.responses or not answer.responses[0].partitions:
            raise OSError(f"controller {quorum.leader_id} answers Fetch with error {answer.error_code}")
        return answer.responses[0].partitions[0]

    @staticmethod
    async def _piece(
        leader: BrokerConnection, request: Message, version: int, response: type[SomeMessage]
    ) -> SomeMessage:
        try:
            return await leader.ask(request, version, response, PIECE_S)
        except TimeoutError as error:  # this answer's, not that of a whole look
            raise OSError(f"a piece of the log did not arrive within {PIECE_S:.0f} s") from error

    async def _take(self, data: bytes, high_watermark: int) -> bool:
        """Hand on the committed batches of `data`; False when there is none."""
        position, end, epoch = 0, self.end, self._last_epoch
        while position < len(data):
            try:
                header = peek(data, position)
            except TornBatchError:
                break
            if position + header.size > len(data) or header.last_offset >= high_watermark:
                break
            position, end, epoch = position + header.size, header.last_offset + 1, header.leader_epoch
        if not position:
            return False

        def hand_on() -> None:
            self._sink.batches(data[:position])
            self.end, self._last_epoch = end, epoch

        if position > ON_A_THREAD_BYTES or self._sink.blocks:
            await _undivided(hand_on)
        else:
            hand_on()
        return True

    def _begin(self) -> None:
        self._sink.begin()
        self.end = self._last_epoch = 0

    async def _fetch_snapshot(
        self, leader: BrokerConnection, quorum: DescribeQuorumPartitionResult, snapshot: SnapshotId
    ) -> None:
        """Begin anew with a snapshot: the log does not reach back to where we are."""
        with tempfile.TemporaryFile() as file:
            size, position = 1, 0
            while position < size:
                part = FetchSnapshotPartition(
                    partition=0,
                    current_leader_epoch=quorum.leader_epoch,
                    snapshot_id=WireSnapshotId(snapshot.end_offset, snapshot.epoch),
                    position=position,
                )
                request = FetchSnapshotRequest(
                    cluster_id=self._cluster_id,
                    replica_id=-1,
                    max_bytes=FETCH_BYTES_MAX,
                    topics=(FetchSnapshotTopic(METADATA_TOPIC, (part,)),),
                )
                answer = await self._piece(leader, request, SNAPSHOT_VERSION, FetchSnapshotResponse)
                if answer.error_code or not answer.topics or not answer.topics[0].partitions:
                    raise OSError(f"FetchSnapshot is answered with error {answer.error_code}")
                piece = answer.topics[0].partitions[0]
                data = bytes(piece.unaligned_records or b"")
                if piece.error_code or not data or piece.size > SNAPSHOT_BYTES_MAX:
                    raise OSError(f"snapshot {snapshot} cannot be read: error {piece.error_code}, {piece.size} bytes")
                file.write(data)
                size, position = piece.size, position + len(data)
            file.seek(0)
            content = file.read()

        def hand_on() -> None:
            self._sink.snapshot(content, snapshot)
            self.end, self._last_epoch = snapshot.end_offset, snapshot.epoch

        await _undivided(hand_on)


def refuses(error: Exception) -> bool:
    """Whether nothing listens there. For a name with several addresses, asyncio makes one OSError of all texts."""
    said = str(error)
    failed, refused = said.count("Connect call failed"), said.count(f"[Errno {errno.ECONNREFUSED}] Connect call failed")
    return isinstance(error, ConnectionRefusedError) or 0 < failed == refused


async def _undivided(work: Callable[..., None], *arguments: Any) -> None:
    """Do blocking work on a thread, to its end: a look that is cancelled waits for it, so that no two are at work."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
