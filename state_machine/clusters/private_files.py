"""Files that only this user may read, and files that others may have put where we read.

In:   paths.
Out:  bytes of a regular file, never more than asked for, never by waiting; files 0600 whatever was there.
Errors: OSError, also for a pipe, a device or a directory.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700


def read_regular(path: Path, bytes_max: int) -> bytes:
    """The whole of a regular file. A pipe would keep the reader waiting for ever: it is refused instead."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if found.st_size > bytes_max:
            raise OSError(errno.EFBIG, f"it has {found.st_size} bytes, more than {bytes_max}", str(path))
        return file.read(bytes_max)


def write_private(path: Path, content: bytes) -> None:
    """Replace the file by one that only this user reads, whatever was there."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        draft.unlink()
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.replace(draft, path)


def close_to_others(directory: Path, *files: str) -> None:
    """0700 for a directory of ours, 0600 for those of its files that exist."""
    directory.mkdir(parents=True, exist_ok=True, mode=PRIVATE_DIRECTORY)
    directory.chmod(PRIVATE_DIRECTORY)
    for name in files:
        with suppress(FileNotFoundError):
            (directory / name).chmod(PRIVATE)
