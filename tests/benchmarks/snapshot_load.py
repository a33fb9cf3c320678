"""How long a follower's loop stands still while it replays a snapshot: on the loop, as before, and on a thread.

    python -m tests.benchmarks.snapshot_load [--partitions 300000]

Both in one run, on the same file. A tick every 5 ms says how late the loop is; the longest delay is what a vote or a
fetch waits for. What belongs together is the ratio: absolute times are those of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from migrator.controller.snapshot import records_of
from migrator.node.leader.applied_log import AppliedLog
from migrator.node.log.log_replay import read_ahead, read_snapshot
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.raft.types import SnapshotId
from migrator.wire.records import encode_record
from tests.support.builders import a_partition, a_topic, an_image

TICK_S = 0.005
PER_TOPIC = 10
SNAPSHOT = SnapshotId(10_000_000, 9)


def write_snapshot(directory: Path, partitions: int) -> SnapshotFiles:
    topics = [
        a_topic(f"topic-{number}", [a_partition(each) for each in range(PER_TOPIC)])
        for number in range(partitions // PER_TOPIC)
    ]
    files = SnapshotFiles(directory)
    files.write(SNAPSHOT, (encode_record(*each) for each in records_of(an_image(*topics, brokers=(1, 2, 3)))), 0)
    return files


async def longest_delay(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Longest delay of a tick and the whole time, in seconds, while `work` is under way."""
    longest, done = 0.0, False

    async def ticks() -> None:
        nonlocal longest
        while not done:
            due = time.perf_counter() + TICK_S
            await asyncio.sleep(TICK_S)
            longest = max(longest, time.perf_counter() - due)

    ticking = asyncio.create_task(ticks())
    await asyncio.sleep(10 * TICK_S)
    began = time.perf_counter()
    await work()
    took = time.perf_counter() - began
    await asyncio.sleep(2 * TICK_S)
    done = True
    await ticking
    return longest, took


async def measure(files: SnapshotFiles) -> None:
    async def on_the_loop() -> None:
        read_snapshot(files.path(SNAPSHOT), SNAPSHOT)

    async def on_a_thread() -> None:
        log = AppliedLog(cast(Any, SimpleNamespace(snapshots=files)), read_ahead([]))
        log.begin_anew(SNAPSHOT)
        await log.load()

    before, before_took = await longest_delay(on_the_loop)
    after, after_took = await longest_delay(on_a_thread)
    print(f"on the loop    longest delay {before * 1000:7.0f} ms   whole {before_took:5.2f} s")
    print(f"on a thread    longest delay {after * 1000:7.0f} ms   whole {after_took:5.2f} s")
    print(f"ratio          longest delay {after / before:7.3f}      whole {after_took / before_took:5.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.snapshot_load")
    parser.add_argument("--partitions", type=int, default=300_000)
    partitions = parser.parse_args().partitions
    with tempfile.TemporaryDirectory() as directory:
        files = write_snapshot(Path(directory), partitions)
        print(f"{partitions} partitions, {files.size(SNAPSHOT) / 1e6:.1f} MB")
        asyncio.run(measure(files))


if __name__ == "__main__":
    main()
