"""The probe knows an answer from a silence, and Kafka from something else."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from migrator.lab.servers import probe
from migrator.lab.servers.ports import HOST, PortBook
from migrator.lab.servers.probe import CORRELATION_ID, why_kafka_does_not_answer, why_zookeeper_does_not_answer


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is asked here runs in this process, and may stand still with it."""
    for limit in ("KAFKA_TIMEOUT_S", "ZOOKEEPER_TIMEOUT_S"):
        monkeypatch.setattr(probe, limit, 60.0)


def ask_something_that_says(answer: bytes, *, kafka: bool = True) -> str | None:
    """The probe's opinion of a server that reads once, answers and hangs up."""

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(answer)

    with socket.create_server((HOST, 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        ask = why_kafka_does_not_answer if kafka else why_zookeeper_does_not_answer
        reason = ask(server.getsockname()[1])
        thread.join()
    return reason


def test_a_broker_that_answers_api_versions_is_there() -> None:
    assert ask_something_that_says(struct.pack(">iih", 6, CORRELATION_ID, 0)) is None


def test_a_broker_that_answers_with_an_error_is_not_ready() -> None:
    assert "error 35" in str(ask_something_that_says(struct.pack(">iih", 6, CORRELATION_ID, 35)))


def test_something_else_on_the_port_is_told_apart() -> None:
    assert "not in Kafka's protocol" in str(ask_something_that_says(b"HTTP/1.1 400 Bad Request\r\n"))


def test_a_hang_up_is_not_an_answer() -> None:
    assert "closed the connection" in str(ask_something_that_says(b""))


def test_a_closed_port_is_named() -> None:
    book = PortBook()
    port = book.reserve()
    assert f"port {port} does not answer" in str(why_kafka_does_not_answer(port))
    book.close()


def test_zookeeper_is_ready_when_it_has_a_mode() -> None:
    serving = b"Zookeeper version: 3.8.4\nMode: standalone\nNode count: 5\n"
    waiting = b"This ZooKeeper instance is not currently serving requests\n"
    assert ask_something_that_says(serving, kafka=False) is None
    assert "does not serve" in str(ask_something_that_says(waiting, kafka=False))
