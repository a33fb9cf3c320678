"""One laboratory: a directory, its processes with their guard, its ports, and the Kafka they run.

In:   a directory, and the Kafka to run (`classes.prepared()`).
Out:  `Laboratory.java` starts a Java process, `Laboratory.tool` runs one of Kafka's tools to its end.
Elsewhere: which processes make a cluster (cluster.py).
Leaving the `with` block kills everything and frees the ports; the directory stays for reading.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from migrator.findings.laboratory import TOOL_FAILED
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.java import Jvm, java_command
from migrator.lab.servers.ports import PortBook
from migrator.lab.servers.processes import Process, Processes, named_lines
from migrator.lab.servers.properties import Value, write
from migrator.lab.servers.waiting import POLL_EVERY_S, Say, Watched, say_on_stderr, wait_until

TOOL_DEADLINE_S: Final = 120.0
TOOL_HEAP_MB: Final = 256
LINE_PATTERN: Final = "[%d] %p %m (%c)%n"


class Laboratory:
    """Where processes live, and what they run. Use it in a `with` block.

    fast_start: quick compiler only; False when throughput is what is measured.
    """

    def __init__(
        self,
        directory: Path,
        artifacts: Artifacts,
        *,
        fast_start: bool = True,
        say: Say = say_on_stderr,
    ) -> None:
        self.directory = directory.absolute()
        self.artifacts = artifacts
        self.fast_start = fast_start
        self.say = say
        self.ports = PortBook()
        self.processes = Processes(self.directory)
        self._tool_runs = itertools.count(1)
        self._closers = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close clients and taps, kill every process, free the ports. Safe to call twice."""
        try:
            self._closers.close()
        finally:
            self.processes.close()
            self.ports.close()

    @property
    def on_close(self) -> ExitStack:
        """Where clients and taps of this laboratory leave their clean-up; it runs before the processes end."""
        return self._closers

    def java(
        self,
        name: str,
        main_class: str,
        *arguments: str | Path,
        heap_mb: int,
        options: tuple[str, ...] = (),
        root_level: str = "INFO",
        levels: Mapping[str, str] | None = None,
        stdout: Path | None = None,
        kafka: Artifacts | None = None,
        behind: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a Java process under `<directory>/<name>/`, where it leaves its temporary files too.

        options: further flags of the JVM.   levels: logger name to level, beside the root's.
        stdout:  a file for standard output alone, when that is the product; the log then gets the rest.
        kafka:   another version than this laboratory's, for this process.
        behind:  what stands before the command of Java and becomes it, as a guard does.
        environment: variables beside this process's own.
        """
        runs = kafka or self.artifacts
        home = self.directory / name
        target = "System.out" if stdout is None else "System.err"
        write(home / "log4j.properties", log4j_properties(root_level, target, levels or {}))
        places = f"-Dlog4j.configuration=file:{home / 'log4j.properties'}", f"-Djava.io.tmpdir={home}"
        flags = (*places, "-XX:-UsePerfData", *options)
        jvm = Jvm(heap_mb, self.fast_start, runs.archive, flags)
        command = [*behind, *java_command(runs.java, jvm, runs.class_path, main_class, *arguments)]
        variables = {**os.environ, **environment} if environment else None
        return self.processes.start(name, command, stdout=stdout, environment=variables)

    def tool(
        self,
        main_class: str,
        *arguments: str | Path,
        heap_mb: int = TOOL_HEAP_MB,
        options: tuple[str, ...] = (),
        kafka: Artifacts | None = None,
    ) -> str:
        """Run one of Kafka's tools to its end and return what it printed. Raises Z2K-6007 when it fails.

        options: further flags of its JVM.
        """
        tool = main_class.rpartition(".")[2]
        name = f"tools/{next(self._tool_runs)}-{tool}"
        stdout = self.directory / name / "stdout"
        process = self.java(
            name,
            main_class,
            *arguments,
            heap_mb=heap_mb,
            options=options,
            root_level="WARN",
            stdout=stdout,
            kafka=kafka,
        )
        if not process.wait_for_exit(TOOL_DEADLINE_S):
            process.kill()
        exit_code = process.exit_code
        process.kill()
        text = stdout.read_text(errors="replace")
        if exit_code != 0:
            said = named_lines(text + process.log_text())
            raise TOOL_FAILED.error(tool=tool, exit_code=exit_code, output=" | ".join(dict.fromkeys(said)))
        return text

    def wait(
        self,
        why_not: Callable[[], str | None],
        *,
        name: str,
        deadline_s: float,
        process: Watched | None = None,
        poll_every_s: float = POLL_EVERY_S,
    ) -> float:
        """`wait_until`, reported as this laboratory reports."""
        return wait_until(
            why_not, name=name, deadline_s=deadline_s, process=process, say=self.say, poll_every_s=poll_every_s
        )


def log4j_properties(root_level: str, target: str, levels: Mapping[str, str]) -> dict[str, Value]:
    """Logging to one stream. target: System.out or System.err."""
    appender = "log4j.appender.out"
    properties: dict[str, Value] = {
        "log4j.rootLogger": f"{root_level}, out",
        appender: "org.apache.log4j.ConsoleAppender",
        f"{appender}.target": target,
        f"{appender}.layout": "org.apache.log4j.PatternLayout",
        f"{appender}.layout.ConversionPattern": LINE_PATTERN,
    }
    return properties | {f"log4j.logger.{name}": level for name, level in levels.items()}
