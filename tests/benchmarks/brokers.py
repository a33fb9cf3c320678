"""`make bench-brokers`: what each further broker costs, this checkout and another one in turn, in one run.

In:   `python -m tests.benchmarks.brokers --base DIR [--cells work takeover waiting] [--partitions P] [--few B]
      [--many B]`; DIR is a checkout with its own `.venv`.
Out:  a table on stdout, every measurement as a line of JSON on stderr.
Elsewhere: one broker and stock (copy.py), the trees (tests/support/seeded_tree.py), the brokers
(tests/support/stand_in_broker.py).
The brokers are one process, and do not decode what they are sent. They share the machine with the controller: compare
the controller's own processor seconds first, then ratios of the clock.

| figure | from | to |
| --- | --- | --- |
| window | `/controller` names a KRaft controller | the last broker's answer to the last request of its full send |
| processor | the same | the same; of the controller's process, user and system |
| waiting | a minute after the brokers are in service | two minutes later; the takeover is paused |
| work | the first full update encoded and compared, and the loop's part of a fail-over; without any network | |
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from migrator.driver.update_requests import LEADER_AND_ISR, UPDATE_METADATA
from migrator.lab.classes import prepared
from migrator.lab.ours import CONTROL_FILE, OurController
from migrator.lab.servers.controller import DUAL_WRITE, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value, write
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.wire.frames import RequestHeader, read_request_header
from migrator.zk import paths
from migrator.zk.multi import Create
from migrator.zk.session import ZkSession
from tests.benchmarks.takeovers import CLUSTER_ID, DEADLINE_S, HEAP_MB, HEAP_PER_100K_MB, LOOK_S, OF_OURS
from tests.support.seeded_tree import SeededTree, config_json, state_json, topic_json
from tests.support.stand_in_broker import DESCRIBE_LOG_DIRS, FULL_AS_TAG, METADATA, ORDERS, StandInBroker, until

REPLICAS: Final = 3
HEAD_BYTES: Final = 256
CHUNK_BYTES: Final = 1 << 20
WAITING_PARTITIONS: Final = 1_000
WAIT_FIRST_S: Final = 60.0
WAIT_S: Final = 120.0
TICKS: Final = os.sysconf("SC_CLK_TCK")
NOW, BASE = "now", "base"
WORK: Final = Path(__file__).with_name("broker_work.py")


class SpreadTree(SeededTree):
    """Each topic is on three brokers, one after the other."""

    def hosts(self, number: int) -> tuple[int, ...]:
        count = len(self.brokers)
        return tuple(self.brokers[(number + each) % count] for each in range(min(REPLICAS, count)))

    def _topic(self, number: int) -> Iterator[Create]:
        name, hosts = self.name(number), self.hosts(number)
        yield Create(f"/brokers/topics/{name}", topic_json(name, range(self.partitions), hosts))
        yield Create(f"/config/topics/{name}", config_json({"retention.ms": str(1_000 + number)}))
        yield Create(f"/brokers/topics/{name}/partitions", b"")
        for partition in range(self.partitions):
            yield Create(f"/brokers/topics/{name}/partitions/{partition}", b"")
            yield Create(f"/brokers/topics/{name}/partitions/{partition}/state", state_json(hosts, leader=hosts[0]))


class CheapBroker(StandInBroker):
    """Takes requests in pieces and keeps none. asked: how often it was asked, by key."""

    def __init__(self, broker: int, tree: SpreadTree, shared: StandInBroker | None) -> None:
        super().__init__(broker, replace(tree, topics=0))
        of_all = shared if shared is not None else StandInBroker(broker, tree)
        self._answers[METADATA] = of_all._answers[METADATA]
        self._answers[DESCRIBE_LOG_DIRS] = _log_dirs_of(broker, tree)
        self.asked: dict[int, int] = {}
        self.full_sends: list[float] = []
        """When it had answered the FULL UpdateMetadata after a LeaderAndIsr; wall clock."""
        self._has_leaders = False

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                head = await reader.readexactly(min(size, HEAD_BYTES))
                tail, left = head, size - len(head)
                while left:
                    piece = await reader.read(min(left, CHUNK_BYTES))
                    if not piece:
                        return
                    tail, left = (tail + piece)[-HEAD_BYTES:], left - len(piece)
                self._take(read_request_header(head), tail, writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the controller, or the benchmark, is done
        finally:
            writer.close()

    def _take(self, header: RequestHeader, tail: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(self._answer_to(header))
        self.asked[header.api_key] = self.asked.get(header.api_key, 0) + 1
        if header.api_key == LEADER_AND_ISR:
            self._has_leaders = True
        elif header.api_key == UPDATE_METADATA and self._has_leaders and tail.endswith(FULL_AS_TAG):
            self.full_sends.append(time.time())


def _log_dirs_of(broker: int, tree: SpreadTree) -> bytes:
    hosted = [number for number in range(tree.topics) if broker in tree.hosts(number)]
    part = _Hosted(topics=len(hosted), partitions=tree.partitions, numbers=tuple(hosted))
    return StandInBroker(broker, part)._answers[DESCRIBE_LOG_DIRS]


@dataclass(frozen=True)
class _Hosted(SeededTree):
    numbers: tuple[int, ...] = ()

    def name(self, number: int) -> str:
        return super().name(self.numbers[number])


class Checkout(OurController):
    """Our controller out of some checkout, with its own interpreter."""

    def __init__(self, laboratory: Laboratory, spec: object, cluster_id: str, python: Path) -> None:
        super().__init__(laboratory, spec, cluster_id)  # type: ignore[arg-type]
        self._python = python

    def launch(self) -> None:
        write(self.properties_file, self.spec.properties())
        self.format()
        (self.data / CONTROL_FILE).unlink(missing_ok=True)
        command = [str(self._python), *self.program, "controller", str(self.properties_file)]
        environment = {**os.environ, **self.environment, "PYTHONSAFEPATH": "1"}
        environment.pop("PYTHONPATH", None)
        self._process = self.laboratory.processes.start(self.name, command, environment=environment)

    def processor_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def peak_mb(self) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) // 1024


@dataclass
class Stage:
    """Everything started. in_service: when the last broker was."""

    controllers: list[Checkout]
    brokers: list[CheapBroker]
    session: ZkSession
    zookeeper: tuple[str, int]
    in_service: float

    async def claimed(self) -> float:
        async def look() -> bool:
            znode = await asyncio.to_thread(self.session.get, paths.CONTROLLER)
            found = {} if znode is None else json.loads(znode.data or b"{}")
            return int(found.get("kraftControllerEpoch", -1)) >= 0

        return await until(look, "the claim", DEADLINE_S, LOOK_S)

    async def told(self) -> float:
        async def look() -> bool:
            assert any(each.is_running for each in self.controllers)
            return all(each.full_sends for each in self.brokers)

        await until(look, "the full sends", DEADLINE_S, LOOK_S)
        return max(each.full_sends[0] for each in self.brokers)

    async def in_dual_write(self) -> Checkout:
        found: list[Checkout] = []

        async def look() -> bool:
            found[:] = [each for each in self.controllers if await asyncio.to_thread(_is_in_dual_write, each)]
            return bool(found)

        await until(look, "dual-write", DEADLINE_S, 0.2)
        return found[0]

    def requests_to_brokers(self) -> int:
        return sum(sum(count for key, count in each.asked.items() if key not in ORDERS) for each in self.brokers)

    def requests_to_zookeeper(self) -> int:
        with socket.create_connection(self.zookeeper, 10.0) as connection:
            connection.sendall(b"srvr")
            text = connection.makefile("rb").read().decode()
        return int(next(line.split()[1] for line in text.splitlines() if line.startswith("Received")))


def _is_in_dual_write(controller: Checkout) -> bool:
    if not controller.is_running:
        return False
    try:
        return controller.state() == DUAL_WRITE
    except (OSError, ValueError):
        return False


@asynccontextmanager
async def staged(
    checkout: Path, tree: SpreadTree, directory: Path, extra: dict[str, Value], controllers: int = 1
) -> AsyncIterator[Stage]:
    """From nothing to all brokers in service; what comes next, the controllers do by themselves."""
    heap_mb = HEAP_MB + tree.topics * tree.partitions // 100_000 * HEAP_PER_100K_MB
    with Laboratory(directory, prepared(), fast_start=False) as laboratory:
        service = ZooKeeper(laboratory)
        for server in service.servers:
            server.spec = replace(server.spec, heap_mb=heap_mb)
        service.start()
        where = (HOST, service.servers[0].spec.port)
        address = f"{HOST}:{where[1]}"
        with ZkSession(address) as session:
            await asyncio.to_thread(tree.seed, session)
            specs = quorum_specs(laboratory, count=controllers, zookeeper_connect=address, extra={**OF_OURS, **extra})
            python = checkout / ".venv" / "bin" / "python"
            ours = [Checkout(laboratory, spec, CLUSTER_ID, python) for spec in specs]
            brokers: list[CheapBroker] = []
            for each in tree.brokers:
                brokers.append(CheapBroker(each, tree, brokers[0] if brokers else None))
            tasks: list[asyncio.Task[None]] = []
            try:
                for broker in brokers:
                    await broker.serve(address)
                for controller in ours:
                    await asyncio.to_thread(controller.launch)
                addresses = [(HOST, each.port) for each in specs]
                tasks = [asyncio.create_task(broker.join(addresses, CLUSTER_ID)) for broker in brokers]

                async def in_service() -> bool:
                    assert all(each.is_running for each in ours), ours[0].process.log.read_text()[-2000:]
                    return all(each.unfenced.is_set() for each in brokers)

                await until(in_service, "all brokers in service", DEADLINE_S, LOOK_S)
                yield Stage(ours, brokers, session, where, time.time())
            finally:
                for task in tasks:
                    task.cancel()
                for broker in brokers:
                    broker.close()


# --- the cells --------------------------------------------------------------------------------------------


class Measured(msgspec.Struct, frozen=True):
    """One cell of one build. figures: seconds, megabytes or counts, by name."""

    build: str
    cell: str
    brokers: int
    partitions: int
    figures: dict[str, float]


async def take_over(tree: SpreadTree, checkout: Path, directory: Path) -> dict[str, float]:
    async with staged(checkout, tree, directory, {}) as stage:
        (controller,) = stage.controllers
        claimed = await stage.claimed()
        before_s = controller.processor_s()
        told = await stage.told()
        after_s = controller.processor_s()
        await stage.in_dual_write()
        fenced = sum(each.fenced_again for each in stage.brokers)
        return {
            "window_s": told - claimed,
            "processor_s": after_s - before_s,
            "peak_mb": controller.peak_mb(),
            "fenced": fenced,
        }


async def wait(tree: SpreadTree, checkout: Path, directory: Path) -> dict[str, float]:
    """The takeover is paused, as for an operator who decides on it next week."""
    async with staged(checkout, tree, directory, {"zk2kraft.gates": "pause"}) as stage:
        await asyncio.sleep(WAIT_FIRST_S)
        began, of_zookeeper, of_brokers = time.monotonic(), stage.requests_to_zookeeper(), stage.requests_to_brokers()
        spent_s = stage.controllers[0].processor_s()
        await asyncio.sleep(WAIT_S)
        hours = (time.monotonic() - began) / 3600
        return {
            "zookeeper_per_hour": (stage.requests_to_zookeeper() - of_zookeeper) / hours,
            "brokers_per_hour": (stage.requests_to_brokers() - of_brokers) / hours,
            "processor_share": (stage.controllers[0].processor_s() - spent_s) / (hours * 3600),
        }


async def work(checkout: Path, tree: SpreadTree, few: int) -> dict[str, float]:
    """Of one process without network (broker_work.py), by the interpreter of that checkout."""
    python, many, partitions = checkout / ".venv" / "bin" / "python", len(tree.brokers), tree.topics * tree.partitions
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    command = [str(python), str(WORK), str(partitions), str(few), str(many)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    out, _ = await process.communicate()
    assert process.returncode == 0, f"{command} ended with {process.returncode}"
    found: dict[str, float] = json.loads(out)
    each_s = (found[f"first_update_{many}_s"] - found[f"first_update_{few}_s"]) / (many - few)
    return {**found, "first_update_each_further_broker_s": each_s}


def spread(partitions: int, brokers: int) -> SpreadTree:
    return SpreadTree(topics=partitions // 10, partitions=10, brokers=tuple(range(1, brokers + 1)))


Cell = Callable[[Path, Path], Coroutine[Any, Any, dict[str, float]]]


def measure(builds: dict[str, Path], chosen: argparse.Namespace) -> list[Measured]:
    large, small = spread(chosen.partitions, chosen.many), spread(WAITING_PARTITIONS, chosen.many)
    cells: list[tuple[str, SpreadTree, Cell]] = [
        ("work", large, lambda checkout, _: work(checkout, large, chosen.few)),
        *(("takeover", tree, partial(take_over, tree)) for tree in (spread(chosen.partitions, chosen.few), large)),
        ("waiting", small, partial(wait, small)),
    ]
    found = []
    for cell, tree, act in cells:
        if cell not in chosen.cells:
            continue
        for build, checkout in builds.items():
            with tempfile.TemporaryDirectory() as directory:
                figures = asyncio.run(act(checkout, Path(directory) / "lab"))
            rounded = {name: round(value, 4) for name, value in figures.items()}
            measured = Measured(build, cell, len(tree.brokers), tree.topics * tree.partitions, rounded)
            print(msgspec.json.encode(measured).decode(), file=sys.stderr, flush=True)
            found.append(measured)
    return found


def table(found: list[Measured]) -> str:
    """One row for each figure; the ratio is that of now by base."""
    lines = ["| cell | figure | base | now | ratio |", "| --- " * 5 + "|"]
    rows = {(each.cell, each.brokers, each.partitions): dict[str, dict[str, float]]() for each in found}
    for each in found:
        rows[each.cell, each.brokers, each.partitions][each.build] = each.figures
    for (cell, brokers, partitions), builds in rows.items():
        for name, value in builds[NOW].items():
            before = builds.get(BASE, {}).get(name)
            ratio = "" if not before else f"{value / before:.3f}"
            what = f"{cell}, {brokers} brokers, {partitions:,} partitions"
            lines.append(f"| {what} | {name} | {'' if before is None else f'{before:,.2f}'} | {value:,.2f} | {ratio} |")
    takeovers = sorted({each.brokers for each in found if each.cell == "takeover"})
    if len(takeovers) == 2:
        few, many = takeovers
        spent = {(each.build, each.brokers): each.figures["processor_s"] for each in found if each.cell == "takeover"}
        each_s = {b: (spent[b, many] - spent[b, few]) / (many - few) for b in (BASE, NOW) if (b, many) in spent}
        was = f"{each_s[BASE]:.3f}" if BASE in each_s else ""
        ratio = f"{each_s[NOW] / each_s[BASE]:.3f}" if BASE in each_s else ""
        lines.append(f"| takeover | processor_s of each further broker | {was} | {each_s[NOW]:.3f} | {ratio} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", type=Path, help="another checkout, with its .venv")
    cells = ("work", "takeover", "waiting")
    parser.add_argument("--cells", nargs="+", choices=cells, default=cells)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--few", type=int, default=10)
    parser.add_argument("--many", type=int, default=30)
    chosen = parser.parse_args()
    builds = {} if chosen.base is None else {BASE: chosen.base.resolve()}
    builds[NOW] = Path(__file__).resolve().parents[2]
    print(table(measure(builds, chosen)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
