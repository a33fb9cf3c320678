"""`make takeover`: takeover and rollback of a real cluster, then a rollback with no controller alive, each measured.

In:   `python -m migrator.lab.takeover [--topics N[,N]] [--runs R] [--json]`.
Out:  a line per run: how long nobody was controller, and how long from the operation for a rollback to a ZooKeeper
      controller; last the spread of the first. With `--json` one document with every figure.
Elsewhere: the same with clients at work, through the service (`zk2kraft demo`).
Each run is a new cluster of three brokers with four partitions per topic. The rollback without controllers happens
with our controller killed: that is what it is for.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from migrator.findings.finding import FindingError
from migrator.findings.laboratory import TOOL_FAILED
from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import PROGRAM, OurController, our_controller, ready_to_migrate
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.laboratory import Laboratory

SIZES: Final = (1, 30)
RUNS: Final = 1
PARTITIONS: Final = 4
DEADLINE_S: Final = 60.0
POLL_EVERY_S: Final = 0.005


class Measured(msgspec.Struct):
    """One run. Milliseconds, on the clock of whoever measured.

    window_ms: from TAKING_OVER to DUAL_WRITE, when nobody answers for the cluster.
    rollback_ms: from the operation to a ZooKeeper controller. without_controllers_ms: the same, from the start of the
    process that rolls back without controllers.
    """

    topics: int
    window_ms: int
    rollback_ms: int
    without_controllers_ms: int


def measure(laboratory: Laboratory, topics: int) -> Measured:
    """A takeover and a rollback, then another takeover by a new quorum and a release."""
    cluster = LabCluster(laboratory)
    cluster.start()
    names = [f"topic-{number:03}" for number in range(topics)]
    cluster.create_topics(names, partitions=PARTITIONS)
    first = ready_to_migrate(cluster, names)
    window_ms = _take_over(first)

    began = time.monotonic()
    first.ask("rollback", "measured")
    rollback_ms = _until_zookeeper_rules(cluster, began)
    first.wait_state("RETIRED")
    first.stop()

    first.directory.rename(first.directory.with_name("controller-that-rolled-back"))
    second = our_controller(cluster)
    cluster.restart_as(lambda spec: spec.as_migrating(second.voters))
    cluster.wait_isr_whole(names)
    _take_over(second)
    second.kill()
    wait_sessions_ended(cluster)
    began = time.monotonic()
    roll_back_without_controllers(cluster)
    without_controllers_ms = _until_zookeeper_rules(cluster, began)
    return Measured(topics, window_ms, rollback_ms, without_controllers_ms)


def _take_over(controller: OurController) -> int:
    """Returns the window in ms."""
    controller.start()
    controller.wait_dual_write(DEADLINE_S)
    return int(controller.status()["driver"]["window_ms"])


def wait_sessions_ended(cluster: LabCluster) -> None:
    """After kill -9: until ZooKeeper has given the controllers up, which is when a release is possible."""

    def why_not() -> str | None:
        held = [name for name in cluster.zk.children("/cluster") if name.startswith("zk2kraft-")]
        return f"{held} are there" if held else None

    cluster.laboratory.wait(why_not, name="the sessions of the controllers", deadline_s=DEADLINE_S)


def roll_back_without_controllers(cluster: LabCluster) -> str:
    """`zk2kraft rollback --without-controllers --execute`, as its own process. Raises Z2K-6007 when it is refused."""
    command = [
        sys.executable,
        *PROGRAM,
        "rollback",
        "--without-controllers",
        "-z",
        cluster.zookeeper_connect,
        "--execute",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode != 0:
        raise TOOL_FAILED.error(tool="rollback --without-controllers", exit_code=done.returncode, output=done.stderr)
    return done.stdout


def _until_zookeeper_rules(cluster: LabCluster, began: float) -> int:
    while time.monotonic() - began < DEADLINE_S:
        data = cluster.zk.read("/controller")
        if data is not None and json.loads(data).get("kraftControllerEpoch", -1) < 0:
            break
        time.sleep(POLL_EVERY_S)
    return int((time.monotonic() - began) * 1000)


def run(artifacts: Artifacts, sizes: Iterable[int], runs: int) -> list[Measured]:
    found = []
    for topics in sizes:
        for _ in range(runs):
            with (
                tempfile.TemporaryDirectory(prefix="zk2kraft-takeover-") as directory,
                Laboratory(Path(directory), artifacts) as laboratory,
            ):
                found.append(measure(laboratory, topics))
            print(line(found[-1]), file=sys.stderr, flush=True)
    return found


def line(one: Measured) -> str:
    return (
        f"{one.topics:4} topics   no controller for {one.window_ms / 1000:.3f} s   "
        f"rolled back in {one.rollback_ms / 1000:.3f} s   "
        f"without controllers in {one.without_controllers_ms / 1000:.3f} s"
    )


def spread(measured: Sequence[Measured]) -> list[str]:
    """Median and worst of the windows, per size."""
    lines = []
    for topics in sorted({one.topics for one in measured}):
        windows = [one.window_ms for one in measured if one.topics == topics]
        lines.append(f"{topics} topics, {len(windows)} runs: median {median(windows):.0f} ms, worst {max(windows)} ms")
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m migrator.lab.takeover", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--topics", default=",".join(map(str, SIZES)), help="how many topics; several with commas")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each size")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    chosen = parser.parse_args(arguments)
    try:
        measured = run(prepared(), [int(each) for each in chosen.topics.split(",")], chosen.runs)
    except FindingError as error:
        print(error, error.occurrence.finding.remedy, sep="\n", file=sys.stderr)
        return 1
    if chosen.json:
        print(json.dumps([msgspec.to_builtins(one) for one in measured]))
    else:
        print(*spread(measured), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
