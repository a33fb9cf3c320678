"""Controllers survive the end of the service, however it ends, or are started by somebody else."""

from __future__ import annotations

import asyncio
import configparser
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from state_machine.children.supervisor import Supervisor
from state_machine.settings import read_settings
from state_machine.times.process_mark import process_mark
from tests.unit.state_machine.world import NODE, World, a_world

ROOT = Path(__file__).resolve().parents[4]
UNITS = ROOT / "docker" / "systemd"
SERVICE = """
import sys, time
from pathlib import Path
from state_machine.clusters.inventory import ControllerEntry
from state_machine.children.processes import ControllerProcesses
home = Path(sys.argv[1])
launched = ControllerProcesses(home, (sys.executable, "-c", "import time; time.sleep(600)")).launch(
    "orders", ControllerEntry(3000, "/c.properties", "/data"))
(home / "pid").write_text(f"{launched.pid} {launched.mark}")
time.sleep(600)
"""


def until(what: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not what():
        assert time.monotonic() < ends
        time.sleep(0.01)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_services_process_group_leaves_its_controllers(tmp_path: Path, end: signal.Signals) -> None:
    """As Ctrl-C, a closed terminal, and whoever kills the whole group."""
    service = subprocess.Popen([sys.executable, "-c", SERVICE, str(tmp_path)], cwd=ROOT, start_new_session=True)
    until(lambda: len((tmp_path / "pid").read_text().split()) == 2 if (tmp_path / "pid").exists() else False)
    pid, mark = (tmp_path / "pid").read_text().split()
    try:
        os.killpg(service.pid, end)
        service.wait(60)
        time.sleep(0.2)
        assert process_mark(int(pid)) == mark
    finally:
        os.kill(int(pid), signal.SIGKILL)


def unit(name: str) -> configparser.ConfigParser:
    """Read as systemd's files are: the same characters, case kept, no interpolation."""
    parsed = configparser.ConfigParser(interpolation=None, comment_prefixes=("#", ";"), delimiters=("=",), strict=True)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    assert parsed.read(UNITS / name), name
    return parsed


def test_the_services_unit_kills_no_controller() -> None:
    parsed = unit("zk2kraft-serve.service")
    assert parsed["Service"]["KillMode"] == "process"
    assert parsed["Service"]["OOMPolicy"] == "continue"
    assert parsed["Service"]["ExecStart"].split()[1:] == ["serve", "--config", "/etc/zk2kraft/serve.toml"]


def test_a_controllers_unit_is_its_own_and_stays_stopped() -> None:
    parsed = unit("zk2kraft-controller@.service")
    assert parsed["Service"]["Restart"] == "on-failure"
    assert parsed["Service"]["ExecStart"].split()[1:] == ["controller", "/etc/zk2kraft/controller-%i.properties"]
    assert "PartOf" not in parsed["Unit"]
    assert "BindsTo" not in parsed["Unit"]
    assert parsed["Service"]["User"] == unit("zk2kraft-serve.service")["Service"]["User"]


def test_a_service_that_starts_none_names_what_is_missing_and_adopts_it(tmp_path: Path) -> None:
    with a_world(tmp_path) as world:
        asyncio.run(_adopted(world))


async def _adopted(world: World) -> None:
    await world.rounds(1)
    supervisor = Supervisor(world.store, world.launcher, clock=world.clock, steady=world.clock_steady, starts=False)
    waiting = await supervisor.keep_running(world.store.snapshot(world.id))
    assert waiting is not None
    assert [each.code for each in waiting.problems] == ["Z2K-4199"]
    assert f"Controller {NODE} does not answer" in waiting.text
    assert world.launcher.launched == []
    world.controller.start()
    await world.rounds(1)
    assert await supervisor.keep_running(world.store.snapshot(world.id)) is None


def test_the_setting_is_a_key_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text("start_controllers = false\n")
    assert read_settings(file).start_controllers is False
    assert read_settings(None).start_controllers is True
