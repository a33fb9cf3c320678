"""An inventory is made from what is there; what is not there is named, never guessed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.cli import app
from migrator.fleet.importing import Assumed, import_nodes
from migrator.fleet.inventory import check_inventory, parse_inventory
from migrator.fleet.properties_file import parse_properties
from migrator.fleet.strict_yaml import dump_yaml
from tests.support.inventories import an_inventory

NO_IDS = json.dumps(
    {
        "_meta": {
            "hostvars": {
                "b1": {"rack": "r1", "kafka_log_dirs": "/data/a,/data/b"},
                "b2": {"rack": "r1", "kafka_log_dirs": "/data/a,/data/b"},
                "b3": {"ansible_host": "10.0.0.3", "broker_id": 3, "rack": "r2", "kafka_log_dirs": "/data/c"},
                "c1": {"node_id": 3000},
            }
        },
        "all": {"children": ["ungrouped", "kafka", "controllers"]},
        "kafka": {"hosts": ["b1", "b2", "b3"]},
        "controllers": {"hosts": ["c1"]},
    }
)
WITH_IDS = json.dumps(
    {
        "_meta": {
            "hostvars": {
                "b1": {"broker_id": 1, "ansible_host": "10.0.0.1", "kafka_log_dirs": ["/data"], "rack": "r9"},
                "b2": {"broker_id": "2", "kafka_log_dirs": "/data", "rack": "r9"},
                "c1": {"node_id": 3000, "kafka_log_dirs": "/data"},
            }
        },
        "all": {"children": ["ungrouped", "kafka_broker", "kafka_controller"]},
        "kafka_broker": {"hosts": ["b1", "b2"]},
        "kafka_controller": {"children": ["of_three"]},
        "of_three": {"hosts": ["c1"]},
    }
)


def a_broker(number: int, host: str) -> bytes:
    return (
        f"broker.id={number}\nlog.dirs=/data/x\nadvertised.listeners=PLAINTEXT://{host}:9092\n"
        "zookeeper.connect=zk1:2181/kafka\ncontroller.quorum.voters=3000@c1:9093\ninter.broker.protocol.version=3.9\n"
    ).encode()


def test_hosts_groups_and_variables_of_ansible_are_read() -> None:
    found = import_nodes(("hosts.json", NO_IDS), [], Assumed()).document
    assert [(node["host"], node.get("id"), node["log_dirs"]) for node in found["brokers"]] == [
        ("b1", None, ["/data/a", "/data/b"]),
        ("b2", None, ["/data/a", "/data/b"]),
        ("10.0.0.3", 3, ["/data/c"]),
    ]
    assert found["controllers"][0]["id"] == 3000
    found = import_nodes(("hosts.json", WITH_IDS), [], Assumed()).document
    assert [(node["host"], node["id"], node["rack"]) for node in found["brokers"]] == [
        ("10.0.0.1", 1, "r9"),
        ("b2", 2, "r9"),
    ]
    assert found["brokers"][0]["log_dirs"] == ["/data"]
    assert [node["id"] for node in found["controllers"]] == [3000]


def test_properties_files_complete_what_ansible_has_and_the_result_passes_its_check() -> None:
    controller = b"process.roles=controller\nnode.id=3000\nlog.dirs=/var/lib/c\nlisteners=CONTROLLER://c1:9093\n"
    files = [parse_properties(each, "f") for each in (a_broker(1, "b1"), a_broker(2, "b2"), controller)]
    imported = import_nodes(("hosts.json", WITH_IDS), files, Assumed(name="prod"))
    assert imported.findings == ()
    inventory = parse_inventory(dump_yaml(imported.document).encode(), "prod.yaml")
    assert check_inventory(inventory, "prod.yaml", datetime.now(UTC)) == ()
    assert inventory.cluster.bootstrap_servers == "b1:9092,b2:9092"
    assert inventory.brokers[0].host == "10.0.0.1"  # where Ansible goes
    assert inventory.brokers[0].log_dirs == ("/data/x",)  # what the broker uses


@pytest.mark.parametrize(
    "connect", ["zk1:2181, zk2:2181/kafka", " zk1:2181 ,zk2:2181,/kafka", "zk1:2181,\\\n  zk2:2181/kafka"]
)
def test_names_and_connect_strings_come_in_the_form_that_the_inventory_takes(connect: str) -> None:
    content = a_broker(1, "b1").replace(b"zk1:2181/kafka", connect.encode()) + b"controller.listener.names=controller\n"
    cluster = import_nodes(None, [parse_properties(content, "b1.properties")], Assumed()).document["cluster"]
    assert (cluster["zookeeper"], cluster["quorum"]["listener"]) == ("zk1:2181,zk2:2181/kafka", "CONTROLLER")


def test_what_no_file_says_is_named_and_left_out() -> None:
    imported = import_nodes(("hosts.json", NO_IDS), [], Assumed())
    assert {each.code for each in imported.findings} == {"Z2K-7009"}
    places = {each.values["where"] for each in imported.findings}
    assert {"cluster.zookeeper", "cluster.quorum.voters", "brokers[0].id", "controllers[0].log_dirs"} <= places


# --- the command line -------------------------------------------------------------------------------------


def cli(*words: Any) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


def test_the_command_line_checks_imports_and_renders(tmp_path: Path) -> None:
    inventory, broker, out = tmp_path / "prod.yaml", tmp_path / "b.properties", tmp_path / "kraft.properties"
    inventory.write_text(dump_yaml(an_inventory()))
    broker.write_bytes(a_broker(1, "b1") + b"ssl.key.password=hunter2\n")
    assert cli("inventory", "check", inventory)[:2] == (0, "orders-prod: 3 brokers, 3 controllers.\n")
    code, said, errors = cli("render", "broker", broker, "--for", "kraft", "--inventory", inventory, "--diff")
    assert (code, errors) == (0, "")
    assert "-zookeeper.connect=zk1:2181/kafka" in said
    code, said, errors = cli("render", "broker", broker, "--for", "kraft", "--inventory", inventory)
    assert "ssl.key.password=(hidden)" in said
    assert "hunter2" not in said + errors
    assert cli("render", "broker", broker, "--for", "kraft", "--inventory", inventory, "--out", out)[0] == 0
    assert b"ssl.key.password=hunter2\n" in out.read_bytes()
    assert out.stat().st_mode & 0o777 == 0o600
    code, said, _ = cli("inventory", "import", "--properties", broker)
    assert code == 1  # the controllers are missing
    assert "- id: 1" in said


def test_the_command_line_refuses_with_exit_code_2(tmp_path: Path) -> None:
    inventory, broker = tmp_path / "prod.yaml", tmp_path / "b.properties"
    inventory.write_text(dump_yaml({**an_inventory(), "colour": "blue"}))
    broker.write_bytes(b"broker.id=9\n")
    code, said, _ = cli("inventory", "check", inventory)
    assert (code, said[:8]) == (2, "Z2K-7002")
    code, said, errors = cli("render", "broker", broker, "--for", "migration")
    assert (code, said) == (2, "")
    assert "Z2K-7032" in errors
    inventory.write_text(dump_yaml(an_inventory()))
    assert cli("render", "broker", broker, "--for", "kraft", "--inventory", inventory)[0] == 2  # no node 9
    assert cli("render", "controller", broker, "--for", "kraft")[0] == 2
    assert cli("render", "broker", tmp_path / "none", "--for", "kraft")[0] == 2


@pytest.mark.parametrize(
    "key",
    [
        "authorizer.class.name",
        "create.topic.policy.class.name",
        "alter.config.policy.class.name",
        "principal.builder.class",
        "listener.name.internal.principal.builder.class",
    ],
)
def test_an_import_names_what_the_takeover_gate_would_refuse_in_a_brokers_file(key: str) -> None:
    file = a_broker(1, "b1") + f"{key}=com.example.Own\n".encode()
    found = import_nodes(None, [parse_properties(file, "broker-1.properties")], Assumed()).findings
    assert [(each.code, each.values["broker"], each.values["key"]) for each in found if each.code == "Z2K-1050"] == [
        ("Z2K-1050", "1", key)
    ]
