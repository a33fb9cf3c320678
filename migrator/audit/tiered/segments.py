"""Segments in tiered storage, as `__remote_log_metadata` tells them: each one's state, and what does not fit together.

In:   directories of partitions of that topic, copied from a broker's disk; which topic has which id, where it is known.
Out:  for each partition of each topic id: its segments, how many in which state, what waits to be cleaned up, and
      problems.
Elsewhere: reading (reader.py), the records (wire/messages/remote_log.py), ids of topics (topic_ids.py), what became of
a report's segments later (against.py), the command that shows it (`zk2kraft log tiered`).
Rules: all records of one topic-id-partition lie in one partition of the topic, in order. A state that cannot follow is
a problem, and so are offsets that no finished segment has between two that have, and two that tell other histories of
one offset. Overlaps of one history are legal: a new leader copies what a dead one had begun.
Source: KIP-405 (R-405-01, 02, 03, 04, 06); Kafka 3.9 `RemoteLogSegmentState.isValidTransition`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from migrator.audit.tiered.lineage import (
    Copied,
    EpochRange,
    Lineage,
    highest_copied,
    is_of,
    not_covered,
    read_lineages,
)
from migrator.audit.tiered.reader import TOPIC, RemoteLogReader, metadata_partitions
from migrator.audit.tiered.topic_ids import Sides, names_of, side_problems
from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.wire.messages.remote_log import (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    RemoteRecord,
    RemoteSegmentState,
    RemoteTopicPartition,
)
from migrator.wire.primitives import uuid_text

NOT_ASKED: Final[Sides] = MappingProxyType({})

STARTED, FINISHED = RemoteSegmentState.COPY_SEGMENT_STARTED, RemoteSegmentState.COPY_SEGMENT_FINISHED
DELETING, DELETED = RemoteSegmentState.DELETE_SEGMENT_STARTED, RemoteSegmentState.DELETE_SEGMENT_FINISHED
FOLLOWS: Final = {
    None: {STARTED},
    STARTED: {STARTED, FINISHED, DELETING},
    FINISHED: {FINISHED, DELETING},
    DELETING: {DELETING, DELETED},
    DELETED: {DELETED},
}
"""Which states may follow one; each may be written again."""

WAITS: Final = {
    STARTED: "its copy was begun and never finished",
    DELETING: "its deletion was begun and never finished",
}


@dataclass(slots=True)
class _Segment:
    """What is kept of it: there may be millions."""

    id: bytes
    offsets: tuple[int, int]
    epochs: tuple[tuple[int, int], ...]
    bytes: int
    broker: int
    state: RemoteSegmentState
    since_ms: int
    was_finished: bool = False

    @property
    def parts(self) -> list[EpochRange]:
        """Its offsets by leader epoch."""
        ends = [offset for _, offset in self.epochs[1:]] + [self.offsets[1] + 1]
        return [EpochRange(epoch, start, end) for (epoch, start), end in zip(self.epochs, ends, strict=True)]

    def as_told(self) -> RemoteSegment:
        return RemoteSegment(uuid_text(self.id), self.state.name, *self.offsets, self.epochs, self.bytes)

    def epoch_at(self, offset: int) -> int:
        """The epoch of the leader that wrote this offset, by the segment; -1 where it does not say."""
        found = -1
        for epoch, start in self.epochs:
            if start <= offset:
                found = epoch
        return found


class RemoteSegment(msgspec.Struct, frozen=True, gc=False):
    """One copy of a segment. segment: its id. state: Kafka's name. epochs: each leader epoch with its first offset."""

    segment: str
    state: str
    start: int
    end: int
    epochs: tuple[tuple[int, int], ...]
    bytes: int


class UncleanedSegment(msgspec.Struct, frozen=True):
    """A segment that somebody has to clean up, or is at it. since_ms: when its broker said so last."""

    segment: str
    why: str
    since_ms: int
    bytes: int
    broker: int
    start: int
    end: int


class RemotePartition(msgspec.Struct, frozen=True):
    """One partition of one topic id.

    states: how many segments, by Kafka's name. first, last: offsets of finished segments; -1 without any.
    copied, copied_epoch: where a new leader finds that copying stands; -1 without a broker's directory, or nothing is
    copied.
    known: whether a side knows the topic id; None: nobody was asked.
    waiting: what was begun and did not end. overlaps: pairs that are legal. problems: what does not fit, in words.
    """

    topic: str
    topic_id: str
    partition: int
    states: dict[str, int]
    first: int
    last: int
    waiting: list[UncleanedSegment]
    overlaps: int
    problems: list[str]
    segments: list[RemoteSegment]
    known: bool | None = None
    copied: int = -1
    copied_epoch: int = -1


class RemoteReport(msgspec.Struct, frozen=True):
    """records: of the topic. read: of each of its partitions that was read, the offset behind the last record.

    deleting: partitions of ids that no topic has, whose segments are not all deleted.
    """

    records: int
    read: dict[int, int]
    partitions: list[RemotePartition]
    deleting: list[str]

    @property
    def exit_code(self) -> int:
        """0: everything fits; 1: something does not."""
        return int(any(each.problems for each in self.partitions))


def check_remote_segments(
    directories: Iterable[Path], sides: Sides = NOT_ASKED, broker: Path | None = None
) -> RemoteReport:
    """directories: of partitions, or that hold some. sides: the cluster's topic ids, where they are known. broker: a
    copy of a log directory, whose leader epochs are compared (lineage.py). Raises Z2K-5001.
    """
    fold = _Fold({} if broker is None else read_lineages(broker))
    read = {}
    for number, directory in metadata_partitions(directories).items():
        reader = RemoteLogReader(directory)
        for record in reader.records():
            fold.take(record)
        read[number] = reader.end
    ordered = sorted(fold.segments, key=lambda key: (key[0], uuid_text(key[1]), key[2]))
    partitions = [fold.partition(each, sides) for each in ordered]
    deleting = [
        f"{each.topic}-{each.partition} (id {each.topic_id})"
        for each in partitions
        if each.known is False and set(each.states) - {DELETED.name}
    ]
    return RemoteReport(fold.records, read, partitions, deleting)


STATES: Final[Mapping[int, RemoteSegmentState]] = {int(each): each for each in RemoteSegmentState}
_Key = tuple[str, bytes, int]
"""Name and id of a topic, partition."""


class _Fold:
    """What the records add up to."""

    def __init__(self, lineages: Mapping[tuple[str, int], Lineage] = MappingProxyType({})) -> None:
        self.records = 0
        self._lineages = lineages
        self.segments: defaultdict[_Key, dict[bytes, _Segment]] = defaultdict(dict)
        self._problems: defaultdict[_Key, list[str]] = defaultdict(list)

    def take(self, record: RemoteRecord) -> None:
        self.records += 1
        match record:
            case RemoteLogSegmentMetadataRecord() | RemoteLogSegmentMetadataUpdateRecord():
                self._state(record, _key(record.segment.topic_id_partition))
            case RemotePartitionDeleteMetadataRecord():
                self.segments.setdefault(_key(record.topic_id_partition), {})
            case _:
                raise AUDIT_CANNOT_READ.error(what=TOPIC, reason="it holds a record of a broker's own snapshot")

    def _state(self, record: RemoteLogSegmentMetadataRecord | RemoteLogSegmentMetadataUpdateRecord, key: _Key) -> None:
        segments, name = self.segments[key], record.segment.id
        known, state = segments.get(name), STATES.get(record.state)
        if state is None:
            said = f"segment {uuid_text(name)} has state {record.state}, which Kafka does not have"
            self._problems[key].append(said)
            return
        before = None if known is None else known.state
        if state not in FOLLOWS[before]:
            came = "nothing" if before is None else before.name
            self._problems[key].append(f"segment {uuid_text(name)}: {state.name} follows {came}")
        if isinstance(record, RemoteLogSegmentMetadataRecord):
            segments[name] = _begun(record, state)
        elif known is not None:
            known.state, known.since_ms = state, record.event_timestamp_ms
            known.was_finished |= state is FINISHED

    def partition(self, key: _Key, sides: Sides) -> RemotePartition:
        """What its segments add up to; once, since nobody needs them in two forms."""
        name, topic_id, number = key[0], uuid_text(key[1]), key[2]
        segments = list(self.segments.pop(key).values())
        there = sorted((each for each in segments if each.state is not DELETED), key=lambda each: each.offsets)
        finished = [each for each in there if each.state is FINISHED]
        overlapping = list(_overlapping(there))
        lineage = self._lineages.get((topic_id, number))
        gaps = _gaps(finished) if lineage is None else _gaps_of(lineage, finished)
        problems = [*self._problems[key], *gaps]
        copied = None if lineage is None else _copied(lineage, segments)
        conflicts = [text for one, other in overlapping if (text := _conflict(one, other)) is not None]
        problems += side_problems(sides, name, topic_id)
        return RemotePartition(
            topic=name,
            topic_id=topic_id,
            partition=number,
            states=dict(sorted(Counter(each.state.name for each in segments).items())),
            first=finished[0].offsets[0] if finished else -1,
            last=max((each.offsets[1] for each in finished), default=-1),
            waiting=[_waiting(each, why) for each in there if (why := _why_it_waits(each, lineage)) is not None],
            overlaps=len(overlapping) - len(conflicts),
            problems=[*problems, *conflicts],
            segments=[each.as_told() for each in sorted(segments, key=lambda each: each.offsets)],
            known=bool(names_of(sides, topic_id)) if sides else None,
            copied=-1 if copied is None else copied.offset,
            copied_epoch=-1 if copied is None else copied.epoch,
        )


def _key(place: RemoteTopicPartition) -> _Key:
    return place.name, place.id, place.partition


def _begun(record: RemoteLogSegmentMetadataRecord, state: RemoteSegmentState) -> _Segment:
    return _Segment(
        record.segment.id,
        (record.start_offset, record.end_offset),
        tuple((each.leader_epoch, each.offset) for each in record.segment_leader_epochs),
        record.segment_size_in_bytes,
        record.broker_id,
        state,
        record.event_timestamp_ms,
    )


def _overlapping(segments: list[_Segment]) -> Iterator[tuple[_Segment, _Segment]]:
    """Pairs that share an offset. segments: by their first offsets."""
    reaching: list[_Segment] = []
    for each in segments:
        reaching = [earlier for earlier in reaching if earlier.offsets[1] >= each.offsets[0]]
        yield from ((earlier, each) for earlier in reaching)
        reaching.append(each)


def _why_it_waits(segment: _Segment, lineage: Lineage | None) -> str | None:
    if segment.state in WAITS:
        return WAITS[segment.state]
    if lineage is not None and not any(is_of(lineage, part) for part in segment.parts):
        return "none of its leader epochs is this partition's: a leader deletes it"
    return None


def _gaps_of(lineage: Lineage, finished: list[_Segment]) -> Iterator[str]:
    for epoch, start, end in not_covered(lineage, [part for each in finished for part in each.parts]):
        yield f"no finished segment has the offsets {start} to {end - 1} before leader epoch {epoch} goes on"


def _copied(lineage: Lineage, segments: list[_Segment]) -> Copied | None:
    return highest_copied(lineage, [part for each in segments if each.was_finished for part in each.parts])


def _waiting(segment: _Segment, why: str) -> UncleanedSegment:
    return UncleanedSegment(
        uuid_text(segment.id), why, segment.since_ms, segment.bytes, segment.broker, *segment.offsets
    )


def _gaps(finished: list[_Segment]) -> Iterator[str]:
    reached: int | None = None
    for each in finished:
        start, end = each.offsets
        if reached is not None and start > reached + 1:
            yield f"no finished segment has the offsets {reached + 1} to {start - 1}"
        reached = end if reached is None else max(reached, end)


def _conflict(one: _Segment, other: _Segment) -> str | None:
    """Two finished copies whose leader epochs say different histories of the same offset."""
    if one.state is not FINISHED or other.state is not FINISHED:
        return None
    first, last = other.offsets[0], min(one.offsets[1], other.offsets[1])
    begins = {start for segment in (one, other) for _, start in segment.epochs}
    for offset in sorted({first, *(each for each in begins if first <= each <= last)}):
        if one.epoch_at(offset) != other.epoch_at(offset):
            names = f"{uuid_text(one.id)} and {uuid_text(other.id)}"
            return f"segments {names} have offset {offset} of other leader epochs"
    return None
