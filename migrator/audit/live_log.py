"""A live quorum's log, read as any observer reads it.

In:   `host:port[,host:port]` of controllers.
Out:  committed batches from a position on: as records, or as segment files in a directory (for readers of directories).
Elsewhere: what is in them (log_source.py). Nothing of the quorum changes: Fetch with replica id -1.
Errors: Z2K-5001 when no address leads the quorum, when the connection ends, or when the log begins with a snapshot.
Source: KIP-595 Fetch.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from migrator.audit.log_source import CommittedRecords
from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.wire.batch import TornBatchError, peek, read_batches
from migrator.wire.frames import decode_response, encode_request, read_frame_length
from migrator.wire.messages.replication import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from migrator.wire.schema import Message

METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"
FETCH_VERSION: Final = 13
FETCH_BYTES_MAX: Final = 8 << 20
"""The largest batch that this log can have: one fetch always gets on."""

TIMEOUT_S: Final = 10.0
INCONSISTENT_CLUSTER_ID: Final = 104
_FENCED_LEADER_EPOCH, _UNKNOWN_LEADER_EPOCH, _NOT_LEADER = 74, 75, 6


def read_live(
    addresses: str, into: CommittedRecords, cluster_id: str | None = None, timeout_s: float = TIMEOUT_S
) -> Iterator[Message]:
    """Every committed record of the quorum, from whichever of the addresses leads it."""
    for chunk in LiveLog(addresses, cluster_id, timeout_s).chunks():
        for batch in read_batches(chunk):
            yield from into.take(batch)


def fetch_into(directory: Path, live: LiveLog) -> None:
    """What the quorum committed since `live` was read before, as one more segment of the directory."""
    path = directory / f"{live.next_offset:020d}.log"
    with open(path, "wb") as segment:
        for chunk in live.chunks():
            segment.write(chunk)
        empty = segment.tell() == 0
    if empty and live.next_offset > 0:
        path.unlink()


class LiveLog:
    """A place in the log of a quorum. Each `chunks()` goes on from there to what is committed by then."""

    def __init__(self, addresses: str, cluster_id: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """cluster_id: the quorum refuses every Fetch that names another cluster than its own; None: it is not asked."""
        self._addresses = addresses
        self._cluster_id = cluster_id
        self._timeout_s = timeout_s
        self.next_offset = 0
        self._last_epoch = 0

    def chunks(self) -> Iterator[bytes]:
        """Whole batches. After a lost connection the next address goes on where the one before it stopped."""
        reason = "no address was given"
        for address in self._addresses.split(","):
            host, _, port = address.strip().rpartition(":")
            try:
                with socket.create_connection((host.strip("[]"), int(port)), self._timeout_s) as connection:
                    reader = _Reader(connection, self._cluster_id)
                    epoch = reader.epoch_if_leader()
                    if epoch is not None:
                        yield from self._rest(reader, epoch)
                        return
                    reason = "it does not lead the quorum"
            except (OSError, ValueError) as error:
                reason = str(error)
        raise AUDIT_CANNOT_READ.error(what=self._addresses, reason=reason)

    def _rest(self, reader: _Reader, epoch: int) -> Iterator[bytes]:
        """Up to what is committed when it begins: a log that grows all the time would have no end."""
        until = -1
        while until < 0 or self.next_offset < until:
            answer = reader.fetch(epoch, self.next_offset, self._last_epoch)
            _refuse_error(answer, self.next_offset)
            until = answer.high_watermark if until < 0 else until
            chunk = self._whole_batches(bytes(answer.records or b""), answer.high_watermark)
            if not chunk:
                return
            yield chunk

    def _whole_batches(self, data: bytes, high_watermark: int) -> bytes:
        """What is committed of `data`; the place moves behind it."""
        position = 0
        while position < len(data):
            try:
                header = peek(data, position)
            except TornBatchError:
                break
            if position + header.size > len(data) or header.last_offset >= high_watermark:
                break
            position += header.size
            self.next_offset, self._last_epoch = header.last_offset + 1, header.leader_epoch
        if not position and self.next_offset < high_watermark and data:
            reason = f"the batch at offset {self.next_offset} is larger than a fetch"
            raise AUDIT_CANNOT_READ.error(what=self._addresses, reason=reason)
        return data[:position]


def _refuse_error(answer: FetchPartitionResult, offset: int) -> None:
    reason = ""
    if answer.snapshot_id.end_offset >= 0:
        reason = "the log begins with a snapshot; give the directory of a controller instead"
    elif answer.diverging_epoch.end_offset >= 0:
        reason = f"what was read before offset {offset} is not its log any more"
    elif answer.error_code:
        reason = f"error {answer.error_code} at offset {offset}"
    if reason:
        raise AUDIT_CANNOT_READ.error(what="the live quorum", reason=reason)


class _Reader:
    """One connection to a controller."""

    def __init__(self, connection: socket.socket, cluster_id: str | None) -> None:
        self._connection = connection
        self._cluster_id = cluster_id
        self._correlation = 0

    def epoch_if_leader(self) -> int | None:
        """Ask with epoch 0: the answer names the epoch, and whether it is led here shows in the next answer."""
        answer = self.fetch(0, 0, 0)
        epoch = answer.current_leader.leader_epoch if answer.error_code else 0
        answer = self.fetch(epoch, 0, 0)
        return None if answer.error_code in (_NOT_LEADER, _FENCED_LEADER_EPOCH, _UNKNOWN_LEADER_EPOCH) else epoch

    def fetch(self, epoch: int, offset: int, last_epoch: int) -> FetchPartitionResult:
        self._correlation += 1
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            partition_max_bytes=FETCH_BYTES_MAX,
        )
        topic = FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
        request = FetchRequest(cluster_id=self._cluster_id, replica_id=-1, max_wait_ms=0, topics=(topic,))
        frame = encode_request(request, FETCH_VERSION, correlation_id=self._correlation, client_id="zk2kraft-audit")
        self._connection.sendall(frame)
        size = read_frame_length(self._exactly(4))
        _, answer = decode_response(FetchResponse, FETCH_VERSION, self._exactly(size))
        if answer.error_code == INCONSISTENT_CLUSTER_ID:
            reason = f"it belongs to another cluster than ZooKeeper ({self._cluster_id})"
            raise AUDIT_CANNOT_READ.error(what="the live quorum", reason=reason)
        if answer.error_code or not answer.responses or not answer.responses[0].partitions:
            raise AUDIT_CANNOT_READ.error(what="the live quorum", reason=f"error {answer.error_code}")
        return answer.responses[0].partitions[0]

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._connection.recv(min(size - len(data), 1 << 20))
            if not chunk:
                raise OSError("the connection was closed")
            data += chunk
        return bytes(data)
