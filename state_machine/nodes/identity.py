"""Is this host the one of the inventory? What it says of itself, before the first act on it.

In:   a node of the fleet, the id of the cluster, its connect string. Out: what was compared, in words; what speaks
      against the end of a process.
Elsewhere: when it is asked (rolling/acts.py), ids that a file has beside its rules (migrator.fleet.render), the brokers
that the cluster has (policy/fleet_names.py).
Errors: Z2K-7056 with both values.
Rules: only a contradiction stops. What a host does not say is said, and is no proof. Only reads.
Source: Kafka 3.9 `MetaPropertiesEnsemble`, `kafka.Kafka.getPropsFromArgs`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import Final

from migrator.findings.finding import FindingError
from migrator.findings.fleet import ACT_FAILED, FILE_ABSENT, NODE_IS_ANOTHER, PROPERTIES_UNREADABLE
from migrator.fleet.actuator import ProcessState
from migrator.fleet.by_others import ByOthers
from migrator.fleet.files import Present, checksum_of
from migrator.fleet.properties_file import Document, has_placeholder, parse_properties
from migrator.model.connect_string import chroot_of
from state_machine.nodes.fleet import FleetNode
from state_machine.policy.fleet_evidence import BROKERS

META: Final = "meta.properties"
MAIN_CLASSES: Final = ("kafka.Kafka", "io.confluent.support.metrics.SupportedKafka")
IDS: Final = ("node.id", "broker.id")
OVERRIDE: Final = "--override"
NOT_SAID: Final = frozenset(each.code for each in (FILE_ABSENT, ACT_FAILED, PROPERTIES_UNREADABLE))
"""The host answers, and has no answer. A lost connection is no answer of the host: the act is repeated."""


def confirm(node: FleetNode, cluster_id: str | None, connect: str) -> str:
    """Blocks on the host. cluster_id: None while it is not known. Returns what was compared."""
    said = [_directories(node, cluster_id)]
    content = node.actuator.read(node.path)
    if content is not None:
        _file(node, Present(node.path, content).document, connect)
    said.append(_command(node, content, _running(node)))
    return "; ".join(said)


def not_ended(node: FleetNode, process: ProcessState, *, gone: bool) -> str:
    """Why its file is not written yet; empty when both sides say that it has ended.

    gone: the cluster does not count it as present. Nobody asks the host where a person acts. The log counts a stopped
    controller as present for 10 s more, and the only one takes the log along: there its host says it alone.
    """
    by_person = isinstance(node.actuator, ByOthers)
    if process is not ProcessState.STOPPED and not by_person:
        return f"its host does not say that it has ended ({process})"
    counted = node.role == BROKERS and not gone
    return "the cluster counts it as present, or does not say" if counted else ""


# --- its directories and its file -------------------------------------------------------------------------


def _directories(node: FleetNode, cluster_id: str | None) -> str:
    read = 0
    for directory in dict.fromkeys((*node.node.log_dirs, *filter(None, (node.node.metadata_log_dir,)))):
        path = f"{directory}/{META}"
        try:
            content = node.actuator.read(path)
            document = None if content is None else parse_properties(content, path)
        except FindingError as error:
            if error.code not in NOT_SAID:
                raise
            continue  # a directory that is empty or that fails is a matter of its broker
        if document is None:
            continue
        read += 1
        found = document.value("cluster.id")
        if cluster_id and found is not None and found != cluster_id:
            raise _another(node, path, "cluster.id", found, cluster_id)
        for key in IDS:
            _same_id(node, path, key, document.value(key))
    if not read:
        return f"no {META} was read, so whose directories these are is not known"
    known = (
        "are of this cluster and node" if cluster_id else f"are of node {node.id}; the id of the cluster is not known"
    )
    return f"{read} of its directories {known}"


def _file(node: FleetNode, document: Document, connect: str) -> None:
    """Two clusters of one ensemble differ in their chroot; a host has several names."""
    for key in IDS:
        _same_id(node, node.path, key, document.value(key))
    found = document.value("zookeeper.connect")
    if found and not has_placeholder(found) and chroot_of(found) != chroot_of(connect):
        raise _another(node, node.path, "the chroot of zookeeper.connect", chroot_of(found) or "/", chroot_of(connect))


def _same_id(node: FleetNode, where: str, key: str, found: str | None) -> None:
    """A generated id is in meta.properties alone."""
    if found is None or has_placeholder(found) or found.strip() == "-1":
        return
    if found.strip() != str(node.id):
        raise _another(node, where, key, found.strip(), str(node.id))


# --- its process ------------------------------------------------------------------------------------------


def _running(node: FleetNode) -> Sequence[str]:
    """The command line of its process; () where its host does not say it."""
    try:
        return node.actuator.status().command
    except FindingError as error:
        if error.code not in NOT_SAID:
            raise
        return ()


def _command(node: FleetNode, content: bytes | None, command: Sequence[str]) -> str:
    """A link to the file has its content. A file that the host does not have is one inside of a container."""
    for key, value in _overrides(command):
        if key in IDS:
            _same_id(node, "its command line", key, value)
    named = named_file(command)
    if named is None:
        return "the command line of its process is not known"
    if is_file_of(named, node.path):
        return "its process runs with this file"
    try:
        other = node.actuator.read(named)
    except FindingError as error:
        if error.code == FILE_ABSENT.code:
            return f"its process names {named}, which this host does not have"
        other = None
    if other is None or content is None or checksum_of(other) != checksum_of(content):
        raise _another(node, "the command line of its process", "the file", named, node.path)
    return f"its process runs with {named}, whose content is the same"


def named_file(command: Sequence[str]) -> str | None:
    """The properties file of a command line; None where no word is one."""
    words = [each for each in command if each]
    main = next((number for number, each in enumerate(words) if each in MAIN_CLASSES), None)
    if main is not None:
        return next((each for each in words[main + 1 :] if not each.startswith("-")), None)
    return next(
        (each for each in words[1:] if each.endswith(".properties") and each[0] != "-" and " " not in each), None
    )


def is_file_of(named: str, path: str) -> bool:
    """A relative one is relative to a directory that nobody knows: the end of the path has to be the same."""
    if named.startswith("/"):
        return posixpath.normpath(named) == posixpath.normpath(path)
    parts = [each for each in posixpath.normpath(named).split("/") if each != ".."]
    return posixpath.normpath(path).endswith("/" + "/".join(parts))


def _overrides(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """`--override key=value`, in one word or in two."""
    words = list(command)
    for number, word in enumerate(words):
        text = words[number + 1] if word == OVERRIDE and number + 1 < len(words) else ""
        text = word.removeprefix(f"{OVERRIDE}=") if word.startswith(f"{OVERRIDE}=") else text
        key, equals, value = text.partition("=")
        if equals:
            yield key.strip(), value


def _another(node: FleetNode, where: str, what: str, found: str | None, expected: str | None) -> FindingError:
    return NODE_IS_ANOTHER.error(node=node.name, where=where, what=what, found=found, expected=expected)
