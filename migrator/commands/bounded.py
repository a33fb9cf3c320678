"""One command, bounded in time and output, without a shell.

In:   an argument vector, and bytes for its standard input.
Out:  its exit code and what it printed. Errors: `CommandFailed` and its two kinds; callers make findings of them.
Rules: the environment is what is named, not what this process has. A command that does not end is ended with all its
children; one that succeeded keeps them, since it may have started a server.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Final

PASSED: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "TZ")
"""What of this process's environment every command gets; a template names more."""
STDERR_BYTES_MAX: Final = 65_536
AFTER_THE_END_S: Final = 0.3
"""How long output is still read after the command ended, while a server that it started keeps the pipe open."""
CHUNK: Final = 65_536


class CommandFailed(Exception):
    """It could not be started, or ended with another exit code than 0. errors: the end of its standard error."""

    def __init__(self, reason: str, exit_code: int | None = None, errors: str = "") -> None:
        super().__init__(reason)
        self.exit_code = exit_code
        self.errors = errors

    def __str__(self) -> str:
        return str(self.args[0])


class CommandTooSlow(CommandFailed):
    """It was ended because its time was over."""


class CommandTooLoud(CommandFailed):
    """It was ended because it printed more than it may."""


@dataclass(frozen=True, slots=True)
class Output:
    """What it printed may hold secrets, so it is not in its text. stderr: the end of it, in one line, for people."""

    stdout: bytes = field(repr=False)
    stderr: str = ""
    errors: str = field(default="", repr=False)


def run_command(
    words: Sequence[str],
    *,
    stdin: bytes = b"",
    limit_s: float,
    output_bytes_max: int,
    environment: Mapping[str, str] | None = None,
    accepted: Collection[int] = (0,),
    passed: Collection[str] = PASSED,
) -> Output:
    """accepted: exit codes that are no failure. passed: variables of this process that it gets, beside `environment`.

    Raises `CommandFailed`, `CommandTooSlow`, `CommandTooLoud`; their texts have nothing of its standard output.
    """
    own = {name: os.environ[name] for name in passed if name in os.environ}
    try:
        process = subprocess.Popen(
            list(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**own, **(environment or {})},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CommandFailed(f"{words[0]} cannot be started: {reason}") from error
    with process:
        try:
            stdout, stderr = _Streams(process, stdin, output_bytes_max).run(time.monotonic() + limit_s)
        except BaseException:
            _end(process)
            raise
    errors = stderr.decode(errors="replace")
    said = " ".join(errors.split())[-500:]
    if process.returncode not in accepted:
        reason = f"exit code {process.returncode}{': ' if said else ''}{said}"
        raise CommandFailed(reason, process.returncode, errors)
    return Output(stdout, said, errors)


class _Streams:
    """Feeds and reads a process until it ends or its bounds are reached."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, output_bytes_max: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._rest = memoryview(stdin)
        self._stdin = process.stdin
        self._read: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
        self._stdout = process.stdout
        self._stderr = process.stderr
        self._max = output_bytes_max
        self._selector = selectors.DefaultSelector()

    def run(self, until: float) -> tuple[bytes, bytes]:
        with self._selector:
            for stream in (self._stdin, self._stdout, self._stderr):
                os.set_blocking(stream.fileno(), False)
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
            for stream in self._read:
                self._selector.register(stream, selectors.EVENT_READ)
            self._until_closed_or_ended(until)
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        left = until - time.monotonic()
        try:
            self._process.wait(max(left, 0.05))
        except subprocess.TimeoutExpired:
            raise CommandTooSlow("it did not end in time") from None
        return bytes(self._read[self._stdout]), bytes(self._read[self._stderr])

    def _until_closed_or_ended(self, until: float) -> None:
        ended_at: float | None = None
        while self._selector.get_map():
            now = time.monotonic()
            if now > until:
                raise CommandTooSlow("it did not end in time")
            if ended_at is None and self._process.poll() is not None:
                ended_at = now
            if ended_at is not None and now - ended_at > AFTER_THE_END_S:
                return
            for key, _ in self._selector.select(min(until - now, 0.05)):
                if key.fileobj is self._stdin:
                    self._feed()
                else:
                    self._take(key.fileobj)  # type: ignore[arg-type]  # only our own streams are registered

    def _feed(self) -> None:
        try:
            written = os.write(self._stdin.fileno(), self._rest[:CHUNK]) if self._rest else 0
        except BlockingIOError:
            return
        except BrokenPipeError:  # it does not want to read it all; its exit code says whether that is trouble
            written = len(self._rest)
        self._rest = self._rest[written:]
        if not self._rest:
            self._selector.unregister(self._stdin)
            with contextlib.suppress(BrokenPipeError):
                self._stdin.close()

    def _take(self, stream: IO[bytes]) -> None:
        try:
            chunk = os.read(stream.fileno(), CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            self._selector.unregister(stream)
            return
        kept = self._read[stream]
        kept += chunk
        if stream is self._stderr:
            del kept[:-STDERR_BYTES_MAX]
        elif len(kept) > self._max:
            raise CommandTooLoud(f"it printed more than {self._max} bytes")


def _end(process: subprocess.Popen[bytes]) -> None:
    """The whole session: what it started does not go on behind its back."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
