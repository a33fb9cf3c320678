"""The metadata log of a quorum as a directory here, for as long as an audit reads it.

In:   a `LogReader` whose sink is `LogFiles`.
Out:  `followed_log`: the log as files in Kafka's format, up to what is committed, and while it is open what follows.
Elsewhere: reading the log of a quorum (log_reader.py), the audit (migrator/audit).
Rules: an audit that finds a difference looks again, and then the log has to be as new as ZooKeeper is. Only what is
committed is written, and a reader that meets a half-written batch at the end leaves it out, as with a controller's own.
A result counts only if the copy kept up with the quorum until the audit's end (`confirm`).
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import structlog

from migrator.findings.finding import FindingError, words_of
from migrator.findings.service import LOG_NOT_COPIED
from migrator.node.log.storage import LOG_NAME
from migrator.node.observer.log_reader import LogReader
from migrator.raft.types import SnapshotId
from migrator.wire.batch import peek

log = structlog.get_logger()

FOLLOW_EVERY_S: Final = 0.25
LOOK_S: Final = 600.0
"""Longest look: a snapshot of a gigabyte arrives within one."""
STANDS_STILL_S: Final = 20.0
"""So long nothing may be read before the log counts as one that cannot be read; elections are over much sooner."""


class LogFiles:
    """Writes what a `LogReader` reads, in Kafka's format."""

    blocks = True

    def __init__(self, directory: Path) -> None:
        self._directory = directory / LOG_NAME
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._segment: Path | None = None
        self._size = 0

    def begin(self) -> None:
        """What was written is not of this log any more."""
        self._segment = None
        for each in (*self._directory.glob("*.log"), *self._directory.glob("*.checkpoint*")):
            each.unlink()

    def snapshot(self, content: bytes, snapshot: SnapshotId) -> None:
        """It takes the place of all that was written before."""
        self.begin()
        name = f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"
        part = self._directory / f"{name}.part"
        part.write_bytes(content)
        part.replace(self._directory / name)
        self._segment = self._directory / f"{snapshot.end_offset:020d}.log"
        self._segment.touch()  # as a voter has one: the snapshot may say all that is committed
        self._size = 0

    def batches(self, data: bytes) -> None:
        """data: whole batches that follow on what was written before. All of it is written, or nothing (OSError)."""
        if self._segment is None:
            self._segment = self._directory / f"{peek(data, 0).base_offset:020d}.log"
            self._size = 0
        try:
            with self._segment.open("ab") as file:
                file.write(data)
        except OSError:
            if self._segment.exists():
                os.truncate(self._segment, self._size)
            raise
        self._size += len(data)


class FollowedLog:
    """A copy that grows. fault: why it does not any more."""

    def __init__(self, reader: LogReader, stands_still_s: float) -> None:
        self._reader = reader
        self._stands_still_s = stands_still_s
        self._whole_at = -math.inf
        self._fault = "nothing was read yet"

    async def copy(self) -> None:
        """Up to what is committed now. Raises Z2K-4117."""
        end, moved_at = -1, time.monotonic()
        while not await self._look():
            if self._reader.end != end:
                end, moved_at = self._reader.end, time.monotonic()
            elif time.monotonic() - moved_at > self._stands_still_s:
                raise LOG_NOT_COPIED.error(reason=self._fault)
            await asyncio.sleep(FOLLOW_EVERY_S)

    async def follow(self) -> None:
        """A quorum that does not answer for a while is read on later."""
        while True:
            await asyncio.sleep(FOLLOW_EVERY_S)
            await self._look()

    async def confirm(self) -> None:
        """What an audit saw until now was in the copy as soon as in the quorum. Raises Z2K-4117."""
        since = time.monotonic()
        while self._whole_at < since:
            if time.monotonic() - since > self._stands_still_s:
                raise LOG_NOT_COPIED.error(reason=f"it stood still during the audit: {self._fault}")
            await asyncio.sleep(FOLLOW_EVERY_S / 5)

    async def _look(self) -> bool:
        """Whether everything that was committed when it began is in the copy."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(LOOK_S):
                quorum = await self._reader.read()
        except TimeoutError:
            self._fault = f"the quorum did not answer within {LOOK_S:.0f} s"
        except (OSError, FindingError) as error:
            self._fault = words_of(error)
        except Exception as fault:  # the look would be made again on the same input
            log.exception("log_copy.fault")
            self._fault = f"{type(fault).__name__}: {fault}"
        else:
            if self._reader.end >= quorum.high_watermark:
                self._whole_at = began
                return True
            self._fault = f"read up to offset {self._reader.end} of {quorum.high_watermark}"
        return False


@asynccontextmanager
async def followed_log(reader: LogReader, stands_still_s: float = STANDS_STILL_S) -> AsyncIterator[FollowedLog]:
    """reader: a fresh one. Raises Z2K-4117 when the log cannot be read to its end."""
    followed = FollowedLog(reader, stands_still_s)
    try:
        await followed.copy()
        following = asyncio.create_task(followed.follow(), name="follow the log")
        try:
            yield followed
        finally:
            following.cancel()
            await asyncio.wait({following})
    finally:
        reader.close()
