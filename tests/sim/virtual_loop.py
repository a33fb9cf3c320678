"""An asyncio loop whose time is the simulation's: where nothing is ready, time jumps to what is due next.

Work for threads is done on the loop, a moment later; so a seed gives the same run again.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing; tells how long it should have."""

    def __init__(self) -> None:
        super().__init__()
        self.jump: Callable[[float], None] = lambda seconds: None

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "everybody waits, and nothing is due"
        if timeout > 0:
            self.jump(timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """thread_takes_s: how long work for a thread takes; raises what it raises when no thread can be started."""

    def __init__(self, thread_takes_s: Callable[[], float]) -> None:
        selector = _Jumping()
        self._now = 0.0
        self._thread_takes_s = thread_takes_s
        super().__init__(selector)
        selector.jump = self._jump

    def _jump(self, seconds: float) -> None:
        self._now += seconds

    def time(self) -> float:
        return self._now

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        self.call_later(self._thread_takes_s(), _work, done, func, args)
        return done


def _work(done: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if done.done():
        return
    try:
        done.set_result(func(*args))
    except BaseException as error:
        done.set_exception(error)
