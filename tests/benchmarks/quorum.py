"""`make bench-quorum`: metadata changes per second and their latency, ZooKeeper beside stock KRaft beside ours.

In:   `python -m tests.benchmarks.quorum [--seconds S] [--repetitions N] [--in-flight N ...] [--save]`.
Out:  a table on stdout, every measurement as JSON; with `--save` also docs/figures/quorum.png and the table in
      docs/benchmarks.md.
Elsewhere: how each is started (systems.py), what a change is (kraft_load.py, zookeeper_load.py), the statistics
(figures.py).
All of them run during the whole benchmark, one under load at any time; who is first changes with every cell.
Source: R-595-17.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from migrator.lab.classes import prepared
from tests.benchmarks import systems
from tests.benchmarks.drawing import draw
from tests.benchmarks.figures import Measurement, Row, between_markers, measurement, rows, table
from tests.benchmarks.systems import CONFIGURE, CREATE, System

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "benchmarks.md"
FIGURE: Final = ROOT / "docs" / "figures" / "quorum.png"
RESULT: Final = ROOT / "docs" / "figures" / "quorum.json"
CHANGES: Final = (CREATE, CONFIGURE)
IN_FLIGHT: Final = (1, 16, 128)
SECONDS: Final = 3.0
RAMP_S: Final = 0.5
WARM_UP_S: Final = 6.0
"""Per kind of change: 12 s of load before the first measurement, in which the JVM compiles what it runs."""

WARM_UP_IN_FLIGHT: Final = 32
REPETITIONS: Final = 5
FSYNCS: Final = 200


class Machine(msgspec.Struct):
    """What the figures depend on."""

    cores: int
    load_before: float
    load_after: float
    fsync_p50_ms: float


class Result(msgspec.Struct):
    """Everything of one run."""

    kafka: str
    seconds: float
    repetitions: int
    machine: Machine
    rows: list[Row]
    measured: list[Measurement]


def measure(
    all_systems: Sequence[System], in_flight: Sequence[int], repetitions: int, seconds: float
) -> list[Measurement]:
    """Every cell of every repetition; the systems take turns in being first."""
    found = []
    turn = 0
    for repetition in range(repetitions):
        for change in CHANGES:
            for flying in in_flight:
                first = turn % len(all_systems)
                turn += 1
                for system in (*all_systems[first:], *all_systems[:first]):
                    latencies = system.measure(change, flying, ramp_s=RAMP_S, seconds=seconds)
                    found.append(measurement(system.name, change, flying, repetition, latencies, seconds))
                    say(found[-1])
    order = {system.name: number for number, system in enumerate(all_systems)}
    return sorted(found, key=lambda each: order[each.system])


def say(one: Measurement) -> None:
    what = f"[{one.repetition + 1}] {one.change:15} {one.in_flight:4} in flight  {one.system:21}"
    figures = f"p50 {one.p50_ms:7.1f} ms  p99 {one.p99_ms:7.1f} ms  {one.per_second:7.1f} changes/s"
    print(what, figures, file=sys.stderr)


def fsync_ms(directory: Path) -> float:
    """The median of an fsync after a small write, before anything runs: the disk's part of every commit."""
    times = []
    with (directory / "fsync").open("wb", buffering=0) as file:
        for _ in range(FSYNCS):
            file.write(bytes(500))
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return round(median(times), 3)


def run(directory: Path, chosen: argparse.Namespace) -> Result:
    artifacts = prepared()
    load_before, fsync = os.getloadavg()[0], fsync_ms(directory)
    with ExitStack() as stack:
        compared: list[System] = []
        for number, name in enumerate(chosen.systems):
            laboratory = systems.laboratory(directory / str(number), artifacts)
            compared.append(systems.SYSTEMS[name](stack.enter_context(laboratory)))
        for system in compared:
            system.start()
            for change in CHANGES:
                system.measure(change, WARM_UP_IN_FLIGHT, ramp_s=0.0, seconds=WARM_UP_S)
        measured = measure(compared, chosen.in_flight, chosen.repetitions, chosen.seconds)
    machine = Machine(os.cpu_count() or 0, round(load_before, 2), round(os.getloadavg()[0], 2), fsync)
    return Result(artifacts.version, chosen.seconds, chosen.repetitions, machine, rows(measured), measured)


def conditions(result: Result) -> str:
    """One line: what the figures depend on."""
    machine = result.machine
    return (
        f"Kafka {result.kafka}; {result.repetitions} repetitions of {result.seconds:g} s; {machine.cores} cores, load "
        f"{machine.load_before} before and {machine.load_after} after; an fsync took {machine.fsync_p50_ms} ms before."
    )


def save(result: Result, json_file: Path) -> None:
    json_file.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.quorum", description=__doc__.splitlines()[0])
    names = list(systems.SYSTEMS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of each cell")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--in-flight", type=int, nargs="+", default=IN_FLIGHT)
    parser.add_argument("--systems", nargs="+", choices=names, default=names, help="stock has to be among them")
    parser.add_argument("--dir", type=Path, help="where the logs lie: a real disk; default: the temporary directory")
    parser.add_argument("--json", type=Path, help="where every measurement goes")
    parser.add_argument("--save", action="store_true", help="renew the figure and the table in docs/")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="zk2kraft-bench-", dir=chosen.dir) as work:
        result = run(Path(work), chosen)
    text = table(result.rows)
    print(text)
    if chosen.json is not None:
        save(result, chosen.json)
    if chosen.save:
        FIGURE.parent.mkdir(exist_ok=True)
        save(result, RESULT)
        draw(result.rows, FIGURE)
        PAGE.write_text(between_markers(PAGE.read_text(), "quorum", f"{text}\n\n{conditions(result)}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
