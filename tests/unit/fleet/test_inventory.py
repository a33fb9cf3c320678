"""An inventory is read strictly, holds no secret, and refuses clusters that somebody else operates."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.fleet.inventory import Inventory, Window, check_inventory, parse_inventory, wanted_of
from migrator.fleet.strict_yaml import dump_yaml
from tests.support.inventories import an_inventory

NOW = datetime(2026, 11, 24, 10, 0, tzinfo=UTC)


def read(document: dict[str, Any]) -> Inventory:
    return parse_inventory(dump_yaml(document).encode(), "prod.yaml")


def codes(document: dict[str, Any]) -> set[str]:
    return {each.code for each in check_inventory(read(document), "prod.yaml", NOW)}


def refused(content: bytes) -> FindingError:
    with pytest.raises(FindingError) as error:
        parse_inventory(content, "prod.yaml")
    return error.value


def test_a_whole_inventory_is_read_and_has_nothing_against_it() -> None:
    inventory = read(an_inventory())
    assert check_inventory(inventory, "prod.yaml", NOW) == ()
    assert [node.id for node in inventory.nodes] == [1, 2, 3, 3000, 3001, 3002]
    wanted = wanted_of(inventory, inventory.brokers[0])
    assert wanted.voters.startswith("3000@c1:9093,")
    assert wanted.node == 1
    assert wanted.controllers == {}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"brokers": [{"id": 1}]}, "brokers[0]"),
        ({"version": 2}, "version"),
        ({"colour": "blue"}, "the document"),
        ({"maintenance_windows": [{"start": "25:00", "end": "01:00"}]}, "maintenance_windows[0].start"),
        ({"waivers": [{"what": "x", "reason": "r", "owner": "o", "end": "2026-12-01T00:00:00"}]}, "waivers[0].end"),
        ({"actuator": {"kind": "telnet"}}, "actuator.kind"),
        ({"timeouts": {"stop": 0}}, "timeouts.stop"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(change: dict[str, Any], where: str) -> None:
    error = refused(dump_yaml({**an_inventory(), **change}).encode())
    assert error.code == "Z2K-7002"
    assert error.occurrence.values["where"] == where


@pytest.mark.parametrize("name", ["-oProxyCommand=sh", "a b", "", "a;b"])
def test_a_host_is_never_an_option_or_a_command(name: str) -> None:
    document = an_inventory()
    document["brokers"][0]["host"] = name
    assert refused(dump_yaml(document).encode()).occurrence.values["where"] == "brokers[0].host"


@pytest.mark.parametrize("content", [b"a: &x [1]\nb: *x\n", b"a: 1\na: 2\n", b"a: [", b"\xff"])
def test_a_file_that_is_no_plain_yaml_is_refused(content: bytes) -> None:
    assert refused(content).code == "Z2K-7001"


@pytest.mark.parametrize(
    "change",
    [
        {"security": {"protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "username": "u", "password": "hunter2"}},
        {"security": {"key_password": "hunter2"}},
    ],
)
def test_a_secret_in_the_inventory_is_refused_and_not_repeated(change: dict[str, Any]) -> None:
    document = an_inventory()
    document["cluster"] |= change
    error = refused(dump_yaml(document).encode())
    assert error.code == "Z2K-7007"
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(
    ("login", "lacks"),
    [
        ({"sasl_mechanism": "PLAIN"}, "sasl_mechanism, username and password"),
        ({"sasl_mechanism": "GSSAPI"}, "principal for GSSAPI"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "oauth_url for OAUTHBEARER"),
        ({"sasl_mechanism": "OAUTHBEARER", "oauth_url": "file:token"}, "oauth_url for OAUTHBEARER"),
        ({"sasl_mechanism": "OAUTHBEARER", "oauth_url": "https://h/t", "username": "u"}, "the client id"),
        ({"sasl_mechanism": "GSSAPI", "principal": "p@R"}, None),
        ({"sasl_mechanism": "OAUTHBEARER", "oauth_url": "file:///run/token"}, None),
        ({"sasl_mechanism": "OAUTHBEARER", "oauth_url": "https://h/t", "username": "u", "password": "systemd:p"}, None),
    ],
)
def test_a_login_that_is_not_whole_is_named(login: dict[str, str], lacks: str | None) -> None:
    document = an_inventory()
    document["cluster"]["security"] = {"protocol": "SASL_SSL", **login}
    found = [
        (each.code, str(each.values["reason"]))
        for each in check_inventory(read(document), "prod.yaml", NOW)
        if each.values.get("where") == "cluster.security"
    ]
    assert [code for code, _ in found] == ([] if lacks is None else ["Z2K-7002"])
    assert all(lacks is not None and lacks in reason for _, reason in found)


def test_a_secret_in_the_settings_of_an_actuator_is_refused() -> None:
    document = {**an_inventory(), "actuator": {"kind": "exec", "template": "t.yaml", "settings": {"password": "x"}}}
    assert refused(dump_yaml(document).encode()).code == "Z2K-7007"


POD = {
    "namespace": "kafka", "name": "kafka", "ordinal": 0, "update_strategy": "OnDelete", "retained_volumes": True,
    "config_source": "configmap/kafka#0",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"labels": {"strimzi.io/cluster": "prod"}}, "Z2K-7003"),
        ({"kind": "StrimziPodSet", "api_version": "core.strimzi.io/v1beta2"}, "Z2K-7003"),
        ({"labels": {"app.kubernetes.io/managed-by": "confluent-operator"}}, "Z2K-7004"),
        ({"kind": "Kafka", "api_version": "platform.confluent.io/v1beta1"}, "Z2K-7004"),
        ({"kind": "KafkaCluster", "api_version": "kafka.banzaicloud.io/v1beta1"}, "Z2K-7005"),
        ({"kind": "Deployment"}, "Z2K-7005"),
        ({"update_strategy": "RollingUpdate"}, "Z2K-7006"),
        ({"retained_volumes": False}, "Z2K-7006"),
        ({}, None),
    ],
)
def test_a_cluster_of_an_operator_is_refused_by_name_with_the_operators_procedure(
    change: dict[str, Any], code: str | None
) -> None:
    document = an_inventory()
    document["brokers"][0]["kubernetes"] = {**POD, **change}
    assert codes(document) == ({code} if code else set())


def test_ordinals_that_share_a_file_are_refused() -> None:
    document = an_inventory()
    for number, node in enumerate(document["brokers"]):
        node["kubernetes"] = {**POD, "ordinal": number}
    assert codes(document) == {"Z2K-7006"}


def test_nodes_of_one_host_share_neither_id_nor_file_nor_directory() -> None:
    document = an_inventory()
    document["controllers"][0] |= {"id": 1, "host": "b1", "properties": "/etc/kafka/server.properties"}
    document["controllers"][0]["log_dirs"] = ["/data/kafka/inside"]
    found = check_inventory(read(document), "prod.yaml", NOW)
    assert {each.values["where"] for each in found} >= {"controllers[0].id", "controllers[0].properties"}
    document["controllers"][0]["id"] = 3000
    found = check_inventory(read(document), "prod.yaml", NOW)
    assert {each.values["where"] for each in found} == {"controllers[0].properties", "controllers[0].log_dirs"}


def test_a_tool_from_outside_needs_recorded_evidence_that_configuration_management_is_frozen() -> None:
    document = {**an_inventory(), "actuator": {"kind": "external", "exchange": "/var/lib/zk2kraft/exchange"}}
    assert codes(document) == {"Z2K-7025"}
    for node in (*document["brokers"], *document["controllers"]):
        node["frozen"] = {"tool": "ansible", "by": "ops", "since": "2026-11-24T08:00:00Z"}
    assert codes(document) == set()


def test_a_waiver_ends_at_its_time_and_its_gate_closes_again() -> None:
    waiver = {"what": "frozen", "node": 1, "reason": "r", "owner": "o", "end": "2026-11-25T00:00:00Z"}
    document = {**an_inventory(), "waivers": [waiver]}
    assert codes(document) == set()
    assert read(document).waiver("frozen", 1, NOW) is not None
    assert read(document).waiver("frozen", 2, NOW) is None
    waiver["end"] = "2026-11-24T09:59:59+00:00"
    assert codes(document) == {"Z2K-7008"}
    assert read(document).waiver("frozen", 1, NOW) is None


def test_a_quorum_that_names_other_controllers_is_refused() -> None:
    document = an_inventory()
    document["cluster"]["quorum"]["voters"] = "3000@c1:9093"
    assert codes(document) == {"Z2K-7002"}


@pytest.mark.parametrize(
    ("window", "moment", "open_"),
    [
        (Window(start="22:00", end="23:00"), "2026-11-24T22:30:00", True),
        (Window(start="22:00", end="23:00"), "2026-11-24T23:00:00", False),
        (Window(start="22:00", end="04:00", days=("tue",)), "2026-11-25T03:59:00", True),  # it began on Tuesday
        (Window(start="22:00", end="04:00", days=("tue",)), "2026-11-24T03:59:00", False),
    ],
)
def test_a_window_over_midnight_belongs_to_the_day_it_starts_on(window: Window, moment: str, open_: bool) -> None:
    assert window.has(datetime.fromisoformat(moment)) is open_
