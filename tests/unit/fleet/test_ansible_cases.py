"""Inventories of Ansible as met in the field, and their like, with what `ansible-inventory --list` printed of each.

What it printed gives exactly the brokers of the inventory, with their addresses, racks and directories. Where Ansible
is installed, it is asked whether it still prints the same. Recorded with ansible-core 2.19.14. Contents of the field
cases ansible-header-comment, ansible-vars-elsewhere and ansible-vault-anchor; ansible-json is in test_ansible.py.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from migrator.fleet.ansible import COMMAND, listed_by_ansible
from migrator.fleet.importing import Assumed, import_nodes

VAULT: Final = {"zk_password": {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n3132\n"}}


@dataclass(frozen=True)
class Case:
    """files: by path; the inventory is the first one, or the directory where one is called hosts.

    hostvars, groups: as Ansible printed them. brokers: host, id, rack and directories, in the order of restarts.
    """

    files: dict[str, str]
    hostvars: dict[str, dict[str, Any]]
    groups: dict[str, dict[str, list[str]]]
    brokers: list[tuple[str, int | None, str, list[str]]]

    @property
    def listed(self) -> dict[str, Any]:
        return {"_meta": {"hostvars": self.hostvars}, **self.groups}


CASES: Final = {
    "as met: hosts once with their addresses, groups only list names": Case(
        {
            "hosts.ini": """# hosts, once with their addresses
k1 ansible_host=10.20.0.11 broker_id=1
k2 ansible_host=10.20.0.12 broker_id=2
k3 ansible_host=10.20.0.13 broker_id=3
w1 ansible_host=10.20.0.21

[zookeeper]
k1
k2
k3

[kafka_broker]
k1
k2
k3

[kafka_connect]
w1
"""
        },
        {
            **{f"k{number}": {"ansible_host": f"10.20.0.1{number}", "broker_id": number} for number in (1, 2, 3)},
            "w1": {"ansible_host": "10.20.0.21"},
        },
        {
            "all": {"children": ["ungrouped", "zookeeper", "kafka_broker", "kafka_connect"]},
            "kafka_broker": {"hosts": ["k1", "k2", "k3"]},
            "kafka_connect": {"hosts": ["w1"]},
            "zookeeper": {"hosts": ["k1", "k2", "k3"]},
        },
        [(f"10.20.0.1{number}", number, "", []) for number in (1, 2, 3)],
    ),
    "as met: a secret in a vault, and an anchor": Case(
        {
            "hosts.yml": """all:
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
        },
        {f"k{number}": {"broker_id": number, "kafka_log_dirs": ["/d"], **VAULT} for number in (1, 2)},
        {"all": {"children": ["ungrouped", "kafka_broker"]}, "kafka_broker": {"hosts": ["k1", "k2"]}},
        [("k1", 1, "", ["/d"]), ("k2", 2, "", ["/d"])],
    ),
    "only the workers' header has a comment": Case(
        {
            "hosts.ini": """[kafka_broker]
k1 broker_id=1
k2 broker_id=2

[kafka_connect]  # workers
w1

[dc3]
k3 broker_id=3

[kafka_broker:children]
dc3   # the third site
"""
        },
        {f"k{number}": {"broker_id": number} for number in (1, 2, 3)},
        {
            "all": {"children": ["ungrouped", "kafka_broker", "kafka_connect"]},
            "dc3": {"hosts": ["k3"]},
            "kafka_broker": {"children": ["dc3"], "hosts": ["k1", "k2"]},
            "kafka_connect": {"hosts": ["w1"]},
        },
        [("k1", 1, "", []), ("k2", 2, "", []), ("k3", 3, "", [])],
    ),
    "racks as variables of other groups, one header with a comment": Case(
        {
            "hosts.ini": """[kafka_broker]
k1 broker_id=1
k2 broker_id=2
k3 broker_id=3

[rack_a]
k1
k3

[rack_b]
k2

[rack_a:vars]  # the old hall
rack=z

[rack_b:vars]
rack=b
"""
        },
        {
            "k1": {"broker_id": 1, "rack": "z"},
            "k2": {"broker_id": 2, "rack": "b"},
            "k3": {"broker_id": 3, "rack": "z"},
        },
        {
            "all": {"children": ["ungrouped", "kafka_broker", "rack_a", "rack_b"]},
            "kafka_broker": {"hosts": ["k1", "k2", "k3"]},
            "rack_a": {"hosts": ["k1", "k3"]},
            "rack_b": {"hosts": ["k2"]},
        },
        [("k2", 2, "b", []), ("k1", 1, "z", []), ("k3", 3, "z", [])],
    ),
    "variables in files beside the inventory": Case(
        {
            "hosts": "[kafka_broker]\nk1\nk2\n",
            "group_vars/kafka_broker.yml": "kafka_log_dirs: /data/1,/data/2\n",
            "host_vars/k1.yml": "ansible_host: 10.20.0.11\nbroker_id: 1\n",
            "host_vars/k2/main.yml": "broker_id: 2\n",
        },
        {
            "k1": {"ansible_host": "10.20.0.11", "broker_id": 1, "kafka_log_dirs": "/data/1,/data/2"},
            "k2": {"broker_id": 2, "kafka_log_dirs": "/data/1,/data/2"},
        },
        {"all": {"children": ["ungrouped", "kafka_broker"]}, "kafka_broker": {"hosts": ["k1", "k2"]}},
        [("10.20.0.11", 1, "", ["/data/1", "/data/2"]), ("k2", 2, "", ["/data/1", "/data/2"])],
    ),
    "a host of the brokers' group has its variables with ZooKeeper's group": Case(
        {
            "hosts.ini": """[zookeeper]
k1 ansible_host=10.20.0.11 broker_id=1 kafka_data_dir=/srv/kafka
z2 ansible_host=10.20.0.22

[kafka_broker]
k1
"""
        },
        {
            "k1": {"ansible_host": "10.20.0.11", "broker_id": 1, "kafka_data_dir": "/srv/kafka"},
            "z2": {"ansible_host": "10.20.0.22"},
        },
        {
            "all": {"children": ["ungrouped", "zookeeper", "kafka_broker"]},
            "kafka_broker": {"hosts": ["k1"]},
            "zookeeper": {"hosts": ["k1", "z2"]},
        },
        [("10.20.0.11", 1, "", ["/srv/kafka"])],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_ansible_printed_gives_the_brokers_of_the_inventory_and_nobody_else(case: Case) -> None:
    found = import_nodes(("hosts.json", json.dumps(case.listed)), [], Assumed())
    assert [
        (node["host"], node.get("id"), node.get("rack", ""), node.get("log_dirs", []))
        for node in found.document["brokers"]
    ] == case.brokers
    assert "zk_password" not in str(found)


@pytest.mark.skipif(shutil.which(COMMAND) is None, reason="Ansible is not installed")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_ansible_prints_what_was_recorded(case: Case, tmp_path: Path) -> None:
    for name, text in case.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    printed = json.loads(listed_by_ansible(tmp_path if "hosts" in case.files else tmp_path / next(iter(case.files)))[0])
    printed["_meta"].pop("profile", None)
    assert printed == case.listed
