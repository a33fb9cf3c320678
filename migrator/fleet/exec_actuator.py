"""The `exec` actuator: commands of a template, on or for one node.

In:   a node's values, its template. Out: see actuator.py.
Elsewhere: where templates come from (templates.py), bounds of a command (commands/bounded.py), proof of bytes that
cross a wire (transfer.py).
Errors: Z2K-7021 to 7024, 7044, 7046. What a command printed is in no message, only the end of what it said on standard
error.
Rules: content goes through standard input, never through arguments. Exit code 66 of `read` and `list` means that there
is no such file. `stop` ends when the host's status says stopped, since an exit code only says that somebody was asked.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tenacity import RetryCallState, Retrying, retry_if_exception, retry_if_result, stop_after_delay

from migrator.commands.bounded import CommandFailed, CommandTooLoud, CommandTooSlow, Output, run_command
from migrator.findings.finding import FindingError
from migrator.findings.fleet import (
    ACT_FAILED,
    ACT_TOO_MUCH_OUTPUT,
    ACT_TOO_SLOW,
    FILE_ABSENT,
    HOST_NOT_REACHED,
    TEMPLATE_REFUSED,
    TRANSFER_CUT,
)
from migrator.fleet.actuator import Actuator, Done, Performed, ProcessState, ProcessStatus
from migrator.fleet.connections.control_directory import NAME as CONTROL_DIRECTORY
from migrator.fleet.connections.control_directory import control_directory
from migrator.fleet.connections.many import READ_MANY, Ahead, Content, Found, Names, Nothing, names_of, printed_of
from migrator.fleet.repeatable import gave_no_answer, pause_s
from migrator.fleet.templates import ABSENT, ACT_LIMIT_S, LIMITS_S, Template, uses, words_of_act
from migrator.fleet.transfer import NOT_WHOLE, TRAILER, content_of, is_proven

KIND: Final = "exec"
STATUS_EVERY_S: Final = 0.2
"""How often `stop` asks for the status until it says stopped."""
NO_CONNECTION: Final = 255
"""ssh's own exit code; a command that cannot be started has none."""

READS_MAX: Final = 2


@dataclass(frozen=True, slots=True)
class CommandActuator:
    """values: what `{name}` in the template's words becomes. limits_s: of acts for which the template says none.

    ahead: what one command has read already, for a step of work that only reads (many.py).
    """

    node: int
    template: Template
    values: Mapping[str, str]
    limits_s: Mapping[str, float]
    ahead: Ahead = field(default_factory=dict, repr=False)

    @property
    def kind(self) -> str:
        return KIND

    def read(self, path: str) -> bytes | None:
        match self.ahead.get(path):
            case FindingError() as error:
                raise error
            case Content(content):
                return content
        return self._whole("read", path)

    def list(self, directory: str) -> tuple[str, ...] | None:
        match self.ahead.get(directory):
            case FindingError() as error:
                raise error
            case Names(names):
                return names
        return names_of(self._whole("list", directory))

    def reading_ahead(self, paths: Sequence[str]) -> Actuator:
        """The same node, which knows these paths by one command. Itself, without such a command or with a listing that
        is too long for it. A path whose answer never arrives whole has Z2K-7044; a command that failed is what every
        path has.
        """
        paths = [path for path in paths if path not in self.ahead]
        if READ_MANY not in self.template.acts or not paths:
            return self
        found: dict[str, Found | FindingError] = {}
        for _ in range(READS_MAX):
            left = [path for path in paths if path not in found]
            try:
                sent = "".join(f"{path}\n" for path in left).encode()
                found |= printed_of(self._run(READ_MANY, trailer=TRAILER, stdin=sent).stdout, left) if left else {}
            except FindingError as error:
                if error.code == ACT_TOO_MUCH_OUTPUT.code:
                    return self
                found |= dict.fromkeys(left, error)
        for path in paths:
            if path not in found:
                reason = "its answer is not whole"
                found[path] = TRANSFER_CUT.error(act=f"{READ_MANY} {path}", node=self.node, reason=reason)
            elif found[path] == Nothing(absent=True):
                found[path] = FILE_ABSENT.error(path=path, node=self.node)
        return replace(self, ahead={**self.ahead, **found})

    def write(self, path: str, content: bytes) -> Performed:
        proof = {"size": str(len(content)), "checksum": hashlib.sha256(content).hexdigest()}
        return Done(self._run("write", path=path, stdin=content, **proof).stderr)

    def stop(self) -> Performed:
        """Returns when the status says stopped; its limit covers the wait. Raises Z2K-7022 when it never does, and what
        the last status raised when the host gave no answer until then.

        A supervisor between two attempts of a failing process accepts the command before it obeys. One example is
        runit's `sv`: it answers at once, and then drops a `start` that comes before runsv has read the `stop`.
        """
        limit_s = self._limit_s("stop")
        until = time.monotonic() + limit_s
        said = self._run("stop").stderr
        asked = Retrying(
            retry=retry_if_exception(gave_no_answer) | retry_if_result(lambda state: state is not ProcessState.STOPPED),
            stop=stop_after_delay(max(until - time.monotonic(), 0.0)),
            wait=_until_the_next_status,
            retry_error_callback=lambda last: None if last.outcome is None else last.outcome.result(),
        )
        if asked(lambda: self.status().state) is not ProcessState.STOPPED:
            raise ACT_TOO_SLOW.error(act="stop", node=self.node, seconds=f"{limit_s:g}")
        return Done(said)

    def start(self) -> Performed:
        return Done(self._run("start").stderr)

    def restart(self) -> Performed:
        """For what needs no new file; a template without it stops and starts."""
        if "restart" in self.template.acts:
            return Done(self._run("restart").stderr)
        self.stop()
        return self.start()

    def status(self) -> ProcessStatus:
        printed = self._run("status").stdout.decode(errors="replace").strip()
        words = self.template.status_words
        pid = re.search(words.pid, printed)
        number = None if pid is None else int(pid[1])
        detail = " ".join(printed.split())[:300]
        if re.search(words.running, printed):
            return ProcessStatus(ProcessState.RUNNING, number, self._command(number), detail)
        if re.search(words.stopped, printed):
            return ProcessStatus(ProcessState.STOPPED, detail=detail)
        return ProcessStatus(ProcessState.NOT_READ, number, detail=detail)

    def launch(self) -> str | None:
        """How the supervisor starts the process, in its own words; None when the template has no such act."""
        if "launch" not in self.template.acts:
            return None
        return self._run("launch").stdout.decode(errors="replace")

    def _command(self, pid: int | None) -> tuple[str, ...]:
        """The running command line, as /proc has it: words that end with a byte 0."""
        if pid is None or "command" not in self.template.acts:
            return ()
        try:
            printed = self._run("command", pid=str(pid)).stdout.decode(errors="replace")
        except FindingError as error:
            if error.code == ACT_FAILED.code:
                return ()  # it ended meanwhile, as one that a supervisor starts again and again does
            raise
        return tuple(printed.removesuffix("\0").split("\0")) if printed else ()

    def _whole(self, name: str, path: str) -> bytes:
        """What the host has there. Raises Z2K-7044 when it never arrives whole; a file may change while it is read."""
        for _ in range(READS_MAX):
            printed = self._run(name, path=path, trailer=TRAILER).stdout
            content = content_of(printed) if is_proven(self.template, name) else printed
            if isinstance(content, bytes):
                return content
        raise TRANSFER_CUT.error(act=f"{name} {path}", node=self.node, reason=content)

    def _limit_s(self, name: str) -> float:
        return self.template.acts[name].timeout_s or self.limits_s.get(name) or LIMITS_S.get(name, ACT_LIMIT_S)

    def _run(self, name: str, *, stdin: bytes = b"", **more: str) -> Output:
        act = self.template.acts[name]
        limit_s = self._limit_s(name)
        path = more.get("path", "")
        what = f"{name} {path}".strip()
        try:
            own = {CONTROL_DIRECTORY: control_directory()} if uses(act, CONTROL_DIRECTORY) else {}
            words = words_of_act(act, {**self.values, **own, **more})
        except KeyError as error:
            reason = f"acts.{name} names {{{error.args[0]}}}, which node {self.node} does not have"
            raise TEMPLATE_REFUSED.error(file=self.values.get("template", "given"), reason=reason) from error
        passed = {key: os.environ[key] for key in self.template.pass_environment if key in os.environ}
        try:
            return run_command(
                words, stdin=stdin, limit_s=limit_s, output_bytes_max=act.output_bytes_max, environment=passed
            )
        except CommandTooSlow as error:
            raise ACT_TOO_SLOW.error(act=what, node=self.node, seconds=f"{limit_s:g}") from error
        except CommandTooLoud as error:
            raise ACT_TOO_MUCH_OUTPUT.error(act=what, node=self.node, bytes_max=act.output_bytes_max) from error
        except CommandFailed as error:
            if error.exit_code == NOT_WHOLE and name == "write" and is_proven(self.template, name):
                raise TRANSFER_CUT.error(act=what, node=self.node, reason=f"{error}; the file is as it was") from error
            if error.exit_code == ABSENT and name in ("read", "list"):
                raise FILE_ABSENT.error(path=path, node=self.node) from error
            silent = error.exit_code in (None, NO_CONNECTION)
            raise (HOST_NOT_REACHED if silent else ACT_FAILED).error(
                act=what, node=self.node, reason=str(error)
            ) from error


def _until_the_next_status(last: RetryCallState) -> float:
    """A host that gives no answer is asked less and less often."""
    lost = last.outcome is not None and last.outcome.failed
    return pause_s(last.attempt_number) if lost else STATUS_EVERY_S
