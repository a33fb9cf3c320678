"""What each broker says that it has; a broker that does not say it is named with the reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from migrator.driver.checks.settings import HIDDEN
from migrator.driver.guard import Survey, TopicsShared
from migrator.model.values import Broker, Listener
from migrator.node.brokers import survey as surveying
from migrator.node.brokers.survey import BROKERS_AT_ONCE, ask_denied, ask_forwarding, ask_settings, survey_brokers
from migrator.wire.messages.brokers import DescribeClusterResponse
from migrator.wire.messages.configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from migrator.wire.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.support.builders import a_broker, an_id


def a_directory(*logs: tuple[str, int], error: int = 0) -> DescribeLogDirsResult:
    topics = tuple(
        DescribeLogDirsTopic(name=topic, partitions=(DescribeLogDirsPartition(partition_index=partition),))
        for topic, partition in logs
    )
    return DescribeLogDirsResult(error_code=error, topics=topics)


TOPICS = MetadataResponse(
    topics=(
        MetadataResponseTopic(name="orders", topic_id=an_id("orders")),
        MetadataResponseTopic(name="old", topic_id=bytes(16)),
    )
)
LOGS = DescribeLogDirsResponse(results=(a_directory(("orders", 0), ("orders", 1)), a_directory(("old", 0))))


class Brokers:
    """Answers by port; an exception is raised instead of an answer."""

    def __init__(self) -> None:
        self.by_port: dict[int, Any] = {}
        self.asked: list[tuple[int, Any, int]] = []
        self.open = self.open_max = 0
        self.by_name = MetadataResponse()

    def __call__(self, host: str, port: int, client_id: str, security: object) -> Connection:
        self.open += 1
        self.open_max = max(self.open_max, self.open)
        return Connection(self, port)


class Connection:
    def __init__(self, brokers: Brokers, port: int) -> None:
        self.brokers = brokers
        self.port = port

    async def open(self) -> None:
        if isinstance(self.brokers.by_port.get(self.port), ConnectionError):
            raise self.brokers.by_port[self.port]

    async def ask(self, request: Any, version: int, answer: Any, timeout_s: float) -> Any:
        await asyncio.sleep(0)
        self.brokers.asked.append((self.port, type(request), version))
        found = self.brokers.by_port.get(self.port, LOGS)
        if isinstance(found, BaseException):
            raise found
        if isinstance(request, MetadataRequest):
            return TOPICS if request.topics is None else self.brokers.by_name
        return found

    def close(self) -> None:
        self.brokers.open -= 1


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers()
    monkeypatch.setattr(surveying, "BrokerConnection", brokers)
    return brokers


def survey(*brokers: Broker) -> tuple[dict[int, Survey], dict[int, str]]:
    return asyncio.run(survey_brokers(brokers, "PLAINTEXT", "a test"))


def test_every_log_in_every_directory_and_every_topic_with_its_id_is_told(network: Brokers) -> None:
    surveys, failed = survey(a_broker(1), a_broker(2))
    assert failed == {}
    logs = {"orders": frozenset({0, 1}), "old": frozenset({0})}
    topics = {"orders": an_id("orders"), "old": bytes(16)}
    assert surveys == {broker: Survey(broker, logs, topics) for broker in (1, 2)}
    assert set(network.asked) == {
        (port, kind, version)
        for port in (9091, 9092)
        for kind, version in ((DescribeLogDirsRequest, 4), (MetadataRequest, 12))
    }
    assert network.open == 0


def test_topics_that_several_brokers_know_alike_are_in_memory_once(network: Brokers) -> None:
    """100,000 topics and 200 brokers would be 4 GB; a broker that knows others keeps its own."""
    shared = TopicsShared()
    surveys, _ = asyncio.run(
        survey_brokers((a_broker(1), a_broker(2), a_broker(3)), "PLAINTEXT", "a test", shared=shared)
    )
    again, _ = asyncio.run(survey_brokers((a_broker(4),), "PLAINTEXT", "a test", shared=shared))
    assert len({id(each.topics) for each in (*surveys.values(), *again.values())}) == 1
    other = {"orders": an_id("another")}
    assert shared.same(other) == other


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ConnectionRefusedError("nobody there"), "nobody there"),
        (TimeoutError(), "no answer within 10 s"),
        (asyncio.IncompleteReadError(b"", 4), "the connection was closed"),
        (DescribeLogDirsResponse(error_code=31), "errors [31]"),
        (DescribeLogDirsResponse(results=(a_directory(), a_directory(error=56))), "errors [0, 0, 56]"),
    ],
)
def test_a_broker_that_does_not_say_what_it_has_is_named_and_the_others_count(
    network: Brokers, answer: Any, reason: str
) -> None:
    """A directory that is offline may hold logs (F-52): it is not an empty one."""
    network.by_port[9092] = answer
    surveys, failed = survey(a_broker(1), a_broker(2), a_broker(3))
    assert sorted(surveys) == [1, 3]
    assert list(failed) == [2]
    assert reason in failed[2]
    assert network.open == 0


def a_setting(name: str, value: str | None, source: int = 4, *, secret: bool = False) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(name=name, value=value, config_source=source, is_sensitive=secret)


def test_brokers_tell_what_was_set_and_of_a_secret_that_it_was(network: Brokers) -> None:
    network.by_port[9091] = DescribeConfigsResponse(
        results=(
            DescribeConfigsResult(
                configs=(
                    a_setting("zookeeper.connect", "zk:2181/kafka"),
                    a_setting("zookeeper.set.acl", "false", source=5),
                    a_setting("delegation.token.secret.key", None, secret=True),
                    a_setting("delegation.token.master.key", None, source=5, secret=True),
                    a_setting("control.plane.listener.name", None),
                )
            ),
        )
    )
    network.by_port[9092] = DescribeConfigsResponse(results=(DescribeConfigsResult(error_code=31),))
    network.by_port[9093] = TimeoutError()
    settings, failed = asyncio.run(ask_settings(map(a_broker, (1, 2, 3)), "PLAINTEXT", "a test"))
    assert settings == {
        1: {
            "zookeeper.connect": "zk:2181/kafka",
            "delegation.token.secret.key": HIDDEN,
            "control.plane.listener.name": "",
        }
    }
    assert sorted(failed) == [2, 3]
    assert "error 31" in failed[2]
    assert network.open == 0


def test_a_broker_without_the_listener_is_named(network: Brokers) -> None:
    surveys, failed = survey(a_broker(1, listeners=(Listener("EXTERNAL", "h", 1),)))
    assert (surveys, failed) == ({}, {1: "it has no listener PLAINTEXT"})
    assert network.asked == []


def test_not_more_brokers_than_allowed_are_asked_at_once(network: Brokers) -> None:
    surveys, _ = survey(*map(a_broker, range(1, 2 * BROKERS_AT_ONCE)))
    assert len(surveys) == 2 * BROKERS_AT_ONCE - 1
    assert network.open_max == BROKERS_AT_ONCE


# --- what it is not allowed -------------------------------------------------------------------------------


def test_a_topic_that_a_broker_does_not_show_is_not_one_without_id(network: Brokers) -> None:
    """B11 (c): "the broker knows no topic id", with the advice to restart it, was a missing Describe."""
    network.by_port[9091] = DescribeLogDirsResponse(results=(a_directory(("hidden", 0)),))
    network.by_name = MetadataResponse(topics=(MetadataResponseTopic(error_code=29, name="hidden"),))
    surveys, failed = survey(a_broker(1))
    assert (surveys, failed) == ({}, {1: "it denies Describe on 1 topics or more, the first is hidden"})

    network.by_name = MetadataResponse(topics=(MetadataResponseTopic(error_code=3, name="hidden"),))
    surveys, failed = survey(a_broker(1))
    assert (list(surveys), failed) == ([1], {})


@pytest.mark.parametrize(
    ("allowed", "denied"),
    [
        (2**31 - 1, ()),
        (1 << 8 | 1 << 9 | 1 << 10, ()),
        (1 << 8 | 1 << 10, ("ClusterAction",)),
        (1 << 9, ("Describe", "DescribeConfigs")),
        (0, ("Describe", "ClusterAction", "DescribeConfigs")),
    ],
)
def test_what_a_broker_denies_is_told_by_name(network: Brokers, allowed: int, denied: tuple[str, ...]) -> None:
    network.by_port[9091] = DescribeClusterResponse(cluster_authorized_operations=allowed)
    network.by_port[9092] = DescribeClusterResponse(error_code=31)
    found, failed = asyncio.run(ask_denied(map(a_broker, (1, 2)), "PLAINTEXT", "a test"))
    assert found == {1: denied}
    assert failed == {2: "DescribeCluster answered error 31 (None)"}


def test_a_broker_that_is_reached_and_does_not_answer_forwards_nothing(network: Brokers) -> None:
    for broker, found in enumerate((CreateTopicsResponse(), TimeoutError(), ConnectionRefusedError("refused"))):
        network.by_port[a_broker(broker).listeners[0].port] = found
    brokers = [a_broker(broker) for broker in range(3)]
    answered, unknown = asyncio.run(ask_forwarding(brokers, "PLAINTEXT", "3000"))
    assert answered == {0: True, 1: False}
    assert unknown == {2: "refused"}, "one that is away was not asked"
    assert {(kind, version) for _, kind, version in network.asked} == {(CreateTopicsRequest, 7)}
    assert network.open == 0
