"""What each broker has applied; a broker that does not say it is named with the reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from migrator.driver.checks.restarts import Applied, LogBegins
from migrator.node.brokers import applied as asking
from migrator.node.brokers import survey as surveying
from migrator.node.brokers.applied import ask_applied, registered
from migrator.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from migrator.wire.messages.handshake import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from migrator.wire.messages.offsets import (
    ListOffsetsPartitionResult,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResult,
)
from migrator.zk.znodes import BrokerZnode
from tests.support.builders import a_broker


def a_setting(name: str, *synonyms: tuple[str, str | None, int], secret: bool = False) -> DescribeConfigsResourceResult:
    values = tuple(DescribeConfigsSynonym(*each) for each in synonyms)
    return DescribeConfigsResourceResult(name=name, value=None, is_sensitive=secret, synonyms=values)


def a_directory(path: str, *logs: tuple[str, int], error: int = 0) -> DescribeLogDirsResult:
    topics = tuple(DescribeLogDirsTopic(topic, (DescribeLogDirsPartition(number),)) for topic, number in logs)
    return DescribeLogDirsResult(error_code=error, log_dir=path, topics=topics)


SYSTEM = a_setting("remote.log.storage.system.enable", ("remote.log.storage.system.enable", "true", 4))


class Broker:
    """One that answers; a test changes what."""

    def __init__(self) -> None:
        self.settings: tuple[DescribeConfigsResourceResult, ...] = (SYSTEM,)
        self.directories: tuple[DescribeLogDirsResult, ...] = (
            a_directory("/a", ("t", 0), ("t", 1)),
            a_directory("/b", ("t", 2), ("other", 0)),
        )
        self.latest = 9
        self.offsets = {-2: 0, -4: 100, -5: 99}
        self.errors: dict[int, int] = {}
        self.asked: list[tuple[str, int]] = []

    def __call__(self, *arguments: object) -> Broker:
        return self

    def close(self) -> None:
        pass

    async def ask(self, request: Any, version: int, answer: Any, timeout_s: float) -> Any:
        self.asked.append((type(request).__name__, version))
        match request:
            case DescribeConfigsRequest():
                assert request.include_synonyms
                return DescribeConfigsResponse(results=(DescribeConfigsResult(configs=self.settings),))
            case DescribeLogDirsRequest():
                return DescribeLogDirsResponse(results=self.directories)
            case ApiVersionsRequest():
                return ApiVersionsResponse(api_keys=(ApiVersion(2, 0, self.latest),))
            case ListOffsetsRequest():
                if request.replica_id == -1:
                    return ListOffsetsResponse(topics=tuple(map(self._led, request.topics)))
                assert request.replica_id == -2, "followers have to answer as well"
                return ListOffsetsResponse(topics=tuple(map(self._of_topic, request.topics)))
        raise AssertionError(request)

    def _led(self, topic: Any) -> ListOffsetsTopicResult:
        """It leads partition 0 only; of the others it is a follower."""
        errors = {each.partition_index: 6 if each.partition_index else 0 for each in topic.partitions}
        return ListOffsetsTopicResult(topic.name, tuple(ListOffsetsPartitionResult(*each) for each in errors.items()))

    def _of_topic(self, topic: Any) -> ListOffsetsTopicResult:
        found = tuple(
            ListOffsetsPartitionResult(
                each.partition_index,
                error_code=self.errors.get(each.partition_index, 0),
                offset=self.offsets[each.timestamp],
            )
            for each in topic.partitions
        )
        return ListOffsetsTopicResult(topic.name, found)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(surveying, "BrokerConnection", made)
    return made


def asked(*tiered: str) -> tuple[dict[int, Applied], dict[int, str]]:
    return asyncio.run(ask_applied([a_broker(1)], tiered, "PLAINTEXT", "a test"))


def test_what_stood_in_the_file_at_the_start_is_told_whatever_is_set_now(broker: Broker) -> None:
    broker.settings = (
        a_setting(
            "num.io.threads", ("num.io.threads", "16", 2), ("num.io.threads", "8", 4), ("num.io.threads", "8", 5)
        ),
        a_setting("log.retention.ms", ("log.retention.hours", "5", 4)),  # another key, which is told by itself
        a_setting("log.retention.hours", ("log.retention.hours", "5", 4)),
        a_setting("ssl.key.password", ("ssl.key.password", None, 4), secret=True),
        a_setting("queued.max.requests", ("queued.max.requests", "500", 5)),
    )
    found, unknown = asked()
    assert unknown == {}
    assert found[1].static == {"num.io.threads": "8", "log.retention.hours": "5", "ssl.key.password": None}
    assert [name for name, _ in broker.asked] == ["DescribeConfigsRequest", "DescribeLogDirsRequest"]


def test_directories_are_told_with_their_replicas_and_those_that_failed(broker: Broker) -> None:
    broker.directories = (*broker.directories, a_directory("/c", error=56))
    found, _ = asked()
    assert (found[1].replicas, found[1].offline) == ({"/a": 2, "/b": 2, "/c": 0}, ("/c",))


def test_a_broker_with_remote_storage_is_asked_where_its_logs_begin_and_which_tiered_ones_it_leads(
    broker: Broker,
) -> None:
    found, _ = asked("t")
    begins = LogBegins(0, 100, 99)
    assert found[1].begins == {"t": dict.fromkeys((0, 1, 2), begins), "other": {0: begins}}
    assert found[1].leads == {("t", 0)}
    assert broker.asked[-4:] == [("ListOffsetsRequest", 9)] * 4


def test_a_broker_before_3_9_is_asked_what_it_knows(broker: Broker) -> None:
    broker.latest = 8
    found, _ = asked()
    assert found[1].begins["t"][0] == LogBegins(0, 100, -1)
    assert broker.asked[-2:] == [("ListOffsetsRequest", 8)] * 2


def test_many_partitions_are_asked_for_in_parts(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "PARTITIONS_AT_ONCE", 2)
    found, _ = asked()
    assert {topic: sorted(logs) for topic, logs in found[1].begins.items()} == {"t": [0, 1, 2], "other": [0]}
    assert len([name for name, _ in broker.asked if name == "ListOffsetsRequest"]) == 6


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"latest": 7}, "it has ListOffsets up to version 7"),
        ({"errors": {1: 29}}, "ListOffsets answered error 29 for t-1"),
        ({"directories": ()}, "DescribeLogDirs answered errors"),
        ({"directories": (a_directory("/a", error=29),)}, "DescribeLogDirs answered errors [0, 29]"),
    ],
)
def test_a_broker_that_does_not_tell_where_its_logs_begin_is_not_known(
    broker: Broker, change: dict[str, Any], reason: str
) -> None:
    for name, value in change.items():
        setattr(broker, name, value)
    found, unknown = asked()
    assert found == {}
    assert reason in unknown[1]


def test_a_replica_that_left_meanwhile_is_nobodys(broker: Broker) -> None:
    broker.errors = {1: 3, 2: 6}
    found, unknown = asked()
    assert unknown == {}
    assert sorted(found[1].begins["t"]) == [0]


def test_a_registration_that_cannot_be_read_is_a_broker_that_is_not_known() -> None:
    znodes = {1: BrokerZnode(5, ["PLAINTEXT://a:9092"]), 2: BrokerZnode(5, ["nonsense"])}
    found, unknown = registered(znodes)
    assert [(each.id, each.listeners[0].host) for each in found] == [(1, "a")]
    assert "endpoint 'nonsense' cannot be read" in unknown[2]
