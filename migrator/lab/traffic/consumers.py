"""Consumer groups of the traffic: they read everything, judge the order of each key, and commit what they read.

In:   the topics to read.
Out:  counts in the tally; each committed offset that the coordinator acknowledged in the ledger.
Elsewhere: clients' settings (clients.py), judging committed offsets afterwards (outside_reader.py).
One group commits automatically, one by hand; both read committed transactions only.
Rules: by hand, at most one commit is under way. The client library retries a commit by itself, so an older one could
land after a newer one and take the group back: a fault of the traffic, not of the cluster. Automatic commits cannot
be kept apart: the one before the last was once repeated while the last, at the end, was answered already. So the
ledger says of each whether it was alone.
"""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from migrator.lab.traffic.clients import Surroundings, now_us
from migrator.lab.traffic.ledger import GroupCommitted
from migrator.lab.traffic.records import sequence_in
from migrator.lab.traffic.tally import GroupTally

CONSUME_RECORDS_MAX: Final = 500
CONSUME_S: Final = 0.2
COMMIT_EVERY_S: Final = 1.0
CATCH_UP_S: Final = 120.0
"""At the end a group may be that long behind: a rebalance and a second of records."""

COMMIT_ANSWER_S: Final = 30.0
"""The client library retries a commit that long and longer; then it will not be heard of."""

NOTHING_TO_COMMIT: Final = "_NO_OFFSET"


class GroupReader:
    """One group of one member, in its own thread. by_hand: commits with its own offsets, else automatically."""

    def __init__(self, here: Surroundings, group: str, *, by_hand: bool) -> None:
        self.name = group
        self._here = here
        self._by_hand = by_hand
        self.topics = here.topics.counts
        """The topics as this group knows them."""
        self._tally: GroupTally = here.tally.group(group)
        self._uncommitted: dict[tuple[str, int], int] = {}
        self._is_committing = False
        self._committed_at = time.monotonic()
        self._returns = here.topics.returns
        self._consumer = self._new_consumer()

    def run(self) -> None:
        """Read until nothing more is written, then what is left, commit it, and leave the group."""
        self._subscribe()
        while not self._here.written.is_set():
            self._read()
            if self._by_hand and time.monotonic() - self._committed_at >= COMMIT_EVERY_S:
                self._commit_later()
        deadline = time.monotonic() + CATCH_UP_S
        while self._here.tally.lag(self._tally) and time.monotonic() < deadline:
            self._read()
        self._leave()

    def _leave(self) -> None:
        """Commit the rest, after what is under way, and go."""
        deadline = time.monotonic() + COMMIT_ANSWER_S
        while self._is_committing and time.monotonic() < deadline:
            self._read()
        self._commit_now()
        self._consumer.close()

    def _new_consumer(self) -> Consumer:
        settings = self._here.client_settings(self.name) | {
            "group.id": self.name,
            "enable.auto.commit": not self._by_hand,
            "auto.commit.interval.ms": int(COMMIT_EVERY_S * 1000),
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "partition.assignment.strategy": "cooperative-sticky",  # adding a topic does not stop the others
            "on_commit": self._on_commit,
        }
        return Consumer(settings)

    def _subscribe(self) -> None:
        if self.topics:
            self._consumer.subscribe(sorted(self.topics), on_revoke=self._on_revoke)
        else:
            self._consumer.unsubscribe()

    def _change_topics(self) -> None:
        """Follow what was added and dropped; a topic that comes back under its name starts from the beginning."""
        before, self.topics = self.topics, self._here.topics.counts
        gone = before.keys() - self.topics.keys()
        self._tally.forget(gone)
        for place in [place for place in self._uncommitted if place[0] in gone]:
            del self._uncommitted[place]
        if self._returns != self._here.topics.returns:
            self._returns = self._here.topics.returns
            self._leave()
            self._is_committing = False
            self._consumer = self._new_consumer()
            self._subscribe()
        elif before.keys() != self.topics.keys():
            self._subscribe()

    def _read(self) -> None:
        if self.topics is not self._here.topics.counts:
            self._change_topics()
        for message in self._consumer.consume(CONSUME_RECORDS_MAX, timeout=CONSUME_S):
            error = message.error()
            if error is not None:
                self._here.tally.error(error.name())
            else:
                self._saw(message)

    def _saw(self, message: Message) -> None:
        topic, partition, offset, key = message.topic(), message.partition(), message.offset(), message.key()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        if topic not in self.topics:
            return
        place = topic, partition
        self._tally.saw(place, offset, key or b"", sequence_in(self._here.run, message.value()))
        self._uncommitted[place] = self._tally.ends[place]

    # --- committing ----------------------------------------------------------------------------------------

    def _commit_later(self) -> None:
        """Commit what was read since the last time; what is refused is counted, and committed with the next."""
        self._committed_at = time.monotonic()
        if self._uncommitted and not self._is_committing:
            try:
                self._consumer.commit(offsets=self._offsets(), asynchronous=True)
            except KafkaException as error:
                self._refused(error.args[0])
            else:
                self._is_committing = True

    def _commit_now(self) -> None:
        """Commit what was read, and wait; by hand only when nothing is under way."""
        if self._by_hand and (self._is_committing or not self._uncommitted):
            return
        try:
            if self._by_hand:
                self._record(self._consumer.commit(offsets=self._offsets(), asynchronous=False))
            else:
                self._record(self._consumer.commit(asynchronous=False))
        except KafkaException as error:
            self._refused(error.args[0])

    def _refused(self, error: KafkaError) -> None:
        if error.name() != NOTHING_TO_COMMIT:
            self._here.tally.error(f"commit {error.name()}")

    def _offsets(self) -> list[TopicPartition]:
        return [TopicPartition(topic, partition, offset) for (topic, partition), offset in self._uncommitted.items()]

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        self._is_committing = False
        if error is None:
            self._record(partitions)
        else:
            self._refused(error)

    def _on_revoke(self, _: Any, partitions: list[TopicPartition]) -> None:
        if self._by_hand:
            self._commit_now()

    def _record(self, partitions: list[TopicPartition] | None) -> None:
        """Write down what the coordinator acknowledged."""
        for one in partitions or []:
            if one.error is not None:
                self._here.tally.error(f"commit {one.error.name()}")
            elif one.offset >= 0:
                place, offset = (one.topic, one.partition), one.offset
                self._here.ledger.write(GroupCommitted(self.name, *place, offset, self._by_hand, now_us()))
                if self._uncommitted.get(place) == offset:
                    del self._uncommitted[place]
