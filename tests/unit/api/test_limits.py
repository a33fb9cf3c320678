"""What the service takes from anybody before it knows who it is: connections, heads, bodies, and how long."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from structlog.testing import capture_logs

from api.app import BODY_BYTES_MAX, OPEN_BYTES_MAX, guarded
from api.commands import service as command
from migrator.findings.service import BODY_TOO_LARGE, CONNECTION_CLOSED
from migrator.http import bounded_port, said_once
from migrator.http.bounded_port import PortLimits
from tests.unit.api.service import TOKEN, Served

CHUNKS = 40


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)


def test_without_a_token_a_body_is_as_large_as_a_login_and_no_larger(served: Served) -> None:
    http = served.foreign_request
    assert http.post("/login", content=b"token=" + b"a" * (OPEN_BYTES_MAX - 6)).status_code == 401
    found = http.post("/login", content=b"token=" + b"a" * OPEN_BYTES_MAX)
    assert (found.status_code, found.json()["code"]) == (413, BODY_TOO_LARGE.code)
    assert BODY_TOO_LARGE.code == "Z2K-4062"
    assert found.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("open_path", [True, False])
def test_of_a_body_in_chunks_no_more_is_read_than_its_limit(served: Served, open_path: bool) -> None:
    most = OPEN_BYTES_MAX if open_path else BODY_BYTES_MAX
    sent = 0

    async def chunks() -> Any:
        nonlocal sent
        for _ in range(CHUNKS):
            sent += most // 8
            yield b"a" * (most // 8)

    if open_path:
        found = served.foreign_request.post("/login", content=chunks())
    else:
        found = served.http.post("/api/v1/migrations", content=chunks())
    assert (found.status_code, found.json()["code"]) == (413, "Z2K-4062")
    assert sent <= most + most // 8


def test_who_has_no_token_hears_nothing_of_limits(served: Served) -> None:
    found = served.foreign_request.post("/api/v1/migrations", content=b"a" * (BODY_BYTES_MAX + 1))
    assert found.status_code == 401


def with_service(served: Served, story: Callable[[int], Any]) -> tuple[Any, list[Any]]:
    """story: on a thread, with the port of the service's own listener. Returns its answer, and what was logged."""

    async def run() -> Any:
        listening = socket.create_server(("127.0.0.1", 0))
        config, bounded = command.listener_of(guarded(served.app, TOKEN), listening)
        server = uvicorn.Server(config)
        port = bounded.getsockname()[1]
        serving = asyncio.create_task(server.serve([bounded]))
        try:
            return await asyncio.to_thread(story, port)
        finally:
            server.should_exit = True
            await serving

    with capture_logs() as logged:
        answer = asyncio.run(asyncio.wait_for(run(), 120))
    return answer, [each for each in logged if each["event"] == "http.closed"]


def test_half_sent_requests_end_in_seconds_and_the_log_names_their_address_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quick(**limits: Any) -> PortLimits:
        return PortLimits(**{**limits, "head_s": 0.3, "body_s": 0.3})

    monkeypatch.setattr(bounded_port, "PortLimits", quick)
    halves = (
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\ntoken=",
    )

    def story(port: int) -> list[bytes]:
        held = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(10)]
        for number, each in enumerate(held):
            each.sendall(halves[number % 2])
        answers = []
        for each in held:
            with each:
                try:
                    answers.append(each.recv(4096))
                except ConnectionResetError:
                    answers.append(b"")
        return answers

    answers, closed = with_service(served, story)
    assert answers == [b""] * 10
    assert [(each["code"], each["peer"]) for each in closed] == [(CONNECTION_CLOSED.code, "127.0.0.1")]
    assert CONNECTION_CLOSED.code == "Z2K-4063"
    assert "too slow" in closed[0]["reason"]


def test_whoever_waits_with_half_a_body_makes_room_for_the_next(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would keep everybody else out for as long as a body may take."""

    def few(**limits: Any) -> PortLimits:
        return PortLimits(**{**limits, "connections": 4, "body_s": 60.0})

    monkeypatch.setattr(bounded_port, "PortLimits", few)

    def story(port: int) -> list[bytes]:
        body = b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n"
        held = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(4)]
        for each in held:
            each.sendall(b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\n" + body)
            assert each.recv(4096).startswith(b"HTTP/1.1 100"), "its head is read, and its body is waited for"
        answers = []
        for _ in range(6):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                try:
                    answers.append(connection.recv(4096)[:9])
                except ConnectionResetError:
                    answers.append(b"")
        for each in held:
            each.close()
        return answers

    answers, _ = with_service(served, story)
    assert answers == [b"HTTP/1.1 "] * 6


def test_a_body_that_nobody_reads_ends_with_its_answer(served: Served) -> None:
    def story(port: int) -> tuple[bytes, int]:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 800000000\r\n\r\n")
            answer = connection.recv(4096)
            sent = 0
            try:
                for _ in range(800):
                    connection.sendall(b"a" * 1_000_000)
                    sent += 1
            except OSError:
                pass
        return answer, sent

    (answer, sent), _ = with_service(served, story)
    assert answer.startswith(b"HTTP/1.1 413")
    assert sent < 100, "what the kernels of both sides keep, in MB"


def test_a_line_about_a_stranger_comes_once_a_minute() -> None:
    now = [0.0]
    with capture_logs() as logged:
        once = said_once.SaidOnce("http.closed", clock=lambda: now[0], code="c")
        for _ in range(3):
            once.say("10.0.0.1", peer="10.0.0.1")
            once.say("10.0.0.2", peer="10.0.0.2")
        now[0] = said_once.SAYS_EVERY_S
        once.say("10.0.0.1", peer="10.0.0.1")
    assert [each["peer"] for each in logged] == ["10.0.0.1", "10.0.0.2", "10.0.0.1"]
    for number in range(2 * said_once.KEPT_MAX):
        once.say(str(number))
    assert len(once._said) <= said_once.KEPT_MAX
