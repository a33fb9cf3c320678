"""An earlier commit of this repository as a release beside the present one: the same Python, other code.

In:   a laboratory and a commit. Out: `Earlier`: the environment in which a process runs that code, and what that code
says of itself. Elsewhere: the story in which both run in one cluster (stories_versions.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from migrator.lab.ours import IN_THE_LABORATORY, OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.service import LabService

ROOT: Final = Path(__file__).resolve().parents[2]
LAST_WITH_SCHEMA_2: Final = "8481faa"
"""The last commit before schema 0003 of the database. Its status of a controller lacks keys that today's has, it knows
no road behind dual-write, and of the settings of the service only half."""
LAST_WITH_SCHEMA_3: Final = "e48f2edd"
"""A commit with schema 0003, which knows the whole road."""
DEADLINE_S: Final = 120.0
PATH_OF_CODE: Final = "PYTHONPATH"
ASKS: Final = """
import json, api, migrator.node, state_machine, state_machine.settings as settings
from pathlib import Path
from alembic.config import Config
from alembic.script import ScriptDirectory
[steps] = Path(state_machine.__file__).parent.rglob("alembic.ini")
print(json.dumps({
    "files": [api.__file__, migrator.node.__file__, state_machine.__file__],
    "settings": list((getattr(settings, "ServiceSettings", None) or settings.Settings).model_fields),
    "schema": ScriptDirectory.from_config(Config(steps)).get_current_head(),
}))
"""


class Earlier:
    """commit: any name that git knows it by."""

    def __init__(self, laboratory: Laboratory, commit: str) -> None:
        self.code = laboratory.directory / "earlier"
        self.code.mkdir(parents=True)
        found = subprocess.run(
            ["git", "-C", str(ROOT), "archive", "--format=tar", commit], capture_output=True, timeout=DEADLINE_S
        )
        assert found.returncode == 0, f"no commit {commit} here (a shallow clone has none): {found.stderr.decode()}"
        subprocess.run(["tar", "-x", "-C", str(self.code)], input=found.stdout, timeout=DEADLINE_S, check=True)
        self.environment = {**IN_THE_LABORATORY, PATH_OF_CODE: str(self.code)}
        """In front of the installed package, which is a link to the present code."""
        said = self._ask(laboratory, self.environment)
        assert all(Path(each).is_relative_to(self.code) for each in said["files"]), said["files"]
        self.settings = frozenset(said["settings"])
        self.schema = str(said["schema"])
        now = self._ask(laboratory, IN_THE_LABORATORY)
        assert all(Path(each).is_relative_to(ROOT) for each in now["files"]), now["files"]
        self.schema_now = str(now["schema"])

    @staticmethod
    def _ask(laboratory: Laboratory, environment: dict[str, str]) -> dict[str, Any]:
        """As a process of the laboratory would import it, from a directory without code."""
        done = subprocess.run(
            [sys.executable, "-c", ASKS],
            cwd=laboratory.directory,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def runs(self, pid: int) -> bool:
        """Whether this process has the earlier code, by the environment that the kernel keeps of its start."""
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return f"{PATH_OF_CODE}={self.code}".encode() in words

    def put_under(self, controller: OurController, *, earlier: bool) -> None:
        """From its next start on."""
        controller.environment = dict(self.environment if earlier else IN_THE_LABORATORY)


class ServiceOfEitherRelease(LabService):
    """Runs the earlier code while `earlier` is set, with the settings that it knows."""

    earlier: Earlier | None = None

    def start(self) -> None:
        self.environment = dict(self.earlier.environment if self.earlier else IN_THE_LABORATORY)
        super().start()

    def settings(self) -> dict[str, str | int | float | bool | list[str]]:
        settings = super().settings()
        if self.earlier is None:
            return settings
        return {key: value for key, value in settings.items() if key in self.earlier.settings}
