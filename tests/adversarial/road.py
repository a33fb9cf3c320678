"""The kill matrix of the road: kill -9 at each of its points, in a few whole runs.

`python -m tests.adversarial.road [--parts 12] [--seed N] [--only leader,broker]`: all points are mixed by the seed and
dealt to the runs. Exit code 0 when every run came to COMPLETED with nothing lost.
The service dies at each act on each node. The active controller, a broker and ZooKeeper die at each act on one broker
and one controller that the seed draws. All of them die around each phase and the finalize intent.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from migrator.lab.servers.laboratory import Laboratory
from tests.adversarial.kept import PASSED, outcome_of
from tests.e2e.road_kills import ACTS, INTENT, Kill, Victim
from tests.e2e.road_stage import run_to_the_end

Point = TypeVar("Point")
BROKERS: Final = (0, 1, 2)
CONTROLLERS: Final = (3000, 3001, 3002)
ROLLS: Final = {"stop": (1, 2, 3), "write": (1, 3), "start": (1, 2, 3)}
"""Of a controller: stock takes its place, the soak, without the flag. No file is written in the soak."""
PHASES: Final = (
    ("ROLLING_BROKERS", "at"),
    ("ROLLING_BROKERS", "after"),
    ("REPLACING_CONTROLLERS", "at"),
    ("REPLACING_CONTROLLERS", "after"),
    ("SOAK", "after"),
    ("FINALIZING", "at"),
    ("FINALIZING", "after"),
    (INTENT, "after"),
    ("COMPLETED", "after"),
)
"""SOAK and COMPLETED begin by themselves: nobody stands right before them."""
LEFT_OUT: Final = {
    Kill("COMPLETED", None, "after", victim=Victim.ZOOKEEPER): "ZooKeeper is stopped for good after COMPLETED",
}


def points_of(draw: random.Random) -> list[Kill]:
    """Every point of every victim but those left out, mixed."""
    one = ((draw.choice(BROKERS),), (draw.choice(CONTROLLERS),))
    points = []
    for victim in Victim:
        brokers, controllers = (BROKERS, CONTROLLERS) if victim is Victim.SERVICE else one
        for act in ACTS:
            for when in ("at", "after"):
                points += [Kill(act, node, when, 1, victim) for node in brokers]
                points += [Kill(act, node, when, nth, victim) for node in controllers for nth in ROLLS[act]]
        points += [Kill(phase, None, when, 1, victim) for phase, when in PHASES]
    points = [each for each in points if each not in LEFT_OUT]
    draw.shuffle(points)
    return points


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.adversarial.road")
    parser.add_argument("--only", default="", help="kill these alone, with commas between: " + ", ".join(Victim))
    add_parts(parser, 12)
    chosen = parser.parse_args(arguments)
    seed = seed_of(chosen)
    victims = [Victim(each) for each in chosen.only.split(",")] if chosen.only else list(Victim)
    points = [each for each in points_of(random.Random(seed)) if each.victim in victims]
    for left_out, why in LEFT_OUT.items():
        print(f"left out: {left_out}: {why}", flush=True)
    return play_parts("road", points, chosen, run_to_the_end)


# --- what both kill matrices do with their points -----------------------------------------------------------


def add_parts(parser: argparse.ArgumentParser, parts: int) -> None:
    parser.add_argument("--parts", type=int, default=parts, help="whole runs that the points are dealt to")
    parser.add_argument("--seed", type=int, default=0, help="0: a new one")
    parser.add_argument("--run", type=int, default=0, help="only this run of them; 0: all")


def seed_of(chosen: argparse.Namespace) -> int:
    seed: int = chosen.seed or random.SystemRandom().randrange(1, 2**31)
    print(f"seed {seed}", flush=True)
    return seed


def play_parts(
    name: str,
    points: Sequence[Point],
    chosen: argparse.Namespace,
    play: Callable[[Laboratory, tuple[Point, ...]], None],
) -> int:
    """Deal the points to the runs, each in a laboratory of its own. Returns an exit code."""
    print(f"{len(points)} points in {chosen.parts} runs", flush=True)
    failed = 0
    for part in [chosen.run - 1] if chosen.run else range(chosen.parts):
        mine = tuple(points[part :: chosen.parts])
        began = time.monotonic()
        outcome = outcome_of(name, lambda laboratory, mine=mine: play(laboratory, mine))  # type: ignore[misc]
        failed += outcome != PASSED
        took = time.monotonic() - began
        print(f"run {part + 1}: {', '.join(map(str, mine))}: {outcome} in {took:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
