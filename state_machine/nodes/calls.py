"""Threads for what blocks on hosts: of each migration its own, so that a host that hangs delays nobody else.

In:   work that blocks, and the host that it asks. Out: its result.
Elsewhere: what is asked (readings.py, rolling/), how long one command may take (exec_actuator.py).
Rules: no more than `at_once` calls of a migration at a time, and `per_host` of them on one host: what hangs holds its
host's turns and nobody else's. What begins such calls and waits for them has threads of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from state_machine.settings import AT_ONCE, PER_HOST

ROUNDS_AT_ONCE: Final = 8 + 64
"""Of one migration: files, restarts, snapshots, a backup, a look at a node, an act, and what a roll before left; and
acts and looks of a rack that is restarted together. Threads are made when they are needed."""

Result = TypeVar("Result")


@dataclass(slots=True)
class Call:
    """began_at: by the steady clock; None while it waits for its turn."""

    host: str
    work: Callable[[], Any]
    result: Future[Any] = field(default_factory=Future)
    began_at: float | None = None

    @property
    def lasts_s(self) -> float:
        """Seconds since it began; 0 before that."""
        return 0.0 if self.began_at is None else time.monotonic() - self.began_at


class HostCalls:
    """The calls to hosts of one migration. It is safe to use from any thread."""

    def __init__(self, name: str, at_once: int = AT_ONCE, per_host: int = PER_HOST) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix=name)
        self._at_once = at_once
        self._per_host = per_host
        self._lock = threading.Lock()
        self._waiting: list[Call] = []
        self._busy: Counter[str] = Counter()

    def begin(self, host: str, work: Callable[[], Any]) -> Call:
        """It begins as soon as its host and one of the threads are free; in the order in which they were given."""
        call = Call(host, work)
        with self._lock:
            self._waiting.append(call)
        self._next()
        return call

    def close(self) -> None:
        """What has not begun never does."""
        with self._lock:
            never, self._waiting = self._waiting, []
        for call in never:
            call.result.cancel()
        self._threads.shutdown(wait=False)

    def _next(self) -> None:
        with self._lock:
            for call in [*self._waiting]:
                if self._busy.total() >= self._at_once:
                    return
                if self._busy[call.host] < self._per_host:
                    self._waiting.remove(call)
                    self._busy[call.host] += 1
                    self._threads.submit(self._run, call)

    def _run(self, call: Call) -> None:
        call.began_at = time.monotonic()
        try:
            found: Any = call.work()
        except BaseException as error:  # the caller's, whatever it is
            self._ended(call)
            call.result.set_exception(error)
        else:
            self._ended(call)
            call.result.set_result(found)

    def _ended(self, call: Call) -> None:
        with self._lock:
            self._busy[call.host] -= 1
        self._next()


class HostThreads:
    """The threads of each migration, made when they are needed."""

    def __init__(self, at_once: int = AT_ONCE, per_host: int = PER_HOST) -> None:
        self._at_once = at_once
        self._per_host = per_host
        self._lock = threading.Lock()
        self._calls: dict[int, HostCalls] = {}
        self._rounds: dict[int, ThreadPoolExecutor] = {}

    def calls(self, migration_id: int) -> HostCalls:
        """Safe to use from any thread: two readings of one migration share its bounds."""
        with self._lock:
            if migration_id not in self._calls:
                self._calls[migration_id] = HostCalls(f"hosts-{migration_id}", self._at_once, self._per_host)
            return self._calls[migration_id]

    async def away(self, migration_id: int, work: Callable[..., Result], *given: Any) -> Result:
        """Blocking work that is about hosts, as `asyncio.to_thread` does it, on threads of this migration alone."""
        if migration_id not in self._rounds:
            self._rounds[migration_id] = ThreadPoolExecutor(ROUNDS_AT_ONCE, thread_name_prefix=f"road-{migration_id}")
        return await asyncio.get_running_loop().run_in_executor(self._rounds[migration_id], work, *given)

    def close(self) -> None:
        """A call that is under way ends by its own limit."""
        for threads in self._rounds.values():
            threads.shutdown(wait=False, cancel_futures=True)
        for calls in self._calls.values():
            calls.close()
