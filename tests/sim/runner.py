"""Running seeds: one, many, many in parallel; what a failure says; and making a failing plan smaller.

Out:  a `Result` for each seed; counts of every fault; the report of a failure, with how to see it again.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tests.sim.invariants import Violation
from tests.sim.plan import Action, Plan, PreVotes, from_text, plan_with, pre_votes_of
from tests.sim.world import World

FOUND = Path(__file__).parent / "found"

FAULTS = (
    "messages dropped", "messages duplicated", "messages reordered", "messages cut off", "one-way", "partition",
    "isolate", "kill", "power-cut", "power-cut-all", "power-cut-leader", "power cuts that lost records",
    "torn writes", "crash-at", "pause", "slow-disk", "skewed clocks", "stop", "resign", "restarts", "elections",
    "truncations", "snapshots taken", "snapshots offered", "snapshots installed", "half installed snapshots",
    "logs reset at start", "downloads given up", "logs trimmed", "observers", "late answers", "pre-votes asked",
)  # fmt: skip
"""What a run must have done to the quorum; one in which any of it never happened proves less than it seems to."""

EXIT_SAFETY, EXIT_LIVENESS, EXIT_CRASH, EXIT_NOTHING_HAPPENED = 10, 11, 12, 13


@dataclass
class Result:
    seed: int
    steps: int
    virtual_ms: int
    counts: Counter[str] = field(default_factory=Counter)
    rule: str = ""
    report: str = ""


def run_plan(plan: Plan) -> Result:
    """One run; never raises for what the simulation finds."""
    world = World(plan)
    result = Result(plan.seed, 0, 0)
    try:
        world.run()
    except Violation as violation:
        result.rule = violation.rule
        result.report = report(world, violation)
    except Exception as error:
        result.rule = f"crash: {type(error).__name__}"
        result.report = report(world, Violation(result.rule, str(error)))
    result.steps, result.virtual_ms, result.counts = world.steps, world.now, world.counts
    result.counts["operations answered"] = world.clients.completed
    result.counts["operations unknown"] = world.clients.unknowns
    result.counts["observers"] = plan.observers
    return result


def run_seed(seed: int, pre_votes: PreVotes = PreVotes.DRAWN) -> Result:
    return run_plan(plan_with(seed, pre_votes))


def run_seeds(seeds: Iterable[int], processes: int = 1, pre_votes: PreVotes = PreVotes.DRAWN) -> Iterator[Result]:
    run = partial(run_seed, pre_votes=pre_votes)
    if processes <= 1:
        yield from map(run, seeds)
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=10)


@dataclass
class Summary:
    """What many runs came to."""

    seeds: int = 0
    steps: int = 0
    steps_min: int = 0
    virtual_ms: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Result] = field(default_factory=list)
    expected: tuple[str, ...] = FAULTS

    @property
    def never_happened(self) -> list[str]:
        return [fault for fault in self.expected if self.counts[fault] == 0]

    @property
    def exit_code(self) -> int:
        rules = [failure.rule for failure in self.failures]
        if any(rule.startswith("safety") for rule in rules):
            return EXIT_SAFETY
        if any(rule.startswith("crash") for rule in rules):
            return EXIT_CRASH
        if rules:
            return EXIT_LIVENESS
        return EXIT_NOTHING_HAPPENED if self.never_happened else 0

    def lines(self) -> list[str]:
        rate, events = self.seeds / self.seconds, self.steps / self.seconds
        lines = [
            f"{self.seeds} seeds, {self.steps} events (at least {self.steps_min} in each)",
            f"{self.virtual_ms / 3_600_000:.1f} h of virtual time",
            f"{self.seconds:.1f} s: {rate:.1f} seeds/s, {events:.0f} events/s",
            f"{len(self.failures)} violations",
        ]
        lines += [f"  {count:>10}  {what}" for what, count in sorted(self.counts.items())]
        lines += [f"NEVER HAPPENED  {fault}" for fault in self.never_happened]
        return lines


def summarise(
    results: Iterable[Result],
    on_failure: Callable[[Result], None] = lambda _: None,
    expected: tuple[str, ...] = FAULTS,
) -> Summary:
    began = time.monotonic()
    summary = Summary(expected=expected)
    for result in results:
        summary.steps_min = min(summary.steps_min, result.steps) if summary.seeds else result.steps
        summary.seeds += 1
        summary.steps += result.steps
        summary.virtual_ms += result.virtual_ms
        summary.counts += result.counts
        if result.rule:
            summary.failures.append(result)
            on_failure(result)
    summary.seconds = time.monotonic() - began
    return summary


# --- the report -------------------------------------------------------------------------------------------


def report(world: World, violation: Violation) -> str:
    plan, sky = world.plan, world.plan.weather
    delay, disk = "{}-{}".format(*sky.delay_ms), "{}-{}".format(*sky.disk_ms)
    word = pre_votes_of(plan)
    again = f"{plan.seed}" if word is PreVotes.DRAWN else f"{plan.seed} --pre-votes {word}"
    seen = "\n".join(f"    {line}" for line in world.story[-8:])
    return f"""SIMULATION FAILED  {violation.rule}
  seed {plan.seed}   step {world.steps}   virtual time {world.now / 1000:.3f} s   commit {_commit()}
  {violation.story}
  weather: drop {100 * sky.drop:.0f} %, duplicate {100 * sky.duplicate:.0f} %, delay {delay} ms, disk {disk} ms
  nodes: voters {plan.voter_ids}, observers {plan.node_ids[plan.voters :]}
  before it:
{seen}
  replay   python -m tests.sim replay {again}
  look     python -m tests.sim replay {again} --trace --from-step {max(0, world.steps - 80)}
  shrink   python -m tests.sim shrink {again}     (writes a scenario file to keep as a test)"""


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parent,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


# --- shrinking --------------------------------------------------------------------------------------------


def shrink(plan: Plan, rule: str, tries: int = 400) -> Plan:
    """A smaller plan that still breaks the same rule: fewer actions, then fewer nodes and clients, calmer weather.

    Halves, quarters, eighths ... of the actions are left out as long as the failure stays (Zeller's ddmin).
    """
    budget = [tries]

    def fails(candidate: Plan) -> bool:
        if budget[0] <= 0:
            return False
        budget[0] -= 1
        return run_plan(candidate).rule == rule

    plan = _shorten(plan, fails)
    plan = replace(plan, actions=_fewest(plan, fails))
    for simpler in _simpler(plan):
        candidate = simpler(plan)
        if candidate != plan and fails(candidate):
            plan = candidate
    return replace(plan, actions=_fewest(plan, fails))


def _shorten(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """No action after the failure matters."""
    result = run_plan(plan)
    kept = tuple(action for action in plan.actions if action.at_ms <= result.virtual_ms)
    candidate = replace(plan, actions=kept)
    return candidate if fails(candidate) else plan


def _fewest(plan: Plan, fails: Callable[[Plan], bool]) -> tuple[Action, ...]:
    actions, pieces = list(plan.actions), 2
    while actions:
        size = max(1, len(actions) // pieces)
        for begin in range(0, len(actions), size):
            fewer = actions[:begin] + actions[begin + size :]
            if fails(replace(plan, actions=tuple(fewer))):
                actions = fewer
                pieces = max(pieces - 1, 2)
                break
        else:
            if size == 1:
                break
            pieces *= 2
    return tuple(actions)


def _simpler(plan: Plan) -> list[Callable[[Plan], Plan]]:
    return [
        lambda p: replace(p, observers=0, actions=tuple(a for a in p.actions if all(n <= p.voters for n in a.nodes))),
        lambda p: replace(p, old_voters=()),
        lambda p: replace(p, clients=1),
        lambda p: replace(p, weather=replace(p.weather, duplicate=0.0)),
        lambda p: replace(p, weather=replace(p.weather, drop=0.0)),
        lambda p: replace(p, weather=replace(p.weather, skew=0.0)),
        lambda p: replace(p, weather=replace(p.weather, delay_ms=(1, 4))),
        lambda p: replace(p, weather=replace(p.weather, disk_ms=(0, 1))),
        lambda p: replace(p, settings=replace(p.settings, append_linger_ms=0)),
        lambda p: replace(p, settings=replace(p.settings, snapshot_after_bytes=10**9, snapshot_after_ms=10**9)),
    ]


def load(path: Path) -> Plan:
    return from_text(path.read_text())
