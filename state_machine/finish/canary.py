"""Canary traffic, where the inventory wants it: one record per broker and tick, and what became of each.

In:   an inventory file with `canary`. Out: `CanaryFigures`, asked for by the loop.
Elsewhere: counting (canary_budget.py), what closes because of it (policy/conditions.py).
Rules: a thread of its own, that no answer of a broker can end. Its own topic; partition n is led by the nth broker, so
that a broker that does not answer is seen. The producer is not idempotent: it never asks for a controller. Making the
topic does: that call is bounded, by a client of its own, since a broker names a random one as controller.
Source: end-of-road.md section 5, "Trap for clients of ours".
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import structlog
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # public, not re-exported for mypy

from migrator.findings.finding import FindingError, words_of
from migrator.fleet.inventory import Canary, Inventory
from state_machine.facts.canary import CanaryFigures
from state_machine.finish.canary_budget import CanaryBudget
from state_machine.nodes.kafka_clients import client_settings

log = structlog.get_logger()

TOPIC_S: Final = 15.0
AGAIN_S: Final = 5.0
CLIENT_LIFE_S: Final = 300.0
REPLICAS_MAX: Final = 3
ANSWERS_S: Final = 5.0
"""Beyond the longest time that a record may wait, after which its client itself answers for it."""
VALUE: Final = b"zk2kraft canary"


class CanaryClient(Protocol):
    """A producer, as far as a canary needs it."""

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: Callable[[Any, Any], None]) -> None: ...
    def poll(self, timeout: float) -> int: ...
    def flush(self, timeout: float) -> int: ...


class CanaryTraffic:
    """Canary traffic of one migration. make: a client whose topic exists; raises OSError or a finding."""

    def __init__(
        self, spec: Canary, partitions: int, make: Callable[[], CanaryClient], clock: Callable[[], float] = time.time
    ) -> None:
        self.spec = spec
        self._make = make
        self._clock = clock
        self._budget = CanaryBudget(partitions)
        self._partitions = partitions
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._problem = "it begins"
        self._thread = threading.Thread(target=self._run, name="canary", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Does not wait: what is in flight is nobody's loss."""
        self._stop.set()

    def figures(self) -> CanaryFigures:
        with self._lock:
            found = self._budget.figures(time.monotonic(), self._clock())
            return CanaryFigures(self._clock(), problem=self._problem) if self._problem else found

    def totals(self) -> tuple[int, int]:
        """Records that were answered since this traffic began, and how many of them failed."""
        with self._lock:
            return self._budget.answered_ever, self._budget.failed_ever

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                client = self._make()
                self._problem = ""
                try:
                    self._traffic(client)
                finally:  # nobody answers for a client that is gone
                    with self._lock:
                        self._budget.client_ended(time.monotonic())
            except (FindingError, KafkaException, OSError, BufferError) as error:
                self._problem = words_of(error)
                log.warning("canary.trouble", reason=self._problem)
            except Exception as error:  # a canary that ends would keep the gate as it was last
                self._problem = f"a fault of zk2kraft: {type(error).__name__} {error}"
                log.error("canary.fault", reason=self._problem)
            self._stop.wait(AGAIN_S if self._problem else 0.0)

    def _traffic(self, client: CanaryClient) -> None:
        """Send records for the life of one client."""
        ends = time.monotonic() + CLIENT_LIFE_S
        while not self._stop.is_set() and time.monotonic() < ends:
            for partition in range(self._partitions):
                self._send(client, partition)
            client.poll(0)
            until = time.monotonic() + 1.0 / self.spec.records_per_s
            while (left := until - time.monotonic()) > 0 and not self._stop.is_set():
                client.poll(min(left, 0.1))
        ends = time.monotonic() + self.spec.stall_s + ANSWERS_S
        while client.flush(1.0) and not self._stop.is_set() and time.monotonic() < ends:
            pass

    def _send(self, client: CanaryClient, partition: int) -> None:
        number = next(self._numbers)
        with self._lock:
            self._budget.sent(number, time.monotonic())

        def answered(error: Any, _: Any) -> None:
            with self._lock:
                self._budget.answered(number, partition, time.monotonic(), "" if error is None else str(error))

        client.produce(self.spec.topic, VALUE, partition=partition, on_delivery=answered)


def client_of(inventory: Inventory) -> CanaryClient:
    """A producer, once the topic is there. Blocks. Raises OSError, KafkaException, Z2K-7010."""
    assert inventory.canary is not None
    settings = client_settings(inventory)
    _make_topic(AdminClient(settings), inventory)
    timeouts = {"message.timeout.ms": int(inventory.canary.stall_s * 1000), "socket.timeout.ms": 10_000}
    return Producer({**settings, **timeouts, "acks": "all", "linger.ms": 0})


def assignments(brokers: tuple[int, ...], racks: Mapping[int, str] = {}) -> list[list[int]]:
    """Partition n is led by the nth broker; its other replicas are in other racks, as far as there are any. So our own
    topic never keeps a rack from being restarted together.
    """
    count, found = min(REPLICAS_MAX, len(brokers)), []
    for at, leader in enumerate(brokers):
        following, chosen = [*brokers[at + 1 :], *brokers[:at]], [leader]
        for each in following:
            if len(chosen) < count and racks.get(each, "") not in {racks.get(one, "") for one in chosen}:
                chosen.append(each)
        chosen += [each for each in following if each not in chosen][: count - len(chosen)]
        found.append(chosen)
    return found


def _make_topic(admin: AdminClient, inventory: Inventory) -> None:
    assert inventory.canary is not None
    topic = inventory.canary.topic
    if topic in admin.list_topics(timeout=TOPIC_S).topics:
        return
    racks = {each.id: each.rack for each in inventory.brokers}
    placed = assignments(tuple(sorted(racks)), racks)
    config = {"retention.ms": "3600000", "segment.bytes": "16777216"}
    new = NewTopic(topic, len(placed), replica_assignment=placed, config=config)
    for future in admin.create_topics([new], operation_timeout=TOPIC_S, request_timeout=TOPIC_S).values():
        future.result(TOPIC_S)
