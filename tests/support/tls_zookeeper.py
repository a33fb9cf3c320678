"""A server that speaks enough of ZooKeeper's protocol for a session, with TLS or without it: no Java, one process.

In:   a context for TLS, or None. Out: its port; how many connections it took.
Each request is answered with the data of one znode. Answers are gathered while more requests wait, and go out in one
record: what a busy server does.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

CONNECTED: Final = struct.pack(">iiqi", 0, 10_000, 77, 16) + bytes(16) + b"\0"
DATA: Final = b"d" * 50
STAT: Final = struct.pack(">qqqqiiiqiiq", 1, 1, 1, 1, 0, 0, 0, 0, len(DATA), 0, 1)
CLOSE: Final = -11
PING: Final = 11


class TlsZooKeeper:
    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                taken, _ = self._listening.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(taken,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with suppress(OSError, ValueError), plain:
            plain.settimeout(10)
            if self._context is None:
                self._answer(plain)
            else:
                with self._context.wrap_socket(plain, server_side=True) as secured:
                    self._answer(secured)

    def _answer(self, connection: socket.socket) -> None:
        _frame(connection)
        connection.sendall(struct.pack(">i", len(CONNECTED)) + CONNECTED)
        gathered, ended = b"", False
        while not ended:
            xid, kind = struct.unpack(">ii", _frame(connection)[:8])
            answer = struct.pack(">iqi", xid, 1, 0)
            ended = kind == CLOSE
            if kind not in (PING, CLOSE):
                answer += struct.pack(">i", len(DATA)) + DATA + STAT
            gathered += struct.pack(">i", len(answer)) + answer
            waiting = isinstance(connection, ssl.SSLSocket) and connection.pending()
            if not waiting and not _has_more(connection):
                connection.sendall(gathered)
                gathered = b""


def _has_more(connection: socket.socket) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(0.1))


def _frame(connection: socket.socket) -> bytes:
    """As a real server: what announces more than it may have is no request, and ends the connection."""
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    if not 0 <= size <= 1 << 20:
        raise ValueError(size)
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise OSError("closed")
        found += part
    return found


@contextmanager
def a_tls_zookeeper(context: ssl.SSLContext | None) -> Iterator[TlsZooKeeper]:
    server = TlsZooKeeper(context)
    try:
        yield server
    finally:
        server.close()
