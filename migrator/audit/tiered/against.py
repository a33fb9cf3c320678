"""Segments in tiered storage now, against those of an earlier report: is everything that was there still there?

In:   a kept report (`zk2kraft log tiered --json`), and a later one of the same partitions of `__remote_log_metadata`.
Out:  how many segments are as they were, went on to a later state, or are new; what differs, each with both values.
Elsewhere: the reports (segments.py).
Rules: a segment may go on from copied to deleted, and nothing else of it may change. A topic id that no side knows any
more is a deletion, which has to have begun at each of its segments. What did not fit before is no difference.
Source: KIP-405 (R-405-07); Kafka 3.9 `RemoteLogSegmentState.isValidTransition`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from migrator.audit.tiered.segments import FOLLOWS, RemotePartition, RemoteReport, RemoteSegment
from migrator.findings.audit import REMOTE_REPORT_UNUSABLE
from migrator.findings.finding import words_of
from migrator.wire.messages.remote_log import RemoteSegmentState

DELETION: Final = frozenset(
    {RemoteSegmentState.DELETE_SEGMENT_STARTED.name, RemoteSegmentState.DELETE_SEGMENT_FINISHED.name}
)
SAME_FOR_EVER: Final = ("start", "end", "epochs", "bytes")


class RemoteChange(StrEnum):
    """What is other than it may be.

    LOST: the segment is nowhere. MOVED: it is under another topic id or partition. CHANGED: its offsets, epochs or size
    are. GONE_BACK: its state is an earlier one. TOPIC_ID: no side knows the topic id any more, and segments of it are
    not being deleted. DOES_NOT_FIT: a problem of the partition that it did not have before, such as a conflict.
    """

    LOST = "lost"
    MOVED = "moved"
    CHANGED = "changed"
    GONE_BACK = "gone back"
    TOPIC_ID = "topic id"
    DOES_NOT_FIT = "does not fit"


class RemoteDifference(msgspec.Struct, frozen=True):
    """segment: its id; "" for the partition. what: which field, or the problem. before, after: its values; "": none.

    count: of a topic id, how many segments are not being deleted.
    """

    kind: RemoteChange
    topic: str
    topic_id: str
    partition: int
    segment: str = ""
    what: str = ""
    before: str = ""
    after: str = ""
    count: int = 0


class PartitionAgainst(msgspec.Struct, frozen=True):
    """Segments of one partition. same: with the state that they had. went_on: to a later one; deleted: those of them
    whose deletion was begun since. new: copied since.
    """

    topic: str
    topic_id: str
    partition: int
    same: int
    went_on: int
    deleted: int
    new: int


class RemoteComparison(msgspec.Struct, frozen=True):
    """compared: segments that the earlier report has."""

    compared: int
    partitions: list[PartitionAgainst]
    differences: list[RemoteDifference]

    @property
    def exit_code(self) -> int:
        """0: everything is still there; 1: something is not."""
        return int(bool(self.differences))


Key = tuple[str, int]
"""Topic id and partition."""


def read_report(file: Path) -> RemoteReport:
    """What `zk2kraft log tiered --json` printed. Raises Z2K-5012."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=RemoteReport)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise REMOTE_REPORT_UNUSABLE.error(file=str(file), reason=words_of(error)) from error


def compare_with(file: Path, now: RemoteReport) -> RemoteComparison:
    """Whether all that a kept report says is still so. now: read later.

    Raises Z2K-5012 where the file cannot be read, or where less of the topic was read than for it.
    """
    before = read_report(file)
    _refuse_less(file, before, now)
    then, later = _by_key(before), _by_key(now)
    places = {segment.segment: key for key, each in later.items() for segment in each.segments}
    ids = {each.topic: each.topic_id for each in now.partitions if each.known}
    differences: list[RemoteDifference] = []
    for key, each in then.items():
        differences += _lost_or_other(each, later.get(key), places)
        differences += _id_gone(each, later.get(key), ids)
    for key, each in later.items():
        old = then[key].problems if key in then else []
        differences += [_of(each, RemoteChange.DOES_NOT_FIT, text) for text in each.problems if text not in old]
    partitions = [_counted(then.get(key), each) for key, each in later.items()]
    return RemoteComparison(sum(len(each.segments) for each in then.values()), partitions, differences)


def _refuse_less(file: Path, before: RemoteReport, now: RemoteReport) -> None:
    """A copy that lacks a part would look as if segments were lost."""
    for number, end in sorted(before.read.items()):
        reached = now.read.get(number)
        if reached is None:
            reason = f"it has partition {number} of __remote_log_metadata, and no copy of that one is given"
            raise REMOTE_REPORT_UNUSABLE.error(file=str(file), reason=reason)
        if reached < end:
            reason = f"it has {end} offsets of partition {number} of __remote_log_metadata, and the copy has {reached}"
            raise REMOTE_REPORT_UNUSABLE.error(file=str(file), reason=reason)


def _by_key(report: RemoteReport) -> Mapping[Key, RemotePartition]:
    return {(each.topic_id, each.partition): each for each in report.partitions}


def _of(
    partition: RemotePartition,
    kind: RemoteChange,
    what: str,
    *,
    segment: str = "",
    before: str = "",
    after: str = "",
    count: int = 0,
) -> RemoteDifference:
    place = (partition.topic, partition.topic_id, partition.partition)
    return RemoteDifference(kind, *place, segment, what, before, after, count)


def _lost_or_other(
    before: RemotePartition, now: RemotePartition | None, places: Mapping[str, Key]
) -> Iterator[RemoteDifference]:
    found = {} if now is None else {each.segment: each for each in now.segments}
    for each in before.segments:
        after = found.get(each.segment)
        if after is not None:
            yield from _other(before, each, after)
        elif (place := places.get(each.segment)) is not None:
            was, known = f"{before.topic_id} {before.partition}", f"{place[0]} {place[1]}"
            yield _of(before, RemoteChange.MOVED, "place", segment=each.segment, before=was, after=known)
        else:
            yield _of(before, RemoteChange.LOST, "state", segment=each.segment, before=each.state)


def _other(partition: RemotePartition, before: RemoteSegment, after: RemoteSegment) -> Iterator[RemoteDifference]:
    for name in SAME_FOR_EVER:
        was, now = getattr(before, name), getattr(after, name)
        if was != now:
            yield _of(partition, RemoteChange.CHANGED, name, segment=before.segment, before=f"{was}", after=f"{now}")
    if not may_become(before.state, after.state):
        was, now = before.state, after.state
        yield _of(partition, RemoteChange.GONE_BACK, "state", segment=before.segment, before=was, after=now)


def may_become(before: str, after: str) -> bool:
    """Whether a state may follow another one, in one step or several."""
    reached, grown = set[RemoteSegmentState](), {RemoteSegmentState[before]}
    while grown - reached:
        reached |= grown
        grown = {state for each in reached for state in FOLLOWS[each]}
    return RemoteSegmentState[after] in reached


def _id_gone(
    before: RemotePartition, now: RemotePartition | None, ids: Mapping[str, str]
) -> Iterator[RemoteDifference]:
    """A topic was deleted, and perhaps made again: then brokers delete each of its segments. Or its id was lost."""
    if now is None or now.known is not False or before.known is False:
        return
    left = sum(each.state not in DELETION for each in now.segments)
    if left:
        after = ids.get(before.topic, "")
        yield _of(before, RemoteChange.TOPIC_ID, "topic id", before=before.topic_id, after=after, count=left)


def _counted(before: RemotePartition | None, now: RemotePartition) -> PartitionAgainst:
    then = {} if before is None else {each.segment: each.state for each in before.segments}
    pairs = [(then[each.segment], each.state) for each in now.segments if each.segment in then]
    return PartitionAgainst(
        now.topic,
        now.topic_id,
        now.partition,
        same=sum(was == state for was, state in pairs),
        went_on=sum(was != state and may_become(was, state) for was, state in pairs),
        deleted=sum(was not in DELETION and state in DELETION for was, state in pairs),
        new=len(now.segments) - len(pairs),
    )
