"""Simulate the quorum from the command line.

    python -m tests.sim run [--seeds 2000] [--first 0] [--processes 2] [--pre-votes drawn|all|some]
    python -m tests.sim run --shell [--seeds 2000] [--first 0] [--processes 2]
    python -m tests.sim run --requests [--seeds 2000] [--first 0] [--processes 2]
    python -m tests.sim replay SEED --requests [--trace]
    python -m tests.sim replay SEED [--trace] [--from-step N]      (or a scenario file instead of the seed)
    python -m tests.sim shrink SEED

--pre-votes: who of the voters asks before it stands: all or nobody, as the seed says; all; some, the others being
voters of Kafka 3.9. To see a seed again it takes the same word.

--shell: the real shell on files that fail, in place of the cores (shell.py).
--requests: three real controllers with requests in flight (requests.py). The process starts itself anew with fixed
hashes, by which sets and maps are ordered: else a seed would be another run each time.

Exit codes: 0 all well, 10 a safety rule was broken, 11 a liveness rule, 12 the simulator itself crashed, 13 a fault
that the run should have injected never happened.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.sim.invariants import Violation
from tests.sim.plan import Plan, PreVotes, plan_with
from tests.sim.requests import HAPPENED as HAPPENED_WITH_REQUESTS
from tests.sim.requests import replay_requests_seed, run_requests_seeds
from tests.sim.runner import FOUND, Result, load, report, run_plan, run_seeds, shrink, summarise
from tests.sim.shell import HAPPENED, run_shell_seeds
from tests.sim.world import World


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Simulate the quorum.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="many seeds")
    run.add_argument("--seeds", type=int, default=2_000)
    run.add_argument("--first", type=int, default=0)
    run.add_argument("--processes", type=int, default=2)
    run.add_argument("--shell", action="store_true", help="the real shell, on files that fail")
    run.add_argument("--requests", action="store_true", help="real controllers with requests in flight")
    replay = verbs.add_parser("replay", help="one seed or scenario file again")
    replay.add_argument("what")
    replay.add_argument("--trace", action="store_true", help="print what happened")
    replay.add_argument("--from-step", type=int, default=0)
    replay.add_argument("--requests", action="store_true", help="of real controllers with requests in flight")
    shrinking = verbs.add_parser("shrink", help="make a failing seed smaller and keep it as a scenario file")
    shrinking.add_argument("what")
    for verb in (run, replay, shrinking):
        verb.add_argument("--pre-votes", type=PreVotes, choices=list(PreVotes), default=PreVotes.DRAWN)
    options = parser.parse_args()
    if getattr(options, "requests", False):
        _with_fixed_hashes()
        if options.verb == "replay":
            return _replay_requests(int(options.what), trace=options.trace)
        return _run_requests(range(options.first, options.first + options.seeds), options.processes)
    if options.verb == "run" and options.shell:
        return _run_shells(range(options.first, options.first + options.seeds), options.processes)
    if options.verb == "run":
        return _run(range(options.first, options.first + options.seeds), options.processes, options.pre_votes)
    is_file = Path(options.what).is_file()
    plan = load(Path(options.what)) if is_file else plan_with(int(options.what), options.pre_votes)
    if options.verb == "replay":
        return _replay(plan, trace=options.trace, from_step=options.from_step)
    return _shrink(plan)


def _run(seeds: range, processes: int, pre_votes: PreVotes) -> int:
    def tell(failure: Result) -> None:
        print(failure.report, flush=True)

    summary = summarise(run_seeds(seeds, processes, pre_votes), tell)
    print("\n".join(summary.lines()))
    return summary.exit_code


def _run_shells(seeds: range, processes: int) -> int:
    results = run_shell_seeds(seeds, processes)
    summary = summarise(results, lambda failure: print(failure.report, flush=True), HAPPENED)
    print("\n".join(summary.lines()))
    return summary.exit_code


def _with_fixed_hashes() -> None:
    if os.environ.get("PYTHONHASHSEED") != "0":
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]], environment)


def _run_requests(seeds: range, processes: int) -> int:
    results = run_requests_seeds(seeds, processes)
    summary = summarise(results, lambda failure: print(failure.report, flush=True), HAPPENED_WITH_REQUESTS)
    print("\n".join(summary.lines()))
    return summary.exit_code


def _replay_requests(seed: int, *, trace: bool) -> int:
    result, story = replay_requests_seed(seed)
    if trace:
        print("\n".join(story))
    if result.rule:
        print(result.report)
        return 10
    print(f"seed {seed}: {result.steps} requests, {result.virtual_ms / 1000:.1f} s of virtual time, nothing wrong")
    return 0


def _replay(plan: Plan, *, trace: bool, from_step: int) -> int:
    world = World(plan)
    failed = False
    try:
        world.run()
    except Violation as violation:
        failed = True
        print(report(world, violation))
    if trace:
        print("\n".join(line for line in world.story if int(line.split()[0]) >= from_step))
    if not failed:
        print(f"seed {plan.seed}: {world.steps} events, {world.now / 1000:.1f} s of virtual time, nothing wrong")
    return 10 if failed else 0


def _shrink(plan: Plan) -> int:
    first = run_plan(plan)
    if not first.rule:
        print(f"seed {plan.seed} does not fail")
        return 1
    smaller = shrink(plan, first.rule)
    FOUND.mkdir(exist_ok=True)
    path = FOUND / f"seed_{plan.seed}.txt"
    path.write_text(f"# {first.rule}\n{smaller.text()}")
    print(f"{len(plan.actions)} actions became {len(smaller.actions)}: {path}")
    print(run_plan(smaller).report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
