"""An inventory made from what is there: an Ansible inventory, and copies of server.properties files.

In:   texts of files. Out: a document (not yet an `Inventory`), and a finding for each thing that the files do not say.
Elsewhere: reading files and writing YAML (api/commands/fleet.py), the check of the result (inventory.py).
Rules: nothing is guessed that could cost data: a broker without a directory has none in the result. What is assumed,
such as the path of a file, is an argument.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from migrator.findings.finding import Occurrence, words_of
from migrator.findings.fleet import IMPORT_INCOMPLETE, INVENTORY_UNREADABLE
from migrator.fleet.properties_file import Document, names_in
from migrator.fleet.strict_yaml import YamlRefused, load_yaml
from migrator.fleet.takeover_settings import forbidding_findings
from migrator.model.connect_string import chroot_of, servers_of

BROKER_GROUPS: Final = ("kafka_broker", "kafka_brokers", "kafka", "brokers", "broker")
CONTROLLER_GROUPS: Final = ("kafka_controller", "kafka_controllers", "kraft_controller", "controllers", "controller")
ID_VARIABLES: Final = ("broker_id", "kafka_broker_id", "node_id", "kafka_node_id")
RACK_VARIABLES: Final = ("rack", "kafka_rack", "broker_rack", "kafka_broker_rack")
LOG_DIR_VARIABLES: Final = ("log_dirs", "kafka_log_dirs", "kafka_data_dir", "kafka_data_dirs")
HOSTS_MAX: Final = 10_000
_RANGE: Final = re.compile(r"\[([0-9]+|[a-z]):([0-9]+|[a-z])(?::([0-9]+))?\]")

Variables = Mapping[str, Any]


@dataclass
class _Group:
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Assumed:
    """What no file says. exchange: of the actuator `manual`, which an imported inventory begins with."""

    name: str = "kafka"
    broker_file: str = "/etc/kafka/server.properties"
    controller_file: str = "/etc/kafka/controller.properties"
    exchange: str = "/var/lib/zk2kraft/exchange"


@dataclass(frozen=True, slots=True)
class Imported:
    document: dict[str, Any]
    findings: tuple[Occurrence, ...]


def import_nodes(
    ansible: tuple[str, str] | None,
    files: Iterable[Document],
    assumed: Assumed,
    groups: Mapping[str, str] | None = None,
) -> Imported:
    """ansible: name and text of an inventory, YAML or INI. files: properties files, one per node.

    groups: of Ansible, for `brokers` and `controllers`, when their names are not usual ones. Raises Z2K-7001.
    """
    nodes: dict[str, list[dict[str, Any]]] = {"brokers": [], "controllers": []}
    if ansible is not None:
        found = _read_ansible(*ansible)
        for role, usual in (("brokers", BROKER_GROUPS), ("controllers", CONTROLLER_GROUPS)):
            wanted = (groups or {}).get(role)
            names = (wanted,) if wanted else tuple(name for name in usual if name in found)[:1]
            nodes[role] = [_of_host(host, variables) for name in names for host, variables in _hosts(found, name)]
    said: dict[str, str] = {}
    forbidden: list[Occurrence] = []
    for document in files:
        role = "controllers" if "controller" in names_in(document.value("process.roles")) else "brokers"
        _merge(nodes[role], _of_file(document))
        forbidden += forbidding_findings(document) if role == "brokers" else ()
        said |= {key: value for key in _CLUSTER if (value := document.value(key))}
    for role, file in (("brokers", assumed.broker_file), ("controllers", assumed.controller_file)):
        for node in nodes[role]:
            node.setdefault("properties", file)
        nodes[role].sort(key=lambda node: (str(node.get("rack", "")), node.get("id", 1 << 31)))
    result = {
        "version": 1,
        "cluster": _cluster(assumed.name, said, nodes["brokers"]),
        "actuator": {"kind": "manual", "exchange": assumed.exchange},
        **{role: [_in_order(node) for node in found] for role, found in nodes.items()},
    }
    return Imported(result, (*_lacking(result), *forbidden))


# --- properties files -------------------------------------------------------------------------------------

_CLUSTER: Final = (
    "zookeeper.connect",
    "controller.quorum.voters",
    "inter.broker.protocol.version",
    "controller.listener.names",
)


def _of_file(document: Document) -> dict[str, Any]:
    """The file's own name is no path on the node, so it is not taken."""
    node: dict[str, Any] = {}
    own = document.value("node.id") or document.value("broker.id") or ""
    if own.isdecimal():
        node["id"] = int(own)
    if rack := document.value("broker.rack"):
        node["rack"] = rack
    if directories := names_in(document.value("log.dirs") or document.value("log.dir")):
        node["log_dirs"] = list(directories)
    if metadata := document.value("metadata.log.dir"):
        node["metadata_log_dir"] = metadata
    for entry in names_in(document.value("advertised.listeners") or document.value("listeners")):
        host = entry.partition("://")[2].rpartition(":")[0].strip("[]")
        if host and host != "0.0.0.0":
            node["host"] = host
            node["_address"] = entry.partition("://")[2]
            break
    return node


def _merge(nodes: list[dict[str, Any]], node: dict[str, Any]) -> None:
    """Into the host of that id or name; the file of a node knows more about it than Ansible does."""
    for present in nodes:
        same_id = node.get("id") is not None and present.get("id") == node.get("id")
        same_host = present.get("id") is None and present.get("host") == node.get("host")
        if same_id or same_host:
            present.update({key: value for key, value in node.items() if key != "host" or "host" not in present})
            return
    nodes.append(node)


def _cluster(name: str, said: Mapping[str, str], brokers: list[dict[str, Any]]) -> dict[str, Any]:
    quorum: dict[str, Any] = {"voters": said.get("controller.quorum.voters", "")}
    if listener := names_in(said.get("controller.listener.names")):
        quorum["listener"] = listener[0].upper()
    if version := said.get("inter.broker.protocol.version"):
        quorum["metadata_version"] = version
    servers = [node["_address"] for node in brokers if "_address" in node]
    return {
        "name": name,
        "zookeeper": _without_spaces(said.get("zookeeper.connect", "")),
        "bootstrap_servers": ",".join(servers),
        "quorum": quorum,
    }


def _without_spaces(connect: str) -> str:
    """As the inventory takes a connect string; ZooKeeper's client passes over spaces and empty servers."""
    return ",".join(servers_of(connect)) + chroot_of(connect)


def _in_order(node: dict[str, Any]) -> dict[str, Any]:
    order = ("id", "host", "rack", "properties", "log_dirs", "metadata_log_dir", "unit", "container")
    return {key: node[key] for key in order if key in node}


def _lacking(document: dict[str, Any]) -> Iterator[Occurrence]:
    cluster = document["cluster"]
    for key in ("zookeeper", "bootstrap_servers"):
        if not cluster[key]:
            yield IMPORT_INCOMPLETE.found(where=f"cluster.{key}", reason="no file names it")
    if not cluster["quorum"]["voters"]:
        reason = "no file has controller.quorum.voters; name the controllers that are to be"
        yield IMPORT_INCOMPLETE.found(where="cluster.quorum.voters", reason=reason)
    for role in ("brokers", "controllers"):
        if not document[role]:
            yield IMPORT_INCOMPLETE.found(where=role, reason="no group and no file has one")
        for number, node in enumerate(document[role]):
            for key, reason in (
                ("id", "neither the inventory nor a file has its id"),
                ("host", "no file has a listener with a host"),
                ("log_dirs", "no file of this node was given"),
            ):
                if key not in node:
                    yield IMPORT_INCOMPLETE.found(where=f"{role}[{number}].{key}", reason=reason)


# --- Ansible ----------------------------------------------------------------------------------------------


def _of_host(name: str, variables: Variables) -> dict[str, Any]:
    node: dict[str, Any] = {"host": str(variables.get("ansible_host", name))}
    for key, usual in (("id", ID_VARIABLES), ("rack", RACK_VARIABLES), ("log_dirs", LOG_DIR_VARIABLES)):
        value = next((variables[each] for each in usual if each in variables), None)
        match key, value:
            case _, None:
                continue
            case "id", int() | str() if str(value).isdecimal():
                node["id"] = int(value)
            case "rack", _:
                node["rack"] = str(value)
            case "log_dirs", list():
                node["log_dirs"] = [str(each) for each in value]
            case "log_dirs", str():
                node["log_dirs"] = list(names_in(value))
    return node


def _hosts(groups: Mapping[str, _Group], name: str) -> Iterator[tuple[str, Variables]]:
    """Of a group and its children; a host's own variables win over its group's, and these over `all`'s."""
    found: dict[str, dict[str, Any]] = {}

    def walk(group: str, inherited: Variables, seen: frozenset[str]) -> None:
        here = groups.get(group)
        if here is None or group in seen:
            return
        variables = {**inherited, **here.variables}
        for host, own in here.hosts.items():
            found[host] = {**variables, **found.get(host, {}), **own}
        for child in here.children:
            walk(child, variables, seen | {group})

    everywhere = groups.get("all")
    walk(name, {} if everywhere is None else everywhere.variables, frozenset())
    for host, variables in found.items():
        own = {} if everywhere is None else everywhere.hosts.get(host, {})
        yield host, {**variables, **own}


def _read_ansible(name: str, text: str) -> dict[str, _Group]:
    try:
        if name.endswith((".yml", ".yaml", ".json")):
            return _from_yaml(load_yaml(text.encode()))
        return _from_ini(text)
    except (YamlRefused, ValueError) as error:
        raise INVENTORY_UNREADABLE.error(file=name, reason=words_of(error)) from error


def _from_yaml(document: Any) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}

    def walk(name: str, content: Any) -> None:
        group = groups.setdefault(name, _Group())
        if not isinstance(content, Mapping):
            return
        group.variables |= content.get("vars") or {}
        for pattern, own in (content.get("hosts") or {}).items():
            for host in _expanded(str(pattern)):
                group.hosts.setdefault(host, {}).update(own or {})
        for child, below in (content.get("children") or {}).items():
            group.children.append(str(child))
            walk(str(child), below)

    if not isinstance(document, Mapping):
        raise ValueError("it has no groups")
    for name, content in document.items():
        walk(str(name), content)
    return groups


def _from_ini(text: str) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    group, kind = groups.setdefault("ungrouped", _Group()), ""
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith(("#", ";")):
            continue
        if header := re.fullmatch(r"\[([^\]:]+)(?::(vars|children))?\]", line):
            group, kind = groups.setdefault(header[1], _Group()), header[2] or "hosts"
        elif kind == "vars":
            key, _, value = line.partition("=")
            group.variables[key.strip()] = value.strip().strip("\"'")
        elif kind == "children":
            group.children.append(line)
        else:
            host, *assignments = shlex.split(line, comments=True)
            own = dict(each.split("=", 1) for each in assignments if "=" in each)
            for each in _expanded(host):
                group.hosts.setdefault(each, {}).update(own)
    return groups


def _expanded(pattern: str) -> list[str]:
    """`kafka[01:03].example` is three hosts; `[a:c]` as well."""
    match = _RANGE.search(pattern)
    if match is None:
        return [pattern]
    first, last, step = match[1], match[2], int(match[3] or 1)
    if first.isdecimal() and last.isdecimal() and step:
        if int(last) - int(first) > HOSTS_MAX * step:
            raise ValueError(f"{pattern} is more than {HOSTS_MAX} hosts")
        width = len(first) if first.startswith("0") else 0
        names = [str(number).zfill(width) for number in range(int(first), int(last) + 1, step)]
    elif first.isalpha() and last.isalpha() and step:
        names = [chr(number) for number in range(ord(first), ord(last) + 1, step)]
    else:
        raise ValueError(f"{pattern} is no range of hosts")
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [host for name in names for host in _expanded(f"{before}{name}{after}")]
