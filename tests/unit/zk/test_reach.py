"""A mistyped address is refused in time, with each server and why."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import pytest

from migrator.findings.finding import FindingError
from migrator.findings.zookeeper import ZOOKEEPER_UNREACHABLE
from migrator.zk import reach as reach_module
from migrator.zk import session as session_module
from migrator.zk.reach import reach
from migrator.zk.session import ZkSession

PATIENT_S: Final = 60.0
"""Where somebody answers: it ends what hangs."""


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def refusing() -> Iterator[int]:
    """A port that is taken, so that nobody else listens on it, and refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def refusal(connect: str, within_s: float = PATIENT_S) -> str:
    with pytest.raises(FindingError) as raised:
        reach(connect, within_s)
    assert raised.value.code == ZOOKEEPER_UNREACHABLE.code == "Z2K-2001"
    return str(raised.value)


@pytest.mark.parametrize(
    "form", ["{0},{1}/kafka", "{0}, {1}/kafka", " {1} ,/kafka", "{0},,\t{1},"], ids=["plain", "space", "comma", "both"]
)
def test_one_server_that_accepts_is_enough_however_the_servers_are_written(
    form: str, listening: int, refusing: int
) -> None:
    reach(form.format(f"127.0.0.1:{refusing}", f"127.0.0.1:{listening}"), PATIENT_S)


def test_each_server_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch, refusing: int) -> None:
    connect = socket.create_connection

    def resolves(address: tuple[str, int], timeout: float) -> Any:
        if address[0] == "zk-typo":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return connect(address, timeout)

    monkeypatch.setattr(reach_module, "socket", SimpleNamespace(create_connection=resolves, gaierror=socket.gaierror))
    said = refusal(f"zk-typo,127.0.0.1:{refusing}/kafka")
    assert f"127.0.0.1:{refusing}: Connection refused" in said
    assert "zk-typo:2181: the name is not resolved (Name or service not known)" in said


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, over = threading.Event(), threading.Event()

    def hangs(*_: object) -> Any:
        begun.set()
        over.wait()
        raise TimeoutError

    monkeypatch.setattr(reach_module, "socket", SimpleNamespace(create_connection=hangs, gaierror=socket.gaierror))
    assert "zk:2181: no answer within 0.05 s" in refusal("zk:2181", 0.05)
    assert begun.wait(60)  # its thread is left behind, and must not find what was here before
    over.set()


@pytest.mark.parametrize("connect", ["127.0.0.1:x", "127.0.0.1:99999", "a" * 64 + ".example"])
def test_what_is_no_address_is_refused_too(connect: str) -> None:
    assert refusal(connect)


def test_a_command_refuses_a_mistyped_address_before_the_client_tries_it(
    monkeypatch: pytest.MonkeyPatch, refusing: int
) -> None:
    monkeypatch.setattr(session_module, "reach", partial(reach, within_s=PATIENT_S))
    monkeypatch.setattr(ZkSession, "start", lambda self: pytest.fail("the client is started"))
    with pytest.raises(FindingError, match=r"Z2K-2001.*Connection refused"), ZkSession(f"127.0.0.1:{refusing}"):
        pass
