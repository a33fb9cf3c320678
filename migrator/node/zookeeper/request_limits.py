"""How large a request does each ZooKeeper server take? Asked before a takeover, so that no write finds out.

In:   the connect string, the largest request that we may send, how sockets are opened.
Out:  one `ServerLimit` per server: the size that passed, or why that is not known.
Elsewhere: what follows from it (driver.gate), that no request is larger (driver.chained).
How: a server compares the length of each request with its `jute.maxbuffer` before it reads on, and closes the
connection when it is larger. So each question is a connection of its own. It asks for a session that does not exist,
with a password as long as the question wants: a server that takes it answers that the session is expired. Nothing is
written, no session comes to be, and ours is not touched. The server's log says "Incorrect password" for session
0x7a6b326b72616674, once for each question that passed.
Source: ZooKeeper 3.9 `NIOServerCnxn.readLength`, `ZooKeeperServer.processConnectRequest`, `reopenSession`.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from migrator.findings.finding import words_of
from migrator.model.connect_string import place_of, servers_of
from migrator.zk.tls_sockets import ZkSockets, fault_of

CONNECT_S: Final = 2.0
ANSWER_S: Final = 2.0
SERVERS_AT_ONCE: Final = 8
FRESH_S: Final = 600.0
"""So long an answer counts with which every server passed; the waiting gate asks its questions every second."""
FRESH_REFUSED_S: Final = 10.0

NO_SESSION: Final = int.from_bytes(b"zk2kraft")
_HEAD: Final = struct.Struct(">iqiqi")
_READ_ONLY: Final = b"\x01"
SMALL: Final = 64
"""Every server takes that much, at which a client asks for its session."""


class ServerLimit(NamedTuple):
    """passed: the size in bytes that passed, at most what was asked for. unknown: why nothing is known of it."""

    server: str
    passed: int
    unknown: str = ""


class RequestLimits:
    """The answers of the servers, asked again when they are no longer fresh. Its calls block."""

    def __init__(self, ask: Callable[[str, int], tuple[ServerLimit, ...]] | None = None) -> None:
        self._ask = ask or ask_servers
        self._found: tuple[ServerLimit, ...] = ()
        self._until = 0.0

    def ask(self, connect: str, wanted: int) -> tuple[ServerLimit, ...]:
        """wanted: bytes of the largest request."""
        if time.monotonic() >= self._until:
            self._found = self._ask(connect, wanted)
            passed = all(each.passed >= wanted for each in self._found)
            self._until = time.monotonic() + (FRESH_S if passed else FRESH_REFUSED_S)
        return self._found


def ask_servers(connect: str, wanted: int, sockets: ZkSockets | None = None) -> tuple[ServerLimit, ...]:
    """All servers of the connect string at the same time. sockets: those of the session; None: without TLS."""
    servers = servers_of(connect)
    with ThreadPoolExecutor(SERVERS_AT_ONCE) as pool:
        return tuple(pool.map(lambda server: _ask(server, wanted, sockets or ZkSockets()), servers))


def _ask(server: str, wanted: int, sockets: ZkSockets) -> ServerLimit:
    """The least of a name's addresses that answer."""
    try:
        name = place_of(server)[0]
        answers = [_ask_address(server, _Asked(place, name, sockets), wanted) for place in _addresses(server)]
    except (OSError, ValueError, OverflowError) as error:  # ValueError: a host that is no name
        return ServerLimit(server, 0, words_of(error))
    answered = [each for each in answers if not each.unknown]
    return min(answered or answers, key=lambda each: each.passed)


def _addresses(server: str) -> list[tuple[str, int]]:
    """Each of them may be another server."""
    host, port = place_of(server)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((str(address[0]), int(address[1])) for *_, address in found))


class _Asked(NamedTuple):
    """One address, the name that its certificate is for, and how it is spoken to."""

    place: tuple[str, int]
    name: str
    sockets: ZkSockets


def _ask_address(server: str, asked: _Asked, wanted: int) -> ServerLimit:
    try:
        if _passes(asked, wanted):
            return ServerLimit(server, wanted)
        if not _passes(asked, SMALL):
            return ServerLimit(server, 0, "it closes the connection")
        passed = _largest(asked, wanted)
        return ServerLimit(server, wanted if _passes(asked, wanted) else passed)
    except ssl.SSLError as error:
        return ServerLimit(server, 0, fault_of(error, asked.name))
    except OSError as error:
        return ServerLimit(server, 0, words_of(error))


def _largest(asked: _Asked, refused: int) -> int:
    """The largest that passes, by halves: 20 questions for 1 MiB."""
    passed = SMALL
    while refused - passed > 1:
        middle = (passed + refused) // 2
        if _passes(asked, middle):
            passed = middle
        else:
            refused = middle
    return passed


def _passes(asked: _Asked, size: int) -> bool:
    """Whether a request of `size` bytes is answered. Raises OSError when nobody is there, or nobody answers in time."""
    with asked.sockets.open(asked.place, CONNECT_S, asked.name) as connection:
        connection.settimeout(ANSWER_S)
        try:
            connection.sendall(b"".join(_question(size)))
            return bool(connection.recv(1))
        except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return False


def _question(size: int) -> Iterator[bytes]:
    """`size`: of all that follows the length, as the server counts."""
    password = size - _HEAD.size - len(_READ_ONLY)
    yield struct.pack(">i", size)
    yield _HEAD.pack(0, 0, 0, NO_SESSION, password)
    yield bytes(password)
    yield _READ_ONLY
