"""Requests to a certain broker: a client that librdkafka never connected is replaced, and whatever a broker answers is
an answer. librdkafka's own stand-in for a cluster has brokers 1 to 3, and knows no request about configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    AdminClient,
    ConfigResource,
    ResourceType,
)

from migrator.findings.finding import FindingError
from migrator.lab.admin import Administered, by_new_clients, connected

Settings = dict[str, str | int | float | bool]
SOON_S = 0.3
"""Waited for where nobody answers. A client that could connect and did not within that is replaced too."""


def a_client_of_a_cluster() -> AdminClient:
    client = AdminClient({"bootstrap.servers": "none", "test.mock.num.brokers": 3, "log_level": 0})
    assert client.list_topics(timeout=60).brokers.keys() == {1, 2, 3}
    return client


def a_client_that_never_connects() -> AdminClient:
    return AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})


def test_a_client_that_never_connected_is_replaced_until_one_does() -> None:
    made: list[AdminClient] = []

    def make() -> AdminClient:
        made.append(a_client_that_never_connects() if len(made) < 2 else a_client_of_a_cluster())
        return made[-1]

    assert connected(make, "2", connects_within_s=SOON_S) is made[-1]
    assert len(made) > 2


def test_a_broker_that_nobody_is_told_of_is_named_at_the_deadline() -> None:
    with pytest.raises(FindingError, match=r"broker 9\b.*(Failed while|Timed out) ") as caught:
        connected(a_client_of_a_cluster, "9", connects_within_s=SOON_S, deadline_s=2 * SOON_S)
    assert caught.value.occurrence.finding.code == "Z2K-6003"


def test_an_election_is_asked_for_by_new_clients_while_no_controller_is_connected() -> None:
    """The stand-in names no controller that it has."""
    soon: Settings = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "socket.timeout.ms": 300}
    nameless = soon | {"bootstrap.servers": "none", "test.mock.num.brokers": 3}
    last = a_client_of_a_cluster()
    made = iter([AdminClient(dict(soon)), AdminClient(dict(nameless)), last])

    def ask(client: AdminClient) -> object:
        if client is last:
            return "elected"
        return client.elect_leaders(ElectionType.PREFERRED, [TopicPartition("orders", 0)]).result()

    assert by_new_clients(lambda: next(made), ask, "an election") == "elected"


@pytest.mark.parametrize(
    ("said", "was_sent"),
    [
        ("Timed out initializing", False),
        ("Failed while initializing: Local: Timed out", False),
        ("Failed while waiting for broker: Local: Timed out", False),
        ("Timed out waiting for controller", False),
        ("Failed while waiting for response from broker: Local: Timed out", True),
    ],
)
def test_only_a_request_that_was_never_sent_is_asked_again(said: str, was_sent: bool) -> None:
    asked: list[AdminClient] = []

    def ask(client: AdminClient) -> str:
        asked.append(client)
        if len(asked) == 1:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, said))
        return "answered"

    if was_sent:
        with pytest.raises(KafkaException, match=said):
            by_new_clients(a_client_that_never_connects, ask, "a change")
        assert len(asked) == 1
    else:
        assert by_new_clients(a_client_that_never_connects, ask, "a change") == "answered"
        assert asked[0] is not asked[1]


def test_a_change_of_a_topic_goes_by_a_new_client_where_one_never_connected() -> None:
    """The stand-in names no controller that it has; a client that has one is pretended."""

    class Connected:
        def incremental_alter_configs(self, resources: list[ConfigResource]) -> dict[ConfigResource, Future[None]]:
            asked.extend(resources)
            done: Future[None] = Future()
            done.set_result(None)
            return dict.fromkeys(resources, done)

    class Cluster(Administered):
        def new_admin(self) -> AdminClient:
            return next(clients)

        def admin(self) -> AdminClient:
            return next(clients)

    asked: list[ConfigResource] = []
    deaf: Settings = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "socket.timeout.ms": 300}
    pretended: Any = Connected()
    clients: Iterator[AdminClient] = iter([AdminClient(deaf), pretended])
    Cluster().alter_configs(ResourceType.TOPIC, "orders", {"retention.ms": "1"})
    assert [each.name for each in asked] == ["orders"]


@pytest.mark.parametrize("name", ["2", "3"])
def test_what_the_broker_answers_to_the_change_is_raised_at_once(name: str) -> None:
    class Cluster(Administered):
        def new_admin(self) -> AdminClient:
            made.append(a_client_of_a_cluster())
            return made[-1]

        def admin(self) -> AdminClient:
            raise AssertionError("a client that lives on does not ask a certain broker")

    made: list[AdminClient] = []
    with pytest.raises(KafkaException) as caught:
        Cluster().alter_configs(ResourceType.BROKER, name, {"log.cleaner.threads": "2", "max.connections": None})
    assert caught.value.args[0].code() == KafkaError._UNSUPPORTED_FEATURE
    assert len(made) == 1
