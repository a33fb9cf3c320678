"""Helpers: executables of the operator that stand in for config providers whose classes are Java.

In:   `zk2kraft.config.providers.NAME.exec` of a properties file, and the provider's parameters there.
Out:  for a path, and the keys that placeholders name there: the values.
Elsewhere: Kafka's own classes, and placeholders (providers.py); the bounds of a command (commands/bounded.py).
Errors: Z2K-3024: it may not be run, or did not answer as it has to. Nothing that it printed on standard output is in a
message; the first line of its standard error is, where its exit code is not 0.
Rules: no shell and no arguments of the operator's. It gets PATH and KEY... as words, the parameters as variables, and
three variables of this process. Only root and the user of this process can have written the executable, its directory
(also that of a link to it), and the properties file: whoever can write one of them says what runs here.
Source: docs/drop-in.md, "A helper for another provider".
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from migrator.commands.bounded import CommandFailed, CommandTooLoud, CommandTooSlow, run_command
from migrator.commands.ownership import why_foreign
from migrator.findings.finding import words_of
from migrator.findings.quorum import CONFIG_HELPER_NOT_USABLE

PREFIX: Final = "zk2kraft.config.providers."
SUFFIX: Final = ".exec"
_KEY: Final = re.compile(f"{re.escape(PREFIX)}(.+){re.escape(SUFFIX)}")
LIMIT_S: Final = 10.0
OUTPUT_BYTES_MAX: Final = 1 << 20
"""As a file of Kafka's own classes (providers.py)."""
PASSED: Final = ("PATH", "HOME", "LANG")
KEPT_S: Final = 10.0
"""The service reads the files of all its controllers twice a second while one of them does not answer."""
FIRST_LINE_MAX: Final = 200
NO_OBJECT: Final = "it did not print one JSON object whose values are strings"


@dataclass(frozen=True, slots=True)
class Helper:
    """file, key: where it is named, for messages. environment: all that it gets."""

    file: str
    key: str
    executable: str
    environment: Mapping[str, str] = field(repr=False)

    def values(self, path: str, keys: Collection[str]) -> dict[str, str]:
        """What it answers for this path; a key may be missing. Raises Z2K-3024."""
        answer = _RECENT.answer((self.executable, path, *keys), self.environment)
        values = None if isinstance(answer, CommandFailed) else _parsed(answer)
        if values is None:
            reason = _reason(answer) if isinstance(answer, CommandFailed) else NO_OBJECT
            where = f"run for {path}" if path else "run without a path"
            raise CONFIG_HELPER_NOT_USABLE.error(
                file=self.file, key=self.key, value=self.executable, reason=f"{where}: {reason}"
            )
        return values


def _parsed(answer: bytes) -> dict[str, str] | None:
    """None in place of an exception, which would have a part of the answer in it."""
    try:
        return msgspec.json.decode(answer, type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def helper_key(provider: str) -> str:
    return f"{PREFIX}{provider}{SUFFIX}"


def helped(key: str) -> str | None:
    """The name of the provider that has a helper by this key; None for every other key."""
    found = _KEY.fullmatch(key)
    return None if found is None else found[1]


def find_helper(
    file: str, provider: str, given: Mapping[str, str], environment: Mapping[str, str], foreign: str | None
) -> Helper:
    """The helper of a provider that has its key, looked at but not run. Raises Z2K-3024.

    foreign: why others than the operator may have written the properties file.
    """
    key = helper_key(provider)
    written = given[key].strip()
    try:
        if foreign is not None:
            raise ValueError(f"it names a command, and {foreign}")
        _check(written)
        variables = _variables(provider, given)
    except (OSError, ValueError) as error:
        reason = str(error) if isinstance(error, ValueError) else words_of(error)
        raise CONFIG_HELPER_NOT_USABLE.error(file=file, key=key, value=written, reason=reason) from None
    own = {name: environment[name] for name in PASSED if name in environment}
    return Helper(file, key, written, {**own, **variables})


def _check(executable: str) -> None:
    """Raises ValueError, OSError."""
    if not os.path.isabs(executable):
        raise ValueError("it is not an absolute path")
    try:
        found = os.stat(executable)
    except FileNotFoundError:
        raise ValueError("there is no such file (it is a path, without arguments)") from None
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no regular file")
    real = Path(os.path.realpath(executable))
    for directory in dict.fromkeys((Path(executable).parent, real.parent)):
        if reason := why_foreign(os.stat(directory), str(directory)):
            raise ValueError(reason)
    if reason := why_foreign(found, str(real)):
        raise ValueError(reason)
    if not os.access(executable, os.X_OK, effective_ids=True):
        raise ValueError("the user of this process may not execute it")


def _variables(provider: str, given: Mapping[str, str]) -> dict[str, str]:
    """`config.providers.NAME.param.vault.addr` is PARAM_VAULT_ADDR. Raises ValueError where two would be one."""
    prefix = f"config.providers.{provider}.param."
    found: dict[str, str] = {}
    for key, value in given.items():
        if key.startswith(prefix):
            name = "PARAM_" + re.sub(r"[^A-Za-z0-9]", "_", key.removeprefix(prefix)).upper()
            if name in found:
                raise ValueError(f"two parameters of the provider would be the variable {name}")
            found[name] = value.strip()
    return found


def _reason(error: CommandFailed) -> str:
    match error:
        case CommandTooSlow():
            return f"it did not end in {LIMIT_S:g} s"
        case CommandTooLoud():
            return f"it printed more than {OUTPUT_BYTES_MAX} bytes"
    if error.exit_code is None:
        return str(error)
    lines = ("".join(filter(str.isprintable, " ".join(line.split()))) for line in error.errors.splitlines())
    first = next(filter(None, lines), "")
    return f"exit code {error.exit_code}{': ' if first else ''}{first[:FIRST_LINE_MAX]}"


class _Recent:
    """What helpers answered in the last seconds, so that who reads a file again and again does not run them again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[object, tuple[float, bytes | CommandFailed]] = {}

    def answer(self, words: tuple[str, ...], environment: Mapping[str, str]) -> bytes | CommandFailed:
        call = (words, frozenset(environment.items()))
        with self._lock:
            now = time.monotonic()
            self._kept = {each: kept for each, kept in self._kept.items() if now - kept[0] < KEPT_S}
            if call in self._kept:
                return self._kept[call][1]
        answer = _run(words, environment)
        with self._lock:
            self._kept[call] = (time.monotonic(), answer)
        return answer


def _run(words: tuple[str, ...], environment: Mapping[str, str]) -> bytes | CommandFailed:
    try:
        return run_command(
            words, limit_s=LIMIT_S, output_bytes_max=OUTPUT_BYTES_MAX, environment=environment, passed=()
        ).stdout
    except CommandFailed as error:
        return error


_RECENT: Final = _Recent()
