"""Segments in tiered storage, as `__remote_log_metadata` tells them: each one's state, and what does not fit together.

In:   directories of partitions of that topic, copied from a broker's disk; which topic has which id, where it is known.
Out:  for each partition of each topic id: how many segments in which state, what waits to be cleaned up, and problems.
Elsewhere: the records (wire/messages/remote_log.py), the command that shows it (`zk2kraft log tiered`).
Rules: all records of one topic-id-partition lie in one partition of the topic, in order. A state that cannot follow is
a problem, and so are offsets that no finished segment has between two that have, and two that tell other histories of
one offset. Overlaps of one history are legal: a new leader copies what a dead one had begun.
Source: KIP-405 (R-405-01, 02, 03, 04, 06); Kafka 3.9 `RemoteLogSegmentState.isValidTransition`.
"""

from __future__ import annotations

import base64
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from migrator.audit.log_plan import batch_headers
from migrator.audit.tiered.lineage import (
    Copied,
    EpochRange,
    Lineage,
    highest_copied,
    is_of,
    not_covered,
    read_lineages,
)
from migrator.audit.zk_source import topic_names, topic_reads
from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.finding import FindingError, words_of
from migrator.wire.batch_header import TornBatchError
from migrator.wire.loose_batch import read_loose_batch
from migrator.wire.messages.remote_log import (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    RemoteRecord,
    RemoteSegmentState,
    decode_remote_record,
)
from migrator.zk.pipeline import CONSIDERATE
from migrator.zk.session import ZkSession

TOPIC: Final = "__remote_log_metadata"

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
    said: RemoteLogSegmentMetadataRecord
    state: RemoteSegmentState
    since_ms: int
    was_finished: bool = False

    @property
    def offsets(self) -> tuple[int, int]:
        return self.said.start_offset, self.said.end_offset

    @property
    def parts(self) -> list[EpochRange]:
        """Its offsets by leader epoch."""
        epochs = list(self.said.segment_leader_epochs)
        ends = [each.offset for each in epochs[1:]] + [self.said.end_offset + 1]
        return [EpochRange(each.leader_epoch, each.offset, end) for each, end in zip(epochs, ends, strict=True)]

    def epoch_at(self, offset: int) -> int:
        """The epoch of the leader that wrote this offset, by the segment; -1 where it does not say."""
        found = -1
        for each in self.said.segment_leader_epochs:
            if each.offset <= offset:
                found = each.leader_epoch
        return found


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
    copied: int = -1
    copied_epoch: int = -1


class RemoteReport(msgspec.Struct, frozen=True):
    """records: of the topic. deleting: partitions of ids that no topic has, whose segments are not all deleted."""

    records: int
    partitions: list[RemotePartition]
    deleting: list[str]

    @property
    def exit_code(self) -> int:
        """0: everything fits; 1: something does not."""
        return int(any(each.problems for each in self.partitions))


def check_remote_segments(
    directories: Iterable[Path], topics: Mapping[str, str] | None = None, broker: Path | None = None
) -> RemoteReport:
    """directories: of partitions, or that hold some. topics: names by id; None: not known. broker: a copy of a log
    directory, whose leader epochs are compared (lineage.py). Raises Z2K-5001.
    """
    fold = _Fold({} if broker is None else read_lineages(broker))
    for directory in _partitions(list(directories)):
        for record in read_remote_log(directory):
            fold.take(record)
    partitions = [fold.partition(each, topics) for each in sorted(fold.segments)]
    deleting = [
        f"{each.topic}-{each.partition} (id {each.topic_id})"
        for each in partitions
        if topics is not None and each.topic_id not in topics and set(each.states) - {DELETED.name}
    ]
    return RemoteReport(fold.records, partitions, deleting)


def topics_by_id(zookeeper: str) -> dict[str, str]:
    """Names of a cluster's topics by their ids, as ZooKeeper has them. A topic without an id is left out.

    Raises Z2K-5001 for a topic that cannot be read: its segments would look like those of a deleted one.
    """
    with ZkSession(zookeeper) as session:
        rows = [each.topic for each in topic_reads(session, topic_names(session), CONSIDERATE)]
    for each in rows:
        if each.problem:
            raise AUDIT_CANNOT_READ.error(what=f"topic {each.key}", reason=each.problem)
    return {str(each.facts["id"]): each.key for each in rows if each.facts is not None and each.facts["id"]}


def _partitions(directories: list[Path]) -> list[Path]:
    found = []
    for each in directories:
        below = sorted(each.glob(f"{TOPIC}-*")) if not each.name.startswith(f"{TOPIC}-") else [each]
        if not below:
            raise AUDIT_CANNOT_READ.error(what=str(each), reason=f"there is no directory {TOPIC}-N in it")
        found += below
    return found


def read_remote_log(directory: Path) -> Iterator[RemoteRecord]:
    """The records of one partition of the topic, in order. A torn batch at the very end is a writer at work."""
    segments = sorted(each for each in directory.glob("*.log") if each.stem.isdecimal())
    if not segments:
        raise AUDIT_CANNOT_READ.error(what=str(directory), reason="there is no segment in it")
    for path in segments:
        try:
            yield from _records(path)
        except TornBatchError as error:
            if path != segments[-1]:
                raise AUDIT_CANNOT_READ.error(what=str(path), reason=words_of(error)) from error
        except (OSError, FindingError) as error:
            raise AUDIT_CANNOT_READ.error(what=str(path), reason=words_of(error)) from error


def _records(path: Path) -> Iterator[RemoteRecord]:
    """Batch by batch: a segment may be as large as the broker's `log.segment.bytes`."""
    with open(path, "rb", buffering=0) as file:
        for position, header in batch_headers(path):
            _, records = read_loose_batch(os.pread(file.fileno(), header.size, position))
            if not header.is_control:
                yield from (decode_remote_record(each.value) for each in records if each.value is not None)


class _Fold:
    """What the records add up to."""

    def __init__(self, lineages: Mapping[tuple[str, int], Lineage] = MappingProxyType({})) -> None:
        self.records = 0
        self._lineages = lineages
        self.segments: defaultdict[tuple[str, str, int], dict[bytes, _Segment]] = defaultdict(dict)
        self._problems: defaultdict[tuple[str, str, int], list[str]] = defaultdict(list)

    def take(self, record: RemoteRecord) -> None:
        self.records += 1
        match record:
            case RemoteLogSegmentMetadataRecord() | RemoteLogSegmentMetadataUpdateRecord():
                place = record.segment.topic_id_partition
                self._state(record, (place.name, _text(place.id), place.partition))
            case RemotePartitionDeleteMetadataRecord():
                place = record.topic_id_partition
                self.segments.setdefault((place.name, _text(place.id), place.partition), {})
            case _:
                raise AUDIT_CANNOT_READ.error(what=TOPIC, reason="it holds a record of a broker's own snapshot")

    def _state(
        self, record: RemoteLogSegmentMetadataRecord | RemoteLogSegmentMetadataUpdateRecord, key: tuple[str, str, int]
    ) -> None:
        segments, name = self.segments[key], _text(record.segment.id)
        known = segments.get(record.segment.id)
        if record.state not in set(RemoteSegmentState):
            self._problems[key].append(f"segment {name} has state {record.state}, which Kafka does not have")
            return
        state = RemoteSegmentState(record.state)
        before = None if known is None else known.state
        if state not in FOLLOWS[before]:
            came = "nothing" if before is None else before.name
            self._problems[key].append(f"segment {name}: {state.name} follows {came}")
        if isinstance(record, RemoteLogSegmentMetadataRecord):
            segments[record.segment.id] = _Segment(record, state, record.event_timestamp_ms)
        elif known is not None:
            known.state, known.since_ms = state, record.event_timestamp_ms
            known.was_finished |= state is FINISHED

    def partition(self, key: tuple[str, str, int], topics: Mapping[str, str] | None) -> RemotePartition:
        name, topic_id, number = key
        segments = list(self.segments[key].values())
        there = sorted((each for each in segments if each.state is not DELETED), key=lambda each: each.offsets)
        finished = [each for each in there if each.state is FINISHED]
        overlapping = list(_overlapping(there))
        lineage = self._lineages.get((topic_id, number))
        gaps = _gaps(finished) if lineage is None else _gaps_of(lineage, finished)
        problems = [*self._problems[key], *gaps]
        copied = None if lineage is None else _copied(lineage, segments)
        conflicts = [text for one, other in overlapping if (text := _conflict(one, other)) is not None]
        called = None if topics is None else topics.get(topic_id)
        if called is not None and called != name:
            problems.append(f"the cluster calls topic id {topic_id} {called}")
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
            copied=-1 if copied is None else copied.offset,
            copied_epoch=-1 if copied is None else copied.epoch,
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
    said = segment.said
    return UncleanedSegment(
        _text(said.segment.id),
        why,
        segment.since_ms,
        said.segment_size_in_bytes,
        said.broker_id,
        *segment.offsets,
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
    begins = {each.offset for segment in (one, other) for each in segment.said.segment_leader_epochs}
    for offset in sorted({first, *(each for each in begins if first <= each <= last)}):
        if one.epoch_at(offset) != other.epoch_at(offset):
            names = f"{_text(one.said.segment.id)} and {_text(other.said.segment.id)}"
            return f"segments {names} have offset {offset} of other leader epochs"
    return None


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
