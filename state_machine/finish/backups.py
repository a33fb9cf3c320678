"""What is kept before each gate: an export of ZooKeeper, the metadata log, and the files of all nodes.

In:   a snapshot and its fleet. Out: a directory that only the owner can read; its path and checksum for the database.
Elsewhere: the export's form (migrator.zk.backup), when one is taken (acts_after_dual_write.py).
Rules: metadata logs are evidence and never put back under a voter. Files may hold secrets: the directory has mode 0700
and its files 0600. The checksum is that of `SHA256SUMS`, which names every file. With a key, the whole is one encrypted
file (encrypted_archive.py), outside of the database, which has its path and checksum.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from concurrent.futures import wait
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from migrator.findings.finding import FindingError, words_of
from migrator.findings.road import BACKUP_FAILED, FILES_NOT_READ
from migrator.fleet.secrets import resolve
from migrator.zk.backup import export
from migrator.zk.pipeline import CONSIDERATE
from migrator.zk.session import ZkSession
from state_machine.finish.encrypted_archive import write_archive
from state_machine.nodes.calls import HostCalls
from state_machine.nodes.fleet import Fleet
from state_machine.rows.store import Snapshot

LOG: Final = "__cluster_metadata-0"
NOT_READ: Final = "NOT_READ"
"""Beside the files of nodes: those that were not read, with the reason."""
SUMS: Final = "SHA256SUMS"
CLEAR: Final = ".clear"
"""Ends the name of a directory that is about to be encrypted."""


@dataclass(frozen=True, slots=True)
class Taken:
    directory: str
    sha256: str
    size_bytes: int


def take_backup(
    snapshot: Snapshot, fleet: Fleet, home: Path, phase: str, key: str = "", calls: HostCalls | None = None
) -> Taken:
    """Blocks. Raises Z2K-4214. phase: the step before which it is taken.

    key: reference of the secret that encrypts it; then it is one file, and its checksum that of the file.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    directory = home / f"{phase}-{stamp}{CLEAR if key else ''}"
    try:
        _sweep(home)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.chmod(directory, 0o700)
        with ZkSession(snapshot.inventory.zookeeper) as session:
            export(session, directory / "zookeeper.json.gz", CONSIDERATE)
        _copy_logs(snapshot, directory / "metadata-log")
        _copy_files(fleet, directory / "files", time.time(), calls)
        taken = _summed_up(directory)
        return _encrypted(directory, key) if key else taken
    except (OSError, FindingError, shutil.Error) as error:
        shutil.rmtree(directory, ignore_errors=True)  # what is left of it, the sweep before the next one takes away
        raise BACKUP_FAILED.error(phase=phase, reason=words_of(error)) from error


def _encrypted(directory: Path, key: str) -> Taken:
    file = directory.with_suffix(".backup")
    try:
        sha256, size = write_archive(directory, file, resolve(key))
    finally:
        shutil.rmtree(directory)
    return Taken(str(file), sha256, size)


def _sweep(home: Path) -> None:
    """Remove what a backup left that was killed before it was whole; the road takes that backup again."""
    for each in home.glob(f"*{CLEAR}"):
        shutil.rmtree(each)
    for each in home.glob(f"*-{'[0-9]' * 8}T{'[0-9]' * 6}Z"):
        if each.is_dir() and not (each / SUMS).exists():
            shutil.rmtree(each)
    for each in home.glob("*.part"):
        each.unlink()


def _copy_logs(snapshot: Snapshot, target: Path) -> None:
    """Copy the log of every controller on this machine. A live log may end torn; its readers know that."""
    for entry in snapshot.inventory.controllers:
        if entry.is_remote:
            continue
        source = Path(entry.data) / LOG if (Path(entry.data) / LOG).is_dir() else Path(entry.data)
        if not any(source.glob("*.log")):
            continue
        into = target / str(entry.node_id)
        into.mkdir(parents=True, exist_ok=True, mode=0o700)
        for each in source.iterdir():
            if each.suffix in (".log", ".checkpoint") or each.name in ("quorum-state", "leader-epoch-checkpoint"):
                try:
                    shutil.copyfile(each, into / each.name)
                except FileNotFoundError:
                    continue  # a snapshot or segment that was removed meanwhile


def _copy_files(fleet: Fleet, target: Path, now: float, calls: HostCalls | None = None) -> None:
    """A file that cannot be read stops the backup, unless it is waived; `NOT_READ` then says why."""
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    with nullcontext(calls) if calls is not None else closing(HostCalls("backup")) as threads:
        begun = [(node, threads.begin(node.node.host, partial(node.actuator.read, node.path))) for node in fleet.nodes]
        wait([call.result for _, call in begun])
    for node, call in begun:
        try:
            content: bytes | None = call.result.result()
        except FindingError as error:
            waivers = [each for each in fleet.inventory.waivers if each.what == FILES_NOT_READ.code]
            if not any(each.node in (node.id, None) and now < each.end.timestamp() for each in waivers):
                raise
            with (target / NOT_READ).open("a") as out:
                out.write(f"{node.name}: {node.path}: {error.occurrence.text}\n")
            continue
        if content is None:
            continue  # the gate names files that are not read
        file = target / f"{node.role}-{node.id}.properties"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(content)


def _summed_up(directory: Path) -> Taken:
    lines, size = [], 0
    for file in sorted(each for each in directory.rglob("*") if each.is_file() and each.name != SUMS):
        file.chmod(0o600)
        digest = hashlib.sha256()
        with file.open("rb") as content:
            while chunk := content.read(1 << 20):
                digest.update(chunk)
                size += len(chunk)
        lines.append(f"{digest.hexdigest()}  {file.relative_to(directory)}\n")
    text = "".join(lines)
    (directory / SUMS).write_text(text)
    return Taken(str(directory), hashlib.sha256(text.encode()).hexdigest(), size)
