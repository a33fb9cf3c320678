"""What a leader appended and nobody has committed yet: a queue, one step per append, with those who wait for it.

In:   appends in the order of their offsets; futures whose replies may leave only when everything before is committed.
Out:  what a high watermark commits, joined into one.
Elsewhere: the appends themselves and the images (active_controller.py).
Source: Kafka 3.9 `DeferredEventQueue`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from migrator.model.draft import Delta, join
from migrator.wire.schema import Message


class LeadershipLost(Exception):
    """This node leads no more."""


@dataclass(slots=True)
class PendingAppend:
    """When `offset` is committed, the image becomes `delta.after` and who waits is answered."""

    offset: int
    delta: Delta | None
    size: int = 0
    waiting: list[tuple[asyncio.Future[Message], Message]] = field(default_factory=list)
    records: int = 0

    def take_in(self, step: PendingAppend) -> None:
        """Become one with the step after this one."""
        self.offset = step.offset
        if step.delta is not None:
            self.delta = step.delta if self.delta is None else join(self.delta, step.delta)
        self.size += step.size
        self.records += step.records
        self.waiting += step.waiting

    def answer(self) -> None:
        for future, reply in self.waiting:
            if not future.done():
                future.set_result(reply)


class PendingAppends:
    """Those of one leadership; empty when it ends."""

    def __init__(self) -> None:
        self._steps: deque[PendingAppend] = deque()

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: PendingAppend) -> None:
        self._steps.append(step)

    def wait(self, future: asyncio.Future[Message], reply: Message) -> None:
        """Let `reply` wait for everything that is pending, which may not be nothing."""
        self._steps[-1].waiting.append((future, reply))

    def has_committed(self, high_watermark: int) -> bool:
        return bool(self._steps) and self._steps[0].offset < high_watermark

    def take_committed(self, high_watermark: int, records_max: int) -> PendingAppend | None:
        """Take out what is committed below `high_watermark`, as if it had been appended at once.

        records_max: no further step is taken that would exceed it.
        """
        taken: PendingAppend | None = None
        while self.has_committed(high_watermark):
            if taken is not None and taken.records + self._steps[0].records > records_max:
                break
            step = self._steps.popleft()
            if taken is None:
                taken = step
            else:
                taken.take_in(step)
        return taken

    def cancel(self) -> None:
        """Nobody knows what becomes of these records: whoever waits for them hears that."""
        while self._steps:
            for future, _ in self._steps.popleft().waiting:
                future.cancel()


async def wait_for_commit(future: asyncio.Future[Message]) -> None:
    """Raises `LeadershipLost` when this node leads no more; nobody knows then what becomes of its records."""
    try:
        await future
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise LeadershipLost from None
