"""The client library as the traffic uses it: settings, one poller for each producer, answers with exact times.

In:   a bootstrap address and the things every thread of the traffic shares (`Surroundings`).
Out:  `ProducerClient`: send a record, get one `DeliveryReport` for it.
Elsewhere: what is sent when (producers.py), consumers (consumers.py).
The library's defaults stay, because real clients have them; every setting that differs says why.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from migrator.lab.traffic.ledger import UNTOLD, LedgerWriter
from migrator.lab.traffic.records import Record, value_of
from migrator.lab.traffic.tally import Tally

DELIVERY_TIMEOUT_S: Final = 120.0
"""A broker is stopped for 20 s; somebody may stop two in a row, and a start on a loaded machine takes another 20."""

FLUSH_DEADLINE_S: Final = DELIVERY_TIMEOUT_S + 5.0
QUEUE_RECORDS_MAX: Final = 50_000
"""100 s of 500 records/s, 15 MB; what is more is refused, error QUEUE_FULL."""

POLL_S: Final = 0.25
STATISTICS_EVERY_MS: Final = 2000
LINGER_MS: Final = 5
METADATA_TIMEOUT_S: Final = 2.0
QUEUE_FULL: Final = "QUEUE_FULL"
OFFSET_UNTOLD: Final = "OFFSET_UNTOLD"
"""A retry that the broker took for a duplicate: the client calls it acknowledged and does not know where it is. The
reader looks for it in the whole partition."""

NEVER_TAKEN: Final = ("_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")
"""The client knows no such partition, now; a record to a topic that is unknown later fails like any other."""
ASKS_AGAIN_FOR_S: Final = 60.0
"""A broker that starts in ZooKeeper mode answers before it has heard of any topic, on a busy machine for seconds; what
librdkafka then refuses, Kafka's own client keeps as long as its `max.block.ms`."""
ASKS_AGAIN_EVERY_S: Final = 0.1

logger = logging.getLogger(__name__)


class Topics:
    """Which topics are written and read now. `counts` is replaced whole, so that a thread sees a change by identity.

    returns: how often a topic came back under its name. librdkafka (2.16, its issue 4898) holds on to the leader epochs
    of the deleted topic and waits for ever where the new ones are lower, which is so as soon as a leader had changed
    once. Clients made after the return are free of it, so every thread makes new ones then.
    """

    def __init__(self) -> None:
        self.counts: Mapping[str, int] = {}
        self.returns = 0


@dataclass(frozen=True)
class Surroundings:
    """What all threads of one run share.

    name:     begins the names of clients, groups and transactional ids.
    client:   how clients log in, as the library's keys.
    stopping: producers write no more.   written: nothing is outstanding any more.
    faults:   exceptions of callbacks, which have no caller; the main thread looks here.
    """

    name: str
    run: str
    bootstrap: str
    topics: Topics
    ledger: LedgerWriter
    tally: Tally
    client: Mapping[str, str] = field(default_factory=dict)
    stopping: threading.Event = field(default_factory=threading.Event)
    written: threading.Event = field(default_factory=threading.Event)
    faults: list[Exception] = field(default_factory=list)
    transaction_numbers: itertools.count[int] = field(default_factory=itertools.count)

    def next_transaction(self) -> int:
        return next(self.transaction_numbers)

    def client_settings(self, client: str) -> dict[str, Any]:
        return {
            **self.client,
            "bootstrap.servers": self.bootstrap,
            "client.id": f"{self.name}-{client}",
            "reconnect.backoff.max.ms": 1000,  # the default, 10 s, would be felt half as long as a broker is stopped
            "error_cb": lambda error: self.tally.error(error.name()),
            "logger": logger,
        }


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """What became of one record. Times in microseconds.

    offset:  UNTOLD when it failed, and when it is there and nobody knows where.   error: "" when it did not fail.
    refused: the client library never took it, so it cannot be in a log either.
    """

    record: Record
    sent_us: int
    at_us: int
    offset: int = UNTOLD
    error: str = ""
    refused: bool = False


class ProducerClient:
    """One producer and the thread that waits for its answers, so that their times are exact to a millisecond."""

    def __init__(self, name: str, here: Surroundings, transactional_id: str | None = None) -> None:
        settings = here.client_settings(name) | {
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": LINGER_MS,
            "delivery.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
            "queue.buffering.max.messages": QUEUE_RECORDS_MAX,
            "statistics.interval.ms": STATISTICS_EVERY_MS,  # the only place that tells of retries
            "stats_cb": self._statistics,
            "error_cb": self._error,
        }
        if transactional_id is not None:
            settings["transactional.id"] = transactional_id
            settings["transaction.timeout.ms"] = settings["delivery.timeout.ms"]
        self.is_dead = False
        self._here = here
        self._returns = here.topics.returns
        self._retried = 0
        self._closed = threading.Event()
        self.producer = Producer(settings)
        self._poller = threading.Thread(target=self._poll, name=f"poll-{name}", daemon=True)
        self._poller.start()

    @property
    def is_outdated(self) -> bool:
        """Whether a topic came back since this client was made."""
        return self._returns != self._here.topics.returns

    def send(self, record: Record, answered: Callable[[DeliveryReport], None]) -> None:
        """Hand a record over; `answered` is called once, from another thread, or here when it is refused.

        Waits while the client knows no such partition; that time counts as the record's.
        """
        sent_us = now_us()

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            took_s, offset = message.latency(), message.offset()
            at_us = now_us() if took_s is None or took_s < 0 else sent_us + int(took_s * 1e6)
            if error is not None:
                answered(DeliveryReport(record, sent_us, at_us, error=error.name()))
            else:
                if offset is None or offset < 0:
                    self._here.tally.error(OFFSET_UNTOLD)
                answered(DeliveryReport(record, sent_us, at_us, UNTOLD if offset is None else offset))

        known_by_s = time.monotonic() + ASKS_AGAIN_FOR_S
        while (error := self._why_not_taken(record, on_delivery)) is not None:
            is_known_later = error in NEVER_TAKEN and self._is_wanted(record) and time.monotonic() < known_by_s
            if not is_known_later:
                refused = error == QUEUE_FULL or error in NEVER_TAKEN
                answered(DeliveryReport(record, sent_us, now_us(), error=error, refused=refused))
                return
            self._here.tally.error(error)
            time.sleep(ASKS_AGAIN_EVERY_S)

    def _why_not_taken(self, record: Record, on_delivery: Callable[[KafkaError | None, Message], None]) -> str | None:
        """The name of the error when the client library did not take the record."""
        value = value_of(self._here.run, record)
        try:
            self.producer.produce(record.topic, value, record.key, partition=record.partition, on_delivery=on_delivery)
        except BufferError:
            return QUEUE_FULL
        except KafkaException as error:
            return str(error.args[0].name())
        return None

    def _is_wanted(self, record: Record) -> bool:
        """Whether its topic is written to still, and this client will know when it is there."""
        return record.topic in self._here.topics.counts and not self.is_outdated

    def partition_counts(self) -> dict[str, int]:
        """Topic to number of partitions, as this client sees them from now on; empty when no broker answers."""
        try:
            topics = self.producer.list_topics(timeout=METADATA_TIMEOUT_S).topics
        except KafkaException as error:
            self._here.tally.error(f"metadata {error.args[0].name()}")
            return {}
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def close(self, flush_s: float = 0.0) -> None:
        """End it; what is unanswered after `flush_s` seconds fails now, so that everything sent has its answer."""
        if self._serve(self.producer.flush, flush_s):
            self.producer.purge()
            self._serve(self.producer.flush, POLL_S)
        self._closed.set()
        self._poller.join()
        self._serve(self.producer.flush, POLL_S)

    def _poll(self) -> None:
        try:
            while not self._closed.is_set():
                self._serve(self.producer.poll, POLL_S)
        except Exception as error:  # a fault of ours in a callback must end the traffic, not just this thread
            self._here.faults.append(error)
            raise

    def _serve(self, calling_back: Callable[[float], int], seconds: float) -> int:
        """A call that runs callbacks; how many records are unanswered after it.

        The library tells `error_cb` of no fatal error (fenced, a transaction that its broker knows nothing of): the
        call that happens to run callbacks raises it. The client is dead then, and its lane makes another.
        """
        try:
            calling_back(seconds)
        except KafkaException as error:
            self._error(error.args[0])
            if not self.is_dead:
                raise
        return len(self.producer)

    def _error(self, error: KafkaError) -> None:
        self._here.tally.error(error.name())
        if error.fatal():
            self.is_dead = True

    def _statistics(self, text: str) -> None:
        retried = sum(broker.txretries for broker in msgspec.json.decode(text, type=_Statistics).brokers.values())
        self._here.tally.retried(retried - self._retried)
        self._retried = retried


class _BrokerStatistics(msgspec.Struct):
    txretries: int


class _Statistics(msgspec.Struct):
    brokers: dict[str, _BrokerStatistics]


def now_us() -> int:
    return time.time_ns() // 1000
