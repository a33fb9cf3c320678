"""List the log directories of a broker on its own host, while it runs or after.

In:   its log directories.
Out:  the lines of a listing (disk_listing.py), one after the other; one partition is in memory at a time.
Elsewhere: reading and judging a listing (disk_listing.py, disks.py).
Rules: nothing is written, and nothing but small files and the names and sizes of segments is read. A symbolic link in a
log directory is not followed: it is told as not read. What a broker that runs deletes meanwhile is left out.
Source: Kafka 3.9 `LocalLog.parseTopicPartitionName`, `PartitionMetadataFile`, `CheckpointFile.read`,
`MetaProperties`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import javaproperties
import msgspec

from migrator.audit.brokers.disk_listing import (
    VERSION,
    ListedReplica,
    ListingEnd,
    ListingHead,
    ListingLine,
    LogDirectory,
    LogState,
)
from migrator.audit.tiered.lineage import CHECKPOINT, METADATA, checkpoint_entries
from migrator.findings.audit import LOG_DIRECTORY_UNUSABLE
from migrator.findings.finding import words_of

META_PROPERTIES: Final = "meta.properties"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"

FILE_BYTES_MAX: Final = 16 << 20
"""A checkpoint of half a million leader epochs; none comes near it."""

_REPLICA: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})(?:\.[a-zA-Z0-9_-]+-(delete|future|stray))?")
_SEGMENT: Final = re.compile(r"(\d{20})\.log")


def list_disks(directories: Sequence[Path], now_ms: int) -> Iterator[ListingLine]:
    """Yield the lines of one listing.

    Raises Z2K-5014, before any line, for what is no log directory, and for one that is named twice. What cannot be read
    in one is a `problem` of its line.
    """
    _refuse_others(directories)
    yield ListingHead(VERSION, now_ms)
    lines = 0
    for number, each in enumerate(directories):
        for line in _directory(number, each):
            lines += 1
            yield line
    yield ListingEnd(lines)


def _refuse_others(directories: Sequence[Path]) -> None:
    """A disk that is broken is one of the broker's, and told as such later."""
    places = set()
    for each in directories:
        try:
            found = each.stat()
            if not (each / META_PROPERTIES).is_file():
                raise FileNotFoundError(f"there is no {META_PROPERTIES} in it")
        except (FileNotFoundError, NotADirectoryError) as error:
            raise LOG_DIRECTORY_UNUSABLE.error(directory=str(each), reason=words_of(error)) from error
        except OSError:
            continue
        if (found.st_dev, found.st_ino) in places:
            raise LOG_DIRECTORY_UNUSABLE.error(directory=str(each), reason="it is named twice")
        places.add((found.st_dev, found.st_ino))


def _directory(number: int, path: Path) -> Iterator[LogDirectory | ListedReplica]:
    told = LogDirectory(number, str(path.absolute()))
    with ExitStack() as stack:
        try:
            at = stack.enter_context(_opened(str(path), follow=True))
            entries = stack.enter_context(os.scandir(at))
        except OSError as error:
            yield msgspec.structs.replace(told, problem=words_of(error))
            return
        yield _identified(told, at)
        try:
            for replica, entry in _replicas(number, entries):
                found = _replica(replica, entry, at)
                if found is not None:
                    yield found
        except OSError as error:  # without its last line a listing counts for nothing
            raise LOG_DIRECTORY_UNUSABLE.error(directory=told.path, reason=words_of(error)) from error


def _replicas(number: int, entries: Iterator[os.DirEntry[str]]) -> Iterator[tuple[ListedReplica, os.DirEntry[str]]]:
    for entry in entries:
        name = _REPLICA.fullmatch(entry.name)
        if name is not None:
            yield ListedReplica(number, name[1], int(name[2]), LogState(name[3] or LogState.CURRENT)), entry


def _identified(told: LogDirectory, at: int) -> LogDirectory:
    try:
        said = javaproperties.loads(_small_file(META_PROPERTIES, at).decode("latin-1"))
        broker = int(said.get("node.id", said.get("broker.id", "-1")))
    except (OSError, ValueError) as error:
        return msgspec.structs.replace(told, problem=f"{META_PROPERTIES}: {words_of(error)}")
    try:
        written = os.stat(HIGH_WATERMARKS, dir_fd=at, follow_symlinks=False).st_mtime_ns // 1_000_000
    except FileNotFoundError:
        written = -1
    except OSError as error:
        return msgspec.structs.replace(told, problem=f"{HIGH_WATERMARKS}: {words_of(error)}")
    return msgspec.structs.replace(
        told,
        broker=broker,
        cluster_id=said.get("cluster.id", ""),
        directory_id=said.get("directory.id", ""),
        written_at_ms=written,
    )


def _replica(replica: ListedReplica, entry: os.DirEntry[str], at: int) -> ListedReplica | None:
    """None: it is no directory, or is gone by now."""
    if entry.is_symlink():
        return msgspec.structs.replace(replica, problem="it is a symbolic link, which is not followed")
    if not entry.is_dir(follow_symlinks=False):
        return None
    try:
        with _opened(entry.name, at) as inside:
            return _read(replica, inside)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return msgspec.structs.replace(replica, problem=words_of(error))


def _read(replica: ListedReplica, inside: int) -> ListedReplica:
    """Raises OSError, and ValueError for files that are not Kafka's."""
    bases, size = [], 0
    with os.scandir(inside) as entries:
        for entry in entries:
            segment = _SEGMENT.fullmatch(entry.name)
            if segment is not None and entry.is_file(follow_symlinks=False):
                bases.append(int(segment[1]))
                size += entry.stat(follow_symlinks=False).st_size
    version, topic_id = _metadata(inside)
    epochs = _epochs(inside)
    epoch, start = epochs[-1] if epochs else (-1, -1)
    return msgspec.structs.replace(
        replica,
        topic_id=topic_id,
        metadata_version=version,
        epochs=len(epochs),
        epoch=epoch,
        epoch_start=start,
        first=min(bases, default=-1),
        last=max(bases, default=-1),
        segments=len(bases),
        bytes=size,
    )


def _metadata(inside: int) -> tuple[int, str]:
    try:
        text = _small_file(METADATA, inside).decode()
    except FileNotFoundError:
        return -1, ""
    said = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
    if not said.get("version", "").isdecimal() or not said.get("topic_id"):
        raise ValueError(f"{METADATA} names no version and topic_id")
    return int(said["version"]), said["topic_id"]


def _epochs(inside: int) -> list[tuple[int, int]]:
    """An empty file has none: Kafka leaves it so until a leader has an epoch."""
    try:
        text = _small_file(CHECKPOINT, inside).decode()
    except FileNotFoundError:
        return []
    if not text:
        return []
    try:
        return checkpoint_entries(text)
    except ValueError as error:
        raise ValueError(f"{CHECKPOINT}: {error}") from error


@contextmanager
def _opened(name: str, at: int | None = None, *, follow: bool = False) -> Iterator[int]:
    """A directory to read. follow: the operator named it, so it may be a symbolic link."""
    opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | (0 if follow else os.O_NOFOLLOW), dir_fd=at)
    try:
        yield opened
    finally:
        os.close(opened)


def _small_file(name: str, at: int) -> bytes:
    """Raises OSError, and ValueError for one that is no small, regular file."""
    opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    with open(opened, "rb", buffering=0) as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_BYTES_MAX:
            raise ValueError(f"{name} is no file, or is larger than {FILE_BYTES_MAX >> 20} MiB")
        return file.read(FILE_BYTES_MAX)
