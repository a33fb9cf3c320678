"""Hosts: each one a network namespace, a process namespace, a file tree, a clock, an sshd and a supervisor.

In:   a directory, names, and the data centre of each.
Out:  `Host`: boots, loses its power, its link or its disk's space; what runs on it, as the outside sees it.
Elsewhere: the way from the service to a host, which is cut and counted (links.py); what runs on it (host/node).
Rules: paths are the same on a host and outside, and a host sees no other host's tree. Files below `etc` lie on a small
disk. What a boot forgets lies below `volatile`. A process holds `volatile/lock` for as long as it lives.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.estate.namespaces import SSHD

FILES: Final = Path(__file__).parent / "host"
GUARD: Final = Path(__file__).resolve().parents[2] / "docker" / "guard" / "zk2kraft-guard"
UNIT: Final = "kafka.service"
DISK_BYTES: Final = 128 << 10
"""Of the disk with the properties."""
BOOT_S: Final = 10.0
SSHD_CONFIG: Final = """ListenAddress {address}
HostKey {tree}/ssh/host_key
AuthorizedKeysFile {home}/user_key.pub
PidFile none
UsePAM no
UseDNS no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
PrintMotd no
LogLevel ERROR
MaxStartups 100
SetEnv PATH={tree}/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""


@dataclass(frozen=True, slots=True)
class Registered:
    """What a process that runs would register. mode: ZooKeeper, KRaft or controller. flag: of the migration."""

    mode: str
    incarnation: str
    flag: bool


@dataclass(slots=True)
class Host:
    """number: from 1. data_centre: 0 or 1. unit: the words that start its process."""

    name: str
    number: int
    data_centre: int
    home: Path
    command: str = ""
    holder: subprocess.Popen[bytes] | None = None
    init: subprocess.Popen[bytes] | None = None
    linked: bool = True
    _filler: Path = field(init=False)

    def __post_init__(self) -> None:
        self._filler = self.tree / "etc" / "filler"

    @property
    def tree(self) -> Path:
        return self.home / "hosts" / self.name

    @property
    def address(self) -> str:
        """In the network of hosts."""
        return f"10.99.{self.data_centre}.{self.number}"

    @property
    def properties(self) -> Path:
        return self.tree / "etc" / "server.properties"

    @property
    def data(self) -> Path:
        return self.tree / "data"

    # --- making it -----------------------------------------------------------------------------------------

    def build(self) -> None:
        """Its tree, its disk, its keys and its network; nothing runs yet."""
        for each in ("bin", "ssh", "etc", "data", "units", "enabled", "volatile", "log", "libs"):
            (self.tree / each).mkdir(parents=True)
        for file in FILES.iterdir():
            shutil.copy(file, self.tree / "bin" / file.name)
        shutil.copy(GUARD, self.tree / "bin" / GUARD.name)
        (self.tree / "libs" / "kafka_2.13-3.9.1.jar").touch()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(self.tree / "etc")], check=True
        )
        key = self.tree / "ssh" / "host_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        config = SSHD_CONFIG.format(address=self.address, tree=self.tree, home=self.home)
        (self.tree / "ssh" / "sshd_config").write_text(config)
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        wire, own = f"h{self.number}", os.readlink("/proc/self/ns/net")
        _until(lambda: os.readlink(f"/proc/{self._holder}/ns/net") != own, f"{self.name} has no network")
        _ip("link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", str(self._holder))
        _ip("link", "set", wire, "master", "estate", "up")
        inside = ["nsenter", f"--net=/proc/{self._holder}/ns/net", "ip"]
        for words in (
            ["link", "set", "lo", "up"],
            ["addr", "add", f"{self.address}/16", "dev", "eth0"],
            ["link", "set", "eth0", "up"],
        ):
            subprocess.run([*inside, *words], check=True)

    @property
    def _holder(self) -> int:
        assert self.holder is not None, f"{self.name} is not built"
        return self.holder.pid

    @property
    def public_key(self) -> str:
        return " ".join((self.tree / "ssh" / "host_key.pub").read_text().split()[:2])

    def install(self, roles: str, *, command: str, enabled: bool) -> None:
        """The unit of its process. enabled: a boot starts it."""
        self.command = command
        python = os.path.realpath(sys.executable)
        start = self.tree / "bin" / "kafka-server-start.sh"
        start.write_text(f'#!/bin/sh\nexec {python} -I -S {self.tree}/bin/node kafka.Kafka "$@"\n')
        start.chmod(0o755)
        unit = self.tree / "units" / UNIT
        place = "in_etc=1\n" if self.data_centre else ""
        unit.write_text(f"# {roles}\nexport TREE={self.tree}\ncommand='{command}'\n{place}")
        self.enable(enabled)

    def enable(self, on: bool) -> None:
        mark = self.tree / "enabled" / UNIT
        mark.touch() if on else mark.unlink(missing_ok=True)

    # --- power, link, disk, clock --------------------------------------------------------------------------

    @property
    def on(self) -> bool:
        return self.init is not None

    def boot(self) -> None:
        """Returns when its sshd answers. Processes of enabled units were started before."""
        assert self.init is None, f"{self.name} runs"
        shutil.rmtree(self.tree / "volatile")
        (self.tree / "volatile").mkdir()
        words = [str(self.tree / "bin" / "boot"), str(self.tree), str(self.tree.parent), self.name]
        network = f"--net=/proc/{self._holder}/ns/net"
        own = ["unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child=SIGKILL"]
        with (self.tree / "log" / "boot").open("ab") as said:
            self.init = subprocess.Popen(["nsenter", network, *own, *words], start_new_session=True, stderr=said)
        _until(self._listens, f"the sshd of {self.name} does not listen")

    def _listens(self) -> bool:
        assert self.init is not None
        assert self.init.poll() is None, f"{self.name} ended at its boot"
        return (
            f"{_hexadecimal(self.address)}:0016 00000000:0000 0A" in Path(f"/proc/{self._holder}/net/tcp").read_text()
        )

    def cut_power(self) -> None:
        """Everything on it ends at once; what it wrote stays."""
        if self.init is not None:
            os.kill(_child_of(self.init.pid), signal.SIGKILL)
            self.init.wait()  # which ends when the kernel has ended all of them
            self.init = None
            assert not self.runs(), f"a process of {self.name} outlives its host"

    def link(self, up: bool) -> None:
        self.linked = up
        _ip("link", "set", f"h{self.number}", "up" if up else "down")

    def fill_disk(self) -> None:
        """Not one byte more is written below `etc`."""
        with suppress(OSError), self._filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass

    def free_disk(self) -> None:
        self._filler.unlink(missing_ok=True)

    def skew(self, seconds: int) -> None:
        (self.tree / "clock_skew").write_text(f"{seconds}\n")

    # --- what runs on it -----------------------------------------------------------------------------------

    def runs(self) -> bool:
        """Whether a broker or controller lives there, in whatever state: the kernel knows."""
        with (self.tree / "volatile" / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
            return False

    def registered(self) -> Registered | None:
        """Of the process that runs, once it has read its file."""
        if not self.runs():
            return None
        try:
            return Registered(**json.loads((self.tree / "volatile" / "registered").read_text()))
        except FileNotFoundError:
            return None

    def ended_in_order(self) -> bool:
        """No process runs, and the last one took its registration back."""
        return not self.runs() and not (self.tree / "volatile" / "registered").exists()

    @property
    def masked(self) -> bool:
        """Or kept from starting in the other way that `stop` knows."""
        held = f"run/systemd/system/{UNIT}.d/zz-zk2kraft-hold.conf"
        root = None if self.init is None else Path(f"/proc/{_child_of(self.init.pid)}/root")
        return (self.tree / "volatile" / UNIT / "masked").exists() or (root is not None and (root / held).exists())

    def systemctl(self, verb: str) -> None:
        """By hand, as the host's operator."""
        assert self.init is not None, f"{self.name} is off"
        inside = ["nsenter", f"--target={_child_of(self.init.pid)}", "--mount", "--pid", "--net"]
        subprocess.run([*inside, str(self.tree / "bin" / "systemctl"), verb, "--", UNIT], check=False)

    def kill_process(self) -> None:
        """kill -9 of its broker or controller, whose supervisor starts it again."""
        assert self.init is not None, f"{self.name} is off"
        inside = ["nsenter", f"--target={_child_of(self.init.pid)}", "--mount", "--pid", "--net"]
        kill = f"kill -9 $(cat {self.tree}/volatile/{UNIT}/pid)"
        subprocess.run([*inside, "sh", "-c", kill], check=False, stderr=subprocess.DEVNULL)
        _until(lambda: not self.runs(), f"the process of {self.name} cannot be killed")

    def remove(self) -> None:
        self.cut_power()
        if self.holder is not None:
            self.holder.kill()
            self.holder.wait()
            self.holder = None


def build_network() -> None:
    """The bridge between hosts, with the service's address on it."""
    _ip("link", "add", "estate", "type", "bridge")
    _ip("addr", "add", "10.99.255.254/16", "dev", "estate")
    _ip("link", "set", "estate", "up")


def check_tools() -> None:
    assert os.access(SSHD, os.X_OK), f"{SSHD} is missing"


def _child_of(pid: int) -> int:
    """The first process of a host's process namespace, as it is numbered outside."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _hexadecimal(address: str) -> str:
    return "".join(f"{int(each):02X}" for each in reversed(address.split(".")))


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _until(ready: object, otherwise: str) -> None:
    assert callable(ready)
    for _ in _moments(BOOT_S):
        if ready():
            return
    raise AssertionError(otherwise)


def _moments(seconds: float) -> Iterator[None]:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        yield
        time.sleep(0.005)
