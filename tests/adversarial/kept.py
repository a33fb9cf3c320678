"""One run in a laboratory of its own: its outcome as a line; the directory of a run that failed is kept.

In:   a name for the directory, and what is to be played. Elsewhere: who counts and reports (end_of_road.py, road.py).
"""

from __future__ import annotations

import shutil
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from migrator.findings.finding import FindingError
from migrator.lab.classes import prepared
from migrator.lab.servers.laboratory import Laboratory

PASSED: Final = "passed"


def outcome_of(name: str, play: Callable[[Laboratory], None]) -> str:
    """`PASSED`, or what failed and where its files are; the traceback goes to stderr."""
    home = Path(tempfile.mkdtemp(prefix=f"zk2kraft-{name}-"))
    try:
        with Laboratory(home, prepared()) as laboratory:
            play(laboratory)
    except (AssertionError, FindingError) as error:
        traceback.print_exc()
        return f"FAILED (kept in {home}): {error}"
    shutil.rmtree(home, ignore_errors=True)
    return PASSED
