"""Encoded records become the batches of one append.

In:   values in log order.
Out:  payloads, their batches with base offset 0.
Elsewhere: which records may lie in several batches (controller.decision), the batches of the copy (driver.copy).
Source: Kafka 3.9 `QuorumController.appendRecords`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from migrator.raft.types import Payload
from migrator.wire.batch import build_batch

BATCH_RECORDS_MAX: Final = 10_000
"""Of what may lie in several batches, as stock."""

BATCH_VALUES_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of the values in such a batch: with what surrounds them it stays below what the log accepts."""


def pieces(values: Iterable[bytes], records_max: int, bytes_max: int = BATCH_VALUES_BYTES_MAX) -> Iterator[list[bytes]]:
    """Cut in order: at most so many records and bytes in a piece, but at least one record."""
    piece: list[bytes] = []
    size = 0
    for value in values:
        if piece and (len(piece) == records_max or size + len(value) > bytes_max):
            yield piece
            piece, size = [], 0
        piece.append(value)
        size += len(value)
    if piece:
        yield piece


def cut(values: Sequence[bytes], timestamp_ms: int, *, divisible: bool) -> list[Payload]:
    """divisible: in as many batches as it takes; otherwise in one.

    Raises BatchTooLargeError where a batch becomes too large for the log.
    """
    return [
        Payload(len(piece), build_batch(base_offset=0, leader_epoch=0, timestamp_ms=timestamp_ms, values=piece))
        for piece in (pieces(values, BATCH_RECORDS_MAX) if divisible else (values,))
    ]
