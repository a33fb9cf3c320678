"""`make bench-third-side`: what asking every broker adds to an audit in dual-write.

In:   `python -m tests.benchmarks.third_side [--topics 200] [--partitions 10] [--audits 5]`.
Out:  medians of processes with and without `--brokers`, taking turns: seconds on the clock and of processors, and what
      the report says of the third side alone.
Elsewhere: what brokers are asked (node/brokers/what_they_say.py), its test (tests/e2e/test_third_side.py).
Fails when an audit does not pass.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import start_ready_to_migrate
from migrator.lab.servers.laboratory import Laboratory

BROKERS: Final = ("--brokers", "registered")
AUDIT_DEADLINE_S: Final = 600.0
TRIES: Final = 60
"""Until what was just made has come to all three sides."""


def audit(words: list[str]) -> dict[str, Any]:
    before, began = os.times(), time.monotonic()
    done = subprocess.run(words, capture_output=True, timeout=AUDIT_DEADLINE_S, check=False)
    took, after = time.monotonic() - began, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    report = json.loads(done.stdout)
    return {"passed": done.returncode == 0, "took_s": took, "cpu_s": cpu, "brokers_s": report["seconds"].get("brokers")}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.third_side")
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--audits", type=int, default=5)
    chosen = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="zk2kraft-third-side-") as home,
        Laboratory(Path(home), prepared()) as laboratory,
    ):
        cluster = LabCluster(laboratory)
        (controller,) = start_ready_to_migrate(cluster, extra={"zk2kraft.takeover.max.ms": 60_000})
        topics = [f"topic-{number}" for number in range(chosen.topics)]
        cluster.create_topics(topics, partitions=chosen.partitions)
        controller.start()
        controller.wait_dual_write()
        cluster.wait_isr_whole(topics)
        command = [sys.executable, "-m", "api", "audit", "-z", cluster.zookeeper_connect, "--engine", "quick", "--json"]
        command += ["--kraft", str(controller.metadata_log)]
        assert any(audit([*command, *BROKERS])["passed"] for _ in range(TRIES)), "all three sides are equal"
        found: dict[str, list[dict[str, Any]]] = {"two sides": [], "three sides": []}
        for _ in range(chosen.audits):
            found["two sides"].append(audit(command))
            found["three sides"].append(audit([*command, *BROKERS]))
        partitions, load = chosen.topics * chosen.partitions, os.getloadavg()[0]
        print(f"{partitions} partitions × {len(cluster.brokers)} brokers, load {load:.1f}")
        for name, audits in found.items():
            assert all(each["passed"] for each in audits), audits
            medians = {
                key: round(statistics.median(each[key] for each in audits), 2)
                for key in ("took_s", "cpu_s", "brokers_s")
                if audits[0][key] is not None
            }
            print(name, json.dumps(medians), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
