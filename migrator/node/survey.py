"""Ask each broker what it has: the replicas on its disks, and the topics it knows with their ids.

In:   the brokers to ask, on the inter-broker listener.
Out:  one `Survey` (driver.guard) per broker that answered, and the reason for each that did not.
Elsewhere: what the answers are compared with (driver.guard).
Source: DescribeLogDirs version 4, Metadata version 12. Replicas that will replace others (`future`) are logs as well;
stray and deleted directories are not listed by a broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from migrator.driver.guard import Survey
from migrator.model.values import Broker
from migrator.node.broker_client import BrokerConnection
from migrator.node.client_security import PLAINTEXT, ClientSecurity
from migrator.wire.messages.configs import DescribeLogDirsRequest, DescribeLogDirsResponse
from migrator.wire.messages.topics import MetadataRequest, MetadataResponse

ASK_TIMEOUT_S = 10.0
BROKERS_AT_ONCE = 16


async def survey_brokers(
    brokers: Iterable[Broker], listener: str, client_id: str, security: ClientSecurity = PLAINTEXT
) -> tuple[dict[int, Survey], dict[int, str]]:
    """Surveys by broker id, and by broker id why there is none."""
    limit = asyncio.Semaphore(BROKERS_AT_ONCE)

    async def one(broker: Broker) -> tuple[int, Survey | str]:
        async with limit:
            try:
                return broker.id, await _survey(broker, listener, client_id, security)
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                return broker.id, f"{type(error).__name__}: {error}"

    found = await asyncio.gather(*(one(broker) for broker in brokers))
    surveys = {broker: each for broker, each in found if isinstance(each, Survey)}
    failed = {broker: each for broker, each in found if isinstance(each, str)}
    return surveys, failed


async def _survey(broker: Broker, listener: str, client_id: str, security: ClientSecurity) -> Survey:
    endpoint = broker.listener(listener)
    if endpoint is None:
        raise OSError(f"it has no listener {listener}")
    connection = BrokerConnection(endpoint.host, endpoint.port, client_id, security)
    try:
        directories = await connection.ask(
            DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse, ASK_TIMEOUT_S
        )
        metadata = await connection.ask(
            MetadataRequest(topics=None, allow_auto_topic_creation=False), 12, MetadataResponse, ASK_TIMEOUT_S
        )
    finally:
        connection.close()
    if directories.error_code or any(each.error_code for each in directories.results):
        codes = [directories.error_code, *(each.error_code for each in directories.results)]
        raise OSError(f"DescribeLogDirs answered errors {codes}")
    logs = frozenset(
        (topic.name, partition.partition_index)
        for directory in directories.results
        for topic in directory.topics
        for partition in topic.partitions
    )
    topics = {topic.name: topic.topic_id for topic in metadata.topics if topic.name}
    return Survey(broker.id, logs, topics)
