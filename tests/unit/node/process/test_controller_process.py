"""A whole controller process on loopback, with ZooKeeper in memory: its parts find each other, and it ends in order."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.control_api.states import State
from migrator.findings.finding import FindingError
from migrator.node.config.formatting import format_node
from migrator.node.config.properties import NodeConfig, read_config
from migrator.node.process import controller
from migrator.node.process.controller import ControllerProcess
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession
from tests.support.voter_on_disk import comes_about

CLUSTER = "gSJTHuz4SBW8WFvXJLDhIw"
MIGRATES = "zookeeper.metadata.migration.enable=true\nzookeeper.connect=zk:2181\nzk2kraft.gates=auto\n"


@pytest.fixture(autouse=True)
def no_alarm_outlives_the_process() -> Iterator[None]:
    """A process that ends tells the system to end it in any case."""
    yield
    signal.alarm(0)


def a_config(directory: Path, more: str = "") -> NodeConfig:
    """One voter, formatted."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = directory / "controller.properties"
    file.write_text(
        f"process.roles=controller\nnode.id=3000\ncontroller.quorum.voters=3000@127.0.0.1:{port}\n"
        f"listeners=CONTROLLER://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n"
        f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\nlog.dirs={directory / 'log'}\n{more}"
    )
    config = read_config(file)
    format_node(config, CLUSTER, None, ignore_formatted=False)
    return config


async def run(process: ControllerProcess, until: Callable[[Any], bool]) -> tuple[Any, int]:
    running = asyncio.create_task(process.run())
    await comes_about(lambda: running.done() or (process._running is not None and until(process._running)))
    assert not running.done(), running.result()
    process._end(0)
    return process._running, await running


def test_a_login_to_brokers_that_cannot_be_used_ends_the_start_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("migrator.kerberos.tickets.find_spec", lambda _: "found")
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
    inside = (
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,INSIDE:SASL_PLAINTEXT\ninter.broker.listener.name=INSIDE\n"
        "sasl.kerberos.service.name=kafka\n"
        f'listener.name.inside.gssapi.sasl.jaas.config={module} keyTab="{tmp_path}/nowhere" principal="zk2kraft@R";\n'
    )
    config = a_config(tmp_path, MIGRATES + inside)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FindingError) as raised:
        ControllerProcess(config)
    assert raised.value.code == "Z2K-3018"
    assert sorted(tmp_path.rglob("*")) == before


def test_a_process_without_the_migration_leads_and_ends(tmp_path: Path) -> None:
    async def told() -> None:
        process = ControllerProcess(a_config(tmp_path))
        parts, code = await run(process, lambda parts: parts.controller.epoch is not None)
        assert (parts.driver, parts.session, code) == (None, None, 0)

    asyncio.run(told())


def test_the_driver_of_a_process_hears_that_it_leads_and_what_becomes_of_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[Any] = []

    class Session(FakeSession):
        def start(self, timeout_s: float = 15.0) -> Session:
            changes[0]("connected")  # before there is a driver
            return self

    def opened(*_: Any, on_change: Any, **__: Any) -> Any:
        changes.append(on_change)
        session: Any = Session(FakeEnsemble(), 1)
        session.sockets = SimpleNamespace(context=None)
        return session

    async def told() -> None:
        monkeypatch.setattr(controller, "ZkSession", opened)
        process = ControllerProcess(a_config(tmp_path, MIGRATES))
        parts, code = await run(process, lambda parts: parts.driver is not None and parts.driver.now.moves > 0)
        assert parts.driver.now.state in (State.WAIT_QUORUM, State.WAIT_BROKERS)
        assert parts.driver.now.led_epoch == parts.driver.parts.controller.image.position.epoch
        stopped: list[str] = []
        parts.driver.mirroring.break_off = stopped.append
        changes[0]("lost")
        await asyncio.sleep(0)
        assert stopped == ["the session with ZooKeeper ended"]
        assert code == 0

    asyncio.run(told())
