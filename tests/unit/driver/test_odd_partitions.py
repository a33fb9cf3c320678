"""Partitions and topics with which a cluster works today and fails later: a broker in sync that is no replica, and keys
that Kafka 4.0 has dropped. Contents of the field cases isr-beyond-replicas and removed-topic-keys, and their like.
"""

from __future__ import annotations

import pytest

from migrator.driver.checks.waivers import parse_waiver
from migrator.driver.gate import content_findings
from migrator.findings.finding import Severity
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.zk import paths
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree, config_json, state_json, topic_json


def a_zookeeper() -> FakeEnsemble:
    ensemble = FakeEnsemble()
    SeededTree(topics=1).plant(ensemble)
    return ensemble


@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "codes"),
    [
        ((1,), (1, 2), 1, ["Z2K-1081"]),
        ((1,), (2,), 2, ["Z2K-1008", "Z2K-1081"]),
        ((1, 2), (1, 3), 1, ["Z2K-1008", "Z2K-1081"]),
        ((1, 2), (2, 1, 3, 9), 2, ["Z2K-1081"]),
        ((1, 2), (2, 1), 2, []),
        ((1, 2), (2,), 2, ["Z2K-1008"]),
    ],
)
def test_a_broker_in_sync_that_is_no_replica_is_named_and_no_waiver_lifts_it(
    replicas: tuple[int, ...], isr: tuple[int, ...], leader: int, codes: list[str]
) -> None:
    """Waived and taken over on real brokers, one stop of the only replica left ISR [2] and leader -1 for good."""
    ensemble = a_zookeeper()
    ensemble.create(paths.topic("orders"), topic_json("orders", range(1), replicas))
    ensemble.create(paths.state("orders", 0), state_json(isr, leader=leader))
    tree = read_tree(ensemble.session())
    found = content_findings(tree)
    assert sorted(each.code for each in found if each.finding.severity is Severity.BLOCKS) == codes
    waived = content_findings(tree, waived=(parse_waiver("orders-0"),))
    left = [each for each in waived if each.finding.severity is Severity.BLOCKS]
    assert [each.code for each in left] == [code for code in codes if code == "Z2K-1081"]
    for each in left:
        assert each.values["brokers"] == sorted(set(isr) - set(replicas))
        assert "waive" not in each.finding.remedy


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ({"message.format.version": "2.0-IV1"}, "message.format.version"),
        ({"message.timestamp.difference.max.ms": "1000"}, "message.timestamp.difference.max.ms"),
        ({"message.downconversion.enable": "false"}, "message.downconversion.enable"),
        (
            {"message.format.version": "3.0-IV1", "message.downconversion.enable": "true", "retention.ms": "1"},
            "message.downconversion.enable, message.format.version",
        ),
        ({"message.downconversion.enable": "true"}, "message.downconversion.enable"),  # as it would be without the key
        (
            {
                "message.downconversion.enable": "false",
                "message.format.version": "0.10.2",
                "message.timestamp.difference.max.ms": "9223372036854775807",
            },
            "message.downconversion.enable, message.format.version, message.timestamp.difference.max.ms",
        ),
        ({"message.timestamp.after.max.ms": "1", "message.timestamp.type": "CreateTime"}, None),
    ],
)
def test_keys_that_kafka_4_has_dropped_are_named_while_they_can_still_be_deleted(
    values: dict[str, str], keys: str | None
) -> None:
    """On 4.0.0, 4.1.0 and 4.2.0 every change of such a topic was INVALID_CONFIG."""
    ensemble = a_zookeeper()
    ensemble.create(paths.topic("orders"), topic_json("orders", range(1)))
    ensemble.create(paths.state("orders", 0), state_json())
    ensemble.create(paths.topic_config("orders"), config_json(values))
    found = content_findings(read_tree(ensemble.session()))
    assert [(each.code, each.values["keys"]) for each in found] == ([] if keys is None else [("Z2K-1049", keys)])
    assert all(each.finding.severity is Severity.WARNS for each in found)


@pytest.mark.parametrize(
    ("config", "named"),
    [("1048575", True), (" 14 ", True), ("1048576", False), ("many", False)],
)
def test_small_segments_of_a_topic_and_of_brokers_are_named_before_a_later_kafka(config: str, named: bool) -> None:
    """On 4.4.0 a broker with a replica of such a topic ended at its start: tests/e2e/test_drop_in_stock.py."""
    ensemble = a_zookeeper()
    ensemble.create(paths.topic("orders"), topic_json("orders", range(1)))
    ensemble.create(paths.state("orders", 0), state_json())
    ensemble.create(paths.topic_config("orders"), config_json({"segment.bytes": config}))
    ensemble.create(paths.broker_config(""), config_json({"log.segment.bytes": config}))
    found = [each for each in content_findings(read_tree(ensemble.session())) if each.code == "Z2K-1067"]
    assert [(each.values["where"], each.values["key"], each.values["since"]) for each in found] == [
        (paths.topic_config("orders"), "segment.bytes", "4.1"),
        (paths.broker_config(""), "log.segment.bytes", "4.0"),
    ] * named
    assert all(each.finding.severity is Severity.WARNS for each in found)


def test_every_topic_with_a_dropped_key_is_named_whatever_else_is_said_of_it() -> None:
    """A topic of Kafka's own, and one with a key that nobody knows."""
    ensemble = a_zookeeper()
    configs = {
        "__consumer_offsets": {"message.format.version": "3.0-IV1", "cleanup.policy": "compact"},
        "orders.eu-west_1": {"message.timestamp.difference.max.ms": "1000", "confluent.placement": "{}"},
        "orders": {"retention.ms": "1000"},
    }
    for name, values in configs.items():
        ensemble.create(paths.topic(name), topic_json(name, range(1)))
        ensemble.create(paths.state(name, 0), state_json())
        ensemble.create(paths.topic_config(name), config_json(values))
    found = content_findings(read_tree(ensemble.session()))
    dropped = {each.values["path"]: each.values["keys"] for each in found if each.code == "Z2K-1049"}
    assert dropped == {
        "/config/topics/__consumer_offsets": "message.format.version",
        "/config/topics/orders.eu-west_1": "message.timestamp.difference.max.ms",
    }
    assert [each.values["keys"] for each in found if each.code == "Z2K-1031"] == ["confluent.placement"]
