"""A mistyped address is refused within two seconds, with each server and why."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.findings.zookeeper import ZOOKEEPER_UNREACHABLE
from migrator.zk import reach as reach_module
from migrator.zk.reach import reach
from migrator.zk.session import ZkSession


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def a_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def refusal(connect: str, within_s: float = 2.0) -> str:
    with pytest.raises(FindingError) as raised:
        reach(connect, within_s)
    assert raised.value.code == ZOOKEEPER_UNREACHABLE.code == "Z2K-2001"
    return str(raised.value)


def test_one_server_that_accepts_is_enough(listening: int) -> None:
    reach(f"127.0.0.1:{a_free_port()},127.0.0.1:{listening}/kafka")


def test_each_server_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    port = a_free_port()
    connect = socket.create_connection

    def resolves(address: tuple[str, int], timeout: float) -> Any:
        if address[0] == "zk-typo":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return connect(address, timeout)

    monkeypatch.setattr(reach_module.socket, "create_connection", resolves)
    said = refusal(f"zk-typo,127.0.0.1:{port}/kafka")
    assert f"127.0.0.1:{port}: Connection refused" in said
    assert "zk-typo:2181: the name is not resolved (Name or service not known)" in said


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def hangs(*_: object) -> Any:
        over.wait()
        raise TimeoutError

    monkeypatch.setattr(reach_module.socket, "create_connection", hangs)
    assert "zk:2181: no answer within 0.05 s" in refusal("zk:2181", 0.05)
    over.set()


@pytest.mark.parametrize("connect", ["127.0.0.1:x", "127.0.0.1:99999", "a" * 64 + ".example"])
def test_what_is_no_address_is_refused_too(connect: str) -> None:
    assert refusal(connect)


def test_a_command_refuses_a_mistyped_address_before_the_client_tries_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ZkSession, "start", lambda self: pytest.fail("the client is started"))
    with pytest.raises(FindingError, match=r"Z2K-2001.*Connection refused"), ZkSession(f"127.0.0.1:{a_free_port()}"):
        pass
