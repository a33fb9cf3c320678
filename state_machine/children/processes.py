"""Controllers as processes that outlive the service.

In:   an entry of the inventory.
Out:  a started process (own session, own log file); whether a process that was started still runs; its last words.
Elsewhere: when one is started or stopped (work/acts.py), whether one answers (observe.py).
Rules: nothing is stopped because the service ends. A process is known by its number and its start time, so that a
number given to another process by the kernel is never taken for ours.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from state_machine.children.commands import PROGRAM, last_words
from state_machine.clusters.inventory import ControllerEntry
from state_machine.times.process_mark import process_mark

LOG_TAIL_BYTES: Final = 8_000
LOGS_KEPT: Final = 20
"""Of each controller, the last runs: one that ends at once is started again and again."""
STAMP: Final = re.compile(r"\d{8}T\d{6}\.log")
PID_LEAST: Final = 2
"""-1 would be every process of this user, 0 this group, 1 the first of all."""


@dataclass(frozen=True, slots=True)
class Launched:
    """mark: the start time as the kernel tells it. log: standard output and error of this run."""

    pid: int
    mark: str
    log: str


class Launcher(Protocol):
    """What starts and stops controllers; tests put a fake in its place."""

    def launch(self, migration: str, entry: ControllerEntry) -> Launched: ...
    def runs(self, pid: int, mark: str) -> bool: ...
    def ask_to_stop(self, pid: int, entry: ControllerEntry) -> bool: ...
    def words(self, log: str) -> str: ...


class ControllerProcesses:
    """directory: where the logs are kept."""

    def __init__(self, directory: Path, program: tuple[str, ...] = PROGRAM) -> None:
        self._directory = directory
        self._program = program
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def launch(self, migration: str, entry: ControllerEntry) -> Launched:
        """Start it with our environment. The directory lock of the controller makes a second one end at once."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        log = self._directory / f"{migration}-{entry.node_id}-{stamp}.log"
        self._remove_old_logs(f"{migration}-{entry.node_id}-")
        with log.open("ab") as out:
            child = subprocess.Popen(
                [*self._program, "controller", entry.properties],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self._directory,
                start_new_session=True,
            )
        self._children[child.pid] = child
        return Launched(child.pid, process_mark(child.pid) or "", str(log))

    def _remove_old_logs(self, begin: str) -> None:
        """begin: of their names, which end with the time of their start."""
        runs = sorted(each for each in self._directory.iterdir() if is_log(each.name, begin))
        for each in runs[: 1 - LOGS_KEPT]:
            with suppress(OSError):
                each.unlink()

    def runs(self, pid: int, mark: str) -> bool:
        if pid < PID_LEAST:
            return False
        child = self._children.get(pid)
        if child is not None and child.poll() is not None:
            del self._children[pid]
            return False
        return process_mark(pid) == mark

    def ask_to_stop(self, pid: int, entry: ControllerEntry) -> bool:
        """SIGTERM; the controller leaves its quorum in order. False when this process is not known to be it.

        The number may come from a file that others write: the process is held, recognised, and only then told.
        """
        if pid < PID_LEAST:
            return False
        try:
            held = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            if pid not in self._children and not is_controller(pid, entry.properties):
                return False
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(held, signal.SIGTERM)
            return True
        finally:
            os.close(held)

    def words(self, log: str) -> str:
        """What it said last; a finding, if it named one."""
        try:
            with Path(log).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError as error:
            return f"its log cannot be read ({error})"
        return last_words(text) or "it said nothing"


def is_log(name: str, begin: str) -> bool:
    """Whether a log's name is `begin` and a time: the name of one migration may begin with another one's."""
    return name.startswith(begin) and STAMP.fullmatch(name.removeprefix(begin)) is not None


def is_controller(pid: int, properties: str) -> bool:
    """Whether this process runs `controller FILE` with this very file, as this user."""
    process = Path(f"/proc/{pid}")
    try:
        words = [os.fsdecode(word) for word in (process / "cmdline").read_bytes().split(b"\0")]
        directory, owner = os.readlink(process / "cwd"), process.stat().st_uid
    except OSError:
        return False
    if "controller" not in words or owner != os.getuid():
        return False
    wanted = os.path.realpath(properties)
    files = words[words.index("controller") + 1 :]
    return any(os.path.realpath(os.path.join(directory, word)) == wanted for word in files if word)
