"""What Ansible resolved is taken whole; every other form gets a clear answer, and no host is lost in silence."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.cli import app
from migrator.findings.finding import FindingError
from migrator.fleet.ansible import parse_listed
from migrator.fleet.importing import Assumed, Imported, import_nodes
from migrator.fleet.inventory import check_inventory, parse_inventory
from migrator.fleet.properties_file import parse_properties
from migrator.fleet.strict_yaml import dump_yaml, load_yaml
from tests.support.inventories import an_inventory

LISTED: dict[str, Any] = {
    "_meta": {
        "hostvars": {"k1": {"broker_id": 1}, "k2": {"broker_id": 2}, "k3": {"broker_id": 3}},
        "profile": "inventory_legacy",
    },
    "all": {"children": ["ungrouped", "kafka_broker", "kafka_connect"]},
    "dc3": {"hosts": ["k3"]},
    "kafka_broker": {"children": ["dc3"], "hosts": ["k1", "k2"]},
    "kafka_connect": {"hosts": ["w1"]},
}
HEADER_COMMENT = """[kafka_broker]  # three brokers
k1 broker_id=1
k2 broker_id=2

[dc3]
k3 broker_id=3

[kafka_broker:children]
dc3   # the third site

[kafka_connect]  # workers
w1
"""
VARIABLES_ELSEWHERE = """k1 ansible_host=10.20.0.11 broker_id=1
k2 ansible_host=10.20.0.12 broker_id=2

[kafka_broker]
k1
k2
"""
VAULT_AND_ANCHOR = """all:
  vars:
    zk_password: !vault |
      $ANSIBLE_VAULT;1.1;AES256
      3132
  children:
    kafka_broker:
      hosts:
        k1: &b
          broker_id: 1
          kafka_log_dirs: [/d]
        k2:
          <<: *b
          broker_id: 2
"""


def listed(hostvars: dict[str, Any], **groups: Any) -> str:
    return json.dumps({"_meta": {"hostvars": hostvars}, **(groups or {"kafka_broker": {"hosts": list(hostvars)}})})


def imported(text: str, *files: str, **groups: str) -> Imported:
    documents = [parse_properties(each.encode(), f"{number}.properties") for number, each in enumerate(files)]
    return import_nodes(("hosts.json", text), documents, Assumed(), groups)


def brokers(found: Imported) -> list[tuple[Any, Any]]:
    return [(node.get("host"), node.get("id")) for node in found.document["brokers"]]


def cli(*words: Any, given: str | None = None) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words], input=given)
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def without_ansible(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


# --- the JSON ---------------------------------------------------------------------------------------------


def test_the_json_of_ansible_gives_the_hosts_of_the_group_and_of_its_children_and_no_others() -> None:
    assert brokers(imported(json.dumps(LISTED))) == [("k1", 1), ("k2", 2), ("k3", 3)]


def test_the_command_line_takes_the_json_as_a_file_and_from_standard_input(
    tmp_path: Path, without_ansible: None
) -> None:
    file = tmp_path / "hosts.json"
    file.write_text(json.dumps(LISTED))
    code, by_file, _ = cli("inventory", "import", "--ansible", file)
    assert code == 1  # ZooKeeper and the controllers are missing
    assert [line for line in by_file.splitlines() if "host:" in line] == ["  host: k1", "  host: k2", "  host: k3"]
    assert cli("inventory", "import", "--ansible", "-", given=json.dumps(LISTED))[:2] == (1, by_file)


def test_addresses_racks_and_ids_are_taken_wherever_ansible_had_them_from() -> None:
    variables = {"ansible_host": "10.20.0.11", "broker_id": 1, "kafka_rack": "a", "kafka_log_dirs": ["/a", "/b,/c"]}
    (node,) = imported(listed({"k1": variables})).document["brokers"]
    assert {key: node[key] for key in ("host", "id", "rack", "log_dirs")} == {
        "host": "10.20.0.11",
        "id": 1,
        "rack": "a",
        "log_dirs": ["/a", "/b", "/c"],
    }


def test_children_in_a_circle_and_children_without_hosts_end() -> None:
    text = listed({}, kafka_broker={"children": ["a", "gone"]}, a={"children": ["kafka_broker"], "hosts": ["k1"]})
    assert brokers(imported(text)) == [("k1", None)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "_meta"),
        ('{"all": {"hosts": {"k1": {}}}}', "_meta"),
        ('{"_meta": {"hostvars": []}}', "_meta"),
        ('{"_meta": {"hostvars": {"k1": 3}}}', "k1"),
        ('{"_meta": {"hostvars": {}}, "kafka_broker": ["k1"]}', "kafka_broker"),
        ('{"_meta": {"hostvars": {}}, "kafka_broker": {"hosts": "k1"}}', "no list of names"),
        ('{"_meta": {"hostvars": {}}, "kafka_broker": {"hosts": {"k1": {}}}}', "no list of names"),
        ('{"_meta": {"hostvars": {}}, "kafka_broker": {"hosts": ["k1"], "vars": {"rack": "a"}}}', "--export"),
        ('{"_meta": {"hostvars": {}}, "a": {"hosts": ["k1"]}, "a": {"hosts": ["k2"]}}', "occurs twice"),
        ('{"_meta": {"hostvars": {"k1": {"broker_id": 1, "broker_id": 2}}}}', "occurs twice"),
        ('{"_meta": {"hostvars": {}}', "line 1"),
        (HEADER_COMMENT, "line 1"),
    ],
)
def test_what_is_not_the_json_of_ansible_is_refused_with_the_way_to_make_it(text: str, reason: str) -> None:
    with pytest.raises(FindingError) as error:
        parse_listed("hosts.json", text)
    assert error.value.code == "Z2K-7049"
    assert reason in str(error.value.occurrence.values["reason"])
    assert "ansible-inventory -i INVENTORY --list" in error.value.occurrence.in_full


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"broker_id": "{{ groups['kafka_broker'].index(inventory_hostname) }}"}, "brokers[0].id"),
        ({"broker_id": 1, "ansible_host": "{{ inventory_hostname }}.example.com"}, "brokers[0].host"),
        ({"broker_id": 1, "kafka_log_dirs": ["/a", "/srv/{{ inventory_hostname }}/kafka"]}, "brokers[0].log_dirs"),
        ({"broker_id": 1, "rack": {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n3132"}}, "brokers[0].rack"),
    ],
)
def test_a_template_or_a_vault_in_a_variable_is_named_and_never_taken(variables: dict[str, Any], place: str) -> None:
    found = imported(listed({"k1": variables}))
    placeholders = [each for each in found.findings if each.code == "Z2K-7050"]
    assert [each.values["where"] for each in placeholders] == [place]
    assert place not in {each.values["where"] for each in found.findings if each.code == "Z2K-7009"}
    assert place.partition(".")[2] not in found.document["brokers"][0]
    assert "ANSIBLE_VAULT" not in placeholders[0].in_full


def test_a_template_counts_no_more_where_the_nodes_own_file_has_the_value() -> None:
    variables = {"broker_id": 1, "kafka_log_dirs": "{{ data }}", "rack": "{{ room }}"}
    file = "broker.id=1\nbroker.rack=r1\nlog.dirs=/data\nlisteners=PLAINTEXT://k1:9092\n"
    found = imported(listed({"k1": variables}), file)
    assert [each.code for each in found.findings if each.code == "Z2K-7050"] == []
    assert found.document["brokers"][0]["log_dirs"] == ["/data"]


def test_an_unsafe_text_is_a_text_and_another_secret_is_passed_over() -> None:
    variables = {"broker_id": 1, "rack": {"__ansible_unsafe": "r{1}"}, "zk_password": {"__ansible_vault": "x"}}
    (node,) = imported(listed({"k1": variables})).document["brokers"]
    assert (node["id"], node["rack"]) == (1, "r{1}")
    assert "zk_password" not in dump_yaml(imported(listed({"k1": variables})).document)


@pytest.mark.parametrize(
    ("groups", "chosen", "place"),
    [
        ({"kafka_broker": {"hosts": ["k1"]}, "brokers": {"hosts": ["k1", "k2"]}}, {}, "brokers"),
        ({"kafka_broker": {"hosts": ["k1"]}}, {"brokers": "kafka_all"}, "brokers"),
    ],
)
def test_hosts_of_another_usual_group_and_a_group_that_is_not_there_are_named(
    groups: dict[str, Any], chosen: dict[str, str], place: str
) -> None:
    found = imported(listed({}, **groups), **chosen)
    assert place in {each.values.get("where") for each in found.findings if "group" in each.in_full}


def test_workers_beside_the_brokers_in_one_parent_are_not_named() -> None:
    groups = {"kafka": {"hosts": ["k1", "w1"]}, "kafka_broker": {"hosts": ["k1"]}}
    found = imported(listed({}, **groups))
    assert brokers(found) == [("k1", None)]
    assert "--brokers-group" not in " ".join(each.in_full for each in found.findings)


# --- other forms ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hosts.ini", HEADER_COMMENT),
        ("hosts.ini", VARIABLES_ELSEWHERE),
        ("hosts.yml", VAULT_AND_ANCHOR),
        ("hosts", "all: {children: {kafka_broker: {hosts: {k1: {broker_id: 1}}}}}\n"),
        ("hosts.yml", "kafka_broker: {hosts: k1}\n"),
        ("hosts.yml", "kafka_broker: {hosts: {k1: {rack: !unsafe '{{ a }}'}}}\n"),
        ("hosts.yml", "kafka_broker: {hosts: {k1: {rack: a, rack: b}}}\n"),
        ("hosts.json", '{"kafka_broker": {"hosts": {"k1": {}}}}'),
        ("production/hosts", "[kafka_broker]\nk1\n"),
        ("none", None),
    ],
)
def test_without_ansible_each_other_form_is_refused_and_nothing_is_written(
    tmp_path: Path, without_ansible: None, name: str, text: str | None
) -> None:
    file, out = tmp_path / name, tmp_path / "out.yaml"
    if text is not None:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    given = file.parent if "/" in name else file
    code, said, errors = cli("inventory", "import", "--ansible", given, "--out", out)
    assert (code, said) == (2, "")
    assert "Z2K-7049" in errors
    assert "ansible-inventory -i INVENTORY --list" in errors
    assert not out.exists()


def a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A stand-in for Ansible's command, which need not be installed where the tests run."""
    directory = tmp_path / "bin"
    directory.mkdir()
    command = directory / "ansible-inventory"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")


def test_where_ansible_is_installed_it_reads_the_inventory_and_may_leave_nothing_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "inventories"
    file.mkdir()
    (tmp_path / "listed.json").write_text(json.dumps(LISTED))
    script = (
        f'[ "$*" = "-i {file} --list" ] || exit 3\n[ "$ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED" = true ] || exit 4\n'
        f'[ "$ANSIBLE_DUPLICATE_YAML_DICT_KEY" = warn ] || exit 5\ncat {tmp_path}/listed.json'
    )
    a_command(tmp_path, monkeypatch, script)
    code, said, _ = cli("inventory", "import", "--ansible", file)
    assert code == 1
    assert [line for line in said.splitlines() if "host:" in line] == ["  host: k1", "  host: k2", "  host: k3"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [("echo 'ERROR! no vault secrets found' >&2; exit 4", "no vault secrets found"), ("exit 250", "250"), ("echo", "")],
)
def test_where_ansible_refuses_the_inventory_its_words_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    a_command(tmp_path, monkeypatch, script)
    (tmp_path / "hosts.ini").write_text(HEADER_COMMENT)
    code, said, errors = cli("inventory", "import", "--ansible", tmp_path / "hosts.ini")
    assert (code, said) == (2, "")
    assert "Z2K-7049" in errors
    assert reason in errors


def test_what_ansible_warns_of_is_said_each_warning_once_and_the_inventory_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ansible warns of a key that overrides one of an anchor as of one that stands twice: only a person can tell."""
    (tmp_path / "listed.json").write_text(json.dumps(LISTED))
    warnings = (
        "[WARNING]: While constructing a mapping, line 13,\ncolumn 11, found a duplicate dict key (broker_id).\n"
        "[WARNING]: Found both group and host with same name: k1\n"
    )
    (tmp_path / "warnings").write_text(warnings)
    a_command(tmp_path, monkeypatch, f"cat {tmp_path}/warnings >&2; cat {tmp_path}/listed.json")
    (tmp_path / "hosts.yml").write_text(VAULT_AND_ANCHOR)
    code, said, errors = cli("inventory", "import", "--ansible", tmp_path / "hosts.yml")
    assert code == 1
    assert said.count("host:") == 3
    found = [line for line in errors.splitlines() if "Z2K-7062" in line]
    assert ["line 13, column 11" in line for line in found] == [True, False]
    assert "same name: k1" in found[1]


OF_ANSIBLE: dict[str, tuple[str, str, list[tuple[str, int | None]], list[str]]] = {
    "comments behind headers and children": ("h.ini", HEADER_COMMENT, [("k1", 1), ("k2", 2), ("k3", 3)], []),
    "comments behind hosts and variables, and a range": (
        "h.ini",
        "[kafka_broker]  # all\nk[1:2]  # both\nk3 broker_id=3 # the third\n\n[kafka_connect] # none of them\nw1\n",
        [("k3", 3), ("k1", None), ("k2", None)],
        [],
    ),
    "a comment behind the header of variables": (
        "h.ini",
        "[kafka_broker]\nk1\n\n[kafka_broker:vars]  # of all\nbroker_id=7\n\n[kafka_connect]\nw1\n",
        [("k1", 7)],
        [],
    ),
    "hosts before any group": ("h.ini", VARIABLES_ELSEWHERE, [("10.20.0.11", 1), ("10.20.0.12", 2)], []),
    "variables in the line of another group": (
        "h.ini",
        "[zookeeper]\nk1 ansible_host=10.20.0.11 broker_id=1\nk2 broker_id=2\n\n[kafka_broker]\nk1\nk2\n",
        [("10.20.0.11", 1), ("k2", 2)],
        [],
    ),
    "variables of another group of the host": (
        "h.ini",
        "[kafka_broker]\nk1\nk2\n\n[rack_a]\nk1\n\n[rack_a:vars]\nbroker_id=1\nansible_host=10.20.0.11\n",
        [("10.20.0.11", 1), ("k2", None)],
        [],
    ),
    "a vault and an anchor": ("h.yml", VAULT_AND_ANCHOR, [("k1", 1), ("k2", 2)], ["Z2K-7062"]),
    "a text that is unsafe": (
        "h.yml",
        "kafka_broker: {hosts: {k1: {broker_id: 1, ansible_host: !unsafe 10.20.0.11}}}\n",
        [("10.20.0.11", 1)],
        [],
    ),
    "a key that stands twice": (
        "h.yml",
        "kafka_broker:\n  hosts:\n    k1: {broker_id: 1, broker_id: 2}\n",
        [("k1", 2)],
        ["Z2K-7062"],
    ),
    "a template": (
        "h.yml",
        "kafka_broker: {hosts: {k1: {broker_id: 1, ansible_host: '{{ inventory_hostname }}.example.com'}}}\n",
        [("", 1)],
        ["Z2K-7050"],
    ),
    "YAML in a file without an ending": ("hosts", "kafka_broker: {hosts: {k1: {broker_id: 1}}}\n", [("k1", 1)], []),
    "a directory": ("prod/hosts", "[kafka_broker]\nk1 broker_id=1\n", [("k1", 1)], []),
}


@pytest.mark.skipif(shutil.which("ansible-inventory") is None, reason="Ansible is not installed")
@pytest.mark.parametrize(("name", "text", "expected", "codes"), OF_ANSIBLE.values(), ids=OF_ANSIBLE)
def test_ansible_itself_says_hosts_and_ids_and_nobody_else_is_a_broker(
    tmp_path: Path, name: str, text: str, expected: list[tuple[str, int | None]], codes: list[str]
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    _, said, errors = cli("inventory", "import", "--ansible", file.parent if "/" in name else file)
    found = load_yaml(said.encode())["brokers"]
    assert [(node.get("host", ""), node.get("id")) for node in found] == expected
    assert [code for code in ("Z2K-7050", "Z2K-7062") if code in errors] == codes
    assert "VAULT" not in said + errors


# --- inventories written by hand --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("brokers", "log_dirs", ["/srv/{{ inventory_hostname }}/kafka"]),
        ("brokers", "properties", "/etc/{% if a %}kafka{% endif %}/server.properties"),
        ("controllers", "metadata_log_dir", "/data/${env:HOST}"),
    ],
)
def test_an_inventory_with_a_placeholder_is_refused(part: str, key: str, value: Any) -> None:
    document = an_inventory()
    document[part][0][key] = value
    inventory = parse_inventory(dump_yaml(document).encode(), "i.yaml")
    found = check_inventory(inventory, "i.yaml", datetime.now(UTC))
    assert [(each.code, each.values["where"]) for each in found] == [("Z2K-7050", f"{part}[0].{key}")]
