"""The directories of a node: formatting, identity, election state, and the marks that outlive a crash.

In:   directories and values. Out: files in Kafka's own formats, each replaced atomically and on disk when the call
      returns.
Elsewhere: the log itself (log_store.py).
Rules: an empty or foreign directory is never formatted by itself (R-595-10).
Source: Kafka 3.9 `Formatter`, `MetaProperties`, `FileQuorumStateStore`, `BootstrapDirectory`.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Final

import javaproperties
import msgspec

from migrator.findings.quorum import DIRECTORY_LOCKED, DIRECTORY_UNUSABLE
from migrator.raft.types import ElectionState

LOG_NAME: Final = "__cluster_metadata-0"
META_PROPERTIES: Final = "meta.properties"
BOOTSTRAP: Final = "bootstrap.checkpoint"
QUORUM_STATE: Final = "quorum-state"


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Who a directory belongs to. `directory_id` is Kafka's text form of 16 bytes, None when never given."""

    cluster_id: str
    node_id: int
    directory_id: str | None = None


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file so that after a crash it holds either the old bytes or the new ones, whole."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class DirectoryLock:
    """Kafka's `.lock`: one process per directory, stock or ours."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / ".lock"
        self._file: IO[bytes] | None = None

    def acquire(self) -> None:
        file = self._path.open("ab")
        try:
            # The JVM's FileChannel.tryLock is a POSIX record lock, so this excludes a stock controller too.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise DIRECTORY_LOCKED.error(directory=str(self._path.parent)) from error
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


# --- meta.properties --------------------------------------------------------------------------------------


def read_meta_properties(directory: Path) -> MetaProperties:
    """Raises Z2K-3012 when the directory is missing, not formatted, or formatted for something else."""
    path = directory / META_PROPERTIES
    try:
        found = javaproperties.loads(path.read_bytes().decode("latin-1"))
    except OSError as error:
        raise DIRECTORY_UNUSABLE.error(directory=str(directory), reason=f"no {META_PROPERTIES} in it") from error
    except ValueError as error:
        reason = f"{META_PROPERTIES} cannot be read: {error}"
        raise DIRECTORY_UNUSABLE.error(directory=str(directory), reason=reason) from error
    version = found.get("version", "0")
    node_key = "node.id" if version == "1" else "broker.id"
    is_number = re.fullmatch("[0-9]{1,10}", found.get(node_key, ""))
    if version not in ("0", "1") or not found.get("cluster.id") or not is_number:
        raise DIRECTORY_UNUSABLE.error(directory=str(directory), reason=f"{META_PROPERTIES} cannot be read")
    return MetaProperties(found["cluster.id"], int(found[node_key]), found.get("directory.id"))


def write_meta_properties(directory: Path, meta: MetaProperties) -> None:
    lines = ["#", f"cluster.id={meta.cluster_id}", "version=1"]
    if meta.directory_id is not None:
        lines.append(f"directory.id={meta.directory_id}")
    lines.append(f"node.id={meta.node_id}")
    write_durably(directory / META_PROPERTIES, ("\n".join(lines) + "\n").encode())


def new_directory_id() -> str:
    """A random id in Kafka's text form; ids that begin with a dash are avoided, as Kafka does."""
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def identify(directories: Sequence[Path], node_id: int) -> MetaProperties:
    """Read the identity of all directories; they must agree with each other and with the configuration."""
    found = [(directory, read_meta_properties(directory)) for directory in directories]
    first_directory, first = found[0]
    for directory, meta in found:
        if meta.cluster_id != first.cluster_id:
            reason = f"cluster.id {meta.cluster_id} differs from {first.cluster_id} in {first_directory}"
            raise DIRECTORY_UNUSABLE.error(directory=str(directory), reason=reason)
        if meta.node_id != node_id:
            reason = f"it belongs to node {meta.node_id}, the configuration says node.id={node_id}"
            raise DIRECTORY_UNUSABLE.error(directory=str(directory), reason=reason)
    return first


# --- formatting -------------------------------------------------------------------------------------------


def format_directory(directory: Path, cluster_id: str, node_id: int, bootstrap: bytes) -> None:
    """Make an unformatted directory usable: bootstrap records first, identity last (as Kafka's tool)."""
    directory.mkdir(parents=True, exist_ok=True)
    write_durably(directory / BOOTSTRAP, bootstrap)
    write_meta_properties(directory, MetaProperties(cluster_id, node_id, new_directory_id()))


def refuse_later_format(directory: Path) -> None:
    """Raises Z2K-3012 for a metadata directory that the storage tool of Kafka 4.4 or later formatted.

    It writes the first records as a snapshot of offset 0 in place of `bootstrap.checkpoint`. Stock 3.9 takes such a
    log for one that was made in KRaft mode, so nothing can be migrated to it.
    """
    first = directory / LOG_NAME / f"{0:020}-{0:010}.checkpoint"
    if not (directory / BOOTSTRAP).exists() and first.exists():
        reason = f"no {BOOTSTRAP} in it, and a snapshot of offset 0: the tool of Kafka 4.4 or later formatted it"
        raise DIRECTORY_UNUSABLE.error(directory=str(directory), reason=reason)


def is_formatted(directory: Path) -> bool:
    return (directory / META_PROPERTIES).is_file()


# --- quorum-state -----------------------------------------------------------------------------------------


_NodeOrNone = Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]


class _QuorumState(msgspec.Struct, rename="camel"):
    """`quorum-state` at data version 0, static voters (names are Kafka's)."""

    leader_id: _NodeOrNone
    leader_epoch: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    voted_id: _NodeOrNone
    applied_offset: int
    cluster_id: str
    current_voters: list[dict[str, int]]
    data_version: int = msgspec.field(name="data_version")


def read_election_state(log_directory: Path) -> ElectionState:
    """What was promised before the last stop. A directory that never took part holds no file: epoch 0, no vote."""
    path = log_directory / QUORUM_STATE
    if not path.exists():
        return ElectionState()
    first_line = path.read_bytes().split(b"\n", 1)[0]
    try:
        version = json.loads(first_line).get("data_version")
        if version == 1:
            reason = "its quorum has dynamic voters (kraft.version 1), which are not supported"
            raise DIRECTORY_UNUSABLE.error(directory=str(log_directory), reason=reason)
        found = msgspec.json.decode(first_line, type=_QuorumState)
    except (ValueError, AttributeError, RecursionError) as error:
        reason = f"{QUORUM_STATE} cannot be read: {error}"
        raise DIRECTORY_UNUSABLE.error(directory=str(log_directory), reason=reason) from error
    return ElectionState(found.leader_epoch, found.leader_id, found.voted_id)


def write_election_state(log_directory: Path, state: ElectionState, voters: Sequence[int]) -> None:
    """Write it to the disk before this returns: only then may an answer that depends on it leave."""
    line = json.dumps(
        {
            "clusterId": "",
            "leaderId": state.leader,
            "leaderEpoch": state.epoch,
            "votedId": state.voted_for,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in voters],
            "data_version": 0,
        },
        separators=(",", ":"),
    )
    write_durably(log_directory / QUORUM_STATE, line.encode())


# --- the end of a log -------------------------------------------------------------------------------------


class RetiredMark:
    """The file beside a log that was rolled back to ZooKeeper: with it no process leads or serves the log again.

    The log carries the same words for every voter (`Mark.RETIRED`); the file is what a start looks at.
    """

    NAME: Final = "zk2kraft-handed-back"

    def __init__(self, directory: Path) -> None:
        self._path = directory / self.NAME

    def write(self, text: str) -> None:
        write_durably(self._path, text.encode() + b"\n")

    def read(self) -> str | None:
        return self._path.read_text().strip() if self._path.exists() else None
