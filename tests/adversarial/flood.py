"""Strangers who want everything a port has: half-sent requests, bodies without an end, connections that say nothing.

In:   `python -m tests.adversarial.flood HOST:PORT ...`, each port of a running migration: the service, control ports,
      controller listeners. Only addresses of this machine.
Out:  one line per port and kind of flood: how many ordinary requests were answered meanwhile, and how slowly. Exit
      code 1 where one was not, 2 for an address that is not of this machine.
What a port speaks is found by asking. Ordinary is: `GET /healthz`, or ApiVersions; of any other port (TLS): that a
connection stays open for a moment.
"""

from __future__ import annotations

import contextlib
import ipaddress
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

HALF_SENT: Final = 600
IDLE: Final = 1_000
BODY_BYTES: Final = 800_000_000
ASK_EVERY_S: Final = 0.2
ANSWER_WITHIN_S: Final = 5.0
TRIES: Final = 3
"""Under a flood a connection may be closed for another one, as a client's library expects: it tries again."""
AGAIN_S: Final = 0.05
SECONDS: Final = 8.0

API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 7, -1)
HEALTH: Final = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
HALF: Final = {
    "http": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    "kafka": struct.pack(">ihh", 1_000, 18, 0),
    "other": b"\x16\x03\x01\x02\x00\x01",
}
LARGE: Final = {
    "http": b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 800000000\r\n\r\n",
    "kafka": struct.pack(">ihh", 90_000_000, 18, 0),
    "other": b"\x16\x03\x01\xff\xff",
}
CHUNKS: Final = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK: Final = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"


@dataclass(frozen=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def connect(self, timeout_s: float = ANSWER_WITHIN_S) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=timeout_s)


@dataclass(frozen=True)
class Meanwhile:
    """Ordinary requests during a flood. reached: connections of the flood that were accepted."""

    flood: str
    asked: int
    answered: int
    slowest_s: float
    reached: int = 0

    @property
    def is_well(self) -> bool:
        return self.asked == self.answered > 0

    def __str__(self) -> str:
        reached = f", {self.reached} connections" if self.reached else ""
        return f"{self.flood}{reached}: {self.answered} of {self.asked} answered, slowest {self.slowest_s:.2f} s"


def kind_of(address: Address) -> str:
    """`http`, `kafka` or `other`."""
    for _ in range(TRIES):
        for kind in ("http", "kafka"):
            if _ASK[kind](address):
                return kind
    return "other"


def flood(
    address: Address, *, half_sent: int = HALF_SENT, idle: int = IDLE, body: int = BODY_BYTES, seconds: float = SECONDS
) -> Iterator[Meanwhile]:
    """One kind after the other."""
    kind = kind_of(address)
    attacks: list[tuple[str, Callable[[], contextlib.AbstractContextManager[list[int]]]]] = [
        (f"{half_sent} half-sent requests", lambda: _connections(address, half_sent, HALF[kind])),
        (f"{idle} idle connections", lambda: _connections(address, idle, b"")),
        (f"a body of {body} bytes", lambda: _body(address, LARGE[kind], b"a" * 65_536, body)),
    ]
    if kind == "http":
        attacks.append((f"a body of {body} bytes in chunks", lambda: _body(address, CHUNKS, CHUNK, body)))
    for name, attack in attacks:
        with attack() as reached:
            yield _ask_meanwhile(f"{address} {kind}, {name}", address, kind, seconds, reached)


def _ask_meanwhile(name: str, address: Address, kind: str, seconds: float, reached: list[int]) -> Meanwhile:
    asked = answered = 0
    slowest_s = 0.0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        asked += 1
        answered += _is_answered(address, kind)
        slowest_s = max(slowest_s, time.monotonic() - began)
        time.sleep(ASK_EVERY_S)
    return Meanwhile(name, asked, answered, slowest_s, sum(reached))


def _is_answered(address: Address, kind: str) -> bool:
    """In one of a few tries. Hundreds of connections that come at once may take the place of one that has just come."""
    for number in range(TRIES):
        if number:
            time.sleep(AGAIN_S)
        if _ASK[kind](address):
            return True
    return False


# --- floods -----------------------------------------------------------------------------------------------


@contextmanager
def _connections(address: Address, number: int, says: bytes) -> Iterator[list[int]]:
    """As many as there may be, until the end; one that is closed is opened again."""
    ended = threading.Event()
    reached = [0]
    held: list[socket.socket] = []

    def hold() -> None:
        while not ended.is_set():
            for _ in range(number - len(held)):
                if ended.is_set():
                    return
                try:
                    opened = address.connect(1.0)
                except OSError:
                    continue
                reached[0] += 1
                opened.setblocking(False)
                held.append(opened)
                with contextlib.suppress(OSError):
                    opened.sendall(says)
            ended.wait(0.2)
            closed = [each for each in held if not _is_open(each)]
            held[:] = [each for each in held if each not in closed]
            for each in closed:
                each.close()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield reached
    finally:
        ended.set()
        thread.join()
        for each in held:
            each.close()


def _is_open(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


@contextmanager
def _body(address: Address, head: bytes, part: bytes, most: int) -> Iterator[list[int]]:
    """Sent again and again, as far as somebody takes it."""
    ended = threading.Event()
    reached = [0]

    def send() -> None:
        while not ended.is_set():
            try:
                with address.connect() as connection:
                    reached[0] += 1
                    connection.sendall(head)
                    for _ in range(most // len(part)):
                        if ended.is_set():
                            return
                        connection.sendall(part)
            except OSError:
                ended.wait(0.1)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield reached
    finally:
        ended.set()
        thread.join()


# --- ordinary requests ------------------------------------------------------------------------------------


def _answers_http(address: Address) -> bool:
    """Any answer of HTTP: a controller whose loop is busy says 503, which is another matter."""
    return _answer(address, HEALTH, 12).startswith(b"HTTP/1.1 ")


def _answers_kafka(address: Address) -> bool:
    return _answer(address, API_VERSIONS, 8)[4:] == struct.pack(">i", 7)


def _stays_open(address: Address) -> bool:
    try:
        with address.connect() as connection:
            connection.settimeout(0.2)
            return connection.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def _answer(address: Address, request: bytes, length: int) -> bytes:
    answer = b""
    try:
        with address.connect() as connection:
            connection.sendall(request)
            while len(answer) < length and (more := connection.recv(length - len(answer))):
                answer += more
    except OSError:
        pass
    return answer


_ASK: Final[dict[str, Callable[[Address], bool]]] = {
    "http": _answers_http,
    "kafka": _answers_kafka,
    "other": _stays_open,
}


def address_of(text: str) -> Address:
    """Raises ValueError for one that is not of this machine: nobody else is flooded."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not ipaddress.ip_address("127.0.0.1" if host == "localhost" else host).is_loopback:
        raise ValueError(f"{text} is not an address of this machine")
    return Address(host, int(port))


def main(arguments: list[str]) -> int:
    try:
        addresses = [address_of(each) for each in arguments]
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    is_well = bool(addresses)
    for address in addresses:
        for found in flood(address):
            print(f"{'well' if found.is_well else 'NOT ANSWERED'}  {found}", flush=True)
            is_well = is_well and found.is_well
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
