"""Would this full send destroy anything? Asked of the encoded bytes, right before they leave.

In:   the orders of a full send, and what each broker said it has (its logs, and the topics it knows with their ids).
Out:  one finding per log or topic that the bytes leave out or give another id; nothing is sent while there is one.
Elsewhere: asking the brokers (node.brokers.survey), the orders (update_requests.py).
Why: a broker moves aside every log that a FULL LeaderAndIsr does not name, and forgets every topic, with its
committed offsets, that a FULL UpdateMetadata does not name (F-31). The bytes are decoded again, so that neither the
image nor the encoder is believed. Bytes that leave for several brokers are decoded once, and compared with each.
A topic that was deleted and made again has the protection that it had: what the log took away is known by its id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from migrator.driver.update_requests import LEADER_AND_ISR, UPDATE_METADATA, VERSIONS, BrokerUpdate, UpdateKind
from migrator.findings.driver import FULL_SEND_INCOMPLETE
from migrator.findings.finding import Occurrence
from migrator.model.image import Image
from migrator.model.values import Topic
from migrator.wire.codec import decode_each
from migrator.wire.messages.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from migrator.wire.primitives import ZERO_UUID

NO_TOPIC_ID: Final = "the broker knows no topic id for them"
OTHER_TOPIC_ID: Final = "the broker has them under another topic id"

IDS_READ: Final = frozenset({"topic_states.topic_name", "topic_states.topic_id"})
LOGS_READ: Final = IDS_READ | {"topic_states.partition_states.partition_index"}
REPLICAS_READ: Final = LOGS_READ | {"topic_states.partition_states.replicas"}
"""What is asked of the bytes. The rest is stepped over by its size: it says nothing of what a broker loses."""

Deleted = Mapping[str, Collection[bytes]]
"""What the log took away: names of topics, to the ids that they had. ZERO_UUID among them: an id that nobody noted."""
NOTHING_DELETED: Final[Deleted] = {}

Logs = Mapping[str, frozenset[int]]
"""Topic to the partitions of it."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What one broker has. logs: every replica on its disks. topics: name to topic id."""

    broker: int
    logs: Logs = field(default_factory=dict)
    topics: Mapping[str, bytes] = field(default_factory=dict)


class TopicsShared:
    """One mapping in the place of equal ones: nearly all brokers know the same topics, with the same ids."""

    def __init__(self) -> None:
        self._newest: Mapping[str, bytes] = {}

    def same(self, topics: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """These topics, as the mapping that another broker's survey has already if it is equal."""
        if topics != self._newest:
            self._newest = topics
        return self._newest


def logs_by_topic(logs: Iterable[tuple[str, Iterable[int]]]) -> Logs:
    """A topic may come more than once. Equal sets of partitions are one value: of a million logs there are few."""
    shared: dict[frozenset[int], frozenset[int]] = {}
    found: dict[str, frozenset[int]] = {}
    for topic, partitions in logs:
        all_of_it = found.get(topic, frozenset()).union(partitions)
        found[topic] = shared.setdefault(all_of_it, all_of_it)
    return found


def _one_by_one(logs: Logs) -> list[tuple[str, int]]:
    return sorted((topic, partition) for topic, partitions in logs.items() for partition in partitions)


def check_full_send(
    updates: Iterable[BrokerUpdate],
    surveys: Mapping[int, Survey],
    deleted: Deleted = NOTHING_DELETED,
    removed: Collection[tuple[int, str, int]] = (),
    *,
    after_fail_over: bool = False,
) -> list[Occurrence]:
    """Everything that these orders would destroy; empty when they may leave.

    deleted:         topics that the log removed; leaving those out is right.
    removed:         broker, topic, partition of replicas that a reassignment took away; the broker may not know yet.
    after_fail_over: not right after the copy. Then a broker may have logs of a topic that it does not know yet: it has
        just started, or the leader that died had assigned them to it and did not come to the rest.
    """
    found: list[Occurrence] = []
    full = [update for update in dict.fromkeys(updates) if update.kind is UpdateKind.FULL]  # one may leave twice
    named = _decoded_once(full, deleted)
    beside = {update.broker: named[update.shared] for update in full if update.api_key == UPDATE_METADATA}
    for update in full:
        survey = surveys.get(update.broker)
        if survey is None:
            reason = "it was not asked what it has"
            found.append(FULL_SEND_INCOMPLETE.found(broker=update.broker, what="everything", reason=reason))
        elif update.api_key == LEADER_AND_ISR:
            metadata = beside.get(update.broker, _NOTHING_NAMED)
            found += _check_logs(update, survey, metadata, deleted, removed, after_fail_over)
        elif update.api_key == UPDATE_METADATA:
            found += _check_topics(survey, named[update.shared], deleted)
    return found


@dataclass(frozen=True, slots=True)
class _Named:
    """What a FULL UpdateMetadata says. ids: by topic. replicas: by partition, of topics whose name was once deleted."""

    ids: Mapping[str, bytes]
    replicas: Mapping[str, Mapping[int, Collection[int]]]


_NOTHING_NAMED: Final = _Named({}, {})


def _decoded_once(full: Iterable[BrokerUpdate], deleted: Deleted) -> dict[bytes, _Named]:
    """What each FULL UpdateMetadata says, by its bytes. Those that leave differ from them in the epoch alone."""
    bodies = dict.fromkeys(update.shared for update in full if update.api_key == UPDATE_METADATA)
    return {body: _named_in(body, deleted) for body in bodies}


def _named_in(body: bytes, deleted: Deleted) -> _Named:
    ids: dict[str, bytes] = {}
    replicas: dict[str, Mapping[int, Collection[int]]] = {}

    def take(topic: UpdateMetadataTopicState) -> None:
        ids[topic.topic_name] = topic.topic_id
        if topic.topic_name in deleted:
            replicas[topic.topic_name] = {each.partition_index: each.replicas for each in topic.partition_states}

    wanted = REPLICAS_READ if deleted else IDS_READ
    decode_each(UpdateMetadataRequest, VERSIONS[UPDATE_METADATA], body, "topic_states", take, wanted)
    return _Named(ids, replicas)


def is_deleted(deleted: Deleted, name: str, known: bytes, now: bytes = ZERO_UUID) -> bool:
    """Whether the log took away what a broker has under this name.

    known: the topic id under which the broker has it, ZERO_UUID if it does not say. Then only the name can tell.
    now:   the id that the name has by the log, ZERO_UUID if none.
    """
    ids = deleted.get(name, ())
    if known == ZERO_UUID:
        return bool(ids)
    return known in ids or (ZERO_UUID in ids and known != now)


@dataclass(frozen=True, slots=True)
class Guarded:
    """Orders of full sends that were compared with what their brokers have. findings: what they would destroy."""

    updates: tuple[BrokerUpdate, ...]
    findings: tuple[Occurrence, ...]

    def against(self, broker: int) -> list[Occurrence]:
        """Why this broker must not get its orders."""
        return [finding for finding in self.findings if finding.values["broker"] == broker]

    def leaving(self) -> list[BrokerUpdate]:
        """Orders of the brokers against which there is no finding."""
        refused = {finding.values["broker"] for finding in self.findings}
        return [update for update in self.updates if update.broker not in refused]


def guard(
    updates: Iterable[BrokerUpdate],
    surveys: Mapping[int, Survey],
    deleted: Deleted,
    removed: Collection[tuple[int, str, int]],
    *,
    after_fail_over: bool,
) -> Guarded:
    """The only way to a full send: see `check_full_send`."""
    updates = tuple(updates)
    found = check_full_send(updates, surveys, deleted, removed, after_fail_over=after_fail_over)
    return Guarded(updates, tuple(found))


def without_ids(survey: Survey, topics: Mapping[str, Topic]) -> list[Occurrence]:
    """Topics whose logs the broker would move aside, asked before the claim: the window would end with it.

    topics: by name. A broker that has just started knows no topic ids until its controller sends them; after the
    claim no controller would.
    """
    shared = (
        (name, topics[name].id, survey.topics.get(name, ZERO_UUID)) for name in sorted(survey.logs) if name in topics
    )
    return [
        _would_lose(survey.broker, f"the logs of {name}", NO_TOPIC_ID if known == ZERO_UUID else OTHER_TOPIC_ID)
        for name, wanted, known in shared
        if known != wanted
    ]


def strays(
    survey: Survey,
    topics: Mapping[str, Topic],
    deleted: Deleted,
    removed: Collection[tuple[int, str, int]],
) -> list[Occurrence]:
    """Logs and topics that the broker has and ZooKeeper does not assign to it; one look alone may have met a change."""
    logs = [
        (name, partition)
        for name, partition in _not_hosted(survey, topics)
        if not _was_deleted(survey, deleted, name, topics.get(name))
        if (survey.broker, name, partition) not in removed
    ]
    unknown = sorted(
        name for name, known in survey.topics.items() if name not in topics and not is_deleted(deleted, name, known)
    )
    return [
        *(
            _would_lose(survey.broker, f"the log of {topic}-{partition}", "not assigned to it")
            for topic, partition in logs
        ),
        *(_would_lose(survey.broker, f"topic {name}", "ZooKeeper does not have it") for name in unknown),
    ]


def _was_deleted(survey: Survey, deleted: Deleted, name: str, topic: Topic | None) -> bool:
    """Of a log that is not assigned to the broker: see `_id_of_log`."""
    now = ZERO_UUID if topic is None else topic.id
    return is_deleted(deleted, name, _id_of_log(survey, name, now), now)


def _id_of_log(survey: Survey, name: str, now: bytes) -> bytes:
    """The id under which a broker has a log, ZERO_UUID if that is not known. now: the topic's id by the log.

    A broker says under which id it knows a topic, not which id its logs have: one that was away while the topic was
    deleted and made again learns the new id, and still has the logs of the old one.
    """
    known = survey.topics.get(name, ZERO_UUID)
    return ZERO_UUID if known == now else known


def _not_hosted(survey: Survey, topics: Mapping[str, Topic]) -> list[tuple[str, int]]:
    """Topic and partition of logs that the broker has and that are not assigned to it."""
    return [
        (name, partition)
        for name, partition in _one_by_one(survey.logs)
        if not _hosts(survey.broker, topics.get(name), partition)
    ]


def _hosts(broker: int, topic: Topic | None, partition: int) -> bool:
    found = None if topic is None else topic.partition(partition)
    return found is not None and broker in found.replicas


def left_over(
    survey: Survey, image: Image, deleted: Deleted, removed: Collection[tuple[int, str, int]]
) -> list[tuple[str, int]]:
    """Topic and partition of logs that the broker does not host by the log, which also knows why it has them."""
    topics = {name: image.topics[image.topic_ids[name]] for name in survey.logs if name in image.topic_ids}
    return [
        (topic, partition)
        for topic, partition in _not_hosted(survey, topics)
        if _was_deleted(survey, deleted, topic, topics.get(topic)) or (survey.broker, topic, partition) in removed
    ]


def _check_logs(
    update: BrokerUpdate,
    survey: Survey,
    metadata: _Named,
    deleted: Deleted,
    removed: Collection[tuple[int, str, int]],
    after_fail_over: bool,
) -> list[Occurrence]:
    missing = dict(survey.logs)
    there: set[str] = set()
    ids: dict[str, bytes] = {}

    def take(topic: LeaderAndIsrTopicState) -> None:
        name = topic.topic_name
        ids[name] = topic.topic_id
        named = {partition.partition_index for partition in topic.partition_states}
        if not named.isdisjoint(survey.logs.get(name, ())):
            there.add(name)
            missing[name] -= named

    decode_each(LeaderAndIsrRequest, VERSIONS[LEADER_AND_ISR], update.shared, "topic_states", take, LOGS_READ)
    found = []
    for topic, partition in _one_by_one(missing):
        is_explained = _is_log_deleted(survey, metadata, deleted, topic, partition)
        if not is_explained and (update.broker, topic, partition) not in removed:
            found.append(
                _would_lose(update.broker, f"the log of {topic}-{partition}", "FULL LeaderAndIsr does not name it")
            )
    for topic in sorted(there):
        known = survey.topics.get(topic, ZERO_UUID)
        if after_fail_over and topic not in survey.topics:
            continue
        if known == ZERO_UUID:
            found.append(_would_lose(update.broker, f"the logs of {topic}", NO_TOPIC_ID))
        elif known != ids[topic] and not is_deleted(deleted, topic, known, ids[topic]):
            found.append(_would_lose(update.broker, f"the logs of {topic}", OTHER_TOPIC_ID))
    return found


def _is_log_deleted(survey: Survey, metadata: _Named, deleted: Deleted, topic: str, partition: int) -> bool:
    """Whether a deletion explains a log that FULL LeaderAndIsr does not name.

    A broker that does not say under which id it has the log may have it of the topic that was deleted, unless the
    broker is to have this partition of the topic of today too, by the UpdateMetadata that leaves beside it.
    """
    now = metadata.ids.get(topic, ZERO_UUID)
    known = _id_of_log(survey, topic, now)
    if known == ZERO_UUID and survey.broker in metadata.replicas.get(topic, {}).get(partition, ()):
        return False
    return is_deleted(deleted, topic, known, now)


def _check_topics(survey: Survey, metadata: _Named, deleted: Deleted) -> list[Occurrence]:
    named = metadata.ids
    if survey.topics.items() <= named.items():
        return []  # nearly always, and there are as many surveys as brokers
    found = []
    for topic, topic_id in sorted(survey.topics.items()):
        if topic not in named:
            if not is_deleted(deleted, topic, topic_id):
                found.append(_would_lose(survey.broker, f"topic {topic}", "FULL UpdateMetadata does not name it"))
        elif topic_id not in (ZERO_UUID, named[topic]) and not is_deleted(deleted, topic, topic_id, named[topic]):
            found.append(_would_lose(survey.broker, f"topic {topic}", "FULL UpdateMetadata gives it another id"))
    return found


def _would_lose(broker: int, what: str, reason: str) -> Occurrence:
    return FULL_SEND_INCOMPLETE.found(broker=broker, what=what, reason=reason)
