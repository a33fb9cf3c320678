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

import msgspec

from migrator.findings.finding import Occurrence, words_of
from migrator.findings.fleet import IMPORT_CONTRADICTS, IMPORT_INCOMPLETE, IMPORT_PLACEHOLDER, INVENTORY_UNREADABLE
from migrator.fleet.cluster_facts import NOT_SAID, cluster_facts, is_unfilled
from migrator.fleet.inventory import FilePath, Host, NodeId, Text
from migrator.fleet.properties_file import Document, names_in
from migrator.fleet.strict_yaml import YamlRefused, load_yaml
from migrator.fleet.takeover_settings import forbidding_findings

BROKER_GROUPS: Final = ("kafka_broker", "kafka_brokers", "kafka", "brokers", "broker")
CONTROLLER_GROUPS: Final = ("kafka_controller", "kafka_controllers", "kraft_controller", "controllers", "controller")
ID_VARIABLES: Final = ("broker_id", "kafka_broker_id", "node_id", "kafka_node_id")
RACK_VARIABLES: Final = ("rack", "kafka_rack", "broker_rack", "kafka_broker_rack")
LOG_DIR_VARIABLES: Final = ("log_dirs", "kafka_log_dirs", "kafka_data_dir", "kafka_data_dirs")
HOSTS_MAX: Final = 10_000
_RANGE: Final = re.compile(r"\[([0-9]+|[a-z]):([0-9]+|[a-z])(?::([0-9]+))?\]")

Variables = Mapping[str, Any]
Node = dict[str, Any]


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
    nodes: dict[str, list[Node]] = {"brokers": [], "controllers": []}
    if ansible is not None:
        found = _read_ansible(*ansible)
        for role, usual in (("brokers", BROKER_GROUPS), ("controllers", CONTROLLER_GROUPS)):
            wanted = (groups or {}).get(role)
            names = (wanted,) if wanted else tuple(name for name in usual if name in found)[:1]
            nodes[role] = [_of_host(host, variables) for name in names for host, variables in _hosts(found, name)]
    documents: dict[str, list[Document]] = {"brokers": [], "controllers": []}
    findings: list[Occurrence] = []
    for document in files:
        role = "controllers" if "controller" in names_in(document.value("process.roles")) else "brokers"
        documents[role].append(document)
        _merge(nodes[role], _of_file(document, findings), findings)
        findings += forbidding_findings(document) if role == "brokers" else ()
    _one_id_once([*nodes["brokers"], *nodes["controllers"]], findings)
    for role, file in (("brokers", assumed.broker_file), ("controllers", assumed.controller_file)):
        for node in nodes[role]:
            node.setdefault("properties", file)
        nodes[role].sort(key=lambda node: (str(node.get("rack", "")), node.get("id", 1 << 31)))
        findings += _not_accepted(role, nodes[role])
    facts = cluster_facts(documents["brokers"], documents["controllers"])
    result = {
        "version": 1,
        "cluster": {
            "name": assumed.name,
            "zookeeper": facts.zookeeper,
            "bootstrap_servers": ",".join(dict.fromkeys(each[ADDRESS] for each in nodes["brokers"] if ADDRESS in each)),
            "quorum": facts.quorum,
        },
        "actuator": {"kind": "manual", "exchange": assumed.exchange},
        **{role: [_in_order(node) for node in found] for role, found in nodes.items()},
    }
    lacking = _lacking(result, nodes, facts.named)
    return Imported(result, (*lacking, *facts.findings, *findings))


# --- properties files -------------------------------------------------------------------------------------

FILE: Final = "_file"
ADDRESS: Final = "_address"
UNFILLED: Final = "_unfilled"
"""Of a node while it is put together: its own file, host and port of its first listener, and findings by field."""
ANY_HOST: Final = ("", "0.0.0.0", "::")


def _of_file(document: Document, findings: list[Occurrence]) -> Node:
    """The file's own name is no path on the node, so it is not taken."""
    node: Node = {FILE: document.name, UNFILLED: {}}

    def value(key: str, name: str) -> str:
        found = document.value(key) or ""
        if is_unfilled(found):
            node[UNFILLED].setdefault(name, {"file": document.name, "key": key, "value": found})
            return ""
        return found

    ids = {key: own for key in ("node.id", "broker.id") if (own := value(key, "id"))}
    if len(set(ids.values())) > 1:
        findings.append(
            IMPORT_CONTRADICTS.found(
                file=document.name,
                key="node.id",
                value=ids["node.id"],
                other=f"broker.id of {document.name}",
                present=ids["broker.id"],
            )
        )
    elif ids and (own := next(iter(ids.values()))).isdecimal():
        node["id"] = int(own)
    if rack := value("broker.rack", "rack"):
        node["rack"] = rack
    if directories := names_in(value("log.dirs" if document.value("log.dirs") else "log.dir", "log_dirs")):
        node["log_dirs"] = list(directories)
    if metadata := value("metadata.log.dir", "metadata_log_dir"):
        node["metadata_log_dir"] = metadata
    key = "advertised.listeners" if document.value("advertised.listeners") else "listeners"
    for entry in names_in(document.value(key)):
        address = entry.partition("://")[2]
        host = address.rpartition(":")[0].strip("[]")
        if is_unfilled(address):
            node[UNFILLED].setdefault("host", {"file": document.name, "key": key, "value": entry})
        elif host not in ANY_HOST:
            node["host"], node[ADDRESS] = host, address
            break
    return node


def _merge(nodes: list[Node], node: Node, findings: list[Occurrence]) -> None:
    """Into the host of that id or name; the file of a node knows more about it than Ansible does.

    Two files are two nodes, whatever they say.
    """
    candidates = [each for each in nodes if _is_same(each, node)]
    free = [each for each in candidates if FILE not in each]
    if len(candidates) == 1 and free:
        (present,) = free
        unfilled = {**present.get(UNFILLED, {}), **node[UNFILLED]}
        present.update({key: value for key, value in node.items() if key != "host" or "host" not in present})
        present[UNFILLED] = unfilled
        return
    for other in candidates:
        if FILE in other and "id" not in node and other.get(ADDRESS) == node.get(ADDRESS):
            findings.append(
                IMPORT_CONTRADICTS.found(
                    file=node[FILE],
                    key="advertised.listeners",
                    value=node.get(ADDRESS, NOT_SAID),
                    other=other[FILE],
                    present="the same, and one of both files has no id",
                )
            )
            break
    nodes.append(node)


def _is_same(present: Node, node: Node) -> bool:
    ids = [each["id"] for each in (present, node) if "id" in each]
    if len(ids) == 2:
        return bool(ids[0] == ids[1])
    return present.get("host") is not None and present.get("host") == node.get("host")


def _one_id_once(nodes: Iterable[Node], findings: list[Occurrence]) -> None:
    """Brokers and controllers share one namespace of ids."""
    first: dict[int, str] = {}
    for node in nodes:
        name = node.get(FILE) or f"the inventory of Ansible ({node.get('host')})"
        if "id" in node and first.setdefault(node["id"], name) != name:
            findings.append(
                IMPORT_CONTRADICTS.found(
                    file=name, key="id", value=node["id"], other=first[node["id"]], present="the same of another node"
                )
            )


def _in_order(node: Node) -> dict[str, Any]:
    order = ("id", "host", "rack", "properties", "log_dirs", "metadata_log_dir", "unit", "container")
    return {key: node[key] for key in order if key in node}


def _not_accepted(role: str, nodes: Iterable[Node]) -> Iterator[Occurrence]:
    """What `inventory check` would refuse is left out and named."""
    for number, node in enumerate(nodes):
        for name, kind in _KINDS.items():
            if name not in node:
                continue
            try:
                msgspec.convert(node[name], kind)
            except msgspec.ValidationError as error:
                node.setdefault(REFUSED, set()).add(name)
                reason = f"{node.pop(name)!r} is not accepted there ({words_of(error)})"
                yield IMPORT_INCOMPLETE.found(where=f"{role}[{number}].{name}", reason=reason)


REFUSED: Final = "_refused"
_KINDS: Final[Mapping[str, Any]] = {
    "id": NodeId,
    "host": Host,
    "rack": Text,
    "log_dirs": tuple[FilePath, ...],
    "metadata_log_dir": FilePath,
}


def _lacking(document: dict[str, Any], nodes: Mapping[str, list[Node]], named: set[str]) -> Iterator[Occurrence]:
    cluster = document["cluster"]
    for key in ("zookeeper", "bootstrap_servers"):
        if not cluster[key] and f"cluster.{key}" not in named:
            yield IMPORT_INCOMPLETE.found(where=f"cluster.{key}", reason="no file names it")
    if not cluster["quorum"]["voters"] and "cluster.quorum.voters" not in named:
        reason = "no file has controller.quorum.voters; name the controllers that are to be"
        yield IMPORT_INCOMPLETE.found(where="cluster.quorum.voters", reason=reason)
    for role, found in nodes.items():
        if not found:
            yield IMPORT_INCOMPLETE.found(where=role, reason="no group and no file has one")
        for number, node in enumerate(found):
            yield from _lacking_of(node, f"{role}[{number}]")


def _lacking_of(node: Node, place: str) -> Iterator[Occurrence]:
    """A placeholder is named only where nothing else says what it stands for."""
    unfilled: Mapping[str, Mapping[str, str]] = node.get(UNFILLED, {})
    for name, values in unfilled.items():
        if name not in node:
            yield IMPORT_PLACEHOLDER.found(where=f"{place}.{name}", **values)
    own = node.get(FILE)
    for name, reason in (
        ("id", "neither the inventory nor a file has its id"),
        ("host", "no file has a listener with a host"),
        ("log_dirs", f"{own} has neither log.dirs nor log.dir" if own else "no file of this node was given"),
    ):
        if name not in node and name not in unfilled and name not in node.get(REFUSED, ()):
            yield IMPORT_INCOMPLETE.found(where=f"{place}.{name}", reason=reason)


# --- Ansible ----------------------------------------------------------------------------------------------


def _of_host(name: str, variables: Variables) -> Node:
    node: Node = {"host": str(variables.get("ansible_host", name))}
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
