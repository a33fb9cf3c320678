"""What a process of ours does not load: it is started for each look at a status, and many times in each test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import contextlib, runpy, sys
sys.argv = ["zk2kraft", "log", "dump", sys.argv[1]]
with contextlib.suppress(SystemExit):
    runpy.run_module("api", run_name="__main__")
print("structlog" in sys.modules, [each for each in sys.modules if each.startswith("rich.")])
"""


def test_a_command_does_not_load_rich(tmp_path: Path) -> None:
    """structlog imports it where it is installed: some 0.07 s of processor time. A command that logs nothing loads
    neither.
    """
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "missing")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[-1] == "False []", done
