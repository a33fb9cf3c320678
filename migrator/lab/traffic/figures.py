"""What clients felt: percentiles, stalls, and the answer to "how long did an acknowledgement take meanwhile".

In:   latencies and times, live or from the ledger.
Out:  percentiles by nearest rank, the longest time without any acknowledgement, `TrafficFigures` of a window.
Elsewhere: who measures (tally.py live, ledger.py afterwards).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from migrator.findings.laboratory import MARK_UNKNOWN
from migrator.lab.traffic.ledger import Acknowledged, Entry, Failed, Marked, TransactionEnded, TransactionOutcome

WINDOW_S: Final = 10.0
SAMPLES_MAX: Final = 20_000
"""Ten seconds at 2,000 records/s; above that the live window is shorter, the ledger keeps everything."""

SLOWEST: Final = 5


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of the values do not exceed. ordered: ascending, not empty."""
    rank = math.ceil(share * len(ordered))
    return ordered[max(rank, 1) - 1]


class Latency(msgspec.Struct, frozen=True):
    """Milliseconds from handing a record to the client library until its acknowledgement; None without records."""

    count: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None


def latency_of(milliseconds: Iterable[float]) -> Latency:
    ordered = sorted(milliseconds)
    if not ordered:
        return Latency(0, None, None, None)
    p50, p99 = percentile(ordered, 0.5), percentile(ordered, 0.99)
    return Latency(len(ordered), round(p50, 1), round(p99, 1), round(ordered[-1], 1))


class RecentLatencies:
    """The latencies of the last seconds. Times in seconds, ascending."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES_MAX)

    def add(self, at_s: float, latency_ms: float) -> None:
        self._samples.append((at_s, latency_ms))

    def figures(self, now_s: float) -> Latency:
        while self._samples and self._samples[0][0] < now_s - WINDOW_S:
            self._samples.popleft()
        return latency_of(latency_ms for _, latency_ms in self._samples)


class StallClock:
    """The longest time without any acknowledgement since a moment, the one still running included.

    Threads may report a little out of order: an acknowledgement older than the last one changes nothing.
    """

    def __init__(self, since_s: float) -> None:
        self._last_s = since_s
        self._longest_s = 0.0

    def acknowledged(self, at_s: float) -> None:
        self._longest_s = self.longest_s(at_s)
        self._last_s = max(self._last_s, at_s)

    def longest_s(self, now_s: float) -> float:
        return max(self._longest_s, now_s - self._last_s)


class TrafficFigures(msgspec.Struct, frozen=True):
    """One window of a run.

    acknowledgement: of every record that was under way in the window, those sent before it and answered after it too.
    sent_inside:     of those sent in the window only; when this is much less, the reason lies before the window.
    transaction_end: of every commit or abort under way in the window, from the call to its answer.
    longest_stall_ms: the longest time without any acknowledgement that touches the window.
    failed:          records given up in the window.
    slowest:         the records with the longest latencies, slowest first.
    """

    from_us: int
    to_us: int
    acknowledgement: Latency
    sent_inside: Latency
    transaction_end: Latency
    longest_stall_ms: float
    failed: int
    slowest: tuple[Acknowledged, ...]


def figures_between(entries: Iterable[Entry], from_us: int, to_us: int) -> TrafficFigures:
    """What clients felt from one moment to another, from a ledger."""
    known = list(entries)
    records = [one for one in known if isinstance(one, Acknowledged)]
    inside = [one for one in records if one.sent_us <= to_us and one.acknowledged_us >= from_us]
    ends = [
        (one.ended_us - one.ending_us) / 1000
        for one in known
        if isinstance(one, TransactionEnded)
        and one.outcome is not TransactionOutcome.UNKNOWN
        and one.ending_us <= to_us
        and one.ended_us >= from_us
    ]
    inside.sort(key=latency_us, reverse=True)
    return TrafficFigures(
        from_us=from_us,
        to_us=to_us,
        acknowledgement=latency_of(latency_us(one) / 1000 for one in inside),
        sent_inside=latency_of(latency_us(one) / 1000 for one in inside if one.sent_us >= from_us),
        transaction_end=latency_of(ends),
        longest_stall_ms=longest_stall_ms([one.acknowledged_us for one in records], from_us, to_us),
        failed=sum(isinstance(one, Failed) and from_us <= one.failed_us <= to_us for one in known),
        slowest=tuple(inside[:SLOWEST]),
    )


def latency_us(record: Acknowledged) -> int:
    return record.acknowledged_us - record.sent_us


def longest_stall_ms(acknowledged_us: Iterable[int], from_us: int, to_us: int) -> float:
    """The longest gap between neighbouring acknowledgements that touches the window, whole, not cut at its edges.

    Where nothing was acknowledged before or after, the edge of the window stands in.
    """
    ordered = sorted(acknowledged_us)
    if not ordered or ordered[0] > from_us:
        ordered.insert(0, from_us)
    if ordered[-1] < to_us:
        ordered.append(to_us)
    gaps = [later - earlier for earlier, later in pairwise(ordered) if earlier <= to_us and later >= from_us]
    return round(max(gaps, default=0) / 1000, 1)


def mark_us(entries: Iterable[Entry], name: str) -> int:
    """When a mark was last set, in microseconds. Raises Z2K-6015."""
    marks = [one for one in entries if isinstance(one, Marked)]
    times = [mark.at_us for mark in marks if mark.name == name]
    if not times:
        raise MARK_UNKNOWN.error(mark=name, known=", ".join(sorted({mark.name for mark in marks})) or "none")
    return times[-1]
