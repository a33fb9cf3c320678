"""What executors on other hosts get from the driver: this package, the bytes of the log, what a rehearsal read.

In:   a session whose master is not `local[...]`.
Out:  the same inputs, with which no executor opens a file of the driver's.
Elsewhere: that the wire is encrypted, or nothing is sent (session.py, Z2K-5007). ZooKeeper is read by the executors
themselves, with their own logins. What this package imports has to be installed for their Python.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace
from pyspark import SparkContext, SparkFiles

from migrator.audit.log_plan import LogSplit, bytes_of

PACKAGE_FILE: Final = "zk2kraft-package.zip"
SHIPPED_MAX: Final = 1 << 30
"""Bytes of a log that are sent. A larger one is read where it is, on storage that executors share."""


def ship_package(context: SparkContext, scratch: Path) -> None:
    """Executors import what this process runs, whatever is installed there."""
    home = Path(__file__).parents[2]
    file = scratch / PACKAGE_FILE
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        for source in sorted(home.rglob("*.py")):
            package.write(source, Path(home.name) / source.relative_to(home))
    context.addPyFile(str(file))


def with_bytes(splits: Sequence[LogSplit]) -> list[LogSplit]:
    """Splits that hold their bytes, unless there are too many. Raises Z2K-5001."""
    if sum(each.end - each.start for each in splits) > SHIPPED_MAX:
        return list(splits)
    return [replace(each, data=bytes_of(each)) for each in splits]


def ship_file(context: SparkContext, file: str) -> None:
    context.addFile(file)


def here(file: str) -> str:
    """Where an executor finds a file that was shipped; the file itself where nothing was."""
    return file if Path(file).exists() else SparkFiles.get(Path(file).name)
