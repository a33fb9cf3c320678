"""The metadata log of controllers on other hosts, as a directory here, for as long as an audit reads it.

In:   the voters' addresses and how to speak to them; a directory.
Out:  `followed_log`: the log as files in Kafka's format, up to what is committed, and while it is open what follows.
Elsewhere: reading the log of a quorum (log_observer.py), the audit (migrator/audit).
Rules: an audit that finds a difference looks again, and then the log has to be as new as ZooKeeper is. Only what is
committed is written, and a reader that meets a half-written batch at the end leaves it out, as with a controller's own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Final

from migrator.findings.service import LOG_NOT_COPIED
from migrator.node.log.storage import LOG_NAME
from migrator.raft.types import SnapshotId
from migrator.wire.batch import peek
from state_machine.clusters.log_observer import LogObserver

FOLLOW_EVERY_S: Final = 0.25
STANDS_STILL_S: Final = 20.0
"""So long nothing may be read before the log counts as one that cannot be read; elections are over much sooner."""


class LogFiles:
    """Writes what a `LogObserver` reads. Blocking, for threads."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / LOG_NAME
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._segment: IO[bytes] | None = None

    def begin(self) -> None:
        """What was written is not of this log any more."""
        self.close()
        for each in (*self._directory.glob("*.log"), *self._directory.glob("*.checkpoint")):
            each.unlink()

    def snapshot(self, content: bytes, snapshot: SnapshotId) -> None:
        """It takes the place of all that was written before."""
        self.begin()
        name = f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"
        (self._directory / name).write_bytes(content)

    def batches(self, data: bytes) -> None:
        """data: whole batches that follow on what was written before."""
        if self._segment is None:
            self._segment = (self._directory / f"{peek(data, 0).base_offset:020d}.log").open("ab")
        self._segment.write(data)
        self._segment.flush()

    def close(self) -> None:
        if self._segment is not None:
            self._segment.close()
            self._segment = None


@asynccontextmanager
async def followed_log(observer: LogObserver, files: LogFiles) -> AsyncIterator[None]:
    """observer: a fresh one that writes into `files`. Raises Z2K-4117 when the log cannot be read to its end."""
    following: asyncio.Task[None] | None = None
    try:
        await _copy(observer)
        following = asyncio.create_task(_follow(observer), name="follow the log")
        yield
    finally:
        if following is not None:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
        observer.close()
        files.close()


async def _copy(observer: LogObserver) -> None:
    end, moved_at = -1, time.monotonic()
    while (look := await observer.look(time.time())).problem:
        if observer.end != end:
            end, moved_at = observer.end, time.monotonic()
        elif time.monotonic() - moved_at > STANDS_STILL_S:
            raise LOG_NOT_COPIED.error(reason=look.problem)
        await asyncio.sleep(FOLLOW_EVERY_S)


async def _follow(observer: LogObserver) -> None:
    """A quorum that does not answer for a while is read on later; the audit says what it misses."""
    while True:
        await asyncio.sleep(FOLLOW_EVERY_S)
        await observer.look(time.time())
