"""The same changes as a ZooKeeper-mode cluster stores them, for a real ensemble.

In:   the leader's address, which change, how many in flight.
Out:  the latency of each change, from the request to the callback with its answer.
Elsewhere: the processes (systems.py), the load for KRaft controllers (kraft_load.py).
Rules: one change is one multi, and so one commit of the ensemble. Kafka's own controller needs several commits for a
topic (its znode first, then its partitions); this is the least that it could need. One session carries all of them, as
a Kafka controller's does; ZooKeeper takes its requests without waiting for the answers before.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.client import KazooClient, TransactionRequest

from tests.support.kraft_load import ANSWER_TIMEOUT_S, BROKERS, PARTITIONS

CONNECT_TIMEOUT_S: Final = 30.0
DELETED_TOGETHER: Final = 64

Fill = Callable[[TransactionRequest, int], None]
"""Puts the operations of the n-th change into a transaction."""


class Ensemble:
    """A client of one server of the ensemble; in a `with` block."""

    def __init__(self, host: str) -> None:
        self._kazoo = KazooClient(hosts=host, timeout=CONNECT_TIMEOUT_S)

    def __enter__(self) -> Ensemble:
        self._kazoo.start(CONNECT_TIMEOUT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._kazoo.stop()
        self._kazoo.close()

    def prepare(self, topics: Sequence[str]) -> None:
        """The parents, and the topics whose configuration changes."""
        for path in ("/brokers/topics", "/config/topics", "/config/changes"):
            self._kazoo.ensure_path(path)
        for topic in topics:
            self._kazoo.create(f"/config/topics/{topic}", _config({}))

    def put_load(self, fill: Fill, in_flight: int, *, ramp_s: float, seconds: float) -> list[float]:
        """Keep so many changes in flight; the latencies in seconds of those that were answered after the ramp."""
        load = _Load(self._kazoo, fill, ramp_s, seconds)
        load.run(in_flight)
        return load.latencies

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics again, so that every cell begins with the same tree."""
        for start in range(0, len(names), DELETED_TOGETHER):
            transaction = self._kazoo.transaction()
            for name in names[start : start + DELETED_TOGETHER]:
                for path in reversed(list(_topic_znodes(name))):
                    transaction.delete(path)
            _check(transaction.commit())

    def delete_notes(self) -> None:
        """The notifications of configuration changes; Kafka deletes them after 15 minutes."""
        names = self._kazoo.get_children("/config/changes")
        for start in range(0, len(names), 500):
            transaction = self._kazoo.transaction()
            for name in names[start : start + 500]:
                transaction.delete(f"/config/changes/{name}")
            _check(transaction.commit())


def creation(tag: str, names: list[str]) -> Fill:
    """One topic each; `names` gets the name of each."""

    def fill(transaction: TransactionRequest, number: int) -> None:
        name = f"{tag}-{number}"
        names.append(name)
        for path, data in _topic_znodes(name).items():
            transaction.create(path, data)

    return fill


def config_change(topics: Sequence[str]) -> Fill:
    """The configuration of one topic, and the notification by which brokers learn of it."""

    def fill(transaction: TransactionRequest, number: int) -> None:
        topic = topics[number % len(topics)]
        transaction.set_data(f"/config/topics/{topic}", _config({"retention.ms": str(86_400_000 + number)}))
        note = json.dumps({"version": 2, "entity_path": f"topics/{topic}"}, separators=(",", ":")).encode()
        transaction.create("/config/changes/config_change_", note, sequence=True)

    return fill


class _Load:
    """Whoever gets an answer sends the next change."""

    def __init__(self, kazoo: KazooClient, fill: Fill, ramp_s: float, seconds: float) -> None:
        self.latencies: list[float] = []
        self._kazoo = kazoo
        self._fill = fill
        self._numbers = itertools.count()
        self._first = time.perf_counter() + ramp_s
        self._last = self._first + seconds
        self._ended = threading.Semaphore(0)
        self._trouble: list[Exception] = []

    def run(self, in_flight: int) -> None:
        for _ in range(in_flight):
            self._send()
        for _ in range(in_flight):
            in_time = self._ended.acquire(timeout=self._last - self._first + ANSWER_TIMEOUT_S)
            assert in_time, "ZooKeeper did not answer in time"
        if self._trouble:
            raise self._trouble[0]

    def _send(self) -> None:
        transaction = self._kazoo.transaction()
        self._fill(transaction, next(self._numbers))
        began = time.perf_counter()
        transaction.commit_async().rawlink(lambda answer: self._answered(began, answer))

    def _answered(self, began: float, answer: Any) -> None:
        now = time.perf_counter()
        try:
            _check(answer.get())
            if self._first <= now < self._last:
                self.latencies.append(now - began)
            if now < self._last:
                self._send()
                return
        except Exception as error:
            self._trouble.append(error)
        self._ended.release()


def _check(results: Sequence[Any]) -> None:
    """A multi that was refused has an exception for each of its operations."""
    for result in results:
        if isinstance(result, Exception):
            raise result


def _topic_znodes(name: str) -> dict[str, bytes]:
    """What a ZooKeeper-mode cluster has for a topic, parents first."""
    replicas = {str(number): list(BROKERS) for number in range(PARTITIONS)}
    topic = {"version": 3, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": replicas, "adding_replicas": {}}
    state = {"controller_epoch": 1, "leader": 0, "version": 1, "leader_epoch": 0, "isr": list(BROKERS)}
    root = f"/brokers/topics/{name}"
    found = {
        f"/config/topics/{name}": _config({}),
        root: json.dumps({**topic, "removing_replicas": {}}, separators=(",", ":")).encode(),
        f"{root}/partitions": b"",
    }
    for number in range(PARTITIONS):
        found[f"{root}/partitions/{number}"] = b""
        found[f"{root}/partitions/{number}/state"] = json.dumps(state, separators=(",", ":")).encode()
    return found


def _config(values: dict[str, str]) -> bytes:
    return json.dumps({"version": 1, "config": values}, separators=(",", ":")).encode()
