"""Does a controller serve now? Asked 20 times a second through every broker, by a client that never waits for another.

In:   the brokers' ports.
Out:  `ControllerProbe.served_us`: when answers came that only a serving controller can give.
      `why_not_whole`: what each broker says of replicas, for the rule before the next restart.
Elsewhere: gaps between answers (road_figures.py).
The request is CreateTopics with `validate_only`. A ZooKeeper-mode broker answers it only while it is the active
controller; every other broker forwards it to the active controller, or refuses it. A KRaft controller refuses it before
the migration and while it copies. It changes nothing, so 20 a second disturb neither side. AlterConfigs would not do: a
ZooKeeper-mode broker writes topic configuration by itself, without a controller.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Final, Self, TypeVar

from migrator.lab.servers.ports import HOST
from migrator.wire.frames import decode_response, encode_request
from migrator.wire.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    MetadataRequest,
    MetadataResponse,
)
from migrator.wire.schema import Message

EVERY_S: Final = 0.05
ANSWER_S: Final = 2.0
"""A broker keeps a request that it cannot forward; a new connection asks anew."""

CLIENT: Final = "controller-probe"
CREATE_VERSION: Final = 7
METADATA_VERSION: Final = 12
NEVER_MADE: Final = CreateTopicsRequest(
    topics=(CreatableTopic(name="controller-probe", num_partitions=1, replication_factor=1),),
    timeout_ms=int(ANSWER_S * 1000),
    validate_only=True,
)
ALL_TOPICS: Final = MetadataRequest(topics=None, allow_auto_topic_creation=False)

Answer = TypeVar("Answer", bound=Message)


class ControllerProbe:
    """Use it in a `with` block. ports: by broker id. refused: error codes of the answers, how often each."""

    def __init__(self, ports: Mapping[int, int]) -> None:
        self.served_us: list[int] = []
        self.refused: Counter[int] = Counter()
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(port,), name=f"probe-{broker}", daemon=True)
            for broker, port in ports.items()
        ]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        dead = [each.name for each in self._threads if not each.is_alive()]
        self._ended.set()
        for each in self._threads:
            each.join()
        assert error is not None or not dead, f"these threads ended before their time: {dead}"

    def _run(self, port: int) -> None:
        connection: socket.socket | None = None
        due = time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            due = max(due + EVERY_S, time.monotonic())
            try:
                connection = connection or socket.create_connection((HOST, port), ANSWER_S)
                error = error_of(ask(connection, NEVER_MADE, CREATE_VERSION, CreateTopicsResponse))
            except OSError:
                if connection is not None:
                    connection.close()
                connection = None
                continue
            if error:
                self.refused[error] += 1
            else:
                self.served_us.append(time.time_ns() // 1000)
        if connection is not None:
            connection.close()


def error_of(answer: CreateTopicsResponse) -> int:
    """0: the controller would create it."""
    return next((each.error_code for each in answer.topics if each.error_code), 0)


def why_not_whole(answers: Mapping[int, MetadataResponse], topics: Iterable[str]) -> str | None:
    """None when every broker names all brokers, these topics, and only partitions that have all replicas in sync.

    answers: what each broker said, by its id. Internal topics count too.
    """
    for broker, answer in answers.items():
        missing = set(answers) - {each.node_id for each in answer.brokers}
        if missing:
            return f"broker {broker} does not name {sorted(missing)}"
        unknown = set(topics) - {each.name for each in answer.topics}
        if unknown:
            return f"broker {broker} does not know {sorted(unknown)}"
        bad = [
            f"{topic.name}-{each.partition_index}"
            for topic in answer.topics
            for each in topic.partitions
            if each.leader_id < 0 or set(each.isr_nodes) != set(each.replica_nodes)
        ]
        if bad:
            return f"broker {broker} says that {len(bad)} partitions are under-replicated, for instance {bad[0]}"
    return None


def metadata_of(port: int) -> MetadataResponse:
    """What this broker says by itself. Raises OSError."""
    with socket.create_connection((HOST, port), ANSWER_S) as connection:
        return ask(connection, ALL_TOPICS, METADATA_VERSION, MetadataResponse)


def ask(connection: socket.socket, request: Message, version: int, response: type[Answer]) -> Answer:
    """One request at a time. Raises OSError, also when the other side closes."""
    connection.sendall(encode_request(request, version, correlation_id=1, client_id=CLIENT))
    size = int.from_bytes(_read(connection, 4), "big")
    return decode_response(response, version, _read(connection, size))[1]


def _read(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        chunk = connection.recv(size - len(found))
        if not chunk:
            raise ConnectionResetError("the broker closed the connection")
        found += chunk
    return bytes(found)
