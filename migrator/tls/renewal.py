"""A TLS context that follows its files: keys and certificates that were replaced on disk hold without a restart.

In:   what makes the context, and which files it reads.
Out:  `RenewedContext`: the context for the next connection. Connections that are open keep what they began with.
Elsewhere: reading stores (contexts.py), which files (sources.py); who opens connections (node.transport, zk).
Rules: a file that cannot be used ends nothing. The certificates that were read before are used on, `problem` says so
(the status of a node makes Z2K-3125 of it), and the files are tried again. Certificates in the properties file itself
are read at the start only.
Source: Kafka brokers need a change of `listener.name.*.ssl.keystore.location` for the same (KIP-226).
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from migrator.tls.sources import Source

LOOK_EVERY_S: Final = 10.0
"""Files are looked at no more often than this, and only when a connection is opened."""

_Mark = tuple[int, int, int, int]


class RenewedContext:
    """One side's context. Safe on any thread; each context that was handed out stays as it is."""

    def __init__(
        self,
        make: Callable[[], ssl.SSLContext],
        files: Iterable[Path],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """make: reads the files; raises whatever says why they cannot be used. clock: seconds, never goes back."""
        self._make = make
        self._files = tuple(files)
        self._clock = clock
        self._lock = threading.Lock()
        self._marks = self._look()  # before the files are read: what changes meanwhile is read again
        self._context = make()
        self._looked_at = clock()
        self._problem = ""

    @property
    def problem(self) -> str:
        """Why changed files cannot be used; empty while the context is as they are."""
        return self._problem

    def now(self) -> ssl.SSLContext:
        """The context for a new connection. Reads stores when they changed, which may take a part of a second."""
        if self._is_due() and self._lock.acquire(blocking=False):  # a disk that hangs keeps one caller only
            try:
                self._looked_at = self._clock()
                self._renew()
            finally:
                self._lock.release()
        return self._context

    async def on_loop(self) -> ssl.SSLContext:
        """The same for callers on an event loop, which is not kept waiting."""
        return await asyncio.to_thread(self.now) if self._is_due() else self._context

    def for_a_server(self) -> ssl.SSLContext:
        """One context that a server keeps, whose handshakes take the context of their moment.

        For TLSv1.3 without tickets: a session that is resumed would be one of who is not trusted any more.
        """
        outer = self._make()
        outer.minimum_version = ssl.TLSVersion.TLSv1_3
        outer.num_tickets = 0
        outer.options |= ssl.OP_NO_TICKET

        def follow(connection: ssl.SSLObject, name: str | None, asked: ssl.SSLContext) -> None:
            connection.context = self._context
            if self._is_due():  # files are never read on the server's loop
                threading.Thread(target=self.now, name="certificates", daemon=True).start()

        outer.sni_callback = follow  # OpenSSL calls it in each handshake, whether the client names a host or not
        return outer

    def _is_due(self) -> bool:
        return bool(self._files) and self._clock() - self._looked_at >= LOOK_EVERY_S

    def _renew(self) -> None:
        marks = self._look()
        if marks == self._marks:
            self._problem = ""  # the files are again as they were read
            return
        import structlog  # it brings a fifth of a second of modules, which most commands never need

        log = structlog.get_logger()
        try:
            self._context = self._make()
        except Exception as error:  # connections go on with what there is, whatever is wrong with the files
            if not self._problem:
                log.warning("certificates.not_renewed", says=str(error))
            self._problem = str(error).rstrip(".")
        else:
            self._marks, self._problem = marks, ""
            log.info("certificates.renewed", files=len(self._files))

    def _look(self) -> tuple[_Mark | None, ...]:
        """Links are followed: certbot and Kubernetes replace what they point at."""
        return tuple(map(_mark, self._files))


def files_of(*sources: Source | None) -> tuple[Path, ...]:
    """Those of the sources that are files."""
    return tuple(each.file for each in sources if each is not None and each.file is not None)


def _mark(file: Path) -> _Mark | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
