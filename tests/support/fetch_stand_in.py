"""A stand-in for a controller: it answers Fetch from a list of batches, one in each answer.

In:   batches as bytes, in offset order. Out: `address`, on loopback.
Only what a reader of the metadata log asks for is there; who is contacted without being the leader says so.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from migrator.audit.live_log import FETCH_VERSION, METADATA_TOPIC_ID
from migrator.wire.batch import peek
from migrator.wire.frames import decode_request, encode_response, read_frame_length
from migrator.wire.messages.replication import (
    FetchCurrentLeader,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    FetchTopicResult,
)

EPOCH = 4
FENCED_LEADER_EPOCH, NOT_LEADER = 74, 6
ANSWERS_MANY = 1_000_000


class FetchStandIn:
    """One batch in each answer. hangs_up_after: answers until the connection is cut, once.

    batches, high_watermark: may be changed at any time. before_answer: called before each answer is made.
    """

    def __init__(self, batches: list[bytes], *, leads: bool = True, hangs_up_after: int = ANSWERS_MANY) -> None:
        self.batches = batches
        self.high_watermark = peek(batches[-1]).last_offset + 1 if batches else 0
        self.before_answer: Callable[[], None] = lambda: None
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
            assert isinstance(request, FetchRequest)
            stream.write(encode_response(self._answer(request), FETCH_VERSION, correlation_id=header.correlation_id))
            stream.flush()

    def _answer(self, request: FetchRequest) -> FetchResponse:
        self.before_answer()
        asked = request.topics[0].partitions[0]
        error = 0 if asked.current_leader_epoch == EPOCH else FENCED_LEADER_EPOCH
        found = next((each for each in self.batches if peek(each).base_offset >= asked.fetch_offset), b"")
        result = FetchPartitionResult(
            partition_index=0,
            error_code=error if self._leads else NOT_LEADER,
            high_watermark=self.high_watermark,
            current_leader=FetchCurrentLeader(leader_id=1, leader_epoch=EPOCH),
            records=None if error else found,
        )
        return FetchResponse(responses=(FetchTopicResult(topic_id=METADATA_TOPIC_ID, partitions=(result,)),))


@contextmanager
def a_controller(*batches: bytes, leads: bool = True, hangs_up_after: int = ANSWERS_MANY) -> Iterator[FetchStandIn]:
    controller = FetchStandIn(list(batches), leads=leads, hangs_up_after=hangs_up_after)
    try:
        yield controller
    finally:
        controller.close()
