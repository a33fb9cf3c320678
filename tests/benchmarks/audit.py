"""`make bench-audit`: how long the Spark audit of a tree takes, and in how much memory.

In:   `python -m tests.benchmarks.audit [--topics N ...] [--partitions N] [--warm N] [--base DIR] [--engines E ...]
      [--masters M ...]`.
Out:  a line of JSON for each audit.
Elsewhere: the rehearsal that is audited (rehearse.py).
Fails when an audit does not say that the copy is the tree.
Memory is the most of all processes of an audit together (proportional set size), processor time their sum; both are
looked at four times a second.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from migrator.audit.warm_process import living
from migrator.lab.classes import prepared
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.zk.session import ZkSession
from state_machine.audits.warm_audits import SCRATCH, WarmAudits
from tests.benchmarks.rehearse import COMMAND
from tests.benchmarks.takeovers import HEAP_MB, HEAP_PER_100K_MB
from tests.support.seeded_tree import SeededTree

EVERY_S: Final = 0.25
SMALL: Final = 1_000
"""Topics of a tree that is audited in the warm process, too."""

MASTER: Final = "local[2]"
IDLE_S: Final = 600.0
LIMIT_S: Final = 600.0
VARIED: Final[dict[str, Any]] = {"brokers": tuple(range(1, 31)), "varied": True}


class Audited(msgspec.Struct, frozen=True):
    """steps: seconds, as the report says them. peak_mb: of the warm process, what it has after an audit."""

    engine: str
    partitions: int
    took_s: float
    cpu_s: float | None
    peak_mb: int | None
    steps: dict[str, float]


class MeasuredAudit(NamedTuple):
    """One audit. base: another checkout; Spark's workers take their modules from the directory that they start in."""

    engine: str
    master: str
    base: Path | None


def audit(tree: SeededTree, zookeeper: str, copy: Path, run: MeasuredAudit) -> Audited:
    """One process from its start to its end."""
    began = time.monotonic()
    engine, master, base = run
    words = ["audit", "-z", zookeeper, "--kraft", str(copy), "--engine", engine, "--master", master, "--json"]
    command = COMMAND if base is None else [str(base / ".venv/bin/zk2kraft")]
    process = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, start_new_session=True, cwd=base)
    watch = _Watch(process.pid)
    said, _ = process.communicate()
    took_s = time.monotonic() - began
    assert process.returncode == 0, said.decode()
    peak_mb, cpu_s = watch.found()
    steps = msgspec.json.decode(said)["seconds"]
    named = engine if engine == "quick" else f"{engine} on {master}"
    named = named if base is None else f"{named}, of {base.name}"
    return Audited(named, _size(tree), round(took_s, 2), round(cpu_s, 1), peak_mb, steps)


async def audits_in_one_process(
    tree: SeededTree, zookeeper: str, copy: Path, directory: Path, count: int
) -> list[Audited]:
    """As the service runs them: through the pipe. The first one waits until the process is warm.

    Processor time is that of all its processes from the answer before to this one, so with what it clears up between.
    """
    directory.mkdir()
    warm = WarmAudits(directory, master=MASTER, idle_s=IDLE_S)
    found, mark = [], str(directory / SCRATCH)
    try:
        for number in range(1, count + 1):
            began, ticks_before = time.monotonic(), _ticks_of(living(mark))
            words = ("audit", "-z", zookeeper, "--kraft", str(copy), "--engine", "spark", "--master", MASTER)
            result = await warm.run(*words, "--out", str(directory / f"out-{number}"), limit_s=LIMIT_S)
            took_s = time.monotonic() - began
            assert result.exit_code == 0, result
            assert result.note is None, result.note
            family = living(mark)
            ticks = _ticks_of(family)
            spent = sum(ticks[pid] - ticks_before.get(pid, 0) for pid in ticks)
            found.append(
                Audited(
                    "spark, warm" if number > 1 else "spark, starting the warm process",
                    _size(tree),
                    round(took_s, 2),
                    round(spent / os.sysconf("SC_CLK_TCK"), 1),
                    sum(map(_memory_kb, family)) // 1024,
                    result.document["seconds"],
                )
            )
    finally:
        await warm.close()
    return found


def _size(tree: SeededTree) -> int:
    return tree.topics * tree.partitions


class _Watch:
    """Memory and processor time of a process and all below it, looked at until it ends."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak_kb = 0
        self._ticks: dict[int, int] = {}
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def found(self) -> tuple[int, float]:
        """The most memory in MB, and the processor's seconds."""
        self._thread.join()
        return self._peak_kb // 1024, sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def _look(self) -> None:
        while Path(f"/proc/{self._pid}/smaps_rollup").exists():
            family = _family(self._pid)
            self._ticks |= {each: max(_ticks(each), self._ticks.get(each, 0)) for each in family}
            found = sum(_memory_kb(each) for each in family)
            if not found:
                return
            self._peak_kb = max(self._peak_kb, found)
            time.sleep(EVERY_S)


def _family(pid: int) -> list[int]:
    """The process and all below it."""
    try:
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        threads = [each for each in os.listdir(f"/proc/{pid}/task") if each != str(pid)]
        for each in threads:
            below += Path(f"/proc/{pid}/task/{each}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(found for each in below for found in _family(int(each)))]


def _ticks_of(pids: list[int]) -> dict[int, int]:
    return {pid: _ticks(pid) for pid in pids}


def _ticks(pid: int) -> int:
    """User and system time; a process that is gone has none."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(words[11]) + int(words[12])


def _memory_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--topics", type=int, nargs="+", default=[12, 10_000, 100_000])
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--warm", type=int, default=4, help="audits of a small tree in the warm process")
    parser.add_argument("--base", type=Path, help="another checkout, with its .venv: it audits the same tree, in turn")
    parser.add_argument("--engines", nargs="+", default=["quick", "spark"])
    parser.add_argument("--masters", nargs="+", default=[MASTER], help="of Spark")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--varied", action="store_true", help="30 brokers, and partitions that differ from each other")
    arguments = parser.parse_args()
    bases = [None] if arguments.base is None else [arguments.base.absolute(), None]
    for topics in arguments.topics:
        tree = SeededTree(topics, arguments.partitions, **(VARIED if arguments.varied else {}))
        warm = arguments.warm if topics <= SMALL else 0
        with tempfile.TemporaryDirectory() as directory:
            masters = {"quick": [MASTER], "spark": arguments.masters}
            kinds = [(engine, master) for engine in arguments.engines for master in masters[engine]]
            runs = [MeasuredAudit(*kind, base) for kind in kinds for base in bases] * arguments.repetitions
            for each in _audits(tree, Path(directory), warm, runs):
                print(msgspec.json.encode(each).decode(), flush=True)
    return 0


def _audits(tree: SeededTree, directory: Path, warm: int, runs: Sequence[MeasuredAudit]) -> Iterator[Audited]:
    with Laboratory(directory / "lab", prepared()) as laboratory:
        zookeeper = ZooKeeper(laboratory)
        (server,) = zookeeper.servers
        server.spec = replace(server.spec, heap_mb=HEAP_MB + _size(tree) // 100_000 * HEAP_PER_100K_MB)
        zookeeper.start()
        address, copy = f"{HOST}:{server.spec.port}", directory / "copy"
        with ZkSession(address) as session:
            tree.seed(session)
        subprocess.run([*COMMAND, "rehearse", "-z", address, "--out", str(copy)], check=True, stdout=subprocess.DEVNULL)
        for run in runs:
            yield audit(tree, address, copy, run)
        if warm:
            yield from asyncio.run(audits_in_one_process(tree, address, copy, directory / "service", warm))


if __name__ == "__main__":
    sys.exit(main())
