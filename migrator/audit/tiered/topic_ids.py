"""Which topic has which id, as each side of a migration says: what segments in tiered storage have to agree with.

In:   a cluster's ZooKeeper, a directory with a metadata log, or both.
Out:  names by ids, by side; what two sides say otherwise of one topic id.
Elsewhere: the segments that are compared with them (segments.py).
Rules: an id that no side knows is a deletion, over or not (R-405-06). One that only one of two sides knows, or that has
another name, is a problem. In dual-write ZooKeeper may be a moment behind: what is still so at the next look counts.
Source: KIP-405 (R-405-02); Kafka 3.9 `TopicIdPartition`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from migrator.audit.log_source import CommittedRecords, read_directory
from migrator.audit.zk_source import topic_names, topic_reads
from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.wire.messages.metadata import RemoveTopicRecord, TopicRecord
from migrator.wire.primitives import uuid_text
from migrator.zk.pipeline import CONSIDERATE
from migrator.zk.session import ZkSession

Sides = Mapping[str, Mapping[str, str]]
"""Names by topic ids, by the side that says so. Empty: nobody was asked."""


def sides_of(zookeeper: str | None, kraft: Path | None) -> Sides:
    """zookeeper: a connect string. kraft: a metadata log directory. None: not asked. Raises Z2K-5001."""
    found: dict[str, Mapping[str, str]] = {}
    if zookeeper is not None:
        found["ZooKeeper"] = topics_by_id(zookeeper)
    if kraft is not None:
        found["the metadata log"] = topics_of_log(kraft)
    return found


def topics_by_id(zookeeper: str) -> dict[str, str]:
    """Names of a cluster's topics by their ids, as ZooKeeper has them. A topic without an id is left out.

    Raises Z2K-5001 for a topic that cannot be read: its segments would look like those of a deleted one.
    """
    with ZkSession(zookeeper) as session:
        rows = [each.topic for each in topic_reads(session, topic_names(session), CONSIDERATE)]
    for each in rows:
        if each.problem:
            raise AUDIT_CANNOT_READ.error(what=f"topic {each.key}", reason=each.problem)
    return {str(each.facts["id"]): each.key for each in rows if each.facts is not None and each.facts["id"]}


def topics_of_log(directory: Path) -> dict[str, str]:
    """The same, as the committed records of a metadata log say, its snapshot included. Raises Z2K-5001."""
    found: dict[str, str] = {}
    for record in read_directory(directory, CommittedRecords()):
        match record:
            case TopicRecord():
                found[uuid_text(record.topic_id)] = record.name
            case RemoveTopicRecord():
                found.pop(uuid_text(record.topic_id), None)
            case _:
                pass
    return found


def names_of(sides: Sides, topic_id: str) -> set[str]:
    """What a topic id is called; nothing: no side knows it."""
    return {names[topic_id] for names in sides.values() if topic_id in names}


def side_problems(sides: Sides, name: str, topic_id: str) -> Iterator[str]:
    """What does not fit where remote storage has segments of this id under this name."""
    known = names_of(sides, topic_id)
    for side, names in sides.items():
        called = names.get(topic_id)
        if called is None and known:
            yield f"{side} has no topic id {topic_id}, which the other side has"
        elif called is not None and called != name:
            yield f"{side} calls topic id {topic_id} {called}"
