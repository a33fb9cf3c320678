"""What is slow here, and what stands still: judged against the same run before the takeover, on this machine.

In:   latencies before the takeover and during a stretch; how late this machine woke a sleeping thread meanwhile.
Out:  `why_stalled` (a problem), `why_slow` (a note; never a problem).
Elsewhere: the figures of clients (figures.py), what makes a demo red (report.py).
A slow machine makes every figure larger and loses nothing, so no acknowledgement is judged by milliseconds alone.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

import msgspec

from migrator.lab.traffic.figures import Latency, TrafficFigures, figures_between, latency_of
from migrator.lab.traffic.ledger import Entry

NAP_S: Final = 0.05
DELAYS_MAX: Final = 100_000
"""83 minutes of naps; a longer run forgets its beginning."""

STALL_LEAST_MS: Final = 2_000.0
STALL_MAX_MS: Final = 8_000.0
TIMES_BEFORE: Final = 10.0
"""No acknowledgement from any partition for this many times the slowest one before the takeover is a stall, but never
under the first limit, and always above the second. The time in which the machine itself stood still comes on top."""

SLOW_MS: Final = 500.0
SLOW_TIMES_BEFORE: Final = 3.0


class DemoPace(msgspec.Struct, frozen=True):
    """The run between READY and the takeover. wake_up: how late a sleeping thread was woken."""

    acknowledgement: Latency
    wake_up: Latency


class Stretch(msgspec.Struct, frozen=True):
    """A part of the run from the takeover on.

    disturbed: brokers or controllers were stopped in it on purpose.
    longest_stall_ms: the longest time without an acknowledgement from any partition.
    """

    name: str
    disturbed: bool
    acknowledgement: Latency
    longest_stall_ms: float
    wake_up: Latency


def stall_limit_ms(pace: DemoPace, stretch: Stretch) -> float:
    """From how many milliseconds on a time without any acknowledgement is a stall."""
    relative = TIMES_BEFORE * (pace.acknowledgement.max_ms or 0.0)
    clients = STALL_MAX_MS if stretch.disturbed else min(max(relative, STALL_LEAST_MS), STALL_MAX_MS)
    return round(clients + (stretch.wake_up.max_ms or 0.0), 1)


def why_stalled(pace: DemoPace, stretch: Stretch) -> str | None:
    """Says it when clients stood still, or when nobody can know; None otherwise."""
    if not stretch.acknowledgement.count:
        return f"{stretch.name}: no record was acknowledged"
    limit = stall_limit_ms(pace, stretch)
    if stretch.longest_stall_ms <= limit:
        return None
    return (
        f"{stretch.name}: no acknowledgement for {stretch.longest_stall_ms:,} ms; the limit of this run is {limit:,} ms"
    )


def why_slow(pace: DemoPace, stretch: Stretch) -> str | None:
    """Says it when a record waited much longer than those before the takeover; None otherwise."""
    slowest = stretch.acknowledgement.max_ms
    before = pace.acknowledgement
    if stretch.disturbed or slowest is None or slowest <= max(SLOW_MS, SLOW_TIMES_BEFORE * (before.max_ms or 0.0)):
        return None
    return (
        f"{stretch.name}: the slowest acknowledgement took {slowest:,} ms; before the takeover the median was "
        f"{before.p50_ms} ms and the slowest {before.max_ms} ms; this machine woke a sleeping thread up to "
        f"{stretch.wake_up.max_ms} ms late. No record was lost by it."
    )


class Moments(msgspec.Struct, frozen=True):
    """When phases were entered, and when the traffic had run long enough after the rollback. Seconds, wall clock."""

    ready: float
    takeover: float
    dual_write: float
    rolling_back: float
    end: float


def measure(entries: Sequence[Entry], wake_ups: WakeUps, at: Moments) -> tuple[DemoPace, list[Stretch]]:
    """The pace before the takeover, and every stretch from there to the end."""

    def felt(start: float, end: float) -> TrafficFigures:
        return figures_between(entries, int(start * 1e6), int(end * 1e6))

    def stretch(name: str, start: float, end: float, *, disturbed: bool = False) -> Stretch:
        figures = felt(start, end)
        late = wake_ups.between(start, end)
        return Stretch(name, disturbed, figures.acknowledgement, figures.longest_stall_ms, late)

    pace = DemoPace(felt(at.ready, at.takeover).sent_inside, wake_ups.between(at.ready, at.takeover))
    return pace, [
        stretch("takeover", at.takeover, at.dual_write),
        stretch("dual-write", at.dual_write, at.rolling_back, disturbed=True),
        stretch("rollback", at.rolling_back, at.end),
    ]


class WakeUps:
    """How late this machine wakes a thread that sleeps 50 ms. Use it in a `with` block."""

    def __init__(self) -> None:
        self._delays: deque[tuple[float, float]] = deque(maxlen=DELAYS_MAX)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wake-ups", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def between(self, start: float, end: float) -> Latency:
        """Of every nap that touches the stretch. Seconds of the wall clock."""
        naps = list(self._delays)
        return latency_of(ms for woken, ms in naps if woken >= start and woken - NAP_S - ms / 1000 <= end)

    def _run(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            self._ended.wait(NAP_S)
            late = max(time.monotonic() - began - NAP_S, 0.0)
            self._delays.append((time.time(), late * 1000))
