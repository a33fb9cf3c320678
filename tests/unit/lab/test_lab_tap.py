"""A tap changes no byte, and can be a bad network on request."""

from __future__ import annotations

import random
import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from migrator.lab.frames import Recorder
from migrator.lab.servers.ports import HOST, PortBook
from migrator.lab.servers.waiting import wait_until
from migrator.lab.tap import Tap


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(65536):
            self.request.sendall(data)


class EchoServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@pytest.fixture
def tap() -> Iterator[Tap]:
    book = PortBook()
    with (
        EchoServer((HOST, book.reserve()), Echo) as server,
        Tap("broker-1", port=book.reserve(), target_port=server.server_address[1], recorder=Recorder(keep=None)) as tap,
    ):
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield tap
        server.shutdown()
    book.close()


def connect(tap: Tap) -> socket.socket:
    return socket.create_connection((HOST, tap.port), timeout=60)


def receive(connection: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size and (chunk := connection.recv(65536)):
        got += chunk
    return bytes(got)


def is_dropped(connection: socket.socket) -> bool:
    """Whether the other side has ended the connection, in whichever way."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_every_byte_passes_in_both_directions_even_if_it_is_not_kafka(tap: Tap) -> None:
    sent = random.Random(7).randbytes(3_000_000)
    with connect(tap) as connection:
        threading.Thread(target=connection.sendall, args=(sent,)).start()
        assert receive(connection, len(sent)) == sent


def test_an_end_of_input_passes_and_the_answer_still_arrives(tap: Tap) -> None:
    with connect(tap) as connection:
        connection.sendall(b"last words")
        connection.shutdown(socket.SHUT_WR)
        assert receive(connection, 100) == b"last words"


def test_a_cut_drops_connections_and_refuses_new_ones_until_healed(tap: Tap) -> None:
    with connect(tap) as connection:
        connection.sendall(b"x")
        assert receive(connection, 1) == b"x"
        tap.cut()
        assert is_dropped(connection)
    with pytest.raises(ConnectionRefusedError):
        connect(tap)
    tap.heal()
    with connect(tap) as connection:
        connection.sendall(b"y")
        assert receive(connection, 1) == b"y"


def test_a_delay_holds_data_back(tap: Tap) -> None:
    tap.delay(0.1)
    with connect(tap) as connection:
        began = time.monotonic()
        connection.sendall(b"x")
        assert receive(connection, 1) == b"x"
        assert time.monotonic() - began >= 0.2  # once in each direction


def test_a_listener_that_is_down_looks_down(tap: Tap) -> None:
    tap.target_port = 1
    with connect(tap) as connection:
        assert receive(connection, 1) == b""
    wait_until(lambda: f"{tap.connections} are left" if tap.connections else None, name="connections", deadline_s=60)


def test_closing_twice_is_fine(tap: Tap) -> None:
    tap.close()
    tap.close()
