"""The `exec` actuator with processes that runit supervises, on three hosts that are network namespaces.

Needs runsv and sv (Debian: runit), ip (iproute2) and root; CI counts their absence as a failure, elsewhere it skips.
The supervised command is the shipped guard before a small server, since Kafka's own start is tested elsewhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from migrator.fleet.actuator import ProcessState
from migrator.fleet.exec_actuator import CommandActuator
from migrator.fleet.files import Present, Written, read_present, write_file
from migrator.fleet.strict_yaml import load_yaml
from migrator.fleet.templates import Template

pytestmark = pytest.mark.lab

ROOT: Final = Path(__file__).resolve().parents[2]
GUARD: Final = ROOT / "docker" / "guard" / "zk2kraft-guard"
FLAG: Final = b"zookeeper.metadata.migration.enable"
FILE: Final = b"node.id=%d\nzookeeper.connect=zk:2181\n" + FLAG + b"=true\n"
NODES: Final = (3000, 3001, 3002)
TEMPLATE: Final = """
version: 1
acts:
  read: {argv: [ip, netns, exec, '{host}', /bin/sh, -c, 'test -e "$1" || exit 66; exec cat -- "$1"', sh, '{path}']}
  list: {argv: [ip, netns, exec, '{host}', ls, -A, --, '{path}']}
  write: {argv: [ip, netns, exec, '{host}', /bin/sh, -c, 'cat > "$1.new" && mv -- "$1.new" "$1"', sh, '{path}']}
  stop: {argv: [ip, netns, exec, '{host}', sv, -w, '60', down, '{service}'], timeout_s: 120}
  start: {argv: [ip, netns, exec, '{host}', sv, up, '{service}']}
  status: {argv: [ip, netns, exec, '{host}', sv, status, '{service}']}
  command: {argv: [cat, '/proc/{pid}/cmdline']}
  launch: {argv: [cat, '{service}/run']}
status_words: {running: '^run:', stopped: '^down:(?!.*want up)', pid: '\\(pid ([0-9]+)\\)'}
"""


def wait_for(what: Callable[[], bool], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)


class Host:
    """A namespace with one supervised service. Its runsv is ended by its pid at the end."""

    def __init__(self, node: int, directory: Path) -> None:
        self.name = f"zk2k-{os.getpid()}-{node}"
        self.node = node
        self.service = directory / str(node)
        self.file = self.service / "controller.properties"
        self.service.mkdir(parents=True)
        self.file.write_bytes(FILE % node)
        run = self.service / "run"
        server = self.service / "server.sh"
        server.write_text("#!/bin/sh\nwhile :; do sleep 0.5; done\n")
        run.write_text(f"#!/bin/sh\nexec {GUARD} {server} {self.file}\n")
        for script in (run, server):
            script.chmod(0o755)
        subprocess.run(["ip", "netns", "add", self.name], check=True)
        words = ["ip", "netns", "exec", self.name, "runsv", str(self.service)]
        self._log = (directory / f"{node}.log").open("wb")
        self._runsv = subprocess.Popen(words, stdout=self._log, stderr=self._log, start_new_session=True)
        template = msgspec.convert(load_yaml(TEMPLATE.encode()), Template)
        self.actuator = CommandActuator(node, template, {"host": self.name, "service": str(self.service)}, {})

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text()

    def is_running(self) -> bool:
        return self.actuator.status().state is ProcessState.RUNNING

    def serves(self) -> bool:
        """Past the guard; the guard itself runs for a moment at each attempt."""
        return str(self.service / "server.sh") in self.actuator.status().command[:2]

    def close(self) -> None:
        subprocess.run(["sv", "-w", "5", "exit", str(self.service)], check=False, capture_output=True)
        try:
            self._runsv.wait(120)
        finally:
            if self._runsv.poll() is None:
                self._runsv.kill()
                self._runsv.wait(60)
            self._log.close()
            subprocess.run(["ip", "netns", "del", self.name], check=False)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    missing = [name for name in ("runsv", "sv", "ip") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        assert os.environ.get("CI") != "true", f"CI has to have {missing} and root"
        pytest.skip(f"needs root and {', '.join(missing) or 'nothing else'} (apt install runit iproute2)")
    made: list[Host] = []
    try:
        for node in NODES:
            made.append(Host(node, tmp_path))  # noqa: PERF401 - one that fails leaves the others to be closed
        for host in made:
            wait_for(lambda host=host: (host.service / "supervise" / "ok").exists())  # type: ignore[misc]
            wait_for(host.serves)
        yield made
    finally:
        for host in made:
            host.close()


def test_a_node_is_stopped_gets_its_file_and_comes_back_as_another_process(hosts: list[Host]) -> None:
    host = hosts[0]
    before = host.actuator.status()
    present = read_present(host.actuator, str(host.file))
    assert present is not None
    host.actuator.stop()
    assert host.actuator.status().state is ProcessState.STOPPED
    written = write_file(host.actuator, host.node, str(host.file), present.content + b"num.io.threads=2\n", present)
    assert isinstance(written, Written)
    assert written.verified
    time.sleep(1.5)  # runit starts what ended after a second; not what somebody stopped
    assert host.actuator.status().state is ProcessState.STOPPED
    host.actuator.start()
    wait_for(host.serves)
    after = host.actuator.status()
    assert after.pid not in (None, before.pid)
    assert str(host.file) in after.command


def test_all_files_spoiled_at_once_start_no_controller_and_the_mended_ones_come_back(hosts: list[Host]) -> None:
    for host in hosts:
        host.file.write_bytes((FILE % host.node).replace(FLAG + b"=true\n", b""))
    for host in hosts:
        pid = host.actuator.status().pid
        assert pid is not None
        os.kill(pid, 9)  # as a crash: the supervisor starts it again, by itself
    for host in hosts:
        wait_for(lambda host=host: "Z2K-7041" in host.log)  # type: ignore[misc]
    time.sleep(2)
    assert not any(host.serves() for host in hosts)
    for host in hosts[:2]:
        host.file.write_bytes(FILE % host.node)
    for host in hosts[:2]:
        wait_for(host.serves)
    assert not hosts[2].serves()  # one that fails to come back, until its mend
    hosts[2].actuator.stop()  # in the pause between two attempts; from here on nothing starts it
    attempts = hosts[2].log.count("Z2K-7041")
    time.sleep(1.5)
    assert hosts[2].actuator.status().state is ProcessState.STOPPED
    assert hosts[2].log.count("Z2K-7041") == attempts
    spoiled = read_present(hosts[2].actuator, str(hosts[2].file))
    assert isinstance(spoiled, Present)
    write_file(hosts[2].actuator, 3002, str(hosts[2].file), FILE % 3002, spoiled)
    hosts[2].actuator.start()
    wait_for(hosts[2].serves)
