"""Interleave operations of the active controller, and compare with every serial order.

    python -m tests.interleavings [--count 50000] [--first 0] [--processes 2]

Prints how many trials there were, of which kinds, and each violation with the seed that shows it again.
Exit codes: 0 all well, 10 a violation.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import structlog

from tests.interleavings.operations import KINDS
from tests.interleavings.trial import PAIRS, ViolationError, judge, plan

REPORTED_MAX = 5
AT_ONCE = 500


@dataclass
class Tally:
    troubles: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[int, str]] = field(default_factory=list)


def quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def judged(seeds: range) -> Tally:
    tally = Tally()
    for seed in seeds:
        trial = plan(seed)
        tally.troubles[trial.trouble] += 1
        tally.kinds.update(each.kind for each in trial.operations)
        try:
            judge(seed)
        except ViolationError as found:
            tally.violations.append((seed, str(found)))
        except Exception as error:
            tally.violations.append((seed, f"seed {seed}: {trial.title}: {type(error).__name__}: {error}"))
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interleavings", description=__doc__)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    began, end = time.monotonic(), options.first + options.count
    pieces = [range(at, min(at + AT_ONCE, end)) for at in range(options.first, end, AT_ONCE)]
    whole = Tally()
    tallies: Iterator[Tally]
    if options.processes == 1 or len(pieces) == 1:
        quiet()
        tallies = map(judged, pieces)
    else:
        tallies = ProcessPoolExecutor(options.processes, initializer=quiet).map(judged, pieces)
    for tally in tallies:
        whole.troubles += tally.troubles
        whole.kinds += tally.kinds
        for _, report in tally.violations[: max(0, REPORTED_MAX - len(whole.violations))]:
            print(report, flush=True)
        whole.violations += tally.violations
    print(f"{options.count} trials, seeds {options.first} to {end - 1}, in {time.monotonic() - began:.0f} s")
    print(f"kinds: {len(whole.kinds)} of {len(KINDS)}; ordered pairs: {min(options.count, len(PAIRS))} of {len(PAIRS)}")
    print("; ".join(f"{count} with: {trouble}" for trouble, count in sorted(whole.troubles.items())))
    seeds = [seed for seed, _ in whole.violations]
    print(f"{len(seeds)} violations{': seeds ' + ', '.join(map(str, seeds[:20])) if seeds else ''}")
    return 10 if seeds else 0


if __name__ == "__main__":
    sys.exit(main())
