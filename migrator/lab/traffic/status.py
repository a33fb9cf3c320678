"""What the traffic says of itself while it runs: one small JSON file, replaced whole twice a second.

In:   a `TrafficStatus`.
Out:  the file; `TrafficStatus.read(path)`.
Elsewhere: who counts (tally.py). Counters are for watching; the proof is the ledger.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

import msgspec

from migrator.lab.traffic.figures import Latency


class TrafficState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class SinceMark(msgspec.Struct, frozen=True):
    """What happened since the latest mark. at: seconds of the wall clock; name "start" before the first."""

    name: str
    at: float
    acknowledged: int
    latency_max_ms: float
    longest_stall_ms: float


class ConsumerGroup(msgspec.Struct, frozen=True):
    """One consumer group.

    read:             records of this run, each counted once.
    lag:              offsets between the last acknowledged and the last read record, over all partitions.
    order_violations: a lower sequence number after a higher one of the same key.
    duplicates:       the same sequence number at two offsets.
    redelivered:      records read again at the same offset, as a group may after a rebalance.
    """

    read: int
    lag: int
    order_violations: int
    duplicates: int
    redelivered: int


class Transactions(msgspec.Struct, frozen=True):
    """aborted_on_purpose: by the traffic's own habit. retried: failed, aborted, and sent again."""

    committed: int
    aborted_on_purpose: int
    retried: int
    unknown: int


class TrafficStatus(msgspec.Struct, frozen=True):
    """The counters of a run.

    at:                seconds of the wall clock.
    commands_done:     how many lines of the command file were carried out.
    silent_partitions: partitions of which no record was acknowledged yet.
    missing_topics:    topics written to that the brokers do not name at present.
    settling:          topics that were dropped and still have records under way.
    acknowledged:      records that count: acknowledged, and if in a transaction, committed.
    lost:              records given up after the client library had taken them.
    refused:           records that it did not take: it knew no such partition for a minute, or its queue was full.
    to_deleted:        records lost or refused whose topic was dropped; they are in neither of the two. One
                       that an aborted transaction took back is none of these.
    outstanding:       records given to the client library and not yet answered, or in a transaction that has not ended.
    retried:           produce requests that the client library sent again.
    latency:           of the last ten seconds.
    errors:            kind of error to how often it was seen.
    """

    at: float
    run: str
    state: TrafficState
    commands_done: int
    topics: int
    partitions: int
    silent_partitions: int
    missing_topics: tuple[str, ...]
    settling: tuple[str, ...]
    acknowledged: int
    lost: int
    refused: int
    to_deleted: int
    outstanding: int
    retried: int
    transactions: Transactions
    latency: Latency
    since_mark: SinceMark
    groups: dict[str, ConsumerGroup]
    errors: dict[str, int]
    cpu_s: float
    memory_mb: int

    @property
    def counters(self) -> str:
        """For people: no broker promised to keep what a client gave up, so it is not called lost."""
        given_up = f"{self.lost:,} given up by the clients, never acknowledged" if self.lost else "0 lost"
        return f"{self.acknowledged:,} acknowledged, {given_up}"

    @staticmethod
    def read(path: Path) -> TrafficStatus:
        """The latest status. Raises FileNotFoundError before there is one; never sees half of one."""
        return msgspec.json.decode(path.read_bytes(), type=TrafficStatus)

    def write(self, path: Path) -> None:
        draft = path.with_name(path.name + ".new")
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))
        os.replace(draft, path)
