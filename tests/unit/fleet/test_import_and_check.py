"""What an import calls whole, `inventory check` accepts and `render` takes; everything else the import names.

Contents of the field cases ibp-absent, ibp-three-numbers, import-two-clusters and node-id-only, and their like.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from migrator.fleet.importing import Assumed, Imported, import_nodes
from migrator.fleet.properties_file import parse_properties
from tests.unit.fleet.test_import_contradictions import check, cli, imported, missing, quorum, said

CONTROLLER: Final = """process.roles=controller
node.id=3000
controller.quorum.voters=3000@c1.example.com:9093
controller.listener.names=CONTROLLER
listeners=CONTROLLER://c1.example.com:9093
zookeeper.metadata.migration.enable=true
zookeeper.connect=zk1:2181/kafka
log.dirs=/var/lib/controller
"""
WITHOUT_LEVEL: Final = """broker.id=1
listeners=PLAINTEXT://k1.example.com:9092
zookeeper.connect=zk1:2181/kafka
log.dirs=/srv/k
"""
LEVEL: Final = "inter.broker.protocol.version=3.9\n"
BROKER: Final = WITHOUT_LEVEL + LEVEL


def of(broker: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in broker
        broker = broker.replace(old, new)
    return broker


def another(number: int, host: str) -> str:
    return of(BROKER, ("broker.id=1", f"broker.id={number}"), ("k1.example.com", host), ("/srv/k", f"/srv/{number}"))


def of_ansible(hostvars: dict[str, dict[str, Any]], *files: str) -> Imported:
    listed = {"_meta": {"hostvars": hostvars}, "kafka_broker": {"hosts": list(hostvars)}}
    documents = [parse_properties(text.encode(), f"{number}.properties") for number, text in enumerate(files)]
    return import_nodes(("hosts.json", json.dumps(listed)), documents, Assumed())


# --- the level --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broker", "controller"),
    [
        (WITHOUT_LEVEL, CONTROLLER),
        (f"{WITHOUT_LEVEL}#{LEVEL}", CONTROLLER),
        (WITHOUT_LEVEL, CONTROLLER + LEVEL),
        (f"{WITHOUT_LEVEL}log.message.format.version=3.9\n", CONTROLLER),
    ],
    ids=["as met", "the line is a comment", "only the controller's file has it", "another key has a version"],
)
def test_nobody_says_the_level_so_it_is_asked_for_and_in_no_file(broker: str, controller: str, tmp_path: Path) -> None:
    """On 3.8.1 a broker ends at its start with a level that only 3.9 knows."""
    files = {"b1.properties": broker, "c.properties": controller}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    inventory, out = tmp_path / "i.yaml", tmp_path / "m.properties"
    named = [word for name in files for word in ("--properties", tmp_path / name)]
    code, _, errors = cli("inventory", "import", *named, "--out", inventory)
    assert (code, "cluster.quorum.metadata_version" in errors) == (1, True)
    assert cli("inventory", "check", inventory)[0] == 2
    rendering = ("render", "broker", tmp_path / "b1.properties", "--for", "migration", "--inventory", inventory)
    assert cli(*rendering, "--out", out)[0] == 2
    inventory.write_text(
        "\n".join(each for each in inventory.read_text().split("\n") if "metadata_version" not in each)
    )
    code, _, errors = cli(*rendering, "--out", out)
    assert (code, "inter.broker.protocol.version" in errors) == (2, True)
    assert not out.exists()


def test_of_three_brokers_none_says_the_level() -> None:
    texts = {f"b{number}": of(another(number, f"k{number}"), (LEVEL, "")) for number in (1, 2, 3)}
    found = imported(**texts, c=CONTROLLER)
    assert (missing(found), quorum(found)["metadata_version"]) == ({"cluster.quorum.metadata_version"}, "")


@pytest.mark.parametrize("written", ["3.9.0", "3.9.2", "3.9.0-IV0", "3.9-IV0", "3.8.1", "3.7-IV4", "3.4.0"])
def test_a_level_with_three_numbers_goes_through_import_check_and_render(written: str, tmp_path: Path) -> None:
    broker, controller, inventory = (tmp_path / name for name in ("b1.properties", "c.properties", "i.yaml"))
    broker.write_text(WITHOUT_LEVEL + f"inter.broker.protocol.version={written}\n")
    controller.write_text(CONTROLLER)
    words = ("--properties", broker, "--properties", controller, "--out", inventory)
    assert cli("inventory", "import", *words)[0] == 0
    assert cli("inventory", "check", inventory)[0] == 0
    code, shown, errors = cli("render", "broker", broker, "--for", "migration", "--inventory", inventory)
    assert (code, errors) == (0, "")
    assert f"inter.broker.protocol.version={written}" in shown.splitlines()


# --- ids --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", ["#broker.id=\nnode.id=1", "node.id=1\nbroker.id=1", "node.id = 1"])
def test_node_id_is_the_id_of_a_broker_in_zookeeper_mode(lines: str) -> None:
    found = imported(b=of(BROKER, ("broker.id=1", lines)), c=CONTROLLER)
    assert (found.document["brokers"][0]["id"], found.findings, check(found)) == (1, (), [])


def test_one_file_that_is_given_twice_is_named() -> None:
    """As by two patterns of a shell."""
    document = parse_properties(BROKER.encode(), "b1.properties")
    controller = parse_properties(CONTROLLER.encode(), "c.properties")
    found = import_nodes(None, [document, document, controller], Assumed())
    assert [key for _, key in said(found, "Z2K-7048")] == ["id"]


@pytest.mark.parametrize(
    ("second", "files"),
    [
        ({"broker_id": 1}, ()),
        ({"broker_id": 1, "ansible_host": "bastion"}, ()),
        ({"broker_id": 3}, (another(1, "elsewhere"), another(1, "elsewhere-too"))),
    ],
    ids=["two hosts", "two hosts behind one address", "two files, and a host of Ansible"],
)
def test_an_id_that_two_nodes_have_is_named_wherever_it_is_from(second: dict[str, Any], files: tuple[str, ...]) -> None:
    found = of_ansible({"k1": {"broker_id": 1, "ansible_host": second.get("ansible_host", "k1")}, "k2": second}, *files)
    assert [key for _, key in said(found, "Z2K-7048")] == ["id"]


# --- what is named ----------------------------------------------------------------------------------------

MANY: Final = {f"b{number}": another(number, f"kafka-broker-{number:03}.prod.example.com") for number in range(1, 61)}


def test_a_cluster_of_sixty_brokers_is_imported_whole() -> None:
    """Their addresses are 2,339 characters together."""
    found = imported(**MANY, c=CONTROLLER)
    assert (found.findings, len(found.document["brokers"])) == ((), 60)
    assert check(found) == []


@pytest.mark.parametrize(
    "files",
    [
        {"b1": BROKER, "b2": another(2, "k1.example.com"), "c": CONTROLLER},
        {"b1": BROKER, "c": of(CONTROLLER, ("3000@c1.example.com:9093", "3000@c1.example.com:9093,3001@c2:9093"))},
        {"b1": of(BROKER, ("version=3.9", "version=0.10.2")), "c": CONTROLLER},
    ],
    ids=["two brokers on one host", "a controller whose file was not given", "a level of long ago"],
)
def test_what_the_check_of_an_imported_inventory_refuses_the_import_has_named(files: dict[str, str]) -> None:
    found = imported(**files)
    assert check(found) == [] or found.findings, check(found)
