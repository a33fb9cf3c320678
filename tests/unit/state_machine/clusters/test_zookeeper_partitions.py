"""Before the takeover, partitions are counted in ZooKeeper; a count of before a restart never speaks for after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import msgspec

from state_machine.clusters.log_observer import LogBroker, LogObservation
from state_machine.clusters.zookeeper_partitions import TreeFigures, ZooKeeperFigures, ZooKeeperPartitions
from tests.support.fake_zookeeper import FakeEnsemble

LOG = LogObservation(problem="", brokers=(LogBroker(0, "first", "ZooKeeper", fenced=False),))
LIVE = (0, 1, 2)


class FakeReader:
    def __init__(self) -> None:
        self.figures = ZooKeeperFigures(partitions=12, under_replicated=3)
        self.trouble: Exception | None = None
        self.reads = 0

    def read(self, min_isr: Mapping[int, int]) -> ZooKeeperFigures:
        self.reads += 1
        if self.trouble is not None:
            raise self.trouble
        return self.figures

    def close(self) -> None:
        return None


async def looks(source: ZooKeeperPartitions, log: LogObservation, live: tuple[int, ...], now: float) -> LogObservation:
    """Two looks, and the reading between them has come to its end."""
    source.joined(log, live, now)
    if source._pending is not None:
        await asyncio.wait({source._pending})
    return source.joined(log, live, now + 0.5)


def test_a_count_stands_in_the_observation_until_a_broker_comes_or_goes() -> None:
    async def story() -> None:
        reader = FakeReader()
        source = ZooKeeperPartitions("zk:2181", reader)
        found = await looks(source, LOG, LIVE, 10.0)
        assert (found.problem, found.partitions, found.under_replicated) == ("", 12, 3)
        restarted = msgspec.structs.replace(LOG, brokers=(LogBroker(0, "second", "ZooKeeper", fenced=False),))
        reader.figures = ZooKeeperFigures(partitions=12)  # before the look, which begins the next reading at once
        assert "read anew" in source.joined(restarted, LIVE, 11.0).problem
        found = await looks(source, restarted, LIVE, 12.0)
        assert (found.problem, found.under_replicated) == ("", 0)
        assert "read anew" in source.joined(restarted, (0, 1), 13.0).problem
        await source.close()

    asyncio.run(story())


def test_what_cannot_be_read_or_is_old_is_not_known() -> None:
    async def story() -> None:
        reader = FakeReader()
        reader.trouble = OSError("connection refused")
        source = ZooKeeperPartitions("zk:2181", reader)
        source._steady = lambda: 0.0
        assert "connection refused" in (await looks(source, LOG, LIVE, 10.0)).problem
        assert source.joined(LogObservation(problem="nobody leads"), LIVE, 11.0).problem == "nobody leads"
        reader.trouble = None
        source._next_at = 0.0
        assert (await looks(source, LOG, LIVE, 12.0)).problem == ""
        assert "last read 100 s ago" in source.joined(LOG, LIVE, 112.0).problem
        reads = reader.reads
        for _ in range(20):
            source.joined(LOG, LIVE, 112.0)
        assert reader.reads == reads, "it rests between two readings"
        await source.close()

    asyncio.run(story())


def test_the_broker_that_leads_all_under_replicated_partitions_is_told() -> None:
    ensemble = FakeEnsemble()
    topic = {"version": 3, "topic_id": "AAAAAAAAAAAAAAAAAAAAAg", "partitions": {"0": [0, 1], "1": [1, 2], "2": [2, 0]}}
    ensemble.create("/brokers/topics/orders", json.dumps(topic).encode())

    def state(number: int, leader: int, isr: list[int]) -> None:
        said = {"version": 1, "leader": leader, "isr": isr, "leader_epoch": 1, "controller_epoch": 1}
        ensemble.create(f"/brokers/topics/orders/partitions/{number}/state", json.dumps(said).encode())

    state(0, 1, [1, 0])
    state(1, 2, [2])
    state(2, 2, [2])
    figures = TreeFigures("zk:2181")
    figures._session = ensemble.session()
    found = figures.read({})
    assert (found.partitions, found.under_replicated, found.under_replicated_leader) == (3, 2, 2)
