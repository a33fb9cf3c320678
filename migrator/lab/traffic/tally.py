"""What the threads of the traffic know in common: counters, latencies, and how far each partition has come.

In:   what happened to a record, from any thread.
Out:  a `TrafficStatus` whenever it is asked for one.
Elsewhere: the ledger (ledger.py), which keeps every single event; here are only sums of bounded size.
"""

from __future__ import annotations

import resource
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from migrator.lab.traffic.figures import RecentLatencies, StallClock
from migrator.lab.traffic.records import Record
from migrator.lab.traffic.status import ConsumerGroup, SinceMark, TrafficState, TrafficStatus, Transactions

ERROR_KINDS_MAX: Final = 50
"""Error names come from a list of Kafka's; the cap is for an error whose text varies."""

OTHER_ERRORS: Final = "(other)"


@dataclass
class GroupTally:
    """What one consumer group has read; written by its own thread only. Its size is that of partitions and keys."""

    read: int = 0
    order_violations: int = 0
    duplicates: int = 0
    redelivered: int = 0
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    sequences: dict[tuple[str, int, bytes], int] = field(default_factory=dict)

    def saw(self, place: tuple[str, int], offset: int, key: bytes, sequence: int | None) -> None:
        """One record, in the order of reading. sequence: None for a record that is not of this run."""
        if offset < self.ends.get(place, 0):
            self.redelivered += 1
            return
        self.ends[place] = offset + 1
        if sequence is None:
            return
        self.read += 1
        last = self.sequences.get((*place, key), -1)
        if sequence == last:
            self.duplicates += 1
        elif sequence < last:
            self.order_violations += 1
        self.sequences[*place, key] = max(sequence, last)

    def forget(self, topics: Collection[str]) -> None:
        """Topics that were dropped; should one come back, it begins at offset 0, and its sequences go on."""
        for place in [place for place in self.ends if place[0] in topics]:
            del self.ends[place]


@dataclass
class _Sums:
    acknowledged: int = 0
    retried: int = 0
    committed: int = 0
    aborted_on_purpose: int = 0
    transactions_retried: int = 0
    unknown: int = 0
    to_deleted: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    outstanding: Counter[str] = field(default_factory=Counter)


class Tally:
    """The counters of one run; every method may be called from any thread."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._lock = threading.Lock()
        self._sums = _Sums()
        self._errors: Counter[str] = Counter()
        self._groups: dict[str, GroupTally] = {}
        self._topics: dict[str, int] = {}
        self._dropped: set[str] = set()
        self._missing: tuple[str, ...] = ()
        self._ends: dict[tuple[str, int], int] = {}
        self._latencies = RecentLatencies()
        self._mark = "start", time.time(), 0
        self._mark_latency_ms = 0.0
        self._stall = StallClock(time.time())

    # --- records -------------------------------------------------------------------------------------------

    def sent(self, topic: str) -> None:
        with self._lock:
            self._sums.outstanding[topic] += 1

    def delivered(self, at_s: float, latency_ms: float) -> None:
        """A broker acknowledged a record, whether or not it counts already."""
        with self._lock:
            self._latencies.add(at_s, latency_ms)
            self._mark_latency_ms = max(self._mark_latency_ms, latency_ms)
            self._stall.acknowledged(at_s)

    def counted(self, offsets: Iterable[tuple[Record, int]]) -> None:
        """These records count from now on: at these offsets, visible to readers.

        Of a topic that was dropped no end is kept: should it come back, its offsets begin anew. An offset that was not
        told moves no end.
        """
        with self._lock:
            for record, offset in offsets:
                self._sums.acknowledged += 1
                self._sums.outstanding[record.topic] -= 1
                if record.topic not in self._dropped:
                    place = record.topic, record.partition
                    self._ends[place] = max(self._ends.get(place, 0), offset + 1)

    def failed(self, topics: Iterable[str], *, refused: bool = False) -> None:
        """One record of each of these topics was given up. refused: the client library did not even take it."""
        with self._lock:
            for topic in topics:
                self._sums.outstanding[topic] -= 1
                if topic in self._dropped:
                    self._sums.to_deleted += 1
                else:
                    (self._sums.refused if refused else self._sums.failed)[topic] += 1

    def withdrawn(self, topics: Iterable[str]) -> None:
        """One record of each of these topics was in a transaction that was aborted: it neither counts nor is lost."""
        with self._lock:
            self._sums.outstanding.subtract(topics)

    def error(self, kind: str) -> None:
        with self._lock:
            full = len(self._errors) >= ERROR_KINDS_MAX and kind not in self._errors
            self._errors[OTHER_ERRORS if full else kind] += 1

    # --- transactions, retries, groups ---------------------------------------------------------------------

    def transaction_committed(self) -> None:
        with self._lock:
            self._sums.committed += 1

    def transaction_aborted_on_purpose(self) -> None:
        with self._lock:
            self._sums.aborted_on_purpose += 1

    def transaction_retried(self) -> None:
        with self._lock:
            self._sums.transactions_retried += 1

    def transaction_unknown(self) -> None:
        with self._lock:
            self._sums.unknown += 1

    def retried(self, requests: int) -> None:
        with self._lock:
            self._sums.retried += requests

    def group(self, name: str) -> GroupTally:
        """The tally of a group, new or known; its thread writes to it."""
        with self._lock:
            return self._groups.setdefault(name, GroupTally())

    # --- topics --------------------------------------------------------------------------------------------

    def set_topics(self, counts: Mapping[str, int], missing: Iterable[str]) -> None:
        """counts: the topics written to, with their numbers of partitions.  missing: those the brokers do not name."""
        with self._lock:
            self._topics = dict(counts)
            self._missing = tuple(sorted(missing))

    def added(self, topic: str) -> bool:
        """Whether it was dropped before."""
        with self._lock:
            returns = topic in self._dropped
            self._dropped.discard(topic)
            return returns

    def dropped(self, topic: str) -> None:
        """Its failures, those of before included, are those of a deleted topic."""
        with self._lock:
            self._dropped.add(topic)
            self._sums.to_deleted += self._sums.failed.pop(topic, 0) + self._sums.refused.pop(topic, 0)
            for place in [place for place in self._ends if place[0] == topic]:
                del self._ends[place]

    # --- what is told --------------------------------------------------------------------------------------

    def mark(self, name: str, at_s: float) -> None:
        with self._lock:
            self._mark = name, at_s, self._sums.acknowledged
            self._mark_latency_ms = 0.0
            self._stall = StallClock(at_s)

    def lag(self, group: GroupTally) -> int:
        """Offsets between what counts and what a group has read. Transaction markers at the end are no lag."""
        with self._lock:
            return self._lag(group)

    def outstanding(self) -> int:
        with self._lock:
            return self._sums.outstanding.total()

    def status(self, state: TrafficState, commands_done: int, in_use: Collection[str]) -> TrafficStatus:
        """in_use: topics that a thread may still write to or read, having not yet heard that they were dropped."""
        now = time.time()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        with self._lock:
            sums = self._sums
            places = [(topic, number) for topic, count in self._topics.items() for number in range(count)]
            return TrafficStatus(
                at=round(now, 3),
                run=self.run,
                state=state,
                commands_done=commands_done,
                topics=len(self._topics),
                partitions=len(places),
                silent_partitions=sum(place not in self._ends for place in places),
                missing_topics=self._missing,
                settling=tuple(sorted(topic for topic in self._dropped if sums.outstanding[topic] or topic in in_use)),
                acknowledged=sums.acknowledged,
                lost=sums.failed.total(),
                refused=sums.refused.total(),
                to_deleted=sums.to_deleted,
                outstanding=sums.outstanding.total(),
                retried=sums.retried,
                transactions=Transactions(
                    sums.committed, sums.aborted_on_purpose, sums.transactions_retried, sums.unknown
                ),
                latency=self._latencies.figures(now),
                since_mark=self._since_mark(now),
                groups={name: self._group(tally) for name, tally in self._groups.items()},
                errors=dict(self._errors),
                cpu_s=round(usage.ru_utime + usage.ru_stime, 2),
                memory_mb=usage.ru_maxrss // 1024,
            )

    def _since_mark(self, now_s: float) -> SinceMark:
        name, at_s, acknowledged_before = self._mark
        return SinceMark(
            name=name,
            at=round(at_s, 3),
            acknowledged=self._sums.acknowledged - acknowledged_before,
            latency_max_ms=round(self._mark_latency_ms, 1),
            longest_stall_ms=round(self._stall.longest_s(now_s) * 1000, 1),
        )

    def _group(self, tally: GroupTally) -> ConsumerGroup:
        return ConsumerGroup(tally.read, self._lag(tally), tally.order_violations, tally.duplicates, tally.redelivered)

    def _lag(self, group: GroupTally) -> int:
        return sum(max(0, end - group.ends.get(place, 0)) for place, end in self._ends.items())
