"""Brings the log to disk, one flush at a time; what is appended meanwhile is covered by the next.

In:   orders of the core (`Flush`), the log.
Out:  the end that is on disk, when it is; the end of this flusher, whatever ended it; how long the disk is silent.
Elsewhere: what follows from a flush, or from none (raft.leading, raft.following), who ends the process
(process/controller.py).
Rules: it has its own thread from the start, so no other work of the process keeps a flush waiting, and none needs a new
thread. It never ends by itself: its end is the end of this voter, for a voter that leads without it commits nothing and
says nothing of it. A silent disk is told of while it lasts.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, Protocol

import structlog

from migrator.findings.finding import Occurrence
from migrator.findings.quorum import LOG_FLUSH_SILENT
from migrator.node.log.log_store import LogStore

log = structlog.get_logger()

TELL_AGAIN_S: Final = 30.0
"""A disk that stays silent is told of again after so long."""


class Disk(Protocol):
    """Runs one flush at a time away from the loop; returns the seconds that it took, raises what it raised."""

    def flush(self, descriptor: int) -> asyncio.Future[float]: ...
    def close(self) -> None: ...


class DiskThread:
    """A thread for flushes and nothing else. It does not keep the process alive: a disk may hang for ever."""

    def __init__(self, store: LogStore) -> None:
        """Raises RuntimeError when the system has no thread left."""
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._orders: SimpleQueue[tuple[int, asyncio.Future[float]] | None] = SimpleQueue()
        threading.Thread(target=self._run, name="log-flush", daemon=True).start()

    def flush(self, descriptor: int) -> asyncio.Future[float]:
        done: asyncio.Future[float] = self._loop.create_future()
        self._orders.put((descriptor, done))
        return done

    def close(self) -> None:
        self._orders.put(None)

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            descriptor, done = order
            began = time.perf_counter()
            error: BaseException | None = None
            try:
                self._store.flush(descriptor)
            except BaseException as caught:
                error = caught
            try:
                self._loop.call_soon_threadsafe(_settle, done, time.perf_counter() - began, error)
            except RuntimeError:  # the loop is closed: nobody waits for it any more
                return


def _settle(done: asyncio.Future[float], took_s: float, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(took_s)
    else:
        done.set_exception(error)


class LogFlusher:
    """All methods are for the loop's thread.

    on_flushed: end of what is on disk, generation of the order, seconds that the disk took.
    on_ended:   this flusher ended without being told to; called once.
    silent_s:   after so long without a confirmation a flush is told of.
    """

    def __init__(
        self,
        store: LogStore,
        *,
        on_flushed: Callable[[int, int, float], None],
        on_ended: Callable[[BaseException], None],
        silent_s: float,
        node_id: int,
        disk: Callable[[LogStore], Disk] = DiskThread,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._on_flushed = on_flushed
        self._on_ended = on_ended
        self._silent_s = silent_s
        self._node_id = node_id
        self._make_disk = disk
        self._clock = clock
        self._disk: Disk | None = None
        self._wanted = asyncio.Event()
        self._generation = 0
        self._since_s: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False

    def start(self) -> None:
        self._disk = self._make_disk(self._store)
        self._task = asyncio.create_task(self._run(self._disk), name="log-flush")
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """What is under way on the disk is not waited for."""
        self._is_stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._disk is not None:
            self._disk.close()

    def want(self, generation: int) -> None:
        self._generation = generation
        self._wanted.set()

    @property
    def waiting_s(self) -> float:
        """How long the flush that is under way has been; 0 while there is none."""
        return 0.0 if self._since_s is None else self._clock() - self._since_s

    @property
    def finding(self) -> Occurrence | None:
        """That the disk has been silent for too long, while it is."""
        if self.waiting_s < self._silent_s:
            return None
        return LOG_FLUSH_SILENT.found(node=self._node_id, seconds=round(self.waiting_s))

    async def _run(self, disk: Disk) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            end, generation = self._store.end, self._generation
            self._since_s = self._clock()
            took_s = await self._confirmed(disk.flush(self._store.to_flush()))
            self._since_s = None
            self._on_flushed(end, generation, took_s)

    async def _confirmed(self, flush: asyncio.Future[float]) -> float:
        patience_s = self._silent_s
        while not (await asyncio.wait({flush}, timeout=patience_s))[0]:
            finding = self.finding
            if finding is not None:
                log.error("log.flush_silent", code=finding.code, says=finding.text)
                patience_s = TELL_AGAIN_S
        return flush.result()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._is_stopping:
            return
        error = None if task.cancelled() else task.exception()
        self._on_ended(error or RuntimeError("the flusher of the log was ended"))
