"""The metadata log of a running quorum is copied into a directory for one command, and grows there as the log does.

In:   `host:port[,host:port]` of controllers, how to speak to them, and which cluster they must be of.
Out:  `log_of_quorum`: the directory, in Kafka's format, for as long as the context is open; then it is deleted.
Elsewhere: reading and writing it (migrator/node/observer), what is compared (migrator/audit).
Rule: raw records may hold secrets: the directory is its owner's alone, and what a command that was killed left is
deleted by the next one of the same user.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from anyio.from_thread import start_blocking_portal

from migrator.findings.service import LOG_NOT_COPIED
from migrator.node.config.properties import VoterAddress
from migrator.node.observer.log_copy import LogFiles, followed_log
from migrator.node.observer.log_reader import LogReader
from migrator.node.tools.quorum_log import QuorumLog
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity

PREFIX: Final = "zk2kraft-log-"
LOCK: Final = "held"

PATIENCE_S: Final = 10.0
"""So long no address may lead; an election is over sooner, and whoever mistyped an address waits for it."""


@contextmanager
def log_of_quorum(
    addresses: str,
    cluster_id: str | None,
    security: ClientSecurity = PLAINTEXT,
    *,
    within: Path | None = None,
    patience_s: float = PATIENCE_S,
) -> Iterator[QuorumLog]:
    """cluster_id: a quorum of another cluster is refused; None: whose it is is not known. within: of the copy.

    Raises Z2K-4117 when no address leads, or when the log cannot be read to its end.
    """
    voters = voters_at(addresses)
    sweep(Path(within or tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=within) as temporary, _held(Path(temporary)) as directory:
        reader = LogReader(voters, cluster_id, LogFiles(directory), security, "zk2kraft-audit")
        with (
            start_blocking_portal() as portal,
            portal.wrap_async_context_manager(followed_log(reader, patience_s)) as followed,
        ):
            if cluster_id is not None:  # every Fetch named it, and none was refused
                (directory / "meta.properties").write_text(f"cluster.id={cluster_id}\n")
            yield QuorumLog(directory, lambda: portal.call(followed.confirm))


@contextmanager
def _held(directory: Path) -> Iterator[Path]:
    """A lock says that its process lives, on whatever host. Where a file system has none, nobody sweeps either."""
    with open(directory / LOCK, "w") as lock:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield directory


def sweep(directory: Path) -> None:
    """Delete copies of this user that no process holds any more. One that cannot be locked is left."""
    for left in directory.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if left.stat().st_uid == os.getuid():
                with open(left / LOCK) as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(left, ignore_errors=True)


def host_and_port(text: str) -> tuple[str, int]:
    """Read `HOST:PORT`, where the host may be `[an IPv6 address]`. Raises ValueError."""
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text.strip()!r} is no HOST:PORT")
    return host.strip("[]"), int(port)


def voters_at(addresses: str) -> Sequence[VoterAddress]:
    """Addresses without ids, as voters whose ids are not known: -1, -2 and so on. Raises Z2K-4117."""
    found = []
    for number, each in enumerate(addresses.split(","), 1):
        try:
            found.append(VoterAddress(-number, *host_and_port(each)))
        except ValueError as error:
            raise LOG_NOT_COPIED.error(reason=str(error)) from None
    return found
