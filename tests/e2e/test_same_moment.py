"""Two requests at the same moment, over sockets: what a real controller of ours says, and what stock says one by one.

The orders of which `tests.interleavings` accepts one are those of our own core; here a stock controller says that they
are right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest

from migrator.lab.ours import OurController
from migrator.lab.servers.controller import ControllerSpec, StockController, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.tools import random_cluster_id
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import AllocateProducerIdsRequest
from migrator.wire.messages.partitions import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    ElectLeadersRequest,
    ElectLeadersTopic,
    IsrBroker,
)
from migrator.wire.schema import Message
from tests.e2e.test_admin_differences import EXTRA, Asked, image, without_words
from tests.support import admin_cases as cases
from tests.support.admin_cases import Ask, beat, in_sync, placed, topics

pytestmark = pytest.mark.lab

TOPICS, PARTITIONS = 40, 50
"""One partition for each of 2,000 trials; many enough that an election is decided apart."""


def specs_of(laboratory: Laboratory, cluster_id: str, count: int) -> list[ControllerSpec]:
    both = quorum_specs(laboratory, count=count, zookeeper_connect="", migrating=False, extra=EXTRA)
    return [replace(each, voters=f"{each.node_id}@{HOST}:{each.port}") for each in both]


# --- 2,000 times ---------------------------------------------------------------------------------------------


def shrunk(side: Asked, topic: str, partition: int, *members: int, epoch: int) -> Message:
    isr = tuple(IsrBroker(each, side.known.epochs[each]) for each in members)
    change = AlterPartitionPartition(partition, 0, (), isr, 0, epoch)
    return AlterPartitionRequest(2, side.known.epochs[2], (AlterPartitionTopic("", side.known.ids[topic], (change,)),))


async def led_by_the_second(side: Asked) -> None:
    """Every partition has replicas 1, 2, 3, is led by 2, and has all three in sync."""
    await side.ask(beat(1, fence=True)(side.known))
    for number in range(TOPICS):
        made = placed(f"t{number}", *[(1, 2, 3)] * PARTITIONS)
        answer = await side.ask(topics(made))
        assert answer.topics[0].error_code == 0, answer
        side.note(answer)
    assert not (await side.ask(beat(1)(side.known))).is_fenced
    isr = tuple(IsrBroker(each, side.known.epochs[each]) for each in (1, 2, 3))
    grow = tuple(AlterPartitionPartition(number, 0, (), isr, 0, 0) for number in range(PARTITIONS))
    for number in range(TOPICS):
        topic = AlterPartitionTopic("", side.known.ids[f"t{number}"], grow)
        answer = await side.ask(AlterPartitionRequest(2, side.known.epochs[2], (topic,)))
        assert {each.error_code for each in answer.topics[0].partitions} == {0}


async def both_at_once(side: Asked, other: Asked, topic: str, partition: int) -> tuple[int, int]:
    """What the election of replica 1 and its leaving the in-sync set are answered."""
    elect = ElectLeadersRequest(0, (ElectLeadersTopic(topic, (partition,)),), cases.TIMEOUT_MS)
    elected, left = await asyncio.gather(side.ask(elect), other.ask(shrunk(side, topic, partition, 2, 3, epoch=1)))
    (result,) = elected.replica_election_results[0].partition_result
    return result.error_code, left.topics[0].partitions[0].error_code


def test_a_replica_that_leaves_the_isr_is_elected_in_none_of_2000_trials(laboratory: Laboratory) -> None:
    """Both were answered 0 in 156 of 200: a replica out of sync led, and acknowledged records were lost."""
    cluster_id = random_cluster_id()
    (spec,) = specs_of(laboratory, cluster_id, 1)
    ours = OurController(laboratory, spec, cluster_id)
    ours.start()

    async def run() -> list[tuple[int, int]]:
        side, other = (Asked(name, spec.node_id, spec.port, cluster_id) for name in ("one", "another"))
        try:
            await side.join()
            await led_by_the_second(side)
            return [
                await both_at_once(side, other, f"t{topic}", partition)
                for topic, partition in product(range(TOPICS), range(PARTITIONS))
            ]
        finally:
            side.connection.close()
            other.connection.close()

    answers = asyncio.run(run())
    ours.stop()
    both = sum(answer == (0, 0) for answer in answers)
    print(f"{len(answers)} trials: {both} with both answered 0; {sum(not first for first, _ in answers)} elected first")
    facts = image(laboratory, Asked("log", spec.node_id, spec.port, cluster_id), ours.metadata_log)
    out_of_sync = [key for key, value in facts.items() if key[0] == "partition" and value["leader"] not in value["isr"]]
    assert not both
    assert not out_of_sync
    expected = {
        (Error.NONE, Error.FENCED_LEADER_EPOCH),
        (Error.PREFERRED_LEADER_NOT_AVAILABLE, Error.NONE),
    }
    assert set(answers) <= expected


# --- stock says what a serial order is -----------------------------------------------------------------------


def to_topic(request: Callable[[str], Message]) -> Callable[[str], Ask]:
    return lambda topic: lambda _: request(topic)


def elect(kind: int) -> Callable[[str], Ask]:
    return to_topic(lambda topic: ElectLeadersRequest(kind, (ElectLeadersTopic(topic, (0,)),), cases.TIMEOUT_MS))


STEPS: Final[dict[str, Callable[[str], Ask]]] = {
    "elect preferred": elect(0),
    "elect unclean": elect(1),
    "1 leaves": lambda topic: in_sync(topic, 0, 2, (2, 3), epoch=1),
    "all but the leader leave": lambda topic: in_sync(topic, 0, 2, (2,), epoch=1),
    "the same again": lambda topic: in_sync(topic, 0, 2, (1, 2, 3), epoch=1),
    "create": to_topic(lambda topic: topics(placed(topic, (1, 2)))),
    "delete": to_topic(cases.deleted),
    "grow": to_topic(lambda topic: cases.grown(topic, 2, (1, 2, 3))),
    "grow more": to_topic(lambda topic: cases.grown(topic, 3, (1, 2, 3), (3, 2, 1))),
    "move": to_topic(lambda topic: cases.moved(topic, 0, (4, 2, 3))),
    "take back": to_topic(lambda topic: cases.moved(topic, 0, None)),
    "fence 1": lambda topic: beat(1, fence=True),
    "fence 2": lambda topic: beat(2, fence=True),
    "configure": to_topic(lambda topic: cases.altered(cases.TOPIC, topic, ("retention.ms", cases.SET, "7"))),
    "quota": to_topic(lambda topic: cases.quota(("user", topic))),
    "producer ids": lambda topic: lambda side: AllocateProducerIdsRequest(3, side.epochs[3]),
}
"""By name: a request about a topic whose partition 0 has replicas 1, 2, 3, is led by 2, and has all in sync."""

TAKEN: Final = 10
"""Blocks of producer ids, so that none begins with the id of a controller, which the comparison leaves out."""
FILLER: Final = 600
"""Partitions that make ours decide apart what looks at all of them."""


async def prepared(side: Asked, topic: str) -> None:
    for broker in (1, 2):
        assert not (await side.ask(beat(broker)(side.known))).is_fenced
    await side.ask(beat(1, fence=True)(side.known))
    side.note(await side.ask(topics(placed(topic, (1, 2, 3)))))
    await side.ask(beat(1)(side.known))
    grown = await side.ask(in_sync(topic, 0, 2, (1, 2, 3), epoch=0)(side.known))
    assert grown.topics[0].partitions[0].error_code == 0, (side.name, topic, grown)


async def in_row(side: Asked, topic: str, *steps: str) -> list[Any]:
    await prepared(side, topic)
    found = []
    for step in steps:
        answer = await side.ask(STEPS[step](topic)(side.known))
        side.note(answer)
        found.append(without_words(side.plain(answer)))
    return found


def test_stock_answers_each_serial_order_as_ours_does_and_both_logs_say_the_same(laboratory: Laboratory) -> None:
    cluster_id = random_cluster_id()
    of_ours, of_stock = specs_of(laboratory, cluster_id, 2)
    ours, stock = OurController(laboratory, of_ours, cluster_id), StockController(laboratory, of_stock, cluster_id)
    stock.start()
    ours.start()
    stock.wait_ready()
    sides = [
        Asked(name, each.node_id, each.port, cluster_id) for name, each in (("ours", of_ours), ("stock", of_stock))
    ]
    pairs = list(product(STEPS, STEPS))

    async def of(side: Asked) -> list[list[Any]]:
        await side.join()
        side.note(await side.ask(topics(placed("filler", *[(4,)] * FILLER))))
        for _ in range(TAKEN):
            await side.ask(STEPS["producer ids"]("")(side.known))
        return [await in_row(side, f"t{number}", *pair) for number, pair in enumerate(pairs)]

    async def run() -> list[list[list[Any]]]:
        try:
            return list(await asyncio.gather(*map(of, sides)))
        finally:
            for side in sides:
                side.connection.close()

    mine, theirs = asyncio.run(run())
    ours.stop()
    stock.stop()
    different = [(pair, own, other) for pair, own, other in zip(pairs, mine, theirs, strict=True) if own != other]
    own, other = (
        image(laboratory, side, directory)
        for side, directory in zip(sides, (ours.metadata_log, stock.metadata_log), strict=True)
    )
    keys = sorted((key for key in own.keys() | other.keys() if own.get(key) != other.get(key)), key=str)
    print(f"{len(pairs)} ordered pairs, {len(different)} answered differently, {len(keys)} facts differ")
    for what in different:
        print(*what, sep="\n    ")
    for key in keys:
        print(f"  {key}\n    ours  {own.get(key)}\n    stock {other.get(key)}")
    assert not different
    assert not keys
