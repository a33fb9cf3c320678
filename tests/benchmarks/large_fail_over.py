"""How late the loops of voters are when the leader of a large quorum dies: this checkout and another one in turn.

In:   `python -m tests.benchmarks.large_fail_over --base DIR [--partitions 300000]`; DIR is a checkout with its own
      `.venv`. Without `--base`, this checkout alone.
Out:  a table on stdout: from kill -9 of the leader until dual-write again with nothing under way, the longest delay
      of a loop meanwhile, the same without the time in which the loop waited for a processor, elections.
Elsewhere: the quorum, the tree and the brokers (mass.py).
A leader that stands still in UPDATING_BROKERS is deposed at 2.0 to 2.5 s, and its successor after it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from tests.benchmarks.mass import PER_TOPIC, Figure, a_stage, is_quiet
from tests.support.seeded_tree import SeededTree

BROKERS = (1, 2, 3)


async def measure(partitions: int, directory: Path) -> Figure:
    tree = SeededTree(topics=partitions // PER_TOPIC, partitions=PER_TOPIC, brokers=BROKERS)
    async with a_stage(tree, directory) as stage:
        before = await stage.begin()
        leader = next(each for each in stage.voters if each.spec.node_id == before["quorum"]["leader"])
        stage.voters.remove(leader)
        began = time.monotonic()
        await asyncio.to_thread(leader.kill)

        def is_led_again(now: dict[str, Any]) -> bool:
            return now["quorum"]["epoch"] > before["quorum"]["epoch"] and is_quiet(now)

        await stage.until(is_led_again, "dual-write under another leader")
        return stage.figure(partitions, "leader killed", began, stage.log_bytes())


def in_checkout(directory: Path, partitions: int) -> Figure:
    """In a process of that checkout's own Python, with this file."""
    command = [str(directory / ".venv/bin/python"), __file__, "--partitions", str(partitions), "--as-json"]
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Figure)


def table(found: dict[str, Figure]) -> str:
    lines = [
        "| build | partitions | until dual-write | longest loop delay | without its wait | elections |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for build, each in found.items():
        lines.append(
            f"| {build} | {each.partitions:,} | {each.seconds:.1f} s | {each.delay_ms:.0f} ms | {each.work_ms:.0f} ms "
            f"| {each.elections} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", type=Path, help="another checkout, with its .venv")
    parser.add_argument("--partitions", type=int, default=300_000)
    parser.add_argument("--as-json", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.as_json:
        with tempfile.TemporaryDirectory() as directory:
            figure = asyncio.run(measure(chosen.partitions, Path(directory) / "lab"))
        print(msgspec.json.encode(figure).decode())
        return 0
    here = Path(__file__).resolve().parents[2]
    builds = {"before": chosen.base.resolve()} if chosen.base else {}
    print(table({build: in_checkout(each, chosen.partitions) for build, each in {**builds, "now": here}.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
