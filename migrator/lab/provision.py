"""Set-up of a checkout: look at the machine, say what will be downloaded, then bring it.

In:   `setup` or `check`, `--with-java`; the environment (proxies, `ZK2KRAFT_CACHE`, `ZK2KRAFT_PYPI_MIRROR`,
      `ZK2KRAFT_MAVEN_MIRROR`, `KAFKA_HOME`, `JAVA_HOME`).
Out:  `.venv` as uv.lock wants it and, with Java, Kafka's jars and archives of classes; exit code 0, or 1 and one line
      that says what to do.
Elsewhere: the door for any Python (bootstrap.py), the jars themselves (artifacts.py).
Standard library only, and quick when nothing is to be done: a stamp in `.venv` remembers which uv.lock it was made for.
`check` looks and reports; it downloads nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from migrator.findings.finding import FindingError
from migrator.findings.laboratory import SETUP_FAILED
from migrator.lab.servers.artifacts import JARS_MB, KAFKA_VERSION, cache_directory, without_secrets
from migrator.lab.servers.java import Java, find_java, require_java

ROOT: Final = Path(__file__).resolve().parents[2]
STAMP: Final = ".zk2kraft-stamp"
SPARK_CLASSES: Final = ".zk2kraft-spark-classes"
"""In `.venv`: names the archive of classes that fits its PySpark. Another checkout's archive does not."""
ENVIRONMENT_MB: Final = 690
"""What uv.lock downloads on Linux x86-64 when it names no sizes itself; measured 2026-11, most of it PySpark."""

UV_MB: Final = 25
MEMORY_WANTED_MB: Final = 4000
"""Three brokers with 512 MB of heap, ZooKeeper, a controller, Spark, and the rest of a desktop."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What was found. Sizes in MB; `None` means that it could not be found out."""

    python: str
    java: Java | None
    memory_mb: int | None
    loopback_problem: str | None
    cache: Path
    cache_free_mb: int | None


@dataclass(frozen=True, slots=True)
class Work:
    """What is missing. `environment` is why .venv has to be brought up to date, None when it is."""

    environment: str | None
    uv: bool
    jars: bool
    spark_classes: bool
    environment_mb: int
    environment_is_measured: bool

    @property
    def is_done(self) -> bool:
        return self.environment is None and not self.jars and not self.spark_classes

    @property
    def download_mb(self) -> int:
        return (
            (self.environment_mb if self.environment else 0)
            + (UV_MB if self.uv else 0)
            + (JARS_MB[KAFKA_VERSION] if self.jars else 0)
        )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bootstrap.py", description="Set this checkout up.")
    parser.add_argument("verb", nargs="?", choices=("setup", "check"), default="setup")
    parser.add_argument("--with-java", action="store_true", help="Java is needed: look for it, bring Kafka's jars")
    chosen = parser.parse_args(arguments)
    try:
        return run(chosen.verb, with_java=chosen.with_java, environment=os.environ, root=ROOT)
    except FindingError as error:
        print(error, error.occurrence.finding.remedy, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up was interrupted; the next run continues", file=sys.stderr)
        return 130


def run(verb: str, *, with_java: bool, environment: Mapping[str, str], root: Path) -> int:
    """Do the verb. Raises Z2K-6001 (Java), Z2K-6005 (a step failed)."""
    java = require_java(environment) if with_java else None
    work = find_work(environment, root, with_java=with_java)
    if work.is_done and verb == "setup":
        return 0
    for line in report(look(environment, java), work):
        print(line, flush=True)
    if verb == "check":
        return 0 if work.is_done else 1
    if work.environment is not None:
        build_environment(environment, root)
    python = root / ".venv" / "bin" / "python"
    if work.jars:
        _step([str(python), "-m", "migrator.lab.classes"], environment, root)
    if work.spark_classes:
        note = root / ".venv" / SPARK_CLASSES
        _step([str(python), "-m", "migrator.audit.spark.training", "--note", str(note)], environment, root)
    print("set up", flush=True)
    return 0


def look(environment: Mapping[str, str], java: Java | None = None) -> Machine:
    """Find out about this machine; takes a fraction of a second."""
    cache = cache_directory(environment)
    return Machine(
        python=f"{platform.python_version()} ({sys.executable})",
        java=java or find_java(environment),
        memory_mb=_memory_mb(),
        loopback_problem=_loopback_problem(),
        cache=cache,
        cache_free_mb=_free_mb(cache),
    )


def find_work(environment: Mapping[str, str], root: Path, *, with_java: bool) -> Work:
    """What is missing for this checkout."""
    stale = why_environment_is_stale(root)
    jars = cache_directory(environment) / "kafka" / KAFKA_VERSION / "libs"
    megabytes = locked_mb((root / "uv.lock").read_text()) if stale else 0
    return Work(
        environment=stale,
        uv=stale is not None and _find_uv(environment, root) is None,
        jars=with_java and not environment.get("KAFKA_HOME") and not jars.is_dir(),
        spark_classes=with_java and not _spark_classes_are_there(root),
        environment_mb=megabytes or ENVIRONMENT_MB,
        environment_is_measured=not megabytes,
    )


def report(machine: Machine, work: Work) -> list[str]:
    """What was found, what will be downloaded, how much, and where to."""
    java = f"{machine.java.text} ({machine.java.path})" if machine.java else "none; `make test` needs 17 or later"
    lines = [
        f"python    {machine.python}",
        f"java      {java}",
        f"memory    {_megabytes(machine.memory_mb)}, {MEMORY_WANTED_MB} MB wanted for the laboratory",
        f"loopback  {machine.loopback_problem or 'usable, ports are free'}",
        f"disk      {_megabytes(machine.cache_free_mb)} free for {machine.cache}",
    ]
    if work.is_done:
        return [*lines, "download  nothing, everything is there"]
    if work.spark_classes:
        lines.append("classes   Spark's are archived once for this checkout (180 MB, some 20 s)")
    parts = []
    if work.uv:
        parts.append(f"uv ({UV_MB} MB, into .uv)")
    if work.environment is not None:
        origin = "as measured" if work.environment_is_measured else "by uv.lock"
        parts.append(f"Python packages ({work.environment_mb} MB {origin}, into .venv: {work.environment})")
    if work.jars:
        parts.append(f"Kafka's jars ({JARS_MB[KAFKA_VERSION]} MB)")
    if not parts:
        return [*lines, "download  nothing"]
    return [*lines, f"download  about {work.download_mb} MB, kept in {machine.cache}: {', '.join(parts)}"]


def why_environment_is_stale(root: Path) -> str | None:
    """None when `.venv` was made for this uv.lock and its Python still runs."""
    stamp = root / ".venv" / STAMP
    if not (root / ".venv" / "bin" / "python").exists():
        return "there is none yet"
    if not stamp.exists():
        return "it was not finished by this set-up"
    if stamp.read_text() != _lock_hash(root):
        return "uv.lock has changed"
    return None


def _spark_classes_are_there(root: Path) -> bool:
    note = root / ".venv" / SPARK_CLASSES
    return note.is_file() and Path(note.read_text()).is_file()


def build_environment(environment: Mapping[str, str], root: Path) -> None:
    """Bring uv if need be, then make `.venv` what uv.lock says. Raises Z2K-6005."""
    stamp = root / ".venv" / STAMP
    for each in (stamp, stamp.with_name(SPARK_CLASSES)):
        each.unlink(missing_ok=True)
    told = tool_environment(environment, root)
    uv = _find_uv(environment, root) or _bring_uv(told, root)
    mirror = environment.get("ZK2KRAFT_PYPI_MIRROR")
    for command in _through_mirror(uv, mirror) if mirror else [_sync(uv)]:
        _step(command, told, root)
    stamp.write_text(_lock_hash(root))


def tool_environment(environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """What uv and pip are told; the user's own settings win, and proxies go through untouched."""
    mirror = environment.get("ZK2KRAFT_PYPI_MIRROR")
    defaults = {"UV_CACHE_DIR": str(cache_directory(environment) / "uv"), "UV_PYTHON_DOWNLOADS": "never"}
    if mirror:
        defaults["PIP_INDEX_URL"] = mirror
    told = {**defaults, **environment, "UV_PROJECT_ENVIRONMENT": str(root / ".venv")}
    told.pop("VIRTUAL_ENV", None)
    return told


def locked_mb(lock: str) -> int:
    """The sum of the sizes that uv.lock names for this platform, in MB; 0 when it does not name enough to tell.

    One file for each package: the wheel for this Python and machine, else the source.
    """
    import tomllib  # not there in the Pythons that only come to be told that they are too old

    sizes = [_download_size(package) for package in tomllib.loads(lock).get("package", [])]
    wanted = [size for size in sizes if size is not None]
    known = [size for size in wanted if size > 0]
    return round(sum(known) / 1e6) if len(known) * 2 > len(wanted) else 0


def _download_size(package: Mapping[str, Any]) -> int | None:
    """Bytes of the file that would be installed; 0 when its size is not named, None when there is nothing to load."""
    files = [wheel for wheel in package.get("wheels", []) if _fits(str(wheel["url"]))]
    files += [package["sdist"]] if "sdist" in package else []
    return int(files[0].get("size", 0)) if files else None


def _fits(url: str) -> bool:
    """Whether a wheel is for this Python and platform, by its name. Good enough for a sum."""
    name = url.rpartition("/")[2].removesuffix(".whl")
    *_, python_tag, abi_tag, platform_tag = name.split("-")
    here = f"cp{sys.version_info.major}{sys.version_info.minor}"
    fits_python = here in python_tag.split(".") or "py3" in python_tag.split(".") or abi_tag == "abi3"
    kind = {"linux": "manylinux", "darwin": "macosx"}.get(sys.platform, sys.platform)
    fits_platform = platform_tag == "any" or (kind in platform_tag and platform.machine() in platform_tag)
    return fits_python and fits_platform and not abi_tag.endswith("t")


def _sync(uv: str) -> list[str]:
    return [uv, "sync", "--locked", "--python", sys.executable]


def _through_mirror(uv: str, mirror: str) -> list[list[str]]:
    """The same versions by the same hashes from another index; uv.lock itself names PyPI's own addresses."""
    python, wanted = ".venv/bin/python", ".venv/requirements.txt"
    index = ["--default-index", mirror]
    return [
        [uv, "venv", "--allow-existing", "--python", sys.executable, ".venv"],
        [uv, "export", "--quiet", "--frozen", "--no-emit-project", "--output-file", wanted],
        [uv, "pip", "sync", "--python", python, "--require-hashes", *index, wanted],
        [uv, "pip", "install", "--python", python, "--no-deps", *index, "--editable", "."],
    ]


def _find_uv(environment: Mapping[str, str], root: Path) -> str | None:
    on_path = shutil.which("uv", path=environment.get("PATH", ""))
    ours = root / ".uv" / "bin" / "uv"
    return on_path or (str(ours) if ours.exists() else None)


def _bring_uv(told: Mapping[str, str], root: Path) -> str:
    _step([sys.executable, "-m", "venv", str(root / ".uv")], told, root)
    pip = [str(root / ".uv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _step([*pip, "uv"], told, root)
    return str(root / ".uv" / "bin" / "uv")


def _step(command: Sequence[str], environment: Mapping[str, str], root: Path) -> None:
    """Run one step in the open, so that its own progress can be seen."""
    shown = " ".join(without_secrets(word) for word in command)
    print(f"running   {shown}", flush=True)
    try:
        exit_code = subprocess.run(command, env=dict(environment), cwd=root, check=False).returncode
    except OSError as error:
        raise SETUP_FAILED.error(command=shown, exit_code=error.strerror) from error
    if exit_code != 0:
        raise SETUP_FAILED.error(command=shown, exit_code=exit_code)


def _lock_hash(root: Path) -> str:
    return hashlib.sha256((root / "uv.lock").read_bytes()).hexdigest()


def _memory_mb() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    except (ValueError, OSError):
        return None


def _loopback_problem() -> str | None:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=1).close()
    except OSError as error:
        return f"not usable: {error.strerror or error}"
    return None


def _free_mb(path: Path) -> int | None:
    """Free space where `path` is, or will be."""
    existing = next((parent for parent in (path, *path.parents) if parent.exists()), None)
    return None if existing is None else shutil.disk_usage(existing).free // 2**20


def _megabytes(number: int | None) -> str:
    return "unknown" if number is None else f"{number} MB"
