"""An inventory made from what is there: an Ansible inventory, and copies of server.properties files.

In:   texts of files. Out: a document (not yet an `Inventory`), and a finding for each thing that the files do not say.
Elsewhere: the forms of Ansible (ansible.py), what files say of their cluster (cluster_facts.py), reading files and
writing YAML (api/commands/fleet.py), the check of the result (inventory.py).
Rules: nothing is guessed that could cost data: a broker without a directory has none in the result. What is assumed,
such as the path of a file, is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from migrator.findings.finding import Occurrence, words_of
from migrator.findings.fleet import IMPORT_CONTRADICTS, IMPORT_INCOMPLETE, IMPORT_PLACEHOLDER
from migrator.fleet.ansible import AnsibleHosts, parse_listed, text_of
from migrator.fleet.cluster_facts import NOT_SAID, cluster_facts
from migrator.fleet.inventory import FilePath, Host, NodeId, Text
from migrator.fleet.properties_file import Document, names_in
from migrator.fleet.takeover_settings import forbidding_findings
from migrator.fleet.unfilled import is_unfilled

BROKER_GROUPS: Final = ("kafka_broker", "kafka_brokers", "kafka", "brokers", "broker")
CONTROLLER_GROUPS: Final = ("kafka_controller", "kafka_controllers", "kraft_controller", "controllers", "controller")
ID_VARIABLES: Final = ("broker_id", "kafka_broker_id", "node_id", "kafka_node_id")
RACK_VARIABLES: Final = ("rack", "kafka_rack", "broker_rack", "kafka_broker_rack")
LOG_DIR_VARIABLES: Final = ("log_dirs", "kafka_log_dirs", "kafka_data_dir", "kafka_data_dirs")
PARENT_GROUPS: Final = frozenset({"kafka"})
"""Often above brokers and other software."""

Node = dict[str, Any]


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
    """ansible: name and text of what `ansible-inventory --list` printed. files: properties files, one per node.

    groups: of Ansible, for `brokers` and `controllers`, when their names are not usual ones. Raises Z2K-7049.
    """
    nodes: dict[str, list[Node]] = {"brokers": [], "controllers": []}
    findings: list[Occurrence] = []
    if ansible is not None:
        hosts = parse_listed(*ansible)
        for role in nodes:
            nodes[role] += _of_ansible(role, ansible[0], hosts, (groups or {}).get(role, ""), findings)
    documents: dict[str, list[Document]] = {"brokers": [], "controllers": []}
    for document in files:
        role = "controllers" if "controller" in names_in(document.value("process.roles")) else "brokers"
        documents[role].append(document)
        _merge(nodes[role], _of_file(document, findings), findings)
        findings += forbidding_findings(document) if role == "brokers" else ()
    findings += _one_id_once([*nodes["brokers"], *nodes["controllers"]])
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


def _one_id_once(nodes: Iterable[Node]) -> Iterator[Occurrence]:
    """Brokers and controllers share one namespace of ids."""
    first: dict[int, Node] = {}
    for node in nodes:
        if "id" in node and (other := first.setdefault(node["id"], node)) is not node:
            said = "the same of another node"
            yield IMPORT_CONTRADICTS.found(
                file=_name_of(node), key="id", value=node["id"], other=_name_of(other), present=said
            )


def _name_of(node: Node) -> str:
    return node.get(FILE) or f"the inventory of Ansible ({node.get('host')})"


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
    yield from _lacking_controllers(cluster["quorum"]["voters"], nodes["controllers"])
    yield from _lacking_paths(document)
    for role, found in nodes.items():
        if not found:
            yield IMPORT_INCOMPLETE.found(where=role, reason="no group and no file has one")
        for number, node in enumerate(found):
            yield from _lacking_of(node, f"{role}[{number}]")


def _lacking_controllers(voters: str, controllers: Iterable[Node]) -> Iterator[Occurrence]:
    """Every voter is a controller of the inventory, and the other way round; without any, that is said already."""
    named = {voter.partition("@")[0] for voter in voters.split(",") if voter}
    known = {str(node["id"]) for node in controllers if "id" in node}
    if not named or not known:
        return
    for voter in sorted(named - known):
        reason = f"controller.quorum.voters names {voter}, of which no file was given"
        yield IMPORT_INCOMPLETE.found(where="controllers", reason=reason)
    for other in sorted(known - named):
        reason = f"controller.quorum.voters does not name {other}, of which a file was given"
        yield IMPORT_INCOMPLETE.found(where="cluster.quorum.voters", reason=reason)


def _lacking_paths(document: dict[str, Any]) -> Iterator[Occurrence]:
    """Nodes of one host cannot all have the file that is assumed."""
    first: dict[tuple[str, str], str] = {}
    for role in ("brokers", "controllers"):
        for number, node in enumerate(document[role]):
            place, where = (node.get("host"), node["properties"]), f"{role}[{number}].properties"
            other = first.setdefault(place, where)
            if place[0] is not None and other != where:
                reason = f"{place[1]} on {place[0]} is assumed for {other}, too; each node has a file of its own"
                yield IMPORT_INCOMPLETE.found(where=where, reason=reason)


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


def _of_ansible(role: str, name: str, hosts: AnsibleHosts, wanted: str, findings: list[Occurrence]) -> Iterator[Node]:
    """wanted: a group; "" takes the first usual one. Hosts of another usual group are named, not taken."""
    usual = BROKER_GROUPS if role == "brokers" else CONTROLLER_GROUPS
    present = [group for group in ((wanted,) if wanted else usual) if group in hosts.groups]
    if wanted and not present:
        findings.append(IMPORT_INCOMPLETE.found(where=role, reason=f"{name} has no group {wanted}"))
    for group in present[1:]:
        more = [host for host in hosts.groups[group] if host not in hosts.groups[present[0]]]
        if more and group not in PARENT_GROUPS:
            reason = f"{name} has {', '.join(more)} in the group {group} only; --{role}-group says which group it is"
            findings.append(IMPORT_INCOMPLETE.found(where=role, reason=reason))
    for host in hosts.groups[present[0]] if present else ():
        yield _of_host(name, host, hosts.variables.get(host, {}))


def _of_host(name: str, host: str, variables: Mapping[str, Any]) -> Node:
    """What is encrypted, or has a template in it, is no value yet."""
    node: Node = {UNFILLED: {}}
    for key, usual in _VARIABLES.items():
        variable = next((each for each in usual if variables.get(each) is not None), None)
        if variable is None:
            continue
        given = variables[variable]
        texts = [text_of(each) for each in (given if key == "log_dirs" and isinstance(given, list) else [given])]
        known = [text for text in texts if text is not None and not is_unfilled(text)]
        if len(known) < len(texts):
            shown = next((text for text in texts if text is not None and is_unfilled(text)), "no plain text")
            node[UNFILLED][key] = {"file": name, "key": f"{variable} of {host}", "value": shown}
        elif key == "log_dirs":
            node[key] = [each for text in known for each in names_in(text)]
        elif key != "id":
            node[key] = known[0]
        elif known[0].isdecimal():
            node[key] = int(known[0])
    if "host" not in node[UNFILLED]:
        node.setdefault("host", host)
    return node


_VARIABLES: Final = {
    "host": ("ansible_host",),
    "id": ID_VARIABLES,
    "rack": RACK_VARIABLES,
    "log_dirs": LOG_DIR_VARIABLES,
}
