"""Whoever reaches the control port without a token takes neither the descriptors of the log nor its memory."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from structlog.testing import capture_logs

from migrator.control_api.control_file import CONTROL_FILE
from migrator.control_api.status import ControllerStatus
from migrator.findings.quorum import CONTROL_CONNECTION_CLOSED
from migrator.http import bounded_port
from migrator.node.process import control
from migrator.node.process.control import ControlServer
from migrator.node.quorum.metrics import Metrics
from tests.support.statuses import a_status

DESCRIPTORS = 300
HALF = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
FLOOD = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
port, number, half = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode().decode("unicode_escape").encode()
held = []
for _ in range(number):
    try:
        held.append(socket.create_connection(("127.0.0.1", port), timeout=5))
        held[-1].sendall(half)
    except OSError:
        pass
print(len(held), flush=True)
sys.stdin.read()
"""


@contextmanager
def few_descriptors(most: int) -> Iterator[None]:
    """most: beside those that the tests before it in this process have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most + len(os.listdir("/proc/self/fd")), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def half_sent(port: int, number: int) -> Iterator[None]:
    """From a process of its own, so that its descriptors are not ours. It holds them until the end."""
    half = HALF.decode().encode("unicode_escape").decode()
    command = [sys.executable, "-c", FLOOD, str(port), str(number), half]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdin is not None
    try:
        assert int(other.stdout.readline()) > number // 2
        yield
    finally:
        other.stdin.close()
        other.wait(30)
        other.stdout.close()


def with_port(directory: Path, story: Callable[[int], Any], status: Callable[[], ControllerStatus] = a_status) -> Any:
    """story: on a thread, with the number of the port."""

    async def run() -> Any:
        server = ControlServer(asyncio.get_running_loop(), directory, status=status, metrics=Metrics(), driver=None)
        server.start("127.0.0.1:0")
        try:
            return await asyncio.to_thread(story, int(urlsplit(server.url).port or 0))
        finally:
            server.stop()

    return asyncio.run(asyncio.wait_for(run(), 120))


def answer_on(connection: socket.socket) -> bytes:
    """A refusal, whole."""
    answer = b""
    while not answer.endswith(b"}"):
        came = connection.recv(4096)
        assert came, answer
        answer += came
    return answer


def healthz(port: int) -> int:
    return httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False, timeout=20).status_code


def test_600_half_sent_requests_leave_the_log_its_descriptors_and_the_port_answers(tmp_path: Path) -> None:
    def story(port: int) -> int:
        before = len(os.listdir("/proc/self/fd"))
        with few_descriptors(DESCRIPTORS), half_sent(port, 600):
            taken = len(os.listdir("/proc/self/fd")) - before
            assert taken <= 2 * DESCRIPTORS // bounded_port.PART_OF_DESCRIPTORS + 20, taken
            (tmp_path / "segment").write_bytes(b"a batch")
            return healthz(port)

    assert with_port(tmp_path, story) == 200


def test_a_head_that_does_not_end_is_closed_in_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte now and then does not make it live longer, nor does a first request that was answered."""
    monkeypatch.setattr(control, "LIMITS", bounded_port.PortLimits(connections=8, code="", head_s=0.5))

    def story(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
            connection.sendall(HALF)
            connection.settimeout(0.2)
            for _ in range(50):
                try:
                    if not connection.recv(4096):
                        return b"closed"
                except TimeoutError:
                    connection.sendall(b"x")
                except OSError:
                    return b"closed"
            return b"still open"

    assert with_port(tmp_path, story) == b"closed"


def test_a_body_that_does_not_end_is_closed_in_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "LIMITS", bounded_port.PortLimits(connections=8, code="", body_s=0.5))

    def story(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(b"POST /v1/rollback HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
            try:
                assert answer_on(connection).startswith(b"HTTP/1.1 401")
                return connection.recv(4096)
            except OSError:
                return b""

    assert with_port(tmp_path, story) == b""


def test_no_body_is_read_without_a_token_and_no_head_over_the_limit(tmp_path: Path) -> None:
    def story(port: int) -> list[bytes]:
        answers = []
        for start in (b"Content-Length: 800000000\r\n\r\n", b"X: " + b"x" * (2 * bounded_port.HEAD_BYTES_MAX)):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                connection.sendall(b"POST /v1/rollback HTTP/1.1\r\nHost: a\r\n" + start)
                answers.append(connection.recv(4096)[:12])
        return answers

    assert with_port(tmp_path, story) == [b"HTTP/1.1 401", b"HTTP/1.1 400"]


def test_a_connection_with_several_requests_lives_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clocks end with their parts: together the requests take longer than a head may, and each a third of it."""
    monkeypatch.setattr(control, "LIMITS", bounded_port.PortLimits(connections=8, code="", head_s=1.5, body_s=1.5))

    def story(port: int) -> list[bytes]:
        answers = []
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            for _ in range(4):
                connection.sendall(b"POST /v1/rollback HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n")
                answers.append(answer_on(connection)[:12])
                connection.sendall(b"{}")
                time.sleep(0.5)
        return answers

    assert with_port(tmp_path, story) == [b"HTTP/1.1 401"] * 4


def test_the_log_names_a_crowd_once_with_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = bounded_port.PortLimits(connections=4, code=control.LIMITS.code)
    monkeypatch.setattr(control, "LIMITS", limits)

    def story(port: int) -> None:
        held = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(20)]
        time.sleep(0.3)
        for each in held:
            each.close()

    with capture_logs() as logged:
        with_port(tmp_path, story)
    (line,) = [each for each in logged if each["event"] == "http.closed"]
    assert (line["code"], line["peer"]) == (CONTROL_CONNECTION_CLOSED.code, "127.0.0.1")
    assert CONTROL_CONNECTION_CLOSED.code == "Z2K-3126"


def test_metrics_that_are_asked_for_with_the_token_are_of_this_moment(tmp_path: Path) -> None:
    asked: list[float] = []

    def status() -> ControllerStatus:
        asked.append(time.monotonic())
        return a_status()

    def story(port: int) -> list[int]:
        token = json.loads((tmp_path / CONTROL_FILE).read_text())["token"]
        known = {"authorization": f"Bearer {token}"}
        with httpx.Client() as http:
            found = []
            for headers in (known, known, {}, {}, {"authorization": "Bearer guessed"}):
                before = len(asked)
                assert http.get(f"http://127.0.0.1:{port}/metrics", headers=headers).status_code == 200
                found.append(len(asked) - before)
            return found

    answered = with_port(tmp_path, story, status)
    assert answered[:2] == [1, 1]
    assert sum(answered[2:]) == 1, "of strangers, only the first one asks the quorum's loop"


def test_however_often_metrics_are_read_the_quorum_is_asked_twice_a_second(tmp_path: Path) -> None:
    """They need no token."""
    asked = 0

    def status() -> ControllerStatus:
        nonlocal asked
        asked += 1
        return a_status()

    def story(port: int) -> tuple[int, float]:
        began = time.monotonic()
        with httpx.Client(trust_env=False) as http:
            codes = {http.get(f"http://127.0.0.1:{port}/metrics").status_code for _ in range(50)}
        assert codes == {200}
        return asked, time.monotonic() - began

    times, seconds = with_port(tmp_path, story, status)
    assert times <= 1 + seconds / control.METRICS_EVERY_S
