"""How large a request a ZooKeeper server takes: found exactly, with few questions, and silence is no answer.

The same with real servers: tests/e2e/test_small_requests.py.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from migrator.node.zookeeper import request_limits
from migrator.node.zookeeper.request_limits import FRESH_REFUSED_S, FRESH_S, RequestLimits, ServerLimit, ask_servers
from migrator.zk.multi import JUTE_MAXBUFFER

EXPIRED = struct.pack(">iiqi", 0, 0, 0, 16) + bytes(17)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """How soon a server answers is no subject here, except for one that never does."""
    monkeypatch.setattr(request_limits, "CONNECT_S", 60.0)
    monkeypatch.setattr(request_limits, "ANSWER_S", 60.0)


@dataclass
class Server:
    """Takes requests up to a length and answers that the session is expired. closes: so many connections at once."""

    limit: int
    closes: int = 0
    silent: bool = False
    sizes: list[int] = field(default_factory=list)
    address: str = ""

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                self.talk(connection)

    def talk(self, connection: socket.socket) -> None:
        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        self.sizes.append(size)
        if self.closes or size > self.limit:
            self.closes -= bool(self.closes)
            return
        request = connection.recv(size, socket.MSG_WAITALL)
        protocol, _, _, session, password = struct.unpack_from(">iqiqi", request)
        assert (protocol, session, len(request)) == (0, 0x7A6B326B72616674, 28 + password + 1)
        if self.silent:
            connection.recv(1)
        else:
            connection.sendall(struct.pack(">i", len(EXPIRED)) + EXPIRED)


@contextmanager
def running(server: Server) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.address = f"127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=server.serve, args=(listener,))
        thread.start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@contextmanager
def nobody_listens() -> Iterator[str]:
    """An address that refuses connections, and is nobody else's meanwhile."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{kept.getsockname()[1]}"


def test_a_server_that_takes_it_is_asked_once() -> None:
    with running(Server(JUTE_MAXBUFFER)) as server:
        assert ask_servers(f"{server.address}/chroot", JUTE_MAXBUFFER) == (ServerLimit(server.address, JUTE_MAXBUFFER),)
    assert server.sizes == [JUTE_MAXBUFFER]


@pytest.mark.parametrize("limit", [100, 97_150, 200_000, JUTE_MAXBUFFER - 1])
def test_the_size_that_passes_is_found_to_the_byte_and_with_few_questions(limit: int) -> None:
    with running(Server(limit)) as small, running(Server(JUTE_MAXBUFFER)) as large:
        found = ask_servers(f"{large.address},{small.address}", JUTE_MAXBUFFER)
    assert found == (ServerLimit(large.address, JUTE_MAXBUFFER), ServerLimit(small.address, limit))
    assert len(small.sizes) <= 23
    assert len(large.sizes) == 1


@pytest.mark.parametrize("form", ["{0}, {1}/kafka", " {0} ,{1},/kafka", "{0},,\t{1} "])
def test_a_space_or_a_trailing_comma_of_the_connect_string_makes_no_server_unknown(form: str) -> None:
    """As met in the field: a false Z2K-1116 for a server whose name began with a space."""
    with running(Server(JUTE_MAXBUFFER)) as one, running(Server(100)) as other:
        found = ask_servers(form.format(one.address, other.address), JUTE_MAXBUFFER)
    assert found == (ServerLimit(one.address, JUTE_MAXBUFFER), ServerLimit(other.address, 100))


def test_a_connection_that_was_closed_for_another_reason_makes_no_server_small() -> None:
    with running(Server(JUTE_MAXBUFFER, closes=1)) as server:
        assert ask_servers(server.address, JUTE_MAXBUFFER) == (ServerLimit(server.address, JUTE_MAXBUFFER),)


def test_a_server_that_answers_nothing_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(Server(0)) as closing, nobody_listens() as gone:
        found = ask_servers(f"{closing.address},{gone},a..b:1", JUTE_MAXBUFFER)
    assert [each.passed for each in found] == [0, 0, 0]
    assert [each.unknown for each in found[:2]] == ["it closes the connection", "Connection refused"]
    assert found[2].unknown
    monkeypatch.setattr(request_limits, "ANSWER_S", 0.2)
    with running(Server(JUTE_MAXBUFFER, silent=True)) as silent:
        assert ask_servers(silent.address, JUTE_MAXBUFFER) == (ServerLimit(silent.address, 0, "timed out"),)


@pytest.mark.parametrize(("passed", "fresh_s"), [(200_000, FRESH_S), (100_000, FRESH_REFUSED_S)])
def test_the_waiting_gate_asks_again_only_when_an_answer_is_old(
    monkeypatch: pytest.MonkeyPatch, passed: int, fresh_s: float
) -> None:
    now = [1_000.0]
    asked: list[int] = []

    def ask(connect: str, wanted: int) -> tuple[ServerLimit, ...]:
        asked.append(wanted)
        return (ServerLimit("zk", passed),)

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    limits = RequestLimits(ask)
    for after_s, times in ((0.0, 1), (fresh_s - 1, 1), (2.0, 2)):
        now[0] += after_s
        assert limits.ask("zk", 200_000) == (ServerLimit("zk", passed),)
        assert len(asked) == times
