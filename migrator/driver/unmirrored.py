"""Things of the log that cannot be written to ZooKeeper: each is named, and all the rest is written.

In:   what is to be written, one job for each thing.
Out:  the operations of those that can be, and by name those that cannot, with the reason.
Elsewhere: the operations themselves (mirror.py), who reports it (node.driver.driver_node), that it bars the
rollback (node.driver.rollback).
Rule: one request reaches every voter, so an unforeseen change must not end the planning: each successor
would end of it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from migrator.findings.finding import words_of
from migrator.zk.multi import Operation

Make = Callable[[], list[Operation]]


@dataclass(frozen=True, slots=True)
class Unmirrored:
    """One thing that the log has, or has no more, and that cannot be written to ZooKeeper.

    subject: what a delta calls it; it is planned anew when it changes.
    """

    family: str
    key: str
    reason: str
    subject: Hashable = None


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to write."""

    family: str
    key: str
    subject: Hashable
    make: Make


def attempted(
    attempt: Callable[[Make], list[Operation]], jobs: Iterable[Job]
) -> tuple[list[list[Operation]], tuple[Unmirrored, ...]]:
    """attempt: makes the operations of a job, or raises and remembers nothing of it."""
    groups: list[list[Operation]] = []
    unmirrored: list[Unmirrored] = []
    for job in jobs:
        try:
            groups.append(attempt(job.make))
        except Exception as error:
            reason = words_of(error)
            unmirrored.append(Unmirrored(job.family, job.key, reason, job.subject))
    return groups, tuple(unmirrored)
