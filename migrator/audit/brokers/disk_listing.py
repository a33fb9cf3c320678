"""A listing of the disks of one broker: what is in its log directories, in a small file that can be carried elsewhere.

In:   lines that `zk2kraft log disks` wrote on the broker's host: JSON, each line one struct of this module.
Out:  a `DiskListing`, or Z2K-5013.
Elsewhere: writing it (list_disks.py), comparing it with the log (disks.py).
Rules: the last line says how many there are, so a listing that was cut off is refused. A broker that runs writes its
high watermarks every 5 s: what a stopped one has on its disks is of the time when it last did.
Source: Kafka 3.9 `ReplicaManager.checkpointHighWatermarks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from migrator.audit.normalise import partition_key
from migrator.findings.audit import DISK_LISTING_UNUSABLE
from migrator.findings.finding import words_of

VERSION: Final = 1
LINE_BYTES_MAX: Final = 1 << 16
"""A topic's name has at most 249 characters, a path 4,096."""

RUNS_MS: Final = 15_000
"""A broker whose high watermarks are not older than this was running when it was listed: it writes them every 5 s."""


class LogState(StrEnum):
    """What the name of a replica's directory says: Kafka appends why it is not the replica itself."""

    CURRENT = "current"
    FUTURE = "future"
    DELETED = "delete"
    STRAY = "stray"


class ListingHead(msgspec.Struct, frozen=True, tag_field="line", tag="listing"):
    """The first line. listed_at_ms: when the listing began, by the clock of the broker's host."""

    version: int
    listed_at_ms: int


class LogDirectory(msgspec.Struct, frozen=True, tag_field="line", tag="directory"):
    """A log directory, as its meta.properties names it.

    number: of this directory in this listing. broker: its node.id or broker.id; -1 where it has none.
    directory_id: "" before Kafka 3.7. written_at_ms: of its newest file of high watermarks; -1 without one.
    problem: why it, or a part of it, could not be listed.
    """

    number: int
    path: str
    broker: int = -1
    cluster_id: str = ""
    directory_id: str = ""
    written_at_ms: int = -1
    problem: str = ""


class ListedReplica(msgspec.Struct, frozen=True, tag_field="line", tag="replica"):
    """A directory of a partition. directory: the number of the log directory that it is in.

    topic_id, metadata_version: of partition.metadata; "" and -1 without such a file.
    epochs: how many entries leader-epoch-checkpoint has. epoch, epoch_start: the last one and its first offset; -1
    without one.
    first, last: base offsets of segments; -1 without one. bytes: of all segments, without indexes.
    problem: why it could not be read.
    """

    directory: int
    topic: str
    partition: int
    state: LogState = LogState.CURRENT
    topic_id: str = ""
    metadata_version: int = -1
    epochs: int = 0
    epoch: int = -1
    epoch_start: int = -1
    first: int = -1
    last: int = -1
    segments: int = 0
    bytes: int = 0
    problem: str = ""

    @property
    def key(self) -> str:
        return partition_key(self.topic, self.partition)


class ListingEnd(msgspec.Struct, frozen=True, tag_field="line", tag="end"):
    """The last line. lines: how many directories and replicas are before it."""

    lines: int


ListingLine = ListingHead | LogDirectory | ListedReplica | ListingEnd
_LINE: Final = msgspec.json.Decoder(ListingLine)


@dataclass(frozen=True, slots=True)
class DiskListing:
    """replicas: by partition. listed_at_ms: when it was made. as_of_ms: when the broker last worked on these disks.

    file: where it was read from, for messages.
    """

    file: str
    broker: int
    listed_at_ms: int
    as_of_ms: int
    directories: list[LogDirectory]
    replicas: dict[str, list[ListedReplica]]

    def path_of(self, replica: ListedReplica) -> str:
        return self.directories[replica.directory].path


def read_listing(file: Path) -> DiskListing:
    """Read the file as a whole: of a broker with 10,000 replicas it has 2.6 MB. Raises Z2K-5013."""
    try:
        with open(file, "rb") as opened:
            return _listing(str(file), _lines(opened))
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise DISK_LISTING_UNUSABLE.error(file=str(file), reason=words_of(error)) from error


def read_listings(files: list[Path]) -> list[DiskListing]:
    """Raises Z2K-5013, also where two are of one broker."""
    found: dict[int, DiskListing] = {}
    for file in files:
        each = read_listing(file)
        other = found.setdefault(each.broker, each)
        if other is not each:
            reason = f"it is of broker {each.broker}, as {other.file} is"
            raise DISK_LISTING_UNUSABLE.error(file=str(file), reason=reason)
    return list(found.values())


def _lines(opened: BinaryIO) -> Iterator[ListingLine]:
    while line := opened.readline(LINE_BYTES_MAX + 1):
        if len(line) > LINE_BYTES_MAX:
            raise ValueError("a line is longer than any of a listing")
        yield _LINE.decode(line)


def _listing(file: str, lines: Iterator[ListingLine]) -> DiskListing:
    """Raises ValueError."""
    head = next(lines, None)
    if not isinstance(head, ListingHead):
        raise ValueError("its first line is none of a listing of disks")
    if head.version != VERSION:
        raise ValueError(f"it has version {head.version}, and this release reads version {VERSION}")
    directories: list[LogDirectory] = []
    replicas: dict[str, list[ListedReplica]] = {}
    for count, line in enumerate(lines):
        match line:
            case LogDirectory() if line.number == len(directories):
                directories.append(line)
            case ListedReplica() if line.directory == len(directories) - 1:
                replicas.setdefault(line.key, []).append(line)
            case ListingEnd() if line.lines == count and next(lines, None) is None:
                return _whole(file, head, directories, replicas)
            case _:
                raise ValueError(f"line {count + 2} does not follow on the lines before it")
    raise ValueError("it ends before its last line")


def _whole(
    file: str, head: ListingHead, directories: list[LogDirectory], replicas: dict[str, list[ListedReplica]]
) -> DiskListing:
    broker = next((each.broker for each in directories if each.broker >= 0), -1)
    if broker < 0:
        raise ValueError("no directory in it has a meta.properties that says of which broker it is")
    written = max(each.written_at_ms for each in directories)
    runs = written < 0 or head.listed_at_ms - written <= RUNS_MS
    as_of = head.listed_at_ms if runs else written
    return DiskListing(file, broker, head.listed_at_ms, as_of, directories, replicas)
