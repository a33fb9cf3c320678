"""What a controller answers beside topics' values, compared with a stock controller: the same requests to both."""

from __future__ import annotations

import asyncio
import struct
from typing import Any, Final, TypeVar

import pytest

from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.messages.configs import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ClientQuotaOp,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from migrator.wire.schema import Message
from tests.e2e.two_answers import Side, compared

pytestmark = pytest.mark.lab

M = TypeVar("M", bound=Message)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SETTLES_S: Final = 120.0
OWN: Final = "(its own id)"
ALTERED: Final = [
    *((CLIENT_METRICS, "m", "interval.ms", value) for value in ("100", "99", "3600001", " 100", "x", "", "+100")),
    *(
        (CLIENT_METRICS, "m", "match", value)
        for value in ("client_id=a", "client_id", "", ",", "x=a", "client_id=a=b=")
    ),
    *((CLIENT_METRICS, "m", "match", value) for value in ("client_id=[", " client_id = a , client_source_port=9")),
    (CLIENT_METRICS, "m", "metrics", "*"),
    (CLIENT_METRICS, "m", "other", "x"),
    (CLIENT_METRICS, "", "metrics", "*"),
    (GROUP, "g", "consumer.session.timeout.ms", "1"),
    (99, "x", "y", "z"),
    (BROKER, OWN, "log.retention.ms", "1000"),
    (BROKER, "7", "log.retention.ms", "1000"),
    (BROKER, "x", "log.retention.ms", "1000"),
    (BROKER, "", "log.segment.bytes", "2000000"),
    (TOPIC, "..", "retention.ms", "1"),
    (TOPIC, "", "retention.ms", "1"),
    (TOPIC, "nothing", "retention.ms", "1"),
    (TOPIC, "orders", "cleanup.policy", " compact , delete "),
    (TOPIC, "orders", "min.cleanable.dirty.ratio", ".25"),
]
DESCRIBED: Final = [(TOPIC, "orders"), (TOPIC, "nothing"), (TOPIC, ".."), (BROKER, ""), (BROKER, "7"), (BROKER, "x"),
                    (CLIENT_METRICS, "m"), (CLIENT_METRICS, "")]  # fmt: skip
NOT_SERVED: Final = (0, 2, 3, 4, 5, 6, 8, 35, 65)


async def alter(side: Side, type_: int, name: str, key: str, value: str) -> int:
    resource = IncrementalAlterConfigsResource(
        type_, str(side.node_id) if name == OWN else name, (IncrementalAlterableConfig(key, 0, value),)
    )
    request = IncrementalAlterConfigsRequest((resource,), False)
    answer = await side.connection.ask(request, 1, IncrementalAlterConfigsResponse)
    return answer.responses[0].error_code


async def describe(side: Side, type_: int, name: str) -> tuple[int, dict[str, tuple[Any, ...]]]:
    """The error, and of each key its value, type, and whether it is a secret."""
    request = DescribeConfigsRequest((DescribeConfigsResource(type_, name, None),), True, False)
    (result,) = (await side.connection.ask(request, 4, DescribeConfigsResponse)).results
    entries = {each.name: (each.value, each.config_type, each.is_sensitive) for each in result.configs}
    return result.error_code, entries


async def settled(side: Side, *marks: str) -> None:
    """Until all that was asked is known everywhere. Stock tells its publishers one after the other, on a thread of
    their own: when it describes the second of two changes, all of them have heard of what was before the first.
    """
    for mark in marks:
        assert await alter(side, TOPIC, "orders", "delete.retention.ms", mark) == 0
        async with asyncio.timeout(SETTLES_S):
            while (await describe(side, TOPIC, "orders"))[1].get("delete.retention.ms", ("",))[0] != mark:
                await asyncio.sleep(0.1)


async def is_closed(side: Side, key: int) -> bool:
    reader, writer = await asyncio.open_connection(HOST, side.port)
    try:
        writer.write(struct.pack(">ihhih", 10, key, 0, 7, -1))
        async with asyncio.timeout(SETTLES_S):
            return await reader.read() == b""
    finally:
        writer.close()


async def asked_anew(side: Side, request: Message, version: int, response: type[M]) -> M:
    """Over a connection of its own: stock does not listen to a throttled one for a while."""
    connection = BrokerConnection(HOST, side.port, "a test")
    try:
        return await connection.ask(request, version, response)
    finally:
        connection.close()


async def throttled(side: Side) -> list[tuple[int, bool]]:
    """What a burst too many leads to: codes, and whether the asker is told to wait."""
    everybody = (ClientQuotaEntity("user", None),)
    entry = AlterClientQuotasEntry(everybody, (ClientQuotaOp("controller_mutation_rate", 0.1, False),))
    await side.connection.ask(AlterClientQuotasRequest((entry,)), 1, AlterClientQuotasResponse)
    await settled(side, "3", "4")
    found = []
    for version, name in ((7, "q1"), (7, "q2"), (5, "q3"), (6, "q4")):
        request = CreateTopicsRequest((CreatableTopic(name, 3, 1),), 30_000)
        answer = await asked_anew(side, request, version, CreateTopicsResponse)
        found.append((answer.topics[0].error_code, answer.throttle_time_ms > 0))
    grow = CreatePartitionsRequest((CreatePartitionsTopic("q1", 5, None),), 30_000)
    for version in (2, 3):
        grown = await asked_anew(side, grow, version, CreatePartitionsResponse)
        found.append((grown.results[0].error_code, grown.throttle_time_ms > 0))
    for version in (4, 5, 6):
        topics = (DeleteTopicState("q1"),) if version == 6 else ()
        request_ = DeleteTopicsRequest(topics, () if topics else ("q1",), 30_000)
        deleted = await asked_anew(side, request_, version, DeleteTopicsResponse)
        found.append((deleted.responses[0].error_code, deleted.throttle_time_ms > 0))
    return found


async def differences(ours: Side, stock: Side) -> tuple[int, list[str]]:
    count, found = 0, []
    for side in (ours, stock):
        assert await side.create([("orders", ())], trial=False) == [0]

    def note(what: str, mine: object, theirs: object) -> None:
        nonlocal count
        count += 1
        if mine != theirs:
            found.append(f"{what}: ours {mine}, stock {theirs}")

    for asked in ALTERED:
        note(f"alter {asked}", await alter(ours, *asked), await alter(stock, *asked))
    for side in (ours, stock):
        await settled(side, "1", "2")
    for type_, name in DESCRIBED:
        (code, mine), (theirs_code, theirs) = await describe(ours, type_, name), await describe(stock, type_, name)
        note(f"describe {type_} {name}", code, theirs_code)
        for key in sorted(mine.keys() | theirs.keys()):
            if type_ != TOPIC or key in mine:  # stock lists its whole file there too
                note(f"describe {type_} {name} {key}", mine.get(key), theirs.get(key))
    for number in NOT_SERVED:
        note(f"request {number} closes the connection", await is_closed(ours, number), await is_closed(stock, number))
    for number, (a, b) in enumerate(zip(await throttled(ours), await throttled(stock), strict=True)):
        note(f"throttled {number}", a, b)
    return count, found


def test_a_controller_answers_as_stock(laboratory: Laboratory) -> None:
    count, found = compared(laboratory, {}, differences)
    print(f"{count} answers compared, {len(found)} differences")
    assert not found, "\n".join(found)
    assert count > 80
