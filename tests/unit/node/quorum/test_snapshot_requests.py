"""Whatever size somebody asks for, a snapshot is given in pieces; addresses are written as Java writes them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.controller.requests import host_text
from migrator.node.quorum.quorum_apis import SNAPSHOT_PIECE_BYTES_MAX, QuorumApis
from migrator.raft.effects import AnswerFetchSnapshot
from migrator.raft.types import FetchSnapshotReceived, SnapshotId
from migrator.wire.errors import Error
from migrator.wire.messages.replication import (
    FetchSnapshotPartition,
    FetchSnapshotRequest,
    FetchSnapshotTopic,
    WireSnapshotId,
)

SNAPSHOT = SnapshotId(10, 1)


class Reads:
    """A snapshot of 20 MiB; remembers how much was read at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def read(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        self.sizes.append(max_bytes)
        return b"x"


async def answered(max_bytes: int, reads: Reads) -> Any:
    async def fetch_snapshot(event: Any) -> AnswerFetchSnapshot:
        received: FetchSnapshotReceived = event(1)
        return AnswerFetchSnapshot(
            1, Error.NONE, 1, 1, SNAPSHOT, size=20 << 20, position=received.position, max_bytes=received.max_bytes
        )

    raft: Any = SimpleNamespace(fetch_snapshot=fetch_snapshot, snapshots=reads)
    partition = FetchSnapshotPartition(0, 1, WireSnapshotId(10, 1), 0)
    request = FetchSnapshotRequest(
        replica_id=2, max_bytes=max_bytes, topics=(FetchSnapshotTopic("__cluster_metadata", (partition,)),)
    )
    return await QuorumApis(raft, wall_ms=lambda: 0).fetch_snapshot(request, 0, "CONTROLLER")


@pytest.mark.parametrize("max_bytes", [-1, -(2**31)])
def test_a_negative_size_is_refused_and_nothing_is_read(max_bytes: int) -> None:
    reads = Reads()
    assert asyncio.run(answered(max_bytes, reads)).error_code == Error.INVALID_REQUEST
    assert reads.sizes == []


@pytest.mark.parametrize(("max_bytes", "read"), [(0, 0), (100, 100), (2**31 - 1, SNAPSHOT_PIECE_BYTES_MAX)])
def test_no_more_is_read_at_once_than_stock_asks_for(max_bytes: int, read: int) -> None:
    reads = Reads()
    assert asyncio.run(answered(max_bytes, reads)).error_code == Error.NONE
    assert reads.sizes == [read]


@pytest.mark.parametrize(
    ("peer", "java"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("", ""),
        ("/tmp/socket", "/tmp/socket"),
    ],
)
def test_hosts_of_acls_are_named_as_java_names_them(peer: str, java: str) -> None:
    assert host_text(peer) == java
