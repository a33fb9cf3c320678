"""What the log took away: topics and replicas whose logs a broker that was away may still have.

In:   committed changes, or the marks of a snapshot.
Out:  topics with their ids and places of replicas, oldest first; the records by which a snapshot repeats them.
Elsewhere: what a full send may leave out because of them (driver.guard).
A snapshot drops the records of a removal. Without this memory a broker that returns after it would be held up with a
log that nobody can explain (Z2K-2010). The marks travel in NoOp records, which Kafka's readers skip, and are no part of
the image.
A name alone does not tell which topic went: it may be made again at once, and that one was not taken away.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from migrator.controller.decision import Record
from migrator.model.draft import Delta
from migrator.model.values import Topic
from migrator.wire.messages.metadata import NoOpRecord
from migrator.wire.primitives import ZERO_UUID

REMOVALS_MAX: Final = 100_000
"""Of each kind, the newest: some megabytes. A broker that missed an older one needs a person."""

IDS_PER_NAME_MAX: Final = 8
"""The newest: a broker that answers has heard of all but the last, and one that was away does not know ids."""

BYTES_PER_RECORD: Final = 16_384

Key = TypeVar("Key")
Value = TypeVar("Value")

TOPIC_IDS: Final = "removed-topic-ids"
TOPIC_NAMES: Final = "removed-topics"
"""As snapshots said it that did not know the ids; read, and not written any more."""
REPLICAS: Final = "removed-replicas"


class Removals:
    """Grows only. `topics`: names, with the ids that went, newest last; `replicas`: broker, topic, partition.

    ZERO_UUID among the ids: one that was not noted.
    """

    def __init__(self) -> None:
        self.topics: dict[str, tuple[bytes, ...]] = {}
        self.replicas: dict[tuple[int, str, int], None] = {}

    def copy(self) -> Removals:
        other = Removals()
        other.topics, other.replicas = dict(self.topics), dict(self.replicas)
        return other

    def topic_gone(self, name: str, topic_id: bytes) -> None:
        others = tuple(each for each in self.topics.get(name, ()) if each != topic_id)
        _remember(self.topics, name, (*others, topic_id)[-IDS_PER_NAME_MAX:])

    def replicas_gone(self, topic: str, partition: int, brokers: Iterable[int]) -> None:
        for broker in brokers:
            _remember(self.replicas, (broker, topic, partition), None)

    def take_places(self, places: Iterable[tuple[int, str, int]]) -> None:
        """Broker, topic, partition of replicas that went before the log began to tell of it."""
        for broker, topic, partition in sorted(places):
            self.replicas_gone(topic, partition, (broker,))

    def note(self, delta: Delta) -> None:
        """What a committed change took away."""
        for topic_id in delta.topics:
            before, after = delta.before.topics.get(topic_id), delta.after.topics.get(topic_id)
            if before is not None and after is None:
                self.topic_gone(before.name, topic_id)
            elif before is not None and after is not None:
                self._note_moves(before, after)

    def _note_moves(self, before: Topic, after: Topic) -> None:
        for partition in after.partitions:
            was = before.partition(partition.id)
            if was is not None and was.replicas != partition.replicas:
                self.replicas_gone(after.name, partition.id, sorted(set(was.replicas) - set(partition.replicas)))

    # --- in snapshots --------------------------------------------------------------------------------------

    def records(self) -> list[Record]:
        """What a snapshot says of it."""
        gone = ([name, each.hex()] for name, ids in self.topics.items() for each in ids)
        topics = [_mark(TOPIC_IDS, part) for part in _parts(gone)]
        return topics + [_mark(REPLICAS, part) for part in _parts(self.replicas)]

    def take(self, record: NoOpRecord) -> None:
        """What such a record says; a NoOp that says something else, or nothing, changes nothing."""
        if record.mark == TOPIC_IDS:
            for name, topic_id in json.loads(record.mark_text):
                self.topic_gone(name, bytes.fromhex(topic_id))
        elif record.mark == TOPIC_NAMES:
            for name in json.loads(record.mark_text):
                self.topic_gone(name, ZERO_UUID)
        elif record.mark == REPLICAS:
            for broker, topic, partition in json.loads(record.mark_text):
                self.replicas_gone(topic, partition, (broker,))


def _remember(known: dict[Key, Value], key: Key, value: Value) -> None:
    known.pop(key, None)
    known[key] = value
    if len(known) > REMOVALS_MAX:
        del known[next(iter(known))]


def _parts(known: Iterable[object]) -> Iterator[list[object]]:
    """Cut by bytes: the text of a mark is a string of Kafka's protocol, which ends at 32,767 of them."""
    part: list[object] = []
    size = 0
    for each in known:
        added = len(_text(each))
        if part and size + added > BYTES_PER_RECORD:
            yield part
            part, size = [], 0
        part.append(each)
        size += added + 1
    if part:
        yield part


def _mark(name: str, part: list[object]) -> Record:
    return NoOpRecord(mark=name, mark_text=_text(part)), 0


def _text(value: object) -> str:
    """ASCII, so that its length is that of its bytes."""
    return json.dumps(value, separators=(",", ":"))
