"""`make bench-rehearse`: how long `zk2kraft rehearse` of a large tree takes as a process, and in how much memory.

In:   `python -m tests.benchmarks.rehearse [--topics N] [--partitions N] [--repetitions N]`.
Out:  a line of JSON for each run.
Elsewhere: the takeover of the same tree (copy.py).
Fails when the quick audit does not say that the copy is the tree.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from migrator.lab.classes import prepared
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.zk.session import ZkSession
from tests.benchmarks.takeovers import HEAP_MB, HEAP_PER_100K_MB
from tests.support.seeded_tree import SeededTree

COMMAND: Final = (sys.executable, "-m", "api")


class Rehearsed(msgspec.Struct, frozen=True):
    """took_s: from the start of the process to its end. peak_mb: the most that it held in memory."""

    partitions: int
    took_s: float
    peak_mb: int


def rehearse(tree: SeededTree, zookeeper: str, out: Path) -> Rehearsed:
    began = time.monotonic()
    process = subprocess.Popen([*COMMAND, "rehearse", "-z", zookeeper, "--out", str(out)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    took_s = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"rehearse ended with {process.returncode}"
    audit = [*COMMAND, "audit", "-z", zookeeper, "--kraft", str(out), "--engine", "quick"]
    subprocess.run(audit, check=True, stdout=subprocess.DEVNULL)
    return Rehearsed(tree.topics * tree.partitions, round(took_s, 2), usage.ru_maxrss // 1024)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    tree = SeededTree(arguments.topics, arguments.partitions)
    heap_mb = HEAP_MB + tree.topics * tree.partitions // 100_000 * HEAP_PER_100K_MB
    with tempfile.TemporaryDirectory() as directory, Laboratory(Path(directory) / "lab", prepared()) as laboratory:
        zookeeper = ZooKeeper(laboratory)
        (server,) = zookeeper.servers
        server.spec = replace(server.spec, heap_mb=heap_mb)
        zookeeper.start()
        address = f"{HOST}:{server.spec.port}"
        with ZkSession(address) as session:
            tree.seed(session)
        for number in range(arguments.repetitions):
            rehearsed = rehearse(tree, address, Path(directory) / f"copy-{number}")
            print(msgspec.json.encode(rehearsed).decode(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
