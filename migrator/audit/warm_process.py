"""The warm audit process: one audit after the other, asked for over a pipe, in a session that is started once.

In:   a line of JSON on standard input for each audit: `AuditRequest`, the words of the command line as a fresh process
      has them. Secrets are in the files that these words name.
Out:  a line of JSON on standard output: `AuditAnswer`, with what the command printed. Nothing else is ever written
      there.
Elsewhere: who starts and asks it (state_machine/audits/warm_audits.py), the command itself (api/cli.py, api/commands).
Ends: when its input ends, at once and also in the middle of an audit: whoever asked is gone; after `idle_s` without
a request; and after an audit that may have spoiled the session, without an answer. Nothing of it stays: every process
that came of it inherited its mark, and whatever it writes for itself is below one directory.
"""

from __future__ import annotations

import os
import queue
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

import msgspec

from migrator.findings.finding import FindingError

MARK: Final = "ZK2KRAFT_AUDIT_PROCESS"
"""In the environment of the process and of all that came of it: its directory."""

DATA_BYTES_MAX: Final = 3 << 30
"""Of each process. The JVM has 1 GB of heap and some 400 MB beside it; a Python worker needs 200 MB."""

OOM_SCORE: Final = 500
"""When the machine has no memory left, this goes before the service, controllers and brokers."""

END_S: Final = 10.0
POLL_S: Final = 0.02


class AuditRequest(msgspec.Struct, frozen=True):
    """words: behind `zk2kraft`."""

    number: int
    words: list[str]


class AuditAnswer(msgspec.Struct, frozen=True):
    """number: of the request. output: what the command printed, as text."""

    number: int
    exit_code: int
    output: str


@dataclass(frozen=True, slots=True)
class Pipe:
    """requests: lines as they come."""

    requests: queue.SimpleQueue[bytes]
    answers: BinaryIO


def answer_audits(
    pipe: Pipe, run: Callable[[list[str]], tuple[int, str]], *, idle_s: float, between: Callable[[], None]
) -> None:
    """Answer requests for audits until none came for `idle_s`.

    run: returns exit code and output of a command. between: called behind each answer.
    """
    with suppress(queue.Empty):
        while True:
            request = msgspec.json.decode(pipe.requests.get(timeout=idle_s), type=AuditRequest)
            exit_code, output = run(request.words)
            pipe.answers.write(msgspec.json.encode(AuditAnswer(request.number, exit_code, output)) + b"\n")
            pipe.answers.flush()
            between()


def _own_pipe() -> Pipe:
    """Standard input and output for us alone: what libraries print goes to standard error."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return Pipe(_lines_of(incoming), outgoing)


def _lines_of(incoming: BinaryIO) -> queue.SimpleQueue[bytes]:
    """Read by a thread, so that the end of the input is seen during an audit too."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in incoming:
            lines.put(line)
        _leave()

    threading.Thread(target=read, name="requests", daemon=True).start()
    return lines


def _leave() -> NoReturn:
    """End what came of this process, and let its main thread clear up; if that takes too long, without it."""
    mark = os.environ.get(MARK, "")
    end_all(mark, sparing=os.getpid())
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(END_S)
    clear(Path(mark) if mark else None)
    os._exit(1)


def run(work: Callable[[Pipe], None], directory: Path) -> NoReturn:
    """Do it within bounds and end: what libraries would still do at the end of Python, they would do to a dead JVM. The
    pipe ends last: who waits for it finds everything said and cleared up.
    """
    code = 1
    try:
        pipe = _own_pipe()
        with _confined(directory):
            work(pipe)
        code = 0
    except SystemExit:
        pass
    except FindingError as error:
        _say(str(error))
    except BaseException:
        _say(traceback.format_exc())
    finally:
        os._exit(code)


def _say(why: str) -> None:
    """Last, so that it is the last that is found."""
    sys.stdout.flush()
    print(why, file=sys.stderr, flush=True)


@contextmanager
def _confined(directory: Path) -> Iterator[None]:
    """Bounds of this process and of what comes of it; everything that it writes for itself goes into `directory`."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = DATA_BYTES_MAX if most == resource.RLIM_INFINITY else min(most, DATA_BYTES_MAX)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
    signal.signal(signal.SIGTERM, _ended)
    tempfile.tempdir = os.environ["TMPDIR"] = str(directory)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_all(os.environ.get(MARK, ""), sparing=os.getpid())
        clear(directory)


def _ended(number: int, frame: object) -> NoReturn:
    sys.exit(128 + number)


# --- for both ends of the pipe ----------------------------------------------------------------------------------


def end_all(mark: str, *, sparing: int = 0) -> bool:
    """Kill all processes that have this mark but one, and see them gone. False: some still live after `END_S`."""
    ends = time.monotonic() + END_S
    while found := [pid for pid in living(mark) if pid != sparing]:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > ends:
            return False
        time.sleep(POLL_S)
    return True


def living(mark: str) -> list[int]:
    """Processes of this user with this mark. None without one, and where there is no /proc."""
    wanted = f"{MARK}={mark}".encode()
    return [pid for pid in _processes() if mark and wanted in _environment(pid)]


def _processes() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    return []


def _environment(pid: int) -> list[bytes]:
    """As it was started with; nothing of a process that has ended, or is another user's."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []


def clear(directory: Path | None) -> None:
    """Delete it. What cannot be deleted now is when the next process starts."""
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)
