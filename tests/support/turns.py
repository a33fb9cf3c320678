"""Turns on one machine: tests that only wait run beside each other, tests about time run alone.

In:   a directory that all workers of one pytest run share.
Out:  a context in which a test may run.
Elsewhere: which tests are about time (the marker `alone`), how many workers there are (`make test`).
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(directory: Path, *, alone: bool) -> Iterator[None]:
    """Wait until this test may run, and run it. Locks of the kernel: a killed worker holds nothing.

    Whoever waits for the floor stands in the door, so that a test that must be alone is not overtaken for ever.
    """
    with (directory / "door.lock").open("a") as door, (directory / "floor.lock").open("a") as floor:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(floor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield
