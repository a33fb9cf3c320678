"""Secrets by reference: where one is, not what it is.

In:   `file:PATH`, `exec:COMMAND ARGUMENT...`, `systemd:NAME`.
Out:  the secret, read at the moment of use. Its text is in no message, representation or argument vector.
Errors: Z2K-7010. A reference is safe to store and to show; a resolved secret is not stored.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from migrator.commands.bounded import CommandFailed, run_command
from migrator.findings.finding import words_of
from migrator.findings.fleet import SECRET_NOT_RESOLVED

REFERENCE: Final = re.compile(r"(file:/[^\x00-\x1f]+|exec:/[^\x00-\x1f]+|systemd:[A-Za-z0-9_.\-]+)\Z")
"""Absolute paths only: what the service's working directory is must not decide which file is read."""
SECRET_BYTES_MAX: Final = 65_536
COMMAND_LIMIT_S: Final = 20.0


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A resolved secret; `reveal()` where it is used, and nowhere else."""

    _value: str

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(hidden)"


def is_reference(text: str) -> bool:
    return REFERENCE.match(text) is not None


def resolve(reference: str, environment: Mapping[str, str] = os.environ) -> Secret:
    """Read the secret now; one line end at its end is not part of it. Raises Z2K-7010."""
    kind, _, rest = reference.partition(":")
    try:
        if not is_reference(reference):
            raise ValueError("it is not file:/PATH, exec:/COMMAND or systemd:NAME")
        content = _read(kind, rest, environment)
        text = content.decode()
    except CommandFailed as error:  # what it said may have the secret in it
        reason = str(error) if error.exit_code is None else f"the command ended with exit code {error.exit_code}"
        raise SECRET_NOT_RESOLVED.error(reference=_without_arguments(reference), reason=reason) from None
    except (OSError, ValueError) as error:
        reason = "it is no text" if isinstance(error, UnicodeDecodeError) else words_of(error)
        raise SECRET_NOT_RESOLVED.error(reference=_without_arguments(reference), reason=reason) from None
    if not text.removesuffix("\n").removesuffix("\r"):
        raise SECRET_NOT_RESOLVED.error(reference=_without_arguments(reference), reason="it is empty")
    return Secret(text.removesuffix("\n").removesuffix("\r"))


def _read(kind: str, rest: str, environment: Mapping[str, str]) -> bytes:
    match kind:
        case "file":
            return _file(Path(rest))
        case "systemd":
            directory = environment.get("CREDENTIALS_DIRECTORY")
            if not directory:
                raise ValueError("CREDENTIALS_DIRECTORY is not set, so systemd gave this service no credentials")
            return _file(Path(directory) / rest)
        case _:
            words = shlex.split(rest)
            return run_command(words, limit_s=COMMAND_LIMIT_S, output_bytes_max=SECRET_BYTES_MAX).stdout


def _file(path: Path) -> bytes:
    """A regular file that not everybody may read."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would be waited for
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is no regular file")
        if found.st_mode & stat.S_IROTH:
            raise ValueError("every user may read it (chmod o-r)")
        content = file.read(SECRET_BYTES_MAX + 1)
    if len(content) > SECRET_BYTES_MAX:
        raise ValueError(f"it is larger than {SECRET_BYTES_MAX} bytes")
    return content


def _without_arguments(reference: str) -> str:
    """Arguments of a command may say more than they should."""
    return reference.split(" ", 1)[0] if reference.startswith(("file:", "exec:", "systemd:")) else "(hidden)"
