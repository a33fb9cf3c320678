"""`make bench-copy`: one tree taken over by ours and by stock 3.9.2, on the same machine in one run.

In:   `python -m tests.benchmarks.copy [--topics N] [--partitions P] [--repetitions R] [--only ours|stock] [--save]`.
Out:  a table on stdout, every measurement as a line of JSON on stderr.
Elsewhere: what runs (takeovers.py), the tree (tests/support/seeded_tree.py), changes afterwards (dual_write.py).
Who is first changes with every repetition.

| figure | from | to |
| --- | --- | --- |
| copy | `/controller` names a KRaft controller | the copy is committed, as the controller logs it |
| window | the same | the last answer of the full send: full LeaderAndIsr and UpdateMetadata |
| read ahead | the broker is in service | the claim; ours reads, encodes, asks, exports; stock does not |
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from tests.benchmarks.drawing import Sized, draw_takeovers
from tests.benchmarks.takeovers import BROKER, OURS, STOCK, running
from tests.support.seeded_tree import SeededTree


class Taken(msgspec.Struct, frozen=True):
    """One takeover. Seconds; peak_mb: the controller's largest resident size until the brokers were told."""

    system: str
    partitions: int
    read_ahead_s: float
    copy_s: float
    window_s: float
    peak_mb: int
    updated_partitions: int
    fenced: int


async def take_over(name: str, tree: SeededTree, directory: Path) -> Taken:
    async with running(name, tree, directory) as here:
        claimed = await here.claimed()
        told = await here.told()
        (system,) = here.systems
        await here.in_dual_write()
        return Taken(
            system=name,
            partitions=tree.topics * tree.partitions,
            read_ahead_s=round(claimed - here.in_service, 3),
            copy_s=round(system.committed_at() - claimed, 3),
            window_s=round(told - claimed, 3),
            peak_mb=system.peak_mb(),
            updated_partitions=here.updated_partitions(),
            fenced=here.broker.fenced_again,
        )


# --- the run ----------------------------------------------------------------------------------------------


def measure(names: list[str], tree: SeededTree, repetitions: int) -> list[Taken]:
    found = []
    for repetition in range(repetitions):
        turn = repetition % len(names)
        for name in (*names[turn:], *names[:turn]):
            with tempfile.TemporaryDirectory() as directory:
                taken = asyncio.run(take_over(name, tree, Path(directory) / "lab"))
            print(msgspec.json.encode(taken).decode(), file=sys.stderr, flush=True)
            found.append(taken)
    return found


SAVED: Final = Path(__file__).parents[2] / "docs" / "figures" / "takeovers.json"
FIGURES: Final = ("read_ahead_s", "copy_s", "window_s", "peak_mb")


def table(found: list[Taken]) -> str:
    """Medians; the ratio is the median of stock's figure by that of ours."""
    names = list(dict.fromkeys(each.system for each in found))
    medians = {
        name: {figure: median(getattr(each, figure) for each in found if each.system == name) for figure in FIGURES}
        for name in names
    }
    lines = ["| | " + " | ".join(names) + " | ratio |", "| --- " * (len(names) + 2) + "|"]
    for figure in FIGURES:
        values = [medians[name][figure] for name in names]
        ratio = f"{medians[STOCK][figure] / max(medians[OURS][figure], 0.001):.1f}" if len(names) == 2 else ""
        lines.append(f"| {figure} | " + " | ".join(f"{value:.2f}" for value in values) + f" | {ratio} |")
    return "\n".join(lines)


def save(found: list[Taken]) -> None:
    """Put the medians in the place of those of the same system and size, and draw all that are known."""
    known = msgspec.json.decode(SAVED.read_bytes(), type=list[Sized]) if SAVED.exists() else []
    rows = {(each.system, each.partitions): each for each in known}
    for system, partitions in dict.fromkeys((each.system, each.partitions) for each in found):
        mine = [each for each in found if (each.system, each.partitions) == (system, partitions)]
        values = {
            figure: median(getattr(each, figure) for each in mine) for figure in ("copy_s", "window_s", "peak_mb")
        }
        rows[system, partitions] = Sized(system, partitions, **values)
    ordered = [rows[key] for key in sorted(rows)]
    SAVED.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
    draw_takeovers(ordered, SAVED.with_suffix(".png"))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", choices=(OURS, STOCK))
    parser.add_argument("--save", action="store_true", help="renew docs/figures/takeovers.json and .png")
    arguments = parser.parse_args()
    tree = SeededTree(topics=arguments.topics, partitions=arguments.partitions, brokers=(BROKER,))
    names = [OURS, STOCK] if arguments.only is None else [arguments.only]
    found = measure(names, tree, arguments.repetitions)
    print(f"{tree.topics} topics x {tree.partitions} partitions, {arguments.repetitions} repetitions")
    print(table(found))
    if arguments.save:
        save(found)
    sound = all(each.updated_partitions == each.partitions and not each.fenced for each in found)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
