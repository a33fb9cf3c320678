"""The guard: a small process that outlives its laboratory by a moment, to kill what that left behind.

In:   lines on standard input: "+<pid> <start>" when a process group began, "-<pid>" when it is gone, "." at the end.
Out:  at the end, or when the input or the parent is gone (Ctrl-C, exception, kill -9), SIGKILL to every group noted.
Elsewhere: who writes the lines (processes.py). Run by its path in an isolated Python, so it imports nothing of ours.
A process is named by pid *and* start time: a pid that the system gave to somebody else meanwhile is left alone.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

PARENT_LOOK_EVERY_S = 1.0
"""A forked child of the parent may hold the pipe open after the parent's death; then this look notices it."""


def start_time(pid: int) -> str:
    """When the process began, in clock ticks since boot as the kernel tells it; "" when unknown or gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]


def kill_group(pid: int, started: str) -> bool:
    """SIGKILL the group that `pid` leads, unless that number now belongs to another process."""
    now = start_time(pid)
    if now and started and now != started:
        return False
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def watch(parent: int) -> dict[int, str]:
    """Keep the book until the parent is gone; returns the groups that are still in it, with start times."""
    recorded: dict[int, str] = {}
    unread = b""
    while True:
        readable, _, _ = select.select([0], [], [], PARENT_LOOK_EVERY_S)
        if not readable:
            if os.getppid() != parent:
                return recorded
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            return recorded
        *lines, unread = (unread + chunk).split(b"\n")
        for line in lines:
            if line == b".":
                return recorded
            _note(recorded, line.decode())


def _note(recorded: dict[int, str], line: str) -> None:
    pid, _, started = line[1:].partition(" ")
    if line.startswith("+"):
        recorded[int(pid)] = started
    else:
        recorded.pop(int(pid), None)


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    for pid, started in watch(parent=int(sys.argv[1])).items():
        kill_group(pid, started)
    return 0


if __name__ == "__main__":
    sys.exit(main())
