"""A tree in ZooKeeper, a broker that stands in for a real one, and controllers of one kind that take them over.

In:   a tree, how many controllers, a directory.
Out:  `running`: everything started; `Running` says when the claim, the commit and the full send were.
Elsewhere: what is measured (copy.py, dual_write.py), the broker (stand_in_broker.py).
Both kinds see the same: a ZooKeeper of their own, the same broker, their default settings, an fsync on commit.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import dropwhile
from pathlib import Path
from typing import Final

from migrator.driver.update_requests import LEADER_AND_ISR
from migrator.lab.classes import prepared
from migrator.lab.ours import OurController
from migrator.lab.servers.controller import DUAL_WRITE, ControllerSpec, StockController, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.zk import paths
from migrator.zk.session import ZkSession
from tests.benchmarks.systems import KAFKA_FLAGS
from tests.support.kraft_load import Address
from tests.support.seeded_tree import SeededTree
from tests.support.stand_in_broker import ReceivedRequest, StandInBroker, until

OURS: Final = "ours"
STOCK: Final = "stock"
BROKER: Final = 1
CLUSTER_ID: Final = "AAAAAAAAQAqAAAAAAAAAAA"
HEAP_MB: Final = 1024
HEAP_PER_100K_MB: Final = 400
DEADLINE_S: Final = 1800.0
LOOK_S: Final = 0.01
STOCK_COPIED: Final = re.compile(r"\[([\d-]+ [\d:,]+)\] INFO .*Completed migration of metadata from ZooKeeper to KRaft")
OF_OURS: Final = {"zk2kraft.takeover.max.ms": 60_000}
"""The longest that it takes: a window that is over its limit ends by itself, and here it is measured."""


class Quiet(StockController):
    """Stock with the collector of Kafka's start scripts, which logs of the migration only."""

    def jvm_options(self) -> tuple[str, ...]:
        return KAFKA_FLAGS

    def log_levels(self) -> Mapping[str, str]:
        return {"kafka": "WARN", "org.apache.kafka": "WARN", "org.apache.kafka.metadata.migration": "INFO"}


class System:
    """A controller that can be started, and what it says about itself."""

    def __init__(self, name: str, laboratory: Laboratory, spec: ControllerSpec) -> None:
        self.name = name
        self.spec = spec
        self._controller = (Quiet if name == STOCK else OurController)(laboratory, spec, CLUSTER_ID)

    def start(self) -> None:
        if isinstance(self._controller, OurController):
            self._controller.launch()
        else:
            self._controller.format()
            self._controller.start()

    def log(self) -> str:
        return self._controller.process.log.read_text(errors="replace")

    @property
    def address(self) -> Address:
        return HOST, self.spec.port

    def kill(self) -> None:
        self._controller.kill()

    @property
    def is_running(self) -> bool:
        return self._controller.is_running

    def in_dual_write(self) -> bool:
        """As it says itself: ours by its status, stock in its log."""
        if isinstance(self._controller, OurController):
            try:
                return self._controller.state() == DUAL_WRITE
            except (OSError, ValueError):
                return False
        return self._controller.driver_state() == DUAL_WRITE

    def committed_at(self) -> float:
        """When the copy was committed, as its log says; wall clock."""
        if isinstance(self._controller, OurController):
            events = self._controller.events()
            at = next(each["timestamp"] for each in events if each.get("to") == "SYNCING")
            return datetime.fromisoformat(at).timestamp()
        found = STOCK_COPIED.search(self.log())
        assert found is not None, "stock did not say that it copied"
        return datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC).timestamp()

    def peak_mb(self) -> int:
        status = Path(f"/proc/{self._controller.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) // 1024


@dataclass
class Running:
    """in_service: when the controller had unfenced the broker; wall clock, as all moments here."""

    systems: list[System]
    broker: StandInBroker
    session: ZkSession
    in_service: float

    async def claimed(self, above: int = -1) -> float:
        """When `/controller` first named a KRaft controller of a higher epoch."""

        async def look() -> bool:
            return (await self.claim())[1] > above

        return await until(look, "the claim", DEADLINE_S)

    async def claim(self) -> tuple[int, int]:
        """Who holds `/controller`, and its KRaft epoch; -1 and -1: nobody."""
        znode = await asyncio.to_thread(self.session.get, paths.CONTROLLER)
        found = {} if znode is None else json.loads(znode.data or b"{}")
        return found.get("brokerid", -1), found.get("kraftControllerEpoch", -1)

    async def told(self) -> float:
        """When the broker had answered the last of a full send: the full UpdateMetadata after the LeaderAndIsr."""

        async def look() -> bool:
            return self._last_of_full_send() is not None

        await until(look, "the full send", DEADLINE_S, LOOK_S)
        last = self._last_of_full_send()
        assert last is not None
        return last.answered

    def _last_of_full_send(self) -> ReceivedRequest | None:
        after = dropwhile(lambda each: each.api_key != LEADER_AND_ISR, self.broker.told)
        return next((each for each in after if each.is_full_metadata), None)

    async def in_dual_write(self) -> System:
        """Wait until one of the controllers is; returns it."""
        found: list[System] = []

        async def look() -> bool:
            found[:] = [each for each in self.systems if each.is_running and each.in_dual_write()]
            return bool(found)

        await until(look, "dual-write", DEADLINE_S, LOOK_S)
        return found[0]

    def updated_partitions(self) -> int:
        """How many partitions the full UpdateMetadata names."""
        full = self._last_of_full_send()
        assert full is not None
        return sum(len(topic.partition_states) for topic in full.body().topic_states)


@asynccontextmanager
async def running(name: str, tree: SeededTree, directory: Path, controllers: int = 1) -> AsyncIterator[Running]:
    """From nothing to a broker in service; what comes next, the controllers do by themselves."""
    heap_mb = HEAP_MB + tree.topics * tree.partitions // 100_000 * HEAP_PER_100K_MB
    with Laboratory(directory, prepared(), fast_start=False) as laboratory:
        zookeeper = ZooKeeper(laboratory)
        for server in zookeeper.servers:
            server.spec = replace(server.spec, heap_mb=heap_mb)
        zookeeper.start()
        address = f"{HOST}:{zookeeper.servers[0].spec.port}"
        with ZkSession(address) as session:
            await asyncio.to_thread(tree.seed, session)
            extra = OF_OURS if name == OURS else {}
            specs = quorum_specs(laboratory, count=controllers, zookeeper_connect=address, extra=extra)
            systems = [System(name, laboratory, replace(spec, heap_mb=heap_mb)) for spec in specs]
            broker = StandInBroker(BROKER, tree)
            await broker.serve(address)
            joined: asyncio.Task[None] | None = None
            try:
                for each in systems:
                    await asyncio.to_thread(each.start)
                joined = asyncio.create_task(broker.join([each.address for each in systems], CLUSTER_ID))

                async def in_service() -> bool:
                    assert all(each.is_running for each in systems), systems[0].log()[-2000:]
                    return broker.unfenced.is_set()

                await until(in_service, "a broker in service", DEADLINE_S, LOOK_S)
                yield Running(systems, broker, session, time.time())
            finally:
                if joined is not None:
                    joined.cancel()
                broker.close()
