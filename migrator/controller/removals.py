"""What the log took away: topics and replicas whose logs a broker that was away may still have.

In:   committed changes, or the marks of a snapshot.
Out:  names of topics and places of replicas, oldest first; the records by which a snapshot repeats them.
Elsewhere: what a full send may leave out because of them (driver.guard).
A snapshot drops the records of a removal. Without this memory a broker that returns after it would be held up with a
log that nobody can explain (Z2K-2010). The marks travel in NoOp records, which Kafka's readers skip, and are no part of
the image.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from migrator.controller.decision import Record
from migrator.model.draft import Delta
from migrator.model.values import Topic
from migrator.wire.messages.metadata import NoOpRecord

REMOVALS_MAX: Final = 100_000
"""Of each kind, the newest: some megabytes. A broker that missed an older one needs a person."""

BYTES_PER_RECORD: Final = 16_384

Key = TypeVar("Key")

TOPICS: Final = "removed-topics"
REPLICAS: Final = "removed-replicas"


class Removals:
    """Grows only. `topics`: names; `replicas`: broker, topic, partition."""

    def __init__(self) -> None:
        self.topics: dict[str, None] = {}
        self.replicas: dict[tuple[int, str, int], None] = {}

    def copy(self) -> Removals:
        other = Removals()
        other.topics, other.replicas = dict(self.topics), dict(self.replicas)
        return other

    def topic_gone(self, name: str) -> None:
        _remember(self.topics, name)

    def replicas_gone(self, topic: str, partition: int, brokers: Iterable[int]) -> None:
        for broker in brokers:
            _remember(self.replicas, (broker, topic, partition))

    def take_places(self, places: Iterable[tuple[int, str, int]]) -> None:
        """Broker, topic, partition of replicas that went before the log began to tell of it."""
        for broker, topic, partition in sorted(places):
            self.replicas_gone(topic, partition, (broker,))

    def note(self, delta: Delta) -> None:
        """What a committed change took away."""
        for topic_id in delta.topics:
            before, after = delta.before.topics.get(topic_id), delta.after.topics.get(topic_id)
            if before is not None and after is None:
                self.topic_gone(before.name)
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
        topics = [_mark(TOPICS, part) for part in _parts(self.topics)]
        return topics + [_mark(REPLICAS, part) for part in _parts(self.replicas)]

    def take(self, record: NoOpRecord) -> None:
        """What such a record says; a NoOp that says something else, or nothing, changes nothing."""
        if record.mark == TOPICS:
            for name in json.loads(record.mark_text):
                self.topic_gone(name)
        elif record.mark == REPLICAS:
            for broker, topic, partition in json.loads(record.mark_text):
                self.replicas_gone(topic, partition, (broker,))


def _remember(known: dict[Key, None], key: Key) -> None:
    known.pop(key, None)
    known[key] = None
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
