"""What the properties files of all nodes say about their cluster: once where they agree, a finding where they do not.

In:   documents of brokers and of controllers.
Out:  `ClusterFacts`: the part `cluster` of an inventory without its name, and what contradicts itself or is not said.
Elsewhere: the nodes (importing.py), the rules of what is written (inventory.py).
Rules: no file wins over another one. What files contradict each other about is "" in the result, which
`inventory check` refuses, so that no default takes its place.
Source: Kafka 3.9 `KafkaConfig`, `MetadataVersion.fromVersionString`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from migrator.findings.finding import Occurrence, words_of
from migrator.findings.fleet import IMPORT_CONTRADICTS, IMPORT_INCOMPLETE, IMPORT_PLACEHOLDER
from migrator.fleet.inventory import Level
from migrator.fleet.properties_file import Document, names_in
from migrator.fleet.unfilled import is_unfilled
from migrator.model.connect_string import chroot_of, servers_of
from migrator.model.levels import level_of_release
from migrator.model.listeners import CONTROLLER_NAMES, LISTENERS, BadListeners, controller_names, protocols_of

IBP: Final = "inter.broker.protocol.version"
VOTERS: Final = "controller.quorum.voters"
CONNECT: Final = "zookeeper.connect"
MECHANISM: Final = "sasl.mechanism.controller.protocol"
SUPER_USERS: Final = "super.users"
DEFAULT_MECHANISM: Final = "GSSAPI"
NOT_SAID: Final = "not in the file"


class Said(NamedTuple):
    """file: who says it. value: as the inventory takes it. meaning: equal where two files mean the same."""

    file: str
    key: str
    value: str
    meaning: Hashable


@dataclass
class ClusterFacts:
    """quorum: without what no file says. named: places of the inventory that a finding names already."""

    zookeeper: str = ""
    quorum: dict[str, Any] = field(default_factory=dict)
    findings: list[Occurrence] = field(default_factory=list)
    named: set[str] = field(default_factory=set)


def cluster_facts(brokers: Sequence[Document], controllers: Sequence[Document]) -> ClusterFacts:
    """Each file belongs to one node; the first file that says something is the one that others are compared with."""
    facts = ClusterFacts()
    every = (*controllers, *brokers)
    facts.zookeeper = _zookeeper(facts, every)
    facts.quorum["voters"] = _agreed(facts, "cluster.quorum.voters", _voters(facts, every)) or ""
    _put(facts, "listener", _listeners(every))
    _protocol_and_mechanism(facts, brokers, controllers)
    facts.quorum["metadata_version"] = _metadata_version(facts, brokers)
    if users := _super_users(facts, every):
        facts.quorum["super_users"] = users
    return facts


def _value(facts: ClusterFacts, document: Document, key: str, where: str) -> str | None:
    """None, and a finding, for one that nobody has filled in."""
    value = document.value(key)
    if not value or not is_unfilled(value):
        return value or None
    facts.findings.append(IMPORT_PLACEHOLDER.found(file=document.name, where=where, key=key, value=value))
    facts.named.add(where)
    return None


def _agreed(facts: ClusterFacts, where: str, said: Iterable[Said]) -> str | None:
    """The one value; "" where the files contradict each other; None where no file says it."""
    every = list(said)
    if not every:
        return None
    others = [each for each in every if each.meaning != every[0].meaning]
    for each in others:
        _contradicts(facts, where, each, every[0])
    return "" if others else every[0].value


def _contradicts(facts: ClusterFacts, where: str, one: Said, first: Said) -> None:
    facts.named.add(where)
    facts.findings.append(
        IMPORT_CONTRADICTS.found(file=one.file, key=one.key, value=one.value, other=first.file, present=first.value)
    )


def _put(facts: ClusterFacts, name: str, said: Iterable[Said]) -> None:
    value = _agreed(facts, f"cluster.quorum.{name}", said)
    if value is not None:
        facts.quorum[name] = value


# --- one thing each ---------------------------------------------------------------------------------------


def _zookeeper(facts: ClusterFacts, documents: Iterable[Document]) -> str:
    """Files of one cluster have one chroot, and servers in common; the servers of all of them are taken."""
    where = "cluster.zookeeper"
    servers: list[str] = []
    first: Said | None = None
    for document in documents:
        value = _value(facts, document, CONNECT, where)
        if value is None:
            continue
        mine, chroot = servers_of(value), chroot_of(value)
        said = Said(document.name, CONNECT, ",".join(mine) + chroot, chroot)
        if first is None:
            first, servers = said, list(mine)
        elif said.meaning != first.meaning or not {*map(str.lower, mine)} & {*map(str.lower, servers)}:
            _contradicts(facts, where, said, first)
        else:
            servers += mine
    if first is None or where in facts.named:
        return ""
    return ",".join(dict.fromkeys(servers)) + str(first.meaning)


def _voters(facts: ClusterFacts, documents: Iterable[Document]) -> Iterator[Said]:
    for document in documents:
        if value := _value(facts, document, VOTERS, "cluster.quorum.voters"):
            voters = names_in(value)
            yield Said(document.name, VOTERS, ",".join(voters), frozenset(voters))


def _listeners(documents: Iterable[Document]) -> Iterator[Said]:
    for document in documents:
        if name := _controller_listener(document):
            yield Said(document.name, CONTROLLER_NAMES, name, name)


def _controller_listener(document: Document) -> str:
    """In capitals. A controller's file that names none listens there only."""
    names = names_in(document.value(CONTROLLER_NAMES))
    if not names and document.value("process.roles"):
        names = tuple(entry.partition(":")[0] for entry in names_in(document.value(LISTENERS)))
    return names[0].upper() if names and not is_unfilled(names[0]) else ""


def _protocol_and_mechanism(facts: ClusterFacts, brokers: Sequence[Document], controllers: Sequence[Document]) -> None:
    """Controllers' files say how controllers are reached. A broker's file that has a word about it has to agree."""
    said = [*_protocols(facts, controllers), *_protocols(facts, brokers)]
    protocol = _agreed(facts, "cluster.quorum.protocol", said)
    facts.quorum["protocol"] = protocol or ""
    if protocol is None and "cluster.quorum.protocol" not in facts.named:
        reason = "no file says on which protocol the controllers listen; their files do"
        facts.findings.append(IMPORT_INCOMPLETE.found(where="cluster.quorum.protocol", reason=reason))
    if (protocol or "").startswith("SASL"):
        _put(facts, "sasl_mechanism", _mechanisms(facts, brokers, controllers))


def _protocols(facts: ClusterFacts, documents: Iterable[Document]) -> Iterator[Said]:
    where = "cluster.quorum.protocol"
    for document in documents:
        name = _controller_listener(document)
        is_controller = bool(document.value("process.roles"))
        if not name and not is_controller:
            continue
        given = {**document.values}
        given[CONTROLLER_NAMES] = ",".join(controller_names(given)) or name
        try:
            protocols = {known.strip().upper(): protocol for known, protocol in protocols_of(given).items()}
        except BadListeners as error:
            reason = f"{document.name}: {error.key}: {error.reason}"
            facts.findings.append(IMPORT_INCOMPLETE.found(where=where, reason=reason))
            facts.named.add(where)
            continue
        if name in protocols:
            yield Said(document.name, f"protocol of {name}", protocols[name].name, protocols[name])
        elif is_controller:
            reason = f"{document.name} has no protocol for its listener {name}"
            facts.findings.append(IMPORT_INCOMPLETE.found(where=where, reason=reason))
            facts.named.add(where)


def _mechanisms(facts: ClusterFacts, brokers: Iterable[Document], controllers: Iterable[Document]) -> Iterator[Said]:
    for assumed, documents in ((DEFAULT_MECHANISM, controllers), ("", brokers)):
        for document in documents:
            value = _value(facts, document, MECHANISM, "cluster.quorum.sasl_mechanism") or assumed
            if value:
                yield Said(document.name, MECHANISM, value, value)


def _metadata_version(facts: ClusterFacts, brokers: Sequence[Document]) -> str:
    """Of brokers' files; a controller does not read it. A file without it follows the installed software."""
    where = "cluster.quorum.metadata_version"
    said = [each for document in brokers if (each := _said_level(facts, document, where)) is not None]
    said.sort(key=lambda each: each.value == NOT_SAID)
    if said and said[0].value != NOT_SAID:
        return _accepted_level(facts, where, _agreed(facts, where, said) or "")
    if where not in facts.named:
        reason = f"no broker's file has {IBP}, so each broker has the level of its software; fill in that level"
        facts.findings.append(IMPORT_INCOMPLETE.found(where=where, reason=reason))
    return ""


def _accepted_level(facts: ClusterFacts, where: str, level: str) -> str:
    """What `inventory check` would refuse is left out and named, as of nodes."""
    try:
        return msgspec.convert(level, Level) if level else ""
    except msgspec.ValidationError as error:
        facts.named.add(where)
        reason = f"{level!r} is not accepted there ({words_of(error)}); brokers are migrated from level 3.4 on"
        facts.findings.append(IMPORT_INCOMPLETE.found(where=where, reason=reason))
        return ""


def _said_level(facts: ClusterFacts, document: Document, where: str) -> Said | None:
    if not document.value(IBP):
        return Said(document.name, IBP, NOT_SAID, NOT_SAID)
    value = _value(facts, document, IBP, where)
    if value is None:
        return None
    segments = value.split(".")
    release = value if segments[0] == "0" else ".".join(segments[:2])
    return Said(document.name, IBP, release, level_of_release(release) or release)


def _super_users(facts: ClusterFacts, documents: Iterable[Document]) -> list[str]:
    """Of all files: each of them may act on the cluster today."""
    found: dict[str, None] = {}
    for document in documents:
        value = _value(facts, document, SUPER_USERS, "cluster.quorum.super_users")
        found |= dict.fromkeys(names_in(value, ";"))
    return list(found)
