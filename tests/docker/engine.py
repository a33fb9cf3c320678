"""A Docker engine for tests: the one that answers already, or one of our own until the tests end.

In:   the environment; root and `dockerd` where an engine has to be started.
Out:  `Engine`, or why there is none.
Elsewhere: installing Debian's engine (`make docker-test`), images (images.py).
An engine of our own has its own socket and keeps its images in the cache, so that a second run is quick. It is ended by
its own number.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from migrator.lab.servers.artifacts import cache_directory

DEFAULT_HOST: Final = "unix:///var/run/docker.sock"
RUN: Final = Path("/run/zk2kraft-docker")
OWN: Final = {"DOCKER_HOST": f"unix://{RUN / 'docker.sock'}"}
START_DEADLINE_S: Final = 180.0
STOP_DEADLINE_S: Final = 60.0
COMMAND_DEADLINE_S: Final = 120.0


class EngineTrouble(Exception):
    """A command of the engine failed; its text is what the command said."""


@dataclass(frozen=True)
class Engine:
    """environment: what its client has to be told beside what it is told already. log: of an engine of our own."""

    environment: dict[str, str] = field(default_factory=dict)
    log: Path | None = None

    @property
    def socket(self) -> Path:
        """On this host; an engine elsewhere would not have the files of the composition. Raises EngineTrouble."""
        host = {**os.environ, **self.environment}.get("DOCKER_HOST", "") or DEFAULT_HOST
        if not host.startswith("unix://"):
            raise EngineTrouble(f"the engine at {host} is not on this host")
        return Path(host.removeprefix("unix://"))

    def docker(
        self, *words: str | Path, limit_s: float = COMMAND_DEADLINE_S, stdin: bytes | None = None, merged: bool = False
    ) -> str:
        """One command of the client. merged: what it says on standard error counts as well. Raises EngineTrouble."""
        done = self.run(words, limit_s=limit_s, stdin=stdin)
        if done.returncode != 0:
            said = (done.stderr + done.stdout).decode(errors="replace")[-3000:]
            raise EngineTrouble(f"docker {' '.join(map(str, words))}: exit code {done.returncode}: {said}")
        return (done.stdout + (done.stderr if merged else b"")).decode(errors="replace").strip()

    def run(
        self, words: Sequence[str | Path], *, limit_s: float = COMMAND_DEADLINE_S, stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["docker", *map(str, words)],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=limit_s,
            env={**os.environ, **self.environment},
            check=False,
        )

    def has_image(self, name: str) -> bool:
        return self.run(["image", "inspect", name]).returncode == 0

    @property
    def compose(self) -> str:
        """The command of Docker Compose, version 2 or 1. Raises EngineTrouble."""
        if self.run(["compose", "version"]).returncode == 0:
            return "docker compose"
        if shutil.which("docker-compose"):
            return "docker-compose"
        raise EngineTrouble("neither `docker compose` nor `docker-compose` is installed")


def why_none() -> str | None:
    """Why no engine can be had here; None when one answers or can be started."""
    if shutil.which("docker") is None:
        return "there is no docker client"
    if _answering() is not None:
        return None
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        return "no Docker engine answers, and none can be started (that needs dockerd and root)"
    return None


@contextmanager
def opened() -> Iterator[Engine]:
    """One that answers already is left as it is; also one of our own that a killed run left behind.

    Raises EngineTrouble with the end of its log when an engine of our own does not start.
    """
    found = _answering()
    if found is not None:
        yield found
        return
    RUN.mkdir(mode=0o700, exist_ok=True)
    engine = Engine(OWN, RUN / "dockerd.log")
    data = cache_directory(os.environ) / "docker"
    shutil.rmtree(data / "containers", ignore_errors=True)  # of a killed run: the engine would start them again
    words: list[str | Path] = ["dockerd", "--host", OWN["DOCKER_HOST"], "--group", "root", "--exec-root", RUN / "exec"]
    words += ["--pidfile", RUN / "dockerd.pid", "--data-root", data]
    assert engine.log is not None
    with engine.log.open("wb") as log:
        daemon = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        ends = time.monotonic() + START_DEADLINE_S
        while (silent := _why_silent(engine)) is not None:
            if daemon.poll() is not None or time.monotonic() > ends:
                raise EngineTrouble(f"dockerd did not start: {silent}\n{_tail(engine.log)}")
            time.sleep(0.3)
        yield engine
    finally:
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def _answering() -> Engine | None:
    return next((each for each in (Engine(), Engine(OWN)) if _why_silent(each) is None), None)


def _why_silent(engine: Engine) -> str | None:
    """None when it answers."""
    try:
        done = engine.run(["version", "--format", "{{.Server.Version}}"], limit_s=15)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.decode(errors="replace").strip()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])
