"""Power that fails: under everything that writes files below one directory, what was not synced can be lost.

In:   a directory; while it is at work, every call of `os` that changes a file or a name below it is a step.
Out:  at the step that was chosen the power fails (`PowerCut`, and nothing works afterwards); what the disk holds then.
The rules are those of POSIX, not of one file system: the bytes of a file are safe when it was synced, a name is safe
when its directory was synced, and of the rest anything may be there. `Remains` names the kinds of rest that are tried.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from typing import Any

import pytest


class PowerCut(BaseException):
    """Nothing of this process goes on."""


class Remains(Enum):
    """What is there of what was not synced."""

    NOTHING = auto()
    EVERYTHING = auto()
    NAMES = auto()
    """Renames, new and removed files are there, and none of their unsynced bytes."""
    BYTES = auto()
    """The bytes of each file are there, under the names that were synced."""
    HALVES = auto()
    """As NAMES, with the first half of what was appended to each file."""


class Power:
    """At work inside `watching`; may go on through several lives of a process."""

    def __init__(self, directory: Path, graveyard: Path) -> None:
        self.directory = directory
        self.steps = 0
        self.cut_at: int | None = None
        self.is_cut = False
        self._bytes: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}
        self._graveyard = graveyard
        self._lock = threading.RLock()
        self._found: dict[Remains, dict[Path, bytes | None]] = {}
        graveyard.mkdir()

    @contextmanager
    def watching(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with monkeypatch.context() as patched:
            for name, path_of, after in (
                ("fsync", _of_descriptor, self._synced),
                ("pwrite", _of_descriptor, None),
                ("ftruncate", _of_descriptor, None),
                ("replace", lambda source, target: Path(target), None),
                ("unlink", lambda path, **_: Path(path), None),
            ):
                patched.setattr(os, name, self._watched(getattr(os, name), path_of, after))
            yield

    def settle(self) -> None:
        """What is there now was there before: all of it is safe."""
        for directory, _, files in os.walk(self.directory):
            self._names[Path(directory)] = {each.name: each.inode() for each in os.scandir(directory)}
            for name in files:
                path = Path(directory, name)
                self._keep_inode(path)
                self._bytes[path.stat().st_ino] = path.read_bytes()

    def fail(self) -> None:
        """Now, and not at a step."""
        self.cut_at = self.steps
        with suppress(PowerCut):
            self._step()

    def _watched(
        self, act: Callable[..., Any], path_of: Callable[..., Path], after: Callable[[int], None] | None
    ) -> Callable[..., Any]:
        def watched(*given: Any, **named: Any) -> Any:
            path = path_of(*given, **named)
            if not path.is_relative_to(self.directory):
                return act(*given, **named)
            with self._lock:
                self._step()
                if after is None and path.is_file():
                    self._keep_inode(path)
                result = act(*given, **named)
                if after is not None:
                    after(given[0])
                return result

        return watched

    def _step(self) -> None:
        if self.steps == self.cut_at and not self.is_cut:
            self.is_cut = True
            self._found = {remains: self._state(remains) for remains in Remains}
        if self.is_cut:
            raise PowerCut
        self.steps += 1

    def _synced(self, descriptor: int) -> None:
        path = _of_descriptor(descriptor)
        if path.is_dir():
            self._names[path] = {each.name: each.inode() for each in os.scandir(path)}
            for each in path.iterdir():
                if each.is_file():
                    self._keep_inode(each)
            return
        if path.exists():
            self._keep_inode(path)
        self._bytes[os.fstat(descriptor).st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    def _keep_inode(self, path: Path) -> None:
        """Its number is not given to another file, and its bytes can be read when its name is gone."""
        kept = self._graveyard / str(path.stat().st_ino)
        if not kept.exists():
            os.link(path, kept)

    # --- what is left --------------------------------------------------------------------------------------

    def restore(self, remains: Remains, to: Path) -> None:
        """Write what the disk holds after the cut."""
        to.mkdir(parents=True)
        for path, data in sorted(self._found[remains].items()):
            target = to / path.relative_to(self.directory)
            if data is None:
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.write_bytes(data)

    def _state(self, remains: Remains) -> dict[Path, bytes | None]:
        found: dict[Path, bytes | None] = {}
        self._add(found, self.directory, remains)
        return found

    def _add(self, found: dict[Path, bytes | None], directory: Path, remains: Remains) -> None:
        found[directory] = None
        if remains in (Remains.NOTHING, Remains.BYTES):
            names = self._names.get(directory, {})
        else:
            names = {each.name: each.inode() for each in os.scandir(directory)} if directory.is_dir() else {}
        for name, inode in names.items():
            path = directory / name
            if path.is_dir():
                self._add(found, path, remains)
            else:
                found[path] = self._bytes_of(path, inode, remains)

    def _bytes_of(self, path: Path, inode: int, remains: Remains) -> bytes:
        synced = self._bytes.get(inode, b"")
        if remains in (Remains.NOTHING, Remains.NAMES):
            return synced
        kept = self._graveyard / str(inode)
        written = kept.read_bytes() if kept.exists() else path.read_bytes()
        if remains is Remains.HALVES:
            return written[: len(synced) + (len(written) - len(synced)) // 2] if written.startswith(synced) else synced
        return written


def _of_descriptor(descriptor: int, *_: Any) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{descriptor}"))


def emptied(directory: Path) -> Path:
    """The directory, with nothing in it."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory
