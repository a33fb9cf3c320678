"""From outside: was anything lost that the brokers promised, and is the cluster whole?

In:   `python -I outside_reader.py --bootstrap … --zookeeper HOSTS/CHROOT --ledger FILE --data-dir DIR …`, once the
      traffic has stopped. The ledger has one JSON array per line, its first element the kind (see `Ledger`).
Out:  one line, or with --json one object, for each check: name, compared, failed, not read, the first failures.
      Exit code 0: all good; 1: something failed; 2: nothing failed, but something could not be checked.
Elsewhere: nothing. This file imports nothing of the project it judges, and knows on its own what a record holds. It is
one long file on purpose: who doubts a verdict reads this one, and can run it where the project is not installed.
Sources: Kafka's documentation, "Message Format" (the 61-byte header of a batch); Metadata version 1 of its protocol;
KIP-516 (topic ids on the disk).
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import mmap
import re
import secrets
import socket
import ssl
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

FIRST_MAX: Final = 10
READ_DEADLINE_S: Final = 120.0
SETTLE_S: Final = 20.0
"""A follower that just came back joins the ISR within seconds; so long the look at the cluster is repeated."""

SETTLE_EVERY_S: Final = 0.5
ANSWER_S: Final = 10.0
CONNECT_S: Final = 60.0
HEADER: Final = struct.Struct(">qiibIhiqqqhi")
"""Of a record batch: base offset, length, leader epoch, magic, CRC, attributes, last offset delta, two timestamps,
producer id, producer epoch, base sequence."""

BATCH_HEADER_BYTES: Final = 61
TRANSACTIONAL: Final = 0x10
LENGTH_AT: Final = 12
"""A batch's length counts from behind its base offset and the length itself."""

REPLICA: Final = re.compile(r"(.+)-(\d+)")
REMOTE_INDEXES: Final = "remote-log-index-cache"
"""Of a broker with tiered storage: indexes of segments that it has fetched from there."""
METADATA_LOG: Final = "__cluster_metadata-0"
COMPACTED: Final = ("__consumer_offsets", "__transaction_state")
METADATA: Final = 3
SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
ALL_TOPICS: Final = -1
TROUBLE: Final = (KafkaException, KazooException, KazooTimeoutError, OSError, ValueError, KeyError, struct.error)
NOT_IN_A_TRANSACTION: Final = -1

Client = Mapping[str, str]
"""How brokers are reached, as librdkafka's keys: addresses, and the login where they want one."""
Place = tuple[str, int]
Content = tuple[bytes | None, bytes | None]
"""Key and value of a record."""

Hidden = dict[tuple[str, int, int], tuple[int, Content]]
"""By partition and promised offset: what is there that a reader of committed records does not see, and its offset."""


@dataclass
class CheckLine:
    """One line of the verdict. not_read: what could not be looked at; it is never good."""

    name: str
    compared: int = 0
    failed: int = 0
    not_read: int = 0
    first: list[str] = field(default_factory=list)

    def that(self, is_so: bool, otherwise: str) -> None:
        self.compared += 1
        if not is_so:
            self.fail(otherwise)

    def fail(self, text: str) -> None:
        self.failed += 1
        self._say(text)

    def miss(self, text: str) -> None:
        self.not_read += 1
        self._say(f"not read: {text}")

    def _say(self, text: str) -> None:
        if len(self.first) < FIRST_MAX:
            self.first.append(text)


# --- what was promised ----------------------------------------------------------------------------------------


class Promise(NamedTuple):
    key: str
    sequence: int
    transaction: int


class Ledger:
    """What the ledger says, without deleted topics, and of re-created ones only what came after a mark.

    deleted:  names of topics.   recreated: topic to the name of the mark from which on it counts.
    promises: by partition and offset; negative numbers, each once, where the offset was not told.
    """

    def __init__(self, path: Path, deleted: Collection[str], recreated: Mapping[str, str]) -> None:
        entries = list(_lines(path))
        kind, version, self.run, self.value_bytes, _ = entries[0]
        if kind != "begin" or version != 1:
            raise ValueError(f"{path} does not begin like a ledger that this program knows")
        marks = {entry[1]: entry[2] for entry in entries if entry[0] == "mark"}
        self._deleted = deleted
        self._since_us = {topic: marks[mark] for topic, mark in recreated.items()}
        self.ended = entries[-1][0] == "end"
        self.promises: dict[Place, dict[int, Promise]] = {}
        self.outcomes: dict[int, str] = {}
        self.commits: dict[tuple[str, str, int], list[int]] = {}
        self.one_at_a_time: set[str] = set()
        """Groups that never have two commits under way."""
        self.twice: list[str] = []
        self.excluded = 0
        for entry in entries:
            self._take(*entry)

    @property
    def topics(self) -> set[str]:
        return {topic for topic, _ in self.promises}

    def content(self, place: Place, promise: Promise) -> Content:
        """Key and value as they were promised: `run|topic|partition|key|sequence|....`."""
        words = (self.run, place[0], str(place[1]), promise.key, str(promise.sequence), "")
        return promise.key.encode(), "|".join(words).encode().ljust(self.value_bytes, b".")

    def outcome(self, promise: Promise) -> str:
        """A transaction of which the ledger has no end was cut off by a kill: nobody knows."""
        if promise.transaction == NOT_IN_A_TRANSACTION:
            return "committed"
        return self.outcomes.get(promise.transaction, "unknown")

    def _take(self, kind: str, *words: Any) -> None:
        if kind == "ack":
            topic, partition, offset, key, sequence, transaction, sent_us, _ = words
            if not self._counts(topic, sent_us):
                return
            promises = self.promises.setdefault((topic, partition), {})
            if offset < 0:  # a broker confirmed it on a second attempt and did not say where: any place will do
                offset = -1 - len(promises)
            if offset in promises:
                self.twice.append(f"{topic}-{partition} offset {offset} was promised to two records")
            promises[offset] = Promise(key, sequence, transaction)
        elif kind == "txn":
            self.outcomes[words[0]] = words[1]
        elif kind == "commit":
            group, topic, partition, offset, one_at_a_time, at_us = words
            if one_at_a_time:
                self.one_at_a_time.add(group)
            if self._counts(topic, at_us):
                self.commits.setdefault((group, topic, partition), []).append(offset)

    def _counts(self, topic: str, at_us: int) -> bool:
        counts = topic not in self._deleted and at_us >= self._since_us.get(topic, 0)
        self.excluded += not counts
        return counts


def _lines(path: Path) -> Iterator[list[Any]]:
    """The ledger's lines; a torn last one, left by a kill, is none."""
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield json.loads(line)


# --- records --------------------------------------------------------------------------------------------------


class Repeat(NamedTuple):
    """A record whose sequence is not above the last one of its key."""

    place: Place
    offset: int
    key: bytes
    sequence: int
    last: int

    def __str__(self) -> str:
        topic, partition = self.place
        said = f"key {self.key.decode()} has sequence {self.sequence} after {self.last}"
        return f"{topic}-{partition} offset {self.offset}: {said}"


class RecordJudge:
    """Compares what a reader of committed records sees with what was promised. `saw` in offset order, then `checks`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._left = {place: dict(promises) for place, promises in ledger.promises.items()}
        self._anywhere = {
            (place, ledger.content(place, one)): offset
            for place, promises in ledger.promises.items()
            for offset, one in promises.items()
            if offset < 0 and ledger.outcome(one) != "aborted"
        }
        self._last: dict[tuple[str, int, bytes], int] = {}
        self._wrong: list[str] = []
        self._seen_of: Counter[int] = Counter()
        self._in_sequence = 0
        self.repeats: list[Repeat] = []
        self.unpromised = 0
        self.foreign = 0

    def saw(self, topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        place = topic, partition
        promise = self._left.get(place, {}).pop(self.promised_at(place, offset, key, value), None)
        if promise is not None:
            if (key, value) == self._ledger.content(place, promise):
                self._seen_of[promise.transaction] += 1
            elif self._ledger.outcome(promise) == "committed":
                self._wrong.append(f"{topic}-{partition} offset {offset}: expected {_words(promise)}, found {value!r}")
        self._in_order(place, offset, key, value, promised=promise is not None)

    def promised_at(self, place: Place, offset: int, key: bytes | None, value: bytes | None) -> int:
        """Under which offset the ledger has this record: its own, or the stand-in of one that was not told."""
        return self._anywhere.get((place, (key, value)), offset)

    def missing(self) -> dict[Place, dict[int, Promise]]:
        """Promises that count and were not seen."""
        counting = {
            place: {offset: one for offset, one in left.items() if self._ledger.outcome(one) == "committed"}
            for place, left in self._left.items()
        }
        return {place: left for place, left in counting.items() if left}

    def checks(self, committed: Reading, hidden: Hidden, sent_again: Collection[Repeat] = ()) -> list[CheckLine]:
        """committed: how far records were read.  hidden: what is at the places where a record is missing.

        sent_again: repeats that their client made.
        """
        records = CheckLine("acknowledged records", failed=len(self._wrong), first=self._wrong[:FIRST_MAX])
        all_promises = [one for promises in self._ledger.promises.values() for one in promises.values()]
        records.compared = sum(self._ledger.outcome(one) == "committed" for one in all_promises)
        for twice in self._ledger.twice:
            records.fail(twice)
        waiting: Counter[int] = Counter()
        for place, left in self.missing().items():
            for offset, promise in sorted(left.items()):
                why, is_lost = self._why_missing(place, promise, committed, hidden.get((*place, offset)))
                where = f"offset {offset}" if offset >= 0 else "at whatever offset"
                text = f"{place[0]}-{place[1]} {where}: expected {_words(promise)}, {why}"
                if is_lost:
                    records.fail(text)
                else:
                    waiting[promise.transaction] += 1
                    records.miss(text)
        for (topic, partition), reason in committed.unread.items():
            records.miss(f"{topic}-{partition}: {reason}")
        if not records.compared:
            records.miss("the ledger holds no acknowledged record to look for")
        return [records, *self._transactions(all_promises, waiting), *self._sequences(sent_again)]

    def _sequences(self, sent_again: Collection[Repeat]) -> list[CheckLine]:
        order, twice = CheckLine("order of each key"), CheckLine("no record twice")
        again = CheckLine("sent again by the client, under a new producer epoch", compared=len(sent_again))
        order.compared = twice.compared = self._in_sequence
        for each in self.repeats:
            if each not in sent_again:
                twice.that(each.sequence != each.last, str(each))
                order.that(each.sequence >= each.last, str(each))
        return [order, twice, again] if sent_again else [order, twice]

    def _why_missing(
        self, place: Place, promise: Promise, committed: Reading, found: tuple[int, Content] | None
    ) -> tuple[str, bool]:
        """In words, and whether it is lost; what stands behind an open transaction or was not read is not."""
        if found is None:
            return "absent", place not in committed.unread
        offset, content = found
        if content != self._ledger.content(place, promise):
            return f"found {content[1]!r}", True
        if offset >= committed.ends.get(place, 0):
            return "there, behind a transaction that is still open", False
        return "there, but its transaction was aborted", True

    def _transactions(self, promises: Iterable[Promise], waiting: Mapping[int, int]) -> list[CheckLine]:
        """waiting: transaction to the number of its records that are there and cannot be seen yet."""
        sizes = Counter(one.transaction for one in promises if one.transaction != NOT_IN_A_TRANSACTION)
        committed = CheckLine("committed transactions are whole")
        aborted = CheckLine("aborted transactions are absent")
        unknown = CheckLine("transactions of unknown end are whole or absent")
        for number, size in sizes.items():
            seen, text = self._seen_of[number], f"transaction {number}: {self._seen_of[number]} of {size} records seen"
            match self._ledger.outcomes.get(number, "unknown"):
                case "committed":
                    committed.that(seen + waiting.get(number, 0) == size, text)
                case "aborted":
                    aborted.that(seen == 0, text)
                case _:
                    unknown.that(seen in (0, size), text)
        return [committed, aborted, unknown]

    def _in_order(self, place: Place, offset: int, key: bytes | None, value: bytes | None, *, promised: bool) -> None:
        words = _words_of_run(self._ledger.run, value)
        if key is None or not words:
            self.foreign += 1
            return
        self.unpromised += not promised
        sequence, last = int(words[4]), self._last.get((*place, key), -1)
        if sequence > last:
            self._in_sequence += 1
        else:
            self.repeats.append(Repeat(place, offset, key, sequence, last))
        self._last[*place, key] = max(sequence, last)


def _words_of_run(run: str, value: bytes | None) -> list[bytes]:
    """What a record says of itself (records.py); nothing of one that another run of the traffic wrote, whose keys are
    the same."""
    words = (value or b"").split(b"|")
    return words if len(words) == 6 and words[0] == run.encode() else []


def _words(promise: Promise) -> str:
    in_transaction = "" if promise.transaction == NOT_IN_A_TRANSACTION else f" of transaction {promise.transaction}"
    return f"key {promise.key} sequence {promise.sequence}{in_transaction}"


@dataclass
class Reading:
    """How far partitions were read. unread: those not read to their end, with the reason.  ends: the others' ends."""

    unread: dict[Place, str]
    ends: dict[Place, int] = field(default_factory=dict)


def read_everything(
    client: Client, places: Collection[Place], isolation: str, deadline_s: float, saw: Callable[..., None]
) -> Reading:
    """Read partitions from their first record to their end: the last stable offset where only committed is read."""
    settings: dict[str, Any] = {**client, "group.id": "outside-reader", "enable.auto.commit": False}
    settings |= {"isolation.level": isolation, "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    reading = Reading(dict.fromkeys(places, f"its end was not reached within {deadline_s:.0f} s"))
    until = time.monotonic() + deadline_s
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in places])
        while reading.unread and time.monotonic() < until:
            for message in consumer.consume(1000, timeout=0.5):
                place, error = (str(message.topic()), int(message.partition() or 0)), message.error()
                if error is None:
                    saw(*place, message.offset(), message.key(), message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    reading.unread.pop(place, None)
                    reading.ends[place] = message.offset() or 0
                elif place in reading.unread:
                    reading.unread[place] = error.str()
    finally:
        consumer.close()
    return reading


def find_sent_again(
    repeats: Collection[Repeat],
    copies: Mapping[tuple[Place, bytes, int], list[int]],
    batches: Mapping[Place, list[LogBatch]],
    promised: Mapping[Place, Collection[int]],
) -> set[Repeat]:
    """Those that the client sent again under a later epoch of its producer id, so that no broker could know them.

    librdkafka (2.16, its issue 4953) takes a new epoch when a broker answers OUT_OF_ORDER_SEQUENCE_NUMBER for one
    partition, and sends what is unanswered on all partitions again, also what is in the log already.

    A client sends nothing again of which it has an answer, and nothing of a transaction.

    copies: where records of this key and sequence are, in order. batches: of a replica of each partition.
    promised: offsets that were acknowledged.
    """

    def is_one(each: Repeat) -> bool:
        here = batches.get(each.place, [])
        earlier = [at for at in copies.get((each.place, each.key, each.sequence), []) if at < each.offset]
        batches_before = [_batch_at(here, at) for at in earlier]
        again = _batch_at(here, each.offset)
        return (
            bool(earlier)
            and again is not None
            and not again.transactional
            and not set(earlier) & set(promised.get(each.place, ()))
            and all(before is not None and _is_of_a_later_epoch(again, before) for before in batches_before)
        )

    return set(filter(is_one, repeats))


def _is_of_a_later_epoch(again: LogBatch, before: LogBatch) -> bool:
    """Of the same producer, so that no broker could know its records."""
    if before.transactional or again.producer[0] != before.producer[0] or before.producer[0] < 0:
        return False
    return before.producer[1] < again.producer[1]


def _batch_at(batches: Iterable[LogBatch], offset: int) -> LogBatch | None:
    return next((each for each in batches if each.base_offset <= offset < each.end_offset), None)


def _look_at_repeats(
    client: Client, ledger: Ledger, repeats: Collection[Repeat], data_dirs: Iterable[Path], deadline_s: float
) -> set[Repeat]:
    wanted = {(each.place, each.key, each.sequence) for each in repeats}
    copies: dict[tuple[Place, bytes, int], list[int]] = {}

    def saw(topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        words = _words_of_run(ledger.run, value)
        if key is not None and words and ((topic, partition), key, int(words[4])) in wanted:
            copies.setdefault(((topic, partition), key, int(words[4])), []).append(offset)

    places = {each.place for each in repeats}
    read_everything(client, places, "read_committed", deadline_s, saw)
    directories = {place: [each / f"{place[0]}-{place[1]}" for each in data_dirs] for place in places}
    batches = {
        place: next((batches_of(each)[1] for each in some if each.is_dir()), []) for place, some in directories.items()
    }
    return find_sent_again(repeats, copies, batches, ledger.promises)


def check_records(
    client: Client,
    ledger: Ledger,
    tree: TreeReading,
    judge: RecordJudge,
    deadline_s: float,
    data_dirs: Collection[Path] = (),
) -> list[CheckLine]:
    """Every record of the ledger's topics; where one is missing, a second look tells whether it is only hidden.

    data_dirs: of brokers; where a record is there twice, its batches tell whether its client sent it again.
    """
    existing = tree.places_of(ledger.topics)
    committed = read_everything(client, existing, "read_committed", deadline_s, judge.saw)
    hidden: Hidden = {}
    missing = judge.missing()

    def saw(topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        promised_at = judge.promised_at((topic, partition), offset, key, value)
        if promised_at in missing[topic, partition]:
            hidden[topic, partition, promised_at] = offset, (key, value)

    if again := [place for place in missing if place in existing]:
        read_everything(client, again, "read_uncommitted", deadline_s, saw)
    repeats = judge.repeats
    sent_again = _look_at_repeats(client, ledger, repeats, data_dirs, deadline_s) if repeats and data_dirs else set()
    return judge.checks(committed, hidden, sent_again)


def check_open_transactions(client: Client, tree: TreeReading, ledger: Ledger) -> list[CheckLine]:
    """Where a reader of committed records must stop is the end: a transaction that nobody ends hides all after it."""
    check = CheckLine("no transaction is left open")
    levels = ("read_committed", "read_uncommitted")
    readers = [Consumer({**client, "group.id": "outside-reader", "isolation.level": level}) for level in levels]
    try:
        for topic, partition in sorted(tree.places_of(ledger.topics)):
            place = TopicPartition(topic, partition)
            stable, end = (reader.get_watermark_offsets(place, timeout=ANSWER_S)[1] for reader in readers)
            check.that(stable == end, f"{topic}-{partition}: committed records end at {stable}, the log at {end}")
    finally:
        for reader in readers:
            reader.close()
    return [check]


# --- groups ---------------------------------------------------------------------------------------------------


def check_groups(client: Client, ledger: Ledger) -> list[CheckLine]:
    check = CheckLine("committed group offsets")
    for group in sorted({group for group, _, _ in ledger.commits}):
        places = [TopicPartition(topic, number) for name, topic, number in ledger.commits if name == group]
        consumer = Consumer({**client, "group.id": group, "enable.auto.commit": False})
        try:
            found = consumer.committed(places, timeout=ANSWER_S)
        finally:
            consumer.close()
        for one in found:
            name = f"{group} {one.topic}-{one.partition}"
            recorded = ledger.commits[group, one.topic, one.partition]
            alone = group in ledger.one_at_a_time
            judge_group_offset(check, name, recorded, one.offset, ended=ledger.ended, one_at_a_time=alone)
    return [check]


def judge_group_offset(
    check: CheckLine, name: str, recorded: list[int], found: int, *, ended: bool, one_at_a_time: bool
) -> None:
    """recorded: acknowledged offsets in the order of their answers.

    ended: the traffic ended in order, so nothing can have been committed after what it wrote down.
    one_at_a_time: no two commits were under way, so their answers never go back. A group that commits automatically may
    be taken back by its own client, which repeats an older commit; at the end it stands where it stood at most.
    """
    back = next((f"{a} to {b}" for a, b in pairwise(recorded) if b < a), None) if one_at_a_time else None
    promised = recorded[-1] if one_at_a_time else max(recorded)
    same = found == promised if ended else found >= promised
    text = f"{name}: committed {found}, recorded {promised}" + (f", went back from {back}" if back else "")
    check.that(same and back is None, text)


# --- the cluster ----------------------------------------------------------------------------------------------


@dataclass
class TreeReading:
    """What ZooKeeper says. replicas: topic to partition to brokers.  states: None where there is none yet."""

    brokers: dict[int, str] = field(default_factory=dict)
    topic_ids: dict[str, str | None] = field(default_factory=dict)
    replicas: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    states: dict[Place, dict[str, Any] | None] = field(default_factory=dict)

    @property
    def places(self) -> Iterator[tuple[str, int, list[int]]]:
        return ((topic, number, r) for topic, parts in self.replicas.items() for number, r in parts.items())

    def places_of(self, topics: Collection[str]) -> set[Place]:
        return {(topic, number) for topic, number, _ in self.places if topic in topics}


def read_tree(zookeeper: KazooClient) -> TreeReading:
    tree = TreeReading()
    for broker in zookeeper.get_children("/brokers/ids"):
        seen = json.loads(zookeeper.get(f"/brokers/ids/{broker}")[0])
        tree.brokers[int(broker)] = seen["endpoints"][0].partition("://")[2]
    for topic in sorted(zookeeper.get_children("/brokers/topics")):
        seen = json.loads(zookeeper.get(f"/brokers/topics/{topic}")[0])
        tree.topic_ids[topic] = seen.get("topic_id")
        tree.replicas[topic] = {int(number): replicas for number, replicas in seen["partitions"].items()}
    for topic, number, _ in tree.places:
        try:
            state = json.loads(zookeeper.get(f"/brokers/topics/{topic}/partitions/{number}/state")[0])
        except NoNodeError:
            state = None
        tree.states[topic, number] = state
    return tree


def read_tree_of_brokers(client: Client) -> TreeReading:
    """The same where there is no ZooKeeper any more: as whichever broker answers tells it."""
    admin = AdminClient(dict(client))
    told = admin.list_topics(timeout=ANSWER_S)
    tree = TreeReading(brokers={number: f"{each.host}:{each.port}" for number, each in told.brokers.items()})
    described = admin.describe_topics(TopicCollection(sorted(told.topics)), request_timeout=ANSWER_S)
    for name, future in described.items():
        tree.topic_ids[name] = _as_brokers_write(str(future.result(ANSWER_S).topic_id))
    for name, topic in sorted(told.topics.items()):
        tree.replicas[name] = {number: list(each.replicas) for number, each in sorted(topic.partitions.items())}
        for number, each in topic.partitions.items():
            tree.states[name, number] = {"leader": each.leader, "isr": list(each.isrs)}
    return tree


def check_tree(tree: TreeReading, ledger: Ledger) -> list[CheckLine]:
    isr, topics = CheckLine("ISR in ZooKeeper"), CheckLine("topics of the ledger exist")
    for topic, number, replicas in tree.places:
        state = tree.states[topic, number] or {"leader": None, "isr": []}
        text = f"{topic}-{number}: replicas {replicas}, in sync {state['isr']}, leader {state['leader']}"
        isr.that(set(state["isr"]) == set(replicas) and state["leader"] in replicas, text)
    for topic, number in sorted(ledger.promises):
        topics.that(number in tree.replicas.get(topic, {}), f"{topic}-{number} is not in ZooKeeper")
    return [isr, topics]


def check_brokers(tree: TreeReading, client: Client) -> list[CheckLine]:
    """Each broker's own answer to Metadata, over a connection to nobody but it."""
    checks = []
    named = {broker for _, _, replicas in tree.places for broker in replicas}
    for broker in sorted(named | tree.brokers.keys()):
        check = CheckLine(f"ISR as broker {broker} says")
        checks.append(check)
        if broker not in tree.brokers:
            check.miss(f"broker {broker} is not registered in ZooKeeper")
            continue
        try:
            told = _metadata_of(tree.brokers[broker], client)
        except TROUBLE as error:
            check.miss(f"broker {broker} at {tree.brokers[broker]}: {error}")
            continue
        judge_metadata(check, tree, told)
    return checks


Told = dict[Place, tuple[int, list[int], list[int]]]
"""Partition to leader, replicas, in-sync replicas."""


def judge_metadata(check: CheckLine, tree: TreeReading, told: Told) -> None:
    for topic, number, replicas in tree.places:
        leader, said, isr = told.get((topic, number), (None, [], []))
        in_tree = (tree.states[topic, number] or {"leader": None})["leader"]
        good = said == replicas and set(isr) == set(replicas) and leader == in_tree
        text = f"{topic}-{number}: told replicas {said}, in sync {isr}, leader {leader}; expected {replicas}, {in_tree}"
        check.that(good, text)
    for topic, number in sorted(told.keys() - tree.states.keys()):
        check.that(False, f"{topic}-{number} is told, and not in ZooKeeper")


def _metadata_of(address: str, client: Client) -> Told:
    """Ask one broker by hand: a client library would pass the question to whichever broker it likes."""
    host, _, port = address.rpartition(":")
    with ExitStack() as closing:
        broker = socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S)
        closing.enter_context(broker)
        protocol = client.get("security.protocol", "PLAINTEXT")
        if protocol.endswith("SSL"):
            context = ssl.create_default_context(cafile=client.get("ssl.ca.location"))
            broker = closing.enter_context(context.wrap_socket(broker, server_hostname=host.strip("[]")))
        if protocol.startswith("SASL"):
            log_in(lambda *question: _answered(broker, *question), client)
        return told_in(_answered(broker, METADATA, 1, struct.pack(">i", ALL_TOPICS)))


def _answered(broker: socket.socket, api: int, version: int, body: bytes) -> Words:
    """One request with its header of version 1, and the answer."""
    request = struct.pack(">hhih14s", api, version, 1, 14, b"outside-reader") + body
    broker.sendall(struct.pack(">i", len(request)) + request)
    with broker.makefile("rb") as answers:
        (length,) = struct.unpack(">i", answers.read(4))
        return Words(answers.read(length))


def log_in(ask: Callable[[int, int, bytes], Words], client: Client) -> None:
    """SASL by hand: PLAIN, or SCRAM as RFC 5802 has it. Raises PermissionError when the broker refuses."""
    mechanism, user, password = (client[f"sasl.{key}"] for key in ("mechanism", "username", "password"))

    def answered(api: int, version: int, body: bytes) -> Words:
        answer = ask(api, version, body)
        answer.number()  # its correlation id
        if error := answer.number("h"):
            raise PermissionError(f"the broker refuses the login of {user} by {mechanism} (error {error})")
        return answer

    def say(token: bytes) -> bytes:
        answer = answered(SASL_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)
        answer.text()
        return answer.block()

    answered(SASL_HANDSHAKE, 1, struct.pack(">h", len(mechanism)) + mechanism.encode())

    if mechanism == "PLAIN":
        say(f"\0{user}\0{password}".encode())
        return
    algorithm = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    first = f"n={user},r={secrets.token_hex(16)}"
    said = say(f"n,,{first}".encode()).decode()
    found = dict(part.split("=", 1) for part in said.split(","))
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), base64.b64decode(found["s"]), int(found["i"]))
    key = hmac.digest(salted, b"Client Key", algorithm)
    last = f"c=biws,r={found['r']}"
    signed = hmac.digest(hashlib.new(algorithm, key).digest(), f"{first},{said},{last}".encode(), algorithm)
    proof = base64.b64encode(bytes(one ^ other for one, other in zip(key, signed, strict=True))).decode()
    say(f"{last},p={proof}".encode())


class Words:
    """Kafka's primitive types, one after the other. Raises struct.error at an early end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str = "i") -> int:
        (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return int(value)

    def text(self) -> str:
        length = max(self.number("h"), 0)
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def block(self) -> bytes:
        length = max(self.number(), 0)
        self._at += length
        return self._data[self._at - length : self._at]

    def numbers(self) -> list[int]:
        return [self.number() for _ in range(self.number())]


def told_in(words: Words) -> Told:
    """A Metadata answer, version 1: correlation id, brokers, controller, topics."""
    told: Told = {}
    words.number()
    for _ in range(words.number()):
        words.number(), words.text(), words.number(), words.text()
    words.number()
    for _ in range(words.number()):
        words.number("h")
        topic = words.text()
        words.number("b")
        for _ in range(words.number()):
            words.number("h")
            partition = words.number()
            told[topic, partition] = words.number(), words.numbers(), words.numbers()
    return told


# --- what is on the disks -------------------------------------------------------------------------------------


class LogBatch(NamedTuple):
    """producer: its id and epoch; the id is -1 where a batch has none. transactional: of a transaction."""

    base_offset: int
    end_offset: int
    crc: int
    producer: tuple[int, int]
    transactional: bool = False


def batches_in(data: bytes | mmap.mmap) -> Iterator[LogBatch]:
    """The whole batches of a segment; an end that is still being written is left out. Raises ValueError."""
    at = 0
    while at + BATCH_HEADER_BYTES <= len(data):
        base, length, _, magic, crc, attributes, last_delta, _, _, *producer, _ = HEADER.unpack_from(data, at)
        if length <= 0 or at + LENGTH_AT + length > len(data):
            return
        if magic != 2:
            raise ValueError(f"batch at byte {at} has magic {magic}")
        yield LogBatch(base, base + last_delta + 1, crc, (producer[0], producer[1]), bool(attributes & TRANSACTIONAL))
        at += LENGTH_AT + length


def batches_of(directory: Path) -> tuple[int, list[LogBatch]]:
    """The log end offset of one replica, and its batches."""
    end = 0
    found: list[LogBatch] = []
    for segment in sorted(directory.glob("*.log")):
        end = max(end, int(segment.stem))
        if segment.stat().st_size:
            with segment.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                found += batches_in(data)
    return max(end, found[-1].end_offset if found else 0), found


@dataclass
class LogDirectories:
    """The brokers' data directories. replicas: broker and partition to its directory.  other: what else is there."""

    replicas: dict[tuple[int, str, int], Path] = field(default_factory=dict)
    other: list[str] = field(default_factory=list)
    brokers: set[int] = field(default_factory=set)


def read_disks(data_dirs: Iterable[Path], tree: TreeReading, gone: Collection[str]) -> LogDirectories:
    """gone: topics deleted during the run, whose directories may still wait for their deletion."""
    disks = LogDirectories()
    for data_dir in data_dirs:
        properties = dict(re.findall(r"^([a-z.]+)=(.*)$", (data_dir / "meta.properties").read_text(), re.MULTILINE))
        broker = int(properties.get("broker.id") or properties["node.id"])
        disks.brokers.add(broker)
        for directory in sorted(path for path in data_dir.iterdir() if path.is_dir() and path.name != METADATA_LOG):
            name = REPLICA.fullmatch(directory.name)
            place = (name[1], int(name[2])) if name else ("", 0)
            if broker in tree.replicas.get(place[0], {}).get(place[1], []):
                disks.replicas[broker, *place] = directory
            elif directory.name != REMOTE_INDEXES and not _waits_for_deletion(directory.name, gone):
                disks.other.append(f"broker {broker}: {directory.name}")
    return disks


def _waits_for_deletion(name: str, gone: Collection[str]) -> bool:
    """Whether a directory is what is left of a deleted topic: `<topic>-<partition>.<unique>-delete`."""
    return name.endswith("-delete") and name.rpartition(".")[0].rpartition("-")[0] in gone


def check_disks(tree: TreeReading, disks: LogDirectories) -> list[CheckLine]:
    leftover, ids = CheckLine("no leftover directories"), CheckLine("topic ids on the disks")
    ends, same = CheckLine("log end offsets are equal"), CheckLine("replicas hold the same batches")
    leftover.compared = len(disks.replicas) + len(disks.other)
    for other in disks.other:
        leftover.fail(other)
    for topic, number, replicas in tree.places:
        found = {broker: disks.replicas.get((broker, topic, number)) for broker in replicas}
        for broker, directory in found.items():
            if directory is not None:
                told = _topic_id_in(directory)
                text = f"broker {broker} {topic}-{number}: {told}, the cluster has {tree.topic_ids[topic]}"
                ids.that(told is not None and told == tree.topic_ids[topic], text)
            elif broker in disks.brokers:
                ids.that(False, f"broker {broker} has no directory {topic}-{number}")
            else:
                ids.miss(f"no data directory of broker {broker} was named")
        logs = {broker: batches_of(directory) for broker, directory in found.items() if directory is not None}
        judge_logs(f"{topic}-{number}", logs, ends, None if topic in COMPACTED else same)
    return [leftover, ids, ends, same]


def judge_logs(
    name: str, logs: Mapping[int, tuple[int, list[LogBatch]]], ends: CheckLine, same: CheckLine | None
) -> None:
    """same: None for compacted topics, which every broker cleans in its own time."""
    by_broker = {broker: end for broker, (end, _) in logs.items()}
    ends.that(len(set(by_broker.values())) == 1, f"{name}: {by_broker}")
    if same is not None:
        start = max((batches[0].base_offset for _, batches in logs.values() if batches), default=0)
        parts = [[batch for batch in batches if batch.base_offset >= start] for _, batches in logs.values()]
        same.that(all(part == parts[0] for part in parts), f"{name}: batches differ between brokers {sorted(logs)}")


def _as_brokers_write(topic_id: str) -> str:
    """Kafka's files have the URL-safe letters of base64, without padding; librdkafka prints the standard ones."""
    return topic_id.replace("+", "-").replace("/", "_").rstrip("=")


def _topic_id_in(directory: Path) -> str | None:
    try:
        found = re.search(r"^topic_id: *(\S+)$", (directory / "partition.metadata").read_text(), re.MULTILINE)
    except FileNotFoundError:
        return None
    return found[1] if found else None


# --- the verdict ----------------------------------------------------------------------------------------------


def settled(look: Callable[[], list[CheckLine]], settle_s: float) -> tuple[list[CheckLine], list[str]]:
    """Look until all is good, and for `settle_s` seconds at most: the last look, and what the first one waited for."""
    until = time.monotonic() + settle_s
    checks = look()
    waited_for = [f"{check.name}: {text}" for check in checks for text in check.first]
    while exit_code(checks) != 0 and time.monotonic() < until:
        time.sleep(SETTLE_EVERY_S)
        checks = look()
    return checks, waited_for[:FIRST_MAX]


def attempt(name: str, look: Callable[[], list[CheckLine]], within_s: float = 0.0) -> list[CheckLine]:
    """What a look found; one that could not be taken within so many seconds is a check that was not read.

    A question to a partition whose leader moves has no answer at first, and librdkafka gives no second one. Only the
    question is asked again, never one whose answer was bad.
    """
    until = time.monotonic() + within_s
    while True:
        try:
            return look()
        except TROUBLE as error:
            if time.monotonic() >= until:
                check = CheckLine(name)
                check.miss(f"{type(error).__name__}: {error}")
                return [check]
        time.sleep(SETTLE_EVERY_S)


def exit_code(checks: Iterable[CheckLine]) -> int:
    known = list(checks)
    if any(check.failed for check in known):
        return 1
    return 2 if not known or any(check.not_read for check in known) else 0


def judge(chosen: argparse.Namespace) -> dict[str, Any]:
    """The whole report. Raises one of TROUBLE when the ledger or ZooKeeper cannot be read at all."""
    began = time.monotonic()
    recreated = dict(word.split("=", 1) for word in chosen.recreated)
    ledger = Ledger(chosen.ledger, chosen.deleted, recreated)
    client = client_of(chosen)
    gone = {*chosen.deleted, *recreated}
    trees: list[TreeReading] = []
    with tree_source(chosen, client) as read:

        def look() -> list[CheckLine]:
            return attempt("cluster", look_once)

        def look_once() -> list[CheckLine]:
            tree = read()
            trees[:] = [tree]
            return look_at_cluster(tree, ledger, client, chosen.data_dir, gone)

        cluster, waited_for = settled(look, chosen.settle_s)
        tree = trees[0] if trees else read()
    records = RecordJudge(ledger)
    checks = [
        *attempt(
            "records",
            lambda: check_records(client, ledger, tree, records, chosen.deadline_s, chosen.data_dir),
        ),
        *attempt("open transactions", lambda: check_open_transactions(client, tree, ledger), chosen.settle_s),
        *attempt("groups", lambda: check_groups(client, ledger), chosen.settle_s),
        *cluster,
    ]
    return {
        "exit_code": exit_code(checks),
        "run": ledger.run,
        "ended_in_order": ledger.ended,
        "excluded": ledger.excluded,
        "unpromised": records.unpromised,
        "foreign": records.foreign,
        "waited_for": waited_for,
        "took_s": round(time.monotonic() - began, 1),
        "checks": [asdict(check) for check in checks],
    }


def client_of(chosen: argparse.Namespace) -> Client:
    login = {} if chosen.client is None else json.loads(chosen.client.read_bytes())
    return {**login, "bootstrap.servers": chosen.bootstrap}


@contextmanager
def tree_source(chosen: argparse.Namespace, client: Client) -> Iterator[Callable[[], TreeReading]]:
    """Where topics, replicas and leaders are read: in ZooKeeper, or without one from brokers."""
    if chosen.zookeeper is None:
        yield lambda: read_tree_of_brokers(client)
        return
    zookeeper = KazooClient(hosts=chosen.zookeeper, timeout=ANSWER_S, read_only=True)
    zookeeper.start(timeout=CONNECT_S)
    try:
        yield lambda: read_tree(zookeeper)
    finally:
        zookeeper.stop()
        zookeeper.close()


def look_at_cluster(
    tree: TreeReading, ledger: Ledger, client: Client, data_dirs: Iterable[Path], gone: Collection[str]
) -> list[CheckLine]:
    on_disk = attempt("directories", lambda: check_disks(tree, read_disks(data_dirs, tree, gone)))
    return [*check_tree(tree, ledger), *check_brokers(tree, client), *on_disk]


def as_text(report: Mapping[str, Any]) -> str:
    lines = [f"{'check':<52} {'compared':>9} {'failed':>7} {'not read':>9}"]
    for check in report["checks"]:
        lines.append(f"{check['name']:<52} {check['compared']:>9} {check['failed']:>7} {check['not_read']:>9}")
        lines += [f"    {text}" for text in check["first"]]
    verdict = ("all good", "something failed", "something could not be checked")[report["exit_code"]]
    return "\n".join([*lines, f"{verdict}; run {report['run']}, {report['took_s']} s"])


def main(arguments: list[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    try:
        report = judge(chosen)
    except Exception as error:  # a fault of this program says nothing of the cluster: exit code 1 would
        print(f"could not check: {type(error).__name__}: {error}", file=sys.stderr)
        if not isinstance(error, TROUBLE):
            traceback.print_exc()
        return 2
    print(json.dumps(report, indent=1) if chosen.json else as_text(report))
    return int(report["exit_code"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bootstrap", required=True, help="host:port,...")
    parser.add_argument("--client", type=Path, help="JSON file: how to log in to brokers, as librdkafka's keys")
    parser.add_argument("--zookeeper", help="host:port,... with the chroot; left out where there is none any more")
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path, action="append", default=[], help="of a broker; once for each")
    parser.add_argument("--deleted", action="append", default=[], metavar="TOPIC", help="is not looked for")
    parser.add_argument(
        "--recreated", action="append", default=[], metavar="TOPIC=MARK", help="counts from a mark of the ledger on"
    )
    parser.add_argument("--settle-s", type=float, default=SETTLE_S, help="how long the cluster may need to be whole")
    parser.add_argument("--deadline-s", type=float, default=READ_DEADLINE_S, help="for reading every record")
    parser.add_argument("--json", action="store_true", help="the report as one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
