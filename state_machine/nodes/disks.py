"""What a broker's disks say before it is stopped and after it came back: stray directories and topic ids.

In:   a node of the fleet and the committed image. Out: findings; how much was read.
Elsewhere: when it is asked (rolling/kind.py, rolling/looks.py).
Rules: what cannot be read is said, and is no proof. Nothing is deleted, ever.
Source: Kafka 3.9 `LogManager.isStrayKraftReplica`, `PartitionMetadataFile`.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, replace
from typing import Final

from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.road import STRAY_DIRECTORIES, TOPIC_IDS_DIFFER
from migrator.fleet.connections.many import read_ahead
from migrator.model.image import Image
from state_machine.nodes.fleet import FleetNode

STRAY: Final = "-stray"
LOG_NAME: Final = re.compile(r"(.+)-([0-9]+)")
TOPIC_ID: Final = re.compile(r"(?m)^topic_id:\s*([A-Za-z0-9_-]{22})\s*$")
TOPICS_MAX: Final = 200
"""Of each directory one partition of so many topics is read: each read may be a command on another host."""


@dataclass(frozen=True, slots=True)
class DiskReading:
    """said: what was read, in words. trouble: None when nothing is amiss."""

    said: str
    trouble: Occurrence | None = None


def look_at_disks(node: FleetNode, image: Image, *, with_ids: bool) -> DiskReading:
    """Blocks on the host: two commands for all of its directories, where its template has one for many files."""
    stray: list[str] = []
    node = replace(node, actuator=read_ahead(node.actuator, node.node.log_dirs))
    logs: list[tuple[str, str]] = []
    checked = 0
    for directory in node.node.log_dirs:
        try:
            names = node.actuator.list(directory)
        except FindingError as error:
            return DiskReading(f"{directory} cannot be listed: {error.occurrence.text}")
        if names is None:
            return DiskReading(
                f"{directory} is not listed by this actuator: stray directories and topic ids are not checked"
            )
        stray += [f"{directory}/{name}" for name in names if name.endswith(STRAY)]
        logs += _one_of_each_topic(directory, names) if with_ids else []
    node = replace(node, actuator=read_ahead(node.actuator, [path for path, _ in logs]))
    for path, topic in logs:
        found = _topic_id(node, path)
        known = image.topic(topic)
        if found is None or known is None:
            continue  # a log that is being deleted, or one older than topic ids
        checked += 1
        if found != known.id:
            occurrence = TOPIC_IDS_DIFFER.found(node=node.name, path=path, found=_text(found), expected=_text(known.id))
            return DiskReading(f"{checked} topic ids read", occurrence)
    if stray:
        return DiskReading(
            f"{len(stray)} stray directories", STRAY_DIRECTORIES.found(node=node.name, directories=stray)
        )
    return DiskReading(f"no stray directory; {checked} topic ids equal" if with_ids else "no stray directory")


def _one_of_each_topic(directory: str, names: tuple[str, ...]) -> list[tuple[str, str]]:
    first: dict[str, str] = {}
    for name in names:
        match = LOG_NAME.fullmatch(name)
        if match is not None:
            first.setdefault(match[1], f"{directory}/{name}/partition.metadata")
    return [(path, topic) for topic, path in list(first.items())[:TOPICS_MAX]]


def _topic_id(node: FleetNode, path: str) -> bytes | None:
    try:
        content = node.actuator.read(path)
    except FindingError:
        return None
    match = None if content is None else TOPIC_ID.search(content.decode(errors="replace"))
    return None if match is None else base64.urlsafe_b64decode(match[1] + "==")


def _text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
