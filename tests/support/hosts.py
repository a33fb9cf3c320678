"""A host in memory: files by path, a process that runs or not. It keeps the contract of an actuator."""

from __future__ import annotations

from dataclasses import dataclass, field

from migrator.findings.fleet import FILE_ABSENT
from migrator.fleet.actuator import Done, Performed, ProcessState, ProcessStatus


@dataclass
class FakeHost:
    """acts: what was asked, in order. spoil: content that a write puts down in place of what it was given."""

    node: int = 1
    files: dict[str, bytes] = field(default_factory=dict)
    running: bool = True
    acts: list[tuple[str, str]] = field(default_factory=list)
    spoil: bytes | None = None
    kind: str = "fake"

    def read(self, path: str) -> bytes | None:
        if path not in self.files:
            raise FILE_ABSENT.error(path=path, node=self.node)
        return self.files[path]

    def list(self, directory: str) -> tuple[str, ...] | None:
        start = directory.rstrip("/") + "/"
        return tuple(sorted({path[len(start) :].partition("/")[0] for path in self.files if path.startswith(start)}))

    def write(self, path: str, content: bytes) -> Performed:
        self.acts.append(("write", path))
        self.files[path] = content if self.spoil is None else self.spoil
        return Done()

    def stop(self) -> Performed:
        self.acts.append(("stop", ""))
        self.running = False
        return Done()

    def start(self) -> Performed:
        self.acts.append(("start", ""))
        self.running = True
        return Done()

    def status(self) -> ProcessStatus:
        return ProcessStatus(ProcessState.RUNNING if self.running else ProcessState.STOPPED, 4711)
