"""Spark audits in one process that stays warm, beside the service: seconds of start-up are paid once, not by each.

In:   the words after `zk2kraft`, as `Commands` takes them.
Out:  the same `Result`. What is no Spark audit on this machine goes to `Commands`, in a process of its own.
Elsewhere: the process at the other end of the pipe (migrator/audit/warm_process.py), when one audits (inspections.py).
Rules: one audit at a time, in the order in which they came. The process is started when it is needed, ended when an
audit in it is cancelled or takes too long, and started again when it died. An audit that it did not answer twice runs
in a fresh process, and the result has a note that says so (Z2K-4029).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import IO, Final

import msgspec
import structlog

from migrator.audit.warm_process import MARK, AuditAnswer, AuditRequest, clear, end_all
from migrator.findings.service import AUDIT_PROCESS_ENDED
from state_machine.children.commands import PROGRAM, Commands, Result, Runner, document_of, give_way, last_words

log = structlog.get_logger()

TRIES: Final = 2
"""The process may have died of something else; twice in one audit it died of this audit."""
ANSWER_BYTES_MAX: Final = 64 << 20
"""A report shows 200 differences, and each may hold a topic's whole assignment."""
SCRATCH: Final = "audit-process"
LOG: Final = "audit-process.log"


class _Gone(Exception):
    """The process ended, or said something that is no answer."""


@dataclass(slots=True)
class _Process:
    child: asyncio.subprocess.Process
    asked: int = 0

    async def ask(self, words: list[str]) -> AuditAnswer:
        """Raises _Gone."""
        self.asked += 1
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        try:
            self.child.stdin.write(msgspec.json.encode(AuditRequest(self.asked, words)) + b"\n")
            await self.child.stdin.drain()
            answer = msgspec.json.decode(await self.child.stdout.readuntil(b"\n"), type=AuditAnswer)
        except (OSError, asyncio.IncompleteReadError):
            raise _Gone("it ended") from None
        except (asyncio.LimitOverrunError, msgspec.MsgspecError) as error:
            raise _Gone(f"it gave no answer: {error}") from error
        if answer.number != self.asked:
            raise _Gone(f"it answered request {answer.number} in place of {self.asked}")
        return answer


class WarmAudits:
    """A `Runner`. directory: the service's. idle_s: after so long without an audit the process ends; 0: there is none.

    master: audits on another one, or on one that is not this machine, are not for the process.
    """

    def __init__(
        self,
        directory: Path,
        *,
        master: str,
        idle_s: float,
        commands: Runner | None = None,
        program: tuple[str, ...] = PROGRAM,
    ) -> None:
        self._scratch = directory / SCRATCH
        self._log = directory / LOG
        self._master = master
        self._idle_s = idle_s
        self._commands = commands or Commands()
        self._program = program
        self._turn = asyncio.Lock()
        self._process: _Process | None = None

    async def run(self, *arguments: str, limit_s: float) -> Result:
        if not self._takes(arguments):
            return await self._commands.run(*arguments, limit_s=limit_s)
        async with self._turn:
            return await self._audit(arguments, limit_s)

    async def warm_up(self) -> None:
        """Start the process, so that the first audit finds it warm."""
        if self._usable:
            try:
                async with self._turn:
                    await self._running()
            except OSError as error:
                log.warning("audit_process.not_started", reason=str(error))

    async def close(self) -> None:
        """End the process and all that came of it."""
        async with self._turn:
            await self._end()

    @property
    def _usable(self) -> bool:
        return self._idle_s > 0 and self._master.startswith("local")

    def _takes(self, arguments: tuple[str, ...]) -> bool:
        options = dict(pairwise(arguments))
        wanted = arguments[0] == "audit" and options.get("--engine") == "spark"
        return self._usable and wanted and options.get("--master") == self._master and _is_empty(_out(arguments))

    async def _audit(self, arguments: tuple[str, ...], limit_s: float) -> Result:
        reason = ""
        for _ in range(TRIES):
            try:
                async with asyncio.timeout(limit_s):
                    return await self._answered([*arguments, "--json"])
            except TimeoutError:
                return Result(-1, None, f"it was stopped after {limit_s:.0f} s")
            except _Gone as gone:
                reason = self._why(gone)
                log.warning("audit_process.ended", reason=reason)
                _empty(_out(arguments))
        found = AUDIT_PROCESS_ENDED.found(reason=reason)
        return replace(await self._commands.run(*arguments, limit_s=limit_s), note=found)

    async def _answered(self, words: list[str]) -> Result:
        """Whatever ends this without an answer ends the process."""
        try:
            process = await self._running()
            answer = await process.ask(words)
        except BaseException:
            await asyncio.shield(self._end())
            raise
        document = document_of(answer.output.encode())
        return Result(answer.exit_code, document, "" if document is not None else f"exit code {answer.exit_code}")

    async def _running(self) -> _Process:
        if self._process is None or self._process.child.returncode is not None:
            await self._end()
            self._process = _Process(await self._started())
        return self._process

    async def _started(self) -> asyncio.subprocess.Process:
        self._scratch.mkdir(parents=True, mode=0o700, exist_ok=True)
        words = ("audit-process", "--directory", self._scratch, "--master", self._master, "--idle", str(self._idle_s))
        with _private(self._log) as errors:
            child = await asyncio.create_subprocess_exec(
                *self._program,
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=ANSWER_BYTES_MAX,
                start_new_session=True,
                env={**os.environ, MARK: str(self._scratch)},
            )
        give_way(child.pid)
        log.info("audit_process.started", pid=child.pid)
        return child

    async def _end(self) -> None:
        """End the process, and those that an earlier service with this directory has left."""
        process, self._process = self._process, None
        if process is not None and process.child.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.child.pid, signal.SIGKILL)
        gone = await asyncio.to_thread(end_all, str(self._scratch))
        if process is not None:
            await process.child.wait()
        if not gone:
            log.error("audit_process.lives_on", directory=str(self._scratch))
        await asyncio.to_thread(clear, self._scratch)

    def _why(self, gone: _Gone) -> str:
        """Why the process is gone, with its last words."""
        with suppress(OSError):
            if words := last_words(self._log.read_text(errors="replace")):
                return f"{gone} ({words})"
        return str(gone)


def _private(file: Path) -> IO[bytes]:
    """Empty, and its owner's alone."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600), "ab")


def _out(arguments: tuple[str, ...]) -> Path | None:
    options = dict(pairwise(arguments))
    return Path(options["--out"]) if "--out" in options else None


def _is_empty(out: Path | None) -> bool:
    """An audit into a directory that holds something is refused, and what it holds is not ours to delete."""
    return out is None or not out.exists() or not any(out.iterdir())


def _empty(out: Path | None) -> None:
    """What a died process has written there, for the next one to begin again."""
    for each in () if out is None or not out.exists() else out.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
