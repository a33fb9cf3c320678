"""How late the event loop is, and how much of that is its own work.

In:   the loop that `measure` runs on; on Linux what the kernel says of its thread.
Out:  `delay_ms` and `work_ms`, the longest of the last ten seconds; the status and the metrics tell them.
Rules: A delay has two causes. A turn of the loop that works for long is ours to mend. A thread that could run and waits
for a processor says that the host has too few: `delay_ms` is then much longer than `work_ms`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from pathlib import Path
from typing import Final

EVERY_S: Final = 0.05
REMEMBERED: Final = 200
"""Looks; ten seconds of them, and more while the loop is late."""


class LoopDelay:
    """Milliseconds, the longest of the last ten seconds.

    delay_ms: how late the loop was.
    work_ms:  the same without the time in which its thread waited for a processor; `delay_ms` where nobody tells that
              time. A wait for the interpreter, which another thread holds, counts as work.
    """

    def __init__(self) -> None:
        self._recent: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)

    @property
    def delay_ms(self) -> float:
        return max((delay for delay, _ in self._recent), default=0.0)

    @property
    def work_ms(self) -> float:
        return max((work for _, work in self._recent), default=0.0)

    def note(self, late_s: float, waited_s: float) -> None:
        """late_s: how late one look came; waited_s: how long the thread waited for a processor between two looks."""
        self._recent.append((late_s * 1000, max(0.0, late_s - waited_s) * 1000))

    async def measure(self) -> None:
        """Look for ever. On the thread of the loop."""
        of_thread = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        before, waited = time.monotonic(), waited_for_a_processor_s(of_thread)
        while True:
            await asyncio.sleep(EVERY_S)
            now, waited_now = time.monotonic(), waited_for_a_processor_s(of_thread)
            self.note(now - before - EVERY_S, waited_now - waited)
            before, waited = now, waited_now


def waited_for_a_processor_s(of_thread: Path) -> float:
    """How long the thread could run and did not, in seconds, since it began; 0 where the kernel does not tell.

    Source: the second figure of `/proc/<pid>/task/<tid>/schedstat`, nanoseconds (Linux, sched-stats).
    """
    try:
        return int(of_thread.read_bytes().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
