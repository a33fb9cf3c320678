"""Leader epochs of a partition beside those of its copied segments: where a new leader goes on, what it never finds.

In:   a copy of a broker's log directory; finished segments with their epochs.
Out:  of each partition its epochs; the highest copied offset, as a new leader looks for it; offsets of the partition's
own history that no segment has.
Elsewhere: the segments (segments.py).
Source: KIP-405 (R-405-04); Kafka 3.9 `RemoteLogManager.findHighestRemoteOffset`, `LeaderEpochFileCache.endOffsetFor`,
`LeaderEpochCheckpointFile`, `PartitionMetadataFile`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.finding import words_of

CHECKPOINT: Final = "leader-epoch-checkpoint"
METADATA: Final = "partition.metadata"
END: Final = 2**63 - 1
"""The end of the newest epoch: only the broker knows how far its log goes."""

_PARTITION: Final = re.compile(r".+-(\d+)")


class EpochRange(NamedTuple):
    """Offsets from `start` on, up to but without `end`, were written by the leader of this epoch."""

    epoch: int
    start: int
    end: int


class Copied(NamedTuple):
    """The highest copied offset of a partition's own history. epoch: of the leader that wrote it."""

    offset: int
    epoch: int


Lineage = Sequence[EpochRange]
"""Ascending; the last one is open."""


def read_lineages(broker: Path) -> Mapping[tuple[str, int], Lineage]:
    """The leader epochs of each partition, by topic id and number. broker: a copy of a log directory.

    Raises Z2K-5001.
    """
    found = {}
    for directory in sorted(broker.iterdir()) if broker.is_dir() else ():
        name = _PARTITION.fullmatch(directory.name)
        if name and (directory / CHECKPOINT).is_file() and (directory / METADATA).is_file():
            found[_topic_id(directory / METADATA), int(name[1])] = read_checkpoint(directory / CHECKPOINT)
    if not found:
        reason = f"no partition with {CHECKPOINT} and {METADATA} is in it"
        raise AUDIT_CANNOT_READ.error(what=str(broker), reason=reason)
    return found


def _topic_id(file: Path) -> str:
    for line in _lines(file):
        name, _, value = line.partition(":")
        if name.strip() == "topic_id" and value.strip():
            return value.strip()
    raise AUDIT_CANNOT_READ.error(what=str(file), reason="it names no topic_id")


def read_checkpoint(file: Path) -> Lineage:
    """Version 0 of the file. Raises Z2K-5001."""
    try:
        pairs = checkpoint_entries(file.read_text())
    except (OSError, ValueError) as error:
        raise AUDIT_CANNOT_READ.error(what=str(file), reason=words_of(error)) from error
    ends = [start for _, start in pairs[1:]] + [END]
    return [EpochRange(epoch, start, end) for (epoch, start), end in zip(pairs, ends, strict=False)]


def checkpoint_entries(text: str) -> list[tuple[int, int]]:
    """How many entries, then an epoch and its first offset in each line. Raises ValueError."""
    try:
        version, count, *entries = [line for line in text.splitlines() if line.strip()]
        pairs = [(int(epoch), int(offset)) for epoch, offset in map(str.split, entries)]
        well = version == "0" and len(pairs) == int(count)
    except ValueError:
        well, pairs = False, []
    if not well or any(one[0] >= other[0] or one[1] > other[1] for one, other in pairwise(pairs)):
        raise ValueError("it is no checkpoint of ascending leader epochs")
    return pairs


def _lines(file: Path) -> list[str]:
    try:
        return [line for line in file.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise AUDIT_CANNOT_READ.error(what=str(file), reason=words_of(error)) from error


def highest_copied(lineage: Lineage, copied: Iterable[EpochRange]) -> Copied | None:
    """Looks from the newest epoch backwards, as a new leader does before it copies anything.

    copied: of every segment that was ever finished, each of its epochs with its offsets there; one that was deleted
    since counts, too.
    """
    highest: dict[int, int] = {}
    for each in copied:
        highest[each.epoch] = max(highest.get(each.epoch, -1), each.end - 1)
    for epoch, _, end in reversed(lineage):
        if epoch in highest:
            return Copied(min(highest[epoch], end - 1), epoch)
    return None


def not_covered(lineage: Lineage, finished: Iterable[EpochRange]) -> Iterator[EpochRange]:
    """Offsets of this history between the first and the last that segments have, which none of them has."""
    parts = sorted(finished, key=lambda each: each.start)
    own = [
        EpochRange(epoch, max(start, part.start), min(end, part.end))
        for epoch, start, end in lineage
        for part in parts
        if part.epoch == epoch and max(start, part.start) < min(end, part.end)
    ]
    reached: int | None = None
    for epoch, start, end in own:
        if reached is not None and start > reached:
            yield EpochRange(epoch, reached, start)
        reached = end if reached is None else max(reached, end)


def is_of(lineage: Lineage, part: EpochRange) -> bool:
    """Whether any offset of a segment's epoch is this partition's, by epoch and offset."""
    return any(each.epoch == part.epoch and part.start < each.end and each.start < part.end for each in lineage)
