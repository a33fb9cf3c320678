"""Ask each broker what it has (replicas on its disks, topics that it knows with their ids), how it is set, and what
it lets this controller do.

In:   the brokers to ask, on the inter-broker listener.
Out:  one `Survey` (driver.guard), its settings or what it denies per broker that answered, and the reason for each that
      did not.
Elsewhere: what the answers are compared with (driver.guard, driver.checks.settings).
Source: DescribeLogDirs version 4, Metadata version 12, DescribeConfigs version 4, DescribeCluster version 0,
CreateTopics version 7. Replicas that will replace others (`future`) are logs as well; stray and deleted directories are
not listed by a broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

from migrator.driver.checks.settings import HIDDEN
from migrator.driver.guard import Survey, TopicsShared, logs_by_topic
from migrator.findings.finding import words_of
from migrator.model.broker_settings import ASKED, listener_principals
from migrator.model.topic_configs import ConfigSource
from migrator.model.values import Broker, ConfigType
from migrator.node.on_thread import on_thread
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.wire.messages.brokers import DescribeClusterRequest, DescribeClusterResponse
from migrator.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from migrator.wire.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

Answer = TypeVar("Answer")
ASK_TIMEOUT_S = 10.0
TOPIC_AUTHORIZATION_FAILED = 29
TOPICS_ASKED_AGAIN = 20
CLUSTER_OPERATIONS = {"Describe": 8, "ClusterAction": 9, "DescribeConfigs": 10}
"""What a controller needs at a broker, by the codes of Kafka's `AclOperation`: bits of the answer."""
BROKERS_AT_ONCE = 16


async def survey_brokers(
    brokers: Iterable[Broker],
    listener: str,
    client_id: str,
    security: ClientSecurity = PLAINTEXT,
    shared: TopicsShared | None = None,
) -> tuple[dict[int, Survey], dict[int, str]]:
    """Surveys by broker id, and by broker id why there is none. shared: with surveys of before, when there are any."""
    ask = partial(_survey, TopicsShared() if shared is None else shared)
    return await ask_all(ask, brokers, listener, client_id, security)


async def ask_settings(
    brokers: Iterable[Broker], listener: str, client_id: str, security: ClientSecurity = PLAINTEXT
) -> tuple[dict[int, dict[str, str]], dict[int, str]]:
    """What somebody set of `model.broker_settings.ASKED`, by broker id, and by broker id why nothing is known."""
    return await ask_all(_settings, brokers, listener, client_id, security)


async def ask_denied(
    brokers: Iterable[Broker], listener: str, client_id: str, security: ClientSecurity = PLAINTEXT
) -> tuple[dict[int, tuple[str, ...]], dict[int, str]]:
    """Which of `CLUSTER_OPERATIONS` each broker denies this principal, and by broker id why that is not known."""
    return await ask_all(_denied, brokers, listener, client_id, security)


async def ask_forwarding(
    brokers: Iterable[Broker], listener: str, client_id: str, security: ClientSecurity = PLAINTEXT
) -> tuple[dict[int, bool], dict[int, str]]:
    """Whether a request that each broker forwards to the controller is answered, and why that is not known.

    A broker that is the controller itself answers without forwarding.
    """
    return await ask_all(_forwards, brokers, listener, client_id, security)


async def ask_all(
    ask: Callable[[Broker, BrokerConnection], Awaitable[Answer]],
    brokers: Iterable[Broker],
    listener: str,
    client_id: str,
    security: ClientSecurity,
) -> tuple[dict[int, Answer], dict[int, str]]:
    limit = asyncio.Semaphore(BROKERS_AT_ONCE)
    answers: dict[int, Answer] = {}
    failed: dict[int, str] = {}

    async def one(broker: Broker) -> None:
        async with limit:
            try:
                answers[broker.id] = await _ask_one(ask, broker, listener, client_id, security)
            except Exception as error:
                failed[broker.id] = reason_of(error)

    await asyncio.gather(*(one(broker) for broker in brokers))
    return answers, failed


def reason_of(error: Exception) -> str:
    """The reason in words: what was said, and the kind of error only where nothing else names it."""
    if isinstance(error, TimeoutError):
        return f"no answer within {ASK_TIMEOUT_S:.0f} s"
    return words_of(error)


async def _ask_one(
    ask: Callable[[Broker, BrokerConnection], Awaitable[Answer]],
    broker: Broker,
    listener: str,
    client_id: str,
    security: ClientSecurity,
) -> Answer:
    endpoint = broker.listener(listener)
    if endpoint is None:
        raise OSError(f"it has no listener {listener}")
    connection = BrokerConnection(endpoint.host, endpoint.port, client_id, security)
    try:
        return await ask(broker, connection)
    finally:
        connection.close()


async def _settings(broker: Broker, connection: BrokerConnection) -> dict[str, str]:
    """Without defaults; a secret that is set is `HIDDEN`, as brokers do not show it."""
    own = (listener_principals(each.name) for each in broker.listeners)
    whom = DescribeConfigsResource(ConfigType.BROKER, str(broker.id), (*ASKED, *own))
    request = DescribeConfigsRequest(resources=(whom,))
    (result,) = (await connection.ask(request, 4, DescribeConfigsResponse, ASK_TIMEOUT_S)).results
    if result.error_code:
        raise OSError(f"DescribeConfigs answered error {result.error_code} ({result.error_message})")
    given = (each for each in result.configs if each.config_source != ConfigSource.DEFAULT)
    return {each.name: HIDDEN if each.is_sensitive else each.value or "" for each in given}


async def _denied(broker: Broker, connection: BrokerConnection) -> tuple[str, ...]:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = await connection.ask(request, 0, DescribeClusterResponse, ASK_TIMEOUT_S)
    if answer.error_code:
        raise OSError(f"DescribeCluster answered error {answer.error_code} ({answer.error_message})")
    allowed = answer.cluster_authorized_operations
    return tuple(name for name, code in CLUSTER_OPERATIONS.items() if not allowed >> code & 1)


async def _forwards(broker: Broker, connection: BrokerConnection) -> bool:
    """By a CreateTopics that names no topic and would only validate; whatever the answer is, it came."""
    request = CreateTopicsRequest(timeout_ms=int(ASK_TIMEOUT_S * 1000), validate_only=True)
    await connection.open()
    try:
        await connection.ask(request, 7, CreateTopicsResponse, ASK_TIMEOUT_S)
    except TimeoutError:
        return False
    return True


async def _survey(shared: TopicsShared, broker: Broker, connection: BrokerConnection) -> Survey:
    directories = await connection.ask(DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse, ASK_TIMEOUT_S)
    metadata = await connection.ask(
        MetadataRequest(topics=None, allow_auto_topic_creation=False), 12, MetadataResponse, ASK_TIMEOUT_S
    )
    if directories.error_code or any(each.error_code for each in directories.results):
        codes = [directories.error_code, *(each.error_code for each in directories.results)]
        raise OSError(f"DescribeLogDirs answered errors {codes}")
    found = await on_thread(_updated, broker.id, directories, metadata, shared)
    await _refuse_hidden_topics(connection, sorted(found.logs.keys() - found.topics.keys()))
    return found


async def _refuse_hidden_topics(connection: BrokerConnection, names: list[str]) -> None:
    """A topic that has logs and no id is one that the broker does not know, or one that it does not show."""
    if not names:
        return
    topics = tuple(MetadataRequestTopic(name=name) for name in names[:TOPICS_ASKED_AGAIN])
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    answer = await connection.ask(request, 12, MetadataResponse, ASK_TIMEOUT_S)
    hidden = [topic.name for topic in answer.topics if topic.error_code == TOPIC_AUTHORIZATION_FAILED]
    if hidden:
        raise OSError(f"it denies Describe on {len(hidden)} topics or more, the first is {hidden[0]}")


def _updated(
    broker: int, directories: DescribeLogDirsResponse, metadata: MetadataResponse, shared: TopicsShared
) -> Survey:
    """On a thread."""
    logs = logs_by_topic(
        (topic.name, [partition.partition_index for partition in topic.partitions])
        for directory in directories.results
        for topic in directory.topics
    )
    return Survey(broker, logs, shared.same({each.name: each.topic_id for each in metadata.topics if each.name}))
