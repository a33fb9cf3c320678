"""A few hand-made bytes: does something that speaks Kafka's or ZooKeeper's protocol answer here?

In:   a port on loopback.
Out:  None when it answers as it should, else the reason why not (for wait_until).
Elsewhere: real clients (cluster.py), and our own codec, which the laboratory must not use: it is the outside world.
Source: Kafka's protocol guide (ApiVersions, api key 18, every broker and controller answers version 0);
ZooKeeper's administrator guide ("srvr" answers with a line "Mode:" once the server serves requests).
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value

KAFKA_TIMEOUT_S: Final = 2.0
ZOOKEEPER_TIMEOUT_S: Final = 0.5
"""Short, because a ZooKeeper that is just starting may take a question and never answer it; the next one it does."""

API_VERSIONS: Final = 18
CORRELATION_ID: Final = 0x5A324B
"""Any number; that the answer repeats it shows that Kafka is there and not something else."""

_REQUEST_BODY: Final = struct.pack(">hhih", API_VERSIONS, 0, CORRELATION_ID, -1)
API_VERSIONS_REQUEST: Final = struct.pack(">i", len(_REQUEST_BODY)) + _REQUEST_BODY
"""Size, api key, version 0, correlation id, no client id; the body of version 0 is empty."""


def why_kafka_does_not_answer(port: int, host: str = HOST, tls: ssl.SSLContext | None = None) -> str | None:
    """None when a broker or controller answers ApiVersions on this port, which it does before SASL as well."""
    answer = _ask(host, port, API_VERSIONS_REQUEST, enough=10, timeout_s=KAFKA_TIMEOUT_S, tls=tls)
    if isinstance(answer, str):
        return answer
    _, correlation_id, error_code = struct.unpack(">iih", answer[:10])
    if correlation_id != CORRELATION_ID:
        return f"port {port} answers, but not in Kafka's protocol"
    return None if error_code == 0 else f"port {port} answers ApiVersions with error {error_code}"


def why_zookeeper_does_not_answer(port: int, host: str = HOST) -> str | None:
    """None when a ZooKeeper server on this port serves requests (in an ensemble: has a leader)."""
    answer = _ask(host, port, b"srvr", enough=None, timeout_s=ZOOKEEPER_TIMEOUT_S)
    if isinstance(answer, str):
        return answer
    if b"\nMode: " in answer:
        return None
    return f"port {port} answers, but does not serve requests yet"


def zookeeper_mode(port: int, host: str = HOST) -> str | None:
    """What the server says of itself: leader, follower, standalone or read-only; None when it does not serve."""
    answer = _ask(host, port, b"srvr", enough=None, timeout_s=ZOOKEEPER_TIMEOUT_S)
    found = None if isinstance(answer, str) else re.search(rb"^Mode: (\S+)", answer, re.MULTILINE)
    return None if found is None else found[1].decode()


def tls_of(properties: Mapping[str, Value], port: int) -> ssl.SSLContext | None:
    """How to be answered by who runs with these properties and listens on this port; None without TLS.

    A certificate is shown where the store is one that OpenSSL opens; listeners with SASL ask for none.
    """
    names = [each.split("://")[0] for each in str(properties["listeners"]).split(",") if each.endswith(f":{port}")]
    protocols = dict(
        each.split(":") for each in str(properties.get("listener.security.protocol.map", "")).split(",") if each
    )
    if not any(protocols.get(name, name).endswith("SSL") for name in names):
        return None
    is_pem = properties.get("ssl.keystore.type") == "PEM"
    identity = properties.get("ssl.keystore.location") if is_pem else None
    return any_server(None if identity is None else Path(str(identity)))


def any_server(identity: Path | None) -> ssl.SSLContext:
    """TLS that believes every server and shows a certificate of its own, where there is one: enough to be answered."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if identity is not None:
        context.load_cert_chain(identity)
    return context


def _ask(
    host: str, port: int, question: bytes, *, enough: int | None, timeout_s: float, tls: ssl.SSLContext | None = None
) -> bytes | str:
    """Send, then read `enough` bytes (None: to the end); a string says why that did not work."""
    answer = b""
    try:
        with ExitStack() as closing:
            connection: socket.socket = closing.enter_context(socket.create_connection((host, port), timeout_s))
            if tls is not None:
                connection = closing.enter_context(tls.wrap_socket(connection))
            connection.sendall(question)
            while (enough is None or len(answer) < enough) and (chunk := connection.recv(4096)):
                answer += chunk
    except OSError as error:
        return f"port {port} does not answer ({error.strerror or error})"
    if enough is not None and len(answer) < enough:
        return f"port {port} closed the connection"
    return answer
