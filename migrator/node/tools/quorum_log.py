"""A metadata log to read for one command: the directory that was named, or that of a copy.

Elsewhere: copying a running quorum's (log_of_quorum.py). An audit of a directory needs nothing of that module, which
brings a tenth of a second of others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class QuorumLog:
    """confirm: returns once the copy has all that the quorum had when it was called. Raises Z2K-4117."""

    directory: Path
    confirm: Callable[[], None]
