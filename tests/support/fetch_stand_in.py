"""A stand-in for a controller: it answers Fetch from a list of batches, one in each answer, and FetchSnapshot.

In:   batches as bytes, in offset order. Out: `address`, on loopback.
Only what a reader of the metadata log asks for is there; who is contacted without being the leader says so.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from migrator.node.observer.log_reader import (
    DESCRIBE_VERSION,
    FETCH_VERSION,
    INCONSISTENT_CLUSTER_ID,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    SNAPSHOT_VERSION,
)
from migrator.raft.types import SnapshotId
from migrator.wire.batch import peek
from migrator.wire.frames import decode_request, encode_response, read_frame_length
from migrator.wire.messages.raft import (
    DescribeQuorumPartitionResult,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicResult,
)
from migrator.wire.messages.replication import (
    FetchCurrentLeader,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    FetchResponseSnapshotId,
    FetchSnapshotPartitionResult,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotTopicResult,
    FetchTopicResult,
)
from migrator.wire.schema import Message

EPOCH = 4
NOT_LEADER = 6
PIECE_BYTES = 50
"""Of a snapshot in one answer, so that it takes several."""
ANSWERS_MANY = 1_000_000


class FetchStandIn:
    """One batch in each answer. hangs_up_after: answers until the connection is cut, once.

    batches, high_watermark: may be changed at any time. before_answer: called before each answer is made.
    snapshot:   its id and its bytes; the log begins behind it.
    cluster_id: of the quorum; a request that names another one is refused.
    """

    def __init__(self, batches: list[bytes], *, leads: bool = True, hangs_up_after: int = ANSWERS_MANY) -> None:
        self.batches = batches
        self.high_watermark = peek(batches[-1]).last_offset + 1 if batches else 0
        self.before_answer: Callable[[], None] = lambda: None
        self.snapshot: tuple[SnapshotId, bytes] | None = None
        self.cluster_id: str | None = None
        self._leads = leads
        self._left = hangs_up_after
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, suppress(OSError):  # of a reader that hung up
                self._answer_all(connection)

    def _answer_all(self, connection: socket.socket) -> None:
        stream = connection.makefile("rwb")
        while head := stream.read(4):
            if self._left == 0:
                self._left = ANSWERS_MANY
                return
            self._left -= 1
            header, request = decode_request(stream.read(read_frame_length(head)))
            answer, version = self._answer(request)
            stream.write(encode_response(answer, version, correlation_id=header.correlation_id))
            stream.flush()

    def _answer(self, request: Message) -> tuple[Message, int]:
        self.before_answer()
        match request:
            case DescribeQuorumRequest():
                return self._described(), DESCRIBE_VERSION
            case FetchRequest():
                return self._fetched(request), FETCH_VERSION
            case FetchSnapshotRequest():
                return self._piece(request), SNAPSHOT_VERSION
        raise AssertionError(request)

    def _described(self) -> DescribeQuorumResponse:
        result = DescribeQuorumPartitionResult(
            error_code=0 if self._leads else NOT_LEADER,
            leader_id=1,
            leader_epoch=EPOCH,
            high_watermark=self.high_watermark,
        )
        return DescribeQuorumResponse(topics=(DescribeQuorumTopicResult(METADATA_TOPIC, (result,)),))

    def _fetched(self, request: FetchRequest) -> FetchResponse:
        if self.cluster_id is not None and request.cluster_id not in (None, self.cluster_id):
            return FetchResponse(error_code=INCONSISTENT_CLUSTER_ID)
        asked = request.topics[0].partitions[0]
        if self.snapshot is not None and asked.fetch_offset < self.snapshot[0].end_offset:
            snapshot, _ = self.snapshot
            result = FetchPartitionResult(snapshot_id=FetchResponseSnapshotId(snapshot.end_offset, snapshot.epoch))
        else:
            found = next((each for each in self.batches if peek(each).base_offset >= asked.fetch_offset), b"")
            result = FetchPartitionResult(
                error_code=0 if self._leads else NOT_LEADER,
                high_watermark=self.high_watermark,
                current_leader=FetchCurrentLeader(leader_id=1, leader_epoch=EPOCH),
                records=found if self._leads else None,
            )
        return FetchResponse(responses=(FetchTopicResult(topic_id=METADATA_TOPIC_ID, partitions=(result,)),))

    def _piece(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        assert self.snapshot is not None
        asked, content = request.topics[0].partitions[0], self.snapshot[1]
        piece = content[asked.position : asked.position + PIECE_BYTES]
        result = FetchSnapshotPartitionResult(
            snapshot_id=asked.snapshot_id, size=len(content), position=asked.position, unaligned_records=piece
        )
        return FetchSnapshotResponse(topics=(FetchSnapshotTopicResult(METADATA_TOPIC, (result,)),))


@contextmanager
def a_controller(*batches: bytes, leads: bool = True, hangs_up_after: int = ANSWERS_MANY) -> Iterator[FetchStandIn]:
    controller = FetchStandIn(list(batches), leads=leads, hangs_up_after=hangs_up_after)
    try:
        yield controller
    finally:
        controller.close()
