"""An import takes what the files say about security and versions, and no file wins over another one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.cli import app
from migrator.findings.finding import FindingError
from migrator.fleet.importing import Assumed, Imported, import_nodes
from migrator.fleet.inventory import check_inventory, parse_inventory
from migrator.fleet.properties_file import parse_properties
from migrator.fleet.strict_yaml import dump_yaml

BROKER = """broker.id=1
listeners=INTERNAL://:9092
advertised.listeners=INTERNAL://k1.example.com:9092
listener.security.protocol.map=INTERNAL:SASL_SSL
inter.broker.listener.name=INTERNAL
inter.broker.protocol.version=3.9
zookeeper.connect=zk1:2181/kafka
log.dirs=/data/kafka
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
super.users=User:broker
"""
CONTROLLER = """process.roles=controller
node.id=3000
controller.quorum.voters=3000@c1.example.com:9093
controller.listener.names=CONTROLLER
listeners=CONTROLLER://c1.example.com:9093
listener.security.protocol.map=INTERNAL:SASL_SSL,CONTROLLER:SASL_SSL
sasl.mechanism.controller.protocol=PLAIN
sasl.enabled.mechanisms=PLAIN
inter.broker.listener.name=INTERNAL
zookeeper.metadata.migration.enable=true
zookeeper.connect=zk1:2181/kafka
log.dirs=/var/lib/controller
super.users=User:broker;User:controller
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
"""


def imported(**files: str) -> Imported:
    documents = [parse_properties(text.encode(), f"{name}.properties") for name, text in files.items()]
    return import_nodes(None, documents, Assumed(name="prod"))


def quorum(found: Imported) -> dict[str, Any]:
    return dict(found.document["cluster"]["quorum"])


def said(found: Imported, code: str) -> list[tuple[str, str]]:
    return [(each.values["file"], each.values["key"]) for each in found.findings if each.code == code]


def missing(found: Imported) -> set[str]:
    return {each.values["where"] for each in found.findings if each.code == "Z2K-7009"}


def check(found: Imported) -> list[str]:
    """Codes and places of `inventory check` on what the import wrote."""
    try:
        inventory = parse_inventory(dump_yaml(found.document).encode(), "i.yaml")
    except FindingError as error:
        return (
            [error.value.occurrence.values["where"]] if hasattr(error, "value") else [error.occurrence.values["where"]]
        )
    return [str(each.values["where"]) for each in check_inventory(inventory, "i.yaml", datetime.now(UTC))]


def cli(*words: Any) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


def test_the_quorums_security_comes_from_the_controllers_file() -> None:
    found = imported(c=CONTROLLER, b=BROKER)
    assert quorum(found) == {
        "voters": "3000@c1.example.com:9093",
        "listener": "CONTROLLER",
        "protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "metadata_version": "3.9",
        "super_users": ["User:broker", "User:controller"],
    }


def test_a_broker_that_is_rendered_from_an_import_speaks_the_controllers_protocol(tmp_path: Path) -> None:
    broker, controller, out = tmp_path / "b.properties", tmp_path / "c.properties", tmp_path / "i.yaml"
    broker.write_text(BROKER)
    controller.write_text(CONTROLLER)
    cli("inventory", "import", "--properties", controller, "--properties", broker, "--name", "prod", "--out", out)
    code, shown, errors = cli("render", "broker", broker, "--for", "migration", "--inventory", out)
    assert code == 0, errors
    assert "listener.security.protocol.map=INTERNAL:SASL_SSL,CONTROLLER:SASL_SSL" in shown.splitlines()
    assert "sasl.mechanism.controller.protocol=PLAIN" in shown.splitlines()
    assert "super.users=User:broker;User:controller" in shown.splitlines()


@pytest.mark.parametrize(
    ("listener", "given", "protocol", "mechanism"),
    [
        ("CONTROLLER", "listener.security.protocol.map=CONTROLLER:SSL", "SSL", None),
        ("CONTROLLER", "listener.security.protocol.map=controller:sasl_plaintext", "SASL_PLAINTEXT", "GSSAPI"),
        ("SASL_SSL", "sasl.mechanism.controller.protocol=SCRAM-SHA-512", "SASL_SSL", "SCRAM-SHA-512"),
        ("CONTROLLER", "", "PLAINTEXT", None),  # as stock assumes it
    ],
)
def test_each_protocol_of_a_controllers_listener_is_taken(
    listener: str, given: str, protocol: str, mechanism: str | None
) -> None:
    text = (
        "process.roles=controller\nnode.id=3000\ncontroller.quorum.voters=3000@c1:9093\nlog.dirs=/c\n"
        f"controller.listener.names={listener}\nlisteners={listener}://c1:9093\n{given}\n"
    )
    found = quorum(imported(c=text, b=BROKER))
    assert (found["listener"], found["protocol"], found.get("sasl_mechanism")) == (listener, protocol, mechanism)


def test_a_controllers_listener_without_a_protocol_is_named_and_never_open() -> None:
    found = imported(c=CONTROLLER.replace(",CONTROLLER:SASL_SSL", ""), b=BROKER)
    assert "cluster.quorum.protocol" in missing(found)
    assert check(found) == ["cluster.quorum.protocol"]


def test_without_a_controllers_file_the_protocol_is_asked_for() -> None:
    found = imported(b=BROKER)
    assert "cluster.quorum.protocol" in missing(found)
    assert quorum(found)["protocol"] == ""


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("protocol of CONTROLLER", CONTROLLER.replace("CONTROLLER:SASL_SSL", "CONTROLLER:SASL_PLAINTEXT")),
        (
            "sasl.mechanism.controller.protocol",
            CONTROLLER.replace("controller.protocol=PLAIN", "controller.protocol=GSSAPI"),
        ),
        ("controller.listener.names", CONTROLLER.replace("CONTROLLER", "QUORUM")),
        ("controller.quorum.voters", CONTROLLER.replace("3000@c1.example.com:9093", "3000@c9:9093")),
        ("zookeeper.connect", CONTROLLER.replace("zk1:2181/kafka", "zk7:2181/kafka")),
    ],
)
def test_controllers_that_contradict_each_other_are_named_and_neither_is_taken(key: str, text: str) -> None:
    other = text.replace("node.id=3000", "node.id=3001")
    found = imported(c=CONTROLLER, d=other, b=BROKER)
    assert ("d.properties", key) in said(found, "Z2K-7048")
    assert check(found) != []


# --- versions ---------------------------------------------------------------------------------------------


def test_a_level_that_no_file_says_is_asked_for_and_never_assumed(tmp_path: Path) -> None:
    text = BROKER.replace("inter.broker.protocol.version=3.9\n", "")
    found = imported(b=text, c=CONTROLLER)
    assert missing(found) == {"cluster.quorum.metadata_version"}
    assert check(found) == ["cluster.quorum.metadata_version"]
    # An inventory of today that has no such line: what a file says counts, and a file that says none is not rendered.
    document = found.document
    del document["cluster"]["quorum"]["metadata_version"]
    broker, inventory = tmp_path / "b.properties", tmp_path / "i.yaml"
    inventory.write_text(dump_yaml(document))
    broker.write_text(text)
    code, shown, errors = cli("render", "broker", broker, "--for", "migration", "--inventory", inventory)
    assert (code, shown) == (2, "")
    assert "Z2K-7032" in errors
    assert "inter.broker.protocol.version" in errors
    broker.write_text(BROKER.replace("version=3.9", "version=3.7"))
    assert cli("render", "broker", broker, "--for", "migration", "--inventory", inventory)[0] == 0


@pytest.mark.parametrize(
    ("written", "taken"),
    [("3.9.0", "3.9"), ("3.9", "3.9"), (" 3.8-IV0 ", "3.8-IV0"), ("3.7.1", "3.7"), ("3.9.0-IV0", "3.9")],
)
def test_a_version_is_written_as_the_inventory_takes_it(written: str, taken: str) -> None:
    found = imported(b=BROKER.replace("version=3.9", f"version={written}"), c=CONTROLLER)
    assert found.findings == ()
    assert quorum(found)["metadata_version"] == taken
    assert check(found) == []


def test_versions_that_mean_the_same_level_are_no_contradiction() -> None:
    other = BROKER.replace("broker.id=1", "broker.id=2").replace("k1.", "k2.")
    found = imported(b=BROKER, d=other.replace("version=3.9", "version=3.9-IV0"), c=CONTROLLER)
    assert found.findings == ()


@pytest.mark.parametrize("line", ["inter.broker.protocol.version=3.6\n", ""])
def test_a_broker_with_another_level_or_none_is_named(line: str) -> None:
    other = BROKER.replace("broker.id=1", "broker.id=2").replace("k1.", "k2.")
    other = other.replace("inter.broker.protocol.version=3.9\n", line)
    for files in ({"b": BROKER, "d": other}, {"d": other, "b": BROKER}):
        found = imported(**files, c=CONTROLLER)
        assert {key for _, key in said(found, "Z2K-7048")} == {"inter.broker.protocol.version"}
        assert check(found) == ["cluster.quorum.metadata_version"]


# --- files of two clusters, and of one node twice ---------------------------------------------------------


def a_plain_broker(
    number: int | None, *, connect: str = "zk1:2181,zk2:2181/kafka", ibp: str = "3.9", host: str = ""
) -> str:
    own = "" if number is None else f"broker.id={number}\n"
    return (
        f"{own}listeners=PLAINTEXT://{host or f'k{number}.example.com'}:9092\ninter.broker.protocol.version={ibp}\n"
        f"zookeeper.connect={connect}\nlog.dirs=/srv/k\n"
    )


def test_files_of_two_clusters_are_not_one_cluster() -> None:
    found = imported(
        b1=a_plain_broker(1),
        b2=a_plain_broker(2, ibp="3.6", connect="zk2:2181,zk2:2181/kafka"),
        b3=a_plain_broker(3, connect="zk1:2181,zk2:2181/kafka-test"),
    )
    assert said(found, "Z2K-7048") == [
        ("b3.properties", "zookeeper.connect"),
        ("b2.properties", "inter.broker.protocol.version"),
    ]
    assert found.document["cluster"]["zookeeper"] == ""
    assert quorum(found)["metadata_version"] == ""
    assert "cluster.zookeeper" in check(found)


@pytest.mark.parametrize(
    ("connect", "taken"),
    [
        ("zk2:2181,zk1:2181/kafka", "zk1:2181,zk2:2181/kafka"),
        ("zk2:2181, zk3:2181/kafka/", "zk1:2181,zk2:2181,zk3:2181/kafka"),
        ("ZK1:2181/kafka", "zk1:2181,zk2:2181,ZK1:2181/kafka"),
        ("zk8:2181,zk9:2181/kafka", ""),
        ("zk1:2181,zk2:2181", ""),
    ],
)
def test_one_ensemble_may_be_written_in_several_ways(connect: str, taken: str) -> None:
    found = imported(b1=a_plain_broker(1), b2=a_plain_broker(2, connect=connect))
    assert found.document["cluster"]["zookeeper"] == taken
    assert said(found, "Z2K-7048") == ([] if taken else [("b2.properties", "zookeeper.connect")])


def test_two_files_with_one_id_are_two_nodes_and_named() -> None:
    found = imported(b1=a_plain_broker(1), b2=a_plain_broker(1, host="k2"))
    assert [node["host"] for node in found.document["brokers"]] == ["k1.example.com", "k2"]
    assert said(found, "Z2K-7048") == [("b2.properties", "id")]


def test_a_broker_and_a_controller_with_one_id_are_named() -> None:
    found = imported(b=BROKER.replace("broker.id=1", "broker.id=3000"), c=CONTROLLER)
    assert said(found, "Z2K-7048") == [("c.properties", "id")]


def test_two_files_without_id_at_localhost_are_two_nodes_and_named() -> None:
    found = imported(b1=a_plain_broker(None, host="localhost"), b2=a_plain_broker(None, host="localhost"))
    assert len(found.document["brokers"]) == 2
    assert said(found, "Z2K-7048") == [("b2.properties", "advertised.listeners")]
    assert {"brokers[0].id", "brokers[1].id"} <= missing(found)


def test_two_files_without_id_and_host_are_two_nodes() -> None:
    texts = [a_plain_broker(None, host="x").replace("//x:", "//:") for _ in range(2)]
    found = imported(b1=texts[0], b2=texts[1])
    assert len(found.document["brokers"]) == 2
    assert {"brokers[0].host", "brokers[1].host"} <= missing(found)


def test_a_file_with_two_ids_has_none() -> None:
    found = imported(b1="node.id=7\n" + a_plain_broker(1))
    assert said(found, "Z2K-7048") == [("b1.properties", "node.id")]
    assert "id" not in found.document["brokers"][0]


# --- what an import writes, its check accepts -------------------------------------------------------------


@pytest.mark.parametrize(
    ("listener", "host"),
    [
        ("PLAINTEXT://[2001:db8::11]:9092", "2001:db8::11"),
        ("PLAINTEXT://[::1]:9092", "::1"),
        ("PLAINTEXT://[::]:9092,EXTERNAL://k1:9093", "k1"),
        ("PLAINTEXT://0.0.0.0:9092,EXTERNAL://[fd00::1]:9093", "fd00::1"),
    ],
)
def test_hosts_of_ipv6_are_taken_and_accepted_and_any_address_is_no_host(listener: str, host: str) -> None:
    text = BROKER.replace("INTERNAL://k1.example.com:9092", listener)
    found = imported(b=text, c=CONTROLLER)
    assert found.findings == ()
    assert found.document["brokers"][0]["host"] == host
    assert check(found) == []


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("log.dirs=/data/kafka", "log.dirs=data/kafka", "brokers[0].log_dirs"),
        ("broker.id=1", "broker.id=99999999999", "brokers[0].id"),
        ("k1.example.com", "fe80::1%eth0", "brokers[0].host"),
        ("k1.example.com", "k_1/x", "brokers[0].host"),
        ("log.dirs=/data/kafka\n", "", "brokers[0].log_dirs"),
    ],
)
def test_what_the_inventory_does_not_accept_is_named_once_and_left_out(old: str, new: str, place: str) -> None:
    found = imported(b=BROKER.replace(old, new), c=CONTROLLER)
    assert [each.values["where"] for each in found.findings] == [place]
    assert "no file of this node was given" not in found.findings[0].in_full
    assert place.partition(".")[2] not in found.document["brokers"][0]


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("log.dirs=/data/kafka", "log.dirs=/data/{{ inventory_hostname }}", "brokers[0].log_dirs"),
        ("broker.id=1", "broker.id={{ broker_id }}", "brokers[0].id"),
        ("k1.example.com", "${env:HOST}", "brokers[0].host"),
        ("log.dirs=/data/kafka", "log.dirs=/data/kafka\nbroker.rack={% if a %}r1{% endif %}", "brokers[0].rack"),
        ("zk1:2181/kafka", "${file:/etc/zk:connect}", "cluster.zookeeper"),
        ("version=3.9", "version={{ ibp }}", "cluster.quorum.metadata_version"),
    ],
)
def test_a_value_that_nobody_has_filled_in_is_named_and_not_taken(old: str, new: str, place: str) -> None:
    found = imported(b=BROKER.replace(old, new), c=CONTROLLER.replace("zookeeper.connect=zk1:2181/kafka\n", ""))
    placeholders = [each for each in found.findings if each.code == "Z2K-7050"]
    assert [each.values["where"] for each in placeholders] == [place]
    assert place not in missing(found)
    assert "{{" not in dump_yaml(found.document)
    assert "${" not in dump_yaml(found.document)
