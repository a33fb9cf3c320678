"""An asyncio loop that runs one ready step at a time, and chance says which.

In:   a source of chance. Out: a loop; the same seed runs the same steps in the same order.
Elsewhere: the loop whose time jumps (tests/sim/virtual_loop.py).
Work for a thread is a step like any other: it happens at once, at any time after it was handed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from random import Random
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SeededLoop(asyncio.BaseEventLoop):
    """Has no sockets and no time: whoever waits for one waits for ever, which is an error of the trial."""

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self._chance = chance
        self.steps = 0

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]
        assert ready, "everybody waits, and nothing is due"
        ready.rotate(-self._chance.randrange(len(ready)))
        handle = ready.popleft()
        self.steps += 1
        if not handle._cancelled:
            handle._run()

    def time(self) -> float:
        return 0.0

    def _write_to_self(self) -> None: ...

    def _process_events(self, event_list: Any) -> None: ...

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        self.call_soon(_work, done, func, args)
        return done


def _work(done: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        result = func(*args)
    except BaseException as error:
        if not done.done():
            done.set_exception(error)
    else:
        if not done.done():
            done.set_result(result)
