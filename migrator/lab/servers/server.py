"""What ZooKeeper, brokers and controllers of the laboratory have in common: a file, a process, a way to be ready.

In:   from each kind: its properties, its main class, and why it is not ready yet.
Out:  start, wait, stop, kill, pause, and start again, possibly with another configuration.
Elsewhere: the process itself (processes.py).
Starting and waiting are two calls, so that several servers can start at the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Final

from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.processes import STOP_DEADLINE_S, Process
from migrator.lab.servers.properties import Value, write

READY_DEADLINE_S: Final = 180.0
"""A broker alone is up in a second here; with three others, a loaded machine and recovery it may take a minute."""


class Server(ABC):
    """One server of the laboratory. Its directory is `<laboratory>/<name>/`, its file `server.properties` there."""

    main_class: ClassVar[str]

    def __init__(self, laboratory: Laboratory, name: str) -> None:
        self.laboratory = laboratory
        self.name = name
        self.directory = laboratory.directory / name
        self.kafka: Artifacts | None = None
        """Another version than the laboratory's, from the next start on."""
        self.options: tuple[str, ...] = ()
        """Flags of its JVM, from the next start on."""
        self.behind: tuple[str, ...] = ()
        """What starts its JVM, from the next start on: a guard."""
        self.environment: dict[str, str] = {}
        """Variables of its JVM, beside those of this process, from the next start on."""
        self._process: Process | None = None

    @abstractmethod
    def properties(self) -> dict[str, Value]:
        """The whole configuration."""

    @abstractmethod
    def why_not_ready(self) -> str | None:
        """None when it answers its protocol and is known to its peers."""

    @property
    @abstractmethod
    def heap_mb(self) -> int: ...

    @property
    def process(self) -> Process:
        """The process of the latest start; it may have ended."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.alive

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    def start(self) -> None:
        """Write the file and start the process; does not wait for it to be ready."""
        assert not self.is_running, f"{self.name} runs already"
        write(self.properties_file, self.properties())
        self.start_as_written()

    def start_as_written(self) -> None:
        """Start the process with the file as it stands."""
        assert not self.is_running, f"{self.name} runs already"
        self.before_start()
        self._process = self.laboratory.java(
            self.name,
            self.main_class,
            self.properties_file,
            heap_mb=self.heap_mb,
            options=self.jvm_options(),
            levels=self.log_levels(),
            kafka=self.kafka,
            behind=self.behind,
            environment=self.environment,
        )

    def wait_ready(self, deadline_s: float = READY_DEADLINE_S) -> float:
        """Wait until it is ready, by its protocol. Returns the seconds waited. Raises Z2K-6003."""
        return self.laboratory.wait(self.why_not_ready, name=self.name, deadline_s=deadline_s, process=self.process)

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> float:
        """SIGTERM and wait, SIGKILL at the deadline. Returns the seconds that took."""
        return self.process.stop(deadline_s)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def pause(self) -> None:
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()

    def before_start(self) -> None:
        """What has to be so before the process starts; each kind adds to it."""
        self.directory.mkdir(parents=True, exist_ok=True)

    def jvm_options(self) -> tuple[str, ...]:
        return self.options

    def log_levels(self) -> Mapping[str, str]:
        return {}


def start_together(servers: Iterable[Server], deadline_s: float = READY_DEADLINE_S) -> None:
    """Start several servers at the same time and wait until each is ready."""
    started = list(servers)
    for server in started:
        server.start()
    for server in started:
        server.wait_ready(deadline_s)
