"""Encoded records become the batches of one append.

In:   values in log order.
Out:  payloads, their batches with base offset 0.
Elsewhere: which records may lie in several batches (controller.decision), the batches of the copy (driver.copy).
Source: Kafka 3.9 `QuorumController.appendRecords`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from migrator.raft.types import Payload
from migrator.wire.batch import build_batch

BATCH_RECORDS_MAX: Final = 10_000
"""Of what may lie in several batches, as stock. A batch then stays far below what the log accepts."""


def cut(values: Sequence[bytes], records_max: int, timestamp_ms: int) -> list[Payload]:
    """At most `records_max` records in a batch. Raises UnencodableError where a batch becomes too large for the log."""
    pieces = [values[at : at + records_max] for at in range(0, len(values), records_max)]
    return [
        Payload(len(piece), build_batch(base_offset=0, leader_epoch=0, timestamp_ms=timestamp_ms, values=piece))
        for piece in pieces
    ]
