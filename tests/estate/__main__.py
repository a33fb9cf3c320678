"""Runs of the estate from the command line.

    python -m tests.estate [--seeds 60] [--first 0] [--minutes 15] [--trace]
    python -m tests.estate --join [--seeds 60] [--first 0] [--minutes 15] [--trace]
    python -m tests.estate --dead all|NAME [--trace]

Each seed is a story and its faults; the same seed is the same run. Exit codes: 0 all well, 1 something was violated,
3 this machine cannot have an estate.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import structlog

from migrator.model.prepared_types import prepare_types
from tests.estate.dead import DEATHS, outlive
from tests.estate.faults import Plan, plan_of, that_joins, with_cut_writes
from tests.estate.namespaces import go_inside, is_inside, settle_in, why_not
from tests.estate.run import run
from tests.estate.world import BROKERS, NODES, UNPROVEN, EstateWorld

HOME = Path("/tmp/zk2kraft-estate")
"""In this mount namespace, a disk in memory of its own."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.estate", description="An estate of hosts, with faults.")
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=15.0, help="no further run begins after so long")
    parser.add_argument("--trace", action="store_true", help="print every call")
    parser.add_argument("--plant", choices=[UNPROVEN], default="", help="a fault of ours that the bench has to find")
    parser.add_argument("--join", action="store_true", help="from BROKERS_JOINING on, and back to the original files")
    parser.add_argument("--dead", choices=["all", *DEATHS], default="", help="a host is dead from then on, in no seed")
    parser.add_argument("--log", action="store_true", help="print what the service logs")
    options = parser.parse_args()
    if not is_inside():
        reason = why_not()
        if reason:
            print(f"no estate here: {reason}")
            return 3
        go_inside([sys.executable, "-m", "tests.estate", *sys.argv[1:]])
    settle_in()
    prepare_types()  # as the service does before its threads begin
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # what a life that was killed did not end
    if not options.log:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    HOME.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(HOME)], check=True)
    world = EstateWorld(HOME, options.plant)
    world.aloud = options.trace
    began = time.monotonic()
    world.build()
    print(f"six hosts in {time.monotonic() - began:.1f} s", flush=True)
    if options.dead:
        return _outlive(world, list(DEATHS) if options.dead == "all" else [options.dead], options.minutes * 60)
    seeds = range(options.first, options.first + options.seeds)
    return _run(world, seeds, options.minutes * 60, joins=options.join)


def _run(world: EstateWorld, seeds: range, limit_s: float, *, joins: bool) -> int:
    began, violated, done = time.monotonic(), [], 0
    effects: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    for seed in seeds:
        if time.monotonic() - began > limit_s:
            break
        plan = _plan(world, seed)
        result = run(world, that_joins(plan, BROKERS) if joins else plan)
        done += 1
        effects.update(str(each.effect) for each in result.reached)
        ends[result.phase] += 1
        print(result, flush=True)
        if result.violations:
            violated.append(seed)
            print(f"  again: python -m tests.estate --first {seed} --seeds 1 --trace{' --join' * joins}", flush=True)
    seconds = time.monotonic() - began
    print(f"{done} runs in {seconds:.0f} s: {dict(ends)}; violated: {len(violated)} {violated}")
    print(f"faults that happened: {dict(sorted(effects.items()))}")
    return 1 if violated else 0


def _outlive(world: EstateWorld, names: Sequence[str], limit_s: float) -> int:
    began, violated = time.monotonic(), []
    for done, name in enumerate(names):
        if time.monotonic() - began > limit_s:
            print(f"{len(names) - done} were not begun: {', '.join(names[done:])}")
            break
        result = outlive(world, name)
        violated += [name] if result.violations else []
        print(f"{name}: {result}", flush=True)
    print(f"violated: {len(violated)} {violated}")
    return 1 if violated else 0


def _plan(world: EstateWorld, seed: int) -> Plan:
    plan = plan_of(seed, BROKERS, NODES)
    return with_cut_writes(plan, BROKERS) if world.plant == UNPROVEN else plan


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
