"""The kill matrix of the road: kill -9 of the service at each act on each node, in a few whole runs.

`python -m tests.adversarial.road [--parts 6] [--seed N]`: all points are mixed by the seed and dealt to the runs. Exit
code 0 when every run came to COMPLETED with nothing lost.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from migrator.findings.finding import FindingError
from migrator.lab.classes import prepared
from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.road_stage import Kill, run_to_the_end

EVERY: Final = tuple(
    Kill(act, node, when, nth)
    for node, times in ((0, 1), (1, 1), (2, 1), (3000, 3), (3001, 3), (3002, 3))
    for nth in range(1, times + 1)
    for act in ("stop", "start")
    for when in ("at", "after")
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.adversarial.road")
    parser.add_argument("--parts", type=int, default=6, help="whole runs that the points are dealt to")
    parser.add_argument("--seed", type=int, default=0, help="0: a new one")
    chosen = parser.parse_args(arguments)
    seed = chosen.seed or random.SystemRandom().randrange(1, 2**31)
    points = list(EVERY)
    random.Random(seed).shuffle(points)
    print(f"seed {seed}: {len(points)} points in {chosen.parts} runs", flush=True)
    failed = 0
    for part in range(chosen.parts):
        kills = tuple(points[part :: chosen.parts])
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="zk2kraft-road-") as home:
            try:
                with Laboratory(Path(home), prepared()) as laboratory:
                    run_to_the_end(laboratory, kills)
                outcome = "passed"
            except (AssertionError, FindingError) as error:
                failed += 1
                outcome = f"FAILED: {error}"
        took = time.monotonic() - began
        print(f"run {part + 1}: {', '.join(map(str, kills))}: {outcome} in {took:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
