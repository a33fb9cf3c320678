"""Commands about tiered storage: what a copy of `__remote_log_metadata` says, and what became of it since.

In:   what the command line read. Out: an exit code, and text or JSON on standard output.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from api.commands.output import print_json
from migrator.findings.finding import FindingError
from migrator.model.printable import printable, printable_lines

if TYPE_CHECKING:
    from migrator.audit.tiered.against import RemoteComparison, RemoteDifference
    from migrator.audit.tiered.segments import RemoteReport

NOT_READ: Final = 2


def check_tiered(
    directories: list[Path],
    zookeeper: str | None,
    kraft: Path | None,
    broker: Path | None,
    against: Path | None,
    *,
    as_json: bool,
) -> int:
    """0: every segment's states follow, and offsets have no gap and one history; with `against`, everything is still
    there. 1: something does not fit, or is other than before. 2: something cannot be read, so nothing is known.
    """
    from migrator.audit.tiered.against import compare_with
    from migrator.audit.tiered.segments import check_remote_segments
    from migrator.audit.tiered.topic_ids import sides_of

    try:
        found = check_remote_segments(directories, sides_of(zookeeper, kraft), broker)
        compared = None if against is None else compare_with(against, found)
    except FindingError as error:
        print(printable_lines(f"{error}\n{error.occurrence.finding.remedy}"), file=sys.stderr)
        return NOT_READ
    shown = found if compared is None else compared
    if as_json:
        print_json(shown)
    else:
        lines = _report_lines(found) if compared is None else _comparison_lines(compared)
        for line in lines:
            print(printable(line))
    return shown.exit_code


def _report_lines(found: RemoteReport) -> Iterator[str]:
    for each in found.partitions:
        states = ", ".join(f"{count} {state}" for state, count in each.states.items()) or "no segment"
        reach = f", offsets {each.first} to {each.last}" if each.last >= 0 else ""
        overlaps = f", {each.overlaps} overlaps" if each.overlaps else ""
        yield f"{each.topic}-{each.partition} (id {each.topic_id}): {states}{reach}{overlaps}"
        if each.copied >= 0:
            yield f"  a new leader goes on behind offset {each.copied} of leader epoch {each.copied_epoch}"
        for problem in each.problems:
            yield f"  DOES NOT FIT: {problem}"
        for waits in each.waiting:
            yield (
                f"  to clean up: segment {waits.segment}, offsets {waits.start} to {waits.end}, {waits.bytes:,} bytes: "
                f"{waits.why} (broker {waits.broker}, {_time_text(waits.since_ms)})"
            )
    for name in found.deleting:
        yield f"deletion is not over: {name}"


def _comparison_lines(found: RemoteComparison) -> Iterator[str]:
    for each in found.partitions:
        later = f", {each.went_on} went on ({each.deleted} of them to their deletion)" if each.went_on else ""
        yield f"{each.topic}-{each.partition} (id {each.topic_id}): {each.same} as before{later}, {each.new} new"
    for difference in found.differences:
        yield f"DIFFERS: {difference_text(difference)}"
    end = "something is not as it has to be" if found.differences else "all of them are there"
    yield f"{found.compared} segments before: {end}"


def difference_text(each: RemoteDifference) -> str:
    """One difference in words."""
    from migrator.audit.tiered.against import RemoteChange

    place = f"{each.topic}-{each.partition} (id {each.topic_id})"
    segment = f"{place}: segment {each.segment}"
    match each.kind:
        case RemoteChange.LOST:
            return f"{segment} is lost; it was {each.before}"
        case RemoteChange.MOVED:
            return f"{segment} is now of topic id and partition {each.after}"
        case RemoteChange.CHANGED:
            return f"{segment}: its {each.what} was {each.before} and is {each.after}"
        case RemoteChange.GONE_BACK:
            return f"{segment} went back from {each.before} to {each.after}"
        case RemoteChange.TOPIC_ID:
            now = f"{each.topic} has id {each.after} now" if each.after else "no topic has this id any more"
            return f"{place}: {now}, and {each.count} segments are not being deleted"
        case RemoteChange.DOES_NOT_FIT:
            return f"{place}: {each.what}"


def _time_text(time_ms: int) -> str:
    """UTC; the bare number where no calendar has it. A record may say anything."""
    try:
        return datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
