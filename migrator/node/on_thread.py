"""Long work on a thread, during which the event loop has the interpreter back ten times as soon.

In:   `on_thread(function, ...)`; `short_turns()`, a context around several such steps.
Out:  what the function returns; Python's own interval stands again when the last of them is over.
Elsewhere: what is so long that it is done on a thread: decisions (controller/partitions/mass.py), large frames, full
sends to brokers.
Why: the loop gives the interpreter away at every write to a socket or a file. With Python's 5 ms, a turn of ten writes
waits 50 ms beside one busy thread. A short interval costs other work up to a tenth, so it does not stay.
Source: Python's `sys.setswitchinterval`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

TURN_S: Final = 0.0005


class _Turns:
    """How many contexts are open, and the interval that stood before the first of them."""

    def __init__(self) -> None:
        self.open = 0
        self.before_s = 0.0


_TURNS: Final = _Turns()


@contextmanager
def short_turns() -> Iterator[None]:
    """Shorten the turns of threads, called on the event loop's; several tasks may be inside at once."""
    if _TURNS.open == 0:
        _TURNS.before_s = sys.getswitchinterval()
        sys.setswitchinterval(TURN_S)
    _TURNS.open += 1
    try:
        yield
    finally:
        _TURNS.open -= 1
        if _TURNS.open == 0:
            sys.setswitchinterval(_TURNS.before_s)


async def on_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Does what `asyncio.to_thread` does, in short turns."""
    with short_turns():
        return await asyncio.to_thread(function, *args, **kwargs)
