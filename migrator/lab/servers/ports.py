"""Free loopback ports, each given once: within this run, and among all runs on this machine.

In:   nothing.
Out:  port numbers that stay reserved until `PortBook.close` or the end of this process.
Elsewhere: who listens on them.
Ports lie below the range from which the kernel takes ports for outgoing connections, so that a broker finds its
port free again after a restart. The reservation is a lock on byte number `port` of one file per user: the kernel
drops it with the process, even after kill -9.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
import threading
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

from migrator.findings.laboratory import NO_FREE_PORT

HOST: Final = "127.0.0.1"
FIRST: Final = 15000
LAST: Final = 32000
EPHEMERAL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")

_lock = threading.Lock()
_taken: set[int] = set()


class PortBook:
    """The ports of one laboratory."""

    def __init__(self) -> None:
        self._mine: set[int] = set()

    def reserve(self) -> int:
        """A port on which nobody listens and that nobody else was given. Raises Z2K-6006 when there is none."""
        first, last = port_range()
        start = random.randrange(first, last)
        reason = "all are reserved"
        with _lock:
            for port in chain(range(start, last), range(first, start)):
                if port in _taken or not _lock_byte(port):
                    continue
                if (refusal := _why_not_free(port)) is None:
                    _taken.add(port)
                    self._mine.add(port)
                    return port
                reason = refusal
                _unlock_byte(port)
        raise NO_FREE_PORT.error(host=HOST, first=first, last=last, reason=reason)

    def close(self) -> None:
        with _lock:
            for port in self._mine:
                _taken.discard(port)
                _unlock_byte(port)
            self._mine.clear()


def port_range() -> tuple[int, int]:
    """First and last + 1 of the ports to choose from, below those of outgoing connections where that leaves room."""
    try:
        ephemeral_first = int(EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        ephemeral_first = LAST
    return (FIRST, min(LAST, ephemeral_first)) if ephemeral_first > FIRST + 1000 else (FIRST, LAST)


def _why_not_free(port: int) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error.strerror or str(error)
    return None


def _lock_byte(port: int) -> bool:
    try:
        fcntl.lockf(_lock_file(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _unlock_byte(port: int) -> None:
    fcntl.lockf(_lock_file(), fcntl.LOCK_UN, 1, port)


@cache
def _lock_file() -> int:
    """The one descriptor of the lock file: closing any other would drop all our locks, so it is never closed."""
    path = Path(tempfile.gettempdir()) / f"zk2kraft-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
