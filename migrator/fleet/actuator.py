"""How the files of one node are read and written, and how its process is stopped and started.

In:   paths and bytes of one node. Out: what was read, or how the act ended.
Elsewhere: the kinds of actuators (manual, exec, external, lab), the order of acts (roll.py), what files say (render).
Rules: an act is blocking and bounded; call it on a thread. An act that a person carries out answers with `Instruction`:
the caller shows it and waits for evidence, and never takes it for done. What cannot be read is `NOT_READ`, never empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias


class ProcessState(StrEnum):
    """Of a node's process, as its host says it."""

    RUNNING = "running"
    STOPPED = "stopped"
    NOT_READ = "not_read"


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """command: the running command line, () when it is not known. detail: what was seen, for people."""

    state: ProcessState
    pid: int | None = None
    command: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """The act was carried out. detail: what the host said."""

    detail: str = ""


@dataclass(frozen=True, slots=True)
class Instruction:
    """The act is for a person or another tool. text: exactly what to do where. bundle: a directory with the files."""

    text: str
    bundle: str | None = None


Performed: TypeAlias = Done | Instruction


class Actuator(Protocol):
    """One node's host. Every method raises a coded finding when the host refuses or does not answer in time."""

    @property
    def kind(self) -> str:
        """`manual`, `exec`, `external` or `lab`."""
        ...

    def read(self, path: str) -> bytes | None:
        """A file's content; None: this actuator cannot read it (`not_read`).

        Raises the finding for a file that does not exist.
        """
        ...

    def list(self, directory: str) -> tuple[str, ...] | None:
        """Names in a directory; None: this actuator cannot read it."""
        ...

    def write(self, path: str, content: bytes) -> Performed:
        """Replace a file in one step, its predecessor kept beside it."""
        ...

    def stop(self) -> Performed:
        """A controlled shutdown; the supervisor's own restart is masked until `start`.

        `Done` only when the process has ended and the supervisor has taken note.
        """
        ...

    def start(self) -> Performed: ...

    def status(self) -> ProcessStatus: ...
