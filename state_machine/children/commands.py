"""Run commands of our own command line as child processes, each with a time limit.

In:   the words after `zk2kraft`. `--json` is added.
Out:  the exit code, the document from standard output, and the last words from standard error.
Elsewhere: which commands, and what becomes of the result (inspections.py); controllers (processes.py).
Rules: a child lives in its own session, so that nothing of it (a Java virtual machine) survives its time limit.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from migrator.findings.finding import Occurrence

PROGRAM: Final = (sys.executable, "-m", "api")
CHILDREN_NICE: Final = 10
"""Inspections give way to looks, and to controllers on the same machine."""
WORDS_MAX: Final = 600
"""How much of standard error is kept for a reason; the rest is in nobody's interest."""


@dataclass(frozen=True, slots=True)
class Result:
    """document: what it printed, None when that was no JSON. words: why there is none. note: how it came about."""

    exit_code: int
    document: Any
    words: str
    note: Occurrence | None = None


def give_way(group: int) -> None:
    """The processes of this group give way to looks, and never get a higher priority than this process has.

    Where the kernel groups processes by session (`sched_autogroup_enabled`), that counts inside their session alone.
    The session's own priority stays as it is: on a machine without a free core a lowered one would hardly run at all.
    """
    with suppress(OSError):
        os.setpriority(os.PRIO_PGRP, group, max(CHILDREN_NICE, os.getpriority(os.PRIO_PROCESS, 0)))


class Runner(Protocol):
    async def run(self, *arguments: str, limit_s: float) -> Result: ...


class Commands:
    """Runs children one after the other or side by side; a cancelled run kills its child."""

    def __init__(self, program: tuple[str, ...] = PROGRAM) -> None:
        self._program = program

    async def run(self, *arguments: str, limit_s: float) -> Result:
        child = await asyncio.create_subprocess_exec(
            *self._program,
            *arguments,
            "--json",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        give_way(child.pid)
        try:
            async with asyncio.timeout(limit_s):
                output, errors = await child.communicate()
        except TimeoutError:
            return Result(-1, None, f"it was stopped after {limit_s:.0f} s")
        finally:
            await _end(child)
        assert child.returncode is not None
        document = document_of(output)
        words = "" if document is not None else last_words(errors.decode(errors="replace"))
        return Result(child.returncode, document, words or f"exit code {child.returncode}")


async def _end(child: asyncio.subprocess.Process) -> None:
    """Kill the whole session of the child and wait for it; also when this task is being cancelled."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    await asyncio.shield(child.wait())


def document_of(output: bytes) -> Any:
    """None when it is no JSON."""
    try:
        return msgspec.json.decode(output)
    except msgspec.DecodeError:
        return None


def last_words(text: str) -> str:
    """The line that names a finding, if there is one; else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    findings = [line for line in lines if line.startswith("Z2K-")]
    return (findings or lines or [""])[-1][:WORDS_MAX]
