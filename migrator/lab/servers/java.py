"""The Java that the laboratory runs on: found, judged, and turned into command lines.

In:   the environment (`JAVA_HOME`, `PATH`).
Out:  `Java` (path and version), and the argument list of one Java process.
Elsewhere: the class path (artifacts.py), its shared archive (classes.py), starting it (processes.py).
Standard library only: the set-up uses it before any environment exists.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from migrator.findings.laboratory import JAVA_MISSING

JAVA_MIN: Final = 17
ASK_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime. `version` is its feature release (8, 17, 21), `text` what it calls itself."""

    path: str
    version: int
    text: str

    @property
    def is_recent_enough(self) -> bool:
        return self.version >= JAVA_MIN


@dataclass(frozen=True, slots=True)
class Jvm:
    """How one Java process runs.

    fast_start: only the quick compiler. Three brokers on 2 cores are up in 1.9 s with it and 3.0 s without,
                but they serve less; switch it off when throughput is what a test measures.
    archive:    class-data archive (classes.py); the JVM ignores one that does not fit.
    """

    heap_mb: int
    fast_start: bool = True
    archive: Path | None = None
    options: tuple[str, ...] = ()

    def flags(self) -> list[str]:
        flags = [f"-Xmx{self.heap_mb}m", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true"]
        flags += ["-Djava.awt.headless=true", "-XX:+ExitOnOutOfMemoryError"]
        if self.fast_start:
            flags.append("-XX:TieredStopAtLevel=1")
        if self.archive is not None:
            flags += [f"-XX:SharedArchiveFile={self.archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        return [*flags, *self.options]


def java_command(java: Java, jvm: Jvm, class_path: str, main_class: str, *arguments: str | Path) -> list[str]:
    """The argument list that runs `main_class`."""
    return [java.path, *jvm.flags(), "-cp", class_path, main_class, *map(str, arguments)]


def find_java(environment: Mapping[str, str]) -> Java | None:
    """The Java of `JAVA_HOME`, else of `PATH`; None when neither has one that answers."""
    for path in _candidates(environment):
        text = _ask_version([path, "-version"])
        if text is not None:
            return Java(path, feature_version(text), text)
    return None


def require_java(environment: Mapping[str, str]) -> Java:
    """The Java to use. Raises Z2K-6001 when there is none or it is older than 17."""
    java = find_java(environment)
    if java is None:
        raise JAVA_MISSING.error(found="none")
    if not java.is_recent_enough:
        raise JAVA_MISSING.error(found=f"{java.text} at {java.path}")
    return java


def feature_version(text: str) -> int:
    """17 from "17.0.15" or "17-ea", 8 from "1.8.0_392"; 0 when it is no version."""
    match = re.match(r"(?:1\.)?(\d+)", text)
    return int(match[1]) if match else 0


def _candidates(environment: Mapping[str, str]) -> list[str]:
    home = environment.get("JAVA_HOME")
    in_home = [str(Path(home) / "bin" / "java")] if home else []
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    return [path for path in [*in_home, on_path] if path and Path(path).exists()]


def _ask_version(command: Sequence[str]) -> str | None:
    """The quoted version of `java -version`, which prints to stderr; None when it does not run."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return match[1] if match and answer.returncode == 0 else None
