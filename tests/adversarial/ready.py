"""An hour of READY beside applications that protect and change their znodes: the disks of the controllers stay as full.

    python -m tests.adversarial.ready [--minutes 60] [--dir DIR]

A real ZooKeeper without a chroot, two brokers, three of our controllers that wait with zk2kraft.gates=pause, and the
neighbours of tests/support/neighbours.py. Each minute it prints, by controller: files and bytes of its exports, bytes
of its metadata log, and of all that it has. What has to hold at each: at most `KEPT` exports, none that is half written
twice in a row, and all that is not the metadata log no larger than the largest two minutes after the gate first
waited. The metadata log gets no-op records (two each second) until a snapshot cuts it: at most `LOG_PER_MINUTE` more.

Exit codes: 0 all of that held, 1 it did not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController, start_ready_to_migrate
from migrator.lab.servers.laboratory import Laboratory
from migrator.node.zookeeper.exports import KEPT, OWN_DIRECTORY
from tests.e2e.quorums import leading, start
from tests.e2e.support import LONG_WINDOW, wait_for
from tests.support.neighbours import neighbours

SETTLED_MINUTES: Final = 2
LOG_PER_MINUTE: Final = 64 * 1024
PAUSED: Final = "the takeover is paused"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of one controller's directory, in bytes."""

    exports: int
    export_bytes: int
    parts: frozenset[str]
    log_bytes: int
    rest_bytes: int


def sizes_of(controller: OurController) -> Sizes:
    found: dict[Path, int] = {}
    for each in controller.data.rglob("*"):
        try:
            if each.is_file():
                found[each] = each.stat().st_size
        except FileNotFoundError:
            continue  # removed meanwhile
    own = {each: size for each, size in found.items() if OWN_DIRECTORY in each.parts}
    log = {each: size for each, size in found.items() if controller.metadata_log in each.parents}
    return Sizes(
        exports=sum(each.suffix == ".gz" for each in own),
        export_bytes=sum(own.values()),
        parts=frozenset(each.name for each in own if each.suffix == ".part"),
        log_bytes=sum(log.values()),
        rest_bytes=sum(found.values()) - sum(own.values()) - sum(log.values()),
    )


def amiss(history: list[Sizes]) -> list[str]:
    """What grew, in words, at the last of these minutes."""
    now, said = history[-1], []
    if now.exports > KEPT:
        said.append(f"{now.exports} exports")
    if len(history) > 1 and now.parts & history[-2].parts:
        said.append(f"half written for a minute: {sorted(now.parts & history[-2].parts)}")
    if len(history) > SETTLED_MINUTES:
        first = history[SETTLED_MINUTES - 1]
        # each of the kept exports may be as large as the first ones were all together
        if now.export_bytes + now.rest_bytes > (KEPT * first.export_bytes) + first.rest_bytes:
            said.append(f"{now.export_bytes + now.rest_bytes} bytes beside the log")
        allowed = first.log_bytes + (len(history) - SETTLED_MINUTES) * LOG_PER_MINUTE
        if now.log_bytes > allowed:
            said.append(f"a log of {now.log_bytes} bytes, more than {allowed}")
    return said


def wait_ready(ours: list[OurController]) -> OurController:
    """Until the gate is open and only paused."""
    found: list[OurController] = []

    def why_not() -> str | None:
        node = leading(ours)
        found[:] = [each for each in ours if each.spec.node_id == node]
        reason = str(found[0].status()["driver"]["reason"]) if found else "no leader"
        return None if PAUSED in reason else reason

    wait_for(why_not, "the gate is open, and paused")
    return found[0]


def run(directory: Path, minutes: int) -> int:
    faults = 0
    with Laboratory(directory, prepared()) as laboratory:
        cluster = LabCluster(laboratory, brokers=2)
        ours = start_ready_to_migrate(cluster, 3, {**LONG_WINDOW, "zk2kraft.gates": "pause"})
        cluster.create_topics(["topic-0", "topic-1"], partitions=4)
        with neighbours(cluster.zookeeper_connect) as others:
            start(ours)
            leader = wait_ready(ours)
            print(f"controller {leader.spec.node_id} leads, its gate is open and paused", flush=True)
            history: dict[int, list[Sizes]] = {each.spec.node_id: [] for each in ours}
            for minute in range(minutes + 1):
                for each in ours:
                    node, now = each.spec.node_id, sizes_of(each)
                    history[node].append(now)
                    said = amiss(history[node])
                    faults += len(said)
                    print(
                        f"minute {minute}: controller {node}: {now.exports} exports, {now.export_bytes} bytes; log "
                        f"{now.log_bytes}, rest {now.rest_bytes}; neighbours changed {others.changes} times"
                        + (f"; GREW: {'; '.join(said)}" if said else ""),
                        flush=True,
                    )
                if minute < minutes:
                    time.sleep(60)
            wait_ready(ours)
    print("disk use was flat" if not faults else f"disk use grew: {faults} times")
    return 1 if faults else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.adversarial.ready", description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--dir", type=Path, help="for the laboratory; default: a temporary one, removed at the end")
    options = parser.parse_args()
    if options.dir is not None:
        return run(options.dir, options.minutes)
    with tempfile.TemporaryDirectory() as directory:
        return run(Path(directory), options.minutes)


if __name__ == "__main__":
    sys.exit(main())
