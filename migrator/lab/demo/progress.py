"""What the demo says: one line for each thing that happened, and under it, on a terminal, what happens now.

In:   words; a function that tells the live counters.
Out:  lines on standard output, each with the time since the beginning.
Elsewhere: what is said (run.py, report.py).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO

REFRESH_EVERY_S: Final = 0.5
LABEL_WIDTH: Final = 15
QUIET_REMINDER_S: Final = 15.0
"""Without a terminal a wait that goes on is repeated this often at most."""


def no_counters() -> str:
    """Before there is traffic."""
    return ""


class ProgressReporter:
    """Use it in a `with` block: a thread keeps the last line of a terminal alive.

    counters: what to show beside every wait, "" for nothing.
    """

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self.counters: Callable[[], str] = no_counters
        self._out = out
        self._live = out.isatty()
        self._began = time.monotonic()
        self._waiting = ""
        self._reminded = self._began
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if self._live:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._live:
            self._thread.join()
            self._write("")

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def say(self, label: str, text: str) -> None:
        """Something happened."""
        with self._lock:
            self._waiting = ""
            self._reminded = time.monotonic()
            self._write(f"{_clock(self.seconds)}  {label:<{LABEL_WIDTH}} {text}\n")

    def plain(self, text: str = "") -> None:
        """Lines that stand for themselves: a table, a command to type."""
        with self._lock:
            self._write(text + "\n")

    def waiting(self, line: str) -> None:
        """Something is waited for; a `Say` of the laboratory."""
        reason = line.removeprefix("waiting: ")
        with self._lock:
            self._waiting = reason
            now = time.monotonic()
            if not self._live and now - self._reminded >= QUIET_REMINDER_S:
                self._reminded = now
                self._write(
                    f"{_clock(self.seconds)}  {'':<{LABEL_WIDTH}} waiting: {reason}  {self.counters()}".rstrip() + "\n"
                )

    def _refresh(self) -> None:
        while not self._ended.wait(REFRESH_EVERY_S):
            text = "  ".join(filter(None, (_clock(self.seconds), self.counters(), self._waiting)))
            with self._lock:
                self._write(text[: _columns(self._out)], ends=False)

    def _write(self, text: str, *, ends: bool = True) -> None:
        """Take the live line away, then write."""
        self._out.write(("\r\x1b[K" if self._live else "") + text)
        if ends or self._live:
            self._out.flush()


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"


def _columns(out: TextIO) -> int:
    try:
        return os.get_terminal_size(out.fileno()).columns - 1
    except OSError:
        return 79
