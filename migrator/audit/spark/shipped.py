"""What executors on other hosts get from the driver: this package, the bytes of the log, what a rehearsal read.

In:   a session whose master is not `local[...]`.
Out:  the same inputs, with which no executor opens a file of the driver's.
Elsewhere: that the wire is encrypted, or nothing is sent (session.py, Z2K-5007); the login with which executors read
ZooKeeper (sent_login.py). What this package imports has to be installed for their Python.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

from msgspec.structs import replace
from pyspark import SparkContext

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


@dataclass(frozen=True, slots=True)
class SentFile:
    """The bytes of a file of the driver's, for tasks. No executor writes them down: what a rehearsal read begins with
    the key of its fingerprints.
    """

    content: bytes = field(repr=False)

    def path(self) -> str:
        """Where this process finds it, as long as it lives."""
        name = blake2b(self.content, digest_size=16).hexdigest()
        if name not in _in_memory:
            _in_memory[name] = memory = os.memfd_create(name)
            with open(memory, "wb", closefd=False) as file:
                file.write(self.content)
        return f"/proc/self/fd/{_in_memory[name]}"


_in_memory: dict[str, int] = {}
