"""Who else has a session of ZooKeeper: answers of `cons` read, brokers left out, servers that do not tell named."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from migrator.findings.finding import Occurrence
from migrator.node.zookeeper import zookeeper_clients
from migrator.node.zookeeper.zookeeper_clients import Connection, foreign_sessions, not_of_brokers, parse_connections
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession

BROKER, OURS, EXPORTER, AUTHORIZER = 0x1000A, 0x1, 0x20030, 0x1000B


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """How soon a server answers is no subject here."""
    monkeypatch.setattr(zookeeper_clients, "TIMEOUT_S", 60.0)


def a_line(address: str, session: int) -> str:
    return f" /{address}:40000[1](queued=0,recved=9,sent=9,sid=0x{session:x},lop=PING,est=1,to=18000,lcxid=0x7)\n"


ANSWER = "".join(
    [
        a_line("10.0.0.1", BROKER),
        a_line("10.0.0.1", AUTHORIZER),
        a_line("10.0.0.9", OURS),
        a_line("10.0.0.7", EXPORTER),
        a_line("0:0:0:0:0:0:0:1", 0x30),
        " /10.0.0.9:40001[0](queued=0,recved=1,sent=0)\n\n",
    ]
)


def test_connections_are_read_with_address_and_session() -> None:
    assert parse_connections(ANSWER) == [
        Connection("10.0.0.1", BROKER),
        Connection("10.0.0.1", AUTHORIZER),
        Connection("10.0.0.9", OURS),
        Connection("10.0.0.7", EXPORTER),
        Connection("0:0:0:0:0:0:0:1", 0x30),
    ]
    assert parse_connections("This ZooKeeper instance is not currently serving requests\n") == []


def test_a_brokers_authorizer_is_known_by_the_brokers_address() -> None:
    assert not_of_brokers(parse_connections(ANSWER), {BROKER}, OURS) == [
        Connection("0:0:0:0:0:0:0:1", 0x30),
        Connection("10.0.0.7", EXPORTER),
    ]


@contextmanager
def a_server(answer: str) -> Iterator[str]:
    """Answers one question and closes, as ZooKeeper does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(4) == b"cons"
                connection.sendall(answer.encode())

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@contextmanager
def nobody_listens() -> Iterator[str]:
    """An address that refuses connections, and is nobody else's meanwhile."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{kept.getsockname()[1]}"


def asked(servers: str) -> list[Occurrence]:
    ensemble = FakeEnsemble()
    ensemble.create("/brokers/ids/1")
    ensemble.nodes["/brokers/ids/1"].owner = BROKER
    return list(foreign_sessions(FakeSession(ensemble, OURS, connect=f"{servers}/kafka")))


def test_every_server_is_asked_and_foreign_sessions_are_told_with_their_addresses() -> None:
    """F-57."""
    with a_server(ANSWER) as one, a_server(a_line("10.0.0.8", 0x40)) as two:
        (found,) = asked(f"{one},{two}")
    assert (found.code, found.values["count"]) == ("Z2K-1046", 3)
    assert "10.0.0.7 (session 0x20030)" in found.text
    assert "10.0.0.8 (session 0x40)" in found.text


def test_where_only_brokers_are_there_is_no_finding() -> None:
    with a_server(a_line("10.0.0.1", BROKER)) as server:
        assert asked(server) == []


@pytest.mark.parametrize("answer", ["cons is not executed because it is not in the whitelist.\n"])
def test_a_server_that_does_not_tell_is_named(answer: str) -> None:
    with a_server(answer) as server:
        (found,) = asked(server)
    assert (found.code, found.values["server"]) == ("Z2K-1047", server)
    assert "whitelist" in found.text


def test_a_server_that_is_not_there_is_named() -> None:
    with nobody_listens() as server:
        (found,) = asked(server)
    assert found.code == "Z2K-1047"
    assert "Connection refused" in found.text
