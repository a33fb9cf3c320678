"""Ask each broker what it has applied: settings of its file, log directories, where logs begin.

In:   the brokers to ask, on the inter-broker listener; topics that ZooKeeper calls tiered.
Out:  `Applied` (driver.checks.restarts) per broker that answered, and the reason for each that did not.
Elsewhere: what the answers are compared with (driver.checks.restarts), other questions to brokers (survey.py).
Source: DescribeConfigs version 4 with synonyms: those of the file are what the process read at its start, as text.
DescribeConfigs of a topic reads ZooKeeper at each call and says nothing of what is applied, so ListOffsets is asked:
version 9 (Kafka 3.9) for the end of remote storage, else 8, which brokers of 3.6 have. Replica id -2: followers answer
for themselves, as each broker applies a configuration for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from migrator.driver.checks.restarts import Applied, LogBegins
from migrator.findings.finding import FindingError
from migrator.model.topic_configs import ConfigSource
from migrator.model.values import Broker, ConfigType
from migrator.node.brokers.survey import ASK_TIMEOUT_S, ask_all
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.wire.errors import Error
from migrator.wire.frames import API_KEYS
from migrator.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from migrator.wire.messages.handshake import ApiVersionsRequest, ApiVersionsResponse
from migrator.wire.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from migrator.zk import paths
from migrator.zk.znodes import BrokerZnode, listeners

ANY_REPLICA: Final = -2
CLIENT: Final = -1
"""Whom only leaders answer."""
EARLIEST, EARLIEST_LOCAL, LATEST_TIERED = -2, -4, -5
LOCAL_SINCE, TIERED_SINCE = 8, 9
LIST_OFFSETS: Final = 2
PARTITIONS_AT_ONCE: Final = 2_000
KAFKA_STORAGE_ERROR: Final = 56
NOT_HERE: Final = frozenset({Error.UNKNOWN_TOPIC_OR_PARTITION, Error.NOT_LEADER_OR_FOLLOWER})
"""Not a replica of this broker any more, or not led by it."""


def registered(brokers: Mapping[int, BrokerZnode]) -> tuple[list[Broker], dict[int, str]]:
    """Brokers as ZooKeeper has them, which no log knows yet; and of which one nobody knows how to reach it."""
    found, unknown = [], {}
    for number, znode in sorted(brokers.items()):
        try:
            found.append(Broker(number, -1, bytes(16), listeners(paths.broker_id(number), znode)))
        except FindingError as error:
            unknown[number] = str(error)
    return found, unknown


async def ask_applied(
    brokers: Iterable[Broker],
    tiered: Collection[str],
    listener: str,
    client_id: str,
    security: ClientSecurity = PLAINTEXT,
) -> tuple[dict[int, Applied], dict[int, str]]:
    """Ask each broker what it has; by broker id the answers, and why there is none.

    tiered: topics that ZooKeeper calls tiered: of these each broker is also asked which partitions a broker leads.
    """

    async def ask(broker: Broker, connection: BrokerConnection) -> Applied:
        return await _applied(broker, connection, tiered)

    return await ask_all(ask, brokers, listener, client_id, security)


async def _applied(broker: Broker, connection: BrokerConnection, tiered: Collection[str]) -> Applied:
    static = await _static(broker, connection)
    answer = await connection.ask(DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse, ASK_TIMEOUT_S)
    errors = [
        answer.error_code,
        *(each.error_code for each in answer.results if each.error_code != KAFKA_STORAGE_ERROR),
    ]
    if any(errors) or not answer.results:
        raise OSError(f"DescribeLogDirs answered errors {errors}")
    replicas = {each.log_dir: sum(len(topic.partitions) for topic in each.topics) for each in answer.results}
    offline = tuple(each.log_dir for each in answer.results if each.error_code)
    found = Applied(static, replicas, offline)
    if not found.has_remote_storage:
        return found
    version = await _version(connection)
    here: dict[str, list[int]] = {}
    for topic in (topic for each in answer.results for topic in each.topics):
        here.setdefault(topic.name, []).extend(
            each.partition_index for each in topic.partitions if not each.is_future_key
        )
    begins = await _begins(connection, here, version)
    leads: set[tuple[str, int]] = set()
    for part in _in_parts({name: numbers for name, numbers in here.items() if name in tiered}):
        leads |= (await _offsets(connection, part, EARLIEST, version, CLIENT)).keys()
    return Applied(static, replicas, offline, begins, frozenset(leads))


async def _static(broker: Broker, connection: BrokerConnection) -> dict[str, str | None]:
    """What stood in its file at its start. A secret, or a key that Kafka has no type for, has no value here."""
    whom = DescribeConfigsResource(ConfigType.BROKER, str(broker.id), None)
    request = DescribeConfigsRequest(resources=(whom,), include_synonyms=True)
    (result,) = (await connection.ask(request, 4, DescribeConfigsResponse, ASK_TIMEOUT_S)).results
    if result.error_code:
        raise OSError(f"DescribeConfigs answered error {result.error_code} ({result.error_message})")
    return {
        synonym.name: None if each.is_sensitive else synonym.value
        for each in result.configs
        for synonym in each.synonyms
        if synonym.source == ConfigSource.STATIC_BROKER and synonym.name == each.name
    }


async def _version(connection: BrokerConnection) -> int:
    """Of ListOffsets, the latest that both know."""
    answer = await connection.ask(ApiVersionsRequest("zk2kraft", "1"), 3, ApiVersionsResponse, ASK_TIMEOUT_S)
    known = next((each.max_version for each in answer.api_keys if each.api_key == LIST_OFFSETS), -1)
    if known < LOCAL_SINCE:
        raise OSError(f"it has ListOffsets up to version {known}, and remote storage is seen from {LOCAL_SINCE} on")
    return min(known, API_KEYS[LIST_OFFSETS].declared.highest)


async def _begins(
    connection: BrokerConnection, topics: Mapping[str, Sequence[int]], version: int
) -> dict[str, dict[int, LogBegins]]:
    """Raises OSError where a replica's offsets are not known."""
    found: dict[str, dict[int, LogBegins]] = {}
    for part in _in_parts(topics):
        earliest = await _offsets(connection, part, EARLIEST, version)
        local = await _offsets(connection, part, EARLIEST_LOCAL, version)
        tiered = await _offsets(connection, part, LATEST_TIERED, version) if version >= TIERED_SINCE else {}
        for (topic, number), offset in earliest.items():
            begins = LogBegins(offset, local.get((topic, number), offset), tiered.get((topic, number), -1))
            found.setdefault(topic, {})[number] = begins
    return found


def _in_parts(topics: Mapping[str, Sequence[int]]) -> Iterator[dict[str, Sequence[int]]]:
    part: dict[str, Sequence[int]] = {}
    size = 0
    for topic, numbers in topics.items():
        for first in range(0, len(numbers), PARTITIONS_AT_ONCE):
            piece = numbers[first : first + PARTITIONS_AT_ONCE]
            if size and (size + len(piece) > PARTITIONS_AT_ONCE or topic in part):
                yield part
                part, size = {}, 0
            part[topic], size = piece, size + len(piece)
    if size:
        yield part


async def _offsets(
    connection: BrokerConnection,
    topics: Mapping[str, Sequence[int]],
    which: int,
    version: int,
    asker: int = ANY_REPLICA,
) -> dict[tuple[str, int], int]:
    request = ListOffsetsRequest(
        replica_id=asker,
        topics=tuple(
            ListOffsetsTopic(
                topic, tuple(ListOffsetsPartition(partition_index=number, timestamp=which) for number in numbers)
            )
            for topic, numbers in topics.items()
        ),
    )
    answer = await connection.ask(request, version, ListOffsetsResponse, ASK_TIMEOUT_S)
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code and each.error_code not in NOT_HERE:
                raise OSError(f"ListOffsets answered error {each.error_code} for {topic.name}-{each.partition_index}")
            if not each.error_code:
                found[topic.name, each.partition_index] = each.offset
    return found


def ask_now(
    brokers: Iterable[Broker],
    tiered: Collection[str],
    listener: str,
    client_id: str,
    security: ClientSecurity = PLAINTEXT,
) -> tuple[dict[int, Applied], dict[int, str]]:
    """Does what `ask_applied` does, on a thread that has no loop."""
    return asyncio.run(ask_applied(brokers, tiered, listener, client_id, security))
