"""The figures of benchmarks: cells as bars beside each other, takeovers as lines over the size of the cluster.

In:   the rows of a table.   Out:  a PNG.
Elsewhere: the numbers (figures.py). matplotlib is of the dependency group `bench` and imported only here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.benchmarks.figures import Row


def draw(found: Sequence[Row], file: Path) -> None:
    """Two rows of panels (latency, throughput) and a column for each kind of change."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    changes = list(dict.fromkeys(row.change for row in found))
    flying = list(dict.fromkeys(row.in_flight for row in found))
    names = list(dict.fromkeys(row.system for row in found))
    by_key = {(row.change, row.in_flight, row.system): row for row in found}
    figure, panels = pyplot.subplots(2, len(changes), figsize=(6 * len(changes), 8), squeeze=False)
    width = 0.8 / len(names)
    for column, change in enumerate(changes):
        above, below = panels[0][column], panels[1][column]
        for number, name in enumerate(names):
            here = [by_key[change, each, name] for each in flying]
            places = [index + (number - (len(names) - 1) / 2) * width for index in range(len(flying))]
            p50 = [row.p50_ms for row in here]
            to_p99 = [max(0.0, row.p99_ms - row.p50_ms) for row in here]
            above.bar(places, p50, width, label=name, yerr=[[0.0] * len(here), to_p99], capsize=3)
            below.bar(places, [row.per_second for row in here], width, label=name)
        above.set_title(change)
        above.set_yscale("log")
        above.set_ylabel("latency of a commit, ms (bar: p50, whisker: p99)")
        below.set_ylabel("changes per second")
        for panel in (above, below):
            panel.set_xticks(range(len(flying)), [f"{each} in flight" for each in flying])
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="upper center", ncols=len(names))
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


class Sized(msgspec.Struct, frozen=True):
    """Medians of takeovers of one size. Seconds, and the largest resident size in MB."""

    system: str
    partitions: int
    copy_s: float
    window_s: float
    peak_mb: float


def draw_takeovers(found: Sequence[Sized], file: Path) -> None:
    """Copy, window and memory by the number of partitions, both axes logarithmic: a straight line is a flat cost."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    titles = {"copy_s": "copy, s", "window_s": "window, s", "peak_mb": "memory, MB"}
    figure, panels = pyplot.subplots(1, len(titles), figsize=(15, 4.5))
    for panel, (name, title) in zip(panels, titles.items(), strict=True):
        for system in dict.fromkeys(each.system for each in found):
            mine = sorted((each for each in found if each.system == system), key=lambda each: each.partitions)
            values = [getattr(each, name) for each in mine]
            panel.plot([each.partitions for each in mine], values, marker="o", label=system)
        panel.set(title=title, xlabel="partitions", xscale="log", yscale="log")
        panel.grid(visible=True, which="both", alpha=0.3)
        panel.legend()
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    pyplot.close(figure)
