"""Child processes that cannot be forgotten: each its own group, recorded, logged, and guarded.

In:   a name, an argument list, a directory.
Out:  `Process`: stop, kill, pause, resume, its log.
Elsewhere: what is started (zookeeper.py, broker.py, controller.py), when it is ready (waiting.py).
Rules: nothing is ever killed by name or pattern. A child begins to run only after the guard has written it down,
so there is no moment in which a kill -9 of this run would leave one behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from migrator.findings.laboratory import GUARD_LOST
from migrator.lab.servers import guard

STOP_DEADLINE_S: Final = 30.0
"""A broker that cannot reach a controller gives up its controlled shutdown after about 15 s."""

GONE_DEADLINE_S: Final = 60.0
"""After SIGKILL the kernel only has to take the memory back."""

PAUSED_WITHIN_S: Final = 30.0
"""After SIGSTOP every thread has to leave its processor once."""

WAIT_THEN_RUN: Final = 'read -r go && exec "$@" </dev/null'
"""The child waits for one line, sent once the guard knows it; it ends if that line never comes."""

LOG_TAIL_BYTES: Final = 8000


class Process:
    """One child, the leader of its own process group. Made by `Processes.start`."""

    def __init__(self, name: str, child: subprocess.Popen[bytes], directory: Path, book: Processes) -> None:
        self.name = name
        self.pid = child.pid
        self.directory = directory
        self.started = guard.start_time(child.pid)
        self.log_start = self.log.stat().st_size
        self._child = child
        self._book = book
        self._gone = False

    @property
    def log(self) -> Path:
        """Standard output and standard error of every run under this name, oldest first."""
        return self.directory / "server.log"

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self._child.poll()

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> float:
        """SIGTERM the group, wait, SIGKILL what is left of it. Returns the seconds that took."""
        began = time.monotonic()
        self.ask_to_stop()
        self.wait_for_exit(deadline_s)
        self.kill()
        return time.monotonic() - began

    def ask_to_stop(self) -> None:
        """SIGTERM the group and go on; `stop` waits. A paused process is resumed, so that it can hear."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL the group and wait until it is gone, as a power cut would have it."""
        if self._gone:
            return
        guard.kill_group(self.pid, self.started)
        self._child.wait(GONE_DEADLINE_S)
        self._gone = True
        self._book.forget(self)

    def pause(self) -> None:
        """SIGSTOP: alive, connected, and silent, like a long garbage collection.

        Returns when every thread stands still: on a busy machine one of many may still answer for a moment.
        """
        self._signal(signal.SIGSTOP)
        ends = time.monotonic() + PAUSED_WITHIN_S
        while time.monotonic() < ends and not all(state in "tTZX" for state in _thread_states(self._child.pid)):
            time.sleep(0.005)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def wait_for_exit(self, deadline_s: float) -> bool:
        """Whether it has ended by itself within the deadline."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(deadline_s)
        return not self.alive

    def log_text(self) -> str:
        """What this run has written so far; earlier runs under the same name are left out."""
        with self.log.open("rb") as log:
            log.seek(self.log_start)
            return log.read().decode(errors="replace")

    def log_tail(self) -> str:
        """The last lines of this run that are not the inside of a stack trace, on one line, for a finding."""
        return " | ".join(named_lines(self.log_text()[-LOG_TAIL_BYTES:])[-4:]) or "no output"

    def _signal(self, number: signal.Signals) -> None:
        if self.alive:
            os.killpg(self.pid, number)


class Processes:
    """The book of one laboratory's children, and the guard that reads along.

    directory: each child gets `<directory>/<name>/` with `server.log` and, while it runs, a file `pid`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._running: dict[int, Process] = {}
        self._adopted: dict[int, str] = {}
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, str(os.getpid())],
            stdin=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def running(self) -> list[Process]:
        with self._lock:
            return list(self._running.values())

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        stdout: Path | None = None,
    ) -> Process:
        """Start a child in its own directory.

        environment: the whole of it; None means ours.   stdout: a file of its own; None means the log.

        Raises Z2K-6008 when the guard is gone: what cannot be guarded is not started.
        """
        directory = self.directory / name
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            log = files.enter_context((directory / "server.log").open("ab"))
            child = subprocess.Popen(
                ["/bin/sh", "-c", WAIT_THEN_RUN, name, *command],
                stdin=subprocess.PIPE,
                stdout=files.enter_context(stdout.open("wb")) if stdout else log,
                stderr=log,
                env=environment,
                cwd=directory,
                start_new_session=True,
            )
        process = Process(name, child, directory, self)
        self._record(process)
        assert child.stdin is not None
        with child.stdin:
            child.stdin.write(b"\n")
        return process

    def adopt(self, pid: int) -> None:
        """Guard a process that one of our children started in a group of its own; `close` kills it as well."""
        started = guard.start_time(pid)
        if started and self._adopted.get(pid) != started:
            self._tell_guard(f"+{pid} {started}")
            self._adopted[pid] = started

    def forget(self, process: Process) -> None:
        """Take a process that is gone out of the book."""
        with self._lock:
            self._running.pop(process.pid, None)
        _pid_file(process).unlink(missing_ok=True)
        with suppress(OSError):  # a guard that is gone has nothing to forget
            self._tell_guard(f"-{process.pid}")

    def close(self) -> None:
        """Kill what still runs, newest first, then what was adopted, and let the guard go. Safe to call twice."""
        for process in reversed(self.running):
            process.kill()
        for pid, started in self._adopted.items():  # after the service, which would start them again
            guard.kill_group(pid, started)
        assert self._guard.stdin is not None
        with suppress(OSError, ValueError):  # it ended before, or we were here before
            self._tell_guard(".")
            self._guard.stdin.close()
        self._guard.wait(GONE_DEADLINE_S)

    def _record(self, process: Process) -> None:
        try:
            self._tell_guard(f"+{process.pid} {process.started}")
        except OSError as error:
            guard.kill_group(process.pid, process.started)
            raise GUARD_LOST.error(name=process.name, reason=error.strerror or error) from error
        with self._lock:
            self._running[process.pid] = process
        _pid_file(process).write_text(f"{process.pid} {process.started}\n")

    def _tell_guard(self, line: str) -> None:
        assert self._guard.stdin is not None
        with self._lock:
            self._guard.stdin.write(line.encode() + b"\n")
            self._guard.stdin.flush()


def named_lines(output: str) -> list[str]:
    """The lines of a program's output without the inside of stack traces."""
    lines = [line.strip() for line in output.splitlines()]
    return [line for line in lines if line and not line.startswith(("at ", "... "))]


def _pid_file(process: Process) -> Path:
    return process.directory / "pid"


def _thread_states(pid: int) -> list[str]:
    """One letter per thread, as `/proc` has them; a thread that ended meanwhile is left out."""
    states = []
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            states.append(path.read_text().rpartition(")")[2].split()[0])
    return states
