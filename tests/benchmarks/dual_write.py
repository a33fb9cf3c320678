"""`make bench-dual-write`: how soon ZooKeeper has what was changed in dual-write, ours beside stock 3.9.2 in one run.

In:   `python -m tests.benchmarks.dual_write [--creations N] [--partitions-at-fail-over P] [--repetitions R]
      [--only NAME]`.
Out:  a table on stdout, every measurement as a line of JSON on stderr.
Elsewhere: what runs (takeovers.py), the takeover itself (copy.py).

| figure | what happens |
| --- | --- |
| burst | 50 topics x 20 partitions are created on three real brokers; from the last answer until all is in ZooKeeper |
| creations | so many topics, 16 in flight, with a stand-in broker; topics per second until the last is in ZooKeeper |
| fail-over | the active one of three controllers is killed, 100,000 partitions; until another one is in dual-write |
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import our_controller
from migrator.lab.servers.laboratory import Laboratory
from migrator.zk import paths
from migrator.zk.session import ZkSession
from tests.benchmarks.takeovers import DEADLINE_S, OURS, STOCK, running
from tests.support.kraft_load import Connection, Creations
from tests.support.seeded_tree import SeededTree

TOPICS: Final = 50
PARTITIONS: Final = 20
REPLICAS: Final = 3
IN_FLIGHT: Final = 16
CREATED_PARTITIONS: Final = 1
VOTERS: Final = 3


class Figure(msgspec.Struct, frozen=True):
    """One measurement. unit: s (less is better) or 1/s (more is better)."""

    system: str
    what: str
    value: float
    unit: str


async def burst(name: str, directory: Path) -> Figure:
    """R-866-02: each topic is one multi where it fits."""
    return await asyncio.to_thread(_burst, name, directory)


def _burst(name: str, directory: Path) -> Figure:
    with Laboratory(directory, prepared(), fast_start=False) as laboratory:
        cluster = LabCluster(laboratory)
        cluster.start()
        cluster.create_topics(["first"], partitions=1)
        controller = our_controller(cluster) if name == OURS else cluster.quorum(1)
        cluster.restart_as(lambda spec: spec.as_migrating(controller.voters))
        cluster.wait_isr_whole(["first"])
        controller.start()
        controller.wait_dual_write(DEADLINE_S)
        names = [f"burst-{number}" for number in range(TOPICS)]
        with ZkSession(cluster.zookeeper_connect) as session:
            new = [NewTopic(each, PARTITIONS, REPLICAS) for each in names]
            for future in cluster.admin().create_topics(new, operation_timeout=60.0).values():
                future.result(60.0)
            answered = time.monotonic()
            wanted = [paths.state(each, partition) for each in names for partition in range(PARTITIONS)]
            while any(znode is None for znode in session.get_many(wanted)):
                assert time.monotonic() < answered + DEADLINE_S, "not all partitions came to ZooKeeper"
            return Figure(name, "burst", round(time.monotonic() - answered, 3), "s")


async def creations(name: str, directory: Path, count: int) -> Figure:
    async with running(name, SeededTree(topics=1, partitions=1, brokers=(1,)), directory) as here:
        system = await here.in_dual_write()
        load = Creations("created", CREATED_PARTITIONS, replicas=1)
        began = time.monotonic()
        await _create(await _connections(system.address), load, count)
        while not await asyncio.to_thread(_all_there, here.session, load.names):
            assert time.monotonic() < began + DEADLINE_S, "not all topics came to ZooKeeper"
        return Figure(name, f"creations ({count})", round(count / (time.monotonic() - began), 1), "1/s")


async def _connections(address: tuple[str, int]) -> list[Connection]:
    return [await Connection.open(address) for _ in range(IN_FLIGHT)]


async def _create(connections: list[Connection], load: Creations, count: int) -> None:
    numbers = itertools.count()

    async def one_at_a_time(connection: Connection) -> None:
        while (number := next(numbers)) < count:
            answer = await connection.exchange(load.frame(number))
            assert not load.error(answer), f"creation {number} was refused"
        connection.close()

    await asyncio.gather(*map(one_at_a_time, connections))


def _all_there(session: ZkSession, names: Iterable[str]) -> bool:
    return all(znode is not None for znode in session.get_many(paths.state(name, 0) for name in names))


async def fail_over(name: str, directory: Path, partitions: int) -> Figure:
    tree = SeededTree(topics=max(1, partitions // 10), partitions=10, brokers=(1,))
    async with running(name, tree, directory, VOTERS) as here:
        await here.in_dual_write()
        active, epoch = await here.claim()
        victim = next(each for each in here.systems if each.spec.node_id == active)
        killed = time.time()
        victim.kill()
        await here.claimed(above=epoch)
        await here.in_dual_write()
        return Figure(name, f"fail-over ({partitions} partitions)", round(time.time() - killed, 2), "s")


# --- the run ----------------------------------------------------------------------------------------------


def table(found: list[Figure]) -> str:
    """Medians; the ratio says how many times better ours is."""
    lines = ["| | ours | stock | ratio |", "| --- | --- | --- | --- |"]
    for what, unit in dict.fromkeys((each.what, each.unit) for each in found):
        values = {
            name: median(each.value for each in found if each.what == what and each.system == name)
            for name in dict.fromkeys(each.system for each in found)
        }
        ratio = ""
        if len(values) == 2:
            better = values[STOCK] / values[OURS] if unit == "s" else values[OURS] / values[STOCK]
            ratio = f"{better:.1f}"
        cells = " | ".join(f"{values[name]:.2f} {unit}" if name in values else "" for name in (OURS, STOCK))
        lines.append(f"| {what} | {cells} | {ratio} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--creations", type=int, default=2_000)
    parser.add_argument("--partitions-at-fail-over", type=int, default=100_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", choices=(OURS, STOCK))
    arguments = parser.parse_args()
    names = [OURS, STOCK] if arguments.only is None else [arguments.only]
    cells: list[Callable[[str, Path], Coroutine[None, None, Figure]]] = [
        burst,
        partial(creations, count=arguments.creations),
        partial(fail_over, partitions=arguments.partitions_at_fail_over),
    ]
    found = []
    for cell in cells:
        for repetition in range(arguments.repetitions):
            turn = repetition % len(names)
            for name in (*names[turn:], *names[:turn]):
                with tempfile.TemporaryDirectory() as directory:
                    figure = asyncio.run(cell(name, Path(directory) / "lab"))
                print(msgspec.json.encode(figure).decode(), file=sys.stderr, flush=True)
                found.append(figure)
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
