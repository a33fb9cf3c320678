"""A PostgreSQL server of a test's own, on loopback; needs the programs of Debian's `postgresql`.

In:   a port. Out: a URL with a password; a server that can be killed and started again.
It never runs as root, which PostgreSQL refuses; its files lie where the other user may read.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

USER: Final = "nobody"
"""In root's place."""
PASSWORD: Final = "of-this-test"
TIMEOUT_S: Final = 120.0
WHERE: Final = ":".join([os.environ.get("PATH", ""), *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin")))])


def why_not_here() -> str | None:
    missing = [each for each in ("initdb", "postgres") if shutil.which(each, path=WHERE) is None]
    return f"PostgreSQL: {missing[0]} is not installed here (Debian's postgresql)" if missing else None


class PostgresqlServer:
    """Made, not started yet. Ended by `close`, with its files."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._directory = Path(tempfile.mkdtemp(prefix="zk2kraft-postgresql-"))
        self._user = USER if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(self._directory, self._user)
        password = self._directory / "password"
        password.write_text(PASSWORD + "\n")
        if self._user is not None:
            shutil.chown(password, self._user)
        words = ["--username=service", f"--pwfile={password}", "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale"]
        self._run("initdb", f"--pgdata={self._data}", *words)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Of its one database."""
        return f"postgresql+psycopg://service:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    @property
    def log(self) -> str:
        return (self._directory / "log").read_text(errors="replace")

    def start(self) -> None:
        words = [f"-D{self._data}", f"-p{self.port}", "-clisten_addresses=127.0.0.1", "-cunix_socket_directories="]
        said = len(self.log) if (self._directory / "log").exists() else 0
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program("postgres"), *words], stdout=log, stderr=log, user=self._user, cwd="/"
            )
        until = time.monotonic() + TIMEOUT_S
        while "ready to accept connections" not in self.log[said:]:
            assert self._process.poll() is None, self.log
            assert time.monotonic() < until, self.log
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGQUIT: it ends at once, as after a crash, and every session with it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(TIMEOUT_S)
            self._process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def _program(self, name: str) -> str:
        found = shutil.which(name, path=WHERE)
        assert found is not None, why_not_here()
        return found

    def _run(self, name: str, *words: str) -> None:
        done = subprocess.run(
            [self._program(name), *words], capture_output=True, text=True, timeout=TIMEOUT_S, user=self._user, cwd="/"
        )
        assert done.returncode == 0, done.stdout + done.stderr
