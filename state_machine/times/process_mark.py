"""When a process began, as the kernel tells it: with its number, the identity of a process that is not ours any more.

In:   a process id. Out: its mark; none where no such process lives.
Elsewhere: which processes are controllers (children/processes.py, supervisor.py), whose token is shown (access.py).
"""

from __future__ import annotations

import os
from pathlib import Path


def process_mark(pid: int) -> str | None:
    """The start time of a living process, None when there is none. Where /proc is missing: "" for any living one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None if Path("/proc/self").exists() or not _lives(pid) else ""
    return None if fields[0] == "Z" else fields[19]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
