"""Whether others than its owner may have written a file that decides what this process runs.

In:   what `stat` found. Out: a reason, in words.
Elsewhere: running it (bounded.py).
"""

from __future__ import annotations

import os
import stat


def why_foreign(found: os.stat_result, name: str) -> str | None:
    """None: only root and the user of this process can have written it. name: the file or directory, for the reason."""
    if found.st_uid not in (os.geteuid(), 0):
        return f"{name} belongs to user {found.st_uid}, neither to root nor to the user of this process"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"users other than its owner may write {name} (mode {stat.S_IMODE(found.st_mode):04o})"
    return None
