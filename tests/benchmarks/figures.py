"""From latencies to a table: percentiles of one cell, medians over repetitions, ratios to stock.

In:   the latencies of every change of a cell, by system and repetition.
Out:  `Measurement` (one cell, once), `Row` (one cell, over all repetitions), the table as Markdown.
Elsewhere: who measured (quorum.py), the drawing (drawing.py).
Rules: a ratio is taken within one repetition, where both systems ran within seconds of each other, and only then its
median: a machine that is busy for a minute changes both sides of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from statistics import median
from typing import Final

import msgspec

STOCK: Final = "stock KRaft"
"""The yardstick: as Kafka's defaults make it."""


class Measurement(msgspec.Struct, frozen=True):
    """One cell, once. Latencies in milliseconds, throughput in changes per second."""

    system: str
    change: str
    in_flight: int
    repetition: int
    changes: int
    p50_ms: float
    p99_ms: float
    per_second: float


class Row(msgspec.Struct, frozen=True):
    """One cell: medians over the repetitions. The ratios are this system's figure by stock's."""

    change: str
    in_flight: int
    system: str
    p50_ms: float
    p99_ms: float
    per_second: float
    p50_ratio: float
    p99_ratio: float
    throughput_ratio: float


def percentile(ascending: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of all values do not exceed."""
    assert ascending, "no change was answered in time"
    assert 0 < share <= 1, share
    return ascending[ceil(share * len(ascending)) - 1]


def measurement(
    system: str, change: str, in_flight: int, repetition: int, latencies_s: Iterable[float], seconds: float
) -> Measurement:
    """latencies_s: of the changes that were answered within `seconds`."""
    ascending = sorted(latencies_s)
    return Measurement(
        system=system,
        change=change,
        in_flight=in_flight,
        repetition=repetition,
        changes=len(ascending),
        p50_ms=round(percentile(ascending, 0.50) * 1000, 3),
        p99_ms=round(percentile(ascending, 0.99) * 1000, 3),
        per_second=round(len(ascending) / seconds, 1),
    )


def rows(measured: Sequence[Measurement], yardstick: str = STOCK) -> list[Row]:
    """A row per cell and system, in the order in which they first occur; stock has to be among the systems."""
    by_key = {(each.change, each.in_flight, each.system, each.repetition): each for each in measured}
    cells = dict.fromkeys((each.change, each.in_flight) for each in measured)
    systems = dict.fromkeys(each.system for each in measured)
    repetitions = sorted({each.repetition for each in measured})
    found = []
    for change, in_flight in cells:
        stock = [by_key[change, in_flight, yardstick, each] for each in repetitions]
        for system in systems:
            here = [by_key[change, in_flight, system, each] for each in repetitions]
            pairs = list(zip(here, stock, strict=True))
            found.append(
                Row(
                    change=change,
                    in_flight=in_flight,
                    system=system,
                    p50_ms=median(each.p50_ms for each in here),
                    p99_ms=median(each.p99_ms for each in here),
                    per_second=median(each.per_second for each in here),
                    p50_ratio=round(median(a.p50_ms / b.p50_ms for a, b in pairs), 3),
                    p99_ratio=round(median(a.p99_ms / b.p99_ms for a, b in pairs), 3),
                    throughput_ratio=round(median(a.per_second / b.per_second for a, b in pairs), 3),
                )
            )
    return found


def table(found: Sequence[Row]) -> str:
    """Markdown, readable as plain text."""
    lines = [
        "| change | in flight | system | p50 ms | p99 ms | changes/s | p50 ÷ stock | p99 ÷ stock | changes/s ÷ stock |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in found:
        numbers = f"{row.p50_ms:.1f} | {row.p99_ms:.1f} | {row.per_second:,.0f}"
        ratios = f"{row.p50_ratio:.2f} | {row.p99_ratio:.2f} | {row.throughput_ratio:.2f}"
        lines.append(f"| {row.change} | {row.in_flight} | {row.system} | {numbers} | {ratios} |")
    return "\n".join(lines)


def between_markers(page: str, name: str, text: str) -> str:
    """The page with `text` between `<!-- name -->` and `<!-- /name -->`, each of which it has once."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    assert page.count(begin) == page.count(end) == 1, f"the page needs {begin} and {end} once each"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{text}\n{end}{after}"
