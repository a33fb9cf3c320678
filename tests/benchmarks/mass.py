"""`make bench-mass`: a broker that is in sync with every partition is fenced, and comes back; how three voters bear it.

In:   `python -m tests.benchmarks.mass [--partitions N ...]`.
Out:  a table on stdout; every measurement as a line of JSON on stderr.
Elsewhere: the brokers (stand_in_broker.py), the tree (tests/support/seeded_tree.py).
Three voters of ours and a ZooKeeper as processes, three stand-in brokers in this one, which yields to the others.
Every partition has replicas on all three brokers and is led by broker 1.

| figure | what happens |
| --- | --- |
| fenced | broker 1 falls silent; from the first record about it until ZooKeeper and the others have the last |
| back | it reports again, and the new leader takes it into every in-sync set; until the same |
| delay | the longest time that the loop of any voter was late meanwhile, as the voters say themselves |
| without its wait | the same without the time in which the loop waited for a processor, as on busy hosts |
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from migrator.findings.finding import FindingError
from migrator.lab.classes import prepared
from migrator.lab.ours import OurController
from migrator.lab.servers.controller import quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.wire.messages.partitions import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    IsrBroker,
)
from migrator.zk.session import ZkSession
from tests.benchmarks.takeovers import CLUSTER_ID, HEAP_MB, HEAP_PER_100K_MB, OF_OURS
from tests.support.kraft_load import Connection
from tests.support.seeded_tree import SeededTree, an_id
from tests.support.stand_in_broker import ReceivedRequest, StandInBroker

PARTITIONS: Final = (30_000, 100_000, 300_000)
PER_TOPIC: Final = 10
BROKERS: Final = (1, 2, 3)
VOTERS: Final = 3
ASKED_AT_ONCE: Final = 10_000
"""Partitions of one AlterPartition: a leader sends what is due when the one before was answered."""
BROKERS_NICE: Final = 10
"""The brokers stand for other hosts: what they compute holds up the voters of this one as little as can be."""
DEADLINE_S: Final = 600.0
LOOK_S: Final = 0.25


class Figure(msgspec.Struct, frozen=True):
    """One measurement. log_mb: what the log grew by; told_mb: requests to all brokers."""

    partitions: int
    what: str
    seconds: float
    delay_ms: float
    work_ms: float
    elections: int
    log_mb: float
    told_mb: float


class Tally(list[ReceivedRequest]):
    """Counts what a broker was told, and keeps none of it."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def append(self, order: ReceivedRequest) -> None:
        self.bytes += len(order.frame)


@dataclass
class Stage:
    """Everything in dual-write. What is the largest, and the epochs, since `begin`."""

    voters: list[OurController]
    brokers: dict[int, StandInBroker]
    reports: dict[int, asyncio.Task[None]]
    tally: Tally
    delay_ms: float = 0.0
    work_ms: float = 0.0
    epochs: frozenset[int] = frozenset()
    leader: dict[str, Any] | None = None

    async def look(self) -> dict[str, Any] | None:
        """The leader's status; None while nobody leads."""
        self.leader = None
        for voter in self.voters:
            assert voter.is_running, voter.process.log.read_text(errors="replace")[-2000:]
            try:
                status = await asyncio.to_thread(voter.status)
            except (OSError, ValueError, FindingError):
                continue
            self.delay_ms = max(self.delay_ms, status["loop_delay_ms"])
            self.work_ms = max(self.work_ms, status["loop_work_ms"])
            self.epochs |= {status["quorum"]["epoch"]}
            if status["quorum"]["leader"] == voter.spec.node_id:
                self.leader = status
        return self.leader

    async def until(self, holds: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            status = await self.look()
            if status is not None and holds(status):
                return status
            assert time.monotonic() < deadline, f"{what} did not happen: {status}"
            await asyncio.sleep(LOOK_S)

    async def begin(self) -> dict[str, Any]:
        """Wait until the delays of what came before are forgotten."""
        await asyncio.sleep(10.5)
        self.delay_ms, self.work_ms, self.epochs, self.tally.bytes = 0.0, 0.0, frozenset(), 0
        return await self.until(is_quiet, "quiet")

    def log_bytes(self) -> int:
        return sum(each.stat().st_size for each in self.voters[0].metadata_log.glob("*.log"))

    def figure(self, partitions: int, what: str, began: float, log_before: int) -> Figure:
        return Figure(
            partitions,
            what,
            round(time.monotonic() - began, 2),
            round(self.delay_ms, 1),
            round(self.work_ms, 1),
            len(self.epochs) - 1,
            round((self.log_bytes() - log_before) / 1e6, 1),
            round(self.tally.bytes / 1e6, 1),
        )


def is_quiet(status: dict[str, Any]) -> bool:
    """In dual-write, with nothing on its way to ZooKeeper or a broker."""
    told = all(each["fenced"] or (each["updated"] and not each["requests_waiting"]) for each in status["brokers"])
    lag = status["dual_write"]
    return status["driver"]["state"] == "DUAL_WRITE" and told and not lag["lag_records"] and not lag["multis_waiting"]


def is_fenced(status: dict[str, Any], broker: int) -> bool:
    return any(each["id"] == broker and each["fenced"] for each in status["brokers"])


@asynccontextmanager
async def a_stage(tree: SeededTree, directory: Path) -> AsyncIterator[Stage]:
    heap_mb = HEAP_MB + tree.topics * tree.partitions // 100_000 * HEAP_PER_100K_MB
    with Laboratory(directory, prepared(), fast_start=False) as laboratory:
        zookeeper = ZooKeeper(laboratory)
        for server in zookeeper.servers:
            server.spec = replace(server.spec, heap_mb=heap_mb)
        zookeeper.start()
        address = f"{HOST}:{zookeeper.servers[0].spec.port}"
        with ZkSession(address) as session:
            await asyncio.to_thread(tree.seed, session)
        specs = quorum_specs(laboratory, count=VOTERS, zookeeper_connect=address, extra=OF_OURS)
        stage = Stage([OurController(laboratory, spec, CLUSTER_ID) for spec in specs], {}, {}, Tally())
        try:
            for broker in BROKERS:
                stage.brokers[broker] = StandInBroker(broker, tree)
                stage.brokers[broker].told = stage.tally
                await stage.brokers[broker].serve(address)
            for voter in stage.voters:
                await asyncio.to_thread(voter.launch)
            with yielding():
                for broker in BROKERS:
                    report(stage, broker)
                await stage.until(is_quiet, "dual-write")
                yield stage
        finally:
            for task in stage.reports.values():
                task.cancel()
            for each in stage.brokers.values():
                each.close()


@contextmanager
def yielding() -> Iterator[None]:
    """This thread runs when no other process wants the processor. Who may not take that back stays so."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, BROKERS_NICE)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, before)


def report(stage: Stage, broker: int) -> None:
    """Let a broker register, or report again."""
    addresses = [(HOST, voter.spec.port) for voter in stage.voters]
    stage.reports[broker] = asyncio.create_task(stage.brokers[broker].join(addresses, CLUSTER_ID))


async def fenced(stage: Stage, partitions: int) -> Figure:
    before = await stage.begin()
    log_before = stage.log_bytes()
    stage.reports.pop(1).cancel()
    first = before["quorum"]["log_end"] + 100
    await stage.until(lambda now: now["quorum"]["log_end"] > first, "the first record")
    began = time.monotonic()
    await stage.until(lambda now: is_fenced(now, 1) and is_quiet(now), "fenced")
    return stage.figure(partitions, "fenced", began, log_before)


async def back(stage: Stage, tree: SeededTree, partitions: int) -> Figure:
    await stage.begin()
    log_before, began = stage.log_bytes(), time.monotonic()
    report(stage, 1)
    status = await stage.until(lambda now: not is_fenced(now, 1), "unfenced")
    epoch = next(each["epoch"] for each in status["brokers"] if each["id"] == 2)
    leader = next(each for each in stage.voters if each.spec.node_id == status["quorum"]["leader"])
    connection = await Connection.open((HOST, leader.spec.port))
    topics = ASKED_AT_ONCE // tree.partitions
    for begin in range(0, tree.topics, topics):
        names = [tree.name(number) for number in range(begin, min(begin + topics, tree.topics))]
        request = AlterPartitionRequest(2, epoch, tuple(in_sync_again(name, tree.partitions) for name in names))
        answer = await connection.ask(request, 3, AlterPartitionResponse)
        codes = {answer.error_code, *(each.error_code for topic in answer.topics for each in topic.partitions)}
        assert codes == {0}, codes
    connection.close()
    await stage.until(is_quiet, "back")
    return stage.figure(partitions, "back", began, log_before)


def in_sync_again(name: str, partitions: int) -> AlterPartitionTopic:
    """As the leader since the fencing proposes it; nothing else happened to these partitions."""
    isr = tuple(map(IsrBroker, BROKERS))
    proposals = tuple(
        AlterPartitionPartition(number, leader_epoch=1, new_isr_with_epochs=isr, partition_epoch=1)
        for number in range(partitions)
    )
    return AlterPartitionTopic(topic_id=an_id(name), partitions=proposals)


async def measure(partitions: int, directory: Path) -> list[Figure]:
    tree = SeededTree(topics=partitions // PER_TOPIC, partitions=PER_TOPIC, brokers=BROKERS)
    async with a_stage(tree, directory) as stage:
        return [await fenced(stage, partitions), await back(stage, tree, partitions)]


def table(found: list[Figure]) -> str:
    lines = [
        "| partitions | | time | per 100,000 | elections | longest loop delay | without its wait | log | requests |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for each in found:
        per = each.seconds / each.partitions * 100_000
        lines.append(
            f"| {each.partitions:,} | {each.what} | {each.seconds:.1f} s | {per:.1f} s | {each.elections} "
            f"| {each.delay_ms:.0f} ms | {each.work_ms:.0f} ms | {each.log_mb:.1f} MB | {each.told_mb:.0f} MB |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", type=int, nargs="+", default=list(PARTITIONS))
    found = []
    for partitions in parser.parse_args().partitions:
        with tempfile.TemporaryDirectory() as directory:
            figures = asyncio.run(measure(partitions, Path(directory) / "lab"))
        for figure in figures:
            print(msgspec.json.encode(figure).decode(), file=sys.stderr, flush=True)
        found += figures
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
