"""What is written, where, and how fast: the content of a record, whose turn it is, and what is due by now.

In:   the partitions to write to; times as arguments.
Out:  `Record`s with keys and sequence numbers; the bytes of a record's value.
Elsewhere: sending them (producers.py); outside_reader.py knows the content a second time, on purpose.
Rule: within one partition the sequence numbers of one key only ever grow, also across `drop` and `add` of a topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

VALUE_BYTES: Final = 128
KEYS_PER_PARTITION: Final = 3
DUE_S_MAX: Final = 1.0
"""After a standstill at most one second's worth is caught up; more would be a burst that no client sends."""


class Record(msgspec.Struct, frozen=True):
    """One record before it is sent. sequence: grows by one for each record of this key in this partition."""

    topic: str
    partition: int
    key: str
    sequence: int


def value_of(run: str, record: Record) -> bytes:
    """The whole content of a record, so that a reader compares bytes: `run|topic|partition|key|sequence|....`."""
    words = f"{run}|{record.topic}|{record.partition}|{record.key}|{record.sequence}|"
    return words.encode().ljust(VALUE_BYTES, b".")


def sequence_in(run: str, value: bytes | None) -> int | None:
    """The sequence number in a value of this run; None when the value is not of this run."""
    if value is None or not value.startswith(f"{run}|".encode()):
        return None
    return int(value.split(b"|", 5)[4])


class Rounds:
    """Whose turn it is: each partition in turn, a few records each.

    lane:  the first part of the keys, so that two lanes never share a key.
    burst: records in a row for one partition; more makes fewer, larger batches for the brokers.
    """

    def __init__(self, lane: str, burst: int) -> None:
        self.lane = lane
        self.burst = burst
        self._partitions: list[tuple[str, int]] = []
        self._turn = 0
        self._written: dict[tuple[str, int], int] = {}

    def set_topics(self, counts: Mapping[str, int]) -> None:
        """counts: topic to number of partitions. Neighbours in the order are of different topics."""
        partitions = [(topic, partition) for topic, count in counts.items() for partition in range(count)]
        self._partitions = sorted(partitions, key=lambda one: (one[1], one[0]))

    def next(self) -> Record | None:
        """The next record; None while there is no partition."""
        if not self._partitions:
            return None
        topic, partition = self._partitions[self._turn // self.burst % len(self._partitions)]
        self._turn += 1
        number = self._written.get((topic, partition), 0)
        self._written[topic, partition] = number + 1
        slot, sequence = number % KEYS_PER_PARTITION, number // KEYS_PER_PARTITION
        return Record(topic, partition, f"{self.lane}-{slot}", sequence)


class RecordPace:
    """How many records are due. All times in seconds of one clock."""

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._paid_until = now

    def due(self, now: float) -> int:
        """Records to send now so that the rate is kept; what a standstill left over is capped."""
        self._paid_until = max(self._paid_until, now - DUE_S_MAX)
        count = max(0, int((now - self._paid_until) * self.rate))
        self._paid_until += count / self.rate if self.rate > 0 else 0.0
        return count
