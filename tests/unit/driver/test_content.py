"""What a tree may not hold: each offence alone is named once, with its exact place; all together, each is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from migrator.driver.checks.content import refuse_topic_name
from migrator.driver.gate import content_findings
from migrator.findings.catalogue import CATALOGUE
from migrator.findings.finding import Severity
from migrator.model.broker_configs import refuse_broker_config
from migrator.node.zookeeper.tree_reader import read_guards, read_tree
from migrator.zk import paths
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.offences import OFFENCES, TREE, Offence, a_registration, place_of, plant, t
from tests.support.seeded_tree import config_json, state_json, topic_json


def a_zookeeper(*offences: Offence) -> FakeEnsemble:
    ensemble = FakeEnsemble()
    TREE.plant(ensemble)
    plant(ensemble, offences)
    return ensemble


def found_in(ensemble: FakeEnsemble) -> Counter[tuple[str, str]]:
    session = ensemble.session()
    tree = read_tree(session)
    read_guards(session, tree)
    return Counter((each.code, place_of(each)) for each in content_findings(tree))


def test_a_tree_as_kafka_writes_it_holds_nothing_against_a_migration() -> None:
    assert found_in(a_zookeeper()) == {}


@pytest.mark.parametrize("offence", OFFENCES, ids=str)
def test_one_offence_alone_is_named_once_with_its_place(offence: Offence) -> None:
    assert found_in(a_zookeeper(offence)) == {(offence.code, offence.place): 1}


def test_all_offences_at_once_are_all_named_and_nothing_else_is() -> None:
    assert found_in(a_zookeeper(*OFFENCES)) == Counter((each.code, each.place) for each in OFFENCES)


def test_what_blocks_comes_before_every_warning() -> None:
    severities = [each.finding.severity for each in content_findings(read_tree(a_zookeeper(*OFFENCES).session()))]
    assert severities == sorted(severities, key=lambda each: each is not Severity.BLOCKS)
    assert set(severities) == set(Severity)


def test_a_znode_that_only_somebody_else_may_write_is_named_before_the_window() -> None:
    """F-18: most of a protected tree can be read by everybody."""
    ensemble = a_zookeeper()
    ensemble.guards = dict.fromkeys((paths.CONTROLLER_EPOCH, paths.topic(t(0)), "/elsewhere"), "sasl:kafka may ALL")
    assert found_in(ensemble) == {("Z2K-1045", paths.CONTROLLER_EPOCH): 1, ("Z2K-1045", paths.topic(t(0))): 1}
    assert CATALOGUE["Z2K-1045"].severity is Severity.BLOCKS


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("orders", True),
        ("a.b_c-9", True),
        ("x" * 249, True),
        ("__consumer_offsets", True),
        ("x" * 250, False),
        (".", False),
        ("..", False),
        ("two words", False),
        ("späti", False),
        ("__cluster_metadata", False),
    ],
)
def test_a_topic_has_a_name_that_kafka_allows(name: str, fits: bool) -> None:
    assert (refuse_topic_name(name) is None) == fits


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("a.b", "a_b"), {"a.b": ["a_b"]}),
        (("a.b.c", "a_b_c", "a_b.c", "x"), {"a.b.c": ["a_b.c", "a_b_c"]}),  # one set of names, one finding
        (("a.b_c", "a_b.c"), {"a.b_c": ["a_b.c"]}),
        (("a.b", "a_b", "b.a", "b_a"), {"a.b": ["a_b"], "b.a": ["b_a"]}),
        (("a.b", "a-b", "ab", "A_b", "a..b", "__offsets"), {}),
    ],
)
def test_topics_whose_names_differ_only_in_dot_and_underscore_are_named_together(
    names: tuple[str, ...], found: dict[str, list[str]]
) -> None:
    """Kafka's metrics cannot tell them apart; a topic that was deleted could not be created again."""
    ensemble = a_zookeeper()
    for name in names:
        ensemble.create(paths.topic(name), topic_json(name, range(1)))
        ensemble.create(paths.state(name, 0), state_json())
    occurrences = content_findings(read_tree(ensemble.session()))
    assert {each.code for each in occurrences} == ({"Z2K-1038"} if found else set())
    assert all(each.finding.severity is Severity.WARNS for each in occurrences)
    assert [each.values for each in occurrences] == [
        {"path": paths.topic(name), "others": others} for name, others in found.items()
    ]
    assert all(", ".join(found[each.values["path"].rpartition("/")[2]]) in each.text for each in occurrences)


@pytest.mark.parametrize(
    ("replicas", "reason"),
    [([], "on no broker"), ([1, 1], "a broker twice"), ([-1, 2], "not negative")],
)
def test_an_assignment_is_a_set_of_brokers(replicas: list[int], reason: str) -> None:
    ensemble = a_zookeeper()
    ensemble.create(paths.topic(t(0)), topic_json(t(0), range(2), tuple(replicas)))
    found = [each for each in content_findings(read_tree(ensemble.session())) if each.code == "Z2K-1035"]
    assert [each.values["path"] for each in found] == [paths.topic(t(0))] * 2
    assert reason in found[0].text


TEN_DAYS_LOCAL = {"remote.storage.enable": "true", "local.retention.ms": "864000000"}


@pytest.mark.parametrize(
    ("values", "code", "says"),
    [
        ({"retention.ms": "-2"}, "Z2K-1030", "at least -1"),
        ({"cleanup.policy": "compact,shrink"}, "Z2K-1030", "one of: compact, delete"),
        ({"min.insync.replicas": "0"}, "Z2K-1030", "at least 1"),
        ({"unclean.leader.election.enable": "perhaps"}, "Z2K-1030", "true or false"),
        ({"vendor.a": "1", "vendor.b": "2"}, "Z2K-1031", "vendor.a, vendor.b"),
        ({"cleanup.policy": "compact,delete", "retention.ms": "-1", "max.message.bytes": "1"}, None, ""),
        ({"leader.replication.throttled.replicas": "*", "compression.type": "zstd"}, None, ""),
        ({**TEN_DAYS_LOCAL, "retention.ms": "1000"}, "Z2K-1030", "local.retention.ms (864000000)"),
        (TEN_DAYS_LOCAL, None, ""),  # brokers' files may have more than Kafka's week: R-405-05
    ],
)
def test_the_configuration_of_a_topic_is_judged_as_kafka_judges_it(
    values: dict[str, str], code: str | None, says: str
) -> None:
    """F-39: what is copied unseen is refused at the next change."""
    ensemble = a_zookeeper()
    ensemble.create(paths.topic_config(t(0)), config_json(values))
    found = content_findings(read_tree(ensemble.session()))
    assert [each.code for each in found] == ([] if code is None else [code])
    assert says in "".join(each.text for each in found)


@pytest.mark.parametrize(
    ("value", "replicas", "found"),
    [
        ("2", {0: (1,), 1: (2, 3), 2: (3,)}, {"minimum": 2, "count": 2, "first": "orders-0"}),
        (" 4 ", {0: (1, 2, 3, 4), 1: (1, 2, 3)}, {"minimum": 4, "count": 1, "first": "orders-1"}),
        ("2147483647", {0: (1, 2, 3)}, {"minimum": 2_147_483_647, "count": 1, "first": "orders-0"}),
        ("3", {0: (1, 2, 3)}, None),
        ("1", {0: (1,)}, None),
        (None, {0: (1,)}, None),
    ],
)
def test_a_topic_that_demands_more_replicas_in_sync_than_a_partition_has_is_named_once(
    value: str | None, replicas: dict[int, tuple[int, ...]], found: dict[str, Any] | None
) -> None:
    ensemble = a_zookeeper()
    assignment = {str(each): list(brokers) for each, brokers in replicas.items()}
    topic = {**json.loads(topic_json("orders", range(1))), "partitions": assignment}
    ensemble.create(paths.topic("orders"), json.dumps(topic).encode())
    for each, brokers in replicas.items():
        ensemble.create(paths.state("orders", each), state_json(brokers, leader=brokers[0]))
    if value is not None:
        ensemble.create(paths.topic_config("orders"), config_json({"min.insync.replicas": value}))
    occurrences = [each for each in content_findings(read_tree(ensemble.session())) if each.code == "Z2K-1015"]
    expected = [] if found is None else [{"path": paths.topic_config("orders"), **found}]
    assert [each.values for each in occurrences] == expected
    assert CATALOGUE["Z2K-1015"].severity is Severity.WARNS


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "offsets"])
@pytest.mark.parametrize(
    ("config", "fits"),
    [
        (None, False),
        ({}, False),
        ({"cleanup.policy": "delete"}, False),
        ({"compression.type": "producer"}, False),
        ({"cleanup.policy": "compact"}, True),
        ({"cleanup.policy": " delete, compact "}, True),
    ],
)
def test_a_topic_of_kafkas_own_that_is_not_compacted_blocks(
    topic: str, config: dict[str, str] | None, fits: bool
) -> None:
    ensemble = a_zookeeper()
    ensemble.create(paths.topic(topic), topic_json(topic, range(1)))
    ensemble.create(paths.state(topic, 0), state_json())
    if config is not None:
        ensemble.create(paths.topic_config(topic), config_json(config))
    found = [each.values for each in content_findings(read_tree(ensemble.session())) if each.code == "Z2K-1017"]
    expected = {"path": paths.topic_config(topic), "topic": topic}
    assert found == ([] if fits or topic == "offsets" else [expected])
    assert CATALOGUE["Z2K-1017"].severity is Severity.BLOCKS


@pytest.mark.parametrize(
    ("value", "replicas", "code"), [("many", (1,), "Z2K-1030"), ("0", (1,), "Z2K-1030"), ("2", (), "Z2K-1035")]
)
def test_a_minimum_or_an_assignment_that_is_wrong_itself_is_not_compared(
    value: str, replicas: tuple[int, ...], code: str
) -> None:
    ensemble = a_zookeeper()
    ensemble.create(paths.topic(t(0)), topic_json(t(0), range(2), replicas))
    ensemble.create(paths.topic_config(t(0)), config_json({"min.insync.replicas": value}))
    codes = {each.code for each in content_findings(read_tree(ensemble.session()))}
    assert code in codes
    assert "Z2K-1015" not in codes


RACKS = {1: "a", 2: "a", 3: "b", 4: None, 5: ""}
"""By registered broker. Broker 6 is not registered."""


def found_of_racks(
    replicas: Mapping[int, list[int]],
    racks: Mapping[int, str | None] = RACKS,
    adding: Mapping[str, list[int]] | None = None,
    removing: Mapping[str, list[int]] | None = None,
) -> list[Mapping[str, Any]]:
    """What Z2K-1016 says of a topic `orders` beside those of `TREE`, which are on brokers 1, 2 and 3."""
    ensemble = a_zookeeper()
    for broker, rack in racks.items():
        ensemble.create(paths.broker_id(broker), a_registration(broker, rack=rack))
    topic = json.loads(topic_json("orders", [], adding=adding, removing=removing))
    topic["partitions"] = {str(each): brokers for each, brokers in replicas.items()}
    ensemble.create(paths.topic("orders"), json.dumps(topic).encode())
    for each, brokers in replicas.items():
        ensemble.create(paths.state("orders", each), state_json(tuple(brokers), leader=next(iter(brokers), -1)))
    return [each.values for each in content_findings(read_tree(ensemble.session())) if each.code == "Z2K-1016"]


def in_one_rack(count: int, first: int, rack: str = "a") -> list[Mapping[str, Any]]:
    return [{"path": paths.topic("orders"), "count": count, "first": f"orders-{first}", "rack": rack}]


@pytest.mark.parametrize(
    ("replicas", "found"),
    [
        ({0: [1, 3], 1: [1, 2], 2: [2, 1]}, in_one_rack(count=2, first=1)),
        ({0: [1, 3], 1: [3, 2], 2: [3, 2, 1]}, []),
        ({0: [1], 1: [2], 2: [3]}, []),  # one replica is always in one rack
        ({0: [1, 2, 4], 1: [1, 4], 2: [4, 5], 3: [1, 5]}, []),  # a broker without a rack may be anywhere
        ({0: [1, 2, 6], 1: [1, 6]}, []),  # and one that is not registered
        ({0: [1, 1], 1: []}, []),  # no assignment at all: Z2K-1035
    ],
)
def test_a_topic_with_all_replicas_of_a_partition_in_one_rack_is_named_once(
    replicas: dict[int, list[int]], found: list[Mapping[str, Any]]
) -> None:
    assert found_of_racks(replicas) == found
    assert CATALOGUE["Z2K-1016"].severity is Severity.WARNS


@pytest.mark.parametrize(
    ("racks", "found"),
    [
        ({1: "a", 2: "a", 3: "a"}, []),
        ({1: "a", 2: "a", 3: None}, []),
        ({1: "a", 2: "a", 3: ""}, []),
        ({1: None, 2: None, 3: None}, []),
        ({1: "a", 2: "a", 3: None, 4: "b"}, in_one_rack(count=1, first=0)),
        ({1: "b", 2: "b", 3: "a"}, in_one_rack(count=1, first=0, rack="b")),
    ],
)
def test_one_rack_is_named_only_where_registered_brokers_are_in_another(
    racks: dict[int, str | None], found: list[Mapping[str, Any]]
) -> None:
    assert found_of_racks({0: [1, 2]}, racks) == found


@pytest.mark.parametrize(
    ("replicas", "adding", "removing", "found"),
    [
        ([3, 1, 2], [3], [2], []),  # into a second rack
        ([1, 2, 3], [2], [3], in_one_rack(count=1, first=0)),  # out of it
        ([2, 1], [2], [1], []),  # one replica moves
        ([1, 2], [2], [], in_one_rack(count=1, first=0)),  # a second replica comes
        ([1, 2], [], [2], []),  # and goes
        ([1, 2], [], [1, 2], []),  # no controller could end this: Z2K-1080
    ],
)
def test_while_a_partition_is_reassigned_the_replicas_that_stay_count(
    replicas: list[int], adding: list[int], removing: list[int], found: list[Mapping[str, Any]]
) -> None:
    assert found_of_racks({0: replicas}, RACKS, {"0": adding}, {"0": removing}) == found


def test_each_topic_in_one_rack_is_named() -> None:
    """Where every broker of `TREE` is in one rack, and the others in another."""
    ensemble = a_zookeeper()
    for broker in range(1, 5):
        ensemble.create(paths.broker_id(broker), a_registration(broker, rack="b" if broker == 4 else "a"))
    found = content_findings(read_tree(ensemble.session()))
    assert [(each.code, each.values["path"], each.values["count"]) for each in found] == [
        ("Z2K-1016", paths.topic(t(number)), TREE.partitions) for number in range(TREE.topics)
    ]
    assert f"{t(0)}-0 in rack a" in found[0].text


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("log.retention.ms", "-1", True),
        ("log.retention.ms", "week", False),
        ("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", True),
        ("max.connections", "-1", False),
        ("listener.name.external.max.connections", "x", False),
        ("listener.name.external.max.connections", "7", True),
        ("leader.replication.throttled.rate", "10485760", True),
        ("num.io.threads", "0", False),
        ("a.setting.of.a.plugin", "whatever", True),
    ],
)
def test_a_brokers_dynamic_value_is_of_its_type(name: str, value: str, fits: bool) -> None:
    assert (refuse_broker_config(name, value) is None) == fits


@pytest.mark.parametrize("key", ["advertised.listeners", "listeners", "listener.security.protocol.map"])
def test_listeners_of_dynamic_configuration_block(key: str) -> None:
    """F-58."""
    ensemble = a_zookeeper()
    ensemble.create("/config/brokers/3", config_json({key: "x"}))
    (found,) = content_findings(read_tree(ensemble.session()))
    assert (found.code, found.values) == ("Z2K-1033", {"path": "/config/brokers/3", "key": key})
    assert found.finding.severity is Severity.BLOCKS


@pytest.mark.parametrize(("epoch", "state_epoch", "behind"), [(1, 1, False), (7, 3, False), (3, 7, True)])
def test_an_epoch_that_was_set_back_is_seen_by_the_states(epoch: int, state_epoch: int, behind: bool) -> None:
    """F-40."""
    ensemble = a_zookeeper()
    ensemble.create(paths.CONTROLLER_EPOCH, str(epoch).encode())
    for number in range(TREE.topics):
        for partition in range(TREE.partitions):
            state = state_json().replace(b'"controller_epoch":1', f'"controller_epoch":{state_epoch}'.encode())
            ensemble.create(paths.state(t(number), partition), state)
    found = content_findings(read_tree(ensemble.session()))
    wanted: list[Mapping[str, Any]] = [
        {"path": paths.CONTROLLER_EPOCH, "epoch": epoch, "topic": paths.topic(t(0)), "highest": state_epoch}
    ]
    assert [each.values for each in found] == (wanted if behind else [])
