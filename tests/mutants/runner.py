"""Run the tests of each fault against a copy of the sources that has it.

In:   faults, the number of processes, the limit of a run in seconds.
Out:  a verdict for each fault, in the order of the list.
Elsewhere: the faults (catalogue.py), the table (page.py).
Rules: the sources that are being worked on are never touched. A fault counts as killed only where its tests pass
without it, and a test failed with it or the run took too long; tests that could not even be collected prove nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tests.mutants.fault import DoesNotApplyError, Fault

ROOT: Final = Path(__file__).resolve().parents[2]
LIMIT_S: Final = 240.0
"""Of one run of pytest; the slowest set of tests takes a minute on an idle machine."""

NOT_COPIED: Final = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info", "site", "zk2kraft-demo"
)
"""What a demo leaves has a socket, which cannot be copied."""
SOURCE_AGE_S: Final = 10
"""A file with a fault is made to look this much younger, so that no compiled module of the original stands for it."""

PASSED, FAILED, TOOK_TOO_LONG = 0, 1, -1


class Verdict(StrEnum):
    KILLED = "killed"
    SURVIVED = "survived"
    MOVED = "no longer applies"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class Result:
    """by: the first test that failed, or why there is none. line: where the fault is, 0 where it does not apply."""

    fault: Fault
    verdict: Verdict
    by: str
    line: int
    took_s: float


def run(faults: Sequence[Fault], processes: int, tell: Callable[[Result], None], limit_s: float) -> list[Result]:
    """Each process works in a copy of its own."""
    with tempfile.TemporaryDirectory(prefix="zk2kraft-mutants-") as scratch:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(processes):
            copies.put(Copy(Path(scratch) / str(number), limit_s))

        def judged(fault: Fault) -> Result:
            copy = copies.get()
            try:
                result = copy.judge(fault)
            finally:
                copies.put(copy)
            tell(result)
            return result

        with ThreadPoolExecutor(processes) as pool:
            return list(pool.map(judged, faults))


class Copy:
    """A copy of the sources in `directory`, in which one fault at a time is looked for."""

    def __init__(self, directory: Path, limit_s: float) -> None:
        self._directory = directory
        self._limit_s = limit_s
        self._unharmed: dict[tuple[str, ...], str] = {}
        shutil.copytree(ROOT, directory, ignore=NOT_COPIED, symlinks=True)

    def judge(self, fault: Fault) -> Result:
        began = time.monotonic()
        try:
            line = fault.line((self._directory / fault.file).read_text())
        except DoesNotApplyError as error:
            return Result(fault, Verdict.MOVED, str(error), 0, 0.0)
        trouble = self._trouble_without_fault(fault.tests)
        verdict, by = (Verdict.UNPROVEN, trouble) if trouble else self._with_fault(fault)
        return Result(fault, verdict, by, line, time.monotonic() - began)

    def _trouble_without_fault(self, tests: tuple[str, ...]) -> str:
        """Empty when these tests pass as the sources are."""
        if tests not in self._unharmed:
            code, by = self._pytest(tests, compiled=True)
            self._unharmed[tests] = "" if code == PASSED else f"without the fault: exit code {code}, {by}"
        return self._unharmed[tests]

    def _with_fault(self, fault: Fault) -> tuple[Verdict, str]:
        with self._applied(fault):
            code, by = self._pytest(fault.tests, compiled=False)
        match code:
            case 0:
                return Verdict.SURVIVED, ""
            case 1:
                return Verdict.KILLED, by
            case -1:
                return Verdict.KILLED, f"no end after {self._limit_s:.0f} s"
            case _:
                return Verdict.UNPROVEN, f"exit code {code}: {by}"

    @contextmanager
    def _applied(self, fault: Fault) -> Iterator[None]:
        path = self._directory / fault.file
        source, stat = path.read_text(), path.stat()
        path.write_text(fault.apply(source))
        os.utime(path, (stat.st_atime, stat.st_mtime + SOURCE_AGE_S))
        try:
            yield
        finally:
            path.write_text(source)
            os.utime(path, (stat.st_atime, stat.st_mtime))

    def _pytest(self, tests: tuple[str, ...], *, compiled: bool) -> tuple[int, str]:
        """Exit code and the first test that failed. compiled: what is imported may be kept in compiled form."""
        options = ("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--tb=no", "-rfE")
        environment = {**os.environ, "PYTHONPATH": str(self._directory), "PYTHONHASHSEED": "0"}
        if not compiled:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        child = subprocess.Popen(
            (sys.executable, "-m", "pytest", *options, *tests),
            cwd=self._directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = child.communicate(timeout=self._limit_s)
        except subprocess.TimeoutExpired:
            return TOOK_TOO_LONG, ""
        finally:
            _end(child)
        return child.returncode, first_failed(output)


def _end(child: subprocess.Popen[str]) -> None:
    """With everything that it started: a fault may leave children of a test alive."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def first_failed(output: str) -> str:
    """`directory/file.py::name` of the first test that pytest's summary names; else its last line."""
    lines = [line for line in output.splitlines() if line.strip()]
    named = [line.split(" - ")[0].partition(" ")[2] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return named[0] if named else (lines or ["it printed nothing"])[-1]
